"""Protobuf bodies of built-in kinds, decoded into the same objects that their JSON would give.

Typed clients send protobuf and do not fall back to JSON when a server refuses it. The messages are described by the
field numbers in the type data; every type is compiled once into a closure that reads its message. What is not obvious:

| on the wire | in the object |
|-------------|---------------|
| zero scalar of a field that is not a pointer (always sent) | absent |
| zero scalar of a pointer field | kept: `replicas: 0`, `storageClassName: ""` |
| empty message of a struct that is not a pointer | absent |
| empty message of a pointer | `{}` |
| message of an inlined struct | its fields, in the parent |
| Quantity {1 text}, IntOrString {1 type, 2 int, 3 text}, Time {1 seconds, 2 nanos} | their JSON form |
| RawExtension, FieldsV1, JSON {1 bytes} | the JSON in those bytes |
| map entry {1 key, 2 value} | one key; a missing value is the zero value |
| unknown field number | ignored: the client is newer |
"""

import struct
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

import msgspec

from kohort.cluster.apiserver.schema import document_limits, protobuf_values
from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.builtin_types import FieldRecord, TypeExpression, record
from kohort.cluster.apiserver.schema.go_round_trip import SCHEMA_PROPS, zero
from kohort.cluster.apiserver.schema.protobuf_wire import (
    FIXED64,
    LENGTH,
    VARINT,
    Malformed,
    end_of,
    fields,
    signed,
    varint,
)
from kohort.kube.errors import ApiError, bad_request
from kohort.objects.json_types import Json, JsonObject

MAGIC: Final = b"k8s\x00"
NOT_PROTOBUF: Final = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"

_Message: TypeAlias = Callable[[bytes, int, int, JsonObject], None]
"""Reads the bytes from start to stop as a message, into an object."""

_Value: TypeAlias = Callable[[bytes, int, int], Json]
"""Reads the bytes from start to stop as one value."""

_LengthField: TypeAlias = Callable[[JsonObject, bytes, int, int], None]
_NumberField: TypeAlias = Callable[[JsonObject, int], None]


def decode(body: bytes) -> JsonObject:
    """The object in a protobuf body, with `apiVersion` and `kind`. Raises ApiError 400."""
    if not body.startswith(MAGIC):
        raise bad_request(NOT_PROTOBUF)
    try:
        api_version, kind, start, stop = _envelope(body)
        obj: JsonObject = {"kind": kind, "apiVersion": api_version}
        _kind_message(api_version, kind)(body, start, stop, obj)
        if len(body) > document_limits.MAX_DEPTH:  # a level takes more than a byte
            document_limits.check_value(obj)
    except (Malformed, IndexError, ValueError, OverflowError, RecursionError, msgspec.DecodeError) as error:
        raise bad_request(f"the protobuf body cannot be decoded: {error or 'unexpected EOF'}") from None
    return obj


def _kind_message(api_version: str, kind: str) -> _Message:
    group, _, version = api_version.rpartition("/")
    try:
        node = kind_node(group, version, kind)
    except KeyError:
        raise _unknown_kind(api_version, kind) from None
    return _message(node.name)


def _unknown_kind(api_version: str, kind: str) -> ApiError:
    return bad_request(f'no kind "{kind}" is registered for version "{api_version}"')


def _envelope(body: bytes) -> tuple[str, str, int, int]:
    """apiVersion, kind, and where the object itself lies."""
    api_version = kind = ""
    start = stop = len(body)
    for number, wire, at, end in fields(body, len(MAGIC), len(body)):
        if wire != LENGTH:
            continue
        if number == 1:
            for inner, inner_wire, inner_at, inner_end in fields(body, at, end):
                if inner_wire == LENGTH and inner == 1:
                    api_version = body[inner_at:inner_end].decode()
                elif inner_wire == LENGTH and inner == 2:
                    kind = body[inner_at:inner_end].decode()
        elif number == 2:
            start, stop = at, end
    return api_version, kind, start, stop


class _Fields:
    """The fields of a message by their tags: the field number, and the wire type in its last three bits.

    Encoders send every scalar that is not a pointer, so most fields of a message are empty texts and zeros: `texts`
    and `zeros_kept` let those pass without a call.
    """

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.lengths: dict[int, _LengthField] = {}
        self.numbers: dict[int, _NumberField] = {}
        self.zeros_kept: set[int] = set()


