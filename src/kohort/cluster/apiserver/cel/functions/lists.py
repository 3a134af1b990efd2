"""Functions on lists: those of Kubernetes (`isSorted`, `sum`, ...) and the list extension (`slice`, `sort`, ...)."""

from functools import cmp_to_key
from itertools import pairwise

from kohort.cluster.apiserver.cel.equality import compared, equal
from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.arithmetic import add_durations, add_ints, add_uints
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.values import Duration, Uint, is_list, items_of, no_overload, size_of, type_name
from kohort.objects.json_types import Json

COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def is_sorted(items: Json) -> bool:
    elements = items_of(items)
    return all(compared(one, two) <= 0 for one, two in pairwise(elements))


def sum_ints(items: Json) -> int:
    total = 0
    for item in items_of(items):
        if type(item) is not int:
            raise no_overload()
        total = add_ints(total, item)
    return total


def sum_uints(items: Json) -> Uint:
    total = Uint(0)
    for item in items_of(items):
        total = add_uints(total, item)
    return total


def sum_doubles(items: Json) -> float:
    total = 0.0
    for item in items_of(items):
        total += item
    return total


def sum_durations(items: Json) -> Duration:
    total = Duration(0)
    for item in items_of(items):
        total = add_durations(total, item)
    return total


def minimum(items: Json) -> Json:
    return _extreme(items, "min", 1)


def maximum(items: Json) -> Json:
    return _extreme(items, "max", -1)


def _extreme(items: Json, name: str, worse: int) -> Json:
    elements = items_of(items)
    if not elements:
        raise CelError(f"{name} called on empty list")
    best = elements[0]
    for item in elements[1:]:
        if compared(best, item) == worse:
            best = item
    return best


def index_of(items: Json, value: Json) -> int:
    return next((place for place, item in enumerate(items_of(items)) if equal(item, value)), -1)


def last_index_of(items: Json, value: Json) -> int:
    elements = items_of(items)
    return next((place for place in range(len(elements) - 1, -1, -1) if equal(elements[place], value)), -1)


def cut(items: Json, start: int, end: int) -> Json:
    elements = items_of(items)
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(elements) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return list(elements[start:end])


def flatten(items: Json, depth: int = 1) -> list[Json]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Json] = []
    for item in items_of(items):
        if depth and is_list(item):
            flat.extend(flatten(item, depth - 1))
        else:
            flat.append(item)
    return flat


def sort(items: Json) -> Json:
    elements = items_of(items)
    return sorted_by(elements, elements)


def sorted_by(items: Json, keys: Json) -> list[Json]:
    """Elements in the order of their keys, which must be of one type."""
    if keys and any(type_name(key) != type_name(keys[0]) for key in keys):
        raise CelError("list elements must have the same type")
    order = sorted(range(len(keys)), key=cmp_to_key(lambda one, two: compared(keys[one], keys[two])))
    return [items[place] for place in order]


def distinct(items: Json) -> list[Json]:
    kept: list[Json] = []
    texts: set[str] = set()
    for item in items_of(items):
        if type(item) is str:
            if item not in texts:
                texts.add(item)
                kept.append(item)
        elif not any(equal(item, other) for other in kept):
            kept.append(item)
    return kept


def numbers_below(count: int) -> list[int]:
    return list(range(count))


def reverse(items: Json) -> Json:
    return list(reversed(items_of(items)))


def length_cost(items: Json, *_: Json) -> int:
    return size_of(items)


def square_cost(items: Json) -> int:
    return size_of(items) ** 2


def flatten_cost(items: Json, depth: int = 1) -> int:
    return sum(1 + (size_of(item) if is_list(item) else 0) for item in items_of(items))


def _for_each(template: str, *kinds: str) -> list[str]:
    return [template.replace("T", kind) for kind in kinds]


LIBRARY = Library(
    (
        *(Function(line, is_sorted, length_cost) for line in _for_each("list<T>::isSorted(): bool", *COMPARABLE)),
        Function("list<int>::sum(): int", sum_ints, length_cost),
        Function("list<uint>::sum(): uint", sum_uints, length_cost),
        Function("list<double>::sum(): double", sum_doubles, length_cost),
        Function("list<duration>::sum(): duration", sum_durations, length_cost),
        *(Function(line, minimum, length_cost) for line in _for_each("list<T>::min(): T", *COMPARABLE)),
        *(Function(line, maximum, length_cost) for line in _for_each("list<T>::max(): T", *COMPARABLE)),
        Function("list<A>::indexOf(A): int", index_of, length_cost),
        Function("list<A>::lastIndexOf(A): int", last_index_of, length_cost),
        Function("list<A>::slice(int, int): list<A>", cut, length_cost),
        Function("list<list<A>>::flatten(): list<A>", flatten, flatten_cost),
        Function("list<dyn>::flatten(int): list<dyn>", flatten, flatten_cost),
        *(Function(line, sort, length_cost) for line in _for_each("list<T>::sort(): list<T>", *COMPARABLE)),
        Function("list<A>::distinct(): list<A>", distinct, square_cost),
        Function("lists.range(int): list<int>", numbers_below, lambda count: max(0, count)),
        Function("list<A>::reverse(): list<A>", reverse, length_cost),
    )
)
