"""One reader of a bucket's changes."""

from collections.abc import AsyncIterator, Callable, Sequence

from kohort.cluster.apiserver.storage.bucket import Bucket
from kohort.cluster.apiserver.storage.model import Change, SlowWatcher

BATCH = 500


class Watcher(AsyncIterator[Sequence[Change]]):
    """Iterates over batches of changes, for ever.

    An object rather than an async generator for two reasons: it takes its place in the window when it is made, not when
    it is first awaited; and an `__anext__` that is cancelled (by a timeout, say) loses nothing and can be repeated.
    """

    __slots__ = ("_bucket", "_closed", "_position", "_since")

    def __init__(self, bucket: Bucket, since: int, closed: Callable[[], bool]) -> None:
        self._bucket = bucket
        self._since = since
        self._position = bucket.window.position_after(since)
        self._closed = closed

    def __aiter__(self) -> "Watcher":
        return self

    async def __anext__(self) -> Sequence[Change]:
        while True:
            if batch := self._take():
                return batch
            if self._closed():
                raise StopAsyncIteration
            await self._bucket.next_commit()

    def _take(self) -> Sequence[Change]:
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
