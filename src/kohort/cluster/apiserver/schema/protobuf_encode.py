"""Objects of built-in kinds as protobuf, for clients that read nothing else.

The reverse of `protobuf`, from the same type data. As in Go, whatever is neither a pointer nor bytes is always sent:
empty texts, zeros, and messages without anything in them. Fields go in the order of their numbers, entries of maps in
that of their keys.
"""

import struct
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Final, TypeAlias

import msgspec

from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.builtin_types import FieldRecord, TypeExpression, record
from kohort.cluster.apiserver.schema.go_round_trip import SCHEMA_PROPS
from kohort.cluster.apiserver.schema.protobuf_decode import MAGIC
from kohort.cluster.apiserver.schema.protobuf_wire import FIXED64, LENGTH, VARINT
from kohort.objects.json_types import Json, JsonObject

_Write: TypeAlias = Callable[[Json], bytes]
"""One value, without its tag and length. None stands for the zero value of its type."""


def encode(document: JsonObject) -> bytes:
    """A whole answer: magic, the type of the object, the object. KeyError when it is of no built-in kind."""
    api_version, kind = document.get("apiVersion") or "", document.get("kind") or ""
    group, _, version = (api_version or "v1").rpartition("/")
    if group == "meta.k8s.io":
        version = "v1"  # v1beta1 is another name for the same types
    message = _struct(kind_node(group, version, kind).name)(document)
    type_meta = _sized(1, api_version.encode()) + _sized(2, kind.encode())
    return MAGIC + _sized(1, type_meta) + _sized(2, message) + _sized(3, b"") + _sized(4, b"")


def encode_event(type_: str, document: JsonObject) -> bytes:
    """One event of a watch, with its length before it."""
    event = _sized(1, type_.encode()) + _sized(2, _sized(1, encode(document)))
    return struct.pack(">I", len(event)) + event


def _number(value: int) -> bytes:
    """A number of variable length; negative ones as unsigned numbers of 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _sized(number: int, content: bytes) -> bytes:
    return _number(number << 3 | LENGTH) + _number(len(content)) + content


@cache
def _struct(type_name: str) -> _Write:
    """The writer of a struct type. Its fields are looked up at the first use: types refer to each other in circles."""
    parts: list[Callable[[JsonObject], bytes]] = []

    def write(value: Json) -> bytes:
        if not parts:
            parts.extend(_parts(type_name))
        obj = value or {}
        return b"".join([part(obj) for part in parts])

    return write


def _parts(type_name: str) -> list[Callable[[JsonObject], bytes]]:
    described = record(type_name)
    numbered = [(number, _inlined(number, inlined)) for inlined, number in described.inlined if number]
    numbered += [(field.number, _field(field)) for field in described.own_fields if field.number]
    return [part for _, part in sorted(numbered, key=lambda entry: entry[0])]


def _inlined(number: int, type_name: str) -> Callable[[JsonObject], bytes]:
    message = _struct(type_name)
    return lambda obj: _sized(number, message(obj))


def _field(field: FieldRecord) -> Callable[[JsonObject], bytes]:
    name, number, expression = field.name, field.number, field.type
    if expression.kind == "list":
        one = _tagged(number, expression.item)
        return lambda obj: b"".join([one(item) for item in obj.get(name) or ()])
    if expression.kind == "map":
        return _entries(name, number, expression.item)
    one = _tagged(number, expression)
    if expression.pointer or expression.word == "bytes":
        return lambda obj: one(obj[name]) if obj.get(name) is not None else b""
    return lambda obj: one(obj.get(name))


def _entries(name: str, number: int, element: TypeExpression) -> Callable[[JsonObject], bytes]:
    tagged = _tagged(2, element)

    def value(given: Json) -> bytes:
        return b"" if given is None and element.word == "bytes" else tagged(given)

    def write(obj: JsonObject) -> bytes:
        entries = obj.get(name) or {}
        return b"".join([_sized(number, _sized(1, key.encode()) + value(entries[key])) for key in sorted(entries)])

    return write


@cache
def _tagged(number: int, expression: TypeExpression) -> _Write:
    """A value with its tag and, where it has one, its length."""
    if expression.kind == "scalar" and expression.word in _NUMBERS:
        wire, write = _NUMBERS[expression.word]
        tag = _number(number << 3 | wire)
        return lambda value: tag + write(value)
    content = _content(expression)
    return lambda value: _sized(number, content(value))


def _content(expression: TypeExpression) -> _Write:
    match expression.kind:
        case "struct":
            return _struct(expression.word)
        case "wrapped-list":
            one = _tagged(1, expression.item)
            return lambda value: b"".join([one(item) for item in value or ()])
        case "scalar" if expression.word == "string":
            return lambda value: (value or "").encode()
        case "scalar":
            return lambda value: b64decode(value or "")
        case _:
            return _SPECIAL[expression.word]


def _whole(value: Json) -> bytes:
    return _number(int(value or 0))


_NUMBERS: Final[dict[str, tuple[int, _Write]]] = {
    "int32": (VARINT, _whole),
    "int64": (VARINT, _whole),
    "bool": (VARINT, _whole),
    "float64": (FIXED64, lambda value: struct.pack("<d", value or 0.0)),
}


def _moment(value: Json) -> bytes:
    if not value:
        return b""
    moment = datetime.fromisoformat(value).astimezone(UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return _number(1 << 3) + _number(seconds) + _number(2 << 3) + _number(moment.microsecond * 1000)


def _int_or_string(value: Json) -> bytes:
    text = isinstance(value, str)
    whole, written = (0, value.encode()) if text else (int(value or 0), b"")
    return _number(1 << 3) + _number(text) + _number(2 << 3) + _number(whole) + _sized(3, written)


def _embedded(value: Json) -> bytes:
    return _sized(1, msgspec.json.encode(value)) if value is not None else b""


def _schema_or_bool(value: Json) -> bytes:
    allows = _number(1 << 3) + _number(bool(value))
    return allows + _sized(2, _struct(SCHEMA_PROPS)(value)) if isinstance(value, dict) else allows


def _schema_or_list(value: Json) -> bytes:
    schema = _struct(SCHEMA_PROPS)
    if isinstance(value, dict):
        return _sized(1, schema(value))
    return b"".join([_sized(2, schema(item)) for item in value or ()])


def _schema_or_strings(value: Json) -> bytes:
    if isinstance(value, dict):
        return _sized(1, _struct(SCHEMA_PROPS)(value))
    return b"".join([_sized(2, item.encode()) for item in value or ()])


_SPECIAL: Final[dict[str, _Write]] = {
    "time": _moment,
    "microtime": _moment,
    "quantity": lambda value: _sized(1, str(value or "0").encode()),
    "intstr": _int_or_string,
    "raw": _embedded,
    "json": _embedded,
    "fieldsv1": _embedded,
    "orbool": _schema_or_bool,
    "orarray": _schema_or_list,
    "orstrings": _schema_or_strings,
}
