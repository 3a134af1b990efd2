"""Custom resources without the fields that their schema does not know.

A custom resource is not decoded into a type: apart from `metadata`, which is treated exactly like that of a built-in
kind, wrong types are left for validation, and values stay as they are. What has no place in the schema is removed
unless the schema says otherwise:

| node | its unknown keys | its known keys |
|------|------------------|----------------|
| object | removed | visited |
| object with preserve-unknown-fields | kept, not looked into | visited |
| map | there are none | each value visited |
| embedded resource | removed, except apiVersion, kind and metadata | visited; metadata as an ObjectMeta |
| scalar, but the value is an object | removed | |

Paths are kept as links to the path above and written out only where something is reported: a map key of a megabyte
above a hundred thousand items must not be copied a hundred thousand times.
"""

from typing import TypeAlias, Union

from kohort.cluster.apiserver.schema.builtin import OBJECT_META
from kohort.cluster.apiserver.schema.go_round_trip import LONG_KEY, MAX_UNKNOWN, conformer
from kohort.cluster.apiserver.schema.go_type_errors import TypeMismatch, json_type
from kohort.cluster.apiserver.schema.json_body import normal_numbers
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.field_errors import invalid
from kohort.objects.json_types import Json, JsonObject

_Path: TypeAlias = Union["tuple[_Path, str]", None]
"""The path above, and the last part: a key, or an index in brackets. None at the top."""

_RESOURCE_KEYS = frozenset({"apiVersion", "kind", "metadata"})


def prune(obj: JsonObject, root: Node) -> list[str]:
    """Remove unknown fields in place; their paths, those in the resource's own metadata first.

    Raises Mismatch or ValueError for metadata that is not an ObjectMeta.
    """
    in_metadata = _conform_metadata(obj)
    walk = _Walk(root)
    walk.visit_object(obj, root, None)
    return sorted(f"metadata.{path}" for path in in_metadata) + sorted(walk.unknown) + sorted(walk.in_metadata)


def prune_value(value: Json, node: Node) -> list[str]:
    """The same for a value anywhere in a schema, such as a default. Raises ValueError for bad embedded metadata."""
    walk = _Walk()
    walk.visit(value, node, None)
    return walk.unknown


def _conform_metadata(obj: JsonObject) -> list[str]:
    if "metadata" not in obj:
        return []
    metadata = obj["metadata"]
    if metadata is None:
        obj["metadata"] = {}
        return []
    if type(metadata) is not dict:
        raise TypeMismatch(json_type(metadata), "v1.ObjectMeta", stops=True)
    return conformer(OBJECT_META)(metadata) or []


class _Walk:
    def __init__(self, root: Node | None = None) -> None:
        self.root = root
        """The node of the resource itself, whose apiVersion, kind and metadata are not fields of the schema."""
        self.unknown: list[str] = []
        self.in_metadata: list[str] = []

    def visit(self, value: Json, node: Node | None, path: _Path) -> None:
        if type(value) is dict:
            if node is not None and node.embedded:
                self._embedded(value, path)
            self.visit_object(value, node, path)
        elif type(value) is list:
            self._visit_list(value, node, path)

    def visit_object(self, obj: JsonObject, node: Node | None, path: _Path) -> None:
        fields = node.fields if node is not None else {}
        every = node.items if node is not None and node.type == "map" else None
        resource = node is not None and (node.embedded or node is self.root)
        removed: list[str] = []
        for key, value in obj.items():
            if resource and key in _RESOURCE_KEYS:
                continue
            child = fields.get(key, every)
            if child is not None:
                kind = type(value)
                if kind is dict:
                    if child.embedded:
                        self._embedded(value, (path, key))
                    self.visit_object(value, child, (path, key))
                elif kind is list:
                    self._visit_list(value, child, (path, key))
                elif kind is float or kind is int:
                    obj[key] = normal_numbers(value)
            elif node is None or not node.preserve_unknown:
                removed.append(key)
            else:
                obj[key] = normal_numbers(value)
        for key in removed:
            del obj[key]
        if removed and len(self.unknown) < MAX_UNKNOWN:
            self.unknown += [_written((path, key)) for key in removed[: MAX_UNKNOWN - len(self.unknown)]]

    def _visit_list(self, items: list[Json], node: Node | None, path: _Path) -> None:
        if node is not None and node.type == "array":
            element: Node | None = node.items
        elif node is not None and node.preserve_unknown:
            normal_numbers(items)
            return
        else:
            element = None
        for index, item in enumerate(items):
            if type(item) is dict or type(item) is list:
                self.visit(item, element, (path, f"[{index}]"))
            elif type(item) is float or type(item) is int:
                items[index] = normal_numbers(item)

    def _embedded(self, obj: JsonObject, path: _Path) -> None:
        for key in ("apiVersion", "kind"):
            if key in obj and type(obj[key]) is not str:
                raise ValueError(str(invalid(_written((path, key)), obj[key], "must be a string")))
        metadata = obj.get("metadata")
        if metadata is None:
            return
        as_sent = _by_name(metadata)
        try:
            if type(metadata) is not dict:
                raise TypeMismatch(json_type(metadata), "v1.ObjectMeta", stops=True)
            found = conformer(OBJECT_META)(metadata) or []
        except (TypeMismatch, ValueError) as error:
            raise ValueError(str(invalid(_written((path, "metadata")), as_sent, str(error)))) from None
        if found and len(self.in_metadata) < MAX_UNKNOWN:
            where = _written((path, "metadata"))
            self.in_metadata += [f"{where}.{unknown}" for unknown in found[: MAX_UNKNOWN - len(self.in_metadata)]]


def _by_name(value: Json) -> Json:
    """The same value with keys in the order in which Go prints those of a map."""
    if type(value) is dict:
        return {key: _by_name(value[key]) for key in sorted(value)}
    return [_by_name(item) for item in value] if type(value) is list else value


def _written(path: _Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(part)
    above = [part[:LONG_KEY] for part in reversed(parts[1:])]
    return ".".join([*above, *parts[:1]]).replace(".[", "[")
