"""Optional values. `or` and `orValue` evaluate their argument only when needed; the compiler sees to that."""

from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.functions.standard import unreachable
from kohort.cluster.apiserver.cel.values import (
    NONE,
    Duration,
    Optional,
    Timestamp,
    Uint,
    find,
    is_list,
    is_map,
    items_of,
    list_index,
    no_overload,
    size_of,
)
from kohort.objects.json_types import Json


def is_zero(value: Json) -> bool:
    if value is None or value is False:
        return True
    if isinstance(value, (int, Uint, float)):
        return value == 0
    if isinstance(value, (Duration,)):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        return False
    if isinstance(value, (str, bytes)) or is_list(value) or is_map(value):
        return size_of(value) == 0
    return False


def of_non_zero(value: Json) -> Optional:
    return NONE if is_zero(value) else Optional(value)


def optional_index(container: Json, key: Json) -> Optional:
    """`container[?key]`; an optional container stays optional."""
    if isinstance(container, Optional):
        return optional_index(container.value, key) if container.present else NONE
    if is_map(container):
        return find(container, key)
    if is_list(container):
        position = list_index(key)
        items = items_of(container)
        return Optional(items[position]) if 0 <= position < len(items) else NONE
    raise no_overload()


def first(items: Json) -> Optional:
    elements = items_of(items)
    return Optional(elements[0]) if elements else NONE


def last(items: Json) -> Optional:
    elements = items_of(items)
    return Optional(elements[-1]) if elements else NONE


def present_values(items: Json) -> list[Json]:
    return [item.value for item in items_of(items) if item.present]


LIBRARY = Library(
    (
        Function("optional.of(A): optional<A>", Optional),
        Function("optional.ofNonZeroValue(A): optional<A>", of_non_zero),
        Function("optional.none(): optional<A>", lambda: NONE),
        Function("optional.unwrap(list<optional<A>>): list<A>", present_values),
        Function("list<optional<A>>::unwrapOpt(): list<A>", present_values),
        Function("optional<A>::value(): A", lambda optional: optional.value),
        Function("optional<A>::hasValue(): bool", lambda optional: optional.present),
        Function("optional<A>::or(optional<A>): optional<A>", unreachable),
        Function("optional<A>::orValue(A): A", unreachable),
        Function("_[?_](list<A>, int): optional<A>", optional_index),
        Function("_[?_](optional<list<A>>, int): optional<A>", optional_index),
        Function("_[?_](map<A, B>, A): optional<B>", optional_index),
        Function("_[?_](optional<map<A, B>>, A): optional<B>", optional_index),
        Function("_[_](optional<list<A>>, int): optional<A>", optional_index),
        Function("_[_](optional<map<A, B>>, A): optional<B>", optional_index),
        Function("list<A>::first(): optional<A>", first),
        Function("list<A>::last(): optional<A>", last),
    )
)
