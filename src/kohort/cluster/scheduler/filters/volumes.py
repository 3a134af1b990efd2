"""Filters for pods with claims: exclusive use, where volumes can be reached, and zones."""

from typing import Final

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filter_result import Check, Refusal, Verdict, for_now, hopeless
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts
from kohort.cluster.scheduler.volume_binding import WRONG_ZONE, ClaimsOfPod

EXCLUSIVE: Final = for_now(
    "VolumeRestrictions",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)
ZONE: Final = hopeless("VolumeZone", WRONG_ZONE)


def volume_restrictions(pod: PodFacts, cluster: ClusterState) -> Check | None:
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


def _exclusive(node: NodeFacts) -> Verdict | None:
    return EXCLUSIVE


def volume_binding(pod: PodFacts, cluster: ClusterState) -> Check | Refusal | None:
    """Bound claims must be reachable from the node, delayed ones bindable on it; all others make the pod wait."""
    if not pod.claims:
        return None
    claims = claims_of(pod, cluster)
    if claims.problem:
        return Refusal("VolumeBinding", claims.problem)

    def check(node: NodeFacts) -> Verdict | None:
        conflict = cluster.storage.conflict(claims, node.name, node.labels)
        return hopeless("VolumeBinding", conflict) if conflict else None

    return check


def volume_zone(pod: PodFacts, cluster: ClusterState) -> Check | None:
    """Volumes with zone labels are used in their zone."""
    if not pod.claims:
        return None
    claims = claims_of(pod, cluster)
    if claims.problem or not claims.bound:
        return None
    return lambda node: ZONE if cluster.storage.wrong_zone(claims, node.labels) else None


def claims_of(pod: PodFacts, cluster: ClusterState) -> ClaimsOfPod:
    ephemeral = {
        volume.claim_name(pod.key.name): pod.uid for volume in pod.pod.spec.volumes if volume.ephemeral is not None
    }
    return cluster.storage.claims_of(pod.namespace, pod.claims, ephemeral)
