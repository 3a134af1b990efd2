"""Reads log files of containers (see `runtimes.log_files`) as `kubectl logs` asks for them.

| parameter                    | permitted               | else, as with kubelet          |
|------------------------------|-------------------------|--------------------------------|
| `tailLines`                  | 0 and more              | not a number: 400, others: 422 |
| `limitBytes`, `sinceSeconds` | 1 and more              | not a number: 400, others: 422 |
| `sinceTime`                  | RFC 3339                | 400                            |
|                              | without `sinceSeconds`  | 422                            |
| `stream`                     | `All`, `Stdout`, `Stderr` | 422                          |
"""

import asyncio
import io
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import msgspec

from kohort.kube import clock

POLL_SECONDS = 0.1
OLD_FILES = 9
STREAMS = ("All", "Stdout", "Stderr")
LARGEST_NUMBER = (1 << 63) - 1
LONGEST_PAST = 100 * 365 * 86400
"""Seconds. No log is older."""


class InvalidLogOption(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LogOptions(msgspec.Struct, frozen=True):
    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    limit: int | None = None
    since: str = ""
    """Only lines from this time on, RFC 3339."""
    stream: str = "All"


def log_options(query: Mapping[str, str]) -> LogOptions:
    """What the parameters of a request ask for. Raises InvalidLogOption."""
    seconds, since, stream = _number(query, "sinceSeconds", 1), query.get("sinceTime", ""), query.get("stream") or "All"
    if since and not _is_time(since):
        raise InvalidLogOption(400, f"Unable to decode query: sinceTime: {since!r} is not a time as in RFC 3339")
    if since and seconds is not None:
        raise InvalidLogOption(422, "Invalid request: at most one of `sinceTime` or `sinceSeconds` may be specified")
    if stream not in STREAMS:
        raise InvalidLogOption(422, f"Invalid request: stream: {stream!r} is none of {', '.join(STREAMS)}")
    if seconds is not None:
        since = clock.format_time(clock.now() - timedelta(seconds=min(seconds, LONGEST_PAST)))
    return LogOptions(
        follow=query.get("follow") == "true",
        timestamps=query.get("timestamps") == "true",
        tail=_number(query, "tailLines", 0),
        limit=_number(query, "limitBytes", 1),
        since=since,
        stream=stream,
    )


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    """Raises InvalidLogOption."""
    if not (text := query.get(name, "")):
        return None
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 19 or int(digits) > LARGEST_NUMBER:
        raise InvalidLogOption(400, f"Unable to decode query: {name}: {text!r} is not a number")
    if int(text) < least:
        raise InvalidLogOption(422, f"Invalid request: {name}: must be at least {least}, not {text}")
    return int(text)


class Line(msgspec.Struct, frozen=True):
    time: str
    stream: str
    complete: bool
    text: bytes

    @staticmethod
    def parse(line: bytes) -> "Line | None":
        parts = line.split(b" ", 3)
        if len(parts) != 4:
            return None
        time, stream, tag, text = parts
        return Line(time.decode(), stream.decode(), tag.partition(b":")[0] != b"P", text)


async def read_log(path: Path, options: LogOptions, running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log at `path` with its older parts; while `running()`, what is added to it if asked to follow."""
    left, shown = options.limit, LineFormat(options.timestamps)
    async for line in _lines(path, options, running):
        text, left = _limited(shown.text(line), left)
        if text:
            yield text
        if left == 0:
            return


async def _lines(path: Path, options: LogOptions, running: Callable[[], bool]) -> AsyncIterator[Line]:
    """Only a line feed ends a line: whatever else a container wrote is in between."""
    file = _opened(path)
    try:
        *written, rest = file.read().split(b"\n")
        for line in _tail(list(_selected(_stored(path, written), options)), options.tail):
            yield line
        while options.follow:
            ending, replaced = not running(), _replaced(path, file)
            data = file.read()
            *lines, rest = (rest + data).split(b"\n")
            for line in _selected(map(Line.parse, lines), options):
                yield line
            if replaced:  # and so all of the old one has been read
                file.close()
                file = _opened(path)
            elif ending and not data:
                return
            elif not data:
                await asyncio.sleep(POLL_SECONDS)
    finally:
        file.close()


def _opened(path: Path) -> BinaryIO:
    """The file, or an empty one when nothing has been written."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        return io.BytesIO()


def _stored(path: Path, current: list[bytes]) -> Iterator[Line | None]:
    for number in range(OLD_FILES, 0, -1):
        old = path.with_name(f"{path.name}.{number}")
        if old.exists():
            yield from map(Line.parse, old.read_bytes().split(b"\n"))
    yield from map(Line.parse, current)


def _selected(lines: Iterator[Line | None], options: LogOptions) -> Iterator[Line]:
    since = clock.parse_time(options.since).timestamp() if options.since else None
    for line in lines:
        if line is None or (options.stream != "All" and line.stream != options.stream.lower()):
            continue
        if since is not None and _seconds(line.time) < since:
            continue
        yield line


def _seconds(time: str) -> float:
    """Container runtimes write times of the machine's zone, with as many digits as are needed; 0 for anything else."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


def _tail(lines: list[Line], wanted: int | None) -> Iterator[Line]:
    """The last lines; parts of one line count as one."""
    if wanted is None:
        yield from lines
        return
    kept: deque[Line] = deque()
    ends = 0
    for line in reversed(lines):
        if line.complete or not kept:
            ends += 1
        if ends > wanted:
            break
        kept.appendleft(line)
    yield from kept


class LineFormat:
    """Lines as they are read. A time stands in front of a whole line, not in the middle, where one of its parts was
    cut off."""

    def __init__(self, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._begun = False

    def text(self, line: Line) -> bytes:
        stamp = line.time.encode() + b" " if self._timestamps and not self._begun else b""
        self._begun = not line.complete
        return stamp + line.text + (b"\n" if line.complete else b"")


def _limited(text: bytes, left: int | None) -> tuple[bytes, int | None]:
    if left is None:
        return text, None
    return text[:left], max(left - len(text), 0)


def _replaced(path: Path, file: BinaryIO) -> bool:
    try:
        return isinstance(file, io.BytesIO) or path.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False
