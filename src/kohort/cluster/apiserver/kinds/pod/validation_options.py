"""What the rules for a pod spec depend on besides the spec itself."""

from dataclasses import dataclass, field

from kohort.objects.json_types import JsonObject


@dataclass(slots=True)
class PodRules:
    """How strictly one pod spec is judged.

    Rules that were tightened after clusters had stored offending pods do not apply to what is already stored; each
    `tolerate_…` says that the stored object offends already.
    """

    is_pod: bool = False
    """A pod, not a template of one."""
    pod_level: bool = True
    """Pod-level resources exist; off, they are not looked at."""
    toleration_comparison: bool = False
    tolerate_huge_page_fractions: bool = False
    tolerate_init_restart_policy: bool = False
    tolerate_selector_values: bool = False
    tolerate_spread_selectors: bool = False
    tolerate_deletion_cost: bool = False
    metadata: JsonObject = field(default_factory=dict)
    """Of the pod; empty for templates, whose pods have no names yet."""
