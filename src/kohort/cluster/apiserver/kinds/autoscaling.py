"""HorizontalPodAutoscaler in its two versions, stored as v2.

v1 knows one number, the CPU percentage. What v2 says beyond it travels in annotations of the v1 form, so that a client
of v1 that reads, changes and writes an object loses nothing. The metrics in those annotations have the flat shape of
the first beta of the newer API, and the behaviour the names of the server's own type: both are wire facts that old
clients rely on.
"""

from collections.abc import Callable

import msgspec

from kohort.cluster.apiserver.kinds.model import Kind
from kohort.objects.json_types import Json, JsonObject

METRICS = "autoscaling.alpha.kubernetes.io/metrics"
CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_ROUND_TRIP = (METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR)

DEFAULT_CPU_PERCENT = 80


def cpu_metric(percent: int) -> JsonObject:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_percent(metric: JsonObject) -> int | None:
    if metric.get("type") != "Resource":
        return None
    resource = metric.get("resource") or {}
    percent: int | None = (resource.get("target") or {}).get("averageUtilization")
    return percent if resource.get("name") == "cpu" else None


def to_v2(v1: JsonObject) -> JsonObject:
    metadata = dict(v1.get("metadata") or {})
    annotations = dict(metadata.pop("annotations", None) or {})
    extra = {key: _decoded(annotations.pop(key, None)) for key in _ROUND_TRIP}
    if annotations:
        metadata["annotations"] = annotations
    return {
        **v1,
        "apiVersion": "autoscaling/v2",
        "metadata": metadata,
        "spec": _spec_to_v2(v1.get("spec") or {}, extra[METRICS], extra[BEHAVIOR]),
        "status": _status_to_v2(v1.get("status") or {}, extra[CURRENT_METRICS], extra[CONDITIONS]),
    }


def _spec_to_v2(v1: JsonObject, metrics: Json, behavior: Json) -> JsonObject:
    spec = dict(v1)
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    found = [_metric_to_v2(metric, "target") for metric in metrics or () if isinstance(metric, dict)]
    if percent is not None:
        found.append(cpu_metric(percent))
    spec["metrics"] = found or [cpu_metric(DEFAULT_CPU_PERCENT)]
    if behavior:
        spec["behavior"] = _renamed(behavior, _lower_first)
    return spec


def _status_to_v2(v1: JsonObject, metrics: Json, conditions: Json) -> JsonObject:
    status = dict(v1)
    if not status.get("currentReplicas"):  # which only the old version writes when it is zero
        status.pop("currentReplicas", None)
    percent = status.pop("currentCPUUtilizationPercentage", None)
    if metrics:
        status["currentMetrics"] = [_metric_to_v2(metric, "current") for metric in metrics]
    elif percent is not None:
        current = {"averageUtilization": percent}
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    else:
        status["currentMetrics"] = None
    if conditions:
        status["conditions"] = conditions
    return status


def from_v2(v2: JsonObject) -> JsonObject:
    metadata = dict(v2.get("metadata") or {})
    spec, status = v2.get("spec") or {}, v2.get("status") or {}
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in _ROUND_TRIP}
    others = [metric for metric in spec.get("metrics") or () if _cpu_percent(metric) is None]
    if others:
        annotations[METRICS] = _encoded([_metric_to_v1(metric, "target") for metric in others])
    if status.get("currentMetrics"):
        flat = [_metric_to_v1(metric, "current") for metric in status["currentMetrics"]]
        annotations[CURRENT_METRICS] = _encoded(flat)
    if spec.get("behavior"):
        annotations[BEHAVIOR] = _encoded(_renamed(spec["behavior"], _upper_first))
    if status.get("conditions"):
        annotations[CONDITIONS] = _encoded(status["conditions"])
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {
        **v2,
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": _spec_to_v1(spec),
        "status": _status_to_v1(status),
    }


def _spec_to_v1(v2: JsonObject) -> JsonObject:
    spec = {key: value for key, value in v2.items() if key not in ("metrics", "behavior")}
    for metric in v2.get("metrics") or ():
        percent = _cpu_percent(metric)
        if percent is not None:
            spec["targetCPUUtilizationPercentage"] = percent
            break
    return spec


