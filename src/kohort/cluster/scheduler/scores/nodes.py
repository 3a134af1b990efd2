"""Scores from the node itself: soft taints, preferred node affinity, images already there."""

from collections.abc import Sequence
from typing import Final

from kohort.rules.scheduling.affinity_terms import node_term_matches
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters.nodes import tolerates
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo

_MB: Final = 1024 * 1024
_LEAST_IMAGE: Final = 23 * _MB
_MOST_IMAGE: Final = 1000 * _MB


def taint_score(pod: PodInfo, cluster: ClusterState, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """The fewer PreferNoSchedule taints that the pod does not tolerate, the better."""
    if not any(node.preferred_taints for node in nodes):
        return None
    soft = tuple(entry for entry in pod.tolerations if entry.effect in ("", "PreferNoSchedule"))
    counts = [sum(not tolerates(soft, taint) for taint in node.preferred_taints) for node in nodes]
    most = max(counts)
    return [100 - 100 * count // most for count in counts] if most else None


def node_affinity_score(pod: PodInfo, cluster: ClusterState, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """Weights of the preferred terms that a node matches, scaled to the best node."""
    if not pod.preferred_nodes:
        return None
    sums = [
        sum(weight for term, weight in pod.preferred_nodes if node_term_matches(term, node.name, node.labels))
        for node in nodes
    ]
    best = max(sums)
    return [100 * value // best for value in sums] if best else None


def image_locality_score(pod: PodInfo, cluster: ClusterState, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """Large images that are already there, valued less if only few nodes have them, so that one node does not draw all
    pods."""
    total = len(cluster.schedulable)
    spread = {image: cluster.image_nodes.get(image, 0) / total for image in pod.images} if total else {}
    if not any(spread.values()):
        return None
    ceiling = _MOST_IMAGE * len(pod.images)
    values: list[int] = []
    for node in nodes:
        present = sum(int(node.images.get(image, 0) * spread[image]) for image in pod.images)
        values.append(100 * (min(max(present, _LEAST_IMAGE), ceiling) - _LEAST_IMAGE) // (ceiling - _LEAST_IMAGE))
    return values
