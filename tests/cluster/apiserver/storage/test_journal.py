"""The database file: what comes back after a restart, how it stays small, and what is said when it is unusable."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.children import imports

from kohort.cluster.apiserver.storage import committer
from kohort.cluster.apiserver.storage.errors import (
    DatabaseCorrupt,
    DatabaseGone,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseTooNew,
    DiskError,
    DiskFull,
    StorageError,
    WriteFailed,
)
from kohort.cluster.apiserver.storage.journal import Journal, Record
from kohort.cluster.apiserver.storage.store import ObjectStore, open_store


def record(name: str, revision: int, size: int | None = 100) -> Record:
    return Record("pods", "ns", name, revision, None if size is None else b"x" * size, {"app": name}, {"f": "v"})


def reopened(path: Path) -> tuple[int, dict[str, int]]:
    """The revision and the objects that a restart finds."""
    with closing(Journal(path)) as journal:
        found = journal.take_recovered()
    return found.revision, {item.name: item.revision for item in found.records.values()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def written(path: Path, *groups: list[Record]) -> None:
    with closing(Journal(path)) as journal:
        for group in groups:
            journal.append(group, group[-1].revision)


def test_a_restart_finds_the_newest_version_of_every_object(path: Path) -> None:
    written(path, [record("a", 2), record("b", 3)], [record("a", 4)], [record("b", 5, None), record("c", 6)])
    assert reopened(path) == (6, {"a": 4, "c": 6})
    with closing(Journal(path)) as journal:
        assert journal.take_recovered().records["pods", "ns", "a"] == record("a", 4)


def test_the_revision_survives_the_deletion_of_everything(path: Path) -> None:
    with closing(Journal(path, slack_bytes=0)) as journal:
        journal.append([record("a", 2)], 2)
        journal.append([record("a", 3, None)], 3)
        while journal.needs_cleaning:
            journal.clean()
    assert reopened(path) == (3, {})


def test_cleaning_bounds_the_file_and_keeps_what_is_live(path: Path) -> None:
    with closing(Journal(path, slack_bytes=100_000)) as journal:
        journal.append([record(f"cold-{number}", number + 2, 1000) for number in range(20)], 21)
        for revision in range(22, 2022):
            journal.append([record(f"hot-{revision % 5}", revision, 1000)], revision)
            while journal.needs_cleaning:
                journal.clean()
            journal.checkpoint()
    revision, objects = reopened(path)
    assert revision == 2021
    assert objects == {f"cold-{n}": n + 2 for n in range(20)} | {f"hot-{r % 5}": r for r in range(2017, 2022)}
    assert path.stat().st_size < 500_000


def test_cleaning_ends_when_all_is_live(path: Path) -> None:
    with closing(Journal(path, slack_bytes=0)) as journal:
        for revision in range(2, 200):
            journal.append([record(f"pod-{revision}", revision, 1)], revision)
        assert not journal.needs_cleaning


async def test_a_write_that_finds_the_disk_full_fails_alone_and_leaves_no_trace(path: Path) -> None:
    journal = Journal(path)
    store = ObjectStore(journal)
    await store.write("pods", "ns", "a", {"value": "x"}, expected=0)
    # SQLite itself says "database or disk is full" at this bound.
    pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
    journal._db.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(WriteFailed, match="full"):
        await store.write("pods", "ns", "b", {"value": "x" * 100_000}, expected=0)
    assert store.get("pods", "ns", "b") is None
    journal._db.execute("PRAGMA max_page_count = 100000")
    stored = await store.write("pods", "ns", "b", {"value": "y"}, expected=0)
    await store.close()
    again = open_store(path)
    assert (again.revision, again.get("pods", "ns", "b")) == (stored.revision, stored)
    await again.close()


def refused(path: Path, kind: type[StorageError]) -> str:
    before = path.read_bytes()
    with pytest.raises(kind) as refusal:
        Journal(path)
    assert path.read_bytes() == before
    assert str(path) in str(refusal.value)
    return str(refusal.value)


def test_two_processes_do_not_share_a_database(path: Path) -> None:
    with closing(Journal(path)):
        assert "another process" in refused(path, DatabaseLocked)
    assert reopened(path) == (0, {})


def test_a_database_is_locked_whatever_is_deleted_beside_it(path: Path) -> None:
    with closing(Journal(path)):
        for file in path.parent.iterdir():
            if file != path:
                file.unlink()
        assert "another process" in refused(path, DatabaseLocked)


@pytest.mark.parametrize("lost", ["", "-wal"], ids=["the database", "its WAL"])
@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_no_write_counts_once_a_file_is_not_at_its_path(path: Path, lost: str, replaced: bool) -> None:
    file = path.with_name(path.name + lost)
    with closing(Journal(path)) as journal:
        journal.append([record("a", 2)], 2)
        copy = file.read_bytes()
        file.unlink()
        if replaced:
            file.write_bytes(copy)
        for revision in (3, 4):
            with pytest.raises(DatabaseGone, match=f"{file.name} was deleted or replaced"):
                journal.append([record("b", revision)], revision)


async def test_an_idle_store_notices_that_its_directory_is_gone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "CHECK_SECONDS", 0.01)
    noticed = threading.Event()
    monkeypatch.setattr(committer.log, "error", lambda *words: noticed.set())
    store = open_store(path)
    await store.write("pods", "ns", "a", {"metadata": {}}, expected=0)
    assert store.problem == ""
    shutil.rmtree(path.parent)
    assert await asyncio.get_running_loop().run_in_executor(None, noticed.wait, 30)
    assert "deleted or replaced" in store.problem
    with pytest.raises(DatabaseGone):
        await store.write("pods", "ns", "b", {"metadata": {}}, expected=0)
    assert [stored.name for stored in store.list("pods")] == ["a"]
    await store.close()


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 100)
    assert "not a database" in refused(path, DatabaseCorrupt)


def test_a_database_of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE log (x)")
    assert "not a database of kohort" in refused(path, DatabaseCorrupt)


def test_a_database_of_a_later_version(path: Path) -> None:
    written(path, [record("a", 2)])
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    assert "newer kohort" in refused(path, DatabaseTooNew)


@pytest.mark.parametrize("where", [0.3, 0.5, 0.7, 0.9])
def test_a_damaged_page_is_noticed(path: Path, where: float) -> None:
    written(path, *[[record(f"pod-{revision}", revision, 5000)] for revision in range(2, 100)])
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(int(size * where))
        file.write(os.urandom(4096))
    refused(path, DatabaseCorrupt)


def test_a_truncated_file_is_noticed(path: Path) -> None:
    written(path, *[[record(f"pod-{revision}", revision, 5000)] for revision in range(2, 100)])
    os.truncate(path, path.stat().st_size // 2)
    refused(path, DatabaseCorrupt)


def test_a_missing_row_is_noticed(path: Path) -> None:
    written(path, [record("a", 2)], [record("b", 3)], [record("c", 4)])
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM log WHERE seq = 2")
        db.commit()
    assert "rows 2 to 2 of its log are missing" in refused(path, DatabaseCorrupt)


@pytest.mark.parametrize("got_as_far_as", ["the file", "its first page"])
def test_a_file_with_nothing_in_it_is_a_new_database(path: Path, got_as_far_as: str) -> None:
    """That is what a crash during creation leaves behind."""
    path.touch()
    if got_as_far_as == "its first page":
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode = WAL")
        assert path.stat().st_size > 0
    written(path, [record("a", 2)])
    assert reopened(path) == (2, {"a": 2})


@pytest.mark.parametrize("lost", ["emptied", "removed"])
def test_a_database_that_is_gone_while_its_wal_is_not_is_noticed(path: Path, lost: str) -> None:
    """SQLite itself would throw the WAL away, with writes that were acknowledged."""
    with closing(Journal(path)) as journal:
        journal.append([record("a", 2)], 2)
        wal = path.with_name("state.db-wal")
        content = wal.read_bytes()
    wal.write_bytes(content)
    path.unlink()
    if lost == "emptied":
        path.touch()
    with pytest.raises(DatabaseCorrupt, match=r"its WAL is not\); it was left untouched: .* state\.db-wal away"):
        Journal(path)
    assert wal.read_bytes() == content
    assert path.exists() == (lost == "emptied")


def test_a_disk_error_is_not_reported_as_a_damaged_database(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads that a database is damaged throws it away. What cannot be read at all is a stand-in for a disk."""
    path.mkdir()
    (path / "x").touch()
    with pytest.raises(DiskError, match="cannot be read"):
        Journal(path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 20, 1 << 20, 0))
    with pytest.raises(DiskFull, match=r"is full; nothing was changed: make room"):
        Journal(path)


