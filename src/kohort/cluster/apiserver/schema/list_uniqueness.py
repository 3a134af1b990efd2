"""Lists of custom resources that must not repeat themselves, and resources embedded in them."""

from typing import Final

import msgspec

from kohort.cluster.apiserver.schema.metadata_rules import embedded_errors as metadata_errors
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects import names
from kohort.objects.field_errors import FieldError, duplicate, invalid, required
from kohort.objects.json_types import Json, JsonObject

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def shape_errors(obj: JsonObject, node: Node) -> list[FieldError]:
    """Embedded resources that are none, then repeated items of sets and of lists that are maps."""
    walk = _Walk()
    walk.visit(obj, node, "")
    return walk.embedded + walk.repeated


def list_errors(value: Json, node: Node, path: str) -> list[FieldError]:
    """Repeated items of sets, and items with the same keys in lists that are maps, in a value anywhere in a schema."""
    walk = _Walk()
    walk.visit(value, node, path)
    return walk.repeated


def embedded_errors(value: Json, node: Node, path: str) -> list[FieldError]:
    """What is wrong with the apiVersion, kind and metadata of embedded resources in a value anywhere in a schema."""
    walk = _Walk()
    walk.visit(value, node, path)
    return walk.embedded


class _Walk:
    """Visits the objects and lists whose schema is known."""

    def __init__(self) -> None:
        self.embedded: list[FieldError] = []
        self.repeated: list[FieldError] = []

    def visit(self, value: Json, node: Node, path: str) -> None:
        if type(value) is dict:
            self._visit_object(value, node, path)
        elif type(value) is list:
            self._visit_list(value, node, path)

    def _visit_object(self, obj: JsonObject, node: Node, path: str) -> None:
        if node.name:
            return
        if node.embedded and path:
            self.embedded += _resource_errors(obj, path)
        is_map = node.type == "map"
        every = node.items if is_map else None
        fields = node.fields
        for key, value in obj.items():
            kind = type(value)
            if kind is dict or kind is list:
                child = fields.get(key, every)
                if child is not None:
                    below = f"{path}[{key}]" if is_map else f"{path}.{key}" if path else key
                    if kind is dict:
                        self._visit_object(value, child, below)
                    else:
                        self._visit_list(value, child, below)

    def _visit_list(self, items: list[Json], node: Node, path: str) -> None:
        if node.list_type != "atomic":
            self.repeated += _repeated(items, items, path) if node.list_type == "set" else _same_keys(items, node, path)
        if node.type != "array":
            return
        element = node.items
        if element.type not in _CONTAINERS:
            return
        for index, item in enumerate(items):
            self.visit(item, element, f"{path}[{index}]")


_CONTAINERS: Final = frozenset({"object", "map", "array", "any"})


def _repeated(items: list[Json], shown: list[Json], path: str) -> list[FieldError]:
    """An error at the second occurrence of an item; further ones are not reported again."""
    if len(items) < 2:
        return []
    counts: dict[bytes, int] = {}
    errors = []
    for index, item in enumerate(items):
        text = _ENCODER.encode(item)
        counts[text] = counts.get(text, 0) + 1
        if counts[text] == 2:
            errors.append(duplicate(f"{path}[{index}]", shown[index]))
    return errors


def _same_keys(items: list[Json], node: Node, path: str) -> list[FieldError]:
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    names_of_keys = sorted(node.list_keys)
    keys = [{key: item[key] for key in names_of_keys if key in item} if item else {} for item in items]
    return _repeated(keys, keys, path)


def _resource_errors(obj: JsonObject, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{key}") for key in ("apiVersion", "kind") if key not in obj]
    if "apiVersion" in obj:
        errors += _api_version_errors(obj["apiVersion"], f"{path}.apiVersion")
    if "kind" in obj:
        errors += _kind_errors(obj["kind"], f"{path}.kind")
    metadata = obj.get("metadata")
    if metadata:
        errors += metadata_errors(metadata, f"{path}.metadata")
    return errors


def _api_version_errors(value: str, path: str) -> list[FieldError]:
    if not value:
        return [invalid(path, value, "must not be empty")]
    if value.count("/") > 1:
        return [invalid(path, value, f"unexpected GroupVersion string: {value}")]
    return []


def _kind_errors(value: str, path: str) -> list[FieldError]:
    if not value:
        return [invalid(path, value, "must not be empty")]
    messages = names.dns1035_label(value.lower())
    if messages:
        return [invalid(path, value, "may have mixed case, but should otherwise match: " + ",".join(messages))]
    return []