@cache
def _message(type_name: str) -> _Message:
    """The reader of a struct type."""
    known = _Fields()
    compiled = False
    text_at, length_at, number_at, zeros_kept = known.texts.get, known.lengths.get, known.numbers.get, known.zeros_kept

    def read(data: bytes, at: int, stop: int, obj: JsonObject) -> None:
        nonlocal compiled
        if not compiled:  # at the first visit: types refer to each other in circles
            _compile(type_name, known)
            compiled = True
        while at < stop:
            tag = data[at]
            at += 1
            if tag >= 0x80:  # almost every number has one or two bytes: no call for those
                if data[at] < 0x80:
                    tag = tag & 0x7F | data[at] << 7
                    at += 1
                else:
                    tag, at = varint(data, at - 1)
            wire = tag & 7
            if wire == 2:
                size = data[at]
                at += 1
                if size >= 0x80:
                    if data[at] < 0x80:
                        size = size & 0x7F | data[at] << 7
                        at += 1
                    else:
                        size, at = varint(data, at - 1)
                end = at + size
                if end > stop:
                    raise Malformed("unexpected EOF")
                name = text_at(tag)
                if name is not None:
                    if size:
                        obj[name] = data[at:end].decode()
                else:
                    field = length_at(tag)
                    if field is not None:
                        field(obj, data, at, end)
                at = end
                continue
            value = data[at]
            if wire == 0 and value < 0x80:
                at += 1
            else:
                value, at = _number_at(data, at, stop, wire)
            if value or tag in zeros_kept:
                number_field = number_at(tag)
                if number_field is not None:
                    number_field(obj, value)

    return read


def _number_at(data: bytes, at: int, stop: int, wire: int) -> tuple[int, int]:
    """The bits of a number, and where it ends."""
    if wire == VARINT:
        value = data[at]
        return (value, at + 1) if value < 0x80 else varint(data, at)
    end = end_of(at, wire)
    if end > stop:
        raise Malformed("unexpected EOF")
    return int.from_bytes(data[at:end], "little"), end


def _compile(type_name: str, known: _Fields) -> None:
    """Fill in the fields of a type."""
    described = record(type_name)
    for inlined, number in described.inlined:
        if number:
            known.lengths[number << 3 | LENGTH] = _inline_field(inlined)
    for field in described.own_fields:
        if not field.number:
            continue
        if field.type.kind == "scalar" and field.type.word == "string" and not field.type.pointer:
            known.texts[field.number << 3 | LENGTH] = field.name
            continue
        number_field = _number_field(field)
        if number_field is not None:
            tag = field.number << 3 | (FIXED64 if field.type.word == "float64" else VARINT)
            known.numbers[tag] = number_field
            if field.type.pointer or field.type.kind == "list":
                known.zeros_kept.add(tag)
        length_field = _length_field(field)
        if length_field is not None:
            known.lengths[field.number << 3 | LENGTH] = length_field


def _inline_field(type_name: str) -> _LengthField:
    message = _message(type_name)

    def read(obj: JsonObject, data: bytes, at: int, stop: int) -> None:
        message(data, at, stop, obj)

    return read


def _number_field(field: FieldRecord) -> _NumberField | None:
    """The setter of a field whose values are numbers on the wire; None for all others."""
    name, expression = field.name, field.type
    element = expression.item if expression.kind == "list" else expression
    if element.kind != "scalar" or element.word not in _NUMBERS:
        return None
    convert = _NUMBERS[element.word]

    def set_one(obj: JsonObject, value: int) -> None:
        obj[name] = convert(value)

    def append(obj: JsonObject, value: int) -> None:
        obj.setdefault(name, []).append(convert(value))

    return append if expression.kind == "list" else set_one


def _float(bits: int) -> float | int:
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return int(value) if value.is_integer() else value


_NUMBERS: Final[dict[str, Callable[[int], Json]]] = {
    "int32": signed,
    "int64": signed,
    "bool": bool,
    "float64": _float,
}


def _length_field(field: FieldRecord) -> _LengthField | None:
    """The setter of a field whose values have a length on the wire."""
    name, expression = field.name, field.type
    if expression.kind == "list":
        return _packed(name, expression.item) if _is_number(expression.item) else _appended(name, expression.item)
    if expression.kind == "map":
        return _entered(name, expression.item)
    if _is_number(expression):
        return None
    value = _value(expression)
    keep_empty = expression.pointer or expression.kind == "special"

    def read(obj: JsonObject, data: bytes, at: int, stop: int) -> None:
        found = value(data, at, stop)
        if found is not None and (found or keep_empty):
            obj[name] = found

    return read


