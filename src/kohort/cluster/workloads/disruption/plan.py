"""How many disruptions a PodDisruptionBudget allows.

| budget | pods expected | healthy pods wanted |
|---|---|---|
| minAvailable: n | those that exist | n |
| minAvailable: p% | those that their controllers want | p% of them, rounded up |
| maxUnavailable: n | those that their controllers want | all but n |
| maxUnavailable: p% | those that their controllers want | all but p% of them, rounded up |
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kohort.objects import int_or_string
from kohort.objects.json_types import JsonObject

EVICTION_TIMEOUT: Final = timedelta(minutes=2)
"""A pod that was allowed to be evicted but is still there after this long counts as healthy again."""


class Budget(msgspec.Struct, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None

    @property
    def counts_wanted_pods(self) -> bool:
        return self.max_unavailable is not None or isinstance(self.min_available, str)


class BudgetCounts(msgspec.Struct, frozen=True):
    expected: int
    desired: int
    healthy: int

    @property
    def allowed(self) -> int:
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


def count_budget(budget: Budget, *, existing: int, wanted: int, healthy: int) -> BudgetCounts:
    """`wanted` is the sum of what the pods' controllers want; `healthy` the ready pods that are not leaving."""
    if budget.max_unavailable is not None:
        away = int_or_string.resolve(budget.max_unavailable, wanted, round_up=True)
        return BudgetCounts(wanted, max(0, wanted - away), healthy)
    if isinstance(budget.min_available, str):
        return BudgetCounts(wanted, int_or_string.resolve(budget.min_available, wanted, round_up=True), healthy)
    return BudgetCounts(existing, 0 if budget.min_available is None else budget.min_available, healthy)


class GrantedEvictions(msgspec.Struct, frozen=True):
    pending: dict[str, str]
    """Pods, by name, that do not count as healthy, with the time of the grant."""
    overdue: list[str]
    """Pods that should be gone by now, and are not even terminating."""


def granted_evictions(
    noted: Mapping[str, str], leaving: set[str], present: set[str], now: datetime
) -> GrantedEvictions:
    """What became of the evictions that were granted. One is over when its pod is gone or terminating."""
    awaited = {name: time for name, time in noted.items() if name in present and name not in leaving}
    pending = {name: time for name, time in awaited.items() if now - datetime.fromisoformat(time) < EVICTION_TIMEOUT}
    return GrantedEvictions(pending, [name for name in awaited if name not in pending])


def unmanaged_message(spec: JsonObject) -> str:
    """The message for a budget that needs the scale of controllers and selects pods without a controller."""
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {_shown(spec.get('selector') or {})}) were found to be "
        "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined "
        'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
    )


def _shown(selector: JsonObject) -> str:
    """A selector as Go prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one['key']},Operator:{one['operator']},"
        f"Values:[{' '.join(one.get('values') or [])}],}},"
        for one in selector.get("matchExpressions") or []
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
