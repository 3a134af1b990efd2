"""The cluster as the scheduler sees it: nodes, what is on them, and live counts for the rules that pods carry.

Everything a decision needs is kept current while events arrive, so that a decision itself only looks things up:

- sums per node (in `NodeInfo`);
- for each rule of a pending pod, how many matching pods each node has (`counts`). The first request counts all pods,
  later changes adjust the count. Rules are interned, so all pods of one template share the same few;
- the rules of the pods on the nodes (`anti_affinity_counts`, `preference_counts`), one entry per rule and node, because
  anti-affinity applies in both directions.

Pods that were given a node but are not yet seen there are added at once (`assume`), else two decisions would use the
same resources. All of this runs in one thread; a decision may take pods away to see what would happen (`without`) and
puts them back.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from kohort.objects.core import Node
from kohort.objects.policy import PodDisruptionBudget
from kohort.rules.scheduling.affinity_terms import Labels, Matcher, Term
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.volume_binding import Storage

Counts = dict[str, int]
"""Per node name."""
WeightedTerm = tuple[Term, int]
K = TypeVar("K")

_REMEMBERED_MATCHERS = 4096
HARD_AFFINITY_WEIGHT = 1


class ClusterState:
    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.schedulable: list[NodeInfo] = []
        """Nodes that exist, in order of their names' appearance."""
        self.restricted: set[str] = set()
        """Names of those that are cordoned or have NoSchedule or NoExecute taints; usually none."""
        self.pods: dict[str, str] = {}
        """Pod uid to node name."""
        self.assumed: dict[str, PodInfo] = {}
        self.namespaces: dict[str, Labels] = {}
        self.storage = Storage()
        self.budgets: dict[tuple[str, str], PodDisruptionBudget] = {}
        self.nominated: dict[str, dict[str, PodInfo]] = {}
        self.anti_affinity_counts: dict[Term, Counts] = {}
        self.preference_counts: dict[WeightedTerm, Counts] = {}
        self.owned: dict[str, Counts] = {}
        self.image_nodes: Counts = {}
        self.claim_users: dict[tuple[str, str], set[str]] = {}
        self._live: OrderedDict[Matcher, Counts] = OrderedDict()
        self._live_by_label: dict[tuple[str, str], set[Matcher]] = {}
        self._live_others: set[Matcher] = set()

    # Nodes

    def add_node(self, node: Node) -> None:
        info = self._place(node.metadata.name)
        known = info.node is not None
        self._count_images(info, -1)
        info.set_node(node)
        self._count_images(info, 1)
        (self.restricted.add if info.unschedulable or info.repelling_taints else self.restricted.discard)(info.name)
        if not known:
            self.schedulable.append(info)

    def remove_node(self, name: str) -> None:
        info = self.nodes.get(name)
        if info is None:
            return
        self._count_images(info, -1)
        info.clear_node()
        self.restricted.discard(name)
        self.schedulable = [entry for entry in self.schedulable if entry is not info]
        if not info.pods:
            del self.nodes[name]

    def _place(self, name: str) -> NodeInfo:
        info = self.nodes.get(name)
        if info is None:
            info = self.nodes[name] = NodeInfo(name)
        return info

    def _count_images(self, info: NodeInfo, sign: int) -> None:
        for image in info.images:
            _add(self.image_nodes, image, sign)

    # Pods on nodes

    def add_pod(self, info: PodInfo, node_name: str) -> None:
        """The pod is on this node; an earlier info of it is replaced."""
        self.remove_pod(info.uid)
        self._place(node_name).add_pod(info)
        self.pods[info.uid] = node_name
        self._count_pod(info, node_name, 1)

    def replace_equal(self, info: PodInfo, node_name: str) -> bool:
        """Replace a pod whose amounts and rules did not change, as after most status updates: no sum changes. False
        when the pod is not known to be on the node."""
        if self.pods.get(info.uid) != node_name:
            return False
        self.nodes[node_name].pods[info.uid] = info
        self.assumed.pop(info.uid, None)
        return True

    def remove_pod(self, uid: str) -> PodInfo | None:
        node_name = self.pods.pop(uid, None)
        self.assumed.pop(uid, None)
        if node_name is None:
            return None
        node = self.nodes[node_name]
        info = node.pods[uid]
        node.remove_pod(info)
        self._count_pod(info, node_name, -1)
        if node.node is None and not node.pods:
            del self.nodes[node_name]
        return info

    def assume(self, info: PodInfo, node_name: str) -> None:
        self.add_pod(info, node_name)
        self.assumed[info.uid] = info

    def forget(self, uid: str) -> None:
        """The assumed pod was not bound."""
        if uid in self.assumed:
            self.remove_pod(uid)

    def pod_on_node(self, uid: str) -> PodInfo | None:
        node_name = self.pods.get(uid)
        return None if node_name is None else self.nodes[node_name].pods[uid]

    @contextmanager
    def without(self, pods: Iterable[PodInfo]) -> Iterator[None]:
        """As if these pods were not there. Whatever the body puts back stays; the rest returns at the end."""
        taken = [(info, self.pods[info.uid], info.uid in self.assumed) for info in pods]
        for info, _, _ in taken:
            self.remove_pod(info.uid)
        try:
            yield
        finally:
            for info, node_name, assumed in taken:
                self.add_pod(info, node_name)
                if assumed:
                    self.assumed[info.uid] = info

    @contextmanager
    def with_pods(self, pods: Iterable[PodInfo], node_name: str) -> Iterator[None]:
        """As if these pods were already on the node."""
        added = [info for info in pods if info.uid not in self.pods]
        for info in added:
            self.add_pod(info, node_name)
        try:
            yield
        finally:
            for info in added:
                self.remove_pod(info.uid)

    def _count_pod(self, info: PodInfo, node_name: str, sign: int) -> None:
        for term in info.anti_affinity:
            _add_nested(self.anti_affinity_counts, term, node_name, sign)
        for term in info.affinity:
            _add_nested(self.preference_counts, (term, HARD_AFFINITY_WEIGHT), node_name, sign)
        for term, weight in info.preferred_affinity:
            _add_nested(self.preference_counts, (term, weight), node_name, sign)
        for term, weight in info.preferred_anti_affinity:
            _add_nested(self.preference_counts, (term, -weight), node_name, sign)
        if info.owner and info.alive:
            _add_nested(self.owned, info.owner, node_name, sign)
        for claim in info.claims:
            users = self.claim_users.setdefault((info.namespace, claim), set())
            if sign > 0:
                users.add(info.uid)
            else:
                users.discard(info.uid)
                if not users:
                    del self.claim_users[info.namespace, claim]
        if self._live:
            for matcher in self._concerned(info.labels):
                if matcher.matches(info.namespace, info.labels, info.alive, self.namespaces):
                    _add(self._live[matcher], node_name, sign)

    # Nominations: pods that wait for their victims to leave a node

    def nominate(self, info: PodInfo, node_name: str) -> None:
        self.drop_nomination(info.uid)
        self.nominated.setdefault(node_name, {})[info.uid] = info

    def nomination_of(self, uid: str) -> str:
        """The node that is kept for a pod; empty if there is none."""
        return next((name for name, waiting in self.nominated.items() if uid in waiting), "")

    def drop_nomination(self, uid: str) -> tuple[PodInfo, str] | None:
        """The nominated pod and its node, None if it was not nominated."""
        for node_name, waiting in self.nominated.items():
            info = waiting.pop(uid, None)
            if info is not None:
                if not waiting:
                    del self.nominated[node_name]
                return info, node_name
        return None

    # Live counts

    def counts(self, matcher: Matcher) -> Mapping[str, int]:
        """How many matching pods each node has; nodes with none are missing."""
        known = self._live.get(matcher)
        if known is not None:
            self._live.move_to_end(matcher)
            return known
        counted: Counts = {}
        for node in self.nodes.values():
            found = sum(
                matcher.matches(info.namespace, info.labels, info.alive, self.namespaces) for info in node.pods.values()
            )
            if found:
                counted[node.name] = found
        self._remember(matcher, counted)
        return counted

    def add_namespace(self, name: str, labels: Labels) -> None:
        if self.namespaces.get(name) == labels:
            return
        self.namespaces[name] = labels
        for matcher in [matcher for matcher in self._live if matcher.uses_namespace_labels]:
            self._forget_matcher(matcher)

    def remove_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)

    def _concerned(self, labels: Labels) -> Iterator[Matcher]:
        yield from self._live_others
        for label in labels.items():
            yield from self._live_by_label.get(label, ())

    def _remember(self, matcher: Matcher, counted: Counts) -> None:
        self._live[matcher] = counted
        if matcher.exact is None:
            self._live_others.add(matcher)
        else:
            self._live_by_label.setdefault(matcher.exact, set()).add(matcher)
        if len(self._live) > _REMEMBERED_MATCHERS:
            self._forget_matcher(next(iter(self._live)))

    def _forget_matcher(self, matcher: Matcher) -> None:
        del self._live[matcher]
        self._live_others.discard(matcher)
        if matcher.exact is not None:
            siblings = self._live_by_label[matcher.exact]
            siblings.discard(matcher)
            if not siblings:
                del self._live_by_label[matcher.exact]


def _add(counts: Counts, name: str, amount: int) -> None:
    total = counts.get(name, 0) + amount
    if total:
        counts[name] = total
    else:
        counts.pop(name, None)


def _add_nested(counts: dict[K, Counts], key: K, name: str, amount: int) -> None:
    inner = counts.setdefault(key, {})
    _add(inner, name, amount)
    if not inner:
        del counts[key]
