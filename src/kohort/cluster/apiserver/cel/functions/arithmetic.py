"""Sums, differences, products and quotients. A result outside of the range of its type is an error."""

import math

from kohort.cluster.apiserver.cel.equality import contains
from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    Uint,
    WrappedList,
    items_of,
    size_of,
    unwrapped,
)
from kohort.objects.json_types import Json


def checked_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def checked_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


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
