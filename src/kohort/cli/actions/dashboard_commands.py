"""What the dashboard has done: by the same functions as on the command line, with their output as a result."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from kohort.cli.actions import analysis, edit, plan, resize, snapshot_reader
from kohort.cli.actions.output_formats import captured, show
from kohort.cli.connection import Refusal
from kohort.cli.error_messages import described
from kohort.dashboard.commands import ActionRefused, ActionRequest, Planned, Verb
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.history import NoSuchRevision
from kohort.inspection.rollout_plan import RolloutForecast
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.template_resize import AmountRequest, RoleChoice
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS
from kohort.objects.core import Node, Pod
from kohort.objects.counted_nouns import counted
from kohort.objects.json_types import Json, JsonObject

MOST_PODS: Final = 4000
"""Of the sets whose future the dashboard plays through at once; all its users wait meanwhile."""


class CliCommands:
    async def act(self, client: Client, request: ActionRequest) -> str:
        namespace, name = request.namespace, request.name
        with captured() as lines, _refusals(namespace):
            match request.verb:
                case Verb.APPROVE if "override" in request.parameters:
                    await analysis.override(client, namespace, name, request.parameters.get("reason", ""))
                case Verb.APPROVE:
                    full = "full" in request.parameters
                    await edit.approve(client, namespace, name, request.number("step"), full)
                case Verb.PAUSE:
                    await edit.pause(client, namespace, name)
                case Verb.RESUME:
                    await edit.resume(client, namespace, name)
                case Verb.ABORT:
                    await edit.abort(client, namespace, name)
                case Verb.RETRY:
                    await edit.retry(client, namespace, name)
                case Verb.RESTART:
                    await edit.restart(client, namespace, name, request.number("group"))
                case Verb.UNDO:
                    await edit.undo(client, namespace, name, request.number("to"), dry_run=False)
                case Verb.RESIZE:
                    await resize.resize_template(client, namespace, name, _amounts(request), _options(request))
                case Verb.SCALE:
                    await _scale(client, namespace, name, request.number("replicas") or 0)
        return "\n".join(lines)

    async def forecast(self, client: Client, before: Snapshot, after: LeaderWorkerSet) -> Planned:
        _check_sizes([{"metadata": {"name": after.metadata.name}, "spec": after.spec}])
        nodes = await snapshot_reader.list_if_readable(client, NODES, "", Node)
        pods = await snapshot_reader.list_if_readable(client, PODS, "", Pod) if nodes else []
        return Planned(await plan.forecast_of_set(client, before, after, nodes, pods), before, after)

    async def plan(
        self, client: Client, namespace: str, manifest: str
    ) -> tuple[Sequence[Planned], Sequence[RolloutForecast]]:
        with _refusals(namespace):
            sets, rollouts = await plan.planned(client, namespace, {"the manifest": manifest}, check=_check_sizes)
        return [Planned(one.forecast, one.before, one.after) for one in sets], rollouts


def _check_sizes(sets: Sequence[JsonObject]) -> None:
    """Sizes that are not numbers are for the API server to refuse."""
    together = 0
    for one in sets:
        spec = _mapping(one.get("spec"))
        groups, size = spec.get("replicas", 1), _mapping(spec.get("leaderWorkerTemplate")).get("size", 1)
        if not isinstance(groups, int) or not isinstance(size, int):
            continue
        together += max(0, groups * size)
        if together > MOST_PODS:
            name = one["metadata"]["name"]
            raise ActionRefused(
                f"LeaderWorkerSet {name} would have {counted(groups, 'group')} of {counted(size, 'pod')}; the "
                f"dashboard foresees sets of up to {counted(MOST_PODS, 'pod')} together. On the command line: "
                "kohort plan -f FILE"
            )


def _mapping(found: Json) -> JsonObject:
    return found if isinstance(found, dict) else {}


def _amounts(request: ActionRequest) -> AmountRequest:
    given = request.parameters
    amounts = {name: given[name] for name in ("cpu", "memory") if name in given}
    role = msgspec.convert(given.get("role", "all"), RoleChoice)
    return AmountRequest(amounts, given.get("container", ""), role, "pod" in given)


def _options(request: ActionRequest) -> resize.TemplateEditOptions:
    given = request.parameters
    return resize.TemplateEditOptions(
        policy=given.get("policy", ""),
        deadline=request.number("deadline"),
        recreate="recreate" in given,
        wait=False,
    )


async def _scale(client: Client, namespace: str, name: str, replicas: int) -> None:
    """As kubectl does it, by an edit of the set: its answer is the set, which a preview looks at."""
    found = await snapshot_reader.snapshot(client, namespace, name)
    if found.replicas == replicas:
        raise Refusal(f"LeaderWorkerSet {name} has {counted(replicas, 'group')} already")
    await client.patch(LEADER_WORKER_SETS, name, namespace, {"spec": {"replicas": replicas}})
    show([f"{name} is scaled from {found.replicas} to {counted(replicas, 'group')}"])


@contextmanager
def _refusals(namespace: str) -> Iterator[None]:
    try:
        yield
    except (Refusal, NoSuchRevision) as problem:
        raise ActionRefused(str(problem)) from problem
    except ApiError as problem:
        raise ActionRefused(described(problem, namespace)) from problem
