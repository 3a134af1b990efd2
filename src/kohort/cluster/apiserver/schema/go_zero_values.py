"""Zero values that Go always writes: `status: {}`, `rules: null`, `currentReplicas: 0`.

Clients see them in every answer, field ownership records them, and some of them (`resources: {}`) are so familiar that
their absence looks like a bug. They are filled in after defaulting, because a default replaces a zero value: were
`targetPort: 0` written down first, it could not be distinguished from a value that the user wrote.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from kohort.cluster.apiserver.schema.builtin_types import FieldRecord, TypeExpression, record
from kohort.cluster.apiserver.schema.go_round_trip import zero
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.json_types import Json, JsonObject

Completer: TypeAlias = Callable[[Json, bool], None]


def complete(obj: JsonObject, node: Node, *, nulls: bool = True) -> None:
    """Add the fields that Go always serialises, in place. Nothing happens to nodes that are not built-in types.

    `nulls=False` leaves out those whose zero value is null (lists, maps and times without `omitempty`), for code that
    still wants to iterate over `rules` without looking for None.
    """
    if node.name:
        completer = struct_completer(node.name)
        if completer is not None:
            completer(obj, nulls)


@cache
def struct_completer(type_name: str) -> Completer | None:
    """The completion of a type; None when neither it nor anything below it has such fields."""
    if not _needs_completion(type_name):
        return None
    described = record(type_name)
    always: list[_Always] = []
    nested: dict[str, Completer] = {}

    def complete_struct(obj: JsonObject, nulls: bool) -> None:
        if not always and not nested:
            _compile(described.fields, always, nested)
        for name, zero_value, is_struct, may_be_null in always:
            value = obj.get(name)
            if value is None:
                if is_struct:
                    obj[name] = {}
                elif zero_value is not None or nulls:
                    obj[name] = zero_value
            elif may_be_null and nulls and not value:
                obj[name] = None  # storage does not know an empty list or map from none
        if len(nested) < len(obj):
            for name, completer in nested.items():
                value = obj.get(name)
                if value is not None:
                    completer(value, nulls)
            return
        for name, value in obj.items():
            if value is not None and name in nested:
                nested[name](value, nulls)

    return complete_struct


_Always: TypeAlias = tuple[str, Json, bool, bool]
"""A field that is always written: its name, its zero value, whether that is a struct (a new one each time), and whether
an empty value of it is null."""


def _compile(fields: tuple[FieldRecord, ...], always: list[_Always], nested: dict[str, Completer]) -> None:
    for field in fields:
        if _always_written(field):
            value = zero(field.type)
            may_be_null = field.type.element is not None and not field.type.pointer
            always.append((field.name, value, value == {}, may_be_null))
        completer = _below(field.type)
        if completer is not None:
            nested[field.name] = completer


def _always_written(field: FieldRecord) -> bool:
    if field.omit_zero:
        return False
    if not field.omit_empty:
        return True
    # omitempty has no effect on a struct, and the special types are structs in Go
    return not field.type.pointer and field.type.kind in ("struct", "special") and field.type.word != "any"


def _below(expression: TypeExpression) -> Completer | None:
    if expression.kind == "struct":
        return struct_completer(expression.word)
    item = _below(expression.element) if expression.element is not None else None
    if item is None:
        return None
    return _values_completer(item) if expression.kind == "map" else _items_completer(item)


def _items_completer(complete_item: Completer) -> Completer:
    def complete_items(items: list[Json], nulls: bool) -> None:
        for item in items:
            if item is not None:
                complete_item(item, nulls)

    return complete_items


def _values_completer(complete_value: Completer) -> Completer:
    def complete_values(values: JsonObject, nulls: bool) -> None:
        for value in values.values():
            if value is not None:
                complete_value(value, nulls)

    return complete_values


def _needs_completion(type_name: str) -> bool:
    """Whether anything that can be reached from a type is always written."""
    seen = {type_name}
    waiting = [type_name]
    while waiting:
        for field in record(waiting.pop()).fields:
            if _always_written(field):
                return True
            expression = field.type
            while expression.element is not None:
                expression = expression.element
            if expression.kind == "struct" and expression.word not in seen:
                seen.add(expression.word)
                waiting.append(expression.word)
    return False
