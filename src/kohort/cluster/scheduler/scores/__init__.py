"""Which of the possible nodes is best.

Every score looks at the pod and all candidates together and returns one number from 0 to 100 per node (up to 200 where
it combines two scores), or None if it does not apply. The weighted sum decides; among equal nodes one is drawn at
random, else all pods would go to the first node.
"""

from collections.abc import Callable, Sequence

from kohort.cluster.scheduler.scores.interpod import inter_pod_affinity_score
from kohort.cluster.scheduler.scores.node_resources import resource_score
from kohort.cluster.scheduler.scores.nodes import image_locality_score, node_affinity_score, taint_score
from kohort.cluster.scheduler.scores.spread import topology_spread_score
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo

Score = Callable[[PodInfo, ClusterState, Sequence[NodeInfo]], list[int] | None]

SCORES: Sequence[tuple[Score, int]] = (
    (taint_score, 3),
    (node_affinity_score, 2),
    (topology_spread_score, 2),
    (inter_pod_affinity_score, 2),
    (resource_score, 1),
    (image_locality_score, 1),
)


def total_scores(pod: PodInfo, cluster: ClusterState, nodes: Sequence[NodeInfo]) -> list[int]:
    totals = [0] * len(nodes)
    for score, weight in SCORES:
        found = score(pod, cluster, nodes)
        if found is not None:
            totals = [total + weight * value for total, value in zip(totals, found, strict=True)]
    return totals
