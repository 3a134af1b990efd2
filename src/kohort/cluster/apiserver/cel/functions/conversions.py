"""From one type to another: `int('5')`, `string(1.5)`, `timestamp(text)`."""

import math
import re
from decimal import Decimal

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.arithmetic import checked_int, checked_uint
from kohort.cluster.apiserver.cel.times import parse_duration, parse_timestamp
from kohort.cluster.apiserver.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    type_name,
)
from kohort.objects.json_types import Json

_SECOND = 1_000_000_000

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)",
    re.ASCII | re.IGNORECASE,
)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _failed(source: str, target: str) -> CelError:
    return CelError(f"type conversion error from '{source}' to '{target}'")


def same(value: Json) -> Json:
    return value


def double_to_int(value: float) -> int:
    if not INT_MIN < value < INT_MAX:
        raise CelError("integer overflow")
    return int(value)


def uint_to_int(value: int) -> int:
    return checked_int(int(value))


def string_to_int(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not INT_MIN <= (value := int(text[:40])) <= INT_MAX or len(text) > 40:
        raise _failed("string", "int")
    return value


def timestamp_to_int(value: Timestamp) -> int:
    return value.nanos // _SECOND


def duration_to_int(value: Duration) -> int:
    return value.nanos


def double_to_uint(value: float) -> Uint:
    if not 0 <= value < 2**64:
        raise CelError("unsigned integer overflow")
    return Uint(int(value))


def int_to_uint(value: int) -> Uint:
    return checked_uint(value)


def string_to_uint(text: str) -> Uint:
    if not text.isascii() or not text.isdigit() or len(text) > 40 or int(text) > UINT_MAX:
        raise _failed("string", "uint")
    return Uint(int(text))


def to_double(value: int) -> float:
    return float(value)


def string_to_double(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise _failed("string", "double")
    value = float(text)
    if math.isinf(value) and "n" not in text.lower():
        raise _failed("string", "double")
    return value


def string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _failed("string", "bool")


def bool_to_string(value: bool) -> str:
    return "true" if value else "false"


def int_to_string(value: int) -> str:
    return str(int(value))


def double_to_string(value: float) -> str:
    """The shortest text that reads back as the same number; with an exponent below 1e-4 and from 1e6 on."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    exact = Decimal(repr(value))
    power = exact.adjusted() if exact else 0
    if -4 <= power < 6:
        text = f"{exact:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    figures = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    mantissa = figures[0] + ("." + figures[1:] if len(figures) > 1 else "")
    return f"{'-' if value < 0 else ''}{mantissa}e{power:+03d}"


def bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def string_to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def string_to_duration(text: str) -> Duration:
    try:
        return parse_duration(text)
    except ValueError:
        raise _failed("string", "google.protobuf.Duration") from None


def int_to_duration(value: int) -> Duration:
    return Duration(value)


def string_to_timestamp(text: str) -> Timestamp:
    try:
        return parse_timestamp(text)
    except ValueError:
        raise _failed("string", "google.protobuf.Timestamp") from None


def int_to_timestamp(value: int) -> Timestamp:
    return Timestamp(value * _SECOND)


def type_of(value: Json) -> TypeValue:
    return TypeValue(type_name(value))
