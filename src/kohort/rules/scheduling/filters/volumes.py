"""Filters for pods with volume claims: exclusive access modes, the node affinity of volumes, and zones."""

from typing import Final

from kohort.rules.scheduler_message import NodeReason
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import (
    FilterName,
    NodeCheck,
    NodeRejection,
    PodRejection,
    resolvable,
    unresolvable,
)
from kohort.rules.scheduling.volume_binding import ClaimsOfPod

EXCLUSIVE: Final = resolvable(FilterName.VOLUME_RESTRICTIONS, NodeReason.CLAIM_IN_USE)
ZONE: Final = unresolvable(FilterName.VOLUME_ZONE, NodeReason.VOLUME_ZONE)


def volume_restrictions(pod: PodInfo, cluster: ClusterState) -> NodeCheck | None:
    """A claim with ReadWriteOncePod belongs to one pod in the whole cluster."""
    exclusive = [
        (pod.namespace, name)
        for name in pod.claims
        if (claim := cluster.storage.claims.get((pod.namespace, name))) is not None
        and "ReadWriteOncePod" in claim.spec.access_modes
    ]
    if not exclusive:
        return None
    in_use = any(cluster.claim_users.get(key, set()) - {pod.uid} for key in exclusive)
    if not in_use:
        return None
    return _exclusive


def _exclusive(node: NodeInfo) -> NodeRejection | None:
    return EXCLUSIVE


def volume_binding(pod: PodInfo, cluster: ClusterState) -> NodeCheck | PodRejection | None:
    """Bound claims must be reachable from the node, delayed ones bindable on it; all others make the pod wait."""
    if not pod.claims:
        return None
    claims = claims_of(pod, cluster)
    if claims.problem is not None:
        return PodRejection(FilterName.VOLUME_BINDING, claims.problem)

    def check(node: NodeInfo) -> NodeRejection | None:
        conflict = cluster.storage.conflict(claims, node.name, node.labels)
        return None if conflict is None else unresolvable(FilterName.VOLUME_BINDING, conflict)

    return check


def volume_zone(pod: PodInfo, cluster: ClusterState) -> NodeCheck | None:
    """A volume with zone labels can be used in its zone only."""
    if not pod.claims:
        return None
    claims = claims_of(pod, cluster)
    if claims.problem is not None or not claims.bound:
        return None
    return lambda node: ZONE if cluster.storage.wrong_zone(claims, node.labels) else None


def claims_of(pod: PodInfo, cluster: ClusterState) -> ClaimsOfPod:
    ephemeral = {
        volume.claim_name(pod.key.name): pod.uid for volume in pod.pod.spec.volumes if volume.ephemeral is not None
    }
    return cluster.storage.claims_of(pod.namespace, pod.claims, ephemeral)
