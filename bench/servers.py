"""The servers that are measured: `kohort up` and, where its programs are there, a real Kubernetes API server."""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.kubernetes import build as kubernetes


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    kubeconfig: Path
    pids: tuple[int, ...]

    def cpu_seconds(self) -> float:
        """Processor time of all its processes so far; unlike the time on the wall, others cannot spoil it much."""
        return sum(map(cpu_seconds, self.pids))

    def resident_megabytes(self) -> float:
        return sum(map(resident_megabytes, self.pids))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no memory figure for process {pid}")


def compiled(directory: str) -> dict[str, str]:
    """The environment of an interpreter that keeps compiled modules in a directory of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": directory}


@cache
def compiled_once() -> dict[str, str]:
    """Like `compiled`, for all interpreters that this one starts: as in an installation, modules are compiled."""
    directory = tempfile.mkdtemp(prefix="kohort-bench-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return compiled(directory)


@contextmanager
def kohort(*words: str) -> Iterator[Server]:
    """`kohort up` with these words, on a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "kohort", "up", "--data-dir", directory, "--port", "0", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=compiled_once())
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith("ready"):
                raise RuntimeError("kohort up did not become ready")
            yield Server("kohort", Path(directory) / "kubeconfig", (process.pid,))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def _real() -> Iterator[Server]:
    """etcd and kube-apiserver. RuntimeError when there are no programs for them."""
    from tests.kubernetes.controlplane import control_plane

    binaries = kubernetes.find()
    if binaries is None:
        raise RuntimeError("no Kubernetes binaries: run python -m tools.kubernetes.build, or set KUBEBUILDER_ASSETS")
    flags = {"kube-apiserver": ["--disable-admission-plugins=ServiceAccount"]}
    with (
        tempfile.TemporaryDirectory() as directory,
        control_plane(binaries, Path(directory) / "plane", flags=flags) as plane,
    ):
        yield Server("etcd + kube-apiserver", plane.kubeconfig, tuple(plane.pids))


def api_server(*, real: bool) -> AbstractContextManager[Server]:
    """Only an API server: ours, or a real one."""
    return _real() if real else kohort("--parts", "apiserver")
