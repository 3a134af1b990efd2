"""How long pods took to become ready: what is expected of the next ones.

The start of a group lasts from the creation of its first pod to the readiness of its last one. The median of the groups
counts. Kubernetes keeps only the newest transition of a condition, so a pod whose containers were restarted shows when
it recovered; such groups count only where no other group is ready.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from kohort.kube.clock import parse_time
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition


def expected_start(groups: Iterable[Sequence[Pod]]) -> float | None:
    """Seconds; None if no group is ready."""
    known = [group for group in groups if start_seconds(group) is not None]
    calm = [group for group in known if not any(_restarted(pod) for pod in group)]
    starts = [seconds for group in calm or known if (seconds := start_seconds(group)) is not None]
    return median(starts) if starts else None


def start_seconds(group: Sequence[Pod]) -> float | None:
    """None if one of the pods is not ready."""
    times = [_times(pod) for pod in group]
    known = [one for one in times if one is not None]
    if not known or len(known) < len(times):
        return None
    return max(0.0, max(end for _, end in known) - min(begin for begin, _ in known))


def _times(pod: Pod) -> tuple[float, float] | None:
    """When a pod was created, and when it became ready."""
    ready = find_condition(pod.status.conditions, "Ready")
    created = pod.metadata.creation_timestamp
    if ready is None or ready.status != "True" or not ready.last_transition_time or not created:
        return None
    return parse_time(created).timestamp(), parse_time(ready.last_transition_time).timestamp()


def _restarted(pod: Pod) -> bool:
    return any(one.restart_count for one in pod.status.container_statuses)
