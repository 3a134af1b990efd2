"""Protobuf messages as structs. A field's type and number are its annotation; its default is the zero value:

    class ContainerMetadata(Message, frozen=True):
        name: Annotated[str, 1] = ""
        attempt: Annotated[int, 2] = 0

| annotation                        | protobuf                                                        |
|-----------------------------------|-----------------------------------------------------------------|
| `str`, `bytes`, `bool`, `float`   | string, bytes, bool, double                                     |
| `int`                             | int32, int64, uint32 and every enumeration: unknown values stay |
| `int`, with `UNSIGNED`            | uint64                                                          |
| `M` or None                       | message M; None if absent                                       |
| `tuple[T, ...]`                   | repeated; numbers are written packed and read in both forms     |
| `dict[str, str]`                  | map<string, string>                                             |

As proto3 says: zero values are not written, the last of several values counts, parts of one message are merged, and
unknown fields are skipped. `DecodeError` is raised for anything that is not well-formed, whatever the bytes are.
"""

import struct
import types
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

UNSIGNED: Final = "unsigned"
LONGEST_VARINT: Final = 10
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

M = TypeVar("M", bound="Message")


class Message(msgspec.Struct, frozen=True):
    """A protobuf message."""


class DecodeError(ValueError):
    """Bytes that are not a message of the expected form."""


class _Scalar(NamedTuple):
    wire: int
    zero: Any
    write: Callable[[bytearray, Any], None]
    """Appends a value without its key; length-delimited ones with their length."""
    read: Callable[[Any], Any]
    """From what the wire holds: an integer for varints, bytes for everything else."""


class _Field(NamedTuple):
    name: str
    number: int
    shape: str
    """One of `one`, `many`, `map`, `message`, `messages`."""
    scalar: _Scalar | None
    message: "type[Message] | None"


def encode(message: Message) -> bytes:
    out = bytearray()
    _encode_into(out, message)
    return bytes(out)


def decode(kind: type[M], data: bytes) -> M:
    """Raises DecodeError."""
    fields = _by_number(kind)
    values: dict[str, Any] = {}
    parts: dict[str, bytes] = {}
    many: dict[str, list[Any]] = {}
    position, end = 0, len(data)
    while position < end:
        number, wire, found, position = _next_field(data, position)
        field = fields.get(number)
        if field is None:
            continue
        if field.shape in ("one", "many"):
            scalar = field.scalar
            assert scalar is not None
            if field.shape == "many" and wire == _LENGTH and scalar.wire != _LENGTH:
                many.setdefault(field.name, []).extend(_packed(scalar, found))
            elif wire != scalar.wire:
                continue
            elif field.shape == "many":
                many.setdefault(field.name, []).append(scalar.read(found))
            else:
                values[field.name] = scalar.read(found)
        elif wire != _LENGTH:
            continue
        elif field.shape == "message":
            parts[field.name] = parts.get(field.name, b"") + found
        elif field.shape == "messages":
            assert field.message is not None
            many.setdefault(field.name, []).append(decode(field.message, found))
        else:
            entry = decode(_MapEntry, found)
            values.setdefault(field.name, {})[entry.key] = entry.value
    for field in fields.values():
        if field.shape == "message" and field.name in parts:
            assert field.message is not None
            values[field.name] = decode(field.message, parts[field.name])
    values |= {name: tuple(items) for name, items in many.items()}
    return kind(**values)


def _encode_into(out: bytearray, message: Message) -> None:
    for field in _fields(type(message)):
        value = getattr(message, field.name)
        if field.shape == "one":
            assert field.scalar is not None
            if value != field.scalar.zero:
                _write_varint(out, field.number << 3 | field.scalar.wire)
                field.scalar.write(out, value)
        elif value is None or (field.shape != "message" and not value):
            continue
        elif field.shape == "message":
            _write_message(out, field.number, value)
        elif field.shape == "messages":
            for item in value:
                _write_message(out, field.number, item)
        elif field.shape == "map":
            for key, content in value.items():
                _write_message(out, field.number, _MapEntry(key, content))
        else:
            _write_repeated(out, field, value)


def _write_message(out: bytearray, number: int, message: Message) -> None:
    body = encode(message)
    _write_varint(out, number << 3 | _LENGTH)
    _write_varint(out, len(body))
    out += body


