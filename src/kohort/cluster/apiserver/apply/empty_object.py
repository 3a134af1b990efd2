"""An object of a kind before any field is set.

Creating an object is recorded as the change from its zero value. That value is not always empty: structs that are not
pointers and fields that are never left out (`spec.template.spec.containers` of a Deployment, null) are there from the
beginning. So the creator owns `spec.replicas` but not `spec`, while it does own `metadata.labels` and each label.
"""

from functools import cache, lru_cache
from typing import Final

from kohort.cluster.apiserver.schema.builtin_types import FieldRecord, has_type, record
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.type_data import ZEROS


def zero_object(node: Node, obj: JsonObject) -> JsonObject:
    """The zero value of an object's kind. Custom resources have none but their type."""
    if node.name and has_type(node.name):
        return _zero(node.name)
    return {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}


@lru_cache(maxsize=16384)
def always_null(node: Node) -> frozenset[str]:
    """Fields of a struct that are written as null when they are not set, so that null and absent mean the same."""
    if not node.name or not has_type(node.name):
        return frozenset()
    return frozenset(name for name, value in _zero(node.name).items() if value is None)


@cache
def _zero(name: str) -> JsonObject:
    return {field.name: _zero_value(field) for field in record(name).fields if _is_written(field)}


def _is_written(field: FieldRecord) -> bool:
    if field.omit_zero:
        return False
    kind = field.type.kind
    always_a_struct = not field.type.pointer and (kind == "struct" or field.type.word in _STRUCT_LIKE)
    return always_a_struct or not field.omit_empty


_STRUCT_LIKE: Final = {"time": None, "microtime": None, "raw": None, "quantity": "0", "intstr": 0, "duration": "0s"}
"""Types with a JSON form of their own that are structs in Go, with the zero value that they are written as."""


def _zero_value(field: FieldRecord) -> Json:
    expression = field.type
    if expression.pointer:
        return None
    if expression.kind == "struct":
        return _zero(expression.word)
    return _STRUCT_LIKE.get(expression.word, ZEROS.get(expression.word))
