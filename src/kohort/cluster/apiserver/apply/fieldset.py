"""Sets of field paths, in the very form in which `managedFields` stores them.

A set is a tree of dictionaries. Keys are path elements as FieldsV1 writes them: `f:spec` a field, `k:{"name":"c"}` an
item of a keyed list, `v:"x"` a member of a set, `i:0` an index. A path belongs to the set when its node is empty or has
a `.` in it:

    {"f:data": {".": {}, "f:x": {}}}      data and data.x belong to it
    {"f:data": {"f:x": {}}}               only data.x does

So decoding and encoding cost nothing: what was parsed with the object is the set. The price is that every function
here must know that an empty node below the root is a member, while the empty root is the empty set. Sets are never
changed; results share nodes with their inputs, and an operation that changes nothing returns its input itself, which
callers use to see whether something changed.

Canonical form, kept by all functions: no node is `{".": {}}` alone (that is `{}`), and keys are written as Kubernetes
writes them (key fields sorted, no spaces), so that equal sets are equal dictionaries.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from kohort.cluster.apiserver.patch.go_error_text import go_float, go_json
from kohort.objects.bounded_cache import remember_short
from kohort.objects.go_quote import go_quote
from kohort.objects.json_types import Json

FieldSet: TypeAlias = dict[str, "FieldSet"]
Path: TypeAlias = tuple[str, ...]

SELF: Final = "."
EMPTY: Final[FieldSet] = {}


class MalformedSet(ValueError):
    """A set that came from outside and cannot be read."""


def field(name: str) -> str:
    return "f:" + name


def member(value: Json) -> str:
    """The element of a set-like list that has this value."""
    return "v:" + json_text(value)


def item(keys: Sequence[tuple[str, Json]]) -> str:
    """The element of a keyed list with these key fields, which must be sorted by name."""
    return "k:{" + ",".join([f"{json_text(name)}:{json_text(value)}" for name, value in keys]) + "}"


def json_text(value: Json) -> str:
    """JSON as Go writes it: characters with a meaning in HTML are escaped, whole floats have no point."""
    if value.__class__ is str:
        return _quoted(value)
    return go_float(value) if isinstance(value, float) else go_json(value)


@remember_short(4096)
def _quoted(text: str) -> str:
    """Names of containers and ports come again and again."""
    return go_json(text)


def from_paths(*paths: Path) -> FieldSet:
    """A set of plain field names: `from_paths(("metadata", "name"))`."""
    root: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path):
            node = {field(name): node}
        root = union(root, node)
    return root


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or left is right:
        return right
    if not right:
        return left
    return _joined(left, right)


def _union_below(left: FieldSet, right: FieldSet) -> FieldSet:
    if not right:
        return _with_self(left)
    if not left:
        return _with_self(right)
    return left if left is right else _joined(left, right)


def _joined(left: FieldSet, right: FieldSet) -> FieldSet:
    result = left
    for key, node in right.items():
        known = left.get(key)
        joined = node if known is None else _union_below(known, node)
        if joined is not known:
            if result is left:
                result = dict(left)
            result[key] = joined
    return result


def _with_self(node: FieldSet) -> FieldSet:
    return node if not node or SELF in node else {SELF: EMPTY, **node}


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """What belongs to `left` but not to `right`. Paths below a member of `right` stay."""
    return _rest(left, right, deep=False) or EMPTY


def without(left: FieldSet, right: FieldSet) -> FieldSet:
    """What of `left` is neither a member of `right` nor below one."""
    return _rest(left, right, deep=True) or EMPTY


def _rest(left: FieldSet, right: FieldSet, *, deep: bool) -> FieldSet | None:
    """`left` less the paths below this level; None when nothing is left."""
    result = left
    for key, node in right.items():
        known = left.get(key)
        if known is None:
            continue
        kept = _rest_below(known, node, deep=deep) if key != SELF else None
        if kept is known:
            continue
        if result is left:
            result = dict(left)
        if kept is None:
            del result[key]
        else:
            result[key] = kept
    if result is left:
        return left
    return _canonical(result)


def _rest_below(left: FieldSet, right: FieldSet, *, deep: bool) -> FieldSet | None:
    right_member = not right or SELF in right
    if right_member and (deep or not left):
        return None
    if not left:
        return left
    if not right:
        return _rest(left, {SELF: EMPTY}, deep=deep)
    return _rest(left, right, deep=deep)


def _canonical(node: FieldSet) -> FieldSet | None:
    if not node:
        return None
    return EMPTY if len(node) == 1 and SELF in node else node


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """What belongs to both."""
    result: FieldSet = {}
    for key, node in right.items():
        known = left.get(key)
        if known is not None:
            common = _common_below(known, node)
            if common is not None:
                result[key] = common
    return result


def _common_below(left: FieldSet, right: FieldSet) -> FieldSet | None:
    if not left:
        return EMPTY if not right or SELF in right else None
    if not right:
        return EMPTY if SELF in left else None
    return _canonical(intersection(left, right))


def contains(tree: FieldSet, path: Path) -> bool:
    node = tree
    for element in path:
        found = node.get(element)
        if found is None:
            return False
        node = found
    return bool(path) and (not node or SELF in node)


def paths(tree: FieldSet) -> Iterator[Path]:
    """All members; those of one level before those below it, each in the order of the API."""
    elements = sorted((key for key in tree if key != SELF), key=_rank)
    for element in elements:
        node = tree[element]
        if not node or SELF in node:
            yield (element,)
    for element in elements:
        for tail in paths(tree[element]):
            yield (element, *tail)


def in_wire_order(tree: FieldSet) -> FieldSet:
    """The same set, its elements in the order in which the API writes them. Clients with typed objects keep these bytes
    as they are, so the order is visible to a client that compares them with an object that was decoded and encoded
    again."""
    if not tree:
        return tree
    fields = sorted(key for key in tree if key[0] == "f" or key == SELF)
    others = [key for key in tree if key[0] != "f" and key != SELF]
    if len(others) > 1:
        others.sort(key=_rank)
    return {key: in_wire_order(tree[key]) for key in (*fields, *others)}


def text(path: Path) -> str:
    """A path as people read it: `.spec.containers[name="c"].image`."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    kind, body = element[0], element[2:]
    if kind == "f":
        return "." + body
    if kind == "i":
        return f"[{body}]"
    value = msgspec.json.decode(body)
    if kind == "v":
        return f"[={_value_text(value)}]"
    return "[" + ",".join(f"{name}={_value_text(value[name])}" for name in sorted(value)) + "]"


