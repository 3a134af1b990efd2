"""Defaults of CRD schemas.

| property | in the object | becomes |
|----------|---------------|---------|
| has a default | absent | the default |
| has a default, not nullable | null | the default |
| no default, not nullable | null | absent |
| nullable | null | null |
| unknown to the schema | null | null |

A default is looked into as well: `default: {}` on an object brings the defaults of its properties with it. An object is
never created just because something below it has a default. Null items of a list take the default of the items, and
stay null without one, for validation to refuse.
"""

from kohort.cluster.apiserver.schema.builtin import OBJECT_META
from kohort.cluster.apiserver.schema.node import Missing, Node
from kohort.objects.json_types import Json, JsonObject


def apply_defaults(obj: JsonObject, node: Node) -> None:
    """Fill in the defaults of a schema and remove nulls that it does not allow, in place."""
    if node.name:
        return  # built-in types have their defaults in code
    _default_object(obj, node)


def _default_value(value: Json, node: Node) -> None:
    if type(value) is dict:
        if node.name != OBJECT_META:
            _default_object(value, node)
    elif type(value) is list and node.type == "array":
        _default_list(value, node.items)


def _default_object(obj: JsonObject, node: Node) -> None:
    fields = node.fields
    for name, field in _defaulted(node):
        if name not in obj or (obj[name] is None and not field.nullable):
            obj[name] = _copy(field.default)
    every = node.items if node.type == "map" else None
    removed = []
    for name, value in obj.items():
        child = fields.get(name, every)
        if child is None:
            continue
        if value is None:
            if not child.nullable:
                removed.append(name)
        elif type(value) is dict:
            if child.name != OBJECT_META:
                _default_object(value, child)
        elif type(value) is list and child.type == "array":
            _default_list(value, child.items)
    for name in removed:
        _replace_null(obj, name, every)


def _defaulted(node: Node) -> tuple[tuple[str, Node], ...]:
    if node.defaulted is None:
        node.defaulted = tuple(
            (name, field) for name, field in node.fields.items() if not isinstance(field.default, Missing)
        )
    return node.defaulted


def _replace_null(obj: JsonObject, name: str, every: Node | None) -> None:
    """A null that may not stay: the default of a map's values, else nothing."""
    default = every.default if every is not None else None
    if default is None or isinstance(default, Missing):
        del obj[name]
    else:
        obj[name] = _copy(default)


def _default_list(items: list[Json], node: Node) -> None:
    for index, item in enumerate(items):
        if item is None and not node.nullable and not isinstance(node.default, Missing):
            item = items[index] = _copy(node.default)
        if type(item) is dict or type(item) is list:
            _default_value(item, node)


def _copy(value: Json) -> Json:
    if type(value) is dict:
        return {key: _copy(inner) for key, inner in value.items()}
    if type(value) is list:
        return [_copy(inner) for inner in value]
    return value