def _write_repeated(out: bytearray, field: _Field, values: "tuple[Any, ...]") -> None:
    scalar = field.scalar
    assert scalar is not None
    if scalar.wire == _LENGTH:
        for value in values:
            _write_varint(out, field.number << 3 | _LENGTH)
            scalar.write(out, value)
        return
    body = bytearray()
    for value in values:
        scalar.write(body, value)
    _write_varint(out, field.number << 3 | _LENGTH)
    _write_varint(out, len(body))
    out += body


def _next_field(data: bytes, position: int) -> tuple[int, int, Any, int]:
    """Number, wire type and value of the field at a position, and where the next one is."""
    key, position = _read_varint(data, position)
    number, wire = key >> 3, key & 7
    if not 0 < number < 1 << 29:
        raise DecodeError(f"field number {number} is outside of 1..{(1 << 29) - 1}")
    if wire == _VARINT:
        found, position = _read_varint(data, position)
        return number, wire, found, position
    if wire == _LENGTH:
        length, position = _read_varint(data, position)
    elif wire in (_FIXED64, _FIXED32):
        length = 8 if wire == _FIXED64 else 4
    else:
        raise DecodeError(f"field {number} has the wire type {wire}, which messages here do not use")
    if length > len(data) - position:
        raise DecodeError(f"field {number} has {length} bytes, of which {len(data) - position} are there")
    return number, wire, data[position : position + length], position + length


def _packed(scalar: _Scalar, data: bytes) -> "list[Any]":
    found, position = [], 0
    while position < len(data):
        if scalar.wire == _VARINT:
            value, position = _read_varint(data, position)
            found.append(scalar.read(value))
        else:
            found.append(scalar.read(data[position : position + 8]))
            position += 8
    return found


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for index in range(position, min(position + LONGEST_VARINT, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, index + 1
        shift += 7
    cut_off = len(data) - position < LONGEST_VARINT
    raise DecodeError("a number ends in the middle" if cut_off else f"a number has more than {LONGEST_VARINT} bytes")


def _write_varint(out: bytearray, value: int) -> None:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_bytes(out: bytearray, value: bytes) -> None:
    _write_varint(out, len(value))
    out += value


def _write_text(out: bytearray, value: str) -> None:
    _write_bytes(out, value.encode())


def _write_double(out: bytearray, value: float) -> None:
    out += struct.pack("<d", value)


def _read_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as problem:
        raise DecodeError(f"a string is not UTF-8: {problem}") from problem


def _read_double(value: bytes) -> float:
    if len(value) != 8:
        raise DecodeError(f"a double has {len(value)} bytes")
    return float(struct.unpack("<d", value)[0])


def _read_signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_SCALARS: Final[dict[Any, _Scalar]] = {
    str: _Scalar(_LENGTH, "", _write_text, _read_text),
    bytes: _Scalar(_LENGTH, b"", _write_bytes, lambda value: value),
    bool: _Scalar(_VARINT, False, _write_varint, bool),
    float: _Scalar(_FIXED64, 0.0, _write_double, _read_double),
    int: _Scalar(_VARINT, 0, _write_varint, _read_signed),
}
_UNSIGNED_INT: Final = _Scalar(_VARINT, 0, _write_varint, lambda value: value)


class _MapEntry(Message, frozen=True):
    key: Annotated[str, 1] = ""
    value: Annotated[str, 2] = ""


@cache
def _fields(kind: type[Message]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(kind, name, hints[name]) for name in kind.__struct_fields__)


@cache
def _by_number(kind: type[Message]) -> dict[int, _Field]:
    fields = {each.number: each for each in _fields(kind)}
    if len(fields) != len(kind.__struct_fields__):
        raise TypeError(f"{kind.__name__} gives one number to two fields")
    return fields


def _field(kind: type[Message], name: str, hint: Any) -> _Field:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"{kind.__name__}.{name} has no number: write Annotated[TYPE, NUMBER]")
    inner, number, *more = get_args(hint)
    if get_origin(inner) is tuple:
        item = get_args(inner)[0]
        if item in _SCALARS:
            return _Field(name, number, "many", _SCALARS[item], None)
        return _Field(name, number, "messages", None, item)
    if get_origin(inner) is dict:
        return _Field(name, number, "map", None, None)
    if get_origin(inner) in (Union, types.UnionType):
        return _Field(name, number, "message", None, get_args(inner)[0])
    return _Field(name, number, "one", _UNSIGNED_INT if UNSIGNED in more else _SCALARS[inner], None)
