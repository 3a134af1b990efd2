"""What is wrong with a Rollout of v1alpha1 that its newer form no longer shows; checked before it is converted."""

import itertools
from typing import Final

from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import rollout_labels

_STYLES: Final = ("", "canary", "partition")
_STEPS: Final = "Spec.Strategy.Canary.Steps"


def errors(document: JsonObject) -> list[FieldError]:
    spec = document.get("spec") or {}
    return [*_reference_errors(spec), *_style_errors(document), *_step_errors(spec)]


def _reference_errors(spec: JsonObject) -> list[FieldError]:
    if (spec.get("objectRef") or {}).get("workloadRef") is not None:
        return []
    return [field_errors.invalid("Spec.ObjectRef.WorkloadRef", None, "WorkloadRef is required")]


def _style_errors(document: JsonObject) -> list[FieldError]:
    style = (document["metadata"].get("annotations") or {}).get(rollout_labels.ROLLING_STYLE, "")
    if style.lower() in _STYLES:
        return []
    return [field_errors.invalid("RollingStyle", style, "Rolling style must be 'Canary', 'Partition' or empty")]


def _step_errors(spec: JsonObject) -> list[FieldError]:
    canary = (spec.get("strategy") or {}).get("canary")
    if canary is None:
        return [field_errors.invalid("Spec.Strategy.Canary", None, "Canary cannot be empty")]
    steps: list[JsonObject] = canary.get("steps") or []
    for index, step in enumerate(steps):
        weight: int | None = step.get("weight")
        replicas: int | str | None = step.get("replicas")
        if weight is None and replicas is None:
            text = "weight and replicas cannot be empty at the same time"
            return [field_errors.invalid(f"{_STEPS}[{index}].steps", step, text)]
        if replicas is None and weight is not None and not 1 <= weight <= 100:
            text = "weight must be positive number, and less than or equal to replicasLimitWithTraffic (defaults to 30)"
            return [field_errors.invalid(f"{_STEPS}[{index}].Weight", weight, text)]
    return _order_errors(steps) if canary.get("trafficRoutings") else []


def _order_errors(steps: list[JsonObject]) -> list[FieldError]:
    weights: list[Json] = [step.get("weight") for step in steps]
    for before, after in itertools.pairwise(weights):
        if before is not None and after is not None and after < before:
            text = "Steps.Weight must be a non decreasing sequence"
            return [field_errors.invalid(f"{_STEPS}.Weight", after, text)]
    return []
