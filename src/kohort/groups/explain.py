"""Why a set is where it is, in words: which group and which pod is the reason, and what is waited for."""

from collections.abc import Iterable

from kohort.groups import wire
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition


def first_obstacle(pods: Iterable[Pod]) -> str:
    """The first pod, by name, that is not ready, and why; empty when all are."""
    for pod in sorted(pods, key=_order):
        if not (pod.status.phase == "Running" and pod.ready):
            return f"{pod.metadata.name} is {why_not_ready(pod)}"
    return ""


def why_not_ready(pod: Pod) -> str:
    if pod.metadata.deleting:
        return "terminating"
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"Pending: {scheduled.message or scheduled.reason}"
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in ("", "PodInitializing", "ContainerCreating"):
            return f"{pod.status.phase}: container {status.name} is waiting: {waiting.reason}"
    if pod.status.phase == "Running":
        ready = find_condition(pod.status.conditions, "Ready")
        return (
            f"Running, not ready: {ready.message or ready.reason}" if ready and ready.reason else "Running, not ready"
        )
    return pod.status.phase or "Pending"


def _order(pod: Pod) -> tuple[int, int]:
    labels = pod.metadata.labels
    numbers = (labels.get(wire.GROUP_INDEX, ""), labels.get(wire.WORKER_INDEX, ""))
    group, worker = (int(text) if text.isdigit() else 0 for text in numbers)
    return group, worker
