"""Group commit: many writers, one fsync.

Writes are collected during one turn of the event loop and handed to a thread as one list. While the thread waits for
the disk, further lists queue up; it takes all of them at once, so groups grow with the load and the rate of writes does
not depend on the latency of the disk. Completion is reported to the event loop in the order of revisions.

A group that cannot be written fails alone. What is queued behind it does not build upon it: the store lets a second
write of an object wait until the first one has succeeded or failed.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from kohort.cluster.apiserver.storage.errors import (
    DatabaseGone,
    DiskFull,
    StorageError,
    StoreClosed,
    StoreFull,
    WriteFailed,
)
from kohort.cluster.apiserver.storage.journal import Journal, Record

CHECKPOINT_BYTES = 8 << 20
"""Start moving the WAL into the database after this much was written."""
CHECK_SECONDS = 0.5
"""How often an idle thread looks whether the database is still there."""

log = logging.getLogger(__name__)


class Write(Protocol):
    """A write on its way. The committer reads its record; the rest belongs to the store."""

    @property
    def record(self) -> Record: ...


W = TypeVar("W", bound=Write)


class Committer(Generic[W]):
    def __init__(self, journal: Journal, outcome: Callable[[Sequence[W], StorageError | None], None]) -> None:
        """`outcome` is called on the event loop: these writes are durable, or failed with this error."""
        self._journal = journal
        self._outcome = outcome
        self._turn: list[W] = []
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: queue.SimpleQueue[list[W] | None] = queue.SimpleQueue()
        self._checkpoints = Checkpoints(journal)
        self._thread = threading.Thread(target=self._run, name="kohort-commit", daemon=True)
        self._thread.start()

    def submit(self, write: W) -> None:
        if self._closed:
            raise StoreClosed
        self._turn.append(write)
        if len(self._turn) == 1:
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._hand_over)

    async def close(self) -> None:
        """Finish what was submitted, then let go of the file."""
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._inbox.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _hand_over(self) -> None:
        if self._turn:
            turn, self._turn = self._turn, []
            self._inbox.put(turn)

    @property
    def gone(self) -> DatabaseGone | None:
        """Set once the database was found to be deleted or replaced."""
        return self._journal.gone

    # What follows runs on the thread.

    def _run(self) -> None:
        try:
            while self._commit_next():
                self._tidy()
        finally:
            self._checkpoints.close()
            self._journal.close()

    def _commit_next(self) -> bool:
        """Wait for writes and commit all that have arrived. False when the committer has to stop."""
        group: list[W] = []
        stop = False
        while not stop and not (group and self._inbox.empty()):
            turn = self._next_turn()
            if turn is None:
                stop = True
            else:
                group.extend(turn)
        if group:
            self._commit(group)
        return not stop

    def _next_turn(self) -> list[W] | None:
        while True:
            try:
                return self._inbox.get(timeout=CHECK_SECONDS)
            except queue.Empty:
                self._check_files()

    def _check_files(self) -> None:
        if self._journal.gone is None:
            try:
                self._journal.check_files()
                self._journal.renew_reserve()
            except DatabaseGone as error:
                log.error("%s", error)
            except OSError as error:
                log.warning("cannot look for %s: %s", self._journal.path, error)

    def _commit(self, group: list[W]) -> None:
        failure: StorageError | None = self._journal.gone
        if failure is not None:
            self._report(group, failure)
            return
        try:
            records = [write.record for write in group]
            self._journal.append(records, records[-1].revision)
        except DatabaseGone as error:
            log.error("%s", error)
            failure = error
        except DiskFull as error:
            log.error("cannot write to %s: its disk is full", self._journal.path)
            failure = StoreFull(f"cannot write to {self._journal.path}: {error.__cause__ or error}")
        except Exception as error:
            # Whatever went wrong, this thread goes on, and every writer gets the error.
            log.error("cannot write to %s: %s", self._journal.path, error)
            failure = WriteFailed(f"cannot write to {self._journal.path}: {error}")
        self._report(group, failure)

    def _report(self, writes: list[W], failure: StorageError | None) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._outcome, writes, failure)
        except RuntimeError:
            log.debug("event loop closed: %d writes have no waiter", len(writes))

    def _tidy(self) -> None:
        """Clean and checkpoint while no write waits, a step at a time."""
        if self._journal.gone is not None:
            return
        try:
            self._checkpoints.after_commit()
            while self._journal.needs_cleaning:
                self._journal.clean()
                if not self._inbox.empty():
                    return
        except sqlite3.Error as error:
            log.warning("failed to remove old revisions from %s, retrying later: %s", self._journal.path, error)


class Checkpoints:
    """Moves the WAL into the database on a thread of its own, so that commits do not wait for it.

    A background pass cannot finish while commits go on: there is always a little more WAL. So when it reports back, the
    committing thread moves that little rest itself, and the next commit starts the WAL from its beginning.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._running = False
        self._finished = threading.Event()
        self._thread: threading.Thread | None = None

    def after_commit(self) -> None:
        if self._finished.is_set():
            self._finished.clear()
            self._running = False
            self._journal.checkpoint()
        elif not self._running and self._journal.unchecked_bytes > CHECKPOINT_BYTES:
            self._running = True
            self._start()
            self._wanted.put(True)

    def close(self) -> None:
        if self._thread is not None:
            self._wanted.put(False)
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kohort-checkpoint", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        with self._journal.beside() as checkpoint:
            while self._wanted.get():
                try:
                    checkpoint()
                except sqlite3.Error as error:
                    log.warning("cannot checkpoint %s, trying again later: %s", self._journal.path, error)
                self._finished.set()
