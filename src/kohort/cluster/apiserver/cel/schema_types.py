"""A schema as a type, and JSON under that schema as values of the type.

What an expression sees of an object are its declared fields, under names made fit for the language; data that the
schema says nothing about cannot be reached. Raw JSON is wrapped only where it must be: a path such as `self.spec.size`
runs over plain dictionaries, and only what ends up as an operand is turned into a value (see `program`).
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping

from kohort.cluster.apiserver.cel import types as t
from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.parser import RESERVED
from kohort.cluster.apiserver.cel.times import parse_date, parse_loose_duration, parse_timestamp
from kohort.cluster.apiserver.cel.types import ObjectType, Type
from kohort.cluster.apiserver.cel.values import NONE, Optional, WrappedList, WrappedMap, map_key, no_overload
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.json_types import Json

Wrap = Callable[[Json], Json]

_SPECIAL = re.compile(r"__|[-./]")
_ESCAPABLE = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
_SEQUENCES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_WORDS = RESERVED | {"true", "false", "null", "in"}


def escaped(name: str) -> str | None:
    """A property name as an identifier; None when it cannot be one."""
    if name in _WORDS:
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return None
    return _SPECIAL.sub(lambda hit: _SEQUENCES[hit.group()], name)


class SchemaObject(ObjectType):
    """An object with declared properties. Types of fields are made when asked for; schemas are large."""

    __slots__ = ("_nodes", "_types", "identifiers", "raw_names")

    def __init__(self, name: str, nodes: Mapping[str, Node]) -> None:
        super().__init__("object", name)
        self.raw_names: dict[str, str] = {}
        """The property behind each identifier. Reserved words are not identifiers, but may follow a dot as they are."""
        for raw in nodes:
            identifier = escaped(raw)
            if identifier is not None:
                self.raw_names[identifier] = raw
        self.identifiers = tuple(self.raw_names)
        self.raw_names.update((raw, raw) for raw in nodes if raw in RESERVED)
        self._nodes = nodes
        self._types: dict[str, Type | None] = {}

    def field(self, name: str) -> Type | None:
        if name not in self._types:
            raw = self.raw_names.get(name)
            self._types[name] = None if raw is None else schema_type(self._nodes[raw], f"{self.name}.{name}")
        return self._types[name]


class SchemaList(Type):
    __slots__ = ("list_keys", "list_kind")

    def __init__(self, element: Type, list_kind: str, list_keys: tuple[str, ...]) -> None:
        super().__init__("list", "list", (element,))
        self.list_kind = list_kind
        self.list_keys = list_keys

    def with_params(self, params: tuple[Type, ...]) -> Type:
        return SchemaList(params[0], self.list_kind, self.list_keys)


_STRINGS = {
    "byte": t.BYTES,
    "duration": t.DURATION,
    "date": Type("timestamp", "timestamp"),
    "date-time": t.TIMESTAMP,
    "datetime": t.TIMESTAMP,
}
DATE = _STRINGS["date"]
"""A timestamp that is written as a day."""

_SCALARS = {"integer": t.INT, "number": t.DOUBLE, "boolean": t.BOOL}
_NAME = Node("string")
_ROOT_FIELDS = {
    "apiVersion": _NAME,
    "kind": _NAME,
    "metadata": Node("object", fields={"name": _NAME, "generateName": _NAME}),
}


def schema_type(node: Node, name: str = "self", *, root: bool = False) -> Type | None:
    """The type of values under `node`; None when expressions cannot see them.

    `root` is for the root of a resource, whose kind, apiVersion and names are always declared.
    """
    match node.type:
        case "any":
            return t.DYN if node.format == "int-or-string" else None
        case "string":
            return _STRINGS.get(node.format, t.STRING)
        case "array":
            element = schema_type(node.items, f"{name}.@idx")
            return SchemaList(element, node.list_type, node.list_keys) if element else None
        case "map":
            value = schema_type(node.items, f"{name}.@elem")
            return t.map_of(t.STRING, value) if value else None
        case "object":
            fields = node.fields
            return SchemaObject(name, {**fields, **_ROOT_FIELDS} if root or node.embedded else fields)
        case _:
            return _SCALARS[node.type]


# -- values


class WrappedObject(WrappedMap):
    """An object: undeclared fields are hidden, a null field is an absent one."""

    __slots__ = ("type",)

    def __init__(self, raw: Mapping[str, Json], type: SchemaObject) -> None:
        super().__init__(raw)
        self.type = type

    def find(self, name: Json) -> Optional:
        if not isinstance(name, str):
            raise no_overload()
        raw_name = self.type.raw_names.get(name)
        value = None if raw_name is None else self.raw.get(raw_name)
        if value is None:
            return NONE
        field = self.type.field(name)
        if field is None:
            # Not visible to expressions, but part of the object when two are compared.
            return Optional(value)
        wrap = wrapper(field)
        return Optional(wrap(value) if wrap else value)

    def keys(self) -> Iterator[str]:
        names = self.type.raw_names
        return (name for name in self.type.identifiers if self.raw.get(names[name]) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self.keys())


class WrappedValues(WrappedMap):
    """A map whose values need wrapping."""

    __slots__ = ("wrap",)

    def __init__(self, raw: Mapping[str, Json], wrap: Wrap) -> None:
        super().__init__(raw)
        self.wrap = wrap

    def find(self, name: Json) -> Optional:
        key = map_key(name)
        return Optional(self.wrap(self.raw[key])) if key in self.raw else NONE

    def keys(self) -> Iterator[str]:
        return iter(self.raw)


def wrapper(type: Type) -> Wrap | None:
    """How raw JSON of a type becomes a value; None when it already is one."""
    if isinstance(type, SchemaObject):
        return lambda raw: None if raw is None else WrappedObject(raw, type)
    if isinstance(type, SchemaList):
        element, kind, keys = wrapper(type.params[0]), type.list_kind, type.list_keys
        if element is None and kind == "atomic":
            return None
        return lambda raw: None if raw is None else WrappedList(raw, element, kind, keys)
    if type.kind == "map":
        value = wrapper(type.params[1])
        return None if value is None else lambda raw: None if raw is None else WrappedValues(raw, value)
    if type is DATE:
        return _as_date
    return _SCALAR_WRAPS.get(type.kind)


def _as_double(raw: Json) -> Json:
    return None if raw is None else float(raw)


def _as_timestamp(raw: Json) -> Json:
    return None if raw is None else _parsed(raw, parse_timestamp, "date-time formatted string")


def _as_date(raw: Json) -> Json:
    return None if raw is None else _parsed(raw, parse_date, "date formatted string")


def _as_duration(raw: Json) -> Json:
    return None if raw is None else _parsed(raw, parse_loose_duration, "duration")


def _as_bytes(raw: Json) -> Json:
    if raw is None:
        return None
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        raise CelError(f"Invalid byte formatted string {raw}") from None


def _parsed(raw: str, parse: Callable[[str], Json], what: str) -> Json:
    try:
        return parse(raw)
    except ValueError as error:
        raise CelError(f"Invalid {what} {raw}: {error}") from None


_SCALAR_WRAPS: dict[str, Wrap] = {
    "double": _as_double,
    "timestamp": _as_timestamp,
    "duration": _as_duration,
    "bytes": _as_bytes,
}
