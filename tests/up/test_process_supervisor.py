"""The parent of a detached process, with real processes as its children."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.children import environment

SUPERVISOR = """
import sys
from pathlib import Path
from kohort.up.log_rotation import LogBound
from kohort.up.restart_policy import Restart, after_exit
from kohort.up.process_supervisor import Supervisor

def decide(code, **facts):
    found = after_exit(code, **facts)
    return Restart(found.seconds * float(sys.argv[3])) if isinstance(found, Restart) else found

command = [sys.executable, "-c", sys.argv[2], "--port", "0", sys.argv[1]]
sys.exit(Supervisor(Path(sys.argv[1]), command, decide, LogBound(1000, 0.02)).run())
"""
"""With other pauses than usual, and a small bound of the log."""

CHILD = """
import os, signal, sys, time
from pathlib import Path
directory = Path(sys.argv[-1])
with (directory / "starts").open("a") as starts:
    starts.write(f"{os.getpid()} {sys.argv[sys.argv.index('--port') + 1]}\\n")
READY = '{"pid": %d, "startedAt": "", "server": "https://127.0.0.1:7777", "ready": true}' % os.getpid()
"""
BECOME_READY = (
    CHILD + "(directory / 'new').write_text(READY)\nos.replace(directory / 'new', directory / 'status.json')\n"
)
CRASH = BECOME_READY + "os.kill(os.getpid(), signal.SIGSEGV)"
WAIT = (
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
    + BECOME_READY
    + "signal.sigwait([signal.SIGTERM])"
)

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[subprocess.Popen[str]] = []

    def run(child: str, pauses: float = 1.0) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", SUPERVISOR, str(tmp_path), child, str(pauses)]
        process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
        begun.append(process)
        return process

    yield run
    for process in begun:
        process.terminate()
        process.communicate(timeout=30)


def starts(directory: Path) -> list[tuple[int, str]]:
    """Pid and port of each child so far."""
    try:
        lines = (directory / "starts").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(int(pid), port) for pid, port in map(str.split, lines)]


def record(directory: Path) -> dict[str, object]:
    try:
        found: dict[str, object] = json.loads((directory / "supervisor.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_crash_is_followed_by_five_restarts_on_the_same_port(start: Start, tmp_path: Path) -> None:
    supervisor = start(CRASH, pauses=0.001)
    _, said = supervisor.communicate(timeout=60)
    assert supervisor.returncode == 128 + signal.SIGSEGV
    assert [port for _, port in starts(tmp_path)] == ["0", *["7777"] * 5]
    found = record(tmp_path)
    assert found["state"] == "TooManyRestarts"
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["event"] for line in lines] == [
        *["kohort ended by signal SIGSEGV, starting it again"] * 5,
        "kohort ended by signal SIGSEGV after 5 restarts in ten minutes, giving up",
    ]


def test_a_first_start_that_fails_is_not_repeated(start: Start, tmp_path: Path) -> None:
    supervisor = start(CHILD + "sys.exit(1)")
    _, said = supervisor.communicate(timeout=30)
    assert (supervisor.returncode, said, len(starts(tmp_path))) == (1, "", 1)
    assert record(tmp_path)["state"] == "StartFailed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_child_and_then_the_supervisor(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    supervisor = start(WAIT.replace("SIGTERM", number.name))
    wait_until((tmp_path / "status.json").exists)
    supervisor.send_signal(number)
    assert supervisor.wait(30) == 0
    ((pid, _),) = starts(tmp_path)
    assert not Path(f"/proc/{pid}").exists()
    assert record(tmp_path)["state"] == "Stopped"


def test_a_child_that_is_stopped_on_its_own_is_not_started_again(start: Start, tmp_path: Path) -> None:
    supervisor = start(WAIT)
    wait_until((tmp_path / "status.json").exists)
    subprocess.run(["kill", str(starts(tmp_path)[0][0])], check=True)
    assert supervisor.wait(30) == 0
    assert len(starts(tmp_path)) == 1


def test_a_signal_ends_the_wait_for_a_restart(start: Start, tmp_path: Path) -> None:
    supervisor = start(CRASH, pauses=1000)
    wait_until(lambda: record(tmp_path).get("state") == "BackOff")
    supervisor.terminate()
    assert supervisor.wait(30) == 0
    assert len(starts(tmp_path)) == 1
    assert record(tmp_path)["state"] == "Stopped"


def test_a_child_that_is_killed_is_started_again(start: Start, tmp_path: Path) -> None:
    supervisor = start(WAIT, pauses=0.001)
    wait_until((tmp_path / "status.json").exists)
    subprocess.run(["kill", "-KILL", str(starts(tmp_path)[0][0])], check=True)
    wait_until(lambda: len(starts(tmp_path)) == 2)
    assert supervisor.poll() is None
    restarts = record(tmp_path)["restarts"]
    assert isinstance(restarts, list)
    assert [one["reason"] for one in restarts] == ["ended by signal SIGKILL"]


def test_a_long_log_of_a_running_child_is_rotated(start: Start, tmp_path: Path) -> None:
    """The child writes through the descriptor that it has had since its start."""
    write = "log = (directory / 'kohort.log').open('a')\nlog.write('x' * 1500)\nlog.flush()\n"
    again = write + "signal.sigwait([signal.SIGTERM])\nlog.write('last')\nlog.flush()\n"
    supervisor = start(WAIT.replace("signal.sigwait([signal.SIGTERM])", again))
    log = tmp_path / "kohort.log"
    wait_until(lambda: log.exists() and (tmp_path / "kohort.log.1").exists() and not log.stat().st_size)
    supervisor.terminate()
    assert supervisor.wait(30) == 0
    assert (tmp_path / "kohort.log.1").read_text() == "x" * 1500
    assert log.read_text() == "last"
