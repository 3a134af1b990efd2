"""A start that is refused or interrupted leaves nothing that it made."""

import socket
from pathlib import Path

import pytest

from kohort.up.cluster import UpOptions, cluster
from kohort.up.data_directory import DataDirectory
from kohort.up.startup_errors import CannotStart


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "deep" / "data")


def fill(data: DataDirectory) -> None:
    """What a cluster makes while it starts."""
    data.pki.mkdir()
    for file in (data.store, data.kubeconfig, data.pki / "ca.key", data.path / "status.json"):
        file.write_text("new")
    (data.node / "records").mkdir(parents=True)


@pytest.mark.parametrize("end", [CannotStart, KeyboardInterrupt, OSError])
def test_a_start_that_fails_leaves_nothing(data: DataDirectory, tmp_path: Path, end: type[BaseException]) -> None:
    with pytest.raises(end), data.owned():
        fill(data)
        raise end
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_succeeds_keeps_everything(data: DataDirectory) -> None:
    with pytest.raises(KeyboardInterrupt), data.owned() as new:
        fill(data)
        new.keep()
        raise KeyboardInterrupt
    assert data.store.exists() and data.kubeconfig.exists()


def test_what_was_there_before_stays(data: DataDirectory) -> None:
    data.create()
    for name in ("mine.txt", "kohort.lock"):
        (data.path / name).touch()
    (data.path / "mine").mkdir()
    with pytest.raises(CannotStart), data.owned():
        fill(data)
        raise CannotStart
    assert sorted(one.name for one in data.path.iterdir()) == ["kohort.lock", "mine", "mine.txt"]


@pytest.mark.parametrize("there", ["store.db", "node/pods/uid"])
def test_neither_a_cluster_nor_its_pods_are_removed(data: DataDirectory, there: str) -> None:
    """Objects of an earlier cluster may name what is new, and pods may run below the node's directory."""
    data.create()
    if there == "store.db":
        data.store.touch()
    with pytest.raises(KeyboardInterrupt), data.owned():
        (data.node / "pods" / "uid").mkdir(parents=True)
        data.volumes.mkdir()
        raise KeyboardInterrupt
    assert (data.node / "pods" / "uid").exists() and data.volumes.exists()


def test_a_start_that_finds_the_directory_in_use_removes_nothing(data: DataDirectory) -> None:
    with data.owned() as new:
        with pytest.raises(CannotStart, match="already"), DataDirectory(data.path).owned():
            pass
        fill(data)
        with pytest.raises(CannotStart, match="already"), DataDirectory(data.path).supervised():
            pass
        with pytest.raises(CannotStart, match="already"), DataDirectory(data.path).logged():
            pass
        new.keep()
    assert data.store.exists() and data.owner() is None
    assert not data.log.exists()
    assert not (data.path / "supervisor.lock").exists()


def test_a_lock_file_that_was_removed_is_made_again(data: DataDirectory) -> None:
    """A process that waits for the lock of a start that is refused gets the lock of a file without a name."""
    lock = data.path / "kohort.lock"
    with pytest.raises(CannotStart), data.owned():
        raise CannotStart
    with data.owned():
        lock.unlink()
        descriptor, is_new = data._take(lock)
        assert is_new and lock.read_text() == ""
        assert (descriptor > 0, lock.exists()) == (True, True)


def test_directories_on_the_way_to_one_that_cannot_be_made_are_removed(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "on" / "the way" / ("x" * 300))
    with pytest.raises(CannotStart, match="File name too long"):
        data.create()
    assert list(tmp_path.iterdir()) == []


def test_a_supervisor_removes_its_own_files_unless_a_process_was_ready(data: DataDirectory) -> None:
    data.create()
    record = data.path / "supervisor.json"
    with data.supervised():
        record.touch()
        data.log.touch()
    assert [one.name for one in data.path.iterdir()] == ["kohort.log"]
    with data.supervised() as new:
        record.touch()
        new.keep()
    assert record.exists()
    with data.supervised():
        pass
    assert record.exists()


@pytest.mark.parametrize("end", [CannotStart, KeyboardInterrupt])
def test_the_log_of_a_start_that_fails_is_removed(
    data: DataDirectory, tmp_path: Path, end: type[BaseException]
) -> None:
    with pytest.raises(end), data.logged():
        assert data.log.exists()
        raise end
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(end), data.logged() as (_, new):
        new.keep()
        raise end
    assert data.log.exists()
    with pytest.raises(end), data.logged():
        raise end
    assert data.log.exists()


async def test_a_cluster_whose_port_is_taken_leaves_nothing(data: DataDirectory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotStart, match="is in use"):
        async with cluster(UpOptions(data, port=taken.getsockname()[1])):
            pass
    assert not data.path.parent.exists()


async def test_keys_that_cannot_be_made_leave_nothing_new(data: DataDirectory) -> None:
    data.create()
    data.pki.touch()
    with pytest.raises(CannotStart):
        async with cluster(UpOptions(data, port=0)):
            pass
    assert [one.name for one in data.path.iterdir()] == ["pki"]
