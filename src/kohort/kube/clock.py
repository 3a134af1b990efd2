"""Wall-clock time, taken from the event loop.

A test loop that runs on virtual time carries a `wall_time()` method; then time stamps, leases and back-offs all follow
it. Durations are always differences of `loop.time()`; only time stamps that others read come from here.
"""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeVar

Result = TypeVar("Result")

_moment: Final[ContextVar[float]] = ContextVar("moment", default=0.0)


def seconds() -> float:
    """Seconds since the epoch."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _moment.get() or time.time()
    wall_time = getattr(loop, "wall_time", None)
    return wall_time() if wall_time is not None else time.time()


def with_frozen_time(function: Callable[[], Result]) -> Callable[[], Result]:
    """The function, to be called in another thread, where no event loop tells the time: there it sees the present
    time."""
    context = copy_context()
    context.run(_moment.set, seconds())
    return lambda: context.run(function)


def now() -> datetime:
    return datetime.fromtimestamp(seconds(), UTC)


def timestamp() -> str:
    """Now, as a Kubernetes `Time`: RFC 3339 in UTC, whole seconds."""
    return _second(int(seconds() // 1))


@lru_cache(maxsize=4)
def _second(moment: int) -> str:
    """Cached, because thousands of objects get the same time stamp within one second."""
    return format_time(datetime.fromtimestamp(moment, UTC))


def micro_timestamp() -> str:
    """Now, as a Kubernetes `MicroTime`: six fractional digits, always."""
    return now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)
