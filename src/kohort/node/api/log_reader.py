"""Reads log files of containers (see `runtimes.log_files`) as `kubectl logs` asks for them.

| parameter                    | permitted               | else, as with kubelet          |
|------------------------------|-------------------------|--------------------------------|
| `tailLines`                  | 0 and more              | not a number: 400, others: 422 |
| `limitBytes`, `sinceSeconds` | 1 and more              | not a number: 400, others: 422 |
| `sinceTime`                  | RFC 3339                | 400                            |
|                              | without `sinceSeconds`  | 422                            |
| `stream`                     | `All`, `Stdout`, `Stderr` | 422                          |

A container writes as much as it likes before its file is set aside, and lines as long as its runtime permits. So files
are read in blocks, and a reader never has much more than one of them in memory. For `tailLines`, the place where they
begin is looked for from the end, block by block; what follows it is read like any other log.
"""

import asyncio
import io
import os
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
BLOCK = 256 << 10
LONGEST = 1 << 20
"""Bytes of a line that are kept together; runtimes usually write parts of 16 KiB."""
HEADER = 256
"""Bytes in which the time, the stream and the tag of a line are."""
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
        time, stream = (each.decode(errors="replace") for each in parts[:2])
        return Line(time, stream, parts[2].partition(b":")[0] != b"P", parts[3])


async def read_log(path: Path, options: LogOptions, running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log at `path` with its older parts; while `running()`, what is added to it if asked to follow."""
    left, shown, wanted = options.limit, LineFormat(options.timestamps), _filter(options)
    async for lines in _lines(path, options, running):
        text, left = _limited(b"".join(shown.text(line) for line in lines if wanted(line)), left)
        if text:
            yield text
        if left == 0:
            return
        await asyncio.sleep(0)  # other requests have their turn after each block


async def _lines(path: Path, options: LogOptions, running: Callable[[], bool]) -> AsyncIterator[list[Line]]:
    """Block by block."""
    files, cutter = _opened_parts(path), LineCutter()
    try:
        if options.tail is not None:
            await _seek_tail(files, options.tail, _filter(options))
        for file in files:
            while block := file.read(BLOCK):
                yield cutter.cut(block)
        while options.follow:
            ending, replaced, added = not running(), _replaced(path, files[-1]), False
            while block := files[-1].read(BLOCK):
                added = True
                yield cutter.cut(block)
            if replaced:  # and so all of the old one has been read
                files.pop().close()
                files.append(_opened(path))
            elif ending and not added:
                return
            elif not added:
                await asyncio.sleep(POLL_SECONDS)
    finally:
        for file in files:
            file.close()


def _opened_parts(path: Path) -> list[BinaryIO]:
    """All files of a log, the oldest first. The newest is opened first: one that is set aside meanwhile is found a
    second time under its next name, instead of not at all."""
    found: dict[int, BinaryIO] = {}
    for place in (path, *(path.with_name(f"{path.name}.{number}") for number in range(1, OLD_FILES + 1))):
        file = _opened(place)
        number = -1 if isinstance(file, io.BytesIO) else os.fstat(file.fileno()).st_ino
        if number in found or (number < 0 and found):
            file.close()
        else:
            found[number] = file
    return list(found.values())[::-1]


def _opened(path: Path) -> BinaryIO:
    """The file, or an empty one when nothing has been written."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        return io.BytesIO()


class LineCutter:
    """Cuts blocks into lines. Only a line feed ends a line: whatever else a container wrote is in between. A line that
    is longer than `LONGEST` comes in several parts."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun: Line | None = None
        """What a line began with of which parts were returned already."""

    def cut(self, block: bytes) -> list[Line]:
        *ended, self._rest = (self._rest + block).split(b"\n")
        found = [self._line(each) for each in ended]
        if len(self._rest) > LONGEST:
            found.append(self._part())
        return [each for each in found if each is not None]

    def _line(self, text: bytes) -> Line | None:
        begun, self._begun = self._begun, None
        return Line.parse(text) if begun is None else msgspec.structs.replace(begun, text=text)

    def _part(self) -> Line | None:
        text, self._rest = self._rest, b""
        part = Line.parse(text) if self._begun is None else msgspec.structs.replace(self._begun, text=text)
        if part is None:
            return None
        self._begun = msgspec.structs.replace(part, text=b"")
        return msgspec.structs.replace(part, complete=False)


async def _seek_tail(files: list[BinaryIO], wanted: int, selects: Callable[[Line], bool]) -> None:
    """Go to where the last lines begin; parts of one line count as one."""
    ends, begun = 0, False
    for index in reversed(range(len(files))):
        for after, line in _backwards(files[index]):
            if line is None:
                await asyncio.sleep(0)
            elif selects(line):
                ends += line.complete or not begun
                begun = True
                if ends > wanted:
                    for older in files[:index]:
                        older.seek(0, os.SEEK_END)
                    files[index].seek(after)
                    return
        files[index].seek(0)


def _backwards(file: BinaryIO) -> Iterator[tuple[int, Line | None]]:
    """The beginnings of lines, the last line first, each with the place after its end; None after every block. What
    stands after the last line feed is not a line yet."""
    position = file.seek(0, os.SEEK_END)
    rest, end = b"", -1
    while position > 0:
        place = position
        position = max(position - BLOCK, 0)
        file.seek(position)
        first, *others = file.read(place - position).split(b"\n")
        for text in reversed(others):
            if end >= 0 and (line := Line.parse(text + rest)) is not None:
                yield end, line
            end = place - len(text)
            place, rest = end - 1, b""
        rest = (first + rest)[:HEADER]
        yield end, None
    if end >= 0 and (line := Line.parse(rest)) is not None:
        yield end, line


def _filter(options: LogOptions) -> Callable[[Line], bool]:
    since = clock.parse_time(options.since).timestamp() if options.since else None
    stream = "" if options.stream == "All" else options.stream.lower()
    return lambda line: (not stream or line.stream == stream) and (since is None or _seconds(line.time) >= since)


def _seconds(time: str) -> float:
    """Container runtimes write times of the machine's zone, with as many digits as are needed; 0 for anything else."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


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
        found = path.stat().st_ino
        return isinstance(file, io.BytesIO) or found != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False
