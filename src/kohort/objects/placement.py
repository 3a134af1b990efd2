"""Where a pod may run and where it prefers to run: node affinity, pod affinity, taints, tolerations, spread."""

from kohort.objects.meta import Selector, SelectorExpression
from kohort.objects.view import View


class NodeSelectorTerm(View, frozen=True):
    """All expressions hold. A term without any matches no node."""

    match_expressions: tuple[SelectorExpression, ...] = ()
    match_fields: tuple[SelectorExpression, ...] = ()


class NodeSelector(View, frozen=True):
    """Any term matches."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredNodes(View, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] = ()


class PodAffinityTerm(View, frozen=True):
    topology_key: str = ""
    label_selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPods(View, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(View, frozen=True):
    """Used for affinity and for anti-affinity alike."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] = ()


class Affinity(View, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Taint(View, frozen=True):
    key: str
    effect: str = ""
    value: str = ""
    time_added: str | None = None

    def __str__(self) -> str:
        shown = f"{self.key}={self.value}" if self.value else self.key
        return f"{shown}:{self.effect}" if self.effect else shown


class Toleration(View, frozen=True):
    """An empty key with `Exists` tolerates everything, an empty effect all effects."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


class TopologySpreadConstraint(View, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: Selector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
