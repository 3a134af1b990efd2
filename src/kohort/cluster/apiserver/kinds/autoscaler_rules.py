"""HorizontalPodAutoscalers: defaults and rules. The two versions share them; v1 is validated after conversion to v2."""

from typing import Final

from kohort.cluster.apiserver.kinds import feature_gates
from kohort.cluster.apiserver.kinds.autoscaling import DEFAULT_CPU_PERCENT, METRICS, cpu_metric, to_v2
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.resource_names import check_container
from kohort.cluster.apiserver.schema.field_checks import Errors, dns_label, named, nonnegative, quantity
from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import path_segment

_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_ORDER: Final = ("object", "external", "pods", "resource", "containerResource")
_SELECT: Final = ("Disabled", "Max", "Min")
_PERCENT: Final[JsonObject] = {"type": "Percent", "value": 100, "periodSeconds": 15}
_PODS: Final[JsonObject] = {"type": "Pods", "value": 4, "periodSeconds": 15}


class AutoscalerStrategy(Strategy):
    has_generation = False

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            spec["metrics"] = [cpu_metric(DEFAULT_CPU_PERCENT)]
        behavior = spec.get("behavior")
        if behavior is not None:
            up = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [dict(_PODS), dict(_PERCENT)]}
            down: JsonObject = {"selectPolicy": "Max", "policies": [dict(_PERCENT)]}
            behavior["scaleUp"] = {**up, **(behavior.get("scaleUp") or {})}
            behavior["scaleDown"] = {**down, **(behavior.get("scaleDown") or {})}

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        zero = feature_gates.enabled(context.gates, feature_gates.HPA_SCALE_TO_ZERO)
        _check_spec(errors, obj.get("spec") or {}, 0 if zero else 1, new=True)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        zero = feature_gates.enabled(context.gates, feature_gates.HPA_SCALE_TO_ZERO)
        stored_zero = (old.get("spec") or {}).get("minReplicas") == 0
        same_target = (old.get("spec") or {}).get("scaleTargetRef") == (obj.get("spec") or {}).get("scaleTargetRef")
        _check_spec(errors, obj.get("spec") or {}, 0 if zero or stored_zero else 1, new=not same_target)
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        for field in ("currentReplicas", "desiredReplicas"):
            nonnegative(errors, f"status.{field}", (obj.get("status") or {}).get(field))
        return errors


class AutoscalerV1Strategy(AutoscalerStrategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        others = (obj.get("metadata") or {}).get("annotations") or {}
        if spec.get("targetCPUUtilizationPercentage") is None and METRICS not in others:
            spec["targetCPUUtilizationPercentage"] = DEFAULT_CPU_PERCENT

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"currentReplicas": 0, "desiredReplicas": 0}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        return super().validate(context, to_v2(obj))

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return super().validate_update(context, to_v2(obj), to_v2(old))


def _check_spec(errors: Errors, spec: JsonObject, least: int, *, new: bool) -> None:
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if low is not None and low < least:
        errors.append(invalid("spec.minReplicas", low, f"must be greater than or equal to {least}"))
    if high == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
    if low is not None and high < low:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    _check_reference(errors, "spec.scaleTargetRef", spec.get("scaleTargetRef") or {}, with_group=new)
    metrics = spec.get("metrics") or []
    for index, metric in enumerate(metrics):
        _check_metric(errors, f"spec.metrics[{index}]", metric)
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", detail))
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            _check_rules(errors, f"spec.behavior.{direction}", rules)


def _check_reference(errors: Errors, path: str, reference: JsonObject, *, with_group: bool) -> None:
    for field in ("kind", "name"):
        value = reference.get(field)
        if not value:
            errors.append(required(f"{path}.{field}"))
        else:
            named(errors, f"{path}.{field}", value, path_segment)
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif with_group and "/" not in version and reference.get("kind") != "ReplicationController":
        errors.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))


