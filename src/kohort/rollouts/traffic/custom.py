"""Custom network objects: any kind, changed by a script and restored from an annotation.

A script is a function of the object as it was before the release, so running it again gives the same; what an earlier
step has made of the object never enters.
"""

import copy
from collections.abc import Mapping

import msgspec

from kohort.kube.patches import locked, merge_patch
from kohort.kube.resources import Resource
from kohort.objects.jsontypes import Json, JsonObject
from kohort.rollouts.traffic.model import NetworkRef, TrafficStep
from kohort.rollouts.traffic.names import ORIGINAL_SPEC
from kohort.rollouts.traffic.plans import NOTHING_TO_DO, Plan, TrafficProblem, Write


def saved(obj: JsonObject) -> JsonObject | None:
    text = (obj["metadata"].get("annotations") or {}).get(ORIGINAL_SPEC)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=JsonObject)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        metadata = obj["metadata"]
        raise TrafficProblem(
            f"{obj.get('kind')} {metadata['namespace']}/{metadata['name']}: annotation {ORIGINAL_SPEC} is not readable "
            f"({problem}); restore the object by hand and remove the annotation"
        ) from None


def as_it_was(obj: JsonObject) -> JsonObject:
    """What a script works on, and what is restored."""
    known = saved(obj)
    if known is not None:
        return known
    metadata = obj["metadata"]
    parts = {"spec": obj.get("spec"), "labels": metadata.get("labels"), "annotations": metadata.get("annotations")}
    return {name: copy.deepcopy(part) for name, part in parts.items() if part}


def script_input(data: JsonObject, step: TrafficStep, stable: str, canary: str) -> JsonObject:
    weight = -1 if step.weight is None else step.weight
    given: JsonObject = {
        "data": {"spec": {}, "labels": {}, "annotations": {}, **data},
        "canaryWeight": weight,
        "stableWeight": 100 - weight,
        "canaryService": canary,
        "stableService": stable,
    }
    if step.matches:
        given["matches"] = [_explicit(match) for match in msgspec.to_builtins(step.matches)]
    if step.header_modifier is not None:
        given["requestHeaderModifier"] = msgspec.to_builtins(step.header_modifier)
    return given


def _explicit(match: JsonObject) -> JsonObject:
    """Defaults spelled out: a script should not need to know them."""
    result = dict(match)
    for field in ("headers", "queryParams"):
        if field in result:
            result[field] = [{"type": "Exact", **part} for part in result[field]]
    if "path" in result:
        result["path"] = {"type": "PathPrefix", "value": "/", **result["path"]}
    return result


def checked(result: Json, where: str) -> JsonObject:
    """The result of a script, if it is what it must be."""
    if not isinstance(result, dict):
        raise TrafficProblem(
            f"{where} must return a table with spec, labels and annotations; it returned {_kind(result)}"
        )
    unknown = sorted(result.keys() - {"spec", "labels", "annotations"})
    if unknown:
        raise TrafficProblem(
            f"{where} returned the unknown field {unknown[0]!r}; it may return spec, labels, annotations"
        )
    if not isinstance(result.get("spec") or {}, dict):
        raise TrafficProblem(f"{where} returned {_kind(result['spec'])} as spec; it must be a table with names")
    for field in ("labels", "annotations"):
        texts = result.get(field)
        if not (texts is None or texts == [] or is_text_map(texts)):
            raise TrafficProblem(f"{where} returned {field} that are not texts by name")
    return {name: part for name, part in result.items() if part}


def is_text_map(value: Json) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _kind(value: Json) -> str:
    return {dict: "a table", list: "a list", str: "a text", type(None): "nothing"}.get(
        type(value), "a number or boolean"
    )


def plan_change(obj: JsonObject, resource: Resource, original: JsonObject, desired: JsonObject) -> Plan:
    """Make the object as the script says, keeping how it was in the same write."""
    text = msgspec.json.encode(original).decode()
    annotations = {**(desired.get("annotations") or {}), ORIGINAL_SPEC: text}
    return _write(obj, resource, {**desired, "annotations": annotations}, "route")


def plan_restore(obj: JsonObject, resource: Resource) -> Plan:
    original = saved(obj)
    return NOTHING_TO_DO if original is None else _write(obj, resource, original, "restore")


def _write(obj: JsonObject, resource: Resource, desired: Mapping[str, Json], what: str) -> Plan:
    metadata = obj["metadata"]
    before: JsonObject = {
        "metadata": {field: metadata.get(field) or {} for field in ("labels", "annotations")},
        "spec": obj.get("spec") or {},
    }
    after: JsonObject = {
        "metadata": {field: desired.get(field) or {} for field in ("labels", "annotations")},
        "spec": desired.get("spec") or {},
    }
    patch = merge_patch(before, after)
    if patch is None:
        return NOTHING_TO_DO
    text = f"{what} {resource.kind} {metadata['name']}"
    body = locked(patch, metadata["resourceVersion"])
    return Plan((Write("patch", resource, metadata["namespace"], metadata["name"], text, body),))


def described(ref: NetworkRef, namespace: str) -> str:
    return f"{ref.kind} {namespace}/{ref.name} (trafficRoutings[0].customNetworkRefs)"
