"""Why a pod is deleted for the sake of its node or of another pod: the condition DisruptionTarget and its reasons.

| reason                  | written by                                            |
|-------------------------|-------------------------------------------------------|
| EvictionByEvictionAPI   | the API server, when a pod is evicted (`kubectl drain`) |
| DeletionByTaintManager  | the controller that evicts pods from tainted nodes    |
| DeletionByPodGC         | the controller that deletes pods of nodes that are gone |
| PreemptionByScheduler   | the scheduler, for a pod of higher priority           |
| TerminationByKubelet    | a node that runs out of memory or disk, or shuts down |
"""

from typing import Final

from kohort.objects.meta import find_condition
from kohort.objects.pods import Pod

DISRUPTION_TARGET: Final = "DisruptionTarget"

EVICTION_API: Final = "EvictionByEvictionAPI"
TAINT_MANAGER: Final = "DeletionByTaintManager"
POD_GC: Final = "DeletionByPodGC"
PREEMPTION: Final = "PreemptionByScheduler"
_FORMER_PREEMPTION: Final = "PreemptionByKubeScheduler"
"""Kubernetes before 1.26."""
KUBELET: Final = "TerminationByKubelet"

_BY_CONTROL_PLANE: Final = frozenset({EVICTION_API, TAINT_MANAGER, POD_GC, PREEMPTION, _FORMER_PREEMPTION})


def disruption_reason(pod: Pod) -> str:
    """Empty if the pod is not disrupted."""
    target = find_condition(pod.status.conditions, DISRUPTION_TARGET)
    return target.reason if target is not None and target.status == "True" else ""


def is_disrupted_by_control_plane(pod: Pod) -> bool:
    """Whether the pod is deleted although nothing is wrong with it. What a node ends by itself has failed there."""
    return disruption_reason(pod) in _BY_CONTROL_PLANE
