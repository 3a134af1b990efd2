"""The canonical form of a document of a built-in type: what Go's typed structs would make of it.

Other implementations read objects into typed structs before they compare or hash them. That drops some zero values and
keeps others, depending on whether a field is a pointer and whether it is left out when empty, and it gives quantities
one spelling. The type data of the built-in kinds knows this for every field, so the same is done here from that data.
Fields that the data does not know (of a newer Kubernetes) are kept as they are: dropping them would make a change of
theirs invisible.
"""

import msgspec

from kohort.objects.json_types import Json, JsonObject
from kohort.objects.quantity import canonical as canonical_quantity
from kohort.objects.type_data import TypeExpression, record

POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
CLAIM = "io.k8s.api.core.v1.PersistentVolumeClaim"

_ESCAPES = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def encode(document: Json) -> bytes:
    """JSON with sorted keys, without white space, escaped as Go escapes it."""
    text = msgspec.json.encode(document, order="sorted")
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def canonical_struct(value: JsonObject, type_name: str) -> JsonObject:
    """A document of this type in canonical form."""
    known = record(type_name)
    result: JsonObject = {}
    for field in known.fields:
        if field.name in value and value[field.name] is not None:
            found = _canonical(value[field.name], field.type)
            if _written(found, field.type, field.omit_empty, field.omit_zero):
                result[field.name] = found
        elif not field.type.pointer and not field.omit_zero:
            zero = _zero(field.type)
            if _written(zero, field.type, field.omit_empty, field.omit_zero):
                result[field.name] = zero
    names = {field.name for field in known.fields}
    result.update({key: without_nulls(item) for key, item in value.items() if key not in names and item is not None})
    return result


def _written(value: Json, type: TypeExpression, omit_empty: bool, omit_zero: bool) -> bool:
    """Whether Go writes a field with this value."""
    if type.pointer:
        return value is not None
    if omit_zero and (value is None or value == {} or value == _zero(type)):
        return False
    if not omit_empty:
        return True
    if type.kind in ("list", "wrapped-list", "map"):
        return bool(value)
    if type.kind == "scalar":
        return value not in (0, "", False, None)
    return True


def _zero(type: TypeExpression) -> Json:
    if type.kind == "struct":
        return canonical_struct({}, type.word)
    if type.kind == "scalar":
        return {"string": "", "bool": False, "bytes": None}.get(type.word, 0)
    if type.word == "quantity":
        return "0"
    if type.word == "intstr":
        return 0
    return None


def _canonical(value: Json, type: TypeExpression) -> Json:
    if type.kind == "struct" and isinstance(value, dict):
        return canonical_struct(value, type.word)
    if type.kind in ("list", "wrapped-list") and isinstance(value, list):
        return [_canonical(item, type.item) for item in value]
    if type.kind == "map" and isinstance(value, dict):
        return {key: _canonical(item, type.item) for key, item in value.items()}
    if type.word == "quantity":
        return canonical_quantity(value)
    return value


def without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
