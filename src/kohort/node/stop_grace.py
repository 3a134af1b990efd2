"""How many seconds a container gets to end, by the reason for which it is stopped."""

from enum import Enum, auto

import msgspec

from kohort.objects.node_pods import NodePod
from kohort.objects.pods import DEFAULT_GRACE_SECONDS

EVICTION_SECONDS = 1.0
"""Long enough for a short hook."""


class StopReason(Enum):
    DELETED = auto()
    """The pod is being deleted."""
    VANISHED = auto()
    """The pod does not exist in the API any more."""
    EVICTED = auto()
    """The node evicts the pod."""
    POD_ENDS = auto()
    """The main containers have ended, or the pod has reached its active deadline."""
    ALL_RESTART = auto()
    """The end of one container restarts all of them: what the others do is of no use any more."""
    HOOK_FAILED = auto()
    """Its postStart hook."""
    RESIZE = auto()
    """The container restarts in order to get other resources."""


class ProbeFailed(msgspec.Struct, frozen=True):
    """A probe of the container, which may give it a time of its own."""

    seconds: int | None


def stop_grace(pod: NodePod, reason: StopReason | ProbeFailed) -> float:
    """
    | stopped because of                          | seconds                                                     |
    |---------------------------------------------|-------------------------------------------------------------|
    | a pod that vanished, a restart of all       | 0                                                           |
    | an eviction by the node                     | 1                                                           |
    | a deletion                                  | `deletionGracePeriodSeconds`, or the pod's where it has none|
    | a failed probe                              | the probe's, or the pod's where it has none                 |
    | anything else                               | the pod's: `terminationGracePeriodSeconds`, 30 by default   |
    """
    match reason:
        case StopReason.VANISHED | StopReason.ALL_RESTART:
            return 0.0
        case StopReason.EVICTED:
            return EVICTION_SECONDS
        case StopReason.DELETED:
            seconds = pod.metadata.deletion_grace_period_seconds  # the timestamp has whole seconds only
        case ProbeFailed(seconds):
            pass
        case _:
            seconds = None
    if seconds is None:
        seconds = pod.spec.termination_grace_period_seconds
    return float(DEFAULT_GRACE_SECONDS if seconds is None else seconds)


def limits_pod(reason: StopReason) -> bool:
    """Whether a stop that has begun for another reason must end as soon as this one."""
    return reason in (StopReason.DELETED, StopReason.VANISHED)
