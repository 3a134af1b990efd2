"""Lists of custom resources that must not repeat themselves, and resources embedded in them."""

from collections.abc import Iterator
from typing import Final

import msgspec

from kohort.cluster.apiserver.schema.node import Node
from kohort.objects import names
from kohort.objects.fielderrors import FieldError, duplicate, invalid, required
from kohort.objects.jsontypes import Json, JsonObject

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def list_errors(value: Json, node: Node, path: str) -> list[FieldError]:
    """Repeated items of sets, and items with the same keys in lists that are maps."""
    errors: list[FieldError] = []
    if type(value) is list:
        if node.list_type == "set":
            errors += _repeated(value, value, path)
        elif node.list_type == "map":
            errors += _repeated_keys(value, node, path)
    for child, child_node, child_path in _children(value, node, path):
        errors += list_errors(child, child_node, child_path)
    return errors


def embedded_errors(value: Json, node: Node, path: str) -> list[FieldError]:
    """What is wrong with the apiVersion, kind and metadata of embedded resources."""
    errors = _resource_errors(value, path) if node.embedded and type(value) is dict and path else []
    for child, child_node, child_path in _children(value, node, path):
        errors += embedded_errors(child, child_node, child_path)
    return errors


def _children(value: Json, node: Node, path: str) -> Iterator[tuple[Json, Node, str]]:
    """The objects and lists below a value whose schema is known."""
    if type(value) is dict:
        if node.name:
            return
        every = node.items if node.type == "map" else None
        for key, child in value.items():
            if type(child) is dict or type(child) is list:
                child_node = node.fields.get(key, every)
                if child_node is not None:
                    yield child, child_node, f"{path}[{key}]" if every is not None else _dotted(path, key)
    elif type(value) is list and node.type == "array":
        for index, child in enumerate(value):
            if type(child) is dict or type(child) is list:
                yield child, node.items, f"{path}[{index}]"


def _dotted(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _repeated(items: list[Json], shown: list[Json], path: str) -> list[FieldError]:
    """An error at the second occurrence of an item; further ones are not reported again."""
    counts: dict[bytes, int] = {}
    errors = []
    for index, item in enumerate(items):
        text = _ENCODER.encode(item)
        counts[text] = counts.get(text, 0) + 1
        if counts[text] == 2:
            errors.append(duplicate(f"{path}[{index}]", shown[index]))
    return errors


def _repeated_keys(items: list[Json], node: Node, path: str) -> list[FieldError]:
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    keys = [{key: item[key] for key in node.list_keys if key in item} if item else {} for item in items]
    return _repeated(keys, keys, path)


def _resource_errors(obj: JsonObject, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{key}") for key in ("apiVersion", "kind") if key not in obj]
    if "apiVersion" in obj:
        errors += _api_version_errors(obj["apiVersion"], f"{path}.apiVersion")
    if "kind" in obj:
        errors += _kind_errors(obj["kind"], f"{path}.kind")
    name = (obj.get("metadata") or {}).get("name")
    if name:
        errors += [invalid(f"{path}.metadata.name", name, message) for message in names.path_segment(name)]
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
