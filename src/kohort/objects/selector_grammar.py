"""Selectors as text: the grammar of the `labelSelector` and `fieldSelector` query parameters."""

from typing import Final

from kohort.objects import field_errors, names
from kohort.objects.selector_requirements import (
    DOES_NOT_EXIST,
    DOUBLE_EQUALS,
    EQUALS,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NOT_EQUALS,
    NOT_IN,
    Requirement,
    checked_requirement,
)

# --- the text grammar of label selectors ---

_BLANKS: Final = " \t\r\n"
_SPECIAL: Final = "=!(),><"
_WORD: Final = "word"
_END: Final = "end"
_OPERATORS: Final = {
    "in": IN, "notin": NOT_IN, "=": EQUALS, "==": DOUBLE_EQUALS, "!=": NOT_EQUALS, ">": GREATER, "<": LESS,
}  # fmt: skip
_EXPECTED_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


def label_requirements(text: str) -> list[Requirement]:
    return _LabelParser(text).requirements()


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
            raise ValueError(str(field_errors.invalid("<nil>", key, "; ".join(wrong))))
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


def field_terms(text: str) -> list[tuple[str, str, bool]]:
    """(field, value, whether it must be equal) of every term that says anything, in order of their text."""
    found = [_field_term(text, term) for term in sorted(_split_terms(text)) if term]
    return [term for term in found if term[0] or term[1]]


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


def _field_term(selector: str, term: str) -> tuple[str, str, bool]:
    for position in range(len(term)):
        for operator in (NOT_EQUALS, DOUBLE_EQUALS, EQUALS):
            if term.startswith(operator, position):
                value = _unescaped(term[position + len(operator) :])
                return term[:position], value, operator != NOT_EQUALS
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
