"""Which of the possible nodes is best.

Every score looks at the pod and all candidates together and returns one number from 0 to 100 per node (up to 200 where
it is two in one), or None if it has no opinion. The weighted sum decides; equals are drawn by lot, else every scheduler
in the world would fill the first node.
"""

from collections.abc import Callable, Sequence

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts
from kohort.cluster.scheduler.scores.interpod import inter_pod_preferences
from kohort.cluster.scheduler.scores.node_resources import room
from kohort.cluster.scheduler.scores.nodes import image_locality, node_preferences, tainted_last
from kohort.cluster.scheduler.scores.spread import spread_evenly

Score = Callable[[PodFacts, ClusterState, Sequence[NodeFacts]], list[int] | None]

SCORES: Sequence[tuple[Score, int]] = (
    (tainted_last, 3),
    (node_preferences, 2),
    (spread_evenly, 2),
    (inter_pod_preferences, 2),
    (room, 1),
    (image_locality, 1),
)


def total_scores(pod: PodFacts, cluster: ClusterState, nodes: Sequence[NodeFacts]) -> list[int]:
    totals = [0] * len(nodes)
    for score, weight in SCORES:
        found = score(pod, cluster, nodes)
        if found is not None:
            totals = [total + weight * value for total, value in zip(totals, found, strict=True)]
    return totals
