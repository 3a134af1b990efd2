"""Whether an applied configuration fits its schema, with the error messages of the API."""

from collections.abc import Sequence
from typing import Final

from kohort.cluster.apiserver.apply.fieldset import element_text
from kohort.cluster.apiserver.apply.ownership_schema import TypedError, elements
from kohort.cluster.apiserver.patch.go_error_text import go_syntax, go_text, go_type
from kohort.cluster.apiserver.schema.node import MISSING, Node
from kohort.objects.field_errors import FieldError, type_invalid
from kohort.objects.json_types import Json, JsonObject

_Problems = Sequence[tuple[str, str]]
"""Paths and what is wrong there. Paths grow on the way back up, so that an object that fits costs none."""


def problems(value: JsonObject, node: Node, *, repeats: bool = False) -> list[str]:
    """Why an object cannot be applied: undeclared fields, wrong types, items with the same key (unless `repeats`)."""
    return [f"{path}: {text}" if path else text for path, text in _check(value, node, repeats, False)]


def _check(value: Json, node: Node, repeats: bool, open_: bool) -> _Problems:
    if value is None:
        return ()
    kind = node.type
    if kind == "object" or kind == "map":
        if not isinstance(value, dict):
            return [("", f"expected map, got &{{{go_text(value)}}}")]
        return _check_map(value, node, repeats, open_ or node.preserve_unknown)
    if kind == "array":
        if not isinstance(value, list):
            return [("", f"expected list, got &{{{go_text(value)}}}")]
        return _check_items(value, node, repeats, open_)
    complaint = _scalar_complaint(value, node)
    return [("", complaint)] if complaint else ()


def _check_map(value: JsonObject, node: Node, repeats: bool, open_: bool) -> _Problems:
    found: list[tuple[str, str]] = []
    fields = node.fields
    every = node.items if node.type == "map" else None
    for key, entry in value.items():
        child = fields.get(key, every)
        if child is not None:
            below = _check(entry, child, repeats, open_)
            if below:
                found += [(f".{key}{path}", text) for path, text in below]
        elif fields and not open_:
            found.append((f".{key}", "field not declared in schema"))
            break
    return found


def _check_items(value: list[Json], node: Node, repeats: bool, open_: bool) -> _Problems:
    found: list[tuple[str, str]] = []
    items = node.items
    if node.list_type == "atomic":
        for index, entry in enumerate(value):
            found += [(f"[{index}]{path}", text) for path, text in _check(entry, items, repeats, open_)]
        return found
    seen: set[str] = set()
    for index, entry in enumerate(value):
        try:
            name = elements([entry], node)[0]
        except TypedError as error:
            return [*found, ("", f"element {index}: {error}")]
        if name in seen and not repeats:
            found.append(("", f"duplicate entries for key {element_text(name)}"))
        seen.add(name)
        found += [(element_text(name) + path, text) for path, text in _check(entry, items, repeats, open_)]
    return found


def _scalar_complaint(value: Json, node: Node) -> str:
    if node.type == "any" and node.format in ("", "int-or-string"):
        return ""
    if node.type in ("integer", "number"):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if fits else f"expected numeric (int or float), got {go_type(value)}"
    if node.type == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_text(value)}}}"
    if node.type == "string" and node.format in ("", "byte"):
        return (
            ""
            if isinstance(value, str)
            else f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}"
        )
    return f"expected any scalar, got &{{{go_text(value)}}}" if isinstance(value, dict | list) else ""


_JSON_TYPES: Final = {"map": "object", "any": "integer,string"}


def null_values(obj: JsonObject, node: Node) -> list[FieldError]:
    """Nulls that an apply has left in a custom resource where its schema wants a value.

    Other writes drop them, an apply does not: it is refused. Null where there is a default is replaced by the default.
    """
    found: list[FieldError] = []
    for key, value in obj.items():
        if key not in ("apiVersion", "kind", "metadata"):
            _find_nulls(value, node.fields.get(key), key, found)
    return found


def _find_nulls(value: Json, node: Node | None, path: str, found: list[FieldError]) -> None:
    if node is None:
        return
    if value is None:
        checked = node.type != "any" or node.format == "int-or-string"
        if checked and not node.nullable and node.default is MISSING:
            wanted = _JSON_TYPES.get(node.type, node.type)
            found.append(type_invalid(path, "null", f'{path} in body must be of type {wanted}: "null"'))
    elif isinstance(value, dict):
        for key, entry in value.items():
            _find_nulls(entry, node.field(key), f"{path}.{key}", found)
    elif isinstance(value, list) and node.type == "array":
        for index, entry in enumerate(value):
            _find_nulls(entry, node.items, f"{path}[{index}]", found)
