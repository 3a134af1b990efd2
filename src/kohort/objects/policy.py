"""PodDisruptionBudgets."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from kohort.objects.meta import Condition, ObjectMeta, Selector
from kohort.objects.view import View


class PodDisruptionBudgetSpec(View, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: Selector | None = None


class PodDisruptionBudgetStatus(View, frozen=True):
    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
