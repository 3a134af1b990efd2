"""The built-in types as they are written down in `data/builtin.json`: names, numbers and types of fields.

The file is made by `tools/schemas` (its README explains the format). It is read when the first type is asked for, and
each type is decoded when it is visited: a server that never sees a CSIDriver never decodes one.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from kohort.objects.json_types import Json

TypeKind = Literal["struct", "list", "wrapped-list", "map", "scalar", "special"]
"""`wrapped-list` is a list that is a message of its own in protobuf; `special` types have a JSON form of their own."""

SCALARS: Final = frozenset({"string", "bool", "int32", "int64", "float64", "bytes"})
ZEROS: Final[dict[str, Json]] = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}
"""What Go writes for a scalar that has no value and is not left out."""


class TypeExpression(msgspec.Struct, frozen=True):
    """The type of a field."""

    kind: TypeKind
    word: str
    """The scalar, the special word or the name of the struct; empty for lists and maps."""
    pointer: bool
    element: "TypeExpression | None"
    go_type: str
    """How Go prints this type in the message of a decoding error."""

    @property
    def item(self) -> "TypeExpression":
        assert self.element is not None
        return self.element


class FieldRecord(msgspec.Struct, frozen=True):
    name: str
    type: TypeExpression
    omit_empty: bool
    """Not serialised when false, 0, "", an empty list or map, or a nil pointer. Structs are always serialised."""
    omit_zero: bool
    """Not serialised when the zero value of its type, structs included."""
    number: int
    """The protobuf field number; 0 where protobuf does not carry the field."""
    strategy: tuple[str, ...] = ()
    merge_key: str = ""
    list_type: Literal["atomic", "set", "map"] = "atomic"
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    enum: tuple[Json, ...] = ()
    default: Json = None
    """A default with a meaning, never one that only mirrors a zero value."""


class Record(msgspec.Struct, frozen=True):
    """A struct type. `fields` are in the order of the JSON that Go writes, those of inlined structs included."""

    name: str
    go_type: str
    fields: tuple[FieldRecord, ...]
    own_fields: tuple[FieldRecord, ...]
    """Without those of inlined structs, which are messages of their own in protobuf."""
    inlined: tuple[tuple[str, int], ...]
    """Inlined struct types with their protobuf field numbers."""
    required: frozenset[str]
    atomic: bool
    kinds: tuple[dict[str, str], ...]


class _RawExtras(msgspec.Struct):
    s: list[str] = []
    m: str = ""
    l: Literal["atomic", "set", "map"] = "atomic"  # noqa: E741
    k: list[str] = []
    t: str = ""
    e: list[Json] = []
    d: Json = None


class _RawRecord(msgspec.Struct):
    g: str
    f: list[list[Json]]
    i: list[tuple[str, int, int]] = []
    r: list[str] = []
    a: bool = False
    k: list[dict[str, str]] = []


class _File(msgspec.Struct):
    kinds: dict[str, str]
    types: dict[str, msgspec.Raw]


def _data() -> bytes:
    return Path(__file__).with_name("data").joinpath("builtin.json").read_bytes()


@cache
def _file() -> _File:
    return msgspec.json.decode(_data(), type=_File)


@cache
def data_digest() -> bytes:
    """A hash of the whole file: what is derived from it changes with it."""
    return hashlib.sha256(_data()).digest()


def type_name(group: str, version: str, kind: str) -> str | None:
    """The full name of the type of a kind, None when there is no such built-in kind."""
    return _file().kinds.get(f"{group}/{version}/{kind}")


def kinds() -> list[tuple[str, str, str, str]]:
    """Group, version, kind and type name of everything that is known."""
    found = []
    for key, name in _file().kinds.items():
        group, version, kind = key.split("/", 2)
        found.append((group, version, kind, name))
    return found


def has_type(name: str) -> bool:
    return name in _file().types


@cache
def record(name: str) -> Record:
    raw = msgspec.json.decode(_file().types[name], type=_RawRecord)
    own = [_field(entry) for entry in raw.f]
    fields: list[FieldRecord] = []
    inlined: list[tuple[str, int]] = []
    start = 0
    for inline_name, number, position in raw.i:
        fields += own[start:position]
        fields += record(inline_name).fields
        inlined.append((inline_name, number))
        start = position
    fields += own[start:]
    return Record(name, raw.g, tuple(fields), tuple(own), tuple(inlined), frozenset(raw.r), raw.a, tuple(raw.k))


def _field(entry: list[Json]) -> FieldRecord:
    extras = msgspec.convert(entry[4], _RawExtras) if len(entry) > 4 else _NO_EXTRAS
    return FieldRecord(
        name=entry[0],
        type=expression(entry[1]),
        omit_empty=bool(entry[2] & 1),
        omit_zero=bool(entry[2] & 2),
        number=entry[3],
        strategy=tuple(extras.s),
        merge_key=extras.m,
        list_type=extras.l,
        list_keys=tuple(extras.k),
        map_type=extras.t,
        enum=tuple(extras.e),
        default=extras.d,
    )


_NO_EXTRAS: Final = _RawExtras()

_SPECIAL_GO_TYPES: Final = {
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "duration": "v1.Duration",
    "quantity": "resource.Quantity",
    "intstr": "intstr.IntOrString",
    "raw": "runtime.RawExtension",
    "fieldsv1": "v1.FieldsV1",
    "json": "v1.JSON",
    "orbool": "v1.JSONSchemaPropsOrBool",
    "orarray": "v1.JSONSchemaPropsOrArray",
    "orstrings": "v1.JSONSchemaPropsOrStringArray",
    "any": "interface {}",
}


_COLLECTIONS: Final[dict[str, tuple[TypeKind, str]]] = {
    "[": ("list", "[]"),
    "(": ("wrapped-list", "[]"),
    "{": ("map", "map[string]"),
}


@cache
def expression(text: str) -> TypeExpression:
    """Parse the notation for types: `*int32`, `[io.k8s.api.core.v1.Container]`, `{quantity}=v1.ResourceList`."""
    pointer = text.startswith("*")
    body = text[1:] if pointer else text
    if body[0] in _COLLECTIONS:
        return _collection(body, pointer)
    word, _, go_type = body.partition("=")
    if word in SCALARS:
        return TypeExpression("scalar", word, pointer, None, go_type or ("[]uint8" if word == "bytes" else word))
    if word in _SPECIAL_GO_TYPES:
        return TypeExpression("special", word, pointer, None, _SPECIAL_GO_TYPES[word])
    return TypeExpression("struct", word, pointer, None, ".".join(word.split(".")[-2:]))


def _collection(body: str, pointer: bool) -> TypeExpression:
    end = _closing_bracket(body)
    element = expression(body[1:end])
    kind, go_prefix = _COLLECTIONS[body[0]]
    go_element = f"*{element.go_type}" if element.pointer else element.go_type
    return TypeExpression(kind, "", pointer, element, body[end + 2 :] or go_prefix + go_element)


def _closing_bracket(text: str) -> int:
    depth = 0
    for position, character in enumerate(text):
        if character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
            if depth == 0:
                return position
    raise ValueError(f"no closing bracket in {text}")
