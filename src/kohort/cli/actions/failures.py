"""`failures`."""

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.output_formats import document, show
from kohort.cli.connection import Refusal
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.restart_decision import restart_policy
from kohort.inspection import failure_messages
from kohort.kube.client import Client
from kohort.rules import group_labels


async def show_failures(client: Client, namespace: str, name: str, group: int | None, form: str) -> int:
    kind, slash, rest = name.partition("/")
    if slash and kind != snapshot_reader.GROUP_SET:
        raise Refusal(f"{name} has no groups; failures are kept of groups of LeaderWorkerSets")
    group_set = await snapshot_reader.find_set(client, namespace, rest if slash else name)
    kept = failure_messages.failures_of(await snapshot_reader.failures(client, group_set), group)
    if form != "text":
        show([document(kept, form)])
        return 0
    if kept:
        show([line for one in kept for line in failure_messages.failure_lines(one)])
        return 0
    which = f"group {group} of {group_set.metadata.name}" if group is not None else group_set.metadata.name
    show([f"No failures of {which} are kept{_why_none(group_set)}"])
    return 0


def _why_none(group_set: LeaderWorkerSet) -> str:
    if group_set.template.restart_budget is None:
        return "; failures are kept for sets with a restartBudget"
    policy = restart_policy(group_set)
    if policy not in (group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED):
        return f"; failures are kept when groups are recreated, which restartPolicy {policy} does not do"
    return ""
