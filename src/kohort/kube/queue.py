"""The work queue of a controller.

Three rules make a level-based controller safe with any number of workers, and the queue is where they live:

* a key waits at most once, however often it is added (`add` during the wait changes nothing);
* a key is never worked on twice at the same time (`add` during the work waits until `done`, then queues once);
* an `add` is never lost: after it, the key will be handed out at least once.

Keys leave in the order in which they came; a key that is added again all the time goes to the end each time, so it
cannot keep others waiting. Back-off is per key: `add_rate_limited` waits 5 ms, 10 ms, 20 ms ... up to a limit, until
`forget`. Delayed adds keep one timer per key, the earliest, because a reconcile reads the whole state anyway.

A key can be paused after its work (`done(key, rest=...)`). Adds during the pause wait for its end and become one piece
of work. A set whose thousand pods all become ready is reconciled a few dozen times instead of a thousand.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from kohort.kube.metrics import QueueMetrics

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """The queue was shut down and has nothing left to hand out."""


class WorkQueue(Generic[K]):
    def __init__(
        self, *, base_delay: float = 0.005, max_delay: float = 60.0, metrics: QueueMetrics | None = None
    ) -> None:
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._metrics = metrics
        self._waiting: deque[K] = deque()
        self._dirty: set[K] = set()
        """Keys that need work: waiting, or added while being worked on or resting."""
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._resting: dict[K, asyncio.TimerHandle] = {}
        self._workers: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def closed(self) -> bool:
        return self._closed

    def add(self, key: K) -> None:
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if self._metrics is not None:
            self._metrics.added(key)
        if key not in self._working and key not in self._resting:
            self._enqueue(key)

    def add_after(self, key: K, seconds: float) -> None:
        if seconds <= 0:
            self.add(key)
            return
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        pending = self._timers.get(key)
        if pending is not None:
            if pending.when() <= when:
                return
            pending.cancel()
        self._timers[key] = loop.call_at(when, self._due, key)

    def add_rate_limited(self, key: K) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self._metrics is not None:
            self._metrics.retried()
        self.add_after(key, self._delay(failures))

    def forget(self, key: K) -> None:
        """The key was reconciled: its next failure starts with the shortest delay."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key; `done` must follow. Raises QueueClosed once shut down and empty."""
        while not self._waiting:
            if self._closed:
                raise QueueClosed
            await self._wait_for_key()
        key = self._waiting.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        if self._metrics is not None:
            self._metrics.taken(key)
        return key

    def done(self, key: K, *, rest: float = 0.0) -> None:
        """The work is over; the key is not handed out again for `rest` seconds."""
        self._working.discard(key)
        if self._metrics is not None:
            self._metrics.done(key)
        if rest > 0 and not self._closed:
            self._resting[key] = asyncio.get_running_loop().call_later(rest, self._delay_elapsed, key)
        elif key in self._dirty:
            self._enqueue(key)
        self._wake_idle()

    def _delay_elapsed(self, key: K) -> None:
        del self._resting[key]
        if key in self._dirty:
            self._enqueue(key)

    def shut_down(self, *, drain: bool = False) -> None:
        """Accept nothing more. What waits is handed out first if `drain`, else dropped."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for key, timer in [*self._resting.items()]:
            timer.cancel()
            self._delay_elapsed(key)
        if not drain:
            self._waiting.clear()
            self._dirty.clear()
        for worker in self._workers:
            _wake(worker)
        self._wake_idle()

    async def idle(self) -> None:
        """Returns when nothing waits and nothing is worked on; delayed adds may be pending."""
        while self._dirty or self._working:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter

    def _delay(self, failures: int) -> float:
        # 2**failures is capped before the multiplication: a key can fail for weeks.
        return float(min(self._max_delay, self._base_delay * 2 ** min(failures, 40)))

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _enqueue(self, key: K) -> None:
        self._waiting.append(key)
        self._wake_next()

    async def _wait_for_key(self) -> None:
        worker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._workers.append(worker)
        try:
            await worker
        except asyncio.CancelledError:
            # A worker that was woken and cancelled in the same turn must pass the wake-up on, or a key would stay
            # queued while other workers sleep.
            if worker.done() and not worker.cancelled() and self._waiting:
                self._wake_next()
            else:
                self._forget_worker(worker)
            raise

    def _wake_next(self) -> None:
        while self._workers:
            worker = self._workers.popleft()
            if not worker.done():
                worker.set_result(None)
                return

    def _forget_worker(self, worker: "asyncio.Future[None]") -> None:
        if worker in self._workers:
            self._workers.remove(worker)

    def _wake_idle(self) -> None:
        if not self._dirty and not self._working:
            for waiter in self._idle:
                _wake(waiter)
            self._idle.clear()


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
