"""The wire format of protobuf: numbers of variable length, and fields that carry their number and kind."""

from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5


class Malformed(Exception):
    """The bytes are not protobuf, or end too early."""


def varint(data: bytes, at: int) -> tuple[int, int]:
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
            raise Malformed("integer overflow")


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def fields(data: bytes, at: int, stop: int) -> list[tuple[int, int, int, int]]:
    """Number, wire type and extent of every field of a small message. The extent of a varint is (its value, 0)."""
    found = []
    while at < stop:
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = varint(data, at - 1)
        wire = tag & 7
        if wire == VARINT:
            value, at = varint(data, at)
            found.append((tag >> 3, wire, value, 0))
            continue
        if wire == LENGTH:
            size = data[at]
            at += 1
            if size >= 0x80:
                size, at = varint(data, at - 1)
            end = at + size
        else:
            end = end_of(at, wire)
        if end > stop:
            raise Malformed("unexpected EOF")
        found.append((tag >> 3, wire, at, end))
        at = end
    return found


def end_of(at: int, wire: int) -> int:
    if wire == FIXED64:
        return at + 8
    if wire == FIXED32:
        return at + 4
    raise Malformed(f"illegal wire type {wire}")
