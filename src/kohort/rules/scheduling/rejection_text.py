"""Rejections in the words of kube-scheduler."""

from collections.abc import Mapping

from kohort.rules import scheduler_message
from kohort.rules.scheduler_message import Reason
from kohort.rules.scheduling.rejection import NodeRejection, PodProblem, PodProblemKind


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
