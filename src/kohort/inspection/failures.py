"""The kept failures of a set's groups, in words."""

from collections.abc import Iterator, Sequence

from kohort.groups.failure_evidence import ContainerFailure, GroupFailure, PodFailure
from kohort.groups.restart_budget import exhausted_groups
from kohort.inspection.advice import Verb
from kohort.inspection.allowed_commands import offered
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.release_subject import command
from kohort.inspection.snapshot import Snapshot
from kohort.rules import group_labels

_QUOTED_LINES = 3


def failures_of(failures: Sequence[GroupFailure], group: int | None) -> list[GroupFailure]:
    return [one for one in failures if group is None or one.group == group]


def failure_lines(failure: GroupFailure) -> list[str]:
    """One failure with everything that was kept of it."""
    result = "held: its budget of restarts is used up" if failure.held else "restarted"
    lines = [f"{failure.at}  group {failure.group}  {failure.reason}, {result}"]
    for pod in failure.pods:
        place = f" on node {pod.node}" if pod.node else ""
        lines.append(f"  pod {pod.pod}{place}{f': {pod.note}' if pod.note else ''}")
        for one in pod.containers:
            lines.append(f"    {container_text(one)}")
            lines += [f"      | {line}" for line in one.log.splitlines()]
            if one.log_note:
                lines.append(f"      ({one.log_note})")
        lines += [f"    event {text}" for text in pod.events]
    return lines


def container_text(failure: ContainerFailure) -> str:
    more = [failure.reason] if failure.reason and failure.reason != "Error" else []
    more += [f"signal {failure.signal}"] if failure.signal else []
    why = f" ({', '.join(more)})" if more else ""
    when = f" at {failure.finished_at}" if failure.finished_at else ""
    message = f": {failure.message.strip()}" if failure.message.strip() else ""
    return f"container {failure.container} ended with code {failure.exit_code}{why}{when}{message}"


def newest_failure_text(failures: Sequence[GroupFailure], group: int | None = None) -> str:
    """The newest failure in one sentence, with the end of its log; empty if there is none."""
    found = failures_of(failures, group)
    if not found:
        return ""
    failure = found[0]
    first = _first_container(failure.pods)
    if first is None:
        pods = ", ".join(pod.pod for pod in failure.pods)
        return f"group {failure.group} failed at {failure.at}" + (f": pod {pods} was deleted" if pods else "")
    pod, container = first
    text = f"group {failure.group} failed at {failure.at}: pod {pod.pod}, {container_text(container)}"
    end = [line.strip() for line in container.log.splitlines() if line.strip()][-_QUOTED_LINES:]
    return f"{text}; its log ends with: {' / '.join(end)}" if end else text


def _first_container(pods: Sequence[PodFailure]) -> tuple[PodFailure, ContainerFailure] | None:
    return next(((pod, one) for pod in pods for one in pod.containers), None)


def failure_causes(snapshot: Snapshot) -> Iterator[Cause]:
    """Groups that are held, and the newest failure of a group that is not ready."""
    group_set, states = snapshot.group_set, snapshot.states
    leaders = {
        index: (one.metadata.uid, one.metadata.labels.get(group_labels.REVISION, ""))
        for index, one in snapshot.leaders.items()
    }
    held = exhausted_groups(group_set.status.restarts, group_set.metadata.annotations, leaders)
    for index, one in held.items():
        newest = newest_failure_text(snapshot.failures, index)
        text = (
            f"is held: it used up its budget of {one.restarts} restarts when pod {one.failed.pod}"
            + (
                f", container {one.failed.container} ended with code {one.failed.exit_code}"
                if one.failed.container
                else ""
            )
            + (f"; {newest}" if newest else "")
        )
        offers = [
            ("see what was kept of its failures", command(snapshot, Verb.FAILURES, "--group", str(index))),
            ("begin afresh", command(snapshot, Verb.RESTART, "--group", str(index))),
        ]
        yield Cause(CauseKind.CRASH, (f"group {index}",), text, offered(snapshot, "", offers))
    last = snapshot.failures[0] if snapshot.failures else None
    if last is not None and last.group not in held and last.group < group_set.replicas:
        state = states.get(last.group)
        if state is None or not state.ready:
            offers = [("see what was kept", command(snapshot, Verb.FAILURES, "--group", str(last.group)))]
            text = newest_failure_text(snapshot.failures)
            yield Cause(CauseKind.CRASH, (f"group {last.group}",), text, offered(snapshot, "", offers))
