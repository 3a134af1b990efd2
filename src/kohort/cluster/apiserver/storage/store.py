"""The store: all objects in memory, one revision counter, and nothing visible before it is durable.

Everything is decided on the event loop. A write takes the next revision, is handed to the committer, and becomes
visible to readers and watchers, in revision order, when the disk has it; only then does the writer get its answer. Two
writers of the same object are put in order here: the second one waits until the first is visible and is then judged
against it. It could be refused at once, but then it would read the old version again and be refused again, in a busy
loop, until the disk is done.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, groupby
from pathlib import Path

import msgspec

from kohort.cluster.apiserver.storage.bucket import Bucket, ObjectKey
from kohort.cluster.apiserver.storage.change_history import ChangeWindow
from kohort.cluster.apiserver.storage.committer import Committer
from kohort.cluster.apiserver.storage.errors import StorageError, StoreClosed
from kohort.cluster.apiserver.storage.journal import Journal, Record, RecordKey
from kohort.cluster.apiserver.storage.model import Change, HistoryExpired, StaleRevision, Store, Stored
from kohort.cluster.apiserver.storage.watcher import Watcher
from kohort.objects.json_types import JsonObject

FIRST_REVISION = 1
"""The revision of an empty store: clients take 0 for "any"."""

COMPACT_SECONDS = 300.0
"""How long a list can be continued or read exactly; as long as Kubernetes keeps old revisions."""

_encode = msgspec.json.Encoder().encode
_NOTHING: Mapping[str, str] = {}


def open_store(path: Path | None = None) -> Store:
    """Open, or create, the store in the file `path`; without a path it lives in memory only and has no thread.

    Raises a StorageError that says what is wrong with the file, which is then left as it was.
    """
    return ObjectStore(Journal(path) if path is not None else None)


def store_with(contents: Iterable[Stored]) -> Store:
    """A store in memory with these objects, as they were stored elsewhere."""
    store = ObjectStore()
    store.load(list(contents))
    return store


class PendingWrite:
    """A change that has its revision and is not yet durable."""

    __slots__ = ("change", "done", "successors")

    def __init__(self, change: Change, done: asyncio.Future[None]) -> None:
        self.change = change
        self.done = done
        """What the writer waits for. Cancelled when the writer gave up, which does not take back the write."""
        self.successors: list[asyncio.Future[None]] = []
        """Who wants to write the same object next."""

    async def over(self) -> None:
        """Wait until it has succeeded or failed."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.successors.append(over)
        await over

    def finish(self, failure: StorageError | None) -> None:
        if not self.done.done():
            if failure is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(failure)
        for successor in self.successors:
            if not successor.done():
                successor.set_result(None)

    @property
    def record(self) -> Record:
        after = self.change.after
        if self.change.type == "DELETED":
            return Record(after.bucket, after.namespace, after.name, after.revision, None)
        labels, fields = dict(after.labels), dict(after.fields)
        return Record(after.bucket, after.namespace, after.name, after.revision, after.raw, labels, fields)


