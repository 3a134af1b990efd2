"""No write takes for ever.

`asyncio.timeout` would do, with a timer of its own for each of thousands of writes that are over within a millisecond.
Here writes are only noted down, and one timer looks every second for those that should be over; it exists while there
are any.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

T = TypeVar("T")

LOOK_SECONDS: Final = 1.0


class _Running:
    __slots__ = ("cancelling", "end", "overdue", "task")

    def __init__(self, task: "asyncio.Task[object]", end: float) -> None:
        self.task = task
        self.end = end
        self.cancelling = task.cancelling()
        self.overdue = False


class WriteDeadlines:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: set[_Running] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, work: Awaitable[T]) -> T:
        """Wait for something; TimeoutError when it takes too long, give or take a second."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        entry = _Running(task, loop.time() + self._seconds)
        self._running.add(entry)
        if self._timer is None:
            self._timer = loop.call_later(LOOK_SECONDS, self._look, loop)
        try:
            return await work
        except asyncio.CancelledError:
            if entry.overdue and task.uncancel() <= entry.cancelling:
                raise TimeoutError from None
            raise
        finally:
            self._running.discard(entry)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if not self._running:
            return
        self._timer = loop.call_later(LOOK_SECONDS, self._look, loop)
        now = loop.time()
        for entry in [entry for entry in self._running if entry.end <= now and not entry.overdue]:
            entry.overdue = True
            entry.task.cancel()
