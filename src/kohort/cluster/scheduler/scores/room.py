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
        if node.milli_cpu:
            total += max(node.milli_cpu - node.scored_cpu - cpu, 0) * 100 // node.milli_cpu
            weights += 1
        if node.memory:
            total += max(node.memory - node.scored_memory - memory, 0) * 100 // node.memory
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
        before = _balance(node, node.used_cpu, node.used_memory)
        after = _balance(node, node.used_cpu + cpu, node.used_memory + memory)
        values.append(50 + (50 + after - before) // 2)
    return values


def _balance(node: NodeFacts, cpu: int, memory: int) -> int:
    if not node.milli_cpu or not node.memory:
        return 100
    apart = abs(min(cpu / node.milli_cpu, 1.0) - min(memory / node.memory, 1.0)) / 2
    return int((1 - apart) * 100)
