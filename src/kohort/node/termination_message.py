"""Reads termination messages of containers. The container writes the file, so it may hold anything.

| source                                     | at most                        |
|--------------------------------------------|--------------------------------|
| the file at `terminationMessagePath`       | its first 4,096 bytes          |
| the log, with `FallbackToLogsOnError`      | its last 80 lines, 2,048 bytes |

Never more than that is read, whatever the size of the file. Links, pipes and devices are not read at all.
"""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from kohort.node.runtimes.log_files import last_lines

LONGEST_MESSAGE: Final = 4096
LONGEST_FROM_LOG: Final = 2048
LINES_FROM_LOG: Final = 80
_LOG_BYTES: Final = 16 << 10
"""Enough for so many lines and bytes with a timestamp before each line."""
_LONGEST_STAMP: Final = 64


def read_termination_message(message: Path, log: Path | None) -> str:
    """Of a container that has ended; `log` only when its output may stand in for a message."""
    with contextlib.suppress(OSError):
        if written := _read_start(message, LONGEST_MESSAGE):
            return written.decode(errors="replace")
    with contextlib.suppress(OSError):
        if log is not None:
            return _end_of_log(log).decode(errors="replace")
    return ""


def _read_start(path: Path, length: int) -> bytes:
    descriptor = _open_regular(path)
    try:
        return os.pread(descriptor, length, 0)
    finally:
        os.close(descriptor)


def _end_of_log(path: Path) -> bytes:
    descriptor = _open_regular(path)
    try:
        begin = max(os.fstat(descriptor).st_size - _LOG_BYTES, 0)
        text = os.pread(descriptor, _LOG_BYTES, begin)
    finally:
        os.close(descriptor)
    before = b""
    if begin:  # the first line is cut; it matters only if it is so long that all of what is left of it is output
        cut, _, text = text.partition(b"\n")
        before = cut[_LONGEST_STAMP:] + b"\n" if text else cut[_LONGEST_STAMP:]
    lines = last_lines(text, LINES_FROM_LOG)
    whole = lines if text.count(b"\n") >= LINES_FROM_LOG else before + lines
    return whole[-LONGEST_FROM_LOG:]


def _open_regular(path: Path) -> int:
    """A descriptor of a file, nothing else: opening a pipe would wait, and a link could lead anywhere."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor
