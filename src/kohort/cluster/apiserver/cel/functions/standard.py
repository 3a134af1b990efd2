"""Operators, sizes, conversions and the string functions that every CEL has.

Logical operators, the conditional, equality, indexing and `in` appear here for their types; the compiler makes closures
of its own for them.
"""

import math
import re
from decimal import Decimal

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.functions.regex import matches, matches_cost
from kohort.cluster.apiserver.cel.times import duration_text, parse_duration, parse_timestamp, timestamp_text
from kohort.cluster.apiserver.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    WrappedList,
    compared,
    contains,
    equal,
    index,
    items_of,
    size_of,
    type_name,
    unwrapped,
)
from kohort.objects.jsontypes import Json

_SECOND = 1_000_000_000


def checked_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def checked_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


# -- arithmetic


def add_ints(a: int, b: int) -> int:
    return checked_int(a + b)


def add_uints(a: int, b: int) -> Uint:
    return checked_uint(int(a) + int(b))


def subtract_ints(a: int, b: int) -> int:
    return checked_int(a - b)


def subtract_uints(a: int, b: int) -> Uint:
    return checked_uint(int(a) - int(b))


def multiply_ints(a: int, b: int) -> int:
    return checked_int(a * b)


def multiply_uints(a: int, b: int) -> Uint:
    return checked_uint(int(a) * int(b))


def multiply_doubles(a: float, b: float) -> float:
    return a * b


def divide_ints(a: int, b: int) -> int:
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(a) // abs(b)
    return checked_int(quotient if (a < 0) == (b < 0) else -quotient)


def divide_uints(a: int, b: int) -> Uint:
    if b == 0:
        raise CelError("division by zero")
    return Uint(int(a) // int(b))


def divide_doubles(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def remainder_ints(a: int, b: int) -> int:
    if b == 0:
        raise CelError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise CelError("integer overflow")
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def remainder_uints(a: int, b: int) -> Uint:
    if b == 0:
        raise CelError("modulus by zero")
    return Uint(int(a) % int(b))


def add_texts(a: Json, b: Json) -> Json:
    return a + b


def add_texts_cost(a: Json, b: Json) -> int:
    return (len(a) + len(b)) // 10


def add_lists(a: Json, b: Json) -> Json:
    """Plain lists are joined; set lists are united; associative lists are merged by key."""
    if isinstance(a, WrappedList) and a.kind in ("set", "map"):
        return _merged(a, b)
    return [*items_of(a), *items_of(b)]


def _merged(a: WrappedList, b: Json) -> WrappedList:
    raw = list(a.raw)
    if a.kind == "set":
        raw.extend(unwrapped(item) for item in items_of(b) if not contains(a, item))
        return WrappedList(raw, a.element, a.kind, a.keys)
    positions = {a.key(item): place for place, item in enumerate(raw)}
    for item in items_of(b):
        place = positions.get(a.key(item))
        if place is None:
            raw.append(unwrapped(item))
        else:
            raw[place] = unwrapped(item)
    return WrappedList(raw, a.element, a.kind, a.keys)


def add_lists_cost(a: Json, b: Json) -> int:
    return (size_of(a) + size_of(b)) // 10


def add_durations(a: Duration, b: Duration) -> Duration:
    return Duration(a.nanos + b.nanos)


def subtract_durations(a: Duration, b: Duration) -> Duration:
    return Duration(a.nanos - b.nanos)


def later(a: Timestamp, b: Duration) -> Timestamp:
    return Timestamp(a.nanos + b.nanos)


def duration_then_timestamp(a: Duration, b: Timestamp) -> Timestamp:
    return Timestamp(a.nanos + b.nanos)


def earlier(a: Timestamp, b: Duration) -> Timestamp:
    return Timestamp(a.nanos - b.nanos)


def between(a: Timestamp, b: Timestamp) -> Duration:
    return Duration(a.nanos - b.nanos)


def negate_int(a: int) -> int:
    return checked_int(-a)


def negate_double(a: float) -> float:
    return -a


# -- comparisons


def less(a: Json, b: Json) -> bool:
    return compared(a, b) < 0


def less_or_equal(a: Json, b: Json) -> bool:
    return compared(a, b) <= 0


def greater(a: Json, b: Json) -> bool:
    return compared(a, b) > 0


def greater_or_equal(a: Json, b: Json) -> bool:
    return compared(a, b) >= 0


# -- conversions

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


# -- text


def text_contains(text: str, part: str) -> bool:
    return part in text


def text_cost(text: str, part: str) -> int:
    return len(text) // 10


def membership_cost(value: Json, container: Json) -> int:
    return size_of(container)


def unreachable(*_: Json) -> Json:
    raise AssertionError("compiled specially")


_NUMBERS = ("int", "uint", "double")
_ORDERED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")


def _comparisons() -> list[Function]:
    implementations = {"_<_": less, "_<=_": less_or_equal, "_>_": greater, "_>=_": greater_or_equal}
    mixed = [(a, b) for a in _NUMBERS for b in _NUMBERS if a != b]
    pairs = [(kind, kind) for kind in _ORDERED] + mixed
    return [Function(f"{name}({a}, {b}): bool", code) for name, code in implementations.items() for a, b in pairs]


def _sizes() -> list[Function]:
    kinds = ("string", "bytes", "list<A>", "map<A, B>")
    both = [(f"size({kind}): int", f"{kind}::size(): int") for kind in kinds]
    return [Function(signature, size_of) for pair in both for signature in pair]


LIBRARY = Library(
    (
        Function("_?_:_(bool, A, A): A", unreachable),
        Function("_&&_(bool, bool): bool", unreachable),
        Function("_||_(bool, bool): bool", unreachable),
        Function("!_(bool): bool", unreachable),
        Function("_==_(A, A): bool", equal),
        Function("_!=_(A, A): bool", unreachable),
        Function("_[_](list<A>, int): A", index),
        Function("_[_](map<A, B>, A): B", index),
        Function("@in(A, list<A>): bool", lambda value, container: contains(container, value), membership_cost),
        Function("@in(A, map<A, B>): bool", lambda value, container: contains(container, value)),
        Function("_+_(int, int): int", add_ints),
        Function("_+_(uint, uint): uint", add_uints),
        Function("_+_(double, double): double", add_texts),
        Function("_+_(string, string): string", add_texts, add_texts_cost),
        Function("_+_(bytes, bytes): bytes", add_texts, add_texts_cost),
        Function("_+_(list<A>, list<A>): list<A>", add_lists, add_lists_cost),
        Function("_+_(duration, duration): duration", add_durations),
        Function("_+_(timestamp, duration): timestamp", later),
        Function("_+_(duration, timestamp): timestamp", duration_then_timestamp),
        Function("_-_(int, int): int", subtract_ints),
        Function("_-_(uint, uint): uint", subtract_uints),
        Function("_-_(double, double): double", lambda a, b: a - b),
        Function("_-_(duration, duration): duration", subtract_durations),
        Function("_-_(timestamp, duration): timestamp", earlier),
        Function("_-_(timestamp, timestamp): duration", between),
        Function("_*_(int, int): int", multiply_ints),
        Function("_*_(uint, uint): uint", multiply_uints),
        Function("_*_(double, double): double", multiply_doubles),
        Function("_/_(int, int): int", divide_ints),
        Function("_/_(uint, uint): uint", divide_uints),
        Function("_/_(double, double): double", divide_doubles),
        Function("_%_(int, int): int", remainder_ints),
        Function("_%_(uint, uint): uint", remainder_uints),
        Function("-_(int): int", negate_int),
        Function("-_(double): double", negate_double),
        *_comparisons(),
        *_sizes(),
        Function("type(A): type<A>", type_of),
        Function("dyn(A): dyn", same),
        Function("int(int): int", same),
        Function("int(uint): int", uint_to_int),
        Function("int(double): int", double_to_int),
        Function("int(string): int", string_to_int),
        Function("int(timestamp): int", timestamp_to_int),
        Function("int(duration): int", duration_to_int),
        Function("uint(uint): uint", same),
        Function("uint(int): uint", int_to_uint),
        Function("uint(double): uint", double_to_uint),
        Function("uint(string): uint", string_to_uint),
        Function("double(double): double", same),
        Function("double(int): double", to_double),
        Function("double(uint): double", to_double),
        Function("double(string): double", string_to_double),
        Function("bool(bool): bool", same),
        Function("bool(string): bool", string_to_bool),
        Function("string(string): string", same),
        Function("string(bool): string", bool_to_string),
        Function("string(int): string", int_to_string),
        Function("string(uint): string", int_to_string),
        Function("string(double): string", double_to_string),
        Function("string(bytes): string", bytes_to_string),
        Function("string(timestamp): string", timestamp_text),
        Function("string(duration): string", duration_text),
        Function("bytes(bytes): bytes", same),
        Function("bytes(string): bytes", string_to_bytes),
        Function("duration(duration): duration", same),
        Function("duration(string): duration", string_to_duration),
        Function("duration(int): duration", int_to_duration),
        Function("timestamp(timestamp): timestamp", same),
        Function("timestamp(string): timestamp", string_to_timestamp),
        Function("timestamp(int): timestamp", int_to_timestamp),
        Function("string::contains(string): bool", text_contains, text_cost),
        Function("string::startsWith(string): bool", str.startswith),
        Function("string::endsWith(string): bool", str.endswith),
        Function("matches(string, string): bool", matches, matches_cost),
        Function("string::matches(string): bool", matches, matches_cost),
    )
)
