"""A released Kruise Rollouts manager as a process on a control plane, with its own installation."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.kubernetes.controlplane import free_ports
from tools.rollouts.build import ROLLOUTS

NAMESPACE = "kruise-rollout"


class Home(Protocol):
    """A cluster that it runs on."""

    @property
    def kubeconfig(self) -> Path: ...
    def kubectl(self, *words: str, text: str | None = None) -> str: ...


def install_kruise(plane: Home) -> None:
    objects = plane.kubectl("kustomize", str(ROLLOUTS.folder("config") / "default"))
    plane.kubectl("apply", "--server-side", "-f", "-", text=objects)


@contextmanager
def kruise(plane: Home, directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """It makes its certificate itself, and has the API server call it on this machine."""
    directory.mkdir(parents=True, exist_ok=True)
    webhook, metrics, health = free_ports(3)
    environment = {
        **os.environ,
        "KUBECONFIG": str(plane.kubeconfig),
        "POD_NAMESPACE": NAMESPACE,
        "WEBHOOK_HOST": "127.0.0.1",
        "WEBHOOK_PORT": str(webhook),
        "WEBHOOK_CERT_DIR": str(directory / "certificates"),
    }
    command = [str(ROLLOUTS.program), "--metrics-bind-address", f"127.0.0.1:{metrics}"]
    command += ["--health-probe-bind-address", f"127.0.0.1:{health}"]
    with (directory / "manager.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=ROLLOUTS.home)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=40)
