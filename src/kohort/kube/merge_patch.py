"""The smallest change that makes one object into another, and nothing at all when they are equal.

A controller that writes only differences cannot overwrite what others have changed meanwhile, causes no events when
nothing changed, and sends a few bytes instead of a whole object.
"""

import msgspec

from kohort.objects.json_types import Json, JsonObject


def merge_patch(before: JsonObject | msgspec.Struct, after: JsonObject | msgspec.Struct) -> JsonObject | None:
    """The RFC 7386 patch from `before` to `after`, or None.

    Lists are replaced as a whole; that is all a merge patch can do. A null in either document counts as absent, because
    a merge patch cannot write one.
    """
    return _difference(_plain(before), _plain(after)) or None


def locked(patch: JsonObject, resource_version: str) -> JsonObject:
    """The patch, to be refused (409) unless the object is still at this version."""
    metadata = {**patch.get("metadata", {}), "resourceVersion": resource_version}
    return {**patch, "metadata": metadata}


def _plain(document: JsonObject | msgspec.Struct) -> JsonObject:
    plain: JsonObject = document if isinstance(document, dict) else msgspec.to_builtins(document)
    return plain


def _difference(before: JsonObject, after: JsonObject) -> JsonObject:
    patch: JsonObject = {name: None for name, old in before.items() if old is not None and after.get(name) is None}
    for name, new in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            if inner := _difference(old, new):
                patch[name] = inner
        elif new is not None and not equal(old, new):
            patch[name] = new
    return patch


def equal(one: Json, other: Json) -> bool:
    """Equality of JSON values. Python's own calls 1 and true equal, and a list unequal to the tuple that views have."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(equal(value, other[name]) for name, value in one.items())
        )
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