def test_others_cannot_read_the_files(path: Path) -> None:
    with closing(Journal(path)) as journal:
        journal.append([record("a", 2)], 2)
        assert {oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()} == {"0o600"}


OPEN_AS_NOBODY = """
import os, sys
import urllib.parse  # Python 3.13 imports it when it is needed, which may be where this user cannot read
from pathlib import Path
from kohort.cluster.apiserver.storage.errors import DatabaseReadOnly
from kohort.cluster.apiserver.storage.journal import Journal
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    Journal(Path(sys.argv[1]))
except DatabaseReadOnly as error:
    print(error)
"""


def test_a_read_only_directory_is_named(path: Path) -> None:
    """Root may write everywhere, so the attempt is made by a child without privileges."""
    written(path, [record("a", 2)])
    path.chmod(0o444)
    path.parent.chmod(0o555)
    for parent in path.parents[1:4]:
        parent.chmod(parent.stat().st_mode | 0o055)
    try:
        child = subprocess.run(
            [sys.executable, "-c", OPEN_AS_NOBODY, str(path)],
            env=imports(),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        path.parent.chmod(0o755)
    assert f"the database {path} cannot be written" in child.stdout, child.stderr


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseReadOnly, match="No such file or directory"):
        Journal(tmp_path / "missing" / "state.db")
