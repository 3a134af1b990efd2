"""A data directory and the one process it belongs to."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.children import imports

from kohort.up import cluster
from kohort.up.cluster import UpOptions, parts_only
from kohort.up.data_directory import DataDirectory, Stopped, default_directory
from kohort.up.lock_holder import flock_holder, is_running
from kohort.up.startup_errors import CannotStart

HOLDER = """
import signal, subprocess, sys
from pathlib import Path
from kohort.up.data_directory import DataDirectory
if "hangs" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
data = DataDirectory(Path(sys.argv[1]))
if "supervisor" in sys.argv:
    with data.supervised():
        sys.exit(subprocess.call([each for each in sys.orig_argv if each != "supervisor"]))
with data.owned():
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "deep" / "data")


def holder(data: DataDirectory, *how: str) -> "subprocess.Popen[str]":
    """Another process that owns the directory until its input ends, or supervises one that does."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(data.path), *how],
        env=imports(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "mine\n"
    return child


def test_the_directory_is_made_for_its_owner_only(data: DataDirectory) -> None:
    with data.owned():
        assert data.path.stat().st_mode & 0o777 == 0o700


def test_a_second_owner_is_refused_with_the_pid_of_the_first(data: DataDirectory) -> None:
    with holder(data) as child:
        assert data.owner() == child.pid
        with (
            pytest.raises(CannotStart, match=rf"a cluster runs on {data.path} already \(pid {child.pid}\)"),
            data.owned(),
        ):
            pass
        child.kill()
    with data.owned():
        assert data.owner() == os.getpid()
    assert data.owner() is None


def test_a_second_owner_is_refused_even_if_the_lock_file_was_deleted(data: DataDirectory) -> None:
    with holder(data) as child:
        (data.path / "kohort.lock").unlink()
        with (
            pytest.raises(CannotStart, match=rf"a cluster runs on {data.path} already \(pid {child.pid}\)"),
            data.owned(),
        ):
            pass
        child.kill()
    with data.owned():
        assert data.owner() == os.getpid()


@pytest.mark.parametrize("started_since", [False, True], ids=["deleted", "deleted and made again by a refused start"])
def test_the_owner_can_be_asked_to_stop_though_its_lock_file_was_deleted(
    data: DataDirectory, started_since: bool
) -> None:
    with holder(data) as child:
        (data.path / "kohort.lock").unlink()
        if started_since:
            with pytest.raises(CannotStart), data.owned():
                pass
        assert data.owner() == child.pid
        assert data.stop_owner() == Stopped(child.pid)
    assert data.owner() is None


def test_a_process_that_only_looks_at_the_directory_is_not_its_owner(data: DataDirectory) -> None:
    data.create()
    descriptor = os.open(data.path, os.O_RDONLY)
    try:
        assert flock_holder(data.path) is None
        assert data.owner() is None
    finally:
        os.close(descriptor)


def test_a_directory_that_does_not_exist_has_no_owner(data: DataDirectory) -> None:
    assert data.owner() is None
    assert data.stop_owner() is None
    assert not data.path.exists()


def test_the_owner_can_be_asked_to_stop_and_has_ended_then(data: DataDirectory) -> None:
    with holder(data) as child:
        assert is_running(child.pid)
        assert data.stop_owner() == Stopped(child.pid)
        assert not is_running(child.pid)
    assert data.owner() is None


def test_an_owner_that_hangs_is_killed(data: DataDirectory) -> None:
    with holder(data, "hangs") as child:
        assert data.stop_owner(seconds=0.1) == Stopped(child.pid, killed=(child.pid,))
        assert not is_running(child.pid)
    assert data.owner() is None


def test_a_supervisor_that_waits_for_an_owner_that_hangs_is_killed_before_it(data: DataDirectory) -> None:
    data.create()
    with holder(data, "hangs", "supervisor") as supervisor:
        owner = data.owner()
        assert owner is not None and data.supervisor() == supervisor.pid
        assert data.stop_owner(seconds=0.1) == Stopped(owner, killed=(supervisor.pid, owner))
    assert (data.supervisor(), data.owner()) == (None, None)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("keep me")
    with pytest.raises(CannotStart, match="is not a directory"):
        DataDirectory(tmp_path / "file").create()
    assert (tmp_path / "file").read_text() == "keep me"


def test_a_full_disk_is_told_as_one(data: DataDirectory) -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError, match="No space") as problem:
        full.write(b"x")
    assert str(data.unusable(problem.value)) == f"the disk that holds {data.path} is full; make room and start again"


@pytest.mark.parametrize(("free", "told"), [(0, "is full; make room"), (1 << 30, "cannot be set up: no luck")])
def test_why_a_cluster_cannot_be_set_up(
    data: DataDirectory, monkeypatch: pytest.MonkeyPatch, free: int, told: str
) -> None:
    data.create()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 30, 0, free))
    assert told in str(data.unready("no luck"))


def test_what_is_to_be_typed_can_be_typed(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "it's here")
    words = shlex.split(data.export)
    assert words == ["export", f"KUBECONFIG={data.kubeconfig}"]
    with data.owned(), pytest.raises(CannotStart) as refusal, DataDirectory(data.path).owned():
        pass
    command = str(refusal.value).partition("stop it with ")[2].partition(", or")[0]
    assert shlex.split(command) == ["kohort", "down", "--data-dir", str(data.path)]


def test_a_log_that_cannot_be_opened_is_told_as_the_directory_it_is_in(data: DataDirectory) -> None:
    data.create()
    data.log.mkdir()
    text = rf"cannot write to the data directory {data.path}: Is a directory"
    with pytest.raises(CannotStart, match=text), data.logged():
        pass


def test_leftover_processes_are_not_ended_while_an_owner_runs(data: DataDirectory) -> None:
    data.node.mkdir(parents=True)
    with holder(data):
        assert data.end_leftovers() == 0
    assert data.end_leftovers() == 0


@pytest.fixture
def nobody_there(tmp_path: Path) -> Path:
    """The kubeconfig of a cluster that does not run."""
    config = tmp_path / "config"
    nowhere = "{name: a, cluster: {server: 'http://127.0.0.1:9'}}"
    config.write_text(
        f"clusters: [{nowhere}]\ncontexts: [{{name: a, context: {{cluster: a, user: ''}}}}]\ncurrent-context: a\n"
    )
    return config


async def test_two_processes_cannot_run_pods_in_one_directory(data: DataDirectory, nobody_there: Path) -> None:
    options = UpOptions(data, parts=("node",), kubeconfig=nobody_there)
    with holder(data), pytest.raises(CannotStart, match="already"):
        async with parts_only(options):
            pass


async def test_parts_of_a_cluster_that_does_not_answer(
    data: DataDirectory, nobody_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.1)
    with pytest.raises(CannotStart, match=r"no answer from http://127\.0\.0\.1:9: .*; start that cluster"):
        async with parts_only(UpOptions(data, parts=("workloads",), kubeconfig=nobody_there)):
            pass
    assert not data.path.exists()


@pytest.mark.parametrize(
    ("xdg", "expected"),
    [("/data", "/data/kohort"), ("", "~/.local/share/kohort"), ("not/absolute", "~/.local/share/kohort")],
)
def test_where_a_cluster_lives_by_default(monkeypatch: pytest.MonkeyPatch, xdg: str, expected: str) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", xdg)
    assert default_directory() == Path(expected).expanduser()
