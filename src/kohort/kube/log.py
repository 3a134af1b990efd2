"""Structured logs without the price of importing structlog at start-up.

structlog takes longer to import than the rest of the runtime together, and most processes (the command line, tests)
never write a line. So modules hold a `Log`, which fetches the real logger when the first line is written. A program
that has not configured structlog by then gets lines on stderr: JSON, or for people when stderr is a terminal.
"""

import logging
import os
import sys
from typing import Protocol

import msgspec

from kohort.kube import clock
from kohort.objects.jsontypes import Json

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Log:
    """A named logger with fixed fields. `bind` adds fields; the four level methods write."""

    __slots__ = ("_fields", "_real")

    def __init__(self, **fields: Json) -> None:
        self._fields = fields
        self._real: _Logger | None = None

    def bind(self, **fields: Json) -> "Log":
        return Log(**{**self._fields, **fields})

    def debug(self, event: str, **fields: Json) -> None:
        if _threshold() <= logging.DEBUG:
            self._logger().debug(event, **{**self._fields, **fields})

    def info(self, event: str, **fields: Json) -> None:
        if _threshold() <= logging.INFO:
            self._logger().info(event, **{**self._fields, **fields})

    def warning(self, event: str, **fields: Json) -> None:
        if _threshold() <= logging.WARNING:
            self._logger().warning(event, **{**self._fields, **fields})

    def error(self, event: str, **fields: Json) -> None:
        self._logger().error(event, **{**self._fields, **fields})

    def exception(self, event: str, **fields: Json) -> None:
        """An error line with the stack of the exception being handled."""
        self._logger().error(event, **{**self._fields, **fields, "exc_info": True})

    def _logger(self) -> "_Logger":
        if self._real is None:
            import structlog

            if not structlog.is_configured():
                configure()
            self._real = structlog.get_logger()
        return self._real


def _threshold() -> int:
    """Below this nothing is written, and structlog is not even imported for it."""
    return _LEVELS.get(os.environ.get("KOHORT_LOG", "").lower(), logging.INFO)


def configure(level: str = "") -> None:
    """Logs to stderr at `level` and above; without it at `KOHORT_LOG`, else at info."""
    import structlog

    if level:
        os.environ["KOHORT_LOG"] = level
    terminal = sys.stderr.isatty()
    renderer: Json = structlog.dev.ConsoleRenderer() if terminal else _render
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            _stamp,
            *([] if terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_threshold()),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _stamp(_: Json, __: str, fields: Json) -> Json:
    fields["time"] = clock.micro_timestamp()
    return fields


def _render(_: Json, __: str, fields: Json) -> str:
    return msgspec.json.encode(fields, enc_hook=str).decode()


class _Logger(Protocol):
    def debug(self, event: str, **fields: Json) -> Json: ...
    def info(self, event: str, **fields: Json) -> Json: ...
    def warning(self, event: str, **fields: Json) -> Json: ...
    def error(self, event: str, **fields: Json) -> Json: ...
