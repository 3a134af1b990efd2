"""When two values are equal, and which of them is smaller. Numbers compare across their types."""

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.values import (
    Duration,
    Extension,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    WrappedList,
    WrappedMap,
    find,
    is_list,
    is_map,
    items_of,
    lookup,
    no_overload,
    range_of,
    size_of,
)
from kohort.objects.json_types import Json


def equal(one: Json, two: Json) -> bool:
    """Equality between any two values. Values of unlike types are not equal; numbers of unlike types may be."""
    kind = type(one)
    if kind is type(two) and kind in _PLAIN:
        return bool(one == two)
    if kind in _NUMBERS and type(two) in _NUMBERS:
        return bool(one == two)
    if isinstance(one, (list, tuple, WrappedList)):
        return is_list(two) and _equal_lists(one, two)
    if isinstance(one, (dict, WrappedMap)):
        return is_map(two) and _equal_maps(one, two)
    if isinstance(one, Optional):
        return isinstance(two, Optional) and _equal_optionals(one, two)
    return isinstance(one, (Duration, Timestamp, TypeValue, Extension)) and bool(one == two)


_PLAIN = frozenset({str, int, Uint, bool, float, bytes, type(None)})
_NUMBERS = frozenset({int, Uint, float})


def _equal_lists(one: Json, two: Json) -> bool:
    if size_of(one) != size_of(two):
        return False
    if isinstance(one, WrappedList) and one.kind == "set":
        return all(contains(one, item) for item in items_of(two))
    if isinstance(one, WrappedList) and one.kind == "map":
        by_key = {one.key(item): item for item in one.items()}
        keyed = [(one.key(item), item) for item in items_of(two)]
        return all(key in by_key and equal(by_key[key], item) for key, item in keyed)
    return all(map(equal, items_of(one), items_of(two)))


def _equal_maps(one: Json, two: Json) -> bool:
    if size_of(one) != size_of(two):
        return False
    for key in range_of(one):
        other = find(two, key)
        if not other.present or not equal(lookup(one, key), other.value):
            return False
    return True


def _equal_optionals(one: Optional, two: Optional) -> bool:
    if one.present and two.present:
        return equal(one.value, two.value)
    return one.present == two.present


def contains(container: Json, value: Json) -> bool:
    """`value in container`."""
    if isinstance(container, (list, tuple)):
        if type(value) is str:
            return value in container
        return any(equal(value, item) for item in container)
    if isinstance(container, WrappedList):
        return any(equal(value, item) for item in container.items())
    return find(container, value).present


def compared(one: Json, two: Json) -> int:
    """-1, 0 or 1. CelError when the two have no order."""
    kind = type(one)
    if kind in _NUMBERS and type(two) in _NUMBERS:
        if one != one or two != two:
            raise CelError("NaN values cannot be ordered")
        return int(one > two) - int(one < two)
    if kind is not type(two):
        raise no_overload()
    if kind is Duration or kind is Timestamp:
        return int(one.nanos > two.nanos) - int(one.nanos < two.nanos)
    if kind is str or kind is bytes or kind is bool:
        return int(one > two) - int(one < two)
    raise no_overload()
