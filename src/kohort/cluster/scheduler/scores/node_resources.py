"""Scores from how full a node is: prefer the emptier one, and keep cpu and memory in step.

Pods come in sets that ask for the same, and placing one changes one node. So every node remembers what it is worth to
a pod that asks for so much, until anything on it changes: a decision among fifty nodes works out one of them.
"""

from collections.abc import Sequence

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts, Wish

_REMEMBERED = 64
"""Different wishes for which one node knows its worth."""


def room(pod: PodFacts, cluster: ClusterState, nodes: Sequence[NodeFacts]) -> list[int]:
    """Emptiness and evenness together, each from 0 to 100."""
    asks = pod.asks
    wish = (asks.milli_cpu, asks.memory, asks.scored_cpu, asks.scored_memory)
    return [found if (found := node.worth.get(wish)) is not None else _remembered(node, wish) for node in nodes]


def _remembered(node: NodeFacts, wish: Wish) -> int:
    cpu, memory, scored_cpu, scored_memory = wish
    if len(node.worth) >= _REMEMBERED:
        node.worth.clear()
    worth = node.worth[wish] = emptiness(node, scored_cpu, scored_memory) + evenness(node, cpu, memory)
    return worth


def emptiness(node: NodeFacts, cpu: int, memory: int) -> int:
    """The part of cpu and memory that would stay free, averaged."""
    wholes = ((node.milli_cpu, node.scored_cpu + cpu), (node.memory, node.scored_memory + memory))
    parts = [max(whole - used, 0) * 100 // whole for whole, used in wholes if whole]
    return sum(parts) // len(parts) if parts else 0


def evenness(node: NodeFacts, cpu: int, memory: int) -> int:
    """Whether a pod brings cpu and memory of the node nearer to each other: 75 no change, towards 100 better.

    A pod that asks for neither has no say: it would always choose the node that happens to be in balance.
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
