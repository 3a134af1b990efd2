"""Label and field selectors: the text grammar of query parameters, and the objects inside specs.

A selector is a conjunction of requirements, sorted by key, compiled once and matched often: every requirement is a
small frozen struct, and the frequent case (`key=value` only) is answered with dictionary look-ups alone.

Two selectors stand apart: `NOTHING` (a selector field that is absent) and `EVERYTHING` (one that is empty).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from kohort.objects import fielderrors, names
from kohort.objects.fielderrors import FieldError
from kohort.objects.jsontypes import JsonObject

EQUALS: Final = "="
DOUBLE_EQUALS: Final = "=="
NOT_EQUALS: Final = "!="
IN: Final = "in"
NOT_IN: Final = "notin"
EXISTS: Final = "exists"
DOES_NOT_EXIST: Final = "!"
GREATER: Final = "gt"
LESS: Final = "lt"

_MEMBERSHIP: Final = frozenset({EQUALS, DOUBLE_EQUALS, IN})
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
        if operator in _MEMBERSHIP:
            return value is not None and value in self.values
        if operator in _EXCLUSION:
            return value is None or value not in self.values
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
            _from_expression(entry.get("key", ""), entry.get("operator", ""), entry.get("values") or ())
            for entry in expressions
        ]
        return _selector(found)

    @staticmethod
    def from_labels(labels: Mapping[str, str] | None) -> "LabelSelector":
        """Exactly these labels, unchecked: the plain-map selectors of Service and ReplicationController."""
        return _selector(Requirement(key, EQUALS, (value,)) for key, value in (labels or {}).items())

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
                only_one = requirement.operator in _MEMBERSHIP and len(requirement.values) == 1
                return requirement.values[0] if only_one else None
        return None

    def also(self, requirements: Iterable[Requirement]) -> "LabelSelector":
        return self if self.none else _selector((*self.requirements, *requirements))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def _selector(requirements: Iterable[Requirement]) -> LabelSelector:
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


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
        terms = sorted(part for part in _split_terms(text) if part)
        found = [_field_requirement(text, term) for term in terms]
        return FieldSelector(tuple(requirement for requirement in found if requirement.field or requirement.value))

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


def checked_requirement(key: str, operator: str, values: Iterable[str]) -> Requirement:
    """A requirement that obeys the rules for keys and values; ValueError lists everything that is wrong."""
    given = tuple(values)
    problems = _key_problems("key", key) + _operator_problems(operator, given)
    for index, value in enumerate(given):
        wrong = names.label_value(value)
        if wrong:
            problems.append(fielderrors.invalid(f"values[{index}][{key}]", value, "; ".join(wrong)))
    if problems:
        raise ValueError(_aggregate(problems))
    return Requirement(key, operator, given)


def node_requirement(key: str, operator: str, values: Iterable[str]) -> Requirement | None:
    """One expression of a node selector term, or None if the API could not have accepted it (it matches nothing)."""
    known = _NODE_OPERATORS.get(operator)
    return None if known is None else Requirement(key, known, tuple(values))


def selector_errors(selector: JsonObject | None, field: str, *, allow_invalid_values: bool = False) -> list[FieldError]:
    """What is wrong with a LabelSelector field of an object."""
    if selector is None:
        return []
    found = label_errors(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        found += _expression_errors(expression, f"{field}.matchExpressions[{index}]", allow_invalid_values)
    return found


def label_errors(labels: Mapping[str, str] | None, field: str) -> list[FieldError]:
    """What is wrong with a map of labels; all errors stand at the map, as the API reports them."""
    found: list[FieldError] = []
    for key, value in (labels or {}).items():
        found += [fielderrors.invalid(field, key, message) for message in names.qualified_name(key)]
        found += [fielderrors.invalid(field, value, message) for message in names.label_value(value)]
    return found


def _expression_errors(expression: JsonObject, field: str, allow_invalid_values: bool) -> list[FieldError]:
    operator, values, key = expression.get("operator", ""), expression.get("values") or [], expression.get("key", "")
    found: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(fielderrors.required(f"{field}.values", _VALUES_MISSING))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            found.append(fielderrors.forbidden(f"{field}.values", _VALUES_FORBIDDEN))
    else:
        found.append(fielderrors.invalid(f"{field}.operator", operator, "not a valid selector operator"))
    found += [fielderrors.invalid(f"{field}.key", key, message) for message in names.qualified_name(key)]
    if not allow_invalid_values:
        for index, value in enumerate(values):
            where = f"{field}.values[{index}]"
            found += [fielderrors.invalid(where, value, message) for message in names.label_value(value)]
    return found


_VALUES_MISSING: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_VALUES_FORBIDDEN: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def _from_expression(key: str, operator: str, values: Iterable[str]) -> Requirement:
    known = _OBJECT_OPERATORS.get(operator)
    if known is None:
        raise ValueError(f'"{operator}" is not a valid label selector operator')
    return checked_requirement(key, known, values)


def _key_problems(field: str, key: str) -> list[FieldError]:
    wrong = names.qualified_name(key)
    return [fielderrors.invalid(field, key, "; ".join(wrong))] if wrong else []


def _operator_problems(operator: str, values: tuple[str, ...]) -> list[FieldError]:
    shown = list(values)
    if operator in (IN, NOT_IN) and not values:
        return [fielderrors.invalid("values", shown, "for 'in', 'notin' operators, values set can't be empty")]
    if operator in (EQUALS, DOUBLE_EQUALS, NOT_EQUALS) and len(values) != 1:
        return [fielderrors.invalid("values", shown, "exact-match compatibility requires one single value")]
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        return [fielderrors.invalid("values", shown, "values set must be empty for exists and does not exist")]
    if operator in (GREATER, LESS):
        return _comparison_problems(values)
    return []


def _comparison_problems(values: tuple[str, ...]) -> list[FieldError]:
    found: list[FieldError] = []
    if len(values) != 1:
        message = "for 'Gt', 'Lt' operators, exactly one value is required"
        found.append(fielderrors.invalid("values", list(values), message))
    message = "for 'Gt', 'Lt' operators, the value must be an integer"
    for index, value in enumerate(values):
        if _integer(value) is None:
            found.append(fielderrors.invalid(f"values[{index}]", value, message))
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


# --- the text grammar of label selectors ---

_BLANKS: Final = " \t\r\n"
_SPECIAL: Final = "=!(),><"
_WORD: Final = "word"
_END: Final = "end"
_OPERATORS: Final = {
    "in": IN, "notin": NOT_IN, "=": EQUALS, "==": DOUBLE_EQUALS, "!=": NOT_EQUALS, ">": GREATER, "<": LESS,
}  # fmt: skip
_EXPECTED_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


@lru_cache(maxsize=4096)
def _parse_labels(text: str) -> LabelSelector:
    return _selector(_LabelParser(text).requirements())


class _LabelParser:
    """Recursive descent over the tokens; a token is (kind, text) where the kind of a symbol is the symbol."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.position = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            kind, text = self.peek()
            if kind == _END:
                return found
            if kind not in (_WORD, "!"):
                raise ValueError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self.requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            kind, text = self.take()
            if kind == _END:
                return found
            if kind != ",":
                raise ValueError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self.peek()
            if kind not in (_WORD, "!"):
                raise ValueError(f"found '{text}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        kind, key = self.take()
        negated = kind == "!"
        if negated:
            kind, key = self.take()
        if kind != _WORD:
            raise ValueError(f"found '{key}', expected: identifier")
        wrong = names.qualified_name(key)
        if wrong:
            raise ValueError(str(fielderrors.invalid("<nil>", key, "; ".join(wrong))))
        if negated:
            return checked_requirement(key, DOES_NOT_EXIST, ())
        if self.peek()[0] in (_END, ","):
            return checked_requirement(key, EXISTS, ())
        operator = self.operator()
        values = self.value_set() if operator in (IN, NOT_IN) else self.exact_value()
        return checked_requirement(key, operator, values)

    def operator(self) -> str:
        kind, text = self.tokens[self.position]
        self.position += 1
        symbol = text if kind == _WORD else kind
        operator = _OPERATORS.get(symbol)
        if operator is None:
            raise ValueError(f"found '{text}', expected: {_EXPECTED_OPERATORS}")
        return operator

    def value_set(self) -> list[str]:
        kind, text = self.take()
        if kind != "(":
            raise ValueError(f"found '{text}' expected: '('")
        kind, text = self.peek()
        if kind == ")":
            self.take()
            return [""]
        if kind not in (_WORD, ","):
            raise ValueError(f"found '{text}', expected: ',', ')' or identifier")
        values = self.identifiers()
        if self.take()[0] != ")":
            raise ValueError(f"found '{text}', expected: ')'")
        return sorted(values)

    def identifiers(self) -> set[str]:
        """Comma separated; an empty place between commas or parentheses is the empty value."""
        values: set[str] = set()
        while True:
            kind, text = self.take()
            following, following_text = self.peek()
            if kind == _WORD:
                values.add(text)
                if following == ")":
                    return values
                if following != ",":
                    raise ValueError(f"found '{following_text}', expected: ',' or ')'")
            elif kind == ",":
                if not values or following in (")", ","):
                    values.add("")
                if following == ")":
                    return values
            else:
                raise ValueError(f"found '{text}', expected: ',', or identifier")

    def exact_value(self) -> list[str]:
        if self.peek()[0] in (_END, ","):
            return [""]
        kind, text = self.take()
        if kind != _WORD:
            raise ValueError(f"found '{text}', expected: identifier")
        return [text]

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position]

    def take(self) -> tuple[str, str]:
        token = self.tokens[self.position]
        if token[0] != _END:
            self.position += 1
        return token


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character in _BLANKS:
            position += 1
            continue
        end = position + 1
        if character in _SPECIAL:
            if text[position : position + 2] in ("==", "!="):
                end += 1
            symbol = text[position:end]
            tokens.append((symbol, symbol))
        else:
            while end < len(text) and text[end] not in _SPECIAL and text[end] not in _BLANKS:
                end += 1
            tokens.append((_WORD, text[position:end]))
        position = end
    tokens.append((_END, ""))
    return tokens


# --- the text grammar of field selectors ---


def _split_terms(text: str) -> list[str]:
    terms, start, escaped = [], 0, False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            terms.append(text[start:position])
            start = position + 1
    terms.append(text[start:])
    return terms


def _field_requirement(selector: str, term: str) -> FieldRequirement:
    for position in range(len(term)):
        for operator in (NOT_EQUALS, DOUBLE_EQUALS, EQUALS):
            if term.startswith(operator, position):
                value = _unescaped(term[position + len(operator) :])
                return FieldRequirement(term[:position], value, operator != NOT_EQUALS)
    raise ValueError(f"invalid selector: '{selector}'; can't understand '{term}'")


def _unescaped(value: str) -> str:
    plain: list[str] = []
    escaped = False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise ValueError(f"invalid field selector: invalid escape sequence: \\{character}")
            plain.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            plain.append(character)
    if escaped:
        raise ValueError("invalid field selector: invalid escape sequence: \\")
    return "".join(plain)
