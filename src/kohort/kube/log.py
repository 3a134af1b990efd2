"""Structured logs without the price of importing structlog at start-up.

structlog takes longer to import than the rest of the runtime together, and most processes (the command line, tests)
never write a line. So modules hold a `Log`, which fetches the real logger when the first line is written.
"""

from typing import Protocol

from kohort.objects.jsontypes import Json


class Log:
    """A named logger with fixed fields. `bind` adds fields; the four level methods write."""

    __slots__ = ("_fields", "_real")

    def __init__(self, **fields: Json) -> None:
        self._fields = fields
        self._real: _Logger | None = None

    def bind(self, **fields: Json) -> "Log":
        return Log(**{**self._fields, **fields})

    def debug(self, event: str, **fields: Json) -> None:
        self._logger().debug(event, **fields)

    def info(self, event: str, **fields: Json) -> None:
        self._logger().info(event, **fields)

    def warning(self, event: str, **fields: Json) -> None:
        self._logger().warning(event, **fields)

    def error(self, event: str, **fields: Json) -> None:
        self._logger().error(event, **fields)

    def exception(self, event: str, **fields: Json) -> None:
        """An error line with the stack of the exception being handled."""
        self._logger().error(event, exc_info=True, **fields)

    def _logger(self) -> "_Logger":
        if self._real is None:
            import structlog

            self._real = structlog.get_logger(**self._fields)
        return self._real


class _Logger(Protocol):
    def debug(self, event: str, **fields: Json) -> Json: ...
    def info(self, event: str, **fields: Json) -> Json: ...
    def warning(self, event: str, **fields: Json) -> Json: ...
    def error(self, event: str, **fields: Json) -> Json: ...
