"""Reads metrics in the text format of Prometheus, and of OpenMetrics, as far as a judgement needs them.

The text comes from pods, so it is not trusted: its size is bounded before it gets here, the number of series and the
length of a line are bounded here, and a line that cannot be read is skipped and counted. Only the metrics that are
asked for are kept. `prometheus_client` has a parser, but it builds every family of a document and raises on the first
bad line.
"""

import re
from collections.abc import Collection, Mapping
from math import isnan
from types import MappingProxyType
from typing import Final

import msgspec

MAX_SERIES: Final = 20_000
MAX_LINE: Final = 16_384
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)')
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ESCAPED: Final = re.compile(r'\\[\\"n]')
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class Series(msgspec.Struct, frozen=True):
    name: str
    labels: Mapping[str, str]
    value: float


class MetricsText(msgspec.Struct, frozen=True):
    series: tuple[Series, ...]
    unreadable: int = 0
    """Lines that are no series."""
    truncated: bool = False
    """There were more series than are kept."""


def parse(text: str, names: Collection[str]) -> MetricsText:
    """The series of these names.

    >>> parse('a_total{code="200"} 3 1700000000000\\nb 1\\n', {"a_total"}).series
    (Series(name='a_total', labels={'code': '200'}, value=3.0),)
    """
    found: list[Series] = []
    unreadable = 0
    for line in text.split("\n"):
        if not line or line[0] == "#":
            continue
        matched = _NAME.match(line)
        if matched is None or len(line) > MAX_LINE:
            unreadable += bool(line.strip())
            continue
        name = matched.group()
        if name not in names:
            continue
        if len(found) >= MAX_SERIES:
            return MetricsText(tuple(found), unreadable, truncated=True)
        series = _series(name, line[matched.end() :])
        if series is None:
            unreadable += 1
        else:
            found.append(series)
    return MetricsText(tuple(found), unreadable)


def _series(name: str, rest: str) -> Series | None:
    labels: Mapping[str, str] = _NO_LABELS
    rest = rest.lstrip()
    if rest.startswith("{"):
        end = _closing_brace(rest)
        if end < 0:
            return None
        found = _labels(rest[1:end])
        if found is None:
            return None
        labels, rest = found, rest[end + 1 :]
    words = rest.split("#", 1)[0].split()
    if not 1 <= len(words) <= 2:
        return None
    try:
        value = float(words[0])
    except ValueError:
        return None
    return None if isnan(value) else Series(name, labels, value)


def _closing_brace(text: str) -> int:
    """Where the labels end; braces within quotes do not count."""
    quoted, place = False, 1
    while place < len(text):
        letter = text[place]
        if letter == "\\" and quoted:
            place += 1
        elif letter == '"':
            quoted = not quoted
        elif letter == "}" and not quoted:
            return place
        place += 1
    return -1


def _labels(text: str) -> Mapping[str, str] | None:
    found: dict[str, str] = {}
    place = 0
    while place < len(text) and text[place:].strip():
        matched = _LABEL.match(text, place)
        if matched is None or matched.group(1) in found:
            return None
        found[matched.group(1)] = _ESCAPED.sub(lambda one: _ESCAPES[one.group()], matched.group(2))
        place = matched.end()
    return found
