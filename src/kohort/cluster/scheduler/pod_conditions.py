"""The conditions PodScheduled and DisruptionTarget that the scheduler writes."""

from kohort.kube import clock
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, find_condition
from kohort.objects.pods import Pod
from kohort.rules import pod_disruption
from kohort.rules.pod_status import SCHEDULED


def unscheduled(pod: Pod, reason: str, message: str) -> JsonObject | None:
    """The condition of a pod that has no node, None if the pod already has it."""
    known = find_condition(pod.status.conditions, SCHEDULED)
    if (
        known is not None
        and (known.status, known.reason, known.message) == ("False", reason, message)
        and known.observed_generation == pod.metadata.generation
    ):
        return None
    return _condition(pod, SCHEDULED, "False", reason, message, known)


def preempted(pod: Pod, scheduler: str) -> JsonObject | None:
    """The condition of a pod that is evicted for a pod of higher priority, None if the pod already has it."""
    known = find_condition(pod.status.conditions, pod_disruption.DISRUPTION_TARGET)
    if known is not None and known.status == "True" and known.reason == pod_disruption.PREEMPTION:
        return None
    message = f"{scheduler}: preempting to accommodate a higher priority pod"
    return _condition(pod, pod_disruption.DISRUPTION_TARGET, "True", pod_disruption.PREEMPTION, message, known)


def _condition(pod: Pod, type: str, status: str, reason: str, message: str, known: Condition | None) -> JsonObject:
    moved = known is None or known.status != status or known.last_transition_time is None
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": clock.timestamp() if moved or known is None else known.last_transition_time,
        "observedGeneration": pod.metadata.generation,
    }
