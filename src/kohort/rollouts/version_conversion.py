"""Rollout and BatchRelease in their two versions. v1beta1 is stored; v1alpha1 is what older manifests and tools speak.

| v1alpha1 | v1beta1 |
|---|---|
| spec.objectRef.workloadRef | spec.workloadRef |
| step.weight 20 | step.traffic "20%", and replicas "20%" where the step names none |
| annotation `rolling-style` = partition | enableExtraWorkloadForCanary false; anything else means true |
| annotation `trafficrouting` | canary.trafficRoutingRef |
| spec.rolloutID | – |
| BatchRelease spec.targetReference.workloadRef | spec.workloadRef |
| BatchRelease annotation `rolling-style` | releasePlan.rollingStyle |

The older version has no blue-green, and its matches know headers only. A blue-green Rollout is therefore shown in it by
its metadata alone; its definition requires what is missing then, so that such a view cannot be stored back by accident.
Status is carried over as it is, also what only we write there: old tools approve steps through the old version.
"""

from collections.abc import Callable
from typing import Final

from kohort.objects import int_or_string
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels

ALPHA: Final = rollout_labels.ALPHA_VERSION
BETA: Final = rollout_labels.API_VERSION
_STYLES: Final = {
    one.lower(): one for one in (rollout_labels.CANARY, rollout_labels.PARTITION, rollout_labels.BLUE_GREEN)
}


def converted(obj: JsonObject, api_version: str) -> JsonObject:
    """The object in another version; ValueError when there is no way."""
    if obj.get("apiVersion") == api_version:
        return obj
    way = _WAYS.get((str(obj.get("kind")), api_version))
    if way is None or obj.get("apiVersion") not in (ALPHA, BETA):
        raise ValueError(f"{obj.get('kind')} cannot be converted from {obj.get('apiVersion')} to {api_version}")
    return way(obj) | {"apiVersion": api_version, "kind": obj["kind"]}


# Rollouts


def _rollout_to_beta(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec") or {}
    given = spec.get("strategy") or {}
    canary = given.get("canary")
    strategy: JsonObject = {name: value for name, value in given.items() if name != "canary"}
    if canary is not None:
        annotations = obj["metadata"].get("annotations") or {}
        strategy["canary"] = {
            **canary,
            **({"steps": [_step_to_beta(step) for step in canary["steps"]]} if canary.get("steps") else {}),
            "enableExtraWorkloadForCanary": annotations.get(rollout_labels.ROLLING_STYLE, "").lower() != "partition",
        }
        if annotations.get(rollout_labels.TRAFFIC_ROUTING):
            strategy["canary"]["trafficRoutingRef"] = annotations[rollout_labels.TRAFFIC_ROUTING]
    result: JsonObject = {"metadata": obj["metadata"], "spec": {"strategy": strategy}}
    reference = (spec.get("objectRef") or {}).get("workloadRef")
    if reference is not None:
        result["spec"]["workloadRef"] = reference
    if "disabled" in spec:
        result["spec"]["disabled"] = spec["disabled"]
    if obj.get("status"):
        progress = obj["status"].get("canaryStatus") or {}
        result["status"] = {
            **obj["status"],
            "currentStepIndex": progress.get("currentStepIndex", 0),
            "currentStepState": progress.get("currentStepState", ""),
        }
    return result


def _step_to_beta(step: JsonObject) -> JsonObject:
    result: JsonObject = {name: value for name, value in step.items() if name != "weight"}
    if step.get("weight") is not None:
        share = f"{step['weight']}%"
        result["traffic"] = share
        if step.get("replicas") is None:
            result["replicas"] = share
    return result


def _rollout_to_alpha(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec") or {}
    given = spec.get("strategy") or {}
    canary = given.get("canary")
    if canary is None:
        return {"metadata": obj["metadata"], "spec": {}, "status": {}}
    dropped = ("steps", "enableExtraWorkloadForCanary", "trafficRoutingRef")
    older: JsonObject = {name: value for name, value in canary.items() if name not in dropped}
    if canary.get("steps"):
        older["steps"] = [_step_to_alpha(step) for step in canary["steps"]]
    notes = {rollout_labels.ROLLING_STYLE: "canary" if canary.get("enableExtraWorkloadForCanary") else "partition"}
    if canary.get("trafficRoutingRef"):
        notes[rollout_labels.TRAFFIC_ROUTING] = canary["trafficRoutingRef"]
    result: JsonObject = {
        "metadata": _annotated(obj["metadata"], notes),
        "spec": {
            **{name: value for name, value in spec.items() if name not in ("workloadRef", "strategy")},
            "objectRef": {"workloadRef": spec["workloadRef"]} if spec.get("workloadRef") else {},
            "strategy": {**{name: value for name, value in given.items() if name != "canary"}, "canary": older},
        },
    }
    if obj.get("status"):
        copies = ("currentStepIndex", "currentStepState")
        result["status"] = {name: value for name, value in obj["status"].items() if name not in copies}
    return result


def _step_to_alpha(step: JsonObject) -> JsonObject:
    result: JsonObject = {name: value for name, value in step.items() if name not in ("traffic", "matches")}
    share = step.get("traffic")
    if isinstance(share, str) and int_or_string.is_percentage(share):
        result["weight"] = int_or_string.percentage(share)
    if step.get("matches"):
        known = [{name: one[name] for name in ("headers",) if name in one} for one in step["matches"]]
        result["matches"] = known
    return result


# BatchReleases


def _release_to_beta(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec") or {}
    plan: JsonObject = dict(spec.get("releasePlan") or {})
    style = _STYLES.get((obj["metadata"].get("annotations") or {}).get(rollout_labels.ROLLING_STYLE, "").lower())
    if style is not None:
        plan["rollingStyle"] = style
    reference = (spec.get("targetReference") or {}).get("workloadRef")
    wanted: JsonObject = {"releasePlan": plan} | ({"workloadRef": reference} if reference is not None else {})
    return {"metadata": obj["metadata"], "spec": wanted, **_status(obj)}


def _release_to_alpha(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec") or {}
    plan = spec.get("releasePlan") or {}
    reference = spec.get("workloadRef")
    target = {"workloadRef": reference} if reference is not None else {}
    metadata = _annotated(obj["metadata"], {rollout_labels.ROLLING_STYLE: str(plan.get("rollingStyle", "")).lower()})
    return {"metadata": metadata, "spec": {"targetReference": target, "releasePlan": plan}, **_status(obj)}


def _status(obj: JsonObject) -> JsonObject:
    return {"status": obj["status"]} if obj.get("status") else {}


def _annotated(metadata: JsonObject, notes: dict[str, str]) -> JsonObject:
    return {**metadata, "annotations": {**(metadata.get("annotations") or {}), **notes}}


_WAYS: Final[dict[tuple[str, str], Callable[[JsonObject], JsonObject]]] = {
    ("Rollout", BETA): _rollout_to_beta,
    ("Rollout", ALPHA): _rollout_to_alpha,
    ("BatchRelease", BETA): _release_to_beta,
    ("BatchRelease", ALPHA): _release_to_alpha,
}