def _value_text(value: Json) -> str:
    return go_quote(value) if isinstance(value, str) else json_text(value)


_KINDS: Final = "fkvi"


def _rank(element: str) -> tuple[int, list[tuple[str, int, float, str]]]:
    """Fields first, then items by their keys, then members of sets by value, then indices."""
    kind, body = element[0], element[2:]
    if kind == "f":
        return 0, [(body, 0, 0, "")]
    value = msgspec.json.decode(body)
    if kind == "k":
        return 1, [(name, *_value_rank(value[name])) for name in sorted(value)]
    return _KINDS.index(kind), [("", *_value_rank(value))]


def _value_rank(value: Json) -> tuple[int, float, str]:
    if isinstance(value, bool):
        return 2, int(value), ""
    if isinstance(value, int | float):
        return 0, value, ""
    return (1, 0, value) if isinstance(value, str) else (3, 0, json_text(value))


def decode(encoded: Json) -> FieldSet:
    """A set that a client wrote: normalised, elements of unknown kinds dropped. Raises MalformedSet."""
    if not isinstance(encoded, dict):
        raise MalformedSet("a set of fields must be an object")
    return {key: node for key, node in _decoded(encoded).items() if key != SELF}


def _decoded(encoded: Json) -> FieldSet:
    if not isinstance(encoded, dict):
        raise MalformedSet("a set of fields must be an object")
    result: FieldSet = {}
    for key, value in encoded.items():
        if key == SELF:
            result[SELF] = EMPTY
            continue
        element = _normal_element(key)
        if element is not None:
            node = _decoded(value)
            result[element] = _union_below(result[element], node) if element in result else node
    return EMPTY if SELF in result and len(result) == 1 else result


def _normal_element(key: str) -> str | None:
    """A path element as we write it; None for a kind that we do not know."""
    if len(key) < 2 or key[1] != ":":
        raise MalformedSet(f"{key!r} is not a path element")
    kind, body = key[0], key[2:]
    if kind == "f":
        return key
    if kind not in _KINDS:
        return None
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise MalformedSet(f"{key!r} is not a path element: {error}") from error
    if kind == "v":
        return member(value)
    if kind == "k":
        if not isinstance(value, dict):
            raise MalformedSet(f"{key!r} is not a path element")
        return item(sorted(value.items()))
    if not isinstance(value, int):
        raise MalformedSet(f"{key!r} is not a path element")
    return f"i:{value}"
