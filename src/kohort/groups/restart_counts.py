"""How often the containers of a pod have restarted, without restarts that were the expected effect of a resize."""

from kohort.objects.core import Pod
from kohort.objects.recorded_json import read_recorded
from kohort.rules import group_labels


def restart_count(pod: Pod) -> int:
    """Restarts of containers, without those that were the expected effect of a resize."""
    expected = expected_restarts(pod)
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return sum(max(0, status.restart_count - expected.get(status.name, 0)) for status in statuses)


def expected_restarts(pod: Pod) -> dict[str, int]:
    """Restart counts by container, up to which the resize policies of the pod account for them."""
    return read_recorded(pod.metadata.annotations.get(group_labels.EXPECTED_RESTARTS, ""), dict[str, int]) or {}
