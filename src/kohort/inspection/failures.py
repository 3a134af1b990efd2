"""Causes that failures of groups give: groups that are held or wait to be recreated, and the newest failure of one that
is not ready."""

from collections.abc import Iterator

from kohort.inspection.advice import Verb
from kohort.inspection.allowed_commands import offered
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.failure_messages import (
    due_restart_text,
    failures_of,
    held_group_text,
    newest_failure_text,
    without_releases,
)
from kohort.inspection.release_subject import command
from kohort.inspection.snapshot import Snapshot
from kohort.rules.recorded_restarts import due_restarts, exhausted_groups, leader_identities


def failure_causes(snapshot: Snapshot) -> Iterator[Cause]:
    """Groups that are held, groups that wait to be recreated, and the newest failure of any other that is not ready."""
    group_set, states = snapshot.group_set, snapshot.states
    failures = without_releases(snapshot.failures)
    recorded, annotations = group_set.status.restarts, group_set.metadata.annotations
    leaders = leader_identities(snapshot.leaders)
    held = exhausted_groups(recorded, annotations, leaders)
    for index, one in held.items():
        text = held_group_text(one, failures_of(failures, index))
        offers = [
            ("see what was kept of its failures", command(snapshot, Verb.FAILURES, "--group", str(index))),
            ("begin afresh", command(snapshot, Verb.RESTART, "--group", str(index))),
        ]
        yield Cause(CauseKind.CRASH, (f"group {index}",), text, offered(snapshot, "", offers))
    due = {index: one for index, one in due_restarts(recorded, annotations, leaders).items() if index not in held}
    for index, restart in due.items():
        offers = [
            ("look at its pods before they are deleted", command(snapshot, Verb.LOGS, "--pod", restart.failed.pod)),
            ("restart it now", command(snapshot, Verb.RESTART, "--group", str(index))),
        ]
        yield Cause(CauseKind.CRASH, (f"group {index}",), due_restart_text(restart), offered(snapshot, "", offers))
    last = failures[0] if failures else None
    if last is not None and last.group not in held and last.group not in due and last.group < group_set.replicas:
        state = states.get(last.group)
        if state is None or not state.ready:
            offers = [("see what was kept", command(snapshot, Verb.FAILURES, "--group", str(last.group)))]
            text = newest_failure_text(failures)
            yield Cause(CauseKind.CRASH, (f"group {last.group}",), text, offered(snapshot, "", offers))
