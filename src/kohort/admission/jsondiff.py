"""The JSON patch between two documents.

Objects are compared member by member. Lists are compared item by item as far as both go, then shortened or extended at
their end: enough for what webhooks do, which is to add things and to change single values.
"""

from collections.abc import Iterator

from kohort.objects.json_types import Json, JsonObject


def operations(before: Json, after: Json, path: str = "") -> list[JsonObject]:
    """Operations of RFC 6902 that turn `before` into `after`; empty when they are equal."""
    return list(_differences(before, after, path))


def _differences(before: Json, after: Json, path: str) -> Iterator[JsonObject]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _members(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _items(before, after, path)
    elif before != after or type(before) is not type(after):
        yield {"op": "replace", "path": path, "value": after}


def _members(before: JsonObject, after: JsonObject, path: str) -> Iterator[JsonObject]:
    for key in before:
        if key not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
    for key, value in after.items():
        below = f"{path}/{_escaped(key)}"
        if key in before:
            yield from _differences(before[key], value, below)
        else:
            yield {"op": "add", "path": below, "value": value}


def _items(before: list[Json], after: list[Json], path: str) -> Iterator[JsonObject]:
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        yield from _differences(old, new, f"{path}/{index}")
    for index in range(len(before) - 1, len(after) - 1, -1):
        yield {"op": "remove", "path": f"{path}/{index}"}
    for value in after[len(before) :]:
        yield {"op": "add", "path": f"{path}/-", "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
