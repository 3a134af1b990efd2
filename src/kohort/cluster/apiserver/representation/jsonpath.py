"""JSONPath as printer columns of custom resources use it.

    .spec.replicas   .metadata.labels.app\\.kubernetes\\.io/name   ['key']   [0]  [-1]  [1:3]  [0:4:2]  [*]  [0,2]
    .status.conditions[?(@.type=="Ready")].status   [?(@.weight > 3)]   [?(@.optional)]   ..name

A path is compiled once into steps, each of which turns the values found so far into the values found next. A field that
is missing finds nothing; an index out of bounds, or one into something that is not a list, is an error.
"""

import operator
import re
from collections.abc import Callable, Iterator
from typing import Final

from kohort.objects.json_types import Json

Step = Callable[[list[Json]], list[Json]]
_TERMINATORS: Final = frozenset(" \t\r\n.,[]$@{}")
_SLICE: Final = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_KEY: Final = re.compile(r"'([^']*)'")
_FILTER: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+?)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_OPERATORS: Final[dict[str, Callable[[Json, Json], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class PathError(ValueError):
    """A path that cannot be understood, or that does not fit the object."""


class JsonPath:
    def __init__(self, text: str) -> None:
        self._steps = list(_compiled(text))

    def find(self, obj: Json) -> list[Json]:
        """All values at the path. Raises PathError when the path does not fit."""
        values = [obj]
        for step in self._steps:
            values = step(values)
        return values


def _compiled(text: str) -> Iterator[Step]:
    position = 0
    while position < len(text):
        character = text[position]
        if character in " @$":
            position += 1
        elif text.startswith("..", position):
            yield _descend
            position += 2
            if position < len(text) and (text[position].isalnum() or text[position] == "_"):
                name, position = _read_name(text, position)
                yield _field(name)
        elif character == ".":
            name, position = _read_name(text, position + 1)
            yield _everything if name == "*" else _field(name)
        elif text.startswith("[?(", position):
            body, position = _read_filter(text, position + 3)
            yield _filtered(body)
        elif character == "[":
            end = text.find("]", position)
            if end < 0:
                raise PathError("unterminated array")
            yield _selection(text[position + 1 : end])
            position = end + 1
        else:
            literal, position = _read_literal(text, position)
            yield _constant(literal)


def _read_name(text: str, start: int) -> tuple[str, int]:
    """A name up to the next character that ends it and is not escaped."""
    position = start
    while position < len(text) and text[position] not in _TERMINATORS:
        position += 2 if text[position] == "\\" else 1
    return text[start:position].replace("\\", ""), min(position, len(text))


def _read_filter(text: str, start: int) -> tuple[str, int]:
    quote = ""
    for position in range(start, len(text)):
        character = text[position]
        if quote:
            if character == quote and text[position - 1] != "\\":
                quote = ""
        elif character in "\"'":
            quote = character
        elif text.startswith(")]", position):
            return text[start:position], position + 2
    raise PathError("unterminated filter")


def _read_literal(text: str, start: int) -> tuple[Json, int]:
    if text[start] in "\"'":
        end = start + 1
        while end < len(text) and (text[end] != text[start] or text[end - 1] == "\\"):
            end += 1
        if end == len(text):
            raise PathError("unterminated quoted string")
        return text[start + 1 : end].replace("\\" + text[start], text[start]), end + 1
    number = _NUMBER.match(text, start)
    if number is not None:
        found = number.group()
        return (float(found) if "." in found else int(found)), number.end()
    word, end = _read_name(text, start)
    if word not in ("true", "false"):
        raise PathError(f"unrecognized identifier {word}")
    return word == "true", end


def _constant(value: Json) -> Step:
    return lambda values: [value] * len(values)


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return value if isinstance(value, list) else []


def _everything(values: list[Json]) -> list[Json]:
    return [child for value in values for child in _children(value)]


def _descend(values: list[Json]) -> list[Json]:
    """Everything that has something below it, at any depth."""
    return [found for value in values if _children(value) for found in (value, *_descend(_children(value)))]


def _selection(text: str) -> Step:
    """What stands in brackets: an index, a slice, a key, or several of these."""
    if "," in text:
        steps = [_selection(part.strip()) for part in text.split(",")]
        return lambda values: [found for step in steps for found in step(values)]
    key = _KEY.fullmatch(text)
    if key is not None:
        return _field(key.group(1).replace("\\", ""))
    parts = _SLICE.fullmatch(":" if text == "*" else text)
    if parts is None or not text:
        raise PathError(f"invalid array index {text}")
    start, stop, step = parts.groups()
    return _sliced(
        int(start) if start else None,
        None if stop is None else stop[1:],
        int(step[1:]) if step and step[1:] else 1,
    )


def _sliced(start: int | None, stop: str | None, step: int) -> Step:
    def select(values: list[Json]) -> list[Json]:
        found: list[Json] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise PathError("is not array or slice")
            if step <= 0:
                raise PathError("step must be > 0")
            first, last = _bounds(start, stop, len(value))
            found += value[first:last:step]
        return found

    return select


def _bounds(start: int | None, stop: str | None, length: int) -> tuple[int, int]:
    first = start or 0
    first += length if first < 0 else 0
    if stop is None:
        last = first + 1
    else:
        last = int(stop) if stop else length
        last += length if last < 0 else 0
    if first != last and not (0 <= first < length and 0 <= last <= length and first < last):
        raise PathError(f"array index out of bounds: index {first}, length {length}")
    return first, last


def _filtered(body: str) -> Step:
    parts = _FILTER.fullmatch(body)
    if parts is None:
        condition = JsonPath(body)
        return lambda values: [item for item in _items(values) if condition.find(item)]
    left, right = JsonPath(parts.group(1)), JsonPath(parts.group(3))
    compare = _OPERATORS.get(parts.group(2))
    if compare is None:
        raise PathError(f"unrecognized filter operator {parts.group(2)}")
    return lambda values: [item for item in _items(values) if _holds(compare, left.find(item), right.find(item))]


def _items(values: list[Json]) -> Iterator[Json]:
    for value in values:
        if not isinstance(value, list):
            raise PathError("is not array or slice and cannot be filtered")
        yield from value


def _holds(compare: Callable[[Json, Json], bool], left: list[Json], right: list[Json]) -> bool:
    if not left or not right:
        return False
    if len(left) > 1 or len(right) > 1:
        raise PathError("can only compare one element at a time")
    try:
        return bool(compare(left[0], right[0]))
    except TypeError as error:
        raise PathError("incompatible types for comparison") from error
