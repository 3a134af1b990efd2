"""A store on a disk that is full."""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.cluster.apiserver.storage.disk_reserve import LEAST_FREE, RESERVE_BYTES, DiskReserve
from kohort.cluster.apiserver.storage.errors import StoreFull
from kohort.cluster.apiserver.storage.journal import Journal
from kohort.cluster.apiserver.storage.store import ObjectStore, open_store


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    size = f"size={LEAST_FREE + (24 << 20)}"
    words = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)]
    mounted = subprocess.run(words, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("nothing may be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """As a pod does that writes until it cannot."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return filler


async def test_what_fills_the_disk_can_be_deleted(disk: Path) -> None:
    journal = Journal(disk / "store.db")
    store = ObjectStore(journal)
    stored = await store.write("pods", "ns", "a", {"value": "x"}, expected=0)
    filler = fill(disk)
    for number in range(100):
        fill(disk)
        stored = await store.write("pods", "ns", "a", {"value": str(number) * 2000}, expected=stored.revision)
    await store.write("pods", "ns", "a", None, expected=stored.revision)
    assert not (disk / "store.db-reserve").exists()
    with pytest.raises(StoreFull, match="full"):
        for number in range(2000):
            await store.write("pods", "ns", f"b{number}", {"value": "x" * 20_000}, expected=0)
    filler.unlink()
    await store.write("pods", "ns", "c", {}, expected=0)
    journal.renew_reserve()
    assert (disk / "store.db-reserve").stat().st_blocks * 512 >= RESERVE_BYTES
    await store.close()
    again = open_store(disk / "store.db")
    assert again.get("pods", "ns", "a") is None and again.get("pods", "ns", "c") is not None
    await again.close()


def test_a_small_disk_has_no_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil._ntuple_diskusage(LEAST_FREE, 1, LEAST_FREE - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    DiskReserve(tmp_path / "reserve").renew()
    assert not (tmp_path / "reserve").exists()


def test_a_disk_that_fills_up_meanwhile_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    DiskReserve(tmp_path / "reserve").renew()
