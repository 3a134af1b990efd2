"""Why a text is not an address, in the words that rules are answered with: what is wrong, and from where on."""

from typing import Final

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_FIELDS: Final = 8


def address_problem(text: str) -> str:
    """Of a text that is not an IP address, without a zone."""
    first = next((char for char in text if char in ".:%"), "")
    if first == ".":
        problem = _v4_problem(text)
    elif first == ":":
        problem = _v6_problem(text)
    else:
        problem = "unable to parse IP" if not first else "missing IPv6 address"
    return f'ParseAddr("{text}"): {problem}'


def _at(problem: str, rest: str) -> str:
    return f'{problem} (at "{rest}")'


def _v4_problem(text: str) -> str:
    dots, value, digits = 0, 0, 0
    for index, char in enumerate(text):
        if char in "0123456789":
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero"
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                return "IPv4 field has value >255"
        elif char == ".":
            if index in (0, len(text) - 1) or text[index - 1] == ".":
                return _at("IPv4 field must have at least one digit", text[index:])
            if dots == 3:
                return "IPv4 address too long"
            dots, value, digits = dots + 1, 0, 0
        else:
            return _at("unexpected character", text[index:])
    return "IPv4 address too short"


def _v6_problem(text: str) -> str:
    elided = text.startswith("::")
    rest, fields = text.removeprefix("::"), 0
    while rest and fields < _FIELDS:
        size = next((index for index, char in enumerate(rest) if char not in _HEX), len(rest))
        if size > 4:
            return _at("each group must have 4 or less digits", rest)
        if not size:
            return _at("each colon-separated field must have at least one digit", rest)
        if rest[size : size + 1] == ".":
            return _embedded_problem(rest, fields, elided)
        fields, rest = fields + 1, rest[size:]
        if not rest:
            break
        if rest[0] != ":":
            return _at("unexpected character, want colon", rest)
        if len(rest) == 1:
            return _at("colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if elided:
                return _at("multiple :: in address", rest)
            elided, rest = True, rest[1:]
    if rest:
        return _at("trailing garbage after address", rest)
    return "the :: must expand to at least one field of zeros" if elided else "address string too short"


def _embedded_problem(rest: str, fields: int, elided: bool) -> str:
    if not elided and fields != 6:
        return _at("embedded IPv4 address must replace the final 2 fields of the address", rest)
    if fields > 6:
        return _at("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return _v4_problem(rest)
