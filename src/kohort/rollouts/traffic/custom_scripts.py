"""Custom network objects: any kind, changed by a script and restored from an annotation.

A script is a function of the object as it was before the release, so running it again gives the same; what an earlier
step has made of the object never enters.
"""

import copy
from collections.abc import Mapping

import msgspec

from kohort.kube.merge_patch import locked, merge_patch
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.messages import EventReason, ReleaseEvent
from kohort.rollouts.traffic.foreign_edits import rebased
from kohort.rollouts.traffic.model import TrafficStep
from kohort.rollouts.traffic.pending_writes import NOTHING_TO_DO, TrafficPlan, TrafficProblem, Write
from kohort.rules.rollout_labels import ORIGINAL_SPEC, WRITTEN_SPEC


def saved(obj: JsonObject, name: str = ORIGINAL_SPEC) -> JsonObject | None:
    text = (obj["metadata"].get("annotations") or {}).get(name)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=JsonObject)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        metadata = obj["metadata"]
        raise TrafficProblem(
            f"{obj.get('kind')} {metadata['namespace']}/{metadata['name']}: annotation {name} is not readable "
            f"({problem}); restore the object by hand and remove the annotation"
        ) from None


def as_it_was(obj: JsonObject) -> JsonObject:
    """What a script works on, and what is restored: the object without our doing, with all edits of others."""
    live, original, written = _content(obj), saved(obj), saved(obj, WRITTEN_SPEC)
    if original is None:
        return copy.deepcopy(live)
    if written is None:
        return original
    found: JsonObject = rebased(original, written, live)
    return found


def is_as_written(obj: JsonObject) -> bool:
    """Whether it is still as its script made it."""
    return saved(obj, WRITTEN_SPEC) == _content(obj)


def _content(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    others = {name: text for name, text in annotations.items() if name not in (ORIGINAL_SPEC, WRITTEN_SPEC)}
    parts = {"spec": obj.get("spec"), "labels": metadata.get("labels"), "annotations": others}
    return {name: part for name, part in parts.items() if part}


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


def plan_change(obj: JsonObject, resource: Resource, original: JsonObject, desired: JsonObject) -> TrafficPlan:
    """Make the object as the script says, keeping how it was, and what we made of it, in the same write."""
    kept = {ORIGINAL_SPEC: _text(original), WRITTEN_SPEC: _text(desired)}
    annotations = {**(desired.get("annotations") or {}), **kept}
    return _write(obj, resource, {**desired, "annotations": annotations}, "route")


def plan_restore(obj: JsonObject, resource: Resource, canary: str) -> TrafficPlan:
    """Edits that other clients made meanwhile stay, unless they would leave a route to the canary behind: then the
    original counts, and an event says so. `canary` is empty where both versions share a Service."""
    original = saved(obj)
    if original is None:
        return NOTHING_TO_DO
    wanted = as_it_was(obj)
    if canary and _names(wanted, canary) and not _names(original, canary):
        metadata = obj["metadata"]
        text = (
            f"{resource.kind} {metadata['namespace']}/{metadata['name']} was edited where the release had changed it, "
            f"and still names {canary}; it is put back as it was before the release, apply your edit again"
        )
        return _write(obj, resource, original, "restore") + TrafficPlan(
            events=(ReleaseEvent(EventReason.EDIT_LOST, text),)
        )
    return _write(obj, resource, wanted, "restore")


def _names(value: Json, service: str) -> bool:
    """Whether some text is the name of a Service, alone or with its domain."""
    if isinstance(value, dict):
        return any(_names(member, service) for member in value.values())
    if isinstance(value, list):
        return any(_names(member, service) for member in value)
    return isinstance(value, str) and value.partition(".")[0] == service


def _text(value: JsonObject) -> str:
    return msgspec.json.encode(value).decode()


def _write(obj: JsonObject, resource: Resource, desired: Mapping[str, Json], what: str) -> TrafficPlan:
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
    return TrafficPlan((Write("patch", resource, metadata["namespace"], metadata["name"], text, body),))
