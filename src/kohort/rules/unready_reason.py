"""Why a pod is not ready, in words."""

from kohort.objects.container_reasons import ORDINARY_WAITS
from kohort.objects.core import ContainerStatus, Pod
from kohort.objects.meta import find_condition
from kohort.rules.pod_scheduling import without_node


def why_not_ready(pod: Pod) -> str:
    if pod.metadata.deleting:
        return "terminating"
    if scheduled := without_node(pod):
        return f"Pending: {scheduled.message or scheduled.reason}"
    stuck = stuck_container(pod)
    if stuck is not None and stuck.state.waiting is not None:
        return f"{pod.status.phase}: container {stuck.name} is waiting: {stuck.state.waiting.reason}"
    if pod.status.phase == "Running":
        ready = find_condition(pod.status.conditions, "Ready")
        return (
            f"Running, not ready: {ready.message or ready.reason}" if ready and ready.reason else "Running, not ready"
        )
    return pod.status.phase or "Pending"


def stuck_container(pod: Pod) -> ContainerStatus | None:
    """The first container that waits for more than its turn."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in ORDINARY_WAITS:
            return status
    return None
