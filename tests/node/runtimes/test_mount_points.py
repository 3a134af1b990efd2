"""Mounts of somebody who may not make the places to mount on."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.children import environment

NOBODY = 65534
READ_ONLY = "touch: cannot touch '/tmp/kohort-new': Read-only file system"
SCRIPT = """
import os, signal, sys
from kohort.node.runtimes.interface import Launch, Mount
from kohort.node.runtimes.process.process_launch import spawn

def said(command, within=0, **more):
    reading, writing = os.pipe()
    mounts = (Mount(sys.argv[1], "/kohort-nowhere/below"), Mount(sys.argv[1], "/var/kohort-nowhere"))
    launch = Launch("i", ("sh", "-c", command), dict(os.environ), mounts=mounts, log=sys.argv[1] + "/own/log", **more)
    pid = spawn(launch, 0, writing, writing, within)
    os.close(writing)
    print(open(reading).readline().strip())
    return pid

LOOK = f"echo $(cat /kohort-nowhere/below/f /var/kohort-nowhere/f {sys.argv[1]}/f; ls -d /usr /etc/passwd /var/lib)"
first = said(LOOK + "; exec sleep 100")
said(LOOK, within=first)
os.kill(first, signal.SIGKILL)
said("touch /tmp/kohort-new || echo read-only; touch /var/tmp/kohort-new", read_only_root=True)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    (made / "f").write_text("found\n")
    (made / "own").mkdir()
    os.chown(made / "own", NOBODY, NOBODY)
    yield made
    shutil.rmtree(made)


def as_nobody(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, user=NOBODY, group=NOBODY, extra_groups=[], env=environment(), cwd="/", capture_output=True, text=True
    )


def test_places_are_made_where_they_cannot_be(place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    try:
        namespaces = as_nobody("unshare", "--user", "--mount", sys.executable, "-c", "import kohort")
    except PermissionError:
        namespaces = None
    if namespaces is None or namespaces.returncode != 0:
        pytest.skip("others may not have namespaces here, or not read these files")
    done = as_nobody(sys.executable, "-c", SCRIPT, str(place))
    seen = "found found found /etc/passwd /usr /var/lib"
    assert done.stdout.splitlines() == [seen, seen, READ_ONLY], done.stderr
    assert not Path("/kohort-nowhere").exists() and not Path("/var/kohort-nowhere").exists()
