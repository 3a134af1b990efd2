"""Work on large documents: beside the event loop, one at a time, and the users take turns.

Reading a megabyte, fitting it to its schema and checking it take seconds of Python. On the event loop no other request
would be answered meanwhile. In a thread the interpreter switches between the two every few milliseconds, so others are
answered almost as fast as always. More than one thread would not be faster, only take more from the loop.

Users take turns: however many large requests one of them has sent, the next of another user comes after the one that is
being worked on. A user may have a few waiting; more are refused with 429, as upstream's priority and fairness does.

Only functions of documents may run here: the store and everything that is reached from it belongs to the loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from kohort.kube import clock, errors

LARGE: Final = 64 * 1024
"""Bytes of a body from which on it is worth changing threads."""
MAX_WAITING: Final = 16
"""Requests of one user that may wait for their turn."""

Result = TypeVar("Result")


@dataclass(slots=True)
class _Piece:
    perform: Callable[[], object]
    """Called in the thread; stores its own result."""
    done: "asyncio.Future[None]"


class LargeWork:
    def __init__(self, *, large: int = LARGE, waiting: int = MAX_WAITING) -> None:
        """Documents of more than `large` bytes are large; `waiting` requests of one user may wait."""
        self._large = large
        self._waiting = waiting
        self._queues: dict[str, deque[_Piece]] = {}
        """By user, in the order of their turns."""
        self._thread: ThreadPoolExecutor | None = None
        self._worker: asyncio.Task[None] | None = None

    async def run(self, user: str, size: int, function: Callable[[], Result]) -> Result:
        """The result of a function of documents of that size, at once if they are small."""
        if size <= self._large:
            return function()
        queue = self._queues.setdefault(user, deque())
        if len(queue) >= self._waiting:
            raise errors.failure(429, "TooManyRequests", "too many requests, please try again later", retry_after=1)
        results: list[Result] = []
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        queue.append(_Piece(clock.with_frozen_time(lambda: results.append(function())), done))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        await done
        return results[0]

    def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        while self._queues:
            user, queue = next(iter(self._queues.items()))
            piece = queue.popleft()
            del self._queues[user]
            if queue:
                self._queues[user] = queue  # behind all others
            await self._do(piece)

    async def _do(self, piece: _Piece) -> None:
        if piece.done.done():  # the client is gone
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-bodies")
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, piece.perform)
        except Exception as problem:
            if not piece.done.done():
                piece.done.set_exception(problem)
        else:
            if not piece.done.done():
                piece.done.set_result(None)
