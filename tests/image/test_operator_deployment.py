"""The Deployment of `kohort install`, with the image from a registry, run by a node of kohort in containerd: on the
cluster of `kohort up`, and on Kubernetes' control plane. Nothing is started by the test but the clusters."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.builders import lws
from tests.children import environment
from tests.containers.containerd import Containerd
from tests.kubernetes.controlplane import control_plane
from tests.kubernetes.test_groups import settled
from tools.image.build import Built

from kohort import __version__
from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, LEASES, NAMESPACES, NODES, PODS
from kohort.objects.json_types import JsonObject

NAMESPACE: Final = "lws-system"
LEASE: Final = "b8b2488c.x-k8s.io"
STAYS: Final = ["python3", "-c", "import signal; signal.signal(15, lambda *_: exit(0)); signal.pause()"]


@pytest.fixture(scope="module")
def image(built: Built, archive: Path, node_runtime: Containerd) -> str:
    """Its name with the digest, in a registry of this machine."""
    name = f"{node_runtime.registry()}/kohort:{__version__}"
    command = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false", "--preserve-digests"]
    subprocess.run([*command, f"oci-archive:{archive}", f"docker://{name}"], check=True, capture_output=True)
    return f"{name}@{built.image.digest}"


def run_words(runtime: Containerd) -> tuple[str, ...]:
    return ("--runtime", "cri", "--runtime-endpoint", runtime.endpoint)


@contextlib.contextmanager
def embedded(folder: Path, runtime: Containerd) -> Iterator[Path]:
    """`kohort up` without its own operator."""
    command = [sys.executable, "-m", "kohort", "up", "--data-dir", str(folder / "data"), "--port", "0"]
    command += ["--parts", "apiserver,workloads,scheduler,node", *run_words(runtime)]
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment())
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready"), (folder / "up.log").read_text()
        yield folder / "data" / "kubeconfig"
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextlib.contextmanager
def kubernetes(folder: Path, runtime: Containerd, binaries: Path) -> Iterator[Path]:
    """Its API server, controllers and scheduler, with `kohort node` as the only node."""
    # Webhooks are called at the addresses of pods, as there is no kube-proxy. Pods learn the authority of the server.
    flags = {
        "kube-apiserver": ["--enable-aggregator-routing=true"],
        "kube-controller-manager": [f"--root-ca-file={folder}/plane/certs/apiserver.crt"],
    }
    components = ("kube-controller-manager", "kube-scheduler")
    with control_plane(binaries, folder / "plane", *components, flags=flags) as plane:
        command = [sys.executable, "-m", "kohort", "node", "--kubeconfig", str(plane.kubeconfig), "--name", "image"]
        command += ["--data-dir", str(folder / "node"), "--stop-pods", *run_words(runtime)]
        with (folder / "node.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
        try:
            yield plane.kubeconfig
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.fixture(params=("embedded", "kubernetes"))
def kubeconfig(request: pytest.FixtureRequest, node_runtime: Containerd, tmp_path: Path) -> Iterator[Path]:
    if request.param == "embedded":
        with embedded(tmp_path, node_runtime) as found:
            yield found
    else:
        with kubernetes(tmp_path, node_runtime, request.getfixturevalue("binaries")) as found:
            yield found


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(load(kubeconfig), field_manager="test")
    try:
        yield client
    finally:
        await client.close()


async def kohort(kubeconfig: Path, *words: str) -> str:
    command = [sys.executable, "-m", "kohort", *words, "--kubeconfig", str(kubeconfig)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def operator_pods(client: Client) -> dict[str, JsonObject]:
    return {one["metadata"]["name"]: one for one in (await client.list(PODS, NAMESPACE)).items}


async def holder(client: Client) -> str:
    """The pod that leads; the identity begins with its name."""
    lease: JsonObject = await client.get(LEASES, LEASE, NAMESPACE)
    identity = str(lease["spec"].get("holderIdentity") or "")
    return next((name for name in await operator_pods(client) if identity.startswith(name)), identity)


async def until_another_leads(client: Client, before: str) -> str:
    async with asyncio.timeout(60):
        found = before
        while found in ("", before) or found not in await operator_pods(client):
            await asyncio.sleep(0.1)
            found = await holder(client)
    return found


async def test_install_lead_take_over_uninstall(kubeconfig: Path, image: str) -> None:
    async with connected(kubeconfig) as client:
        async with asyncio.timeout(60):
            while not (await client.list(NODES)).items:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await kohort(kubeconfig, "install", "--image", image, "--wait", "150")
        deployment = await client.get(DEPLOYMENTS, "lws-controller-manager", NAMESPACE)
        assert deployment["status"]["availableReplicas"] == 2
        for pod in (await operator_pods(client)).values():
            (status,) = pod["status"]["containerStatuses"]
            assert status["imageID"].endswith(image.rpartition("@")[2])
            assert status["restartCount"] == 0

        body = lws("llm", "default").replicas(2).size(2)
        container = {"name": "main", "image": image, "command": STAYS}
        spec = {"terminationGracePeriodSeconds": 2, "containers": [container]}
        body["spec"]["leaderWorkerTemplate"]["workerTemplate"] = {"spec": spec}
        await client.create(LEADER_WORKER_SETS, body)
        await settled(client, "default", 2)

        leader = await holder(client)
        await client.delete(PODS, leader, NAMESPACE)
        await until_another_leads(client, leader)
        await client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 1}})
        await settled(client, "default", 1)

        await client.delete(LEADER_WORKER_SETS, "llm", "default")
        await kohort(kubeconfig, "uninstall", "--yes")
        names = {one["metadata"]["name"] for one in (await client.list(NAMESPACES)).items}
        assert NAMESPACE not in names
