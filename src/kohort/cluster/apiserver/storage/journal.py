"""The durable half of the store: an append log in SQLite.

All objects live in memory; the file exists to bring them back. So it is written as a log, and one group of writes is
one row: `seq`, the newest revision, a checksum, and the records packed together. That one row matters. A statement per
object, with an index entry per object, costs two more B-tree pages per write, and every SQLite step gives up Python's
interpreter lock and has to win it back from a busy event loop; here a group of any size takes it once.

The log is cleaned from its old end: the records of the oldest rows that are still the newest version of their object
are appended again, then those rows are deleted. Applying all rows in order of `seq` therefore always gives the present
state; a deletion may be forgotten once it is the oldest row, since nothing older is left that it could hide; and rows
are numbered without gaps, so a missing row is noticed. Freed pages are reused, which bounds the file at about twice the
live data. The last row is never cleaned away: it carries the revision at which a restart continues.

SQLite runs in WAL mode with synchronous=FULL: a commit is one sequential write and one fsync of the WAL. Moving the WAL
into the database file (a checkpoint) is done by a second connection on a thread of its own.

The database file itself is locked (flock, which SQLite does not use), so that a second process cannot open it whatever
else was deleted beside it. A file that is deleted or replaced while it is open would take every further write without
complaint and lose it with the process; so a group only counts as durable if afterwards the database and its WAL are
still the files at their paths. Once they are not, nothing more is written until a restart.

Everything here blocks. `committer.py` calls it from its thread; only `take_recovered` runs before there is a thread.
"""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import TypeAlias

import msgspec

from kohort.cluster.apiserver.storage.disk_reserve import DiskReserve
from kohort.cluster.apiserver.storage.errors import (
    DatabaseCorrupt,
    DatabaseGone,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseTooNew,
    DiskError,
    DiskFull,
    StorageError,
)

FORMAT = 1
APPLICATION_ID = 0x6B6F686F
"""`koho`: distinguishes our files from other SQLite databases."""

SLACK_BYTES = 32 << 20
"""Garbage that is not worth cleaning."""
CLEAN_BYTES = 1 << 20
"""How much of the old end one cleaning step looks at."""

PAGE_BYTES = 16 << 10
"""Larger than usual: rows are large and are only ever appended and deleted."""

SHARED_MEMORY_BYTES = 32 << 10
"""What SQLite takes for the index of a WAL."""

SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE log (
  seq INTEGER PRIMARY KEY,
  revision INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  records BLOB NOT NULL
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One version of one object, or its deletion when `raw` is None."""

    bucket: str
    namespace: str
    name: str
    revision: int
    raw: bytes | None
    labels: dict[str, str] = {}
    fields: dict[str, str] = {}

    @property
    def key(self) -> "RecordKey":
        return (self.bucket, self.namespace, self.name)


RecordKey: TypeAlias = tuple[str, str, str]


class RecordHeader(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first fields of a record, to look at it without copying the object out of it."""

    bucket: str
    namespace: str
    name: str
    revision: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode
_decode_packed = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_heading = msgspec.msgpack.Decoder(RecordHeader).decode


class DatabaseContent(msgspec.Struct):
    """What a database holds."""

    revision: int = 0
    records: dict[RecordKey, Record] = {}
    first_seq: int = 1
    row_sizes: list[int] = []


class Journal:
    """One open database, locked so that two processes never write to the same one."""

    def __init__(self, path: Path, *, slack_bytes: int = SLACK_BYTES) -> None:
        self.path = path
        self._reserve = DiskReserve(path.with_name(f"{path.name}-reserve"))
        self._slack_bytes = slack_bytes
        self._lock = _lock(path)
        try:
            recovered = _recover(path)
            self._db = _open_for_writing(path)
            self._files = {path: _identity(os.fstat(self._lock)), _wal(path): _identity(_wal(path).stat())}
            """What must be found at these paths for as long as the database is open."""
        except BaseException:
            os.close(self._lock)
            raise
        self._reserve.renew()
        self._recovered: DatabaseContent | None = recovered
        self._revision = recovered.revision
        self._first_seq = recovered.first_seq
        self._row_sizes = deque(recovered.row_sizes)
        self._live = {key: (record.revision, len(_encode(record))) for key, record in recovered.records.items()}
        """The newest version of every object and how many bytes it takes in the log."""
        self._live_bytes = sum(size for _, size in self._live.values())
        self._total_bytes = sum(self._row_sizes)
        self.unchecked_bytes = 0
        """Written since the last checkpoint."""
        self.gone: DatabaseGone | None = None

    def take_recovered(self) -> DatabaseContent:
        """What was in the file when it was opened. Can be taken once, so that it does not stay in memory."""
        assert self._recovered is not None
        recovered, self._recovered = self._recovered, None
        return recovered

    def append(self, records: Sequence[Record], revision: int) -> None:
        """Make a group of writes durable, all or none. Raises DiskFull."""
        blob = _encode(records)
        try:
            self._insert(blob, revision)
        except sqlite3.Error as error:
            self._insert_into_reserve(blob, revision, error)
        self.check_files()
        overhead = (len(blob) - sum(len(record.raw or b"") for record in records)) // len(records)
        for record in records:
            self._forget(record.key)
            if record.raw is not None:
                self._remember(record.key, record.revision, len(record.raw) + overhead)

    def _insert_into_reserve(self, blob: bytes, revision: int, error: sqlite3.Error) -> None:
        if not isinstance(full := _explained(self.path, error), DiskFull):
            raise error
        if not self._reserve.release_for(_wal(self.path)):
            raise full from error
        try:
            self._insert(blob, revision)
        except sqlite3.Error as again:
            raise _explained(self.path, again) from again

    def renew_reserve(self) -> None:
        """Keep room for writes to a full disk, if there is some."""
        self._reserve.renew()

    def check_files(self) -> None:
        """Raises DatabaseGone when the open files are no longer those at their paths, then and ever after."""
        if self.gone is None:
            self.gone = next((DatabaseGone(path) for path, own in self._files.items() if _found(path) != own), None)
        if self.gone is not None:
            raise self.gone

    @property
    def needs_cleaning(self) -> bool:
        return self._total_bytes > 2 * self._live_bytes + self._slack_bytes and len(self._row_sizes) > 1

    def clean(self) -> None:
        """One bounded step of cleaning: move what is still needed from the oldest rows to the end, drop the rows."""
        count = self._rows_to_clean()
        last = self._first_seq + count - 1
        kept: list[msgspec.Raw] = []
        for (blob,) in self._db.execute("SELECT records FROM log WHERE seq <= ? ORDER BY seq", (last,)):
            kept += filter(self._is_live, _decode_packed(blob))
        with self._unsynced(), self._transaction():
            if kept:
                self._insert(_encode(kept), self._revision)
            self._db.execute("DELETE FROM log WHERE seq <= ?", (last,))
        self._first_seq += count
        self._total_bytes -= sum(self._row_sizes.popleft() for _ in range(count))

    def checkpoint(self) -> None:
        """Move what is left of the WAL into the database file, so that the WAL starts again from its beginning."""
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
        self.unchecked_bytes = 0

    @contextlib.contextmanager
    def beside(self) -> Iterator[Callable[[], None]]:
        """A checkpoint through a connection of its own, for another thread, while commits go on."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            yield lambda: db.execute("PRAGMA wal_checkpoint(PASSIVE)").close()

    def close(self) -> None:
        self._db.close()
        os.close(self._lock)

    def _remember(self, key: RecordKey, revision: int, size: int) -> None:
        self._live[key] = (revision, size)
        self._live_bytes += size

    def _forget(self, key: RecordKey) -> None:
        _, size = self._live.pop(key, (0, 0))
        self._live_bytes -= size

    def _is_live(self, packed: msgspec.Raw) -> bool:
        record = _decode_heading(packed)
        key = (record.bucket, record.namespace, record.name)
        revision, _ = self._live.get(key, (0, 0))
        if revision != record.revision:
            return False
        # Measured now instead of estimated: so cleaning ends once everything left is live.
        self._forget(key)
        self._remember(key, revision, len(memoryview(packed)))
        return True

    def _rows_to_clean(self) -> int:
        """Enough of the oldest rows for one step, never the last one."""
        sizes = accumulate(islice(self._row_sizes, len(self._row_sizes) - 1))
        return 1 + sum(1 for _ in takewhile(lambda size: size < CLEAN_BYTES, islice(sizes, 1, None)))

    def _insert(self, blob: bytes, revision: int) -> None:
        row = (self._first_seq + len(self._row_sizes), revision, zlib.crc32(blob), blob)
        self._db.execute("INSERT INTO log (seq, revision, checksum, records) VALUES (?, ?, ?, ?)", row)
        self._row_sizes.append(len(blob))
        self._revision = revision
        self._total_bytes += len(blob)
        self.unchecked_bytes += len(blob)

    @contextlib.contextmanager
    def _unsynced(self) -> Iterator[None]:
        """Commit without fsync. Cleaning changes nothing that a reader could miss, and the next group of writes, which
        is behind it in the WAL, syncs both."""
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        rows = len(self._row_sizes)
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            while len(self._row_sizes) > rows:
                self._total_bytes -= self._row_sizes.pop()
            raise


def _lock(path: Path) -> int:
    """Lock the database, created empty if need be, for as long as the descriptor is open; the kernel releases the lock
    when the process dies. A file that is replaced meanwhile is not the one to lock."""
    while True:
        try:
            if not _size(path) and _size(_wal(path)):
                # A new database gets its first page before its WAL gets anything.
                raise DatabaseCorrupt(path, "it is empty or gone, and its WAL is not")
            create = 0 if path.exists() else os.O_CREAT
            descriptor = os.open(path, os.O_RDONLY | create | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DatabaseReadOnly(path, error.strerror or str(error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise DatabaseLocked(path) from error
        if _found(path) == _identity(os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


FileIdentity: TypeAlias = tuple[int, int]
"""Device and inode."""


def _identity(status: os.stat_result) -> FileIdentity:
    return status.st_dev, status.st_ino


def _found(path: Path) -> FileIdentity | None:
    """The file at a path, None when there is none."""
    try:
        return _identity(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _recover(path: Path) -> DatabaseContent:
    """Read everything through a read-only connection, which even on closing changes nothing in the file."""
    if _size(path) == 0:
        return DatabaseContent()
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            if _is_blank(db):
                return DatabaseContent()
            _check_format(path, db)
            return _replay(path, db.execute("SELECT seq, revision, checksum, records FROM log ORDER BY seq"))
    except sqlite3.Error as error:
        raise _explained(path, error) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_blank(db: sqlite3.Connection) -> bool:
    """A database without anything in it: its creation was interrupted."""
    return bool(db.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


def _check_format(path: Path, db: sqlite3.Connection) -> None:
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application_id != APPLICATION_ID:
        raise DatabaseCorrupt(path, "it is not a database of kohort")
    if version > FORMAT:
        raise DatabaseTooNew(path, version, FORMAT)


def _replay(path: Path, rows: Iterable[tuple[int, int, int, bytes]]) -> DatabaseContent:
    found = DatabaseContent()
    for seq, revision, checksum, blob in rows:
        if not found.row_sizes:
            found.first_seq = seq
        expected = found.first_seq + len(found.row_sizes)
        if seq != expected:
            raise DatabaseCorrupt(path, f"rows {expected} to {seq - 1} of its log are missing")
        if zlib.crc32(blob) != checksum or revision < found.revision:
            raise DatabaseCorrupt(path, f"row {seq} of its log does not match its checksum")
        for record in _unpacked(path, seq, blob):
            if record.raw is None:
                found.records.pop(record.key, None)
            else:
                found.records[record.key] = record
        found.row_sizes.append(len(blob))
        found.revision = revision
    return found


def _unpacked(path: Path, seq: int, blob: bytes) -> list[Record]:
    try:
        return _decode(blob)
    except msgspec.MsgspecError as error:
        raise DatabaseCorrupt(path, f"row {seq} of its log cannot be read") from error


def _open_for_writing(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    except sqlite3.Error as error:
        raise _explained(path, error) from error
    try:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA cache_size = -2000")
        if db.execute("PRAGMA user_version").fetchone() == (0,):
            db.executescript(SCHEMA)
        # A file that can be read but not written shows it here, not at the first user's write.
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
    except sqlite3.Error as error:
        db.close()
        raise _explained(path, error) from error
    return db


def _is_full(path: Path) -> bool:
    """Whether there is no room for what SQLite needs beside a database before it reads it."""
    return shutil.disk_usage(path.parent).free < SHARED_MEMORY_BYTES


def _explained(path: Path, error: sqlite3.Error) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return DiskFull(path)
    if code == sqlite3.SQLITE_IOERR:
        return DiskError(path, str(error))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return DatabaseReadOnly(path, str(error))
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseLocked(path)
    return DatabaseCorrupt(path, str(error))
