"""The string extension: positions and lengths count characters, not bytes."""

import math
import re
from typing import Final

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.conversions import bytes_to_string, double_to_string
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.times import duration_text, timestamp_text
from kohort.cluster.apiserver.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    is_list,
    is_map,
    items_of,
    pairs_of,
    size_of,
    type_name,
)
from kohort.objects.json_types import Json

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def _out_of_range(position: int) -> CelError:
    return CelError(f"index out of range: {position}")


def char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    if part == "":
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def last_index_of(text: str, part: str) -> int:
    return text.rfind(part) if part else len(text)


def last_index_before(text: str, part: str, start: int) -> int:
    if part == "":
        return start
    if start < 0:
        raise _out_of_range(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    return text.translate(_UPPER)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


def split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if 0 < count < len(text):
        return [*text[: count - 1], text[count - 1 :]]
    return list(text)


def substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise _out_of_range(start)
        return text[start:]
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, end):
        if not 0 <= position <= len(text):
            raise _out_of_range(position)
    return text[start:end]


def trim(text: str) -> str:
    return text.strip(_SPACE)


def join(texts: Json, separator: str = "") -> str:
    return separator.join(items_of(texts))


_QUOTED = str.maketrans(
    {
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
        "\\": r"\\",
        '"': r"\"",
    }
)


def quote(text: str) -> str:
    return '"' + text.translate(_QUOTED) + '"'


# -- format

_CLAUSE = re.compile(r"%(?:%|(?:\.(\d+))?(.?))", re.DOTALL)
_DEFAULT_PRECISION = 6
_MAX_PRECISION = 1000
_NUMBER_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def format_text(template: str, arguments: Json) -> str:
    """`'%s has %d'.format([name, count])`"""
    values = items_of(arguments)
    pieces: list[str] = []
    end = used = 0
    for clause in _CLAUSE.finditer(template):
        pieces.append(template[end : clause.start()])
        end = clause.end()
        if clause.group() == "%%":
            pieces.append("%")
            continue
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        pieces.append(_formatted(clause[2], clause[1], values[used]))
        used += 1
    pieces.append(template[end:])
    return "".join(pieces)


def clauses_of(template: str) -> list[str]:
    """The verbs of a template."""
    return [clause[2] for clause in _CLAUSE.finditer(template) if clause.group() != "%%"]


_TEXTUAL = (
    "list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null",
)  # fmt: skip
_TEXT_PROBLEM = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)
_HEX_PROBLEM = "only integers, byte buffers, and strings can be formatted as hex"
CLAUSES = {
    "s": (_TEXTUAL, _TEXT_PROBLEM),
    "d": (("int", "uint"), "decimal clause can only be used on integers"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "string"), "scientific clause can only be used on doubles"),
    "b": (("int", "uint", "bool"), "only integers and bools can be formatted as binary"),
    "o": (("int", "uint"), "octal clause can only be used on integers"),
    "x": (("int", "uint", "string", "bytes"), _HEX_PROBLEM),
    "X": (("int", "uint", "string", "bytes"), _HEX_PROBLEM),
}
"""The types that each clause takes, and what is said about others. A text may name a number that has no digits."""


def unknown_clause(verb: str) -> str:
    if not verb:
        return "unexpected end of string"
    return f'could not parse formatting clause: unrecognized formatting clause "{verb}"'


def _unfit(verb: str, value: Json) -> CelError:
    return CelError(f"error during formatting: {CLAUSES[verb][1]}, was given {type_name(value)}")


def _formatted(verb: str, precision_text: str | None, value: Json) -> str:
    precision = _DEFAULT_PRECISION if precision_text is None else int(precision_text[:6])
    if precision > _MAX_PRECISION:
        raise CelError(f"precision {precision} is too large")
    match verb:
        case "s":
            return as_text(value)
        case "d" | "o" | "b":
            return _whole(value, verb)
        case "f" | "e":
            return _number(value, verb, precision)
        case "x" | "X":
            return _hexadecimal(value, verb)
        case _:
            raise CelError(unknown_clause(verb))


def _number(value: Json, verb: str, precision: int) -> str:
    number = _NUMBER_WORDS.get(value) if isinstance(value, str) else value
    if type(number) is not float:
        raise _unfit(verb, value)
    if math.isfinite(number):
        return f"{number:.{precision}{verb}}"
    return "NaN" if number != number else "∞" if number > 0 else "-∞"


def _whole(value: Json, verb: str) -> str:
    if verb == "b" and isinstance(value, bool):
        return "1" if value else "0"
    if type(value) in (int, Uint):
        return format(int(value), verb)
    raise _unfit(verb, value)


def _hexadecimal(value: Json, verb: str) -> str:
    if isinstance(value, (str, bytes)):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if verb == "X" else text
    if type(value) in (int, Uint):
        return format(int(value), verb)
    raise _unfit(verb, value)


def as_text(value: Json) -> str:
    """What `%s` makes of a value."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return double_to_string(value)
    if isinstance(value, bytes):
        return bytes_to_string(value)
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, TypeValue):
        return value.name
    if is_list(value):
        return "[" + ", ".join(map(_as_literal, items_of(value))) + "]"
    if is_map(value):
        entries = sorted((_as_literal(key), _as_literal(inner)) for key, inner in pairs_of(value))
        return "{" + ", ".join(f"{key}:{inner}" for key, inner in entries) + "}"
    raise _unfit("s", value)


def _as_literal(value: Json) -> str:
    """A value inside a formatted list or map, written as the language writes it."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return "b" + quote(bytes_to_string(value))
    if isinstance(value, Timestamp):
        return f'timestamp("{timestamp_text(value)}")'
    if isinstance(value, Duration):
        return f'duration("{duration_text(value)}")'
    if type(value) is float:
        return f"{value:.{_DEFAULT_PRECISION}f}" if math.isfinite(value) else quote(double_to_string(value))
    return as_text(value)


# -- costs


def _length_cost(text: str, *_: Json) -> int:
    return len(text) // 10


def _replace_cost(text: str, old: str, new: str, count: int = -1) -> int:
    hits = len(text) // len(old) if old else len(text) + 1
    if count >= 0:
        hits = min(hits, count)
    return (len(text) + hits * len(new)) // 10


def _join_cost(texts: Json, separator: str = "") -> int:
    return size_of(texts) * (1 + len(separator) // 10)


LIBRARY = Library(
    (
        Function("string::charAt(int): string", char_at),
        Function("string::indexOf(string): int", index_of, _length_cost),
        Function("string::indexOf(string, int): int", index_of, _length_cost),
        Function("string::lastIndexOf(string): int", last_index_of, _length_cost),
        Function("string::lastIndexOf(string, int): int", last_index_before, _length_cost),
        Function("string::lowerAscii(): string", lower_ascii, _length_cost),
        Function("string::upperAscii(): string", upper_ascii, _length_cost),
        Function("string::replace(string, string): string", replace, _replace_cost),
        Function("string::replace(string, string, int): string", replace, _replace_cost),
        Function("string::split(string): list<string>", split, _length_cost),
        Function("string::split(string, int): list<string>", split, _length_cost),
        Function("string::substring(int): string", substring, _length_cost),
        Function("string::substring(int, int): string", substring, _length_cost),
        Function("string::trim(): string", trim, _length_cost),
        Function("list<string>::join(): string", join, _join_cost),
        Function("list<string>::join(string): string", join, _join_cost),
        Function("strings.quote(string): string", quote, _length_cost),
        Function("string::format(list<dyn>): string", format_text, _length_cost),
    )
)
