"""`kohort up` as a process."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.children import environment

from kohort.objects.json_types import Json, JsonObject


@dataclass
class Kohort:
    """A data directory and the processes that run on it."""

    data: Path
    children: list["subprocess.Popen[str]"] = field(default_factory=list)
    server: str = ""

    def up(self, *arguments: str, port: int = 0) -> "subprocess.Popen[str]":
        """Start it in the foreground and wait until it says ready."""
        child = subprocess.Popen(
            [*self.command("up", *arguments), "--port", str(port)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line.startswith("ready "):
            child.kill()
            raise AssertionError(f"not ready: {line}{child.communicate()[1]}")
        assert child.stdout.readline() == f"export KUBECONFIG={self.kubeconfig}\n"
        self.server = line.split()[1]
        return child

    def call(self, name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = self.command(name, *arguments)
        return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=200, check=False)

    def command(self, name: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "kohort", name, "--data-dir", str(self.data), *arguments]

    def refusal(self, *arguments: str) -> str:
        """The one line with which it refuses to start."""
        result = self.call("up", *arguments)
        assert (result.returncode, result.stdout) == (1, "")
        assert len(result.stderr.splitlines()) == 1, result.stderr
        return result.stderr.strip()

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    def request(self, path: str, body: JsonObject | None = None, *, method: str = "", token: str | None = None) -> Json:
        """The decoded answer; `token` instead of the administrator's, none when empty."""
        token = (self.data / "pki" / "token").read_text() if token is None else token
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        data = json.dumps(body).encode() if body is not None else None
        method = method or ("POST" if data else "GET")
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        context = ssl.create_default_context(cafile=str(self.data / "pki" / "ca.crt"))
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content.startswith((b"{", b"[")) else content.decode()

    def status(self, path: str, *, token: str | None = None, body: JsonObject | None = None, method: str = "") -> int:
        try:
            self.request(path, body, method=method, token=token)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    def stop_all(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
            child.communicate()


@contextmanager
def directory(path: Path) -> Iterator[Kohort]:
    kohort = Kohort(path)
    try:
        yield kohort
    finally:
        kohort.stop_all()
        kohort.call("down")


@pytest.fixture
def kohort(tmp_path: Path) -> Iterator[Kohort]:
    with directory(tmp_path / "data") as found:
        yield found


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The newest kubectl there is."""
    built = sorted((Path.home() / ".cache" / "kohort").glob("kubernetes-*/kubectl"))
    found = os.environ.get("KUBECTL") or (str(built[-1]) if built else shutil.which("kubectl"))
    if not found:
        pytest.skip("needs kubectl: install it, or name it in KUBECTL")
    return found


Kubectl = Callable[..., str]


@pytest.fixture
def run_kubectl(kubectl: str, kohort: Kohort, tmp_path: Path) -> Kubectl:
    def run(*arguments: str) -> str:
        command = [kubectl, "--kubeconfig", str(kohort.kubeconfig), "--cache-dir", str(tmp_path / "cache"), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
