"""Where one pod should go: a pure function of the pod and the state of the cluster.

The answer is a node, or a `Misfit` that knows for every node why not and says it in the words that people know:
`0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). preemption: …`
"""

import random
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filter_result import Refusal, Verdict, hopeless
from kohort.cluster.scheduler.filters import Judge, prepare
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts
from kohort.cluster.scheduler.scores import total_scores

NO_NODES: Final = "no nodes available to schedule pods"
MIN_CANDIDATES: Final = 100


class Placement(msgspec.Struct, frozen=True):
    node: str
    evaluated: int
    feasible: int


class Misfit(msgspec.Struct, frozen=True):
    """No node will do."""

    nodes: int
    verdicts: Mapping[str, Verdict] = {}
    elsewhere: Verdict | None = None
    """The verdict on all nodes that were not looked at."""
    refusal: Refusal | None = None

    @property
    def filters(self) -> frozenset[str]:
        """Who refused: a change that concerns none of them cannot help."""
        if self.refusal is not None:
            return frozenset((self.refusal.filter,))
        found = {verdict.filter for verdict in self.verdicts.values()}
        return frozenset(found | ({self.elsewhere.filter} if self.elsewhere else set()))

    @property
    def preemptible(self) -> list[str]:
        """Nodes that could become right by removing pods."""
        return [name for name, verdict in self.verdicts.items() if verdict.preemption_may_help]

    def message(self, afterwards: str = "") -> str:
        """The condition's text; `afterwards` is what came of trying to make room."""
        if self.nodes == 0:
            return NO_NODES
        text = f"0/{self.nodes} nodes are available:"
        if self.refusal is not None:
            text += f" {self.refusal.message}."
        else:
            text += histogram(self.verdicts, self.nodes, self.elsewhere)
        return f"{text} {afterwards}" if afterwards else text


def histogram(verdicts: Mapping[str, Verdict], nodes: int, elsewhere: Verdict | None) -> str:
    counts: dict[str, int] = {}
    for verdict in verdicts.values():
        for reason in verdict.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    if elsewhere is not None and len(verdicts) < nodes:
        for reason in elsewhere.reasons:
            counts[reason] = counts.get(reason, 0) + nodes - len(verdicts)
    shown = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f" {', '.join(shown)}." if shown else ""


class Chooser:
    """Turns through large clusters, so that all nodes get their share of attention."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()
        self._start = 0

    def choose(self, pod: PodFacts, cluster: ClusterState) -> Placement | Misfit:
        nodes = cluster.schedulable
        if not nodes:
            return Misfit(0)
        judge = prepare(pod, cluster)
        if isinstance(judge, Refusal):
            return Misfit(len(nodes), refusal=judge)
        preferred = self._nominated(pod, cluster, judge)
        if preferred is not None:
            return Placement(preferred, 1, 1)
        candidates, elsewhere = self._candidates(pod, cluster)
        verdicts: dict[str, Verdict] = {}
        feasible: list[NodeFacts] = []
        enough = candidates_wanted(len(candidates))
        # Nearly always one filter has something to look at, and nobody was promised anything.
        judged_by = judge.checks[0] if len(judge.checks) == 1 else judge.verdict
        if cluster.nominated:
            judged_by = partial(judged, pod, cluster=cluster, judge=judge)
        for node in candidates:
            verdict = judged_by(node)
            if verdict is not None:
                verdicts[node.name] = verdict
                continue
            feasible.append(node)
            if len(feasible) >= enough:
                break
        evaluated = len(feasible) + len(verdicts)
        self._start = (self._start + evaluated) % len(nodes)
        if not feasible:
            return Misfit(len(nodes), verdicts, elsewhere)
        return Placement(self._best(pod, cluster, feasible), evaluated, len(feasible))

    def _nominated(self, pod: PodFacts, cluster: ClusterState, judge: Judge) -> str | None:
        """The node that preemption made room on, if the pod fits there now."""
        node = cluster.nodes.get(pod.pod.status.nominated_node_name)
        if node is None or node.node is None or judged(pod, node, cluster, judge) is not None:
            return None
        return node.name

    def _candidates(self, pod: PodFacts, cluster: ClusterState) -> tuple[list[NodeFacts], Verdict | None]:
        nodes = cluster.schedulable
        names = None if pod.node_rule is None else pod.node_rule.names
        if names is not None:
            named = [cluster.nodes[name] for name in names if name in cluster.nodes]
            verdict = hopeless("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]")
            return [node for node in named if node.node is not None], verdict
        start = self._start % len(nodes) if candidates_wanted(len(nodes)) < len(nodes) else 0
        return nodes[start:] + nodes[:start] if start else nodes, None

    def _best(self, pod: PodFacts, cluster: ClusterState, nodes: list[NodeFacts]) -> str:
        if len(nodes) == 1:
            return nodes[0].name
        totals = total_scores(pod, cluster, nodes)
        top = max(totals)
        return self._chance.choice([node for node, total in zip(nodes, totals, strict=True) if total == top]).name


def judged(pod: PodFacts, node: NodeFacts, cluster: ClusterState, judge: Judge) -> Verdict | None:
    """The verdict on a node, respecting pods at least as important that were promised room on it.

    The pod must fit with them and without them: they may still go elsewhere, and an affinity to them is no hold yet.
    """
    waiting = cluster.nominated.get(node.name)
    if waiting:
        promised = [other for other in waiting.values() if other.priority >= pod.priority and other.uid != pod.uid]
        if promised:
            with cluster.with_pods(promised, node.name):
                crowded = prepare(pod, cluster)
                if isinstance(crowded, Refusal):
                    return Verdict(crowded.filter, (crowded.message,), preemption_may_help=False)
                verdict = crowded.verdict(node)
            if verdict is not None:
                return verdict
    return judge.verdict(node)


def candidates_wanted(nodes: int) -> int:
    """How many possible nodes are enough to choose from: all of a small cluster, a falling part of a large one."""
    if nodes <= MIN_CANDIDATES:
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, MIN_CANDIDATES)