class RevisionAges:
    """Which revisions are too old to be listed, as if the store were compacted every `COMPACT_SECONDS`.

    How far back a bucket can be read depends on how busy it is; how long a client may take over the pages of a list
    should not. So a revision expires for lists when a newer one has itself become that old.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int]] = deque()
        """The newest revision of each second, younger than `COMPACT_SECONDS`."""
        self._compacted = 0
        self._clock: Callable[[], float] = lambda: 0.0

    def add(self, revision: int, clock: Callable[[], float]) -> None:
        self._clock, time = clock, clock()
        if self._recent and time < self._recent[-1][0] + 1.0:
            self._recent[-1] = (self._recent[-1][0], revision)
        else:
            self._recent.append((time, revision))
        if len(self._recent) > COMPACT_SECONDS:
            self.compacted()

    def compacted(self) -> int:
        """The oldest revision that can still be listed."""
        expired = self._clock() - COMPACT_SECONDS
        while self._recent and self._recent[0][0] <= expired:
            self._compacted = self._recent.popleft()[1]
        return self._compacted


class ObjectStore:
    def __init__(self, journal: Journal | None = None) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._start = self._visible = FIRST_REVISION
        self._ages = RevisionAges()
        self._numbers = count(self._visible + 1)
        self._in_flight: dict[RecordKey, PendingWrite] = {}
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = count()
        self._closed = False
        if journal is not None:
            recovered = journal.take_recovered()
            self.load(list(map(_stored, recovered.records.values())), recovered.revision)
        self._committer = Committer(journal, self._committed) if journal is not None else None

    def load(self, objects: Sequence[Stored], revision: int = FIRST_REVISION) -> None:
        """Begin with these objects, at `revision` or that of the newest of them. Their history is not known."""
        self._start = self._visible = max((FIRST_REVISION, revision, *(one.revision for one in objects)))
        self._numbers = count(self._visible + 1)
        for name, found in _by_bucket(objects).items():
            self._bucket(name).load(found)

    @property
    def revision(self) -> int:
        return self._visible

    @property
    def problem(self) -> str:
        gone = self._committer.gone if self._committer is not None else None
        return gone.PUBLIC if gone is not None else ""

    @property
    def oldest(self) -> int:
        return max((bucket.window.floor for bucket in self._buckets.values()), default=self._start)

    def get(self, bucket: str, namespace: str, name: str) -> Stored | None:
        found = self._buckets.get(bucket)
        return found.get((namespace, name)) if found is not None else None

    def list(self, bucket: str, namespace: str = "") -> Sequence[Stored]:
        found = self._buckets.get(bucket)
        return found.list(namespace) if found is not None else ()

    def list_at(self, bucket: str, revision: int, namespace: str = "") -> Sequence[Stored]:
        oldest = max(self._start, self._ages.compacted())
        if revision < oldest:
            raise HistoryExpired(oldest)
        found = self._buckets.get(bucket)
        return found.list_at(revision, namespace) if found is not None else ()

    def buckets(self) -> Sequence[str]:
        return sorted(name for name, bucket in self._buckets.items() if len(bucket))

    async def write(
        self,
        bucket: str,
        namespace: str,
        name: str,
        document: JsonObject | None,
        *,
        expected: int,
        labels: Mapping[str, str] = _NOTHING,
        fields: Mapping[str, str] = _NOTHING,
    ) -> Stored:
        key = (bucket, namespace, name)
        while (earlier := self._in_flight.get(key)) is not None:
            await earlier.over()
        if self._closed:
            raise StoreClosed
        current = self.get(bucket, namespace, name)
        if (current.revision if current is not None else 0) != expected or (current is None and document is None):
            raise StaleRevision(current)
        revision = next(self._numbers)
        if document is None:
            assert current is not None
            change = Change("DELETED", current, _last_state(current, revision))
        else:
            raw = _encode(_stamped(document, revision))
            after = Stored(bucket, namespace, name, revision, raw, labels, fields)
            change = Change("ADDED" if current is None else "MODIFIED", current, after)
        if self._committer is None:
            self._publish((change,))
        else:
            await self._make_durable(key, change, self._committer)
        return change.after

    def watch(self, bucket: str, since: int) -> Watcher:
        if since < self._start:
            raise HistoryExpired(self._start)
        return Watcher(self._bucket(bucket), since, lambda: self._closed)

    def begin_history(self) -> None:
        self._start = self._visible

    async def wait_for(self, revision: int, timeout: float) -> bool:
        if revision <= self._visible:
            return True
        visible: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._tickets), visible))
        await asyncio.wait((visible,), timeout=timeout)
        visible.cancel()
        return revision <= self._visible

    async def close(self) -> None:
        self._closed = True
        if self._committer is not None:
            await self._committer.close()
        for bucket in self._buckets.values():
            bucket.wake()

    async def _make_durable(self, key: RecordKey, change: Change, committer: "Committer[PendingWrite]") -> None:
        write = PendingWrite(change, asyncio.get_running_loop().create_future())
        committer.submit(write)
        self._in_flight[key] = write
        await write.done

    def _committed(self, writes: Sequence[PendingWrite], failure: StorageError | None) -> None:
        if failure is None:
            self._publish([write.change for write in writes])
        for write in writes:
            after = write.change.after
            del self._in_flight[after.bucket, after.namespace, after.name]
            write.finish(failure)

    def _publish(self, changes: Sequence[Change]) -> None:
        loop = asyncio.get_running_loop()
        time = loop.time()
        self._visible = changes[-1].after.revision
        self._ages.add(self._visible, loop.time)
        for name, group in groupby(sorted(changes, key=_bucket_name), key=_bucket_name):
            self._bucket(name).commit(tuple(group), time)
        while self._waiting and self._waiting[0][0] <= self._visible:
            visible = heapq.heappop(self._waiting)[2]
            if not visible.done():
                visible.set_result(None)

    def _bucket(self, name: str) -> Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(ChangeWindow(self._start))
        return bucket


def _stored(record: Record) -> Stored:
    assert record.raw is not None
    return Stored(
        record.bucket, record.namespace, record.name, record.revision, record.raw, record.labels, record.fields
    )


def _by_bucket(objects: Iterable[Stored]) -> dict[str, dict[ObjectKey, Stored]]:
    buckets: dict[str, dict[ObjectKey, Stored]] = {}
    for one in objects:
        buckets.setdefault(one.bucket, {})[one.namespace, one.name] = one
    return buckets


def _bucket_name(change: Change) -> str:
    return change.after.bucket


def _stamped(document: JsonObject, revision: int) -> JsonObject:
    return {**document, "metadata": {**document.get("metadata", {}), "resourceVersion": str(revision)}}


def _last_state(stored: Stored, revision: int) -> Stored:
    """What a DELETED event carries: the object as it was, with the revision of its deletion."""
    return Stored(
        stored.bucket,
        stored.namespace,
        stored.name,
        revision,
        _encode(_stamped(stored.decode(), revision)),
        stored.labels,
        stored.fields,
    )
