"""`plan`: what the sets in a file would become, asked of the server without changing anything."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import yaml

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.output_formats import document, show
from kohort.cli.actions.resize_preflight import preflight_of_groups
from kohort.cli.connection import DIFFERENT, NOT_YET, REFUSED, Refusal
from kohort.cli.error_messages import described
from kohort.groups.leaderworkerset import KIND, LeaderWorkerSet
from kohort.groups.planned_groups import plan_group
from kohort.inspection.forecast import Forecast, forecast, forecast_lines, three_way
from kohort.inspection.resize_forecast import ResizeMethod
from kohort.inspection.rollout_plan import RolloutForecast, forecast_of_rollout, rollout_lines
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.stored_templates import pods_for_dry_run
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound
from kohort.kube.resources import (
    DEPLOYMENTS,
    HTTP_ROUTES,
    INGRESSES,
    LEADER_WORKER_SETS,
    NODES,
    PODS,
    RELEASE_ANALYSES,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects import bounded_yaml, yaml_errors
from kohort.objects.apps import Deployment, StatefulSet
from kohort.objects.core import Node, Pod
from kohort.objects.counted_nouns import counted
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.forecast_types import ReleaseForecast
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.release_forecast import ClusterRoom, forecast_release
from kohort.rollouts.rollout_types import RELEASED_KINDS, Rollout
from kohort.rules import group_labels
from kohort.rules.rollout_labels import ANALYSIS_NAME, CANARY_SET

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
"""What kubectl takes from a directory."""
_LINTED: Final = {
    one.kind: one
    for one in (
        LEADER_WORKER_SETS,
        DEPLOYMENTS,
        STATEFUL_SETS,
        ROLLOUTS,
        RELEASE_ANALYSES,
        SERVICES,
        INGRESSES,
        HTTP_ROUTES,
    )
}


async def plan(
    client: Client, namespace: str, files: Mapping[str, str], form: str, server_side: bool, code: bool
) -> int:
    """`files` are names with what they hold."""
    sets, foreseen = await planned(client, namespace, files, server_side)
    found = [one.forecast for one in sets]
    if form != "text":
        show([document([*found, *foreseen], form)])
    else:
        show(
            [line for one in found for line in forecast_lines(one)]
            + [line for one in foreseen for line in rollout_lines(one)]
        )
    if not all(map(can_finish, found)):
        return NOT_YET
    changes = [one.action for one in found] + [one.action for one in foreseen]
    return DIFFERENT if code and any(one != "nothing" for one in changes) else 0


class PlannedSet(NamedTuple):
    """What applying one set would do."""

    forecast: Forecast
    before: Snapshot | None
    after: LeaderWorkerSet


async def planned(
    client: Client,
    namespace: str,
    files: Mapping[str, str],
    server_side: bool = False,
    check: Callable[[Sequence[JsonObject]], None] = lambda sets: None,
) -> tuple[list[PlannedSet], list[RolloutForecast]]:
    """What applying these files would do to sets and Rollouts. `check` raises for sets that are not to be planned."""
    read = _read_documents(files)
    documents = [one for file, found in read.items() for one in _released(file, found)]
    sets = [one for one in documents if one["kind"] == KIND]
    rollouts = [one for one in documents if one["kind"] == ROLLOUTS.kind]
    if not sets and not rollouts:
        raise Refusal(_without_sets(read))
    check(sets)
    nodes = await snapshot_reader.list_if_readable(client, NODES, "", Node)
    pods = await snapshot_reader.list_if_readable(client, PODS, "", Pod) if nodes else []
    found = []
    for wanted in sets:
        place = wanted["metadata"].setdefault("namespace", namespace)
        name = wanted["metadata"]["name"]
        live: JsonObject | None = await client.find(LEADER_WORKER_SETS, name, place)
        before = await snapshot_reader.snapshot(client, place, name) if live is not None else None
        try:
            after = await _stored(client, live, wanted, server_side)
        except Invalid as problem:
            raise Refusal(described(problem, place, f"{KIND} {name}")) from problem
        wished = msgspec.convert(after, LeaderWorkerSet)
        found.append(PlannedSet(await forecast_of_set(client, before, wished, nodes, pods), before, wished))
    return found, [await _foreseen(client, namespace, one, documents, server_side, nodes, pods) for one in rollouts]


async def forecast_of_set(
    client: Client, before: Snapshot | None, wished: LeaderWorkerSet, nodes: Sequence[Node], pods: Sequence[Pod]
) -> Forecast:
    """`wished` is the set as the server would store it; nodes and pods are all of the cluster, as far as they can be
    read."""
    stored = await _stored_pods(client, wished.metadata.namespace, wished)
    preflight = await preflight_of_groups(client, before, wished, nodes, pods) if before is not None else None
    return forecast(before, wished, nodes, pods, stored, preflight)


def can_finish(found: Forecast) -> bool:
    """Whether the nodes have the room, no group is refused, and every group that is waited for comes back by itself."""
    if found.room is not None and not found.room.fits:
        return False
    if not all(one.comes_back for one in found.awaited):
        return False
    ways = found.resources.groups if found.resources is not None else ()
    return not any(one.way is ResizeMethod.REFUSED or one.waits_for for one in ways)


async def lint(client: Client, namespace: str, files: Mapping[str, str], form: str) -> int:
    """What the server would refuse in these files, and what is probably not meant; nothing is changed."""
    read = _read_documents(files)
    documents = [one for file, found in read.items() for one in _released(file, found)]
    if not documents:
        raise Refusal(_without_sets(read))
    findings: list[JsonObject] = []
    for one in documents:
        about = f"{one['kind']} {one['metadata']['name']}"
        place = one["metadata"].setdefault("namespace", namespace)
        resource = _LINTED[one["kind"]]
        try:
            live: JsonObject | None = await client.find(resource, one["metadata"]["name"], place)
            await _stored(client, live, one, False, resource)
            texts: Sequence[str] = ()
            if one["kind"] == ROLLOUTS.kind:
                texts = (await _foreseen(client, namespace, one, documents, False)).findings
        except (Invalid, Forbidden, BadRequest, NotFound) as problem:
            texts = [described(problem, place, about)]
        findings += [{"object": about, "finding": text} for text in texts]
    if form != "text":
        show([document(findings, form)])
    else:
        clean = [f"{counted(len(documents), 'object')}, nothing to complain about"]
        show([f"{one['object']}: {one['finding']}" for one in findings] or clean)
    return REFUSED if findings else 0


async def _foreseen(
    client: Client,
    namespace: str,
    wanted: JsonObject,
    documents: Sequence[JsonObject],
    server_side: bool,
    nodes: Sequence[Node] = (),
    pods: Sequence[Pod] = (),
) -> RolloutForecast:
    place, name = wanted["metadata"].setdefault("namespace", namespace), wanted["metadata"]["name"]
    live: JsonObject | None = await client.find(ROLLOUTS, name, place)
    try:
        stored = await _stored(client, live, wanted, server_side, ROLLOUTS)
    except Invalid as problem:
        raise Refusal(described(problem, place, f"Rollout {name}")) from problem
    after = msgspec.convert(stored, Rollout)
    here = [one for one in documents if one["metadata"].get("namespace", namespace) == place]
    known = {(one["kind"], one["metadata"]["name"]): one for one in here}
    ref, routes = after.spec.workload_ref, after.strategy.traffic_routings
    named = [(ref.kind, ref.name), *(("Service", one.service) for one in routes)]
    named += [("Ingress", one.ingress.name) for one in routes if one.ingress is not None]
    named += [("HTTPRoute", one.gateway.http_route_name or "") for one in routes if one.gateway is not None]
    named += [(RELEASE_ANALYSES.kind, after.metadata.annotations.get(ANALYSIS_NAME, ""))]
    for kind, called in named:
        resource = _LINTED.get(kind)
        if (kind, called) in known or resource is None or not called:
            continue
        with suppress(Forbidden, NotFound):
            there: JsonObject | None = await client.find(resource, called, place)
            if there is not None:
                known[kind, called] = there
    workload = known.get((ref.kind, ref.name))
    replicas = (workload.get("spec") or {}).get("replicas", 1) if workload is not None else None
    before = msgspec.convert(live, Rollout) if live is not None else None
    staying = await _without_canary(client, after, place, pods)
    release = _forecast_of_release(after, workload, place, nodes, staying) if workload is not None else None
    return forecast_of_rollout(before, after, replicas, known.keys(), release)


async def _without_canary(client: Client, rollout: Rollout, namespace: str, pods: Sequence[Pod]) -> Sequence[Pod]:
    """The pods of the cluster without those of a canary set: it is gone when the next release begins."""
    ref = rollout.spec.workload_ref
    if not ref.is_group_set or not pods:
        return pods
    found = []
    with suppress(ApiError):
        selector = f"{CANARY_SET}={ref.name}"
        found = (await client.list(LEADER_WORKER_SETS, namespace, label_selector=selector, type=GroupSet)).items
    going = {(namespace, one.metadata.name) for one in found}
    return [one for one in pods if (one.metadata.namespace, one.metadata.labels.get(group_labels.NAME)) not in going]


def _forecast_of_release(
    rollout: Rollout, workload: JsonObject, namespace: str, nodes: Sequence[Node], pods: Sequence[Pod]
) -> ReleaseForecast | None:
    """None for a workload that is refused, and where nodes cannot be read."""
    ref = rollout.spec.workload_ref
    if not nodes or ref.group_kind not in RELEASED_KINDS:
        return None
    placed = {**workload, "metadata": {"namespace": namespace, **workload["metadata"]}}
    room = ClusterRoom(nodes, plan_group)
    try:
        if ref.is_group_set:
            return forecast_release(rollout, msgspec.convert(placed, GroupSet), room, pods)
        if ref.is_stateful_set:
            return forecast_release(rollout, msgspec.convert(placed, StatefulSet), room, pods)
        return forecast_release(rollout, msgspec.convert(placed, Deployment), room, pods)
    except (msgspec.ValidationError, ValueError):
        return None  # the server says what is wrong with it


async def _stored_pods(client: Client, namespace: str, wanted: LeaderWorkerSet) -> dict[str, JsonObject]:
    """The pods of its templates as this server would store them: with requests from limits, from LimitRanges and from
    runtime classes. A pod that the server does not answer for is left out; its common defaults are known anyway."""
    found: dict[str, JsonObject] = {}
    for role, pod in pods_for_dry_run(wanted).items():
        with suppress(ApiError):
            found[role] = await client.create(PODS, pod, namespace, dry_run=True)
    return found


def _without_sets(files: Mapping[str, Sequence[Json]]) -> str:
    """What there is instead: a kind that is spelled almost right is found that way."""
    names = ", ".join("standard input" if name == "-" else name for name in files)
    verb = "holds" if len(files) == 1 else "hold"
    found = [one for documents in files.values() for one in documents if one is not None]
    if not found:
        return f"{names} {verb} nothing; name a file with a LeaderWorkerSet or a Rollout"
    kinds = dict.fromkeys(str(one.get("kind") or "no kind") if isinstance(one, dict) else "no object" for one in found)
    return f"{names} {verb} no {KIND} or Rollout, but: {', '.join(kinds)}"


async def _stored(
    client: Client,
    live: JsonObject | None,
    wanted: JsonObject,
    server_side: bool,
    resource: Resource = LEADER_WORKER_SETS,
) -> JsonObject:
    """The object as the server would store it, with all its defaults and refusals."""
    version = str(wanted.get("apiVersion") or resource.api_version).rpartition("/")[2]
    resource = msgspec.structs.replace(resource, version=version)
    metadata = wanted["metadata"]
    if server_side:
        applied: JsonObject = await client.apply(resource, wanted, field_manager="kubectl", dry_run=True)
        return applied
    if live is None:
        created: JsonObject = await client.create(resource, wanted, dry_run=True)
        return created
    noted = (live["metadata"].get("annotations") or {}).get(group_labels.LAST_APPLIED)
    patch = three_way(msgspec.json.decode(noted) if noted else {}, live, wanted)
    (patch.get("metadata") or {}).pop("annotations", None)
    patched: JsonObject = await client.patch(resource, metadata["name"], metadata["namespace"], patch, dry_run=True)
    return patched


def objects_in(file: str, text: str) -> Iterator[JsonObject]:
    """The objects of a file that take part in a release: sets and other workloads, Rollouts, Services and routes."""
    return _released(file, _documents_in(file, text))


def _read_documents(files: Mapping[str, str]) -> dict[str, list[Json]]:
    return {file: _documents_in(file, text) for file, text in files.items()}


def _documents_in(file: str, text: str) -> list[Json]:
    try:
        return bounded_yaml.load_all(text)
    except yaml.YAMLError as problem:
        raise Refusal(f"{file} is not YAML: {yaml_errors.problem_line(problem)}") from problem


def _released(file: str, documents: Iterable[Json]) -> Iterator[JsonObject]:
    for one in documents:
        items = one.get("items") if isinstance(one, dict) and str(one.get("kind", "")).endswith("List") else [one]
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict) or str(item.get("kind")) not in _LINTED:
                continue
            metadata = item.get("metadata")
            found = metadata if isinstance(metadata, dict) else {}
            if not found.get("name") or not isinstance(found["name"], str):
                raise Refusal(f"{file}: a {item['kind']} has no metadata.name")
            if not isinstance(found.get("namespace", ""), str):
                raise Refusal(f"{file}: metadata.namespace of {item['kind']} {found['name']} is not text")
            if problem := bounded_yaml.json_problem(item):
                raise Refusal(f"{file}: {item['kind']} {found['name']}: {problem}")
            yield item


def read(names: Sequence[str]) -> dict[str, str]:
    """What files hold, by their names; of a directory, the files directly in it that hold manifests."""
    found: dict[str, str] = {}
    for name in names:
        if name == "-":
            found[name] = sys.stdin.read()
            continue
        for file in _files(Path(name)):
            try:
                found[str(file)] = file.read_text()
            except (OSError, UnicodeDecodeError) as problem:
                raise Refusal(f"cannot read {file}: {getattr(problem, 'strerror', None) or problem}") from problem
    return found


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
    if not found:
        raise Refusal(f"{path} holds no manifests ({', '.join(sorted(SUFFIXES))})")
    return found
