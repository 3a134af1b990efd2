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

from kohort.cluster.apiserver.schema import gotime, scalars
from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.conforming import SCHEMA_PROPS, zero
from kohort.cluster.apiserver.schema.records import FieldRecord, TypeExpression, record
from kohort.kube.errors import ApiError, bad_request
from kohort.objects.jsontypes import Json, JsonObject

MAGIC: Final = b"k8s\x00"

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

_Message: TypeAlias = Callable[[bytes, int, int, JsonObject], None]
"""Reads the bytes from start to stop as a message, into an object."""

_Value: TypeAlias = Callable[[bytes, int, int], Json]
"""Reads the bytes from start to stop as one value."""

_LengthField: TypeAlias = Callable[[JsonObject, bytes, int, int], None]
_NumberField: TypeAlias = Callable[[JsonObject, int], None]


class _Malformed(Exception):
    pass


def decode(body: bytes) -> JsonObject:
    """The object in a protobuf body, with `apiVersion` and `kind`. Raises ApiError 400."""
    if not body.startswith(MAGIC):
        raise bad_request(f"provided data does not appear to be a protobuf message, expected prefix {list(MAGIC)}")
    try:
        api_version, kind, start, stop = _envelope(body)
        obj: JsonObject = {"kind": kind, "apiVersion": api_version}
        _kind_message(api_version, kind)(body, start, stop, obj)
    except (_Malformed, IndexError, ValueError, OverflowError, RecursionError) as error:
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
    for number, wire, at, end in _fields(body, len(MAGIC), len(body)):
        if wire != _LENGTH:
            continue
        if number == 1:
            for inner, inner_wire, inner_at, inner_end in _fields(body, at, end):
                if inner_wire == _LENGTH and inner == 1:
                    api_version = body[inner_at:inner_end].decode()
                elif inner_wire == _LENGTH and inner == 2:
                    kind = body[inner_at:inner_end].decode()
        elif number == 2:
            start, stop = at, end
    return api_version, kind, start, stop


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a position as an unsigned 64-bit value, and the position after it."""
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise _Malformed("integer overflow")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _fields(data: bytes, at: int, stop: int) -> list[tuple[int, int, int, int]]:
    """Number, wire type and extent of every field of a small message. The extent of a varint is (its value, 0)."""
    found = []
    while at < stop:
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = _varint(data, at - 1)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            found.append((tag >> 3, wire, value, 0))
            continue
        if wire == _LENGTH:
            size = data[at]
            at += 1
            if size >= 0x80:
                size, at = _varint(data, at - 1)
            end = at + size
        else:
            end = _end(at, wire)
        if end > stop:
            raise _Malformed("unexpected EOF")
        found.append((tag >> 3, wire, at, end))
        at = end
    return found


def _end(at: int, wire: int) -> int:
    if wire == _FIXED64:
        return at + 8
    if wire == _FIXED32:
        return at + 4
    raise _Malformed(f"illegal wire type {wire}")


@cache
def _message(type_name: str) -> _Message:
    """The reader of a struct type."""
    lengths: dict[int, _LengthField] = {}
    numbers: dict[int, _NumberField] = {}
    compiled = False

    def read(data: bytes, at: int, stop: int, obj: JsonObject) -> None:
        nonlocal compiled
        if not compiled:  # at the first visit: types refer to each other in circles
            _compile(type_name, lengths, numbers)
            compiled = True
        while at < stop:
            tag = data[at]
            at += 1
            if tag >= 0x80:  # almost every number has one or two bytes: no call for those
                if data[at] < 0x80:
                    tag = tag & 0x7F | data[at] << 7
                    at += 1
                else:
                    tag, at = _varint(data, at - 1)
            wire = tag & 7
            if wire == _LENGTH:
                size = data[at]
                at += 1
                if size >= 0x80:
                    if data[at] < 0x80:
                        size = size & 0x7F | data[at] << 7
                        at += 1
                    else:
                        size, at = _varint(data, at - 1)
                end = at + size
                if end > stop:
                    raise _Malformed("unexpected EOF")
                field = lengths.get(tag >> 3)
                if field is not None:
                    field(obj, data, at, end)
                at = end
            elif wire == _VARINT:
                value = data[at]
                at += 1
                if value >= 0x80:
                    value, at = _varint(data, at - 1)
                number_field = numbers.get(tag >> 3)
                if number_field is not None:
                    number_field(obj, value)
            else:
                end = _end(at, wire)
                if end > stop:
                    raise _Malformed("unexpected EOF")
                number_field = numbers.get(tag >> 3)
                if number_field is not None and wire == _FIXED64:
                    number_field(obj, int.from_bytes(data[at:end], "little"))
                at = end

    return read


def _compile(type_name: str, lengths: dict[int, _LengthField], numbers: dict[int, _NumberField]) -> None:
    described = record(type_name)
    for inlined, number in described.inlined:
        if number:
            lengths[number] = _inline_field(inlined)
    for field in described.own_fields:
        if not field.number:
            continue
        number_field = _number_field(field)
        if number_field is not None:
            numbers[field.number] = number_field
        length_field = _length_field(field)
        if length_field is not None:
            lengths[field.number] = length_field


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
    keep_zero = expression.pointer

    def set_one(obj: JsonObject, value: int) -> None:
        if value or keep_zero:
            obj[name] = convert(value)

    def append(obj: JsonObject, value: int) -> None:
        obj.setdefault(name, []).append(convert(value))

    return append if expression.kind == "list" else set_one


def _float(bits: int) -> float | int:
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return int(value) if value.is_integer() else value


_NUMBERS: Final[dict[str, Callable[[int], Json]]] = {
    "int32": _signed,
    "int64": _signed,
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
    if expression.kind == "scalar" and expression.word == "string":
        return _text_field(name, expression.pointer)
    value = _value(expression)
    keep_empty = expression.pointer or expression.kind == "special"

    def read(obj: JsonObject, data: bytes, at: int, stop: int) -> None:
        found = value(data, at, stop)
        if found is not None and (found or keep_empty):
            obj[name] = found

    return read


def _is_number(expression: TypeExpression) -> bool:
    return expression.kind == "scalar" and expression.word in _NUMBERS


def _text_field(name: str, keep_empty: bool) -> _LengthField:
    def read(obj: JsonObject, data: bytes, at: int, stop: int) -> None:
        if at != stop or keep_empty:
            obj[name] = data[at:stop].decode()

    return read


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
            number, at = _varint(data, at)
            items.append(convert(number))

    return read


def _entered(name: str, element: TypeExpression) -> _LengthField:
    value = _value(element)
    empty = zero(element)

    def read(obj: JsonObject, data: bytes, at: int, stop: int) -> None:
        key = ""
        entry: Json = empty
        for number, wire, inner_at, inner_stop in _fields(data, at, stop):
            if wire != _LENGTH:
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
            return _int_or_string if expression.pointer else _int_or_string_unless_zero
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
        return [value(data, start, end) for number, _, start, end in _fields(data, at, stop) if number == 1] or None

    return read


def _quantity(data: bytes, at: int, stop: int) -> Json:
    for number, wire, start, end in _fields(data, at, stop):
        if number == 1 and wire == _LENGTH and start != end:
            return scalars.quantity(data[start:end].decode())
    return "0"


def _int_or_string(data: bytes, at: int, stop: int) -> Json:
    is_text, whole, text = False, 0, ""
    for number, wire, start, end in _fields(data, at, stop):
        if number == 1 and wire == _VARINT:
            is_text = start == 1
        elif number == 2 and wire == _VARINT:
            whole = _signed(start)
        elif number == 3 and wire == _LENGTH:
            text = data[start:end].decode()
    return text if is_text else whole


def _int_or_string_unless_zero(data: bytes, at: int, stop: int) -> Json:
    """Without a pointer, 0 is how Go says that nothing was set."""
    value = _int_or_string(data, at, stop)
    return None if value == 0 else value


def _moment(data: bytes, at: int, stop: int, micro: bool) -> Json:
    if at == stop:
        return None
    seconds = nanos = 0
    for number, wire, value, _ in _fields(data, at, stop):
        if wire == _VARINT and number == 1:
            seconds = _signed(value)
        elif wire == _VARINT and number == 2:
            nanos = _signed(value)
    return gotime.from_unix(seconds, nanos, micro=micro)


def _time(data: bytes, at: int, stop: int) -> Json:
    return _moment(data, at, stop, micro=False)


def _micro_time(data: bytes, at: int, stop: int) -> Json:
    return _moment(data, at, stop, micro=True)


def _embedded_json(data: bytes, at: int, stop: int) -> Json:
    for number, wire, start, end in _fields(data, at, stop):
        if number == 1 and wire == _LENGTH and start != end:
            return msgspec.json.decode(data[start:end])
    return None


def _schema_or_bool(data: bytes, at: int, stop: int) -> Json:
    allows = False
    for number, wire, start, end in _fields(data, at, stop):
        if number == 1 and wire == _VARINT:
            allows = bool(start)
        elif number == 2 and wire == _LENGTH:
            return _struct_value(SCHEMA_PROPS)(data, start, end)
    return allows


def _schema_or_list(data: bytes, at: int, stop: int) -> Json:
    schemas = []
    for number, wire, start, end in _fields(data, at, stop):
        if wire == _LENGTH and number in (1, 2):
            schema = _struct_value(SCHEMA_PROPS)(data, start, end)
            if number == 1:
                return schema
            schemas.append(schema)
    return schemas


def _schema_or_strings(data: bytes, at: int, stop: int) -> Json:
    names = []
    for number, wire, start, end in _fields(data, at, stop):
        if wire == _LENGTH and number == 1:
            return _struct_value(SCHEMA_PROPS)(data, start, end)
        if wire == _LENGTH and number == 2:
            names.append(data[start:end].decode())
    return names


_SPECIAL: Final[dict[str, _Value]] = {
    "time": _time,
    "microtime": _micro_time,
    "quantity": _quantity,
    "raw": _embedded_json,
    "json": _embedded_json,
    "fieldsv1": _embedded_json,
    "orbool": _schema_or_bool,
    "orarray": _schema_or_list,
    "orstrings": _schema_or_strings,
}
