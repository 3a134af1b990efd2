"""The vocabulary in which definitions of custom resources are written."""

from collections.abc import Mapping
from typing import Final

from kohort.objects.json_types import Json, JsonObject

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


def described(schema: JsonObject, meanings: Mapping[str, str], path: tuple[str, ...] = ()) -> JsonObject:
    """The schema with what its fields mean, which is what `kubectl explain` shows.

    A meaning is found by the path of a field or by the end of it, the longest first: `strategy.paused` is said of that
    field wherever a strategy stands.

    >>> names = shape({"name": {"type": "string"}})
    >>> described(shape({"leader": names}), {"leader.name": "Whose."})["properties"]["leader"]["properties"]
    {'name': {'type': 'string', 'description': 'Whose.'}}
    """
    found = dict(schema)
    if "properties" in schema:
        found["properties"] = {
            name: described(field, meanings, (*path, name)) | _meaning((*path, name), meanings)
            for name, field in schema["properties"].items()
        }
    if "items" in schema:
        found["items"] = described(schema["items"], meanings, path)
    return found


def _meaning(path: tuple[str, ...], meanings: Mapping[str, str]) -> JsonObject:
    for start in range(len(path)):
        if (meaning := meanings.get(".".join(path[start:]))) is not None:
            return {"description": meaning}
    return {}