def _status_to_v1(v2: JsonObject) -> JsonObject:
    status = {key: value for key, value in v2.items() if key not in ("currentMetrics", "conditions")}
    status.setdefault("currentReplicas", 0)
    for metric in v2.get("currentMetrics") or ():
        resource = metric.get("resource") or {}
        percent = (resource.get("current") or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and resource.get("name") == "cpu" and percent is not None:
            status["currentCPUUtilizationPercentage"] = percent
            break
    return status


_SOURCES = ("resource", "containerResource", "pods", "object", "external")


def _metric_to_v1(metric: JsonObject, side: str) -> JsonObject:
    """A metric in the flat form: `target.averageValue` becomes `targetAverageValue` and so on.

    `side` is `target` for what is wanted and `current` for what was measured.
    """
    flat: JsonObject = {"type": metric.get("type", "")}
    for source in _SOURCES:
        if source in metric:
            flat[source] = _source_to_v1(source, metric[source] or {}, side)
    return flat


def _source_to_v1(source: str, nested: JsonObject, side: str) -> JsonObject:
    value = nested.get(side) or {}
    identifier = nested.get("metric") or {}
    flat: JsonObject = {key: nested[key] for key in ("name", "container") if key in nested}
    if identifier:
        flat["metricName"] = identifier.get("name", "")
        if identifier.get("selector") is not None:
            flat["metricSelector" if source == "external" else "selector"] = identifier["selector"]
    if "describedObject" in nested:
        flat["target"] = nested["describedObject"]
    if source == "object":
        return _object_values_to_v1(flat, value, side)
    for key, text in value.items():
        if key != "type":
            flat[side + _upper_first(key)] = text
    return flat


def _object_values_to_v1(flat: JsonObject, value: JsonObject, side: str) -> JsonObject:
    flat[f"{side}Value"] = value.get("value", "0")
    if "averageValue" in value:
        flat["averageValue"] = value["averageValue"]
    return flat


def _metric_to_v2(flat: JsonObject, side: str) -> JsonObject:
    metric: JsonObject = {"type": flat.get("type", "")}
    for source in _SOURCES:
        if source in flat:
            metric[source] = _source_to_v2(source, flat[source] or {}, side)
    return metric


def _source_to_v2(source: str, flat: JsonObject, side: str) -> JsonObject:
    nested: JsonObject = {key: flat[key] for key in ("name", "container") if key in flat}
    if "metricName" in flat:
        identifier: JsonObject = {"name": flat["metricName"]}
        selector = flat.get("metricSelector", flat.get("selector"))
        if selector is not None:
            identifier["selector"] = selector
        nested["metric"] = identifier
    if source == "object" and "target" in flat:
        nested["describedObject"] = flat["target"]
    value: JsonObject = {
        _lower_first(key[len(side) :]): text for key, text in flat.items() if key.startswith(side) and key != side
    }
    if "averageValue" in flat:
        value = {"averageValue": flat["averageValue"]}
    if side == "target":
        value["type"] = _target_type(value)
    nested[side] = value
    return nested


def _target_type(value: JsonObject) -> str:
    if "averageUtilization" in value:
        return "Utilization"
    return "AverageValue" if "averageValue" in value else "Value"


def _upper_first(name: str) -> str:
    return name[:1].upper() + name[1:]


def _lower_first(name: str) -> str:
    return name[:1].lower() + name[1:]


def _renamed(value: Json, rename: Callable[[str], str]) -> Json:
    if isinstance(value, dict):
        return {rename(key): _renamed(inner, rename) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, rename) for inner in value]
    return value


def _encoded(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(text: str | None) -> Json:
    """Annotations may hold anything; what is not JSON is dropped, as Kubernetes does."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def share_storage(v1: Kind, v2: Kind) -> None:
    v1.bucket = v2.bucket
    v1.from_storage = from_v2
    v1.to_storage = to_v2
