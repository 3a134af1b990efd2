"""The scheduler's results in words: the messages of conditions and events, as kube-scheduler words them."""

from collections.abc import Mapping
from typing import Final

from kohort.cluster.scheduler.decision import Unschedulable
from kohort.cluster.scheduler.preemption import NoEviction, NoEvictionReason
from kohort.cluster.scheduler.rejection import NodeRejection, PodProblem, PodProblemKind
from kohort.rules import scheduler_message
from kohort.rules.scheduler_message import NodeReason, Reason

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


def counted_reasons(
    rejections: Mapping[str, NodeRejection], nodes: int, unexamined: tuple[Reason | PodProblem, ...] = ()
) -> str:
    """Each reason with the number of nodes it holds for; `unexamined` are the reasons of nodes without a rejection."""
    counts: dict[Reason | PodProblem, int] = {}
    for rejection in rejections.values():
        for reason in rejection.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    if len(rejections) < nodes:
        for reason in unexamined:
            counts[reason] = counts.get(reason, 0) + nodes - len(rejections)
    shown = sorted(f"{count} {reason_text(reason)}" for reason, count in counts.items())
    return f" {', '.join(shown)}." if shown else ""


def reason_text(reason: Reason | PodProblem) -> str:
    return _problem_text(reason) if isinstance(reason, PodProblem) else scheduler_message.text(reason)


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


def _problem_text(problem: PodProblem) -> str:
    claim, volume = problem.claim, problem.volume
    match problem.kind:
        case PodProblemKind.CONFLICTING_NODE_NAMES:
            return "pod affinity terms conflict"
        case PodProblemKind.DEVICES_NOT_ALLOCATED:
            return "the pod has resource claims, and this scheduler does not allocate devices"
        case PodProblemKind.CLAIM_NOT_FOUND:
            return f'persistentvolumeclaim "{claim}" not found'
        case PodProblemKind.EPHEMERAL_CLAIM_NOT_CREATED:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim}"'
        case PodProblemKind.CLAIM_LOST_ITS_VOLUME:
            return f'persistentvolumeclaim "{claim}" bound to non-existent persistentvolume "{volume}"'
        case PodProblemKind.CLAIM_BEING_DELETED:
            return f'persistentvolumeclaim "{claim}" is being deleted'
        case PodProblemKind.CLAIM_OF_ANOTHER_POD:
            return f"PVC {problem.namespace}/{claim} was not created for pod (pod is not owner)"
        case PodProblemKind.VOLUME_NOT_FOUND:
            return f'persistentvolume "{volume}" not found'
        case PodProblemKind.CLAIM_NOT_BOUND:
            return "pod has unbound immediate PersistentVolumeClaims"
