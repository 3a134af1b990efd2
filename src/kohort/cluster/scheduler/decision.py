"""Which node a pod is placed on: a pure function of the pod and the state of the cluster.

The result is a `Placement`, or `Unschedulable` with the reason of every node that was examined.
"""

import random
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from kohort.cluster.scheduler.scores import total_scores
from kohort.rules.scheduler_message import NodeReason
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters import PreparedFilters, prepare
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import FilterName, NodeRejection, PodRejection, unresolvable

MIN_CANDIDATES: Final = 100
NOT_NAMED: Final = unresolvable(FilterName.NODE_AFFINITY, NodeReason.NODE_NOT_NAMED)


class Placement(msgspec.Struct, frozen=True):
    node: str
    evaluated: int
    feasible: int


class Unschedulable(msgspec.Struct, frozen=True):
    """No node takes the pod."""

    nodes: int
    rejections: Mapping[str, NodeRejection] = {}
    """By node name."""
    unexamined: NodeRejection | None = None
    """Why the nodes without a rejection of their own were not examined."""
    rejection: PodRejection | None = None

    @property
    def filters(self) -> frozenset[FilterName]:
        """The filters that rejected the pod: a change that concerns none of them cannot help."""
        if self.rejection is not None:
            return frozenset((self.rejection.filter,))
        names = {rejection.filter for rejection in self.rejections.values()}
        return frozenset(names | ({self.unexamined.filter} if self.unexamined else set()))

    @property
    def preemptible(self) -> list[str]:
        """Nodes that could take the pod once other pods are removed."""
        return [name for name, rejection in self.rejections.items() if rejection.preemption_may_help]


class NodeChooser:
    """Chooses a node for one pod after the other. In large clusters each search starts where the last one ended, so
    that all nodes are examined equally often."""

    def __init__(self, random_source: random.Random | None = None) -> None:
        # Of the state of the module, so that a seeded run on virtual time repeats.
        self._random = random_source or random.Random(random.getrandbits(64))
        self._start = 0

    def choose(self, pod: PodInfo, cluster: ClusterState) -> Placement | Unschedulable:
        nodes = cluster.schedulable
        if not nodes:
            return Unschedulable(0)
        prepared = prepare(pod, cluster)
        if isinstance(prepared, PodRejection):
            return Unschedulable(len(nodes), rejection=prepared)
        nominated = self._nominated(pod, cluster, prepared)
        if nominated is not None:
            return Placement(nominated, 1, 1)
        candidates, unexamined = self._candidates(pod, cluster)
        rejections: dict[str, NodeRejection] = {}
        feasible: list[NodeInfo] = []
        enough = candidates_wanted(len(candidates))
        # Nearly always one filter applies to the pod, and no node is nominated for another pod.
        check = prepared.checks[0] if len(prepared.checks) == 1 else prepared.rejection
        if cluster.nominated:
            check = partial(node_rejection, pod, cluster=cluster, prepared=prepared)
        for node in candidates:
            rejection = check(node)
            if rejection is not None:
                rejections[node.name] = rejection
                continue
            feasible.append(node)
            if len(feasible) >= enough:
                break
        evaluated = len(feasible) + len(rejections)
        self._start = (self._start + evaluated) % len(nodes)
        if not feasible:
            return Unschedulable(len(nodes), rejections, unexamined)
        return Placement(self._best(pod, cluster, feasible), evaluated, len(feasible))

    def _nominated(self, pod: PodInfo, cluster: ClusterState, prepared: PreparedFilters) -> str | None:
        """The node that preemption made room on, if the pod fits there now."""
        node = cluster.nodes.get(pod.pod.status.nominated_node_name)
        if node is None or node.node is None or node_rejection(pod, node, cluster, prepared) is not None:
            return None
        return node.name

    def _candidates(self, pod: PodInfo, cluster: ClusterState) -> tuple[list[NodeInfo], NodeRejection | None]:
        nodes = cluster.schedulable
        names = None if pod.node_rule is None else pod.node_rule.names
        if names is not None:
            named = [cluster.nodes[name] for name in names if name in cluster.nodes]
            return [node for node in named if node.node is not None], NOT_NAMED
        start = self._start % len(nodes) if candidates_wanted(len(nodes)) < len(nodes) else 0
        return nodes[start:] + nodes[:start] if start else nodes, None

    def _best(self, pod: PodInfo, cluster: ClusterState, nodes: list[NodeInfo]) -> str:
        if len(nodes) == 1:
            return nodes[0].name
        totals = total_scores(pod, cluster, nodes)
        top = max(totals)
        return self._random.choice([node for node, total in zip(nodes, totals, strict=True) if total == top]).name


def node_rejection(
    pod: PodInfo, node: NodeInfo, cluster: ClusterState, prepared: PreparedFilters
) -> NodeRejection | None:
    """Why a node does not take the pod, counting pods of at least the same priority that are nominated to the node.

    The pod must fit with them and without them: they may still be placed elsewhere, and until they run there a required
    affinity to them is not satisfied.
    """
    nominated = cluster.nominated.get(node.name)
    if nominated:
        ahead = [other for other in nominated.values() if other.priority >= pod.priority and other.uid != pod.uid]
        if ahead:
            with cluster.with_pods(ahead, node.name):
                crowded = prepare(pod, cluster)
                if isinstance(crowded, PodRejection):
                    return crowded.on_node()
                rejection = crowded.rejection(node)
            if rejection is not None:
                return rejection
    return prepared.rejection(node)


def candidates_wanted(nodes: int) -> int:
    """How many feasible nodes are enough to choose from: all of a small cluster, a falling part of a large one."""
    if nodes <= MIN_CANDIDATES:
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, MIN_CANDIDATES)
