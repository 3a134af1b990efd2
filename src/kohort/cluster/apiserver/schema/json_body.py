"""JSON bodies: decoded fast, and looked at closely only when something is suspicious.

Strict field validation must report duplicate keys, which a fast decoder silently drops. Instead of decoding slowly
every time, the decoded value is compared with the body: encoded again it has the same length unless the client writes
spaces or escapes differently; failing that, it has as many `":` as the body, which is what every key ends with. Only
when both disagree is the body read again by `_Scanner`, which knows duplicates and, for bodies that are not JSON at
all, says so in the words of Go's decoder.
"""

import json
import math
import re
from typing import Final, NoReturn

import msgspec

from kohort.cluster.apiserver.schema import document_limits
from kohort.objects.json_types import Json, JsonObject

_SPACE_BEFORE_COLON: Final = re.compile(rb'"\s+:')
_WHITESPACE: Final = re.compile(r"[ \t\r\n]*")
_ORDINARY: Final = re.compile(r'[^"\\\x00-\x1f]*')
"""Characters of a string that mean themselves."""
_LONG_NUMBER: Final = 400
"""Digits beyond which an integer is beyond the range of a float, too."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_INT64: Final = 2**63


MAX_DUPLICATES: Final = 100
"""Keys set twice that are reported of one body, as many as upstream reports."""
LONG_KEY: Final = 256
"""Keys above a duplicate are cut after so many characters."""


class SyntaxFault(ValueError):
    """The text is not JSON; the message is Go's."""


def decode(body: bytes) -> Json:
    """The value of a JSON text, within the limits of depth and size. Raises SyntaxFault."""
    try:
        value: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value, _ = _Scanner(body.decode("utf-8", "replace"), merge=True).read()
    except RecursionError:
        raise SyntaxFault("exceeded max depth") from None
    try:
        document_limits.check_text(body, value)
    except document_limits.ExcessiveDocument as excess:
        raise SyntaxFault(str(excess)) from None
    return value


def duplicates(body: bytes, value: Json, *, merge: bool) -> tuple[Json, list[str]]:
    """The paths of keys that occur more than once, and the value as Go decodes it then.

    `merge`: the later of two objects is decoded into the earlier one, as it happens with typed objects.
    """
    again = msgspec.json.encode(value)
    if len(again) == len(body.strip()) or _has_all_keys(body, again):
        return value, []
    return _Scanner(body.decode("utf-8", "replace"), merge=merge).read()


def _has_all_keys(body: bytes, again: bytes) -> bool:
    """Whether two texts of the same value have the same keys. Quotes must be written alike and stand at the colon."""
    if body.count(b'":') != again.count(b'":') or b"\\u0022" in body:
        return False
    return _SPACE_BEFORE_COLON.search(body) is None


