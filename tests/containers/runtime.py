"""A container runtime of our own for tests, with its own directories, and registries on loopback.

`KOHORT_TEST_RUNTIME` says which one: `containerd`, or `crio`. Its programs are those that come first in the path.
"""

import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

START_SECONDS = 60.0
SANDBOX_IMAGE = "kohort.test/pause:1"


class RuntimeUnderTest(ABC):
    name: str
    """What the runtime calls itself: ids of containers begin with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / f"{self.name}.sock"
        self.cni_bin, self.cni_conf = directory / "cni" / "bin", directory / "cni" / "conf"
        self._process: subprocess.Popen[bytes] | None = None
        self._registries: list[subprocess.Popen[bytes]] = []

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def load(self, archive: bytes) -> None:
        """Provide an image that `docker save` could have written, with the name that it has there."""

    @abstractmethod
    def container_ids(self) -> list[str]:
        """All containers that there are, those of sandboxes included."""

    @abstractmethod
    def _answers(self) -> bool: ...

    @abstractmethod
    def _end_containers(self) -> None: ...

    @abstractmethod
    def _allow(self, registry: str) -> None:
        """Have the runtime speak HTTP with a registry on loopback."""

    def _start_daemon(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        for path in (self.cni_bin, self.cni_conf):
            path.mkdir(parents=True, exist_ok=True)
        log = self._log.open("ab")
        self._process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        log.close()
        self._until(self._answers, f"{self.name} does not answer")

    @property
    def _log(self) -> Path:
        return self.directory / f"{self.name}.log"

    def kill(self) -> None:
        """End the daemon as a crash would. Containers run on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End everything that was started here."""
        if self._process is not None and self._process.poll() is None:
            self._end_containers()
            self._process.terminate()
            self._process.wait(30)
        for registry in self._registries:
            registry.kill()
            registry.wait()
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if line.split()[1].startswith(str(self.directory)):
                subprocess.run(["umount", "-l", line.split()[1]], check=False)

    def registry(self, *, user: str = "", password: str = "") -> str:
        """Serve a registry on loopback; its host and port."""
        port = _free_port()
        place = self.directory / f"registry-{port}"
        place.mkdir()
        auth = ""
        if user:
            passwords = subprocess.run(["htpasswd", "-Bbn", user, password], check=True, capture_output=True).stdout
            (place / "htpasswd").write_bytes(passwords)
            auth = f"auth:\n  htpasswd:\n    realm: test\n    path: {place}/htpasswd\n"
        (place / "config.yml").write_text(
            f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {place}/data\n  delete:\n    enabled: true\n"
            f"http:\n  addr: 127.0.0.1:{port}\n{auth}"
        )
        log = (place / "log").open("ab")
        words = ["docker-registry", "serve", str(place / "config.yml")]
        self._registries.append(subprocess.Popen(words, stdout=log, stderr=log))
        log.close()
        self._allow(f"127.0.0.1:{port}")
        self._until(lambda: _listens(port), "the registry does not listen")
        return f"127.0.0.1:{port}"

    def push(self, registry: str, name: str, archive: bytes, credentials: str = "") -> str:
        """Put an image into a registry; its complete name. `credentials` are USER:PASSWORD."""
        path = self.directory / "push.tar"
        path.write_bytes(archive)
        target = f"{registry}/{name}"
        words = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false"]
        if credentials:
            words += ["--dest-creds", credentials]
        subprocess.run([*words, f"docker-archive:{path}", f"docker://{target}"], check=True, capture_output=True)
        return target

    def _until(self, happened: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not happened():
            if self._process is not None and self._process.poll() is not None:
                raise RuntimeError(f"{self.name} has ended: {self._log.read_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{problem}: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
