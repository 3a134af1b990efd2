"""A containerd of its own for a test: own folders, own socket, nothing of the machine's other containers."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CONFIG = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/containerd.sock"
[ttrpc]
  address = "{folder}/containerd.sock.ttrpc"
"""
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
    *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
)
"""Those that containerd gives by default."""
READY_SECONDS = 30.0


@dataclass(frozen=True)
class Container:
    """What `ctr run` is told. Always as the operator's Deployment demands: read-only, no capabilities, seccomp."""

    name: str
    image: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Path in the container to a folder of this machine, read-only."""


class Containerd:
    def __init__(self, folder: Path) -> None:
        self._address = folder / "containerd.sock"

    def ctr(self, *words: str) -> str:
        done = subprocess.run(self._command(*words), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"ctr {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def load(self, archive: Path) -> None:
        self.ctr("images", "import", str(archive))

    def command(self, container: Container) -> list[str]:
        """Runs it in the foreground, with the network of this machine; signals are passed on."""
        return self._command(
            *("run", "--rm", "--net-host", "--read-only", "--seccomp"),
            *(word for one in CAPABILITIES for word in ("--cap-drop", f"CAP_{one}")),
            *("--mount", "type=tmpfs,src=tmpfs,dst=/tmp,options=nosuid:nodev:size=16m:mode=1777"),
            *(
                word
                for inside, outside in container.folders.items()
                for word in ("--mount", f"type=bind,src={outside},dst={inside},options=rbind:ro")
            ),
            *(word for name, value in container.environment.items() for word in ("--env", f"{name}={value}")),
            *(container.image, container.name, *container.command),
        )

    def run(self, container: Container) -> str:
        """What it prints."""
        done = subprocess.run(self.command(container), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kill(self, name: str) -> None:
        self.ctr("tasks", "kill", "--signal", "SIGKILL", name)

    def configuration(self, image: str) -> dict[str, object]:
        """That of the image."""
        digest = json.loads(self.ctr("content", "get", self._digest(image)))["config"]["digest"]
        found: dict[str, object] = json.loads(self.ctr("content", "get", digest))
        return found

    def digest(self, image: str) -> str:
        return self._digest(image)

    def _digest(self, image: str) -> str:
        (line,) = (one for one in self.ctr("images", "list").splitlines() if one.startswith(f"{image} "))
        return line.split()[2]

    def _command(self, *words: str) -> list[str]:
        return ["ctr", "--address", str(self._address), "--namespace", "kohort-test", *words]


@contextmanager
def containerd(folder: Path) -> Iterator[Containerd]:
    (folder / "config.toml").write_text(CONFIG.format(folder=folder))
    with (folder / "containerd.log").open("wb") as log:
        process = subprocess.Popen(["containerd", "--config", str(folder / "config.toml")], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not (folder / "containerd.sock").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"containerd did not start:\n{(folder / 'containerd.log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield Containerd(folder)
    finally:
        process.terminate()
        process.wait(timeout=30)
