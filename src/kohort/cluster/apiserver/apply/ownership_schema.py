"""How the fields of an object are owned, according to its schema.

| kind     | what it is                              | owned as |
|----------|-----------------------------------------|----------|
| leaf     | scalars; lists and maps that are atomic | one path |
| map      | structs and maps                        | each entry |
| items    | lists with keys (`k:{"name":"c"}`)      | each item, and its fields |
| members  | set-like lists of scalars (`v:"x"`)     | each value |

Without a schema (`any`, preserve-unknown-fields) maps are maps and lists are leaves. Key fields that an item leaves out
take their schema default (a port's protocol), those of built-in types without one their empty value (a container's
name), so that validation can say what is missing.
"""

from functools import lru_cache
from typing import Final

from kohort.cluster.apiserver.apply.fieldset import EMPTY, SELF, FieldSet, item, member
from kohort.cluster.apiserver.schema.builtin import OBJECT_META, type_node
from kohort.cluster.apiserver.schema.node import ANY, MISSING, Node
from kohort.objects.json_types import Json

_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
_LOCAL_REFERENCE: Final = "io.k8s.api.core.v1.LocalObjectReference"
"""Its name may be left out, and is declared to be empty then."""
_EMPTY: Final[dict[str, Json]] = {"string": "", "integer": 0}


class TypedError(Exception):
    """An object that does not fit its schema so badly that its fields cannot be named."""


def with_metadata(node: Node) -> Node:
    """A root node whose metadata has a schema, which definitions of custom resources leave to the server."""
    if node.name:
        return node
    metadata = node.fields.get("metadata")
    if metadata is not None and metadata.name == OBJECT_META:
        return node
    word = Node("string")
    fields = {**node.fields, "apiVersion": word, "kind": word, "metadata": type_node(OBJECT_META)}
    return Node("object", fields=fields, preserve_unknown=node.preserve_unknown)


@lru_cache(maxsize=16384)
def is_leaf(node: Node) -> bool:
    """Whether every value of the field is owned as one."""
    kind = node.type
    if kind in _SCALARS or node.atomic:
        return True
    if kind == "array":
        return node.list_type == "atomic"
    return kind == "any" and bool(node.format)


def entry_node(node: Node, key: str) -> Node:
    """The node of a map's entry; ANY where the schema says nothing."""
    return node.items if node.type == "map" else node.fields.get(key, ANY)


def elements(items: list[Json], node: Node) -> list[str]:
    """The path elements of the items of an associative list."""
    if node.list_type == "set":
        return [_member(value) for value in items]
    keys = node.list_keys
    if len(keys) == 1:
        return _by_single_key(items, keys[0], node)
    return [_by_keys(entry, node) for entry in items]


def _by_single_key(items: list[Json], key: str, node: Node) -> list[str]:
    try:
        values = [entry[key] for entry in items]
    except (KeyError, TypeError):
        values = []
    if len(values) == len(items) and _ONLY_TEXT.issuperset(map(type, values)):
        return [_keyed(key, value) for value in values]
    return [_by_keys(entry, node) for entry in items]


_ONLY_TEXT: Final = frozenset({str})


@lru_cache(maxsize=16384)
def _keyed(key: str, value: str) -> str:
    """Names of containers and types of conditions come again and again."""
    return item([(key, value)])


def _by_keys(entry: Json, node: Node) -> str:
    if entry is None:
        raise TypedError("associative list with keys may not have a null element")
    if not isinstance(entry, dict):
        raise TypedError("associative list with keys may not have non-map elements")
    keys: list[tuple[str, Json]] = []
    for key in node.list_keys:
        if key in entry:
            keys.append((key, entry[key]))
        elif (default := _key_default(node, key)) is not None:
            keys.append((key, default))
    if not keys:
        names = "[" + " ".join(f'"{key}"' for key in node.list_keys) + "]"
        raise TypedError(
            f"associative list with keys has an element that omits all key fields {names} "
            "(and doesn't have default values for any key fields)"
        )
    keys.sort(key=lambda pair: pair[0])
    return item(keys)


def _key_default(node: Node, key: str) -> Json:
    """What a key is when an item leaves it out. In built-in types what must be there is never absent, only empty."""
    field = node.items.fields.get(key)
    if field is None:
        return None
    if field.default is not MISSING:
        return field.default
    named = node.items.name and (key in node.items.required or node.items.name == _LOCAL_REFERENCE)
    return _EMPTY.get(field.type) if named else None


def _member(value: Json) -> str:
    if isinstance(value, dict):
        raise TypedError("associative list without keys has an element that's a map type")
    if isinstance(value, list):
        raise TypedError("not supported: associative list with lists as elements")
    if value is None:
        raise TypedError("associative list without keys has an element that's an explicit null")
    return member(value)


def repeated(names: list[str]) -> set[str]:
    seen: set[str] = set()
    twice: set[str] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return twice


def with_named_fields(tree: FieldSet, node: Node | None) -> FieldSet:
    """The set, with every declared field that something below it belongs to."""
    declared = node.fields if node is not None and node.type == "object" else {}
    result: FieldSet = {}
    for element, below in tree.items():
        if not below:
            result[element] = below
            continue
        child = _element_child(node, element)
        fuller = with_named_fields(below, child)
        if element[0] == "f" and element[2:] in declared and SELF not in fuller:
            fuller = {SELF: EMPTY, **fuller}
        result[element] = fuller
    return result


def _element_child(node: Node | None, element: str) -> Node | None:
    if node is None:
        return None
    if element[0] == "f":
        return node.items if node.type == "map" else node.fields.get(element[2:])
    return node.items if element[0] == "k" and node.type == "array" else None


def reconciled(tree: FieldSet, node: Node) -> FieldSet:
    """The set as it reads under the present schema: what lies below a field that became atomic is owned as one."""
    result = tree
    for element, below in tree.items():
        child = _element_child(node, element)
        if not below or child is None:
            continue
        now = EMPTY if child.type != "any" and is_leaf(child) else reconciled(below, child)
        if now is not below:
            if result is tree:
                result = dict(tree)
            result[element] = now
    return result
