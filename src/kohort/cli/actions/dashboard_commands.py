"""What the dashboard has done: by the same functions as on the command line, with their output as a result."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kohort.cli.actions import edit, plan, snapshot_reader
from kohort.cli.actions.output_formats import captured
from kohort.cli.connection import Refusal
from kohort.cli.error_messages import described
from kohort.dashboard.commands import ActionRequest, Planned, Refused, Verb
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.history import NoSuchRevision
from kohort.inspection.rollout_plan import RolloutForecast
from kohort.inspection.snapshot import Snapshot
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import NODES, PODS
from kohort.objects.core import Node, Pod


class CliCommands:
    async def act(self, client: Client, request: ActionRequest) -> str:
        namespace, name = request.namespace, request.name
        with captured() as lines, _refusals(namespace):
            match request.verb:
                case Verb.APPROVE:
                    await edit.approve(client, namespace, name, request.step, request.full)
                case Verb.PAUSE:
                    await edit.pause(client, namespace, name)
                case Verb.RESUME:
                    await edit.resume(client, namespace, name)
                case Verb.ABORT:
                    await edit.abort(client, namespace, name)
                case Verb.RETRY:
                    await edit.retry(client, namespace, name)
                case Verb.RESTART:
                    await edit.restart(client, namespace, name, request.group)
                case Verb.UNDO:
                    await edit.undo(client, namespace, name, request.to, dry_run=False)
        return "\n".join(lines)

    async def forecast(self, client: Client, before: Snapshot, after: LeaderWorkerSet) -> Planned:
        nodes = await snapshot_reader.if_known(client, NODES, "", Node)
        pods = await snapshot_reader.if_known(client, PODS, "", Pod) if nodes else []
        return Planned(await plan.forecast_of_set(client, before, after, nodes, pods), before, after)

    async def plan(
        self, client: Client, namespace: str, manifest: str
    ) -> tuple[Sequence[Planned], Sequence[RolloutForecast]]:
        with _refusals(namespace):
            sets, rollouts = await plan.planned(client, namespace, {"the manifest": manifest})
        return [Planned(one.forecast, one.before, one.after) for one in sets], rollouts


@contextmanager
def _refusals(namespace: str) -> Iterator[None]:
    try:
        yield
    except (Refusal, NoSuchRevision) as problem:
        raise Refused(str(problem)) from problem
    except ApiError as problem:
        raise Refused(described(problem, namespace)) from problem
