"""A set and what belongs to it, read from a cluster."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kohort.cli.connection import Refusal
from kohort.groups.caches import GroupService, owned_by
from kohort.groups.failure_evidence import KEY, GroupFailure, decoded
from kohort.groups.failure_recorder import config_map_name
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision, of_set
from kohort.inspection.occupied_domains import domains_of_others
from kohort.inspection.release import CANARY_SUFFIX
from kohort.inspection.silent_nodes import concerned_nodes, silent_nodes
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import DEPLOYMENT, STATEFUL_SET, PlainWorkload, StoredRevision
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.object_identity import T
from kohort.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    EVENTS,
    HTTP_ROUTE_VERSIONS,
    INGRESSES,
    LEADER_WORKER_SETS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Key,
    Resource,
)
from kohort.objects.apps import GroupStatefulSet, ReplicaSet
from kohort.objects.core import ConfigMap, Event, Node, PersistentVolumeClaim, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta, PartialObject, Selector
from kohort.objects.policy import PodDisruptionBudget
from kohort.objects.selectors import LabelSelector
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import group_labels
from kohort.rules.release_hold import holding_rollout, is_held_by_release
from kohort.rules.rollout_labels import CANARY_DEPLOYMENT, CANARY_SET


class PlainWorkloadKind(NamedTuple):
    kind: str
    resource: Resource
    canary_label: str
    """On the extra workload that a release makes beside one."""


GROUP_SET, ROLLOUT = "leaderworkerset", "rollout"
WORKLOADS: Final = {
    "deployment": PlainWorkloadKind(DEPLOYMENT, DEPLOYMENTS, CANARY_DEPLOYMENT),
    "statefulset": PlainWorkloadKind(STATEFUL_SET, STATEFUL_SETS, ""),
}
"""Workloads without groups, by what a person types for their kind."""


async def subject(
    client: Client, namespace: str, name: str, *, surroundings: bool = False, rollout_needed: bool = False
) -> Snapshot | PlainWorkload:
    """A workload by its name on the command line. `rollout_needed` is for commands about its Rollout: they are refused
    to users who may not list Rollouts.

    | typed | found |
    |---|---|
    | llm, lws/llm | the LeaderWorkerSet; for a plain name without one, what the Rollout of that name releases |
    | deployment/web, statefulset/web | that workload |
    | rollout/web | the workload that it releases |
    """
    kind, slash, rest = name.partition("/")
    if slash and kind in WORKLOADS:
        return await _workload(client, namespace, WORKLOADS[kind], rest, surroundings, rollout_needed)
    plain = rest if slash else name
    if slash and kind == ROLLOUT:
        return await _of_rollout(client, namespace, plain, surroundings)
    try:
        return await snapshot(client, namespace, plain, surroundings=surroundings, rollout_needed=rollout_needed)
    except UnreadableRollouts:
        raise
    except Refusal:
        if slash:
            raise
        rollouts = await list_if_readable(client, ROLLOUTS, namespace, Rollout)
        if any(one.metadata.name == plain for one in rollouts):
            return await _of_rollout(client, namespace, plain, surroundings)
        raise


async def _of_rollout(client: Client, namespace: str, name: str, surroundings: bool) -> Snapshot | PlainWorkload:
    found: Rollout | None = await client.find(ROLLOUTS, name, namespace, type=Rollout)
    if found is None:
        raise Refusal(f"there is no Rollout {name} in namespace {namespace}; there are: kubectl get rollouts")
    ref = found.spec.workload_ref
    if ref.is_group_set:
        return await snapshot(client, namespace, ref.name, surroundings=surroundings)
    kind = WORKLOADS.get(ref.kind.lower())
    if kind is None:
        raise Refusal(
            f"Rollout {name} releases {ref.kind} {ref.name}, which kohort does not know; it knows LeaderWorkerSet, "
            f"{', '.join(one.kind for one in WORKLOADS.values())}"
        )
    return await _workload(client, namespace, kind, ref.name, surroundings)


async def _workload(
    client: Client,
    namespace: str,
    kind: PlainWorkloadKind,
    name: str,
    surroundings: bool,
    rollout_needed: bool = False,
) -> PlainWorkload:
    document: JsonObject | None = await client.find(kind.resource, name, namespace)
    if document is None:
        there = [one.metadata.name for one in await list_if_readable(client, kind.resource, namespace, PartialObject)]
        raise Refusal(
            f"there is no {kind.kind} {name} in namespace {namespace}; there are: {', '.join(sorted(there)) or 'none'}"
        )
    metadata = msgspec.convert(document["metadata"], ObjectMeta)
    found, rollouts, events, claims = await asyncio.gather(
        _pods_of(client, kind, document),
        _rollouts(client, f"{kind.kind} {name}", metadata, rollout_needed),
        list_if_readable(client, EVENTS, namespace, Event, surroundings),
        list_if_readable(client, PERSISTENT_VOLUME_CLAIMS, namespace, PersistentVolumeClaim, surroundings),
    )
    refs = [(one, one.spec.workload_ref) for one in rollouts or ()]
    ours = [one for one, ref in refs if (ref.group, ref.kind, ref.name) == ("apps", kind.kind, name)]
    found = replace(found, rollout=ours[0] if ours else None, events=events, claims=claims)
    if surroundings:
        found = replace(found, silent_nodes=await _silent_nodes(client, found.pods))
    if not found.releasing:
        return found
    canary: PlainWorkload | None = None
    if kind.canary_label:
        copies = await client.list(kind.resource, namespace, label_selector=f"{kind.canary_label}={name}")
        living = [one for one in copies.items if "deletionTimestamp" not in one["metadata"]]
        canary = await _pods_of(client, kind, living[-1]) if living else None
    if canary is not None:
        canary = replace(canary, events=events, claims=claims)
    if canary is not None and surroundings:
        canary = replace(canary, silent_nodes=await _silent_nodes(client, canary.pods))
    return replace(found, canary=canary, routes=await _routes(client, found.rollout, namespace))


async def _pods_of(client: Client, kind: PlainWorkloadKind, document: JsonObject) -> PlainWorkload:
    """The workload with its pods and what keeps its versions."""
    metadata = msgspec.convert(document["metadata"], ObjectMeta)
    selector = msgspec.convert((document.get("spec") or {}).get("selector") or {}, Selector)
    namespace, words = metadata.namespace, str(selector.compiled())
    pods, sets, revisions = await asyncio.gather(
        client.list(PODS, namespace, type=Pod, label_selector=words),
        list_if_readable(client, REPLICA_SETS, namespace, ReplicaSet, kind.kind == DEPLOYMENT),
        list_if_readable(client, CONTROLLER_REVISIONS, namespace, StoredRevision, kind.kind == STATEFUL_SET),
    )
    replica_sets = [one for one in sets if _owner(one.metadata) == metadata.uid]
    owners = {metadata.uid, *(one.metadata.uid for one in replica_sets)}
    return PlainWorkload(
        kind=kind.kind,
        metadata=metadata,
        spec=document.get("spec") or {},
        status=document.get("status") or {},
        pods=sorted((one for one in pods.items if _owner(one.metadata) in owners), key=lambda one: one.metadata.name),
        replica_sets=replica_sets,
        revisions=[one for one in revisions if _owner(one.metadata) == metadata.uid],
    )


def _owner(metadata: ObjectMeta) -> str:
    owner = metadata.controller
    return owner.uid if owner is not None else ""


async def snapshot(
    client: Client, namespace: str, name: str, *, surroundings: bool = False, rollout_needed: bool = False
) -> Snapshot:
    """A LeaderWorkerSet. `surroundings` also reads events, claims and the Service, which only explanations need."""
    kind, slash, rest = name.partition("/")
    if slash and kind != GROUP_SET:
        raise Refusal(f"{name} is not a LeaderWorkerSet, and only those have groups: write the name of one")
    group_set = await find_set(client, namespace, rest if slash else name)
    name = group_set.metadata.name
    found, rollouts, events, claims, service, kept = await asyncio.gather(
        _groups(client, group_set),
        _rollouts(client, f"LeaderWorkerSet {name}", group_set.metadata, rollout_needed),
        list_if_readable(client, EVENTS, namespace, Event, surroundings),
        list_if_readable(client, PERSISTENT_VOLUME_CLAIMS, namespace, PersistentVolumeClaim, surroundings),
        _service(client, namespace, name, surroundings),
        _failures_if_readable(client, group_set, surroundings),
    )
    refs = [(one, one.spec.workload_ref) for one in rollouts or ()]
    rollout = next((one for one, ref in refs if ref.is_group_set and ref.name == name), None)
    found = replace(found, events=events, claims=claims, service=service, failures=kept)
    found = replace(found, rollout=rollout, rollouts_readable=rollouts is not None)
    if surroundings:
        guarded = group_set.disruption_budget is not None
        budgets = await list_if_readable(client, POD_DISRUPTION_BUDGETS, namespace, PodDisruptionBudget, guarded)
        silent, taken = await _silent_nodes(client, found.pods), await _domains_of_others(client, found)
        found = replace(found, disruption_budgets=budgets, silent_nodes=silent, domains_of_others=taken)
    if not found.releasing:
        return found
    canary = await _canary(client, found)
    if canary is not None and surroundings:
        canary = replace(canary, silent_nodes=await _silent_nodes(client, canary.pods))
    return replace(found, canary=canary, routes=await _routes(client, found.rollout, namespace))


async def _routes(client: Client, rollout: Rollout | None, namespace: str) -> list[JsonObject]:
    """Those that the Rollout names; of an Ingress, the one beside it that carries the share of the new version."""
    refs = rollout.strategy.traffic_routings if rollout is not None else ()
    gateways = {one.gateway.http_route_name for one in refs if one.gateway is not None}
    ingresses = {f"{one.ingress.name}{CANARY_SUFFIX}" for one in refs if one.ingress is not None}
    known: list[JsonObject] = []
    for version in HTTP_ROUTE_VERSIONS:
        known = known or await list_if_readable(client, version, namespace, JsonObject, bool(gateways))
    beside = await list_if_readable(client, INGRESSES, namespace, JsonObject, bool(ingresses))
    return [
        *({"kind": "HTTPRoute", **one} for one in known if one["metadata"]["name"] in gateways),
        *({"kind": "Ingress", **one} for one in beside if one["metadata"]["name"] in ingresses),
    ]


async def _groups(client: Client, group_set: LeaderWorkerSet) -> Snapshot:
    """The set and what its groups are made of."""
    namespace, selector = group_set.metadata.namespace, f"{group_labels.NAME}={group_set.metadata.name}"
    pods, stateful_sets, revisions = await asyncio.gather(
        client.list(PODS, namespace, type=Pod, label_selector=selector),
        client.list(STATEFUL_SETS, namespace, type=GroupStatefulSet, label_selector=selector),
        client.list(CONTROLLER_REVISIONS, namespace, type=Revision, label_selector=selector),
    )
    return Snapshot(
        group_set=group_set,
        pods=pods.items,
        stateful_sets=stateful_sets.items,
        revisions=of_set(group_set, revisions.items),
    )


async def _service(client: Client, namespace: str, name: str, wanted: bool) -> GroupService | None:
    if not wanted:
        return None
    try:
        return await client.get(SERVICES, name, namespace, type=GroupService)
    except (NotFound, Forbidden):
        return None


async def _silent_nodes(client: Client, pods: Sequence[Pod]) -> dict[str, str]:
    """Nodes of pods that are not ready, if the user may read them: by name, since when they are not ready either."""
    concerned = concerned_nodes(pods)
    return silent_nodes(await list_if_readable(client, NODES, "", Node, bool(concerned)), concerned)


async def _domains_of_others(client: Client, found: Snapshot) -> dict[str, tuple[str, ...]]:
    """For a set whose groups need topology domains for themselves, and of which a pod has no node."""
    topology = found.group_set.exclusive_topology
    if not topology or all(pod.spec.node_name for pod in found.pods):
        return {}
    nodes = await list_if_readable(client, NODES, "", Node)
    try:
        pods = await client.list(PODS, found.metadata.namespace, type=Pod, label_selector=group_labels.GROUP_KEY)
    except Forbidden:
        return {}
    return domains_of_others(found.name, topology, pods.items, nodes)


async def failures(client: Client, group_set: LeaderWorkerSet) -> list[GroupFailure]:
    """What the operator has kept about failures of groups."""
    metadata = group_set.metadata
    kept = await client.find(CONFIG_MAPS, config_map_name(metadata.name), metadata.namespace, type=ConfigMap)
    return decoded(kept.data.get(KEY, "")) if kept is not None and owned_by(kept.metadata, group_set) else []


async def _failures_if_readable(client: Client, group_set: LeaderWorkerSet, wanted: bool) -> list[GroupFailure]:
    if not wanted:
        return []
    try:
        return await failures(client, group_set)
    except Forbidden:
        return []


async def _canary(client: Client, stable: Snapshot) -> Snapshot | None:
    """The set beside it that a Rollout has made for the new version. After one that was given up, two may be there for
    a while; the one that goes does not matter any more."""
    selector, namespace = f"{CANARY_SET}={stable.name}", stable.group_set.metadata.namespace
    sets = await client.list(LEADER_WORKER_SETS, namespace, type=LeaderWorkerSet, label_selector=selector)
    living = [one for one in sets.items if not one.metadata.deleting]
    if not living:
        return None
    return replace(await _groups(client, living[-1]), events=stable.events, claims=stable.claims)


async def list_if_readable(
    client: Client, resource: Resource, namespace: str, type: type[T], wanted: bool = True
) -> list[T]:
    """What helps but is not needed: kinds that are not installed or not ours to read are left out. Not for what a
    statement rests on: that there is none, and that the user may not see any, are different answers."""
    if not wanted:
        return []
    try:
        return list((await client.list(resource, namespace, type=type)).items)
    except (NotFound, Forbidden):
        return []


class UnreadableRollouts(Refusal):
    """Without its Rollout, nothing true could be said about a workload."""


async def _rollouts(client: Client, title: str, metadata: ObjectMeta, needed: bool) -> list[Rollout] | None:
    """Those of the namespace of a workload; None if they may not be listed.

    | the cluster | the workload | so |
    |---|---|---|
    | does not serve Rollouts | any | none |
    | does not let the user list them | is held by a release, or the command is about its Rollout | UnreadableRollouts |
    | does not let the user list them | otherwise: it can be shown without | None |
    """
    try:
        return list((await client.list(ROLLOUTS, metadata.namespace, type=Rollout)).items)
    except NotFound:
        return []
    except Forbidden as problem:
        held = is_held_by_release(metadata.annotations)
        if not held and not needed:
            return None
        name = holding_rollout(metadata.annotations)
        of_rollout = f" of Rollout {name}" if name else ""
        text = f"; {title} is held by a release{of_rollout}" if held else ""
        raise UnreadableRollouts(f"{unlisted_rollouts(metadata.namespace)}{text}") from problem


def unlisted_rollouts(namespace: str) -> str:
    place = f"in namespace {namespace}" if namespace else "in all namespaces"
    return f"you may not list rollouts {place}; ask an administrator of the cluster for this right"


async def find_set(client: Client, namespace: str, name: str) -> LeaderWorkerSet:
    try:
        return await client.get(LEADER_WORKER_SETS, name, namespace, type=LeaderWorkerSet)
    except NotFound as problem:
        if not problem.status.details or not problem.status.details.name:
            raise
    raise Refusal(await _absent(client, namespace, name))


async def _absent(client: Client, namespace: str, name: str) -> str:
    """The refusal names what exists instead: other names here, or the same name elsewhere."""
    text = f"there is no LeaderWorkerSet {name} in namespace {namespace}"
    try:
        everywhere = (await client.list(LEADER_WORKER_SETS, type=LeaderWorkerSet)).items
    except ApiError:
        return text
    elsewhere = sorted(one.metadata.namespace for one in everywhere if one.metadata.name == name)
    if elsewhere:
        return f"{text}, but in {', '.join(elsewhere)}: -n {elsewhere[0]}"
    for word, kind in WORKLOADS.items():
        others = await list_if_readable(client, kind.resource, namespace, PartialObject)
        if any(one.metadata.name == name for one in others):
            return f"{text}, but a {kind.kind}: write {word}/{name}"
    here = sorted(
        one.metadata.name
        for one in everywhere
        if one.metadata.namespace == namespace and CANARY_SET not in one.metadata.labels
    )
    if here:
        return f"{text}; there are: {', '.join(here)}"
    await check_namespace(client, namespace)
    return f"{text}, nor any other; {first_set(namespace)} makes one"


async def check_namespace(client: Client, namespace: str) -> None:
    """Raises Refusal if the namespace does not exist; a user who may not read namespaces is not refused."""
    with suppress(Forbidden):
        if namespace and await client.find(NAMESPACES, namespace) is None:
            raise Refusal(f"there is no namespace {namespace}; there are: kubectl get namespaces")


def first_set(namespace: str) -> str:
    """What to type to have one; where it should be, if that is not where kubectl puts things anyway."""
    place = f"-n {namespace} " if namespace not in ("", "default") else ""
    return f"kubectl apply {place}-f examples/llm.yaml"


async def keys(client: Client, namespace: str, labels: str = "") -> list[Key]:
    """Of all sets but canaries, which are shown with the set that they may replace. Without a namespace, of all."""
    found = await client.list(LEADER_WORKER_SETS, namespace, type=LeaderWorkerSet, label_selector=labels)
    by_key = {Key(one.metadata.namespace, one.metadata.name): one for one in found.items}
    return sorted(
        key for key, one in by_key.items() if Key(key.namespace, one.metadata.labels.get(CANARY_SET, "")) not in by_key
    )


class Readings(NamedTuple):
    subjects: list[Snapshot | PlainWorkload]
    unreadable: list[str]
    """Why others are missing."""


async def read_all(client: Client, wanted: Sequence[Key]) -> Readings:
    """One that cannot be shown does not hide the others."""
    found = Readings([], [])
    for one in wanted:
        try:
            found.subjects.append(await subject(client, one.namespace, one.name))
        except UnreadableRollouts as problem:
            found.unreadable.append(str(problem))
    return found


async def nothing(client: Client, namespace: str, labels: str) -> str:
    await check_namespace(client, namespace)
    place = f"namespace {namespace}" if namespace else "any namespace"
    if labels:
        return f"No LeaderWorkerSets with labels {labels} in {place}."
    return f"No LeaderWorkerSets in {place}. Try: {first_set(namespace)}"


async def workload_of_rollout(client: Client, rollout: Rollout) -> PlainWorkload | None:
    """The Deployment or StatefulSet that a Rollout names, if it exists."""
    ref, namespace = rollout.spec.workload_ref, rollout.metadata.namespace
    try:
        return await _workload(client, namespace, WORKLOADS[ref.kind.lower()], ref.name, False)
    except Refusal:
        return None


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    return not selector or LabelSelector.parse(selector).matches(labels)
