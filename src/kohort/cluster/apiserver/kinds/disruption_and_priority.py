"""PodDisruptionBudgets and PriorityClasses."""

from typing import Final

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.spec import PREEMPTION_POLICIES
from kohort.cluster.apiserver.kinds.pod_templates import check_at_most_all, check_count_or_percent
from kohort.cluster.apiserver.schema.field_checks import Errors, conditions, immutable, nonnegative, same
from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import path_segment
from kohort.objects.selectors import selector_errors

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")


class PodDisruptionBudgetStrategy(Strategy):
    names_finalizers_freely = True
    checks_metadata_change = False
    unconditional_update = False

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment(name, prefix=prefix)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        obj["status"] = dict.fromkeys(counts, 0)

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj.get("spec") or {}
        low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
        if low is not None and high is not None:
            shown = {
                "MinAvailable": low,
                "Selector": spec.get("selector"),
                "MaxUnavailable": high,
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }
            errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
        for field, value in (("minAvailable", low), ("maxUnavailable", high)):
            if value is not None:
                check_count_or_percent(errors, f"spec.{field}", value)
                check_at_most_all(errors, f"spec.{field}", value)
        errors += selector_errors(spec.get("selector"), "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _EVICTION_POLICIES:
            errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        status = obj.get("status") or {}
        conditions(errors, "status.conditions", status.get("conditions"))
        for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            nonnegative(errors, f"status.{field}", status.get(field))
        return errors


SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
HIGHEST_OF_USERS: Final = 1_000_000_000


class PriorityClassStrategy(Strategy):
    has_status = False

    def default(self, obj: JsonObject) -> None:
        if obj.get("preemptionPolicy") is None:
            obj["preemptionPolicy"] = "PreemptLowerPriority"

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return False

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
        if name.startswith("system-"):
            problem = _system_problem(name, value, bool(obj.get("globalDefault")))
            if problem:
                detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
                errors.append(forbidden("metadata.name", detail + problem))
        elif value > HIGHEST_OF_USERS:
            detail = f"maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"
            errors.append(forbidden("value", detail))
        policy = obj.get("preemptionPolicy")
        if policy is not None and policy not in PREEMPTION_POLICIES:
            path = "preemptionPolicy"
            errors.append(not_supported(path, policy, PREEMPTION_POLICIES) if policy else required(path))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        if (obj.get("value") or 0) != (old.get("value") or 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        immutable(errors, "preemptionPolicy", obj.get("preemptionPolicy"), old.get("preemptionPolicy"))
        return errors


def _system_problem(name: str, value: int, is_default: bool) -> str:
    known = SYSTEM_CLASSES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""
