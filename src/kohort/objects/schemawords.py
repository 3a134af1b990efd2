"""The vocabulary in which definitions of custom resources are written."""

from typing import Final

from kohort.objects.jsontypes import Json, JsonObject

INT_OR_STRING: Final[JsonObject] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}


def shape(properties: JsonObject, *, required: tuple[str, ...] = (), rules: tuple[JsonObject, ...] = ()) -> JsonObject:
    """An object with these fields. `rules` are CEL."""
    schema: JsonObject = {"type": "object", "properties": properties}
    if rules:
        schema["x-kubernetes-validations"] = list(rules)
    if required:
        schema["required"] = list(required)
    return schema


def list_of(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


def int32(**more: Json) -> JsonObject:
    return {"type": "integer", "format": "int32", **more}


def int64() -> JsonObject:
    return {"type": "integer", "format": "int64"}


def enum(*values: str, **more: Json) -> JsonObject:
    return {"type": "string", "enum": list(values), **more}


def rule(expression: str, message: str, **more: Json) -> JsonObject:
    return {"rule": expression, "message": message, **more}
