"""Scalar values of built-in types: which JSON values they accept, and the canonical form in which they are kept."""

import binascii
from base64 import b64encode
from collections.abc import Callable
from typing import Final

from kohort.cluster.apiserver.schema.go_time import canonical_micro_time, canonical_time
from kohort.cluster.apiserver.schema.go_type_errors import TypeMismatch, json_type
from kohort.objects.bounded_cache import remember_short
from kohort.objects.json_types import Json
from kohort.objects.quantity import canonical as canonical_quantity

Scalar = Callable[[Json], Json]
"""Takes a JSON value other than null; returns the value to keep. Raises Mismatch, or ValueError with the whole text."""

_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def integer(bits: int, go_type: str, *, stops: bool = False) -> Scalar:
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def check(value: Json) -> Json:
        if type(value) is int and lowest <= value <= highest:
            return value
        raise TypeMismatch(_number_literal(value), go_type, stops=stops)

    return check


def number(go_type: str) -> Scalar:
    def check(value: Json) -> Json:
        if type(value) is int:
            return value
        if type(value) is float:
            return int(value) if value.is_integer() else value
        raise TypeMismatch(json_type(value), go_type)

    return check


def text(go_type: str) -> Scalar:
    def check(value: Json) -> Json:
        if type(value) is str:
            return value
        raise TypeMismatch(json_type(value), go_type)

    return check


def _number_literal(value: Json) -> str:
    """Numbers that do not fit are quoted in the message, other values are only named."""
    found = json_type(value)
    return f"number {value!r}" if found == "number" else found


@remember_short(4096)
def _quantity_text(value: str) -> str:
    return canonical_quantity(value)


def quantity(value: Json) -> Json:
    return _quantity_text(value) if type(value) is str else canonical_quantity(value)


def int_or_string(value: Json) -> Json:
    if type(value) is str:
        return value
    return _INT32(value)


_INT32: Final = integer(32, "int32", stops=True)


def time(value: Json) -> Json:
    if type(value) is not str:
        raise TypeMismatch(json_type(value), "string", stops=True)
    return canonical_time(value)


def micro_time(value: Json) -> Json:
    if type(value) is not str:
        raise TypeMismatch(json_type(value), "string", stops=True)
    return canonical_micro_time(value)


def base64_bytes(value: Json) -> Json:
    if type(value) is list:
        return _bytes_of_numbers(value)
    if type(value) is not str:
        raise TypeMismatch(json_type(value), "[]uint8")
    plain = value.replace("\n", "").replace("\r", "") if "\n" in value or "\r" in value else value
    try:
        data = binascii.a2b_base64(plain.encode("ascii"), strict_mode=True)
    except ValueError:
        raise ValueError(f"illegal base64 data at input byte {_first_bad_byte(value)}") from None
    return b64encode(data).decode()


def _bytes_of_numbers(values: list[Json]) -> str:
    """Go also reads bytes from a list of numbers."""
    for value in values:
        if type(value) is not int or not 0 <= value <= 255:
            raise TypeMismatch(_number_literal(value), "uint8")
    return b64encode(bytes(values)).decode()


def _first_bad_byte(encoded: str) -> int:
    """Where Go's decoder stops: at the bad character, or at the start of the last group when that is too short."""
    group: list[int] = []
    for position, character in enumerate(encoded):
        if character in "\r\n":
            continue
        if character == "=":
            return _padding_error(encoded, position, len(group))
        if character not in _ALPHABET:
            return len(encoded[:position].encode())
        group = [*group, position] if len(group) < 4 else [position]
    return group[0] if group else 0


def _padding_error(encoded: str, position: int, before: int) -> int:
    if before % 4 < 2:
        return position
    tail = encoded[position:].replace("\n", "").replace("\r", "")
    wanted = "==" if before % 4 == 2 else "="
    if tail == wanted[: len(tail)] and len(tail) < len(wanted):
        return len(encoded)
    return position + min(len(wanted), len(tail))


def untouched(value: Json) -> Json:
    return value
