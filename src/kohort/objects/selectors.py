"""Label and field selectors: the text grammar of query parameters, and the objects inside specs.

A selector is a conjunction of requirements, sorted by key, compiled once and matched often: every requirement is a
small frozen struct, and the frequent case (`key=value` only) is answered with dictionary look-ups alone.

Two selectors stand apart: `NOTHING` (a selector field that is absent) and `EVERYTHING` (one that is empty).
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.objects import field_errors, names
from kohort.objects.bounded_cache import remember_short
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.objects.selector_grammar import field_terms, label_requirements
from kohort.objects.selector_requirements import (
    EQUALS,
    MEMBERSHIP,
    Requirement,
    checked_requirement,
    node_requirement,
    requirement_of_expression,
)

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldRequirement",
    "FieldSelector",
    "LabelSelector",
    "Requirement",
    "checked_requirement",
    "escape_field_value",
    "label_errors",
    "node_requirement",
    "selector_errors",
]


class LabelSelector(msgspec.Struct, frozen=True, gc=False):
    """All requirements hold. `none` marks the selector that matches no object at all."""

    requirements: tuple[Requirement, ...] = ()
    none: bool = False

    @staticmethod
    def parse(text: str) -> "LabelSelector":
        """`a=b,c in (x,y),!d`; ValueError in the API's words."""
        return _parse_labels(text)

    @staticmethod
    def from_object(selector: JsonObject | None) -> "LabelSelector":
        """A LabelSelector field: None selects nothing, {} everything; ValueError if it is not valid."""
        if selector is None:
            return NOTHING
        labels: Mapping[str, str] = selector.get("matchLabels") or {}
        expressions: list[JsonObject] = selector.get("matchExpressions") or []
        found = [checked_requirement(key, EQUALS, (value,)) for key, value in labels.items()]
        found += [
            requirement_of_expression(entry.get("key", ""), entry.get("operator", ""), entry.get("values") or ())
            for entry in expressions
        ]
        return _selector(found)

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.none:
            return False
        given = labels or {}
        for requirement in self.requirements:
            if requirement.operator == EQUALS:
                if given.get(requirement.key) != requirement.values[0]:
                    return False
            elif not requirement.matches(given):
                return False
        return True

    @property
    def everything(self) -> bool:
        return not self.requirements and not self.none

    def exact(self, key: str) -> str | None:
        """The only value that this selector accepts under a key, if it demands one: worth an index look-up."""
        for requirement in self.requirements:
            if requirement.key == key:
                only_one = requirement.operator in MEMBERSHIP and len(requirement.values) == 1
                return requirement.values[0] if only_one else None
        return None

    def also(self, requirements: Iterable[Requirement]) -> "LabelSelector":
        return self if self.none else _selector((*self.requirements, *requirements))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def _selector(requirements: Iterable[Requirement]) -> LabelSelector:
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


@remember_short(4096)
def _parse_labels(text: str) -> LabelSelector:
    return _selector(label_requirements(text))


NOTHING: Final = LabelSelector(none=True)
EVERYTHING: Final = LabelSelector()


class FieldRequirement(msgspec.Struct, frozen=True, gc=False):
    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{escape_field_value(self.value)}"


class FieldSelector(msgspec.Struct, frozen=True, gc=False):
    """Conditions on the few fields of a kind that the server indexes. An unknown field reads as empty text."""

    requirements: tuple[FieldRequirement, ...] = ()

    @staticmethod
    def parse(text: str) -> "FieldSelector":
        """`spec.nodeName=n1,status.phase!=Failed`; ValueError in the API's words."""
        return FieldSelector(tuple(FieldRequirement(*term) for term in field_terms(text)))

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(
            (fields.get(requirement.field, "") == requirement.value) is requirement.equal
            for requirement in self.requirements
        )

    @property
    def everything(self) -> bool:
        return not self.requirements

    def exact(self, field: str) -> str | None:
        """The value that this selector demands of a field, if it does."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.equal:
                return requirement.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def escape_field_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def selector_errors(selector: JsonObject | None, field: str, *, allow_invalid_values: bool = False) -> list[FieldError]:
    """What is wrong with a LabelSelector field of an object."""
    if selector is None:
        return []
    found = label_errors(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        where = f"{field}.matchExpressions[{index}]"
        found += requirement_errors(expression, where, allow_invalid_values=allow_invalid_values)
    return found


def label_errors(labels: Mapping[str, str] | None, field: str) -> list[FieldError]:
    """What is wrong with a map of labels; all errors stand at the map, as the API reports them."""
    found: list[FieldError] = []
    for key, value in (labels or {}).items():
        found += [field_errors.invalid(field, key, message) for message in names.qualified_name(key)]
        found += [field_errors.invalid(field, value, message) for message in names.label_value(value)]
    return found


def requirement_errors(
    expression: JsonObject, field: str, *, allow_invalid_values: bool = False, allow_any_operator: bool = False
) -> list[FieldError]:
    """What is wrong with one requirement of a selector."""
    operator, values, key = expression.get("operator", ""), expression.get("values") or [], expression.get("key", "")
    found: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(field_errors.required(f"{field}.values", _VALUES_MISSING))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            found.append(field_errors.forbidden(f"{field}.values", _VALUES_FORBIDDEN))
    elif not allow_any_operator:
        found.append(field_errors.invalid(f"{field}.operator", operator, "not a valid selector operator"))
    found += [field_errors.invalid(f"{field}.key", key, message) for message in names.qualified_name(key)]
    if not allow_invalid_values:
        for index, value in enumerate(values):
            where = f"{field}.values[{index}]"
            found += [field_errors.invalid(where, value, message) for message in names.label_value(value)]
    return found


_VALUES_MISSING: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_VALUES_FORBIDDEN: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def selecting(labels: Mapping[str, str]) -> str:
    """The selector, as the parameter `labelSelector` has it, of objects that carry all of these labels.

    >>> selecting({"app": "llm", "tier": "gray"})
    'app=llm,tier=gray'
    """
    return ",".join(f"{key}={value}" for key, value in labels.items())
