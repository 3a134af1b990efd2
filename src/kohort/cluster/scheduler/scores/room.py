"""Scores from how full a node is: prefer the emptier one, and keep cpu and memory in step."""

from collections.abc import Sequence

from kohort.cluster.scheduler.facts import NodeFacts, PodFacts
from kohort.cluster.scheduler.state import ClusterState


def least_allocated(pod: PodFacts, cluster: ClusterState, nodes: Sequence[NodeFacts]) -> list[int]:
    """The part of cpu and memory that would stay free, averaged."""
    cpu, memory = pod.asks.scored_cpu, pod.asks.scored_memory
    values: list[int] = []
    for node in nodes:
        total = weights = 0
        if whole := node.milli_cpu:
            free = whole - node.scored_cpu - cpu
            total = free * 100 // whole if free > 0 else 0
            weights = 1
        if whole := node.memory:
            free = whole - node.scored_memory - memory
            total += free * 100 // whole if free > 0 else 0
            weights += 1
        values.append(total // weights if weights else 0)
    return values


def balanced_allocation(pod: PodFacts, cluster: ClusterState, nodes: Sequence[NodeFacts]) -> list[int] | None:
    """Whether the pod brings cpu and memory of the node nearer to each other: 75 no change, towards 100 better.

    A pod that asks for neither has no say: it would always choose the node that happens to be in balance.
    """
    cpu, memory = pod.asks.milli_cpu, pod.asks.memory
    if not cpu and not memory:
        return None
    values: list[int] = []
    for node in nodes:
        after = 100
        if node.milli_cpu and node.memory:
            # As `balance` does it; the call would cost more than the sum, once for every node and pod.
            of_cpu, of_memory = (node.used_cpu + cpu) / node.milli_cpu, (node.used_memory + memory) / node.memory
            apart = (of_cpu if of_cpu < 1.0 else 1.0) - (of_memory if of_memory < 1.0 else 1.0)
            after = int((1 - abs(apart) / 2) * 100)
        values.append(50 + (50 + after - node.balance) // 2)
    return values
