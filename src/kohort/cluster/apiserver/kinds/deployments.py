"""Deployments, and the ReplicaSets that they roll."""

from kohort.cluster.apiserver.kinds.metadata import put_back
from kohort.cluster.apiserver.kinds.model import WriteContext
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.kinds.pod_templates import (
    HISTORY_LIMIT,
    WorkloadStrategy,
    check_at_most_all,
    check_collisions,
    check_count_or_percent,
    check_replica_status,
    check_replicated_template,
    check_selector,
    check_status_counts,
    check_within,
    default_workload_template,
    magnitude,
    spec_of,
)
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, nonnegative
from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.rules.rolling_limits import DEFAULT_LIMIT_OF_DEPLOYMENTS


class DeploymentStrategy(WorkloadStrategy):
    names_pods = True

    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        default_workload_template(spec)
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            for field in ("maxUnavailable", "maxSurge"):
                if rolling.get(field) is None:
                    rolling[field] = DEFAULT_LIMIT_OF_DEPLOYMENTS
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = HISTORY_LIMIT
        if spec.get("progressDeadlineSeconds") is None:
            spec["progressDeadlineSeconds"] = 600

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        """Annotations count too: they carry what a roll-back needs."""
        if super().generation_moves(obj, old):
            return True
        new, before = (side["metadata"].get("annotations") or {} for side in (obj, old))
        return new != before

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_deployment(errors, obj["spec"], self.rules(context))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        immutable(errors, "spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))
        return errors

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        put_back(obj["metadata"], old["metadata"], "labels")

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        status = obj.get("status") or {}
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        others = ("unavailableReplicas", "terminatingReplicas", "collisionCount")
        check_status_counts(errors, status, ("observedGeneration", "replicas", *counts, *others))
        check_within(errors, status, counts, "readyReplicas")
        check_collisions(errors, obj, old)
        return errors


def _check_deployment(errors: Errors, spec: JsonObject, rules: PodRules) -> None:
    nonnegative(errors, "spec.replicas", spec.get("replicas"))
    check_selector(errors, "spec", spec, "deployment")
    check_replicated_template(errors, spec, rules)
    _check_deployment_strategy(errors, spec.get("strategy") or {})
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        nonnegative(errors, f"spec.{field}", spec.get(field))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))


def _check_deployment_strategy(errors: Errors, strategy: JsonObject) -> None:
    kind, rolling, path = strategy.get("type"), strategy.get("rollingUpdate"), "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            errors.append(forbidden(path, "may not be specified when strategy `type` is 'Recreate'"))
    elif kind != "RollingUpdate":
        errors.append(not_supported("spec.strategy", strategy, ("Recreate", "RollingUpdate")))
    elif rolling is None:
        errors.append(required(path, "this should be defaulted and never be nil"))
    else:
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        check_count_or_percent(errors, f"{path}.maxUnavailable", unavailable)
        check_count_or_percent(errors, f"{path}.maxSurge", surge)
        if magnitude(unavailable) == 0 and magnitude(surge) == 0:
            detail = "may not be 0 when `maxSurge` is 0"
            errors.append(invalid(f"{path}.maxUnavailable", unavailable, detail))
        check_at_most_all(errors, f"{path}.maxUnavailable", unavailable)


class ReplicaSetStrategy(WorkloadStrategy):
    names_pods = True

    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        default_workload_template(spec)
        if spec.get("replicas") is None:
            spec["replicas"] = 1

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        nonnegative(errors, "spec.replicas", spec.get("replicas"))
        nonnegative(errors, "spec.minReadySeconds", spec.get("minReadySeconds"))
        check_selector(errors, "spec", spec, "deployment")
        check_replicated_template(errors, spec, self.rules(context))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        immutable(errors, "spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_replica_status(errors, obj.get("status") or {})
        return errors