def _is_number(expression: TypeExpression) -> bool:
    return expression.kind == "scalar" and expression.word in _NUMBERS


def _appended(name: str, element: TypeExpression) -> _LengthField:
    value = _value(element)

    def read(obj: JsonObject, data: bytes, at: int, stop: int) -> None:
        found = value(data, at, stop)
        if name in obj:
            obj[name].append(found)
        else:
            obj[name] = [found]

    return read


def _packed(name: str, element: TypeExpression) -> _LengthField:
    """A list of numbers in one piece, which encoders may also choose."""
    convert = _NUMBERS[element.word]

    def read(obj: JsonObject, data: bytes, at: int, stop: int) -> None:
        items = obj.setdefault(name, [])
        while at < stop:
            number, at = varint(data, at)
            items.append(convert(number))

    return read


def _entered(name: str, element: TypeExpression) -> _LengthField:
    value = _value(element)
    empty = zero(element)

    def read(obj: JsonObject, data: bytes, at: int, stop: int) -> None:
        key = ""
        entry: Json = empty
        for number, wire, inner_at, inner_stop in fields(data, at, stop):
            if wire != LENGTH:
                continue
            if number == 1:
                key = data[inner_at:inner_stop].decode()
            elif number == 2:
                entry = value(data, inner_at, inner_stop)
        obj.setdefault(name, {})[key] = entry

    return read


@cache
def _value(expression: TypeExpression) -> _Value:
    """The reader of one value with a length."""
    match expression.kind:
        case "struct":
            return _struct_value(expression.word)
        case "wrapped-list":
            return _wrapped_list_value(expression.item)
        case "scalar" if expression.word == "string":
            return lambda data, at, stop: data[at:stop].decode()
        case "scalar" if expression.word == "bytes":
            return lambda data, at, stop: b64encode(data[at:stop]).decode()
        case "special" if expression.word == "intstr":
            return protobuf_values.int_or_string if expression.pointer else protobuf_values.int_or_string_unless_zero
        case "special":
            return _SPECIAL[expression.word]
    raise AssertionError(f"no protobuf form of {expression}")


def _struct_value(type_name: str) -> _Value:
    message = _message(type_name)

    def read(data: bytes, at: int, stop: int) -> Json:
        obj: JsonObject = {}
        message(data, at, stop, obj)
        return obj

    return read


def _wrapped_list_value(element: TypeExpression) -> _Value:
    value = _value(element)

    def read(data: bytes, at: int, stop: int) -> Json:
        return [value(data, start, end) for number, _, start, end in fields(data, at, stop) if number == 1] or None

    return read


def _schema_or_bool(data: bytes, at: int, stop: int) -> Json:
    allows = False
    for number, wire, start, end in fields(data, at, stop):
        if number == 1 and wire == VARINT:
            allows = bool(start)
        elif number == 2 and wire == LENGTH:
            return _struct_value(SCHEMA_PROPS)(data, start, end)
    return allows


def _schema_or_list(data: bytes, at: int, stop: int) -> Json:
    schemas = []
    for number, wire, start, end in fields(data, at, stop):
        if wire == LENGTH and number in (1, 2):
            schema = _struct_value(SCHEMA_PROPS)(data, start, end)
            if number == 1:
                return schema
            schemas.append(schema)
    return schemas


def _schema_or_strings(data: bytes, at: int, stop: int) -> Json:
    names = []
    for number, wire, start, end in fields(data, at, stop):
        if wire == LENGTH and number == 1:
            return _struct_value(SCHEMA_PROPS)(data, start, end)
        if wire == LENGTH and number == 2:
            names.append(data[start:end].decode())
    return names


_SPECIAL: Final[dict[str, _Value]] = {
    "time": protobuf_values.time,
    "microtime": protobuf_values.micro_time,
    "quantity": protobuf_values.quantity,
    "raw": protobuf_values.embedded_json,
    "json": protobuf_values.embedded_json,
    "fieldsv1": protobuf_values.embedded_json,
    "orbool": _schema_or_bool,
    "orarray": _schema_or_list,
    "orstrings": _schema_or_strings,
}
