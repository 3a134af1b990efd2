"""Comprehensions as Python loops."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.lists import sorted_by
from kohort.cluster.apiserver.cel.logic import Closure, Frame, settle
from kohort.cluster.apiserver.cel.syntax import ComprehensionKind
from kohort.cluster.apiserver.cel.values import map_key, no_overload, pairs_of, range_of
from kohort.objects.json_types import Json


@dataclass(frozen=True, slots=True)
class Loop:
    kind: ComprehensionKind
    over: Closure
    raw: bool
    """The range is JSON below a schema; elements stay that way."""
    weight: int
    """Cost of one round."""
    first: int
    second: int
    """Slots of the loop variables; `second` is 0 in the one-variable forms."""
    condition: Closure | None
    key: Closure | None
    body: Closure
    keep: Callable[[Json], Json] | None
    """How an element becomes a value when it is part of the result."""


def slot_reader(position: int) -> Closure:
    return lambda v: v[position]


def loop_closure(loop: Loop) -> Closure:
    rounds = _one_variable_rounds(loop) if not loop.second else _two_variable_rounds(loop)
    match loop.kind:
        case "all":
            return _quantified(rounds, loop.body, deciding=False)
        case "exists":
            return _quantified(rounds, loop.body, deciding=True)
        case "exists_one":
            return _exists_one(rounds, loop.body)
        case "filter":
            return _filter(loop)
        case "map" | "transformList":
            return _map(rounds, loop)
        case "transformMap" | "transformMapEntry":
            return _transform_map(rounds, loop)
        case "sortBy":
            return _sort_by(loop)


Rounds: TypeAlias = Callable[[Frame], "Sequence[Json]"]
"""Prepares a loop: charges for it and says what the slots take on in each round."""


def _elements(loop: Loop, v: Frame) -> Sequence[Json]:
    container = loop.over(v)
    items = container if type(container) is list else range_of(container)
    v[0].charge(len(items) * loop.weight)
    return items


def _one_variable_rounds(loop: Loop) -> Callable[[Frame], "list[Json]"]:
    first = loop.first

    def rounds(v: Frame) -> list[Json]:
        return [first, _elements(loop, v)]

    return rounds


def _two_variable_rounds(loop: Loop) -> Callable[[Frame], "list[Json]"]:
    def rounds(v: Frame) -> list[Json]:
        container = loop.over(v)
        pairs = pairs_of(container)
        v[0].charge(len(pairs) * loop.weight)
        return [slice(loop.first, loop.second + 1), pairs]

    return rounds


def _quantified(rounds: Rounds, body: Closure, deciding: bool) -> Closure:
    def terms(v: Frame) -> Iterator[Closure]:
        slot, items = rounds(v)
        for item in items:
            v[slot] = item
            yield body

    return lambda v: settle(v, terms(v), deciding)


def _exists_one(rounds: Rounds, body: Closure) -> Closure:
    def one(v: Frame) -> bool:
        slot, items = rounds(v)
        count = 0
        for item in items:
            v[slot] = item
            count += _truth(body(v))
        return count == 1

    return one


def _filter(loop: Loop) -> Closure:
    first, body, keep = loop.first, loop.body, loop.keep

    def chosen(v: Frame) -> list[Json]:
        kept: list[Json] = []
        for item in _elements(loop, v):
            v[first] = item
            if _truth(body(v)):
                kept.append(item if keep is None else keep(item))
        return kept

    return chosen


def _map(rounds: Rounds, loop: Loop) -> Closure:
    body, condition = loop.body, loop.condition

    def mapped(v: Frame) -> list[Json]:
        slot, items = rounds(v)
        results: list[Json] = []
        for item in items:
            v[slot] = item
            if condition is None or _truth(condition(v)):
                results.append(body(v))
        return results

    return mapped


def _transform_map(rounds: Rounds, loop: Loop) -> Closure:
    first, key, body, condition = loop.first, loop.key, loop.body, loop.condition

    def transformed(v: Frame) -> dict[Json, Json]:
        slot, items = rounds(v)
        results: dict[Json, Json] = {}
        for item in items:
            v[slot] = item
            if condition is not None and not _truth(condition(v)):
                continue
            name = map_key(v[first] if key is None else key(v))
            if name in results:
                raise CelError(f"insert failed: key {name} already exists")
            results[name] = body(v)
        return results

    return transformed


def _sort_by(loop: Loop) -> Closure:
    first, body, keep = loop.first, loop.body, loop.keep

    def ordered(v: Frame) -> list[Json]:
        items = _elements(loop, v)
        keys: list[Json] = []
        for item in items:
            v[first] = item
            keys.append(body(v))
        return sorted_by([item if keep is None else keep(item) for item in items], keys)

    return ordered


def _truth(value: Json) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_overload()
