"""JSON patch (RFC 6902) with the behaviour that Kubernetes clients know.

It differs from the RFC in what it forgives: `replace` of a missing key adds it, `test` of a missing key for null
succeeds, `copy` of a missing key gives null, negative indices count from the end, and what stands before the first
slash of a path is ignored.

The document is never changed. `_Draft` copies a list or map the first time an operation is about to change it, so a
patch of one field costs one path, and a patch that fails half way leaves nothing behind.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from kohort.cluster.apiserver.patch.go_error_text import cannot_unmarshal, does_not_apply
from kohort.kube.errors import ApiError, failure
from kohort.objects.json_types import Json, JsonObject

MAX_OPERATIONS: Final = 10_000
COPY_BUDGET: Final = 3 * 1024 * 1024
"""How many bytes all `copy` operations of one patch may add: a short patch could double a value again and again."""

_FIELDS: Final = frozenset({"op", "path", "from", "value"})
_INDEX: Final = re.compile(r"[+-]?[0-9]+")

Container = JsonObject | list[Json]


def apply(document: JsonObject, operations: Json) -> JsonObject:
    checked = _checked(operations)
    draft = _Draft(document)
    for operation in checked:
        perform = _OPERATIONS.get(operation.get("op") or "")
        if perform is None:
            raise does_not_apply()
        perform(draft, operation)
    if not isinstance(draft.root, dict):
        raise does_not_apply()
    return draft.root


def misfit(document: JsonObject, operation: JsonObject) -> str:
    """Why an operation does not apply to a document, for the error message."""
    kind, path = operation.get("op"), operation.get("path") or ""
    if kind == "remove" and _has_container(document, path):
        key = path.rpartition("/")[2]
        return f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
    if kind == "replace":
        missing = "key" if _has_container(document, path) else "path"
        return f"replace operation does not apply: doc is missing {missing}: {path}: missing value"
    return f'{kind} operation does not apply: doc is missing path: "{path}": missing value'


def _has_container(document: JsonObject, path: str) -> bool:
    try:
        container, _ = _Draft(document).find(path)
    except ApiError:
        return False
    return isinstance(container, dict)


def unknown_fields(operations: Json) -> list[str]:
    """Members of operations that mean nothing, as strict validation reports them."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(_checked(operations))
        for name in operation
        if name not in _FIELDS
    ]


def _checked(operations: Json) -> list[JsonObject]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise cannot_unmarshal(operations, "value of type []handlers.jsonPatchOp")
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise failure(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
    checked = [{} if operation is None else operation for operation in operations]
    for operation in checked:
        if not isinstance(operation, dict):
            raise cannot_unmarshal(operation, "value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            value = operation.get(name)
            if value is not None and not isinstance(value, str):
                raise cannot_unmarshal(value, f"struct field jsonPatchOp.{name} of type string")
    return checked


class _Draft:
    """A document while it is patched."""

    def __init__(self, root: Container) -> None:
        self.root: Json = root
        self.copied = 0
        self._owned: dict[int, Container] = {}
        """Containers made by this draft, which it may change in place. Holding them keeps their ids unique."""

    def find(self, path: str) -> tuple[Container, str]:
        """The container that the last step of a path looks into, and that step."""
        steps = _steps(path)
        container = self.root
        for step in steps[:-1]:
            container = _get(container, step)
            if not isinstance(container, dict | list):
                raise does_not_apply()
        return container, steps[-1]

    def find_for_change(self, path: str) -> tuple[Container, str]:
        self.find(path)
        steps = _steps(path)
        container = self.root = self._own(self.root)
        for step in steps[:-1]:
            child = self._own(_get(container, step))
            if isinstance(container, dict):
                container[step] = child
            else:
                container[_index(step, len(container))] = child
            container = child
        return container, steps[-1]

    def _own(self, container: Container) -> Container:
        if id(container) in self._owned:
            return container
        fresh: Container = dict(container) if isinstance(container, dict) else list(container)
        self._owned[id(fresh)] = fresh
        return fresh

    def share(self) -> None:
        """Before a copy: what is now reachable on two paths must no longer be changed in place."""
        self._owned.clear()


def _steps(path: str) -> list[str]:
    parts = path.split("/")
    if len(parts) < 2:
        raise does_not_apply()
    return [part.replace("~1", "/").replace("~0", "~") for part in parts[1:]]


def _index(step: str, length: int, *, allow_end: bool = False) -> int:
    if not _INDEX.fullmatch(step):
        raise does_not_apply()
    limit = length + 1 if allow_end else length
    index = int(step)
    if not -limit <= index < limit:
        raise does_not_apply()
    return index + limit if index < 0 else index


def _get(container: Container, step: str) -> Json:
    """The value at a step; a key that a map does not have reads as null."""
    if isinstance(container, dict):
        return container.get(step)
    return container[_index(step, len(container))]


def _insert(container: Container, step: str, value: Json) -> None:
    if isinstance(container, dict):
        container[step] = value
    elif step == "-":
        container.append(value)
    else:
        container.insert(_index(step, len(container), allow_end=True), value)


def _delete(container: Container, step: str) -> None:
    if isinstance(container, dict):
        if step not in container:
            raise does_not_apply()
        del container[step]
    else:
        del container[_index(step, len(container))]


def _path(operation: JsonObject, name: str = "path") -> str:
    path: str | None = operation.get(name)
    if path is None:
        raise does_not_apply()
    return path


def _add(draft: _Draft, operation: JsonObject) -> None:
    container, step = draft.find_for_change(_path(operation))
    _insert(container, step, operation.get("value"))


def _remove(draft: _Draft, operation: JsonObject) -> None:
    container, step = draft.find_for_change(_path(operation))
    _delete(container, step)


def _replace(draft: _Draft, operation: JsonObject) -> None:
    path, value = _path(operation), operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            raise does_not_apply()
        draft.root = value
        return
    container, step = draft.find_for_change(path)
    if isinstance(container, dict):
        container[step] = value
    else:
        container[_index(step, len(container))] = value


def _move(draft: _Draft, operation: JsonObject) -> None:
    container, step = draft.find_for_change(_path(operation, "from"))
    value = _get(container, step)
    _delete(container, step)
    container, step = draft.find_for_change(_path(operation))
    _insert(container, step, value)


def _copy(draft: _Draft, operation: JsonObject) -> None:
    container, step = draft.find(_path(operation, "from"))
    value = _get(container, step)
    draft.share()
    container, step = draft.find_for_change(_path(operation))
    if value is not None:
        draft.copied += len(msgspec.json.encode(value))
        if draft.copied > COPY_BUDGET:
            raise does_not_apply()
    _insert(container, step, value)


def _test(draft: _Draft, operation: JsonObject) -> None:
    path = _path(operation)
    if path == "":
        found = draft.root
    else:
        container, step = draft.find(path)
        found = _get(container, step)
    if not _same(found, operation.get("value")):
        raise does_not_apply()


def _same(left: Json, right: Json) -> bool:
    """Equality of JSON, where 1, 1.0 and true are three values."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


_OPERATIONS: Final[dict[str, Callable[[_Draft, JsonObject], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