def _check_rules(errors: Errors, path: str, rules: JsonObject) -> None:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        detail = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, detail))
    if window is not None and window > 3600:
        detail = "must be less than or equal to 3600"
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, detail))
    select = rules.get("selectPolicy")
    if select is not None and select not in _SELECT:
        errors.append(not_supported(f"{path}.selectPolicy", select, _SELECT))
    if not rules.get("policies"):
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(rules.get("policies") or ()):
        here = f"{path}.policies[{index}]"
        if policy.get("type") not in ("Percent", "Pods"):
            errors.append(not_supported(f"{here}.type", policy.get("type") or "", ("Percent", "Pods")))
        for field in ("value", "periodSeconds"):
            if (policy.get(field) or 0) <= 0:
                errors.append(invalid(f"{here}.{field}", policy.get(field) or 0, "must be greater than zero"))
        if (policy.get("periodSeconds") or 0) > 1800:
            detail = "must be less than or equal to 1800"
            errors.append(invalid(f"{here}.periodSeconds", policy["periodSeconds"], detail))
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity(tolerance).nano < 0:
        errors.append(invalid(f"{path}.tolerance", tolerance, "must be greater than or equal to 0"))


def _check_metric(errors: Errors, path: str, metric: JsonObject) -> None:
    kind = metric.get("type") or ""
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    unknown = not_supported(f"{path}.type", kind, _SOURCES)
    if kind not in _SOURCES:
        errors.append(unknown)
    present = [name for name in _ORDER if metric.get(name) is not None]
    if present:
        _check_source(errors, f"{path}.{present[0]}", present[0], metric[present[0]])
    expected = _SOURCES.get(kind)
    if expected is None:
        errors.append(unknown)
    elif expected not in present:
        detail = "must populate information for the given metric source"
        errors.append(required(f"{path}.{expected}", detail))
    if len(present) != 1:
        detail = "must populate the given metric source only"
        errors += [forbidden(f"{path}.{name}", detail) for name in present if name != expected]


def _check_source(errors: Errors, path: str, name: str, source: JsonObject) -> None:
    target = source.get("target") or {}
    if name == "object":
        _check_reference(errors, f"{path}.describedObject", source.get("describedObject") or {}, with_group=False)
    if name in ("object", "external", "pods"):
        identifier = (source.get("metric") or {}).get("name")
        if not identifier:
            errors.append(required(f"{path}.metric.name", "must specify a metric name"))
        else:
            named(errors, f"{path}.metric.name", identifier, path_segment)
    else:
        _check_resource(errors, path, name, source)
    _check_target(errors, f"{path}.target", target)
    value, average = target.get("value"), target.get("averageValue")
    utilization = target.get("averageUtilization")
    if name == "object" and value is None and average is None:
        errors.append(required(f"{path}.target.averageValue", "must set either a target value or averageValue"))
    elif name == "external":
        if value is None and average is None:
            detail = "must set either a target value for metric or a per-pod target"
            errors.append(required(f"{path}.target.averageValue", detail))
        if value is not None and average is not None:
            detail = "may not set both a target value for metric and a per-pod target"
            errors.append(forbidden(f"{path}.target.value", detail))
    elif name == "pods" and average is None:
        errors.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    elif name in ("resource", "containerResource"):
        if utilization is None and average is None:
            detail = "must set either a target raw value or a target utilization"
            errors.append(required(f"{path}.target.averageUtilization", detail))
        if utilization is not None and average is not None:
            detail = "may not set both a target raw value and a target utilization"
            errors.append(forbidden(f"{path}.target.averageValue", detail))


def _check_resource(errors: Errors, path: str, name: str, source: JsonObject) -> None:
    if not source.get("name"):
        errors.append(required(f"{path}.name", "must specify a resource name"))
    elif name == "containerResource":
        check_container(errors, f"{path}.name", source["name"])
    if name == "containerResource":
        if not source.get("container"):
            errors.append(required(f"{path}.container", "must specify a container"))
        else:
            dns_label(errors, f"{path}.container", source["container"])


def _check_target(errors: Errors, path: str, target: JsonObject) -> None:
    kind = target.get("type") or ""
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        text = target.get(field)
        if text is not None and quantity(text).nano <= 0:
            errors.append(invalid(f"{path}.{field}", text, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
