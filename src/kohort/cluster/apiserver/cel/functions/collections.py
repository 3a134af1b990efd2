"""Lists as sets: `sets.contains`, `sets.equivalent`, `sets.intersects`."""

from kohort.cluster.apiserver.cel.equality import contains
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.values import items_of, size_of
from kohort.objects.json_types import Json


def holds_all(whole: Json, part: Json) -> bool:
    return all(contains(whole, item) for item in items_of(part))


def equivalent(one: Json, two: Json) -> bool:
    return holds_all(one, two) and holds_all(two, one)


def intersects(one: Json, two: Json) -> bool:
    return any(contains(two, item) for item in items_of(one))


def product_cost(one: Json, two: Json) -> int:
    return size_of(one) * size_of(two)


def double_product_cost(one: Json, two: Json) -> int:
    return 2 * product_cost(one, two)


LIBRARY = Library(
    (
        Function("sets.contains(list<T>, list<T>): bool", holds_all, product_cost),
        Function("sets.equivalent(list<T>, list<T>): bool", equivalent, double_product_cost),
        Function("sets.intersects(list<T>, list<T>): bool", intersects, product_cost),
    )
)
