"""The cost limits of validation rules.

| what | limit |
|------|-------|
| one rule, for all the places of an object where it can apply | 10 million |
| all rules of a schema together | 100 million |

A rule below a list or map without a limit is counted as often as its smallest value fits into a request.
"""

from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.cel import Program
from kohort.cluster.apiserver.cel.amounts import capped
from kohort.cluster.apiserver.cel.estimate import worst_case
from kohort.cluster.apiserver.cel.sizes import ValueExtent
from kohort.objects.field_errors import FieldError, forbidden

PER_RULE: Final = 10_000_000
PER_SCHEMA: Final = 100_000_000
_SHOWN: Final = 4
_ADVICE: Final = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings "
    "are declared"
)


class RuleCosts:
    """Adds up what the rules of one schema can cost."""

    def __init__(self) -> None:
        self._total = 0
        self._largest: list[tuple[int, str]] = []

    def rule(self, field: str, program: Program, extent: ValueExtent, occurrences: int | None) -> Iterator[FieldError]:
        times = extent.repetitions if occurrences is None else occurrences
        cost = capped(worst_case(program.tree, extent) * times)
        yield from self._judged(field, cost, "estimated rule cost")

    def message(self, field: str, program: Program, extent: ValueExtent) -> Iterator[FieldError]:
        yield from self._judged(field, worst_case(program.tree, extent), "estimated messageExpression cost")

    def _judged(self, field: str, cost: int, what: str) -> Iterator[FieldError]:
        self._total = capped(self._total + cost)
        if cost >= PER_SCHEMA // 100:
            self._largest.append((cost, field))
        if cost > PER_RULE:
            yield forbidden(field, _exceeded(what, cost, PER_RULE))

    def total_errors(self, path: str) -> list[FieldError]:
        """Whether all together are too much, and which of them most of all."""
        if self._total <= PER_SCHEMA:
            return []
        largest = sorted(self._largest, key=lambda entry: -entry[0])[:_SHOWN]
        detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found = [forbidden(field, detail) for _, field in largest]
        return [*found, forbidden(path, _exceeded(what, self._total, PER_SCHEMA))]


def _exceeded(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    elif factor < 1.5:
        shown = f"{factor:f}x"
    else:
        shown = f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} ({_ADVICE})"
