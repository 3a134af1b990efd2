"""Parts swapped for their real twins: our API server under Kubernetes' controllers and scheduler, and our controllers
and scheduler on Kubernetes' API server."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.builders import lws
from tests.kubernetes.controlplane import control_plane, free_ports
from tests.kubernetes.test_groups import settled

from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.resources import LEADER_WORKER_SETS


@contextmanager
def kohort_up(directory: Path, *words: str) -> Iterator[Path]:
    """`kohort up` as a process; gives the kubeconfig that it wrote."""
    command = [sys.executable, "-m", "kohort", "up", "--data-dir", str(directory), "--port", "0", *words]
    with (directory.parent / f"{directory.name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.startswith(b"ready"), first
            yield directory / "kubeconfig"
        finally:
            process.terminate()
            process.wait(timeout=30)


@contextmanager
def component(binaries: Path, directory: Path, name: str, kubeconfig: Path, *more: str) -> Iterator[None]:
    """`more` are flags in addition."""
    (port,) = free_ports(1)
    directory.mkdir(parents=True, exist_ok=True)
    flags = ["--kubeconfig", str(kubeconfig), "--leader-elect=false", f"--secure-port={port}", "--cert-dir", "."]
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([str(binaries / name), *flags, *more], stdout=log, stderr=log, cwd=directory)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


async def _story(kubeconfig: Path) -> None:
    """Two groups come up, roll and are scaled down."""
    client = Client(load(kubeconfig), field_manager="test")
    try:
        await client.create(LEADER_WORKER_SETS, lws("llm").replicas(2).size(2), "default")
        first = await settled(client, "default", 2)
        container = {"name": "main", "image": "new:2"}
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}}
        await client.patch(LEADER_WORKER_SETS, "llm", "default", body)
        old = first["status"]["updateRevision"]
        await settled(client, "default", 2, lambda one: one["status"]["updateRevision"] != old)
        await client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 1}})
        await settled(client, "default", 1)
    finally:
        await client.close()


def test_kubernetes_controllers_and_scheduler_on_our_api_server(binaries: Path, tmp_path: Path) -> None:
    with (
        kohort_up(tmp_path / "data", "--parts", "apiserver,operator", "--simulated-nodes", "4") as kubeconfig,
        component(binaries, tmp_path / "controllers", "kube-controller-manager", kubeconfig),
        component(binaries, tmp_path / "scheduler", "kube-scheduler", kubeconfig),
    ):
        asyncio.run(_story(kubeconfig))


def test_our_controllers_and_scheduler_on_the_kubernetes_api_server(binaries: Path, tmp_path: Path) -> None:
    words = ["--parts", "workloads,scheduler,operator", "--simulated-nodes", "4"]
    with (
        control_plane(binaries, tmp_path / "kubernetes") as plane,
        kohort_up(tmp_path / "data", *words, "--kubeconfig", str(plane.kubeconfig)),
    ):
        asyncio.run(_story(plane.kubeconfig))
