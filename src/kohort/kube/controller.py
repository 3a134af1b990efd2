"""The reconcile loop.

A controller is a function from a key to actions. It never learns which event caused the call: it reads the caches,
compares with what should be, and acts. Therefore events may be merged, repeated or delivered late, and every failure is
handled the same way: retry the key with a growing delay.

| reconcile ...               | then the key                                                    |
|-----------------------------|-----------------------------------------------------------------|
| returns None                | waits until something changes                                   |
| returns Requeue(after=s)    | is reconciled again in s seconds                                |
| returns Requeue()           | is reconciled again, with the key's growing delay               |
| raises Conflict             | like Requeue(): the cache was behind, nothing is wrong          |
| raises anything else        | is logged with its key and tried again with the growing delay   |
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import msgspec

from kohort.kube.errors import ApiError, Conflict
from kohort.kube.event_mapping import Mapper, own_key
from kohort.kube.informer import ChangeHandler, Informer
from kohort.kube.log import Log
from kohort.kube.metrics import Metrics
from kohort.kube.object_identity import T
from kohort.kube.queue import QueueClosed, WorkQueue
from kohort.kube.resources import Key
from kohort.objects.json_types import Json

_log = Log(module="kohort.kube.controller")


_CHEAP = 0.002


class Pacing(msgspec.Struct, frozen=True):
    """How much of a worker's time one key may take. Its events are merged during the pause after its work."""

    share: float
    longest: float
    """Seconds that a pause lasts at most."""

    def rest_after(self, worked: float) -> float:
        return 0.0 if worked < _CHEAP else min(worked * (1 / self.share - 1), self.longest)


DEFAULT_PACING = Pacing(1 / 3, 0.1)
"""Pauses are too short for a person to notice."""
SLOW = Pacing(1 / 50, 1.0)
"""For costly work that grows with the number of objects and is read by programs that merge changes themselves, such as
long lists of endpoints."""
UNTHROTTLED = Pacing(1.0, 0.0)
"""For work that mostly waits for other components, and that others wait for."""

PacingOf = Callable[[Key], Pacing]


def default_pacing(_: Key) -> Pacing:
    return DEFAULT_PACING


def unthrottled(_: Key) -> Pacing:
    return UNTHROTTLED


class Requeue(msgspec.Struct, frozen=True):
    """Look at the key again: in `after` seconds, or with back-off when `after` is 0."""

    after: float = 0.0


Reconcile = Callable[[Key], Awaitable[Requeue | None]]
When = Callable[[T | None, T | None], bool]


class Controller:
    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 1,
        max_delay: float = 60.0,
        metrics: Metrics | None = None,
        pace: PacingOf = default_pacing,
    ) -> None:
        self.name = name
        self._pace = pace
        self.queue: WorkQueue[Key] = WorkQueue(max_delay=max_delay, metrics=metrics.queue(name) if metrics else None)
        self.informers: list[Informer[Json]] = []
        self._reconcile = reconcile
        self._workers = workers
        self._metrics = metrics.reconciler(name, workers) if metrics else None
        self._log = _log.bind(controller=name)

    def watches(self, informer: Informer[T], mapper: Mapper = own_key, *, when: When[T] | None = None) -> "Controller":
        """Reconcile what `mapper` says whenever an object of `informer` changes, for its state before and after.

        `when(old, new)` can hold back changes that never matter; it sees None for absence.
        """

        def changed(old: T | None, new: T | None) -> None:
            if when is not None and not when(old, new):
                return
            for state in (old, new):
                if state is not None:
                    for key in mapper(state):
                        self.queue.add(key)

        self.informers.append(cast("Informer[Json]", informer))
        informer.on_change(cast("ChangeHandler[T]", changed))
        return self

    def enqueue(self, key: Key, after: float = 0.0) -> None:
        """Reconcile a key for a reason other than a change in an informer."""
        self.queue.add_after(key, after)

    async def run(self) -> None:
        """Work until the queue is shut down. Cancelling cancels reconciles in flight."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    def stop(self) -> None:
        """Finish the keys being worked on and start no other."""
        self.queue.shut_down()

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            start = clock()
            if self._metrics is not None:
                self._metrics.began()
            try:
                await self._reconcile_one(key)
            finally:
                if self._metrics is not None:
                    self._metrics.ended()
                self.queue.done(key, rest=self._pace(key).rest_after(clock() - start))

    async def _reconcile_one(self, key: Key) -> None:
        clock = asyncio.get_running_loop().time
        start = clock()
        try:
            answer = await self._reconcile(key)
        except Conflict as problem:
            self._log.debug("write conflict, reconciling again", key=str(key), problem=problem.message)
            answer = Requeue()
        except ApiError as problem:
            self._failed(key, problem=problem.message)
            return self._count("error", clock() - start)
        except Exception as problem:
            if self._metrics is not None:
                self._metrics.raised(problem)
            self._failed(key, exc_info=True)
            return self._count("error", clock() - start)
        self._count(self._schedule(key, answer), clock() - start)

    def _failed(self, key: Key, **reason: Json) -> None:
        """Log an API error by its message, anything else with its stack."""
        self._log.error("reconcile failed", key=str(key), failures=self.queue.failures(key) + 1, **reason)
        self.queue.add_rate_limited(key)

    def _schedule(self, key: Key, answer: Requeue | None) -> str:
        if answer is None:
            self.queue.forget(key)
            return "success"
        if answer.after > 0:
            self.queue.forget(key)
            self.queue.add_after(key, answer.after)
            return "requeue_after"
        self.queue.add_rate_limited(key)
        return "requeue"

    def _count(self, result: str, seconds: float) -> None:
        if self._metrics is not None:
            self._metrics.finished(result, seconds)
