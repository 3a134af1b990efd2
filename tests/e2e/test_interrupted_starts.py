"""Ctrl-C while `kohort up` starts: exit code 130, no traceback, and nothing is left.

A hook of the interpreter sends the signal at a named moment of the start, so that no test depends on time.
"""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.children import environment

pytestmark = pytest.mark.e2e

INTERRUPTED_AT = """
import os, signal, sys
event, part = sys.argv[1:3]
del sys.argv[1:3]
sent = False
def hook(name, arguments):
    global sent
    if not sent and name == event and part in repr(arguments):
        sent = True
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
from kohort.cli.entry import main
main()
"""


def interrupted(event: str, part: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", INTERRUPTED_AT, event, part, *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize(
    ("event", "part"),
    [
        ("exec", "click/core.py"),
        ("exec", "kohort/cli/up.py"),
        ("exec", "kohort/up/cluster.py"),
        ("exec", "kohort/up/process.py"),
        ("os.mkdir", "/deep"),
        ("os.mkdir", "/deep/data'"),
        ("open", "kohort.lock"),
        ("open", "ca.key"),
        ("sqlite3.connect", "store.db"),
        ("socket.bind", "127.0.0.1"),
        ("open", "kubeconfig"),
    ],
)
def test_an_interrupted_start_leaves_nothing(tmp_path: Path, event: str, part: str) -> None:
    data = str(tmp_path / "deep" / "data")
    ended = interrupted(event, part, "up", "--data-dir", data, "--port", "0", "--simulated-nodes", "1")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("event", "part"), [("os.mkdir", "/deep"), ("open", "kohort.log"), ("subprocess.Popen", "process_supervisor")]
)
def test_an_interrupted_start_in_the_background_leaves_nothing(tmp_path: Path, event: str, part: str) -> None:
    data = str(tmp_path / "deep" / "data")
    ended = interrupted(event, part, "up", "--detach", "--data-dir", data, "--port", "0", "--simulated-nodes", "1")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


def test_other_commands_end_without_a_traceback() -> None:
    ended = interrupted("exec", "kohort/cli/lint.py", "lint", "-f", "-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_start_in_the_background_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    data = str(tmp_path / "deep" / "data")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "kohort", "up", "--detach", "--data-dir", data, "--port", port]
        ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"kohort: port {port} on 127.0.0.1 is in use"), ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_sigterm_before_a_cluster_is_ready_leaves_nothing(tmp_path: Path) -> None:
    code = INTERRUPTED_AT.replace("SIGINT", signal.SIGTERM.name)
    data = str(tmp_path / "deep" / "data")
    arguments = ("sqlite3.connect", "store.db", "up", "--data-dir", data, "--port", "0", "--parts", "apiserver")
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment(), capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
