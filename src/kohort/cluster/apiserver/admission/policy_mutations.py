"""What a mutating policy does to an object.

| patchType | the expression yields | effect |
|---|---|---|
| JSONPatch | a list of `JSONPatch{op, path, value}` | the operations are applied in order |
| ApplyConfiguration | `Object{...}` with some fields | these fields are merged in, lists by their keys |
"""

from collections.abc import Iterator

from kohort.cluster.apiserver.apply.merging import merged
from kohort.cluster.apiserver.cel import CelError, Environment
from kohort.cluster.apiserver.cel.times import duration_text, timestamp_text
from kohort.cluster.apiserver.cel.values import (
    Duration,
    Timestamp,
    WrappedList,
    WrappedMap,
    items_of,
    unwrapped,
)
from kohort.cluster.apiserver.patch import jsonpatch
from kohort.cluster.apiserver.schema.node import ANY, Node
from kohort.kube import errors
from kohort.objects.json_types import Json, JsonObject


class Mutation:
    __slots__ = ("json_patch", "program")

    def __init__(self, entry: JsonObject, environment: Environment) -> None:
        self.json_patch = entry.get("patchType") == "JSONPatch"
        source = entry.get("jsonPatch") if self.json_patch else entry.get("applyConfiguration")
        self.program = environment.compile((source or {}).get("expression") or "")


def apply_mutation(mutation: Mutation, obj: JsonObject, outcome: Json, node: Node | None) -> JsonObject:
    """The object after a mutation; the given one stays as it is. Raises CelError when it cannot be made."""
    if mutation.json_patch:
        return _patched(obj, [as_json(operation) for operation in items_of(outcome)])
    configuration = as_json(outcome)
    configuration = {key: value for key, value in configuration.items() if key not in ("apiVersion", "kind")}
    shape = node or ANY
    undeclared = [path for path, problem in _problems(configuration, shape, "") if problem == "undeclared"]
    if undeclared:
        text = f"{undeclared[0]}: field not declared in schema"
        raise CelError(f"error applying patch: failed to convert patch object to typed object: {text}")
    atomic = [path for path, problem in _problems(configuration, shape, "") if problem == "atomic"]
    if atomic:
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise CelError(f"error applying patch: invalid ApplyConfiguration: {text}")
    return merged(obj, configuration, shape)


def _patched(original: JsonObject, operations: list[JsonObject]) -> JsonObject:
    """A test that fails says that the patch is not for this object, which stays as it is."""
    obj = original
    for operation in operations:
        try:
            obj = jsonpatch.apply(obj, [operation])
        except errors.ApiError:
            if operation.get("op") == "test":
                return original
            raise CelError(f"JSON Patch: {jsonpatch.misfit(obj, operation)}") from None
    return obj


def _problems(value: Json, node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Fields that the schema does not have, and parts that have only one owner as a whole and so cannot be merged."""
    if node.type == "any":
        return
    whole = node.list_type == "atomic" if isinstance(value, list) else isinstance(value, dict) and node.atomic
    if whole:
        yield path, "atomic"
    elif isinstance(value, dict):
        for key, inner in value.items():
            field = node.field(key)
            if field is not None:
                yield from _problems(inner, field, f"{path}.{key}")
            elif not node.preserve_unknown:
                yield f"{path}.{key}", "undeclared"
    elif isinstance(value, list):
        for item in value:
            yield from _problems(item, node.items, path)


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
