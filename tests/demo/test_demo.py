"""The demo itself, as a person runs it: once to its end, once until Ctrl-C."""

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.children import environment

COMMAND = [sys.executable, "-m", "kohort", "demo", "--patience", "280"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path, because sockets have short names; what the demo leaves behind would be in it."""
    with tempfile.TemporaryDirectory(prefix="kd-", dir="/tmp") as directory:
        yield Path(directory)


def processes(place: Path) -> list[str]:
    """Command lines that have to do with a demo in this place."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mentions = str(place).encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if mentions:
                found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.mark.e2e
@pytest.mark.timeout(320)
def test_all_chapters_succeed_and_every_request_is_answered(place: Path) -> None:
    told = subprocess.run(
        COMMAND, env=environment(TMPDIR=str(place)), capture_output=True, text=True, timeout=300, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    summary = dict(re.findall(r"^  (\S.*?)  +(\S.*)$", told.stdout.split("\n\n")[-1], re.MULTILINE))
    assert summary["chapters"] == "5 of 5"
    assert summary["result"] == "everything worked"
    assert summary["requests failed"] == "0"
    assert int(summary["requests answered"]) >= 150
    assert re.fullmatch(r"v1 \d+, v2 \d+, v4 \d+", summary["by version"]), "the bad version never answers"
    for share in (20, 50):
        seen = float(summary[f"v2 at {share} %"].split(" % ")[0])
        assert abs(seen - share) <= 10
    assert "none restarted" in told.stdout
    assert "[probe]" in told.stdout, "explain names the cause in the canary"
    assert "step 1: Failed (Enforce): ttft q0.95" in told.stdout, "the slow version is judged by the gateway's metrics"
    assert list(place.iterdir()) == []
    assert processes(place) == []


@pytest.mark.e2e
def test_interrupted_at_a_terminal(place: Path) -> None:
    """The view is drawn, Ctrl-C ends it, and nothing is left."""
    parent, terminal = pty.openpty()
    demo = subprocess.Popen(
        COMMAND, env=environment(TMPDIR=str(place), TERM="xterm", COLUMNS="100", LINES="50"),
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    seen = ""
    try:
        while "tiny-1" not in seen:
            seen += os.read(parent, 65536).decode(errors="replace")
        os.killpg(demo.pid, signal.SIGINT)
        while True:
            try:
                more = os.read(parent, 65536)
            except OSError:
                break
            seen += more.decode(errors="replace")
            if not more:
                break
        assert demo.wait(60) == 130
    finally:
        demo.kill()
        os.close(parent)
    assert "a model in shards: 2 groups of 3 processes" in seen
    assert "stopped; nothing is left behind" in seen
    assert list(place.iterdir()) == []
    assert processes(place) == []
