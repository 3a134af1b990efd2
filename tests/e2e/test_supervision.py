"""What happens to a cluster whose parts fail, or which crashes as a whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.children import environment
from tests.e2e.test_up import CONFIG_MAPS, config_map, wait_until

from kohort.objects.json_types import JsonObject
from kohort.up import status_records
from kohort.up.data_directory import DataDirectory
from kohort.up.status_records import SupervisorRecord

if TYPE_CHECKING:
    from tests.e2e.conftest import Kohort

pytestmark = pytest.mark.e2e

FAULTY = """
import asyncio, signal, sys
from kohort.cluster.scheduler import registration

def register(manager, plain=registration.register):
    plain(manager)
    fail = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, fail.set)

    async def fault():
        await fail.wait()
        raise RuntimeError("injected fault")

    manager.background("fault", fault)

registration.register = register
from kohort.cli.main import main
main()
"""
"""`kohort` with a scheduler that fails on SIGUSR1."""


def cluster_status(kohort: "Kohort") -> tuple[int, JsonObject]:
    done = kohort.call("status", "--cluster", "-o", "json")
    found: JsonObject = json.loads(done.stdout) if done.stdout else {}
    return done.returncode, found


def part(found: JsonObject, name: str) -> JsonObject:
    (one,) = (each for each in found["process"]["parts"] if each["name"] == name)
    record: JsonObject = one
    return record


def answers(kohort: "Kohort") -> bool:
    try:
        return bool(kohort.request("/readyz") == "ok")
    except OSError:
        return False


def processes(directory: Path) -> list[str]:
    """Command lines with this directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(directory).encode() in words:
                found.append(b" ".join(words).decode())
    return found


def test_a_part_that_fails_is_started_again_and_that_is_said(kohort: "Kohort") -> None:
    command = [sys.executable, "-c", FAULTY, "up", "--data-dir", str(kohort.data), "--port", "0"]
    words = ("--simulated-nodes", "1", "--parts", "apiserver,workloads,scheduler")
    child = subprocess.Popen(
        [*command, *words], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    kohort.children.append(child)
    assert child.stdout is not None
    kohort.server = child.stdout.readline().split()[1]
    code, found = cluster_status(kohort)
    assert (code, part(found, "scheduler")["restarts"], found["supervisor"]) == (0, 0, None)
    child.send_signal(signal.SIGUSR1)
    wait_until(lambda: part(cluster_status(kohort)[1], "scheduler")["restarts"] == 1)
    wait_until(lambda: cluster_status(kohort)[0] == 0)
    again = part(cluster_status(kohort)[1], "scheduler")
    assert (again["state"], again["restarts"], again["reason"]) == ("Ready", 1, "RuntimeError: injected fault")
    text = kohort.call("status", "--cluster").stdout
    assert "scheduler   Ready" in text
    assert "RuntimeError: injected fault" in text
    events = kohort.request("/api/v1/namespaces/default/events")["items"]
    (event,) = (one for one in events if one["reason"] == "PartFailed")
    assert event["message"] == ("part scheduler failed: RuntimeError: injected fault; starting it again in 1 s")
    pods = "/api/v1/namespaces/default/pods"
    kohort.request(pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    wait_until(lambda: kohort.request(f"{pods}/p")["spec"].get("nodeName") == "sim-0")


def detach(kohort: "Kohort") -> int:
    """Start it in the background; the pid of the cluster."""
    started = kohort.call("up", "--detach", "--port", "0", "--parts", "apiserver,workloads")
    assert started.returncode == 0, started.stderr
    kohort.server = started.stdout.split()[1]
    pid = DataDirectory(kohort.data).owner()
    assert pid is not None
    return pid


def crash(kohort: "Kohort", number: signal.Signals = signal.SIGSEGV) -> None:
    pid = DataDirectory(kohort.data).owner()
    assert pid is not None
    os.kill(pid, number)


def test_a_crash_in_the_background_is_followed_by_a_restart_at_the_same_address(kohort: "Kohort") -> None:
    first = detach(kohort)
    kohort.request(CONFIG_MAPS, config_map("kept"))
    crash(kohort)
    wait_until(lambda: DataDirectory(kohort.data).owner() not in (None, first) and answers(kohort))
    assert kohort.request(f"{CONFIG_MAPS}/kept")["data"] == {"key": "kept"}
    wait_until(lambda: cluster_status(kohort)[0] == 0)
    _, found = cluster_status(kohort)
    assert [one["reason"] for one in found["supervisor"]["restarts"]] == ["ended by signal SIGSEGV"]
    assert "it ended by signal SIGSEGV" in kohort.call("status", "--cluster").stdout
    wait_until(lambda: "ProcessRestarted" in reasons(kohort))
    assert "Fatal Python error: Segmentation fault" in (kohort.data / "kohort.log").read_text()
    assert kohort.call("down").returncode == 0
    assert processes(kohort.data) == []
    assert kohort.call("status", "--cluster").stderr == f"kohort: kohort is not running on {kohort.data}\n"


def reasons(kohort: "Kohort") -> list[str]:
    return [one["reason"] for one in kohort.request("/api/v1/namespaces/default/events")["items"]]


def supervisor_state(kohort: "Kohort") -> str:
    """From its file: a command would take a good part of the time that the state lasts."""
    record = status_records.read(kohort.data, status_records.SUPERVISOR, SupervisorRecord)
    return record.state if record is not None else ""


def test_down_while_a_restart_is_due(kohort: "Kohort") -> None:
    detach(kohort)
    data = DataDirectory(kohort.data)
    for _ in range(2):
        crash(kohort, signal.SIGKILL)
        wait_until(lambda: data.owner() is None)
        wait_until(lambda: data.owner() is not None and answers(kohort))
    crash(kohort, signal.SIGKILL)
    wait_until(lambda: supervisor_state(kohort) == "BackOff")
    assert "is about to restart it" in kohort.refusal("--port", "0")
    stopped = kohort.call("down")
    assert (stopped.returncode, stopped.stdout.startswith("stopped (pid ")) == (0, True), stopped.stderr
    assert processes(kohort.data) == []
    kohort.up("--parts", "apiserver")


def test_a_cluster_whose_supervisor_was_killed_goes_on_and_can_be_stopped(kohort: "Kohort") -> None:
    detach(kohort)
    supervisor = DataDirectory(kohort.data).supervisor()
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: DataDirectory(kohort.data).supervisor() is None)
    assert answers(kohort)
    code, found = cluster_status(kohort)
    assert (code, found["supervisor"]) == (0, None)
    assert kohort.call("down").returncode == 0
    assert processes(kohort.data) == []


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_process_itself_can_be_stopped_and_stays_down(kohort: "Kohort", stop: signal.Signals) -> None:
    pid = detach(kohort)
    os.kill(pid, stop)
    wait_until(lambda: processes(kohort.data) == [])
    assert kohort.call("down").stdout == f"kohort is not running on {kohort.data}\n"


@pytest.mark.parametrize("size", ["4k", "32k", "96k"])
def test_a_full_disk_is_named(kohort: "Kohort", size: str) -> None:
    """In a file system of its own, too small for the lock, the keys or the database."""
    if os.getuid() != 0:
        pytest.skip("mounting needs root")
    kohort.data.mkdir(mode=0o700)
    words = kohort.command("up", "--port", "0", "--parts", "apiserver")
    script = f'mount -t tmpfs -o size={size},mode=700 none "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, str(kohort.data), *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.startswith(f"kohort: the disk that holds {kohort.data}")
    assert "is full" in done.stderr
    assert done.stderr.endswith("make room and start again\n")
