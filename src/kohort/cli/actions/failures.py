"""`failures`."""

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.output_formats import document, show
from kohort.cli.connection import Refusal
from kohort.inspection import failures
from kohort.inspection.release_subject import title
from kohort.inspection.snapshot import Snapshot
from kohort.kube.client import Client


async def show_failures(client: Client, namespace: str, name: str, group: int | None, form: str) -> int:
    found = await snapshot_reader.subject(client, namespace, name)
    if not isinstance(found, Snapshot):
        raise Refusal(f"{title(found)} has no groups; failures are kept of groups of LeaderWorkerSets")
    kept = failures.failures_of(await snapshot_reader.failures(client, found.group_set), group)
    if form != "text":
        show([document(kept, form)])
        return 0
    if kept:
        show([line for one in kept for line in failures.failure_lines(one)])
        return 0
    which = f"group {group} of {found.name}" if group is not None else found.name
    why = "" if found.group_set.template.restart_budget else "; failures are kept for sets with a restartBudget"
    show([f"No failures of {which} are kept{why}"])
    return 0
