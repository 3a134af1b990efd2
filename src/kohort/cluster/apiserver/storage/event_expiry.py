"""Events do not stay for ever: one that was not written for an hour is deleted, as Kubernetes does by default.

An hour of a busy cluster can be hundreds of megabytes, and here they are all in memory. So there is a second bound, on
their number; beyond it the ones written longest ago go early. No cluster that people look at event by event reaches it.

Deleting is a plain write to the store. It does not go through admission, as it does not in Kubernetes, where the
database forgets them.
"""

import asyncio
from itertools import islice
from typing import Final

from kohort.cluster.apiserver.storage.bucket import ObjectKey
from kohort.cluster.apiserver.storage.errors import StorageError
from kohort.cluster.apiserver.storage.model import StaleRevision, Store, Stored
from kohort.kube import clock
from kohort.kube.tasks import cancel_all

BUCKET: Final = "events"
KEEP_SECONDS: Final = 3600.0
MOST_EVENTS: Final = 10_000
_AT_ONCE: Final = 256
"""Deletions that share a commit."""
_PAUSE: Final = 10.0
"""Events that are due are collected for so long."""


class EventExpiry:
    def __init__(self, store: Store, *, keep_seconds: float = KEEP_SECONDS, most: int = MOST_EVENTS) -> None:
        self._store = store
        self._keep = keep_seconds
        self._most = most
        self._written: dict[ObjectKey, tuple[float, int]] = {}
        """When an event was written, and the revision it has had since; those written longest ago come first. A dict
        keeps the order in which its keys were put in."""
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Take up the events of a former run. When they were written is in them."""
        now, wall = asyncio.get_running_loop().time(), clock.seconds()
        found = [(now - max(0.0, wall - _last_seen(stored)), stored) for stored in self._store.list(BUCKET)]
        for when, stored in sorted(found, key=lambda pair: pair[0]):
            self._written[stored.namespace, stored.name] = (when, stored.revision)
        self._wake_when_due()

    async def committed(self, stored: Stored) -> None:
        """An event was created, changed or deleted."""
        key = (stored.namespace, stored.name)
        self._written.pop(key, None)
        if (current := self._store.get(BUCKET, *key)) is not None:
            self._written[key] = (asyncio.get_running_loop().time(), current.revision)
        if len(self._written) > self._most:
            self._delete_due()
        self._wake_when_due()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await cancel_all(self._task)

    def _wake_when_due(self) -> None:
        if self._timer is not None or not self._written:
            return
        loop = asyncio.get_running_loop()
        oldest, _ = next(iter(self._written.values()))
        due = max(oldest + self._keep, loop.time()) + _PAUSE
        self._timer = loop.call_at(due, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._delete_due()
        self._wake_when_due()

    def _delete_due(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._delete())

    async def _delete(self) -> None:
        while batch := self._due():
            await asyncio.gather(*(self._forget(key, revision) for key, revision in batch))

    def _due(self) -> list[tuple[ObjectKey, int]]:
        expired, surplus = asyncio.get_running_loop().time() - self._keep, len(self._written) - self._most
        oldest = enumerate(islice(self._written.items(), _AT_ONCE))
        return [(key, revision) for place, (key, (when, revision)) in oldest if when <= expired or place < surplus]

    async def _forget(self, key: ObjectKey, revision: int) -> None:
        """A database that cannot write will be asked again: the event counts as written just now."""
        self._written.pop(key, None)
        try:
            await self._store.write(BUCKET, *key, None, expected=revision)
        except StaleRevision:
            return
        except StorageError:
            self._written[key] = (asyncio.get_running_loop().time(), revision)


def _last_seen(stored: Stored) -> float:
    event = stored.decode()
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((clock.parse_time(time).timestamp() for time in times if time), 0.0)
