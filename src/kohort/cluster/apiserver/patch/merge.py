"""JSON merge patch (RFC 7386): null deletes, objects merge, everything else replaces."""

from typing import Final

from kohort.cluster.apiserver.patch.go_error_text import cannot_unmarshal
from kohort.kube.errors import bad_request
from kohort.objects.json_types import Json, JsonObject


def apply(document: JsonObject, patch: Json) -> JsonObject:
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise cannot_unmarshal(patch, "value of type map[string]interface {}")
    return _merged(document, patch)


def _merged(target: JsonObject, patch: JsonObject) -> JsonObject:
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
            continue
        current = result.get(key)
        if isinstance(current, dict):
            result[key] = _merged(current, value) if isinstance(value, dict) else value
        else:
            result[key] = without_nulls(value)
    return result


def without_nulls(value: Json) -> Json:
    """What a patch value leaves behind where there was nothing to merge it with: its nulls have nothing to delete.

    Nulls that are elements of a list stay, because removing them would move their neighbours.
    """
    if value.__class__ is dict:
        return {
            key: without_nulls(item) if item.__class__ in _NESTED else item
            for key, item in value.items()
            if item is not None
        }
    if value.__class__ is list:
        return [without_nulls(item) for item in value]
    return value


_NESTED: Final = frozenset({dict, list})
