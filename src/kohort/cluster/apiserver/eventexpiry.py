"""Events are deleted an hour after they were last written, as in Kubernetes.

There, etcd does it: every write of an event comes with a lease of an hour. Here this task does it, and because all
objects are in memory, it also bounds how many events there are: beyond `MOST_EVENTS` the oldest ones go early. Without
a bound a cluster with busy pods grows for as long as it runs, by about 9 KB for every pod that comes and goes.

Events are kept in the order of their last write, so looking for those that are due costs nothing. After a restart the
time of the last write is taken from the event itself.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from kohort.cluster.apiserver.storage.errors import StorageError
from kohort.cluster.apiserver.storage.model import (
    Change,
    Changes,
    HistoryExpired,
    SlowWatcher,
    StaleRevision,
    Store,
    Stored,
)
from kohort.kube import clock
from kohort.kube.log import Log
from kohort.objects.jsontypes import JsonObject

BUCKET: Final = "events"
TTL_SECONDS: Final = 3600.0
MOST_EVENTS: Final = 10_000
RETRY_SECONDS: Final = 10.0
"""After a delete that the disk did not take."""

_log = Log(part="apiserver")
_Key = tuple[str, str]


class EventExpiry:
    def __init__(self, store: Store, *, ttl: float = TTL_SECONDS, most: int = MOST_EVENTS) -> None:
        self._store = store
        self._ttl = ttl
        self._most = most
        self._slack = max(1, most // 50)
        """How many more than `most` there may be before the surplus is deleted, in one group of writes."""
        self._due: dict[_Key, tuple[float, int]] = {}
        """When each event expires (in the time of the event loop) and its revision, in this order."""

    async def run(self) -> None:
        """For as long as the store is open."""
        while True:
            try:
                return await self._follow()
            except (SlowWatcher, HistoryExpired):
                continue  # Too much happened at once; the list says what is left.

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        changes = self._store.watch(BUCKET, self._store.revision)
        self._load(self._store.list(BUCKET), loop.time())
        changes.interrupt()
        timer: asyncio.TimerHandle | None = None
        try:
            async for batch in changes:
                self._note(batch, loop.time() + self._ttl)
                retry_after = await self._delete(self._expired(loop.time()))
                if timer is None or timer.when() <= loop.time():
                    timer = self._timer(changes, retry_after)
        finally:
            if timer is not None:
                timer.cancel()

    def _timer(self, changes: Changes, retry_after: float) -> asyncio.TimerHandle | None:
        """Wake `changes` when the next event expires. One that is early does no harm: it only looks again."""
        if not self._due:
            return None
        loop = asyncio.get_running_loop()
        due, _ = next(iter(self._due.values()))
        return loop.call_at(max(due, loop.time() + retry_after), changes.interrupt)

    def _load(self, events: Iterable[Stored], now: float) -> None:
        wall = clock.now()
        found = [
            (now + self._ttl - max(0.0, (wall - last_written(stored.decode(), wall)).total_seconds()), stored)
            for stored in events
        ]
        found.sort(key=lambda pair: (pair[0], pair[1].revision))
        self._due = {(stored.namespace, stored.name): (due, stored.revision) for due, stored in found}

    def _note(self, batch: Sequence[Change], due: float) -> None:
        for change in batch:
            key = (change.after.namespace, change.after.name)
            self._due.pop(key, None)
            if change.type != "DELETED":
                self._due[key] = (due, change.revision)

    def _expired(self, now: float) -> list[tuple[_Key, int]]:
        """Keys and revisions of what is to be deleted now."""
        surplus = len(self._due) - self._most
        early = surplus if surplus > self._slack else 0
        found: list[tuple[_Key, int]] = []
        for key, (due, revision) in self._due.items():
            if due > now and len(found) >= early:
                break
            found.append((key, revision))
        return found

    async def _delete(self, expired: Sequence[tuple[_Key, int]]) -> float:
        """All at once, so that they share their commits; returns after how many seconds it is worth trying again."""
        results = await asyncio.gather(*(self._delete_one(*one) for one in expired), return_exceptions=True)
        for (key, revision), result in zip(expired, results, strict=True):
            if isinstance(result, StorageError):
                _log.warning("expired events could not be deleted", problem=str(result))
                return RETRY_SECONDS
            if isinstance(result, BaseException):
                raise result
            if self._due.get(key, (0.0, 0))[1] == revision:
                del self._due[key]
        return 0.0

    async def _delete_one(self, key: _Key, revision: int) -> None:
        try:
            await self._store.write(BUCKET, *key, None, expected=revision)
        except StaleRevision:
            return  # It was written meanwhile, or deleted; its change is on the way here.


def last_written(event: JsonObject, otherwise: datetime) -> datetime:
    """The latest of the times that an event carries."""
    series = event.get("series") or {}
    stamps = (
        event["metadata"].get("creationTimestamp"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max((datetime.fromisoformat(stamp) for stamp in stamps if stamp), default=otherwise)
