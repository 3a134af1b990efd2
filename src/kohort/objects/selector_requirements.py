"""One condition of a selector, and the rules that it must obey."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.objects import field_errors, names
from kohort.objects.field_errors import FieldError

EQUALS: Final = "="
DOUBLE_EQUALS: Final = "=="
NOT_EQUALS: Final = "!="
IN: Final = "in"
NOT_IN: Final = "notin"
EXISTS: Final = "exists"
DOES_NOT_EXIST: Final = "!"
GREATER: Final = "gt"
LESS: Final = "lt"

MEMBERSHIP: Final = frozenset({EQUALS, DOUBLE_EQUALS, IN})
_EXCLUSION: Final = frozenset({NOT_EQUALS, NOT_IN})
_OBJECT_OPERATORS: Final = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}
_NODE_OPERATORS: Final = _OBJECT_OPERATORS | {"Gt": GREATER, "Lt": LESS}
_SYMBOLS: Final = {GREATER: ">", LESS: "<"}


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One condition on one key."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        operator = self.operator
        if operator in MEMBERSHIP:
            return value is not None and _contains(self.values, value)
        if operator in _EXCLUSION:
            return value is None or not _contains(self.values, value)
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        return value is not None and _compares(operator, value, self.values)

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        joined = ",".join(sorted(self.values))
        if self.operator in (IN, NOT_IN):
            return f"{self.key} {self.operator} ({joined})"
        return f"{self.key}{_SYMBOLS.get(self.operator, self.operator)}{joined}"


_MANY_VALUES: Final = 16
"""More values than these are kept in order, to be found by bisection: each object of a list is compared with them."""


def _searchable(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(values)) if len(values) > _MANY_VALUES else values


def _contains(values: tuple[str, ...], value: str) -> bool:
    if len(values) <= _MANY_VALUES:
        return value in values
    place = bisect_left(values, value)
    return place < len(values) and values[place] == value


def checked_requirement(key: str, operator: str, values: Iterable[str]) -> Requirement:
    """A requirement that obeys the rules for keys and values; ValueError lists everything that is wrong."""
    given = tuple(values)
    problems = _key_problems("key", key) + _operator_problems(operator, given)
    for index, value in enumerate(given):
        wrong = names.label_value(value)
        if wrong:
            problems.append(field_errors.invalid(f"values[{index}][{key}]", value, "; ".join(wrong)))
    if problems:
        raise ValueError(_aggregate(problems))
    return Requirement(key, operator, _searchable(given))


def node_requirement(key: str, operator: str, values: Iterable[str]) -> Requirement | None:
    """One expression of a node selector term, or None if the API could not have accepted it (it matches nothing)."""
    known = _NODE_OPERATORS.get(operator)
    return None if known is None else Requirement(key, known, _searchable(tuple(values)))


def requirement_of_expression(key: str, operator: str, values: Iterable[str]) -> Requirement:
    known = _OBJECT_OPERATORS.get(operator)
    if known is None:
        raise ValueError(f'"{operator}" is not a valid label selector operator')
    return checked_requirement(key, known, values)


def _key_problems(field: str, key: str) -> list[FieldError]:
    wrong = names.qualified_name(key)
    return [field_errors.invalid(field, key, "; ".join(wrong))] if wrong else []


def _operator_problems(operator: str, values: tuple[str, ...]) -> list[FieldError]:
    shown = list(values)
    if operator in (IN, NOT_IN) and not values:
        return [field_errors.invalid("values", shown, "for 'in', 'notin' operators, values set can't be empty")]
    if operator in (EQUALS, DOUBLE_EQUALS, NOT_EQUALS) and len(values) != 1:
        return [field_errors.invalid("values", shown, "exact-match compatibility requires one single value")]
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        return [field_errors.invalid("values", shown, "values set must be empty for exists and does not exist")]
    if operator in (GREATER, LESS):
        return _comparison_problems(values)
    return []


def _comparison_problems(values: tuple[str, ...]) -> list[FieldError]:
    found: list[FieldError] = []
    if len(values) != 1:
        message = "for 'Gt', 'Lt' operators, exactly one value is required"
        found.append(field_errors.invalid("values", list(values), message))
    message = "for 'Gt', 'Lt' operators, the value must be an integer"
    for index, value in enumerate(values):
        if _integer(value) is None:
            found.append(field_errors.invalid(f"values[{index}]", value, message))
    return found


def _aggregate(problems: list[FieldError]) -> str:
    texts = list(dict.fromkeys(map(str, problems)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _compares(operator: str, value: str, bounds: tuple[str, ...]) -> bool:
    number, bound = _integer(value), _integer(bounds[0]) if len(bounds) == 1 else None
    if number is None or bound is None:
        return False
    return number > bound if operator == GREATER else number < bound


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 25):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
