"""Whether an intent fits its schema, in the words of the API."""

from typing import Final

from kohort.cluster.apiserver.apply.fieldset import element_text
from kohort.cluster.apiserver.apply.shapes import TypedError, elements
from kohort.cluster.apiserver.patch.wording import go_syntax, go_text, go_type
from kohort.cluster.apiserver.schema.node import MISSING, Node
from kohort.objects.fielderrors import FieldError, type_invalid
from kohort.objects.jsontypes import Json, JsonObject


def problems(value: JsonObject, node: Node, *, repeats: bool = False) -> list[str]:
    """Why an object cannot be applied: undeclared fields, wrong types, items with the same key (unless `repeats`)."""
    found: list[str] = []
    _check(value, node, "", found, repeats=repeats, open_=False)
    return found


def _check(value: Json, node: Node, path: str, found: list[str], *, repeats: bool, open_: bool) -> None:
    if value is None:
        return
    match node.type:
        case "object" | "map":
            if not isinstance(value, dict):
                found.append(_complaint(path, f"expected map, got &{{{go_text(value)}}}"))
            else:
                _check_map(value, node, path, found, repeats=repeats, open_=open_ or node.preserve_unknown)
        case "array":
            if not isinstance(value, list):
                found.append(_complaint(path, f"expected list, got &{{{go_text(value)}}}"))
            else:
                _check_items(value, node, path, found, repeats=repeats, open_=open_)
        case _:
            complaint = _scalar_complaint(value, node)
            if complaint:
                found.append(_complaint(path, complaint))


def _check_map(value: JsonObject, node: Node, path: str, found: list[str], *, repeats: bool, open_: bool) -> None:
    for key, entry in value.items():
        if node.type == "map":
            child = node.items
        else:
            declared = node.fields.get(key)
            if declared is None:
                if node.fields and not open_:
                    found.append(_complaint(f"{path}.{key}", "field not declared in schema"))
                    return
                continue
            child = declared
        _check(entry, child, f"{path}.{key}", found, repeats=repeats, open_=open_)


def _check_items(value: list[Json], node: Node, path: str, found: list[str], *, repeats: bool, open_: bool) -> None:
    if node.list_type == "atomic":
        for index, entry in enumerate(value):
            _check(entry, node.items, f"{path}[{index}]", found, repeats=repeats, open_=open_)
        return
    seen: set[str] = set()
    for index, entry in enumerate(value):
        try:
            name = elements([entry], node)[0]
        except TypedError as error:
            found.append(_complaint(path, f"element {index}: {error}"))
            return
        readable = element_text(name)
        if name in seen and not repeats:
            found.append(_complaint(path, f"duplicate entries for key {readable}"))
        seen.add(name)
        _check(entry, node.items, path + readable, found, repeats=repeats, open_=open_)


def _scalar_complaint(value: Json, node: Node) -> str:
    if node.type == "any" and not node.format:
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


def _complaint(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


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
