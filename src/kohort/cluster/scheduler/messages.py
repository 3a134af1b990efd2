"""The scheduler's results in words: the messages of conditions and events, as kube-scheduler words them."""

from typing import Final

from kohort.cluster.scheduler.decision import Unschedulable
from kohort.cluster.scheduler.preemption import NoEviction, NoEvictionReason
from kohort.rules.scheduler_message import NodeReason
from kohort.rules.scheduling.rejection_text import counted_reasons, reason_text

NO_NODES: Final = "no nodes available to schedule pods"
NO_CLAIMS: Final = "no new claims to deallocate"
"""Kubernetes 1.34 and later say this first of every pod without device claims; tools match on the whole line."""
_NOT_HELPFUL: Final = (NodeReason.PREEMPTION_NOT_HELPFUL,)


def unschedulable_message(result: Unschedulable, no_eviction: NoEviction | None = None) -> str:
    """Why no node takes the pod, and why preemption does not help; None while preemption is making room."""
    if result.nodes == 0:
        return NO_NODES
    if result.rejection is not None:
        counted = f" {reason_text(result.rejection.problem)}."
    else:
        unexamined = () if result.unexamined is None else result.unexamined.reasons
        counted = counted_reasons(result.rejections, result.nodes, unexamined)
    message = f"0/{result.nodes} nodes are available:{counted}"
    preemption = "" if no_eviction is None else _preemption(no_eviction, result.nodes)
    return f"{message} {preemption}" if preemption else message


def _preemption(result: NoEviction, nodes: int) -> str:
    match result.reason:
        case NoEvictionReason.POD_CANNOT_BE_PLACED:
            return ""
        case NoEvictionReason.VOLUMES_NOT_READY:
            return "not found"
        case NoEvictionReason.POLICY_NEVER:
            outcome = "not eligible due to preemptionPolicy=Never."
        case NoEvictionReason.VICTIMS_TERMINATING:
            outcome = "not eligible due to a terminating pod on the nominated node."
        case NoEvictionReason.NO_NODE_HELPED:
            outcome = f"0/{nodes} nodes are available:{counted_reasons(result.rejections, nodes, _NOT_HELPFUL)}"
    return f"{NO_CLAIMS}, preemption: {outcome}"
