"""Scores from how full a node is: prefer the emptier one, and keep cpu and memory in step.

Pods of one template request the same amounts, and placing one of them changes one node. So every node keeps its score
per requested amounts until a pod on it changes: a decision among fifty nodes computes the score of one of them.
"""

from collections.abc import Sequence

from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo, RequestShape

_MOST_CACHED_SCORES = 64
"""Different wishes for which one node knows its resource_scores."""


def resource_score(pod: PodInfo, cluster: ClusterState, nodes: Sequence[NodeInfo]) -> list[int]:
    """Emptiness and balanced_allocation together, each from 0 to 100."""
    requested = pod.requested
    shape = (requested.milli_cpu, requested.memory, requested.scored_cpu, requested.scored_memory)
    return [
        found if (found := node.resource_scores.get(shape)) is not None else _cached_score(node, shape)
        for node in nodes
    ]


def _cached_score(node: NodeInfo, shape: RequestShape) -> int:
    cpu, memory, scored_cpu, scored_memory = shape
    if len(node.resource_scores) >= _MOST_CACHED_SCORES:
        node.resource_scores.clear()
    score = node.resource_scores[shape] = least_allocated(node, scored_cpu, scored_memory) + balanced_allocation(
        node, cpu, memory
    )
    return score


def least_allocated(node: NodeInfo, cpu: int, memory: int) -> int:
    """The part of cpu and memory that would stay free, averaged."""
    wholes = ((node.milli_cpu, node.scored_cpu + cpu), (node.memory, node.scored_memory + memory))
    parts = [max(whole - used, 0) * 100 // whole for whole, used in wholes if whole]
    return sum(parts) // len(parts) if parts else 0


def balanced_allocation(node: NodeInfo, cpu: int, memory: int) -> int:
    """Whether a pod brings cpu and memory of the node nearer to each other: 75 no change, towards 100 better.

    A pod that requests neither is not scored: it would always go to the node that happens to be in balance.
    """
    if not cpu and not memory:
        return 0
    now = balance(node.milli_cpu, node.memory, node.used_cpu, node.used_memory)
    after = balance(node.milli_cpu, node.memory, node.used_cpu + cpu, node.used_memory + memory)
    return 50 + (50 + after - now) // 2


def balance(cpu: int, memory: int, used_cpu: int, used_memory: int) -> int:
    """How well cpu and memory of a node are in step: 100 when the same part of both is used."""
    if not cpu or not memory:
        return 100
    apart = abs(min(used_cpu / cpu, 1.0) - min(used_memory / memory, 1.0)) / 2
    return int((1 - apart) * 100)
