"""Structured logs on stderr: one JSON object per line, or plain text when stderr is a terminal.

Work must not fail because its log cannot be written: the disk is full, the reader of the pipe is gone, there is no
stderr. Such lines are dropped.

No logging library is used: what is needed fits into this module, and the common ones import about a hundred modules
into every process.
"""

import contextlib
import os
import sys
import traceback
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.objects.json_types import Json, JsonObject

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31"}


class Log:
    """A named logger with fixed fields. `bind` adds fields; the level methods write."""

    __slots__ = ("_fields",)

    def __init__(self, **fields: Json) -> None:
        self._fields = fields

    def bind(self, **fields: Json) -> "Log":
        return Log(**{**self._fields, **fields})

    def debug(self, event: str, **fields: Json) -> None:
        self._write("debug", event, fields)

    def info(self, event: str, **fields: Json) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Json) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Json) -> None:
        """With `exc_info=True` the line carries the stack of the exception being handled."""
        self._write("error", event, fields)

    def exception(self, event: str, **fields: Json) -> None:
        self._write("error", event, {**fields, "exc_info": True})

    def _write(self, level: str, event: str, fields: JsonObject) -> None:
        if _LEVELS[level] < _threshold():
            return
        line = {**self._fields, **fields}
        if line.pop("exc_info", False):
            line["exception"] = traceback.format_exc().rstrip()
        line |= {"event": event, "level": level, "time": clock.micro_timestamp()}
        with contextlib.suppress(OSError, ValueError):
            _print(line)


def _print(line: JsonObject) -> None:
    if sys.stderr is None:
        return
    text = _as_text(line) if sys.stderr.isatty() else msgspec.json.encode(line, enc_hook=str).decode()
    # In one piece, so that lines of several processes that share a file do not mix.
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _threshold() -> int:
    """The level in `KOHORT_LOG`, else info."""
    return _LEVELS.get(os.environ.get("KOHORT_LOG", "").lower(), _LEVELS["info"])


def _as_text(line: JsonObject) -> str:
    event, level, time, stack = (line.pop(name, "") for name in ("event", "level", "time", "exception"))
    words = " ".join(f"{name}={value}" for name, value in line.items())
    head = f"{time[11:19]} \x1b[{_COLOURS[level]}m{level:7}\x1b[0m {event}"
    return f"{head}  {words}" + (f"\n{stack}" if stack else "")
