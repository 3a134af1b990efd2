"""Reads metrics in the text format of Prometheus, and of OpenMetrics, as far as a judgement needs them.

The text comes from pods, so it is not trusted: its size is bounded before it gets here, the number of series and the
length of a line are bounded here, and a line that cannot be read is skipped and counted. Only the metrics that are
asked for are kept. `prometheus_client` has a parser, but it builds every family of a document and raises on the first
bad line.
"""

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping
from math import isnan
from types import MappingProxyType
from typing import Final

import msgspec

MAX_SERIES: Final = 20_000
MAX_LINE: Final = 16_384
_LETTERS_PER_TURN: Final = 32_768
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_BRACES: Final = re.compile(r'\{([^"}]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"}]*)*)\}')
"""Braces within quotes do not count."""
_LABEL: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*(,|$)')
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
    """Lines that are not series."""
    truncated: bool = False
    """There were more series than are kept."""


def parse(text: str, names: Collection[str]) -> MetricsText:
    """The series of these names.

    >>> parse('a_total{code="200"} 3 1700000000000\\nb 1\\n', {"a_total"}).series
    (Series(name='a_total', labels={'code': '200'}, value=3.0),)
    """
    reader = _Reader(names)
    reader.read(text.split("\n"))
    return reader.result()


async def parse_in_turns(text: str, names: Collection[str]) -> MetricsText:
    """The same, with a turn for everything else after each part: a pod decides how long its text is, and other
    namespaces wait for the same operator."""
    reader = _Reader(names)
    part: list[str] = []
    letters = 0
    for line in text.split("\n"):
        part.append(line)
        letters += len(line) + 1
        if letters > _LETTERS_PER_TURN:
            reader.read(part)
            part, letters = [], 0
            await asyncio.sleep(0)
    reader.read(part)
    return reader.result()


class _Reader:
    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._found: list[Series] = []
        self._unreadable = 0
        self._truncated = False

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            if not line or line[0] == "#":
                continue
            matched = _NAME.match(line)
            if matched is None or len(line) > MAX_LINE:
                self._unreadable += bool(line.strip())
                continue
            name = matched.group()
            if name not in self._names:
                continue
            if len(self._found) >= MAX_SERIES:
                self._truncated = True
                return
            series = _series(name, line[matched.end() :])
            if series is None:
                self._unreadable += 1
            else:
                self._found.append(series)

    def result(self) -> MetricsText:
        return MetricsText(tuple(self._found), self._unreadable, self._truncated)


def _series(name: str, rest: str) -> Series | None:
    labels: Mapping[str, str] = _NO_LABELS
    rest = rest.lstrip()
    if rest.startswith("{"):
        braces = _BRACES.match(rest)
        found = _labels(braces.group(1)) if braces is not None else None
        if braces is None or found is None:
            return None
        labels, rest = found, rest[braces.end() :]
    words = rest.split("#", 1)[0].split()
    if not 1 <= len(words) <= 2:
        return None
    try:
        value = float(words[0])
    except ValueError:
        return None
    return None if isnan(value) else Series(name, labels, value)


def _labels(text: str) -> Mapping[str, str] | None:
    found: dict[str, str] = {}
    place = 0
    while matched := _LABEL.match(text, place):
        if matched.group(1) in found:
            return None
        found[matched.group(1)] = _ESCAPED.sub(lambda one: _ESCAPES[one.group()], matched.group(2))
        place = matched.end()
    return None if text[place:].strip() else found
