"""The cluster as the scheduler sees it: nodes, what is on them, and live counts for the rules that pods carry.

Everything a decision needs is kept current while events arrive, so that a decision itself only looks things up:

- sums per node (in `NodeFacts`);
- for each rule that a waiting pod asked about, how many matching pods each node has (`counts`): the first question
counts
  them all, later changes adjust it. Rules are interned, so all pods of one template ask about the same few;
- which rules the pods on the nodes carry themselves (`repelled_by`, `attracted_by`), one entry per rule and node,
because
  anti-affinity binds both sides.

Pods that were given a node but not yet seen there are put in at once (`assume`), else two decisions would use the same
room. All of this runs in one thread; a decision may take pods away to see what would happen (`without`) and puts them
back.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from kohort.cluster.scheduler.affinity_terms import Labels, Matcher, Term
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts
from kohort.cluster.scheduler.volume_binding import Storage
from kohort.objects.core import Node
from kohort.objects.policy import PodDisruptionBudget

Counts = dict[str, int]
"""Per node name."""
WeightedTerm = tuple[Term, int]
K = TypeVar("K")

_REMEMBERED_MATCHERS = 4096
HARD_AFFINITY_WEIGHT = 1


class ClusterState:
    def __init__(self) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.schedulable: list[NodeFacts] = []
        """Nodes that exist, in order of their names' appearance."""
        self.guarded: set[str] = set()
        """Those of them that are cordoned or have taints that keep pods away; usually none."""
        self.pods: dict[str, str] = {}
        """Pod uid to node name."""
        self.assumed: dict[str, PodFacts] = {}
        self.namespaces: dict[str, Labels] = {}
        self.storage = Storage()
        self.budgets: dict[tuple[str, str], PodDisruptionBudget] = {}
        self.nominated: dict[str, dict[str, PodFacts]] = {}
        self.repelled_by: dict[Term, Counts] = {}
        self.attracted_by: dict[WeightedTerm, Counts] = {}
        self.owned: dict[str, Counts] = {}
        self.image_nodes: Counts = {}
        self.claim_users: dict[tuple[str, str], set[str]] = {}
        self._live: OrderedDict[Matcher, Counts] = OrderedDict()
        self._live_by_label: dict[tuple[str, str], set[Matcher]] = {}
        self._live_others: set[Matcher] = set()

    # Nodes

    def put_node(self, node: Node) -> None:
        facts = self._place(node.metadata.name)
        known = facts.node is not None
        self._count_images(facts, -1)
        facts.become(node)
        self._count_images(facts, 1)
        (self.guarded.add if facts.unschedulable or facts.repelling_taints else self.guarded.discard)(facts.name)
        if not known:
            self.schedulable.append(facts)

    def take_node(self, name: str) -> None:
        facts = self.nodes.get(name)
        if facts is None:
            return
        self._count_images(facts, -1)
        facts.vanish()
        self.guarded.discard(name)
        self.schedulable = [entry for entry in self.schedulable if entry is not facts]
        if not facts.pods:
            del self.nodes[name]

    def _place(self, name: str) -> NodeFacts:
        facts = self.nodes.get(name)
        if facts is None:
            facts = self.nodes[name] = NodeFacts(name)
        return facts

    def _count_images(self, facts: NodeFacts, sign: int) -> None:
        for image in facts.images:
            _add(self.image_nodes, image, sign)

    # Pods on nodes

    def put_pod(self, facts: PodFacts, node_name: str) -> None:
        """The pod is on this node; what was known of it before is replaced."""
        self.take_pod(facts.uid)
        self._place(node_name).put(facts)
        self.pods[facts.uid] = node_name
        self._count_pod(facts, node_name, 1)

    def renew(self, facts: PodFacts, node_name: str) -> bool:
        """Know a pod anew that counts for as much as before, as after most reports of its node: no sum moves. False
        when it is not known to be there."""
        if self.pods.get(facts.uid) != node_name:
            return False
        self.nodes[node_name].pods[facts.uid] = facts
        self.assumed.pop(facts.uid, None)
        return True

    def take_pod(self, uid: str) -> PodFacts | None:
        node_name = self.pods.pop(uid, None)
        self.assumed.pop(uid, None)
        if node_name is None:
            return None
        node = self.nodes[node_name]
        facts = node.pods[uid]
        node.take(facts)
        self._count_pod(facts, node_name, -1)
        if node.node is None and not node.pods:
            del self.nodes[node_name]
        return facts

    def assume(self, facts: PodFacts, node_name: str) -> None:
        self.put_pod(facts, node_name)
        self.assumed[facts.uid] = facts

    def forget(self, uid: str) -> None:
        """The pod did not get there after all."""
        if uid in self.assumed:
            self.take_pod(uid)

    def held(self, uid: str) -> PodFacts | None:
        node_name = self.pods.get(uid)
        return None if node_name is None else self.nodes[node_name].pods[uid]

    @contextmanager
    def without(self, pods: Iterable[PodFacts]) -> Iterator[None]:
        """As if these pods were not there. Whatever the body puts back stays; the rest returns at the end."""
        taken = [(facts, self.pods[facts.uid], facts.uid in self.assumed) for facts in pods]
        for facts, _, _ in taken:
            self.take_pod(facts.uid)
        try:
            yield
        finally:
            for facts, node_name, assumed in taken:
                self.put_pod(facts, node_name)
                if assumed:
                    self.assumed[facts.uid] = facts

    @contextmanager
    def with_pods(self, pods: Iterable[PodFacts], node_name: str) -> Iterator[None]:
        """As if these pods were already on the node."""
        added = [facts for facts in pods if facts.uid not in self.pods]
        for facts in added:
            self.put_pod(facts, node_name)
        try:
            yield
        finally:
            for facts in added:
                self.take_pod(facts.uid)

    def _count_pod(self, facts: PodFacts, node_name: str, sign: int) -> None:
        for term in facts.anti_affinity:
            _add_nested(self.repelled_by, term, node_name, sign)
        for term in facts.affinity:
            _add_nested(self.attracted_by, (term, HARD_AFFINITY_WEIGHT), node_name, sign)
        for term, weight in facts.preferred_affinity:
            _add_nested(self.attracted_by, (term, weight), node_name, sign)
        for term, weight in facts.preferred_anti_affinity:
            _add_nested(self.attracted_by, (term, -weight), node_name, sign)
        if facts.owner and facts.alive:
            _add_nested(self.owned, facts.owner, node_name, sign)
        for claim in facts.claims:
            users = self.claim_users.setdefault((facts.namespace, claim), set())
            if sign > 0:
                users.add(facts.uid)
            else:
                users.discard(facts.uid)
                if not users:
                    del self.claim_users[facts.namespace, claim]
        if self._live:
            for matcher in self._concerned(facts.labels):
                if matcher.matches(facts.namespace, facts.labels, facts.alive, self.namespaces):
                    _add(self._live[matcher], node_name, sign)

    # Nominations: pods that wait for room on a node which preemption is making

    def nominate(self, facts: PodFacts, node_name: str) -> None:
        self.drop_nomination(facts.uid)
        self.nominated.setdefault(node_name, {})[facts.uid] = facts

    def drop_nomination(self, uid: str) -> None:
        for node_name, waiting in [*self.nominated.items()]:
            if waiting.pop(uid, None) is not None and not waiting:
                del self.nominated[node_name]

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
                matcher.matches(facts.namespace, facts.labels, facts.alive, self.namespaces)
                for facts in node.pods.values()
            )
            if found:
                counted[node.name] = found
        self._remember(matcher, counted)
        return counted

    def put_namespace(self, name: str, labels: Labels) -> None:
        if self.namespaces.get(name) == labels:
            return
        self.namespaces[name] = labels
        for matcher in [matcher for matcher in self._live if matcher.uses_namespace_labels]:
            self._forget_matcher(matcher)

    def take_namespace(self, name: str) -> None:
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
