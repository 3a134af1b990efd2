"""What a mutating policy does to an object.

| patchType | the expression yields | effect |
|---|---|---|
| JSONPatch | a list of `JSONPatch{op, path, value}` | the operations are applied in order |
| ApplyConfiguration | `Object{...}` with some fields | these fields are merged in, lists by their keys |
"""

from kohort.cluster.apiserver.apply.merging import merged
from kohort.cluster.apiserver.cel import CelError, Environment
from kohort.cluster.apiserver.cel.times import duration_text, timestamp_text
from kohort.cluster.apiserver.cel.values import (
    Duration,
    Timestamp,
    WrappedList,
    WrappedMap,
    is_list,
    items_of,
    unwrapped,
)
from kohort.cluster.apiserver.patch import jsonpatch
from kohort.cluster.apiserver.schema.node import ANY, Node
from kohort.objects.jsontypes import Json, JsonObject


class Mutation:
    __slots__ = ("json_patch", "program")

    def __init__(self, entry: JsonObject, environment: Environment) -> None:
        self.json_patch = entry.get("patchType") == "JSONPatch"
        source = entry.get("jsonPatch") if self.json_patch else entry.get("applyConfiguration")
        self.program = environment.compile((source or {}).get("expression") or "")


def apply_mutation(mutation: Mutation, obj: JsonObject, outcome: Json, node: Node | None) -> JsonObject:
    """The object after a mutation; the given one stays as it is."""
    if mutation.json_patch:
        if not is_list(outcome):
            raise CelError("JSON patch expression must evaluate to a list")
        return jsonpatch.apply(obj, [_operation(one) for one in items_of(outcome)])
    configuration = as_json(outcome)
    if not isinstance(configuration, dict):
        raise CelError("apply configuration must evaluate to an object")
    for field in ("apiVersion", "kind"):
        if field in configuration:
            raise CelError(f"{field} may not be set in an apply configuration")
    return merged(obj, configuration, node or ANY)


def _operation(value: Json) -> JsonObject:
    operation: JsonObject = as_json(value)
    return operation


def as_json(value: Json) -> Json:
    """A value of the language as JSON."""
    value = unwrapped(value) if isinstance(value, (WrappedList, WrappedMap)) else value
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise CelError(f"a value of type {type(value).__name__} cannot be part of an object")
