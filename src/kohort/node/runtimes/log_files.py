"""Output of containers on disk, in the form that log collectors of Kubernetes know:

    2026-01-01T00:00:00.000000000Z stdout F a whole line
    2026-01-01T00:00:00.000000000Z stderr P a part of a line that

A file that grows beyond its size is set aside and another one begun; a few old ones are kept.
"""

import contextlib
import os
import time
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Final

from kohort.kube.private_files import open_private

LARGEST: Final = 10 << 20
KEPT: Final = 4
LONGEST_LINE: Final = 16 << 10


def stamp() -> str:
    nanoseconds = time.time_ns()
    moment = datetime.fromtimestamp(nanoseconds // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds % 10**9:09d}Z"


class LogWriter:
    def __init__(self, path: str, largest: int = LARGEST) -> None:
        self._path = path
        self._largest = largest
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._file = _opened(path)
        self._size = self._file.tell()
        self._rest: dict[str, bytes] = {}

    def write(self, stream: str, data: bytes) -> None:
        *lines, rest = (self._rest.pop(stream, b"") + data).split(b"\n")
        now = stamp()
        text = b"".join(self._cut(now, stream, line) for line in lines)
        while len(rest) > LONGEST_LINE:
            text += _line(now, stream, b"P", rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        if rest:
            self._rest[stream] = rest
        self._append(text)

    def close(self) -> None:
        now = stamp()
        self._append(b"".join(_line(now, stream, b"P", rest) for stream, rest in self._rest.items()))
        self._rest.clear()
        self._file.close()

    def _cut(self, now: str, stream: str, line: bytes) -> bytes:
        text = b""
        while len(line) > LONGEST_LINE:
            text += _line(now, stream, b"P", line[:LONGEST_LINE])
            line = line[LONGEST_LINE:]
        return text + _line(now, stream, b"F", line)

    def _append(self, text: bytes) -> None:
        if not text:
            return
        with contextlib.suppress(OSError):
            self._file.write(text)
        self._size += len(text)
        if self._size > self._largest:
            self._rotate()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(KEPT - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")
        self._file = _opened(self._path)
        self._size = 0


def _opened(path: str) -> FileIO:
    return FileIO(open_private(Path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def last_lines(log: bytes, count: int) -> bytes:
    """The end of what a container wrote, with its line feeds; the parts of a long line belong together."""
    return b"".join(_written(line) for line in log.removesuffix(b"\n").split(b"\n")[-count:])


def _written(line: bytes) -> bytes:
    _, _, tag, content = (b"", b"", b"F", *line.split(b" ", 3))[-4:]
    return content if tag.startswith(b"P") else content + b"\n"


def _line(now: str, stream: str, tag: bytes, content: bytes) -> bytes:
    return b"%s %s %s %s\n" % (now.encode(), stream.encode(), tag, content)
