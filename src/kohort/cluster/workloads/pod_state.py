"""Availability and claims of a pod, as controllers need them."""

from datetime import datetime, timedelta

from kohort.kube import clock
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition


def ready_since(pod: Pod) -> datetime | None:
    condition = find_condition(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True" or condition.last_transition_time is None:
        return None
    return clock.parse_time(condition.last_transition_time)


def available_in(pod: Pod, min_ready_seconds: int) -> timedelta:
    """How long a ready pod must still stay ready to count as available; zero or less when it does."""
    since = ready_since(pod)
    if min_ready_seconds == 0 or since is None:
        return timedelta(0)
    return since + timedelta(seconds=min_ready_seconds) - clock.now()


def is_available(pod: Pod, min_ready_seconds: int) -> bool:
    return pod.ready and available_in(pod, min_ready_seconds) <= timedelta(0)


def claim_names(pod: Pod) -> list[str]:
    """The claims that a pod mounts, by name."""
    found = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [claim.claim_name for claim in found if claim is not None]
