"""YAML of people who are not trusted, or make mistakes: what it may cost is bounded before it is read.

| text | without a bound |
|---|---|
| `[[[[[[...` | the reader calls itself for each level, and fails or crashes |
| an alias of a list of aliases of a list ... | a few lines become billions of values when they are written as JSON |
| `59:59:59:59...` | a number to the base of 60, whose digits are added up in a time that grows with their square |

All are found in the events of the parser, which needs no recursion and expands nothing. The parser in C is used where
the library has it: it is ten times as fast, and a server is kept from nothing else for so long.
"""

import re
from typing import Final

import msgspec
import yaml

from kohort.objects.json_types import Json

MOST_DEPTH: Final = 100
MOST_VALUES: Final = 200_000
LONGEST_NUMBER: Final = 1000
_NUMBER: Final = re.compile(r"[-+]?[0-9.][0-9a-fA-Fx_:.+-]*")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooLarge(yaml.YAMLError):
    """The message says what there is too much of, and how much is allowed."""


def load_all(text: str) -> list[Json]:
    """All documents. Raises yaml.YAMLError."""
    _check(text)
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except ValueError as problem:  # A date such as 2001-99-99: YAML says that it is one, the calendar does not.
        raise yaml.YAMLError(f"a value cannot be read: {problem}; put text in quotes") from problem


def json_problem(document: Json) -> str:
    """Why a document cannot be written as JSON; empty if it can."""
    try:
        msgspec.json.encode(document)
    except RecursionError:
        return "a value contains itself by an alias"
    except TypeError:
        return "a key is not text: put on, yes, no and null in quotes"
    return ""


def _check(text: str) -> None:
    counts = [0]
    """Values of each collection that is open, aliases expanded; the first one is of the whole text."""
    anchors: list[str | None] = []
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            counts.append(1)
            anchors.append(event.anchor)
            if len(anchors) > MOST_DEPTH:
                raise TooLarge(f"values are nested more than {MOST_DEPTH} levels deep")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            size, anchor = counts.pop(), anchors.pop()
            if anchor:
                sizes[anchor] = size
            counts[-1] += size
        elif isinstance(event, yaml.AliasEvent):
            counts[-1] += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            counts[-1] += 1
            if event.anchor:
                sizes[event.anchor] = 1
            if not event.style and len(event.value) > LONGEST_NUMBER and _NUMBER.fullmatch(event.value):
                raise TooLarge(f"a number has more than {LONGEST_NUMBER} characters; put text in quotes")
        if counts[-1] > MOST_VALUES:
            raise TooLarge(f"there are more than {MOST_VALUES} values, with aliases replaced by what they stand for")
