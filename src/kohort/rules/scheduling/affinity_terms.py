"""Rules about other pods and about nodes, compiled once and shared by all pods that carry the same rule.

Pods of one template carry equal rules, so compiled rules are interned: equal rules are the same object. That makes them
cheap dictionary keys, and it is what lets the cluster state keep a live count per rule instead of looking at every
pod for every decision.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from kohort.objects.meta import Selector, SelectorExpression
from kohort.objects.placement import NodeSelector, NodeSelectorTerm, PodAffinityTerm, TopologySpreadConstraint
from kohort.objects.selector_requirements import EQUALS, IN, NOT_IN, Requirement, node_requirement
from kohort.objects.selectors import NOTHING, LabelSelector

Labels = Mapping[str, str]
NamespaceLabels = Mapping[str, Labels]

SelectorKey = tuple[tuple[tuple[str, str], ...], tuple[SelectorExpression, ...]] | None


class Term:
    """One rule about pods: which pods (labels, namespaces) and over which topology."""

    __slots__ = ("namespace_selector", "namespaces", "selector", "topology_key")

    def __init__(
        self, selector: LabelSelector, topology_key: str, namespaces: frozenset[str], namespace_selector: LabelSelector
    ) -> None:
        self.selector = selector
        self.topology_key = topology_key
        self.namespaces = namespaces
        self.namespace_selector = namespace_selector

    def matches(self, namespace: str, labels: Labels, namespace_labels: NamespaceLabels) -> bool:
        if namespace not in self.namespaces:
            if self.namespace_selector.none:
                return False
            if not self.namespace_selector.matches(namespace_labels.get(namespace, {})):
                return False
        return self.selector.matches(labels)


class Matcher:
    """Pods that satisfy all of some terms: what a live count is kept for.

    `alive_only` leaves out pods that are being deleted; spreading ignores them, affinity does not.
    """

    __slots__ = ("alive_only", "exact", "terms", "uses_namespace_labels")

    def __init__(self, terms: tuple[Term, ...], alive_only: bool) -> None:
        self.terms = terms
        self.alive_only = alive_only
        self.uses_namespace_labels = any(not term.namespace_selector.none for term in terms)
        self.exact = next(filter(None, map(_exact_label, terms)), None)

    def matches(self, namespace: str, labels: Labels, alive: bool, namespace_labels: NamespaceLabels) -> bool:
        if self.alive_only and not alive:
            return False
        return all(term.matches(namespace, labels, namespace_labels) for term in self.terms)


class SpreadRule:
    """A topology spread constraint of a pod."""

    __slots__ = ("honor_affinity", "honor_taints", "matcher", "max_skew", "min_domains", "selector", "topology_key")

    def __init__(self, constraint: TopologySpreadConstraint, selector: LabelSelector, namespace: str) -> None:
        self.selector = selector
        self.topology_key = constraint.topology_key
        self.max_skew = constraint.max_skew
        self.min_domains = constraint.min_domains or 1
        self.honor_affinity = constraint.node_affinity_policy != "Ignore"
        self.honor_taints = constraint.node_taints_policy == "Honor"
        self.matcher = spread_matcher(selector, namespace)


class NodeRule:
    """Node selector and required node affinity of a pod, or the affinity of a volume: any term, all requirements."""

    __slots__ = ("names", "selector", "terms")

    def __init__(self, selector: Labels, required: NodeSelector | None) -> None:
        self.selector = tuple(selector.items())
        given = None if required is None else required.node_selector_terms or ()
        self.terms = None if given is None else tuple(map(node_term, given))
        self.names = None if not given else _only_names(given)

    def matches(self, name: str, labels: Labels) -> bool:
        for key, value in self.selector:
            if labels.get(key) != value:
                return False
        return self.terms is None or any(node_term_matches(term, name, labels) for term in self.terms)


NodeTerm = tuple[tuple[Requirement, ...], tuple[Requirement, ...]] | None
"""Requirements on labels and on fields; None for a term that matches no node."""


def node_term(term: NodeSelectorTerm) -> NodeTerm:
    if not term.match_expressions and not term.match_fields:
        return None
    labels = [node_requirement(entry.key, entry.operator, entry.values) for entry in term.match_expressions]
    fields = [node_requirement(entry.key, entry.operator, entry.values) for entry in term.match_fields]
    known_labels = tuple(entry for entry in labels if entry is not None)
    known_fields = tuple(entry for entry in fields if entry is not None)
    if len(known_labels) < len(labels) or len(known_fields) < len(fields):
        return None
    return known_labels, known_fields


def node_term_matches(term: NodeTerm, name: str, labels: Labels) -> bool:
    if term is None:
        return False
    of_labels, of_fields = term
    if not all(requirement.matches(labels) for requirement in of_labels):
        return False
    return not of_fields or all(requirement.matches({"metadata.name": name}) for requirement in of_fields)


def _only_names(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """The only nodes that could match, if every term names nodes; None if a term leaves it open."""
    found: set[str] = set()
    for term in terms:
        named: set[str] | None = None
        for entry in term.match_fields:
            if entry.key == "metadata.name" and entry.operator == "In":
                named = set(entry.values) if named is None else named & set(entry.values)
        if named is None:
            return None
        found |= named
    return frozenset(found)


def affinity_term(term: PodAffinityTerm, namespace: str, labels: Labels) -> Term:
    """A term of a pod in this namespace with these labels."""
    selector = compiled(_key(term.label_selector))
    if not selector.none:
        selector = selector.also(_label_keys(term.match_label_keys, labels, IN))
        selector = selector.also(_label_keys(term.mismatch_label_keys, labels, NOT_IN))
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((namespace,))
    return _term(selector, term.topology_key, namespaces, compiled(_key(term.namespace_selector)))


def spread_rule(constraint: TopologySpreadConstraint, namespace: str, labels: Labels) -> SpreadRule:
    selector = compiled(_key(constraint.label_selector))
    if not selector.none:
        selector = selector.also(_label_keys(constraint.match_label_keys, labels, EQUALS))
    return SpreadRule(constraint, selector, namespace)


@lru_cache(maxsize=16384)
def affinity_matcher(terms: tuple[Term, ...]) -> Matcher:
    return Matcher(terms, alive_only=False)


@lru_cache(maxsize=16384)
def spread_matcher(selector: LabelSelector, namespace: str) -> Matcher:
    return Matcher((_term(selector, "", frozenset((namespace,)), NOTHING),), alive_only=True)


@lru_cache(maxsize=16384)
def compiled(key: SelectorKey) -> LabelSelector:
    """An invalid selector, which the API server rejects, selects nothing."""
    if key is None:
        return NOTHING
    labels, expressions = key
    try:
        return Selector(dict(labels), expressions).compiled()
    except ValueError:
        return NOTHING


@lru_cache(maxsize=16384)
def _term(
    selector: LabelSelector, topology_key: str, namespaces: frozenset[str], namespace_selector: LabelSelector
) -> Term:
    return Term(selector, topology_key, namespaces, namespace_selector)


def _key(selector: Selector | None) -> SelectorKey:
    if selector is None:
        return None
    return tuple(sorted(selector.match_labels.items())), selector.match_expressions


def _label_keys(keys: Iterable[str], labels: Labels, operator: str) -> list[Requirement]:
    return [Requirement(key, operator, (labels[key],)) for key in keys if key in labels]


def _exact_label(term: Term) -> tuple[str, str] | None:
    """A label that every matching pod must carry: changed pods find this rule by it."""
    for requirement in term.selector.requirements:
        if requirement.operator in (EQUALS, "==", IN) and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None