class _Scanner:
    """A plain recursive reader of JSON that keeps track of where it is."""

    def __init__(self, text: str, *, merge: bool) -> None:
        self.text = text
        self.position = 0
        self.merge = merge
        self.path: list[str] = []
        self.duplicates: list[str] = []

    def read(self) -> tuple[Json, list[str]]:
        value = self._value("looking for beginning of value")
        self._skip_space()
        if self.position < len(self.text):
            self._refuse("after top-level value")
        return value, self.duplicates

    def _skip_space(self) -> None:
        blank = _WHITESPACE.match(self.text, self.position)
        assert blank is not None
        self.position = blank.end()

    def _refuse(self, context: str) -> NoReturn:
        if self.position >= len(self.text):
            raise SyntaxFault("unexpected end of JSON input")
        raise SyntaxFault(f"invalid character {_quoted(self.text[self.position])} {context}")

    def _value(self, context: str) -> Json:
        self._skip_space()
        character = self.text[self.position : self.position + 1]
        if character == "{":
            return self._object()
        if character == "[":
            return self._array()
        if character == '"':
            return self._string()
        if character == "-" or character.isdigit():
            return self._number()
        for word, value in (("true", True), ("false", False), ("null", None)):
            if character == word[0]:
                return self._word(word, value)
        self._refuse(context)

    def _word(self, word: str, value: Json) -> Json:
        for expected in word:
            if self.text[self.position : self.position + 1] != expected:
                self._refuse(f"in literal {word} (expecting '{expected}')")
            self.position += 1
        return value

    def _number(self) -> Json:
        match = _NUMBER.match(self.text, self.position)
        if match is None or self._number_goes_on(match.end()):
            self._refuse_number()
        self.position = match.end()
        literal = match.group()
        if literal.lstrip("-").isdigit() and len(literal) <= _LONG_NUMBER:
            return int(literal)
        number = float(literal)
        if math.isinf(number):
            raise SyntaxFault(f"json: cannot unmarshal number {_shortened(literal)} into Go value of type float64")
        return number

    def _number_goes_on(self, end: int) -> bool:
        return self.text[end : end + 1] in {".", "e", "E"}

    def _refuse_number(self) -> NoReturn:
        digits = re.compile(r"-?(?:0|[1-9]\d*)?", re.ASCII).match(self.text, self.position)
        assert digits is not None
        self.position = digits.end()
        if not digits.group() or digits.group() == "-":
            self._refuse("in numeric literal")
        if self.text[self.position : self.position + 1] == ".":
            self.position += 1
            fraction = re.compile(r"\d*", re.ASCII).match(self.text, self.position)
            assert fraction is not None
            if not fraction.group():
                self._refuse("after decimal point in numeric literal")
            self.position = fraction.end()
        self.position += 1
        if self.text[self.position : self.position + 1] in {"+", "-"}:
            self.position += 1
        self._refuse("in exponent of numeric literal")

    def _string(self) -> str:
        start = self.position
        position = start + 1
        text = self.text
        while True:
            ordinary = _ORDINARY.match(text, position)
            assert ordinary is not None
            position = ordinary.end()
            character = text[position : position + 1]
            if character == '"':
                break
            if character == "\\":
                position = self._escape(position + 1)
                continue
            self.position = position
            self._refuse("in string literal")
        self.position = position + 1
        value: str = json.loads(text[start : self.position], strict=False)
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _escape(self, position: int) -> int:
        character = self.text[position : position + 1]
        if character == "u":
            for offset in range(1, 5):
                digit = self.text[position + offset : position + offset + 1]
                if not digit or digit not in "0123456789abcdefABCDEF":
                    self.position = position + offset
                    self._refuse("in \\u hexadecimal character escape")
            return position + 5
        if not character or character not in '"\\/bfnrt':
            self.position = position
            self._refuse("in string escape code")
        return position + 1

    def _array(self) -> list[Json]:
        self.position += 1
        items: list[Json] = []
        self._skip_space()
        if self.text[self.position : self.position + 1] == "]":
            self.position += 1
            return items
        while True:
            self._enter(f"[{len(items)}]")
            items.append(self._value("looking for beginning of value"))
            self.path.pop()
            if self._ends("]", "after array element"):
                return items

    def _object(self) -> JsonObject:
        self.position += 1
        fields: JsonObject = {}
        self._skip_space()
        if self.text[self.position : self.position + 1] == "}":
            self.position += 1
            return fields
        while True:
            self._skip_space()
            if self.text[self.position : self.position + 1] != '"':
                self._refuse("looking for beginning of object key string")
            key = self._string()
            self._skip_space()
            if self.text[self.position : self.position + 1] != ":":
                self._refuse("after object key")
            self.position += 1
            self._enter(key)
            self._set(fields, key, self._value("looking for beginning of value"))
            self.path.pop()
            if self._ends("}", "after object key:value pair"):
                return fields

    def _enter(self, part: str) -> None:
        if len(self.path) >= document_limits.MAX_DEPTH:
            raise SyntaxFault("exceeded max depth")
        self.path.append(part)

    def _ends(self, closing: str, context: str) -> bool:
        self._skip_space()
        character = self.text[self.position : self.position + 1]
        if character not in (",", closing) or not character:
            self._refuse(context)
        self.position += 1
        return character == closing

    def _set(self, fields: JsonObject, key: str, value: Json) -> None:
        if key in fields:
            if len(self.duplicates) < MAX_DUPLICATES:
                self.duplicates.append(f'duplicate field "{_dotted(self.path)}"')
            if self.merge and type(value) is dict and type(fields[key]) is dict:
                _merge(fields[key], value)
                return
        fields[key] = value


def _merge(earlier: JsonObject, later: JsonObject) -> None:
    for key, value in later.items():
        if type(value) is dict and type(earlier.get(key)) is dict:
            _merge(earlier[key], value)
        else:
            earlier[key] = value


def _shortened(literal: str) -> str:
    return literal if len(literal) <= _LONG_NUMBER else f"{literal[:20]}..."


def _dotted(path: list[str]) -> str:
    above = [part[:LONG_KEY] for part in path[:-1]]
    return ".".join([*above, *path[-1:]]).replace(".[", "[")


def _quoted(character: str) -> str:
    """A character as Go's `%q`-like quoting shows it in a syntax error."""
    if character == "'":
        return r"'\''"
    if character == '"':
        return "'\"'"
    escapes = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\"}
    if character in escapes:
        return f"'{escapes[character]}'"
    return f"'{character}'" if character.isprintable() else f"'\\x{ord(character):02x}'"


def normal_numbers(value: Json) -> Json:
    """Numbers of untyped objects as Go keeps them: whole floats lose their point, what exceeds 64 bits its precision.

    Containers are changed in place; the value itself is returned for the sake of scalars.
    """
    kind = type(value)
    if kind is int:
        return value if -_INT64 <= value < _INT64 else _whole(float(value))
    if kind is float:
        return _whole(value)
    if kind is dict:
        for key, inner in value.items():
            if type(inner) in _NUMBER_HOLDERS:
                value[key] = normal_numbers(inner)
    elif kind is list:
        for index, inner in enumerate(value):
            if type(inner) in _NUMBER_HOLDERS:
                value[index] = normal_numbers(inner)
    return value


_NUMBER_HOLDERS: Final = {dict, list, float, int}


def _whole(number: float) -> int | float:
    """Whole numbers below 1e21 are written without exponent, with the shortest digits that identify the float."""
    if not number.is_integer() or abs(number) >= 1e21:
        return number
    digits, _, exponent = repr(number).partition("e+")
    if not exponent:
        return int(number)
    whole, _, fraction = digits.partition(".")
    return int(whole + fraction.ljust(int(exponent), "0"))
