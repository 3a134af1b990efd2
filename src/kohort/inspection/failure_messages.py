"""The words for kept failures of a set's groups: pods, containers, exit codes and the end of logs."""

from collections.abc import Sequence

from kohort.groups.failure_evidence import ContainerFailure, GroupFailure, PodFailure
from kohort.groups.restart_decision import RestartCause
from kohort.objects.counted_nouns import counted
from kohort.rules.recorded_restarts import DueRestart, Exhaustion

_QUOTED_LINES = 3
_WHAT_HAPPENED = {
    RestartCause.POD_RESTARTED.value: "a container ended",
    RestartCause.POD_DELETED.value: "a pod was deleted",
    RestartCause.NODE_LOST.value: "a node was lost",
}


def failures_of(failures: Sequence[GroupFailure], group: int | None) -> list[GroupFailure]:
    return [one for one in failures if group is None or one.group == group]


def without_releases(failures: Sequence[GroupFailure]) -> list[GroupFailure]:
    """Those of the set itself, without those of extra sets that releases made."""
    return [one for one in failures if not one.set]


def failure_lines(failure: GroupFailure) -> list[str]:
    """One failure with everything that was kept of it."""
    result = "the group is held: its budget of restarts is used up" if failure.held else "the group was restarted"
    of = f" of {failure.set}, the set of a release" if failure.set else ""
    lines = [f"{failure.at}  group {failure.group}{of}: {what_happened(failure)}; {result}"]
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


def what_happened(failure: GroupFailure) -> str:
    return _WHAT_HAPPENED.get(failure.reason, failure.reason)


def container_text(failure: ContainerFailure, *, when: bool = True) -> str:
    """`when` adds the time."""
    more = [failure.reason] if failure.reason and failure.reason != "Error" else []
    more += [f"signal {failure.signal}"] if failure.signal else []
    why = f" ({', '.join(more)})" if more else ""
    at = f" at {failure.finished_at}" if when and failure.finished_at else ""
    message = f": {failure.message.strip()}" if failure.message.strip() else ""
    return f"container {failure.container} ended with code {failure.exit_code}{why}{at}{message}"


def newest_failure_text(failures: Sequence[GroupFailure], group: int | None = None) -> str:
    """The newest failure of a group in one sentence, with the end of its log; empty if there is none."""
    found = failures_of(failures, group)
    if not found:
        return ""
    failure = found[0]
    first = _first_container(failure.pods)
    if first is None:
        pods = ", ".join(pod.pod for pod in failure.pods)
        note = next((pod.note for pod in failure.pods if pod.note), "")
        lost = failure.reason == RestartCause.NODE_LOST.value and note
        happened = f": pod {pods}: {note}" if lost else f": pod {pods} was deleted"
        return f"it failed at {failure.at}" + (happened if pods else "")
    pod, container = first
    return f"it failed at {failure.at}: pod {pod.pod}, {container_text(container)}{_end_of_log(container)}"


def _end_of_log(container: ContainerFailure) -> str:
    end = [line.strip() for line in container.log.splitlines() if line.strip()][-_QUOTED_LINES:]
    return f"; its log ends with: {' / '.join(end)}" if end else ""


def _first_container(pods: Sequence[PodFailure]) -> tuple[PodFailure, ContainerFailure] | None:
    return next(((pod, one) for pod in pods for one in pod.containers), None)


def due_restart_text(due: DueRestart) -> str:
    """When a group is recreated, and why."""
    failed = due.failed
    end = f"container {failed.container} of pod {failed.pod} ended with code {failed.exit_code}"
    why = end if failed.container else f"pod {failed.pod} restarted"
    often = counted(due.in_a_row, "restart")
    return f"it is restarted at {due.at}, because {why}; it waits until then, after {often} in a row"


def held_group_text(exhaustion: Exhaustion, failures: Sequence[GroupFailure] = ()) -> str:
    """Why a group is held, with the end of the log; `failures` are those of the group that were kept."""
    failed = exhaustion.failed
    held = f"it is held: its budget of {counted(exhaustion.restarts, 'restart')} was used up when"
    if not failed.container:
        return f"{held} pod {failed.pod} was deleted"
    ended = next(
        (
            container
            for failure in failures[:1]
            for pod in failure.pods
            for container in pod.containers
            if (pod.pod, container.container) == (failed.pod, failed.container)
        ),
        None,
    )
    more = f"{_when_ended(ended)}{_end_of_log(ended)}" if ended is not None else ""
    return f"{held} container {failed.container} of pod {failed.pod} ended with code {failed.exit_code}{more}"


def _when_ended(container: ContainerFailure) -> str:
    return f" at {container.finished_at}" if container.finished_at else ""
