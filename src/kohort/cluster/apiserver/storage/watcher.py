"""One reader of a bucket's changes."""

import asyncio
from collections.abc import Callable, Sequence

from kohort.cluster.apiserver.storage.bucket import Bucket
from kohort.cluster.apiserver.storage.model import Change, SlowWatcher

BATCH = 500


class Watcher:
    """Iterates over batches of changes, for ever.

    An object rather than an async generator for two reasons: it takes its place in the window when it is made, not when
    it is first awaited; and an `__anext__` that is cancelled (by a timeout, say) loses nothing and can be repeated.

    `interrupt` ends the waiting with an empty batch: a reader with a timetable needs one timer for each of its dates,
    not a timeout around each batch.
    """

    __slots__ = ("_bucket", "_closed", "_interrupted", "_position", "_since", "_waiting")

    def __init__(self, bucket: Bucket, since: int, closed: Callable[[], bool]) -> None:
        self._bucket = bucket
        self._since = since
        self._position = bucket.window.position_after(since)
        self._closed = closed
        self._interrupted = False
        self._waiting: asyncio.Future[None] | None = None

    def interrupt(self) -> None:
        self._interrupted = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def __aiter__(self) -> "Watcher":
        return self

    async def __anext__(self) -> Sequence[Change]:
        while True:
            if self._interrupted:
                self._interrupted = False
                return ()
            if batch := self.take():
                return batch
            if self._closed():
                raise StopAsyncIteration
            await self._next_commit()

    async def _next_commit(self) -> None:
        self._waiting = self._bucket.next_commit()
        try:
            await self._waiting
        finally:
            self._bucket.ignore(self._waiting)
            self._waiting = None

    def take(self) -> Sequence[Change]:
        window = self._bucket.window
        if self._position < window.first:
            raise SlowWatcher(f"changes up to revision {window.floor} are gone before they were read")
        while batch := window.read(self._position, BATCH):
            self._position += len(batch)
            if batch[0].after.revision > self._since:
                return batch
            # The reader asked for the time after a revision that did not exist yet.
            if later := [change for change in batch if change.after.revision > self._since]:
                return later
        return ()
