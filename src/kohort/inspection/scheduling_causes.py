"""Why a pod has no node."""

from typing import Final

from kohort.groups.failed_pod_backoff import is_held
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.cause import CauseKind
from kohort.inspection.pod_context import PodContext
from kohort.inspection.problems import (
    FitsNoNode,
    HeldAfterFailures,
    HeldByGates,
    NotScheduledYet,
    PlacementAdvice,
    Problem,
)
from kohort.objects.core import Pod
from kohort.rules.group_labels import HELD_BECAUSE, HELD_UNTIL
from kohort.rules.pod_scheduling import without_node
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


def scheduling_problem(pod: Pod, context: PodContext) -> tuple[CauseKind, Problem] | None:
    """None if it has a node."""
    if pod.spec.node_name:
        return None
    if is_held(pod):
        notes = pod.metadata.annotations
        problem = HeldAfterFailures(notes.get(HELD_UNTIL, ""), notes.get(HELD_BECAUSE, ""))
        return CauseKind.CRASH, problem
    if gates := tuple(one.name for one in pod.spec.scheduling_gates):
        return CauseKind.SCHEDULING, HeldByGates(gates)
    if scheduled := without_node(pod):
        message = scheduled.message or scheduled.reason
        return CauseKind.SCHEDULING, _placement_problem(message, reasons_in(scheduled.message), pod, context)
    return CauseKind.WAITING, NotScheduledYet(pod.spec.scheduler_name or "default-scheduler")


def _placement_problem(message: str, reasons: frozenset[Reason], pod: Pod, context: PodContext) -> FitsNoNode:
    """
    | the scheduler's reason | what to do |
    |---|---|
    | a resource is insufficient, or too many pods | more room |
    | affinity, with an exclusive topology | more domains; other sets that occupy some are named |
    | affinity or selector | labels |
    | the nodes that reach its volume take no pods: lost, cordoned or tainted | bring them back, or give the volume up |
    | taint | tolerations |
    | all other nodes are cordoned | uncordon one |
    """
    if NodeReason.TOO_MANY_PODS in reasons or any(isinstance(reason, InsufficientResource) for reason in reasons):
        return FitsNoNode(message, PlacementAdvice.MORE_ROOM)
    if context.group_set is not None and (found := _placement_of_groups(reasons, context.group_set)):
        taken = context.domains_of_others if found[0] is PlacementAdvice.EXCLUSIVE_GROUP else {}
        others = tuple(sorted({name for names in taken.values() for name in names}))
        return FitsNoNode(message, *found, other_sets=others, taken_domains=tuple(taken))
    if reasons & _AFFINITY:
        asked = ",".join(f"{key}={value}" for key, value in pod.spec.node_selector.items())
        return FitsNoNode(message, PlacementAdvice.NODE_LABELS, selector=asked)
    if NodeReason.VOLUME_NODE_AFFINITY in reasons:
        claims = tuple(one.claim_name for volume in pod.spec.volumes if (one := volume.persistent_volume_claim))
        return FitsNoNode(message, PlacementAdvice.NODE_OF_VOLUME, claims=claims, namespace=pod.metadata.namespace)
    if NodeReason.UNTOLERATED_TAINT in reasons:
        return FitsNoNode(message, PlacementAdvice.TAINTS)
    if NodeReason.UNSCHEDULABLE in reasons:
        return FitsNoNode(message, PlacementAdvice.CORDONED)
    return FitsNoNode(message, PlacementAdvice.UNKNOWN)


def _placement_of_groups(reasons: frozenset[Reason], group_set: LeaderWorkerSet) -> tuple[PlacementAdvice, str] | None:
    """What the placement of groups asks for, and the node label that it goes by."""
    for label, advice in (
        (group_set.subgroup_exclusive_topology, PlacementAdvice.EXCLUSIVE_SUBGROUP),
        (group_set.exclusive_topology, PlacementAdvice.EXCLUSIVE_GROUP),
    ):
        if label and reasons & _AFFINITY:
            return advice, label
    unique = group_set.template.scheduling
    if unique is not None and unique.replica_unique_node_selector:
        return PlacementAdvice.UNIQUE_NODES, unique.replica_unique_node_selector
    return None
