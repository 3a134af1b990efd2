"""Why a pod has no node, and what to do about it."""

from typing import Final

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.advice import Advice
from kohort.inspection.cause import CauseKind
from kohort.inspection.pod_context import PodContext
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition
from kohort.rules.scheduler_message import InsufficientResource, NodeReason, Reason, reasons_in

_AFFINITY: Final = frozenset[Reason](
    {
        NodeReason.NODE_AFFINITY,
        NodeReason.NODE_NOT_NAMED,
        NodeReason.POD_AFFINITY,
        NodeReason.POD_ANTI_AFFINITY,
        NodeReason.EXISTING_POD_ANTI_AFFINITY,
    }
)


def scheduling_cause(pod: Pod, context: PodContext) -> tuple[CauseKind, str, Advice] | None:
    """(kind, what was found, what to do); None if it has a node."""
    if pod.spec.node_name:
        return None
    if gates := [one.name for one in pod.spec.scheduling_gates]:
        text = f"held by scheduling gate{'' if len(gates) == 1 else 's'} {', '.join(gates)}"
        return (
            CauseKind.SCHEDULING,
            text,
            Advice("let the controller that set the gate lift it, or take the gate out of the template"),
        )
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return (
            CauseKind.SCHEDULING,
            scheduled.message or scheduled.reason,
            Advice(_place_to_look(reasons_in(scheduled.message), pod, context)),
        )
    name = pod.spec.scheduler_name or "default-scheduler"
    text = f"no node yet, {name} has not looked at it"
    return CauseKind.WAITING, text, Advice("wait; if it stays so, see that this scheduler runs")


def _place_to_look(reasons: frozenset[Reason], pod: Pod, context: PodContext) -> str:
    """
    | the scheduler's reason | what to do |
    |---|---|
    | a resource is insufficient, or too many pods | more room |
    | affinity, with an exclusive topology | more domains |
    | affinity or selector | labels |
    | taint | tolerations |
    """
    if NodeReason.TOO_MANY_PODS in reasons or any(isinstance(reason, InsufficientResource) for reason in reasons):
        return "add nodes, free what others hold, or ask for less in the template"
    if context.group_set is not None and (found := _placement_of_groups(reasons, context.group_set)):
        return found
    if reasons & _AFFINITY:
        asked = ",".join(f"{key}={value}" for key, value in pod.spec.node_selector.items())
        look = f" (kubectl get nodes -l {asked})" if asked else ""
        return f"see that nodes have the labels that the template's selector and affinity ask for{look}"
    if NodeReason.UNTOLERATED_TAINT in reasons:
        return "tolerate the taint in the template, or remove it from the nodes"
    return "kubectl describe the pod for the whole message of the scheduler"


def _placement_of_groups(reasons: frozenset[Reason], group_set: LeaderWorkerSet) -> str:
    for label, who in (
        (group_set.subgroup_exclusive_topology, "subgroup"),
        (group_set.exclusive_topology, "group"),
    ):
        if label and reasons & _AFFINITY:
            seen = f"see which nodes have it (kubectl get nodes -L {label})"
            return f"every {who} needs a value of node label {label} for itself: {seen}, add some, or want fewer groups"
    unique = group_set.template.scheduling
    if unique is not None and unique.replica_unique_node_selector:
        label = unique.replica_unique_node_selector
        return f"each group needs nodes labelled {label}=<leader's name>: kubectl label nodes ... {label}=..."
    return ""
