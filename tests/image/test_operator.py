"""The operator in its container, started as the Deployment of `kohort install` says, on our API server and on
Kubernetes' own. Only the node is missing: the test starts the containers as a kubelet would."""

import asyncio
import base64
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import yaml
from tests.builders import lws
from tests.image.containerd import Container, Containerd
from tests.kubernetes.controlplane import control_plane, free_ports
from tests.kubernetes.operators import OperatorProcess, account_token, lead_webhooks_to, replace_service
from tests.kubernetes.test_groups import settled
from tests.kubernetes.test_pairings import kohort_up

from kohort.cluster.simulation.registration import register as register_nodes
from kohort.install.options import TAGGED, InstallOptions
from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.kubeconfig import load
from kohort.kube.manager import Manager
from kohort.kube.resources import CONFIG_MAPS, DEPLOYMENTS, LEADER_WORKER_SETS, LEASES, NAMESPACES
from kohort.objects.json_types import JsonObject

NAMESPACE: Final = InstallOptions().namespace
LEASE: Final = "b8b2488c.x-k8s.io"
TAKEOVER: Final = 10.0
CLUSTERS: Final = ("embedded", "kubernetes")


@dataclass(frozen=True)
class Cluster:
    kubeconfig: Path
    port: int
    authority: bytes


@contextmanager
def embedded(folder: Path) -> Iterator[Cluster]:
    parts = "apiserver,workloads,scheduler"
    with kohort_up(folder / "data", "--parts", parts) as kubeconfig:
        (entry,) = yaml.safe_load(kubeconfig.read_text())["clusters"]
        server, authority = entry["cluster"]["server"], entry["cluster"]["certificate-authority-data"]
        yield Cluster(kubeconfig, int(server.rpartition(":")[2]), base64.b64decode(authority))


@contextmanager
def kubernetes(folder: Path, binaries: Path) -> Iterator[Cluster]:
    with control_plane(binaries, folder / "plane", "kube-controller-manager", "kube-scheduler") as plane:
        yield Cluster(plane.kubeconfig, plane.port, (plane.directory / "certs" / "apiserver.crt").read_bytes())


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, runtime: Containerd, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "embedded":
        with embedded(tmp_path) as found:
            yield found
    else:
        with kubernetes(tmp_path, request.getfixturevalue("binaries")) as found:
            yield found


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[Client]:
    """An administrator, on a cluster with simulated nodes for the pods of sets."""
    client = Client(load(cluster.kubeconfig), field_manager="test")
    manager = Manager(Client(load(cluster.kubeconfig), user_agent="kohort-nodes"), name="nodes")
    register_nodes(manager, nodes=4)
    try:
        async with manager.running():
            yield client
    finally:
        await manager.client.close()
        await client.close()


class OperatorContainer(OperatorProcess):
    def __init__(self, runtime: Containerd, container: Container, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(runtime.command(container), stdout=output, stderr=output)


class Kubelet:
    """Starts the containers of the operator's pod template, as a kubelet would, but with the network of this machine:
    so each gets ports of its own."""

    def __init__(self, runtime: Containerd, cluster: Cluster, client: Client, folder: Path) -> None:
        self._runtime, self._cluster, self._client, self._folder = runtime, cluster, client, folder
        self._started: list[OperatorContainer] = []

    async def start(self, name: str) -> tuple[OperatorContainer, int, int]:
        """The container, the port of its webhooks and that of its health."""
        deployment = await self._client.get(DEPLOYMENTS, "lws-controller-manager", NAMESPACE)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        webhooks, health = free_ports(2)
        words = [*container["command"], *container["args"], "--webhook-port", str(webhooks)]
        words += ["--health-probe-bind-address", f"127.0.0.1:{health}", "--metrics-bind-address", "0"]
        settings = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self._cluster.port)}
        folders = {
            "/etc/kohort": await self._configuration(name),
            "/var/run/secrets/kubernetes.io/serviceaccount": await self._account(name),
        }
        asked = Container(f"{self._folder.name}-{name}", container["image"], words, settings, folders)
        started = OperatorContainer(self._runtime, asked, self._folder / f"{name}.log")
        self._started.append(started)
        return started, webhooks, health

    async def _configuration(self, name: str) -> Path:
        found = await self._client.get(CONFIG_MAPS, "lws-manager-config", NAMESPACE)
        return self._write(f"{name}-config", {key: value.encode() for key, value in found["data"].items()})

    async def _account(self, name: str) -> Path:
        token = await account_token(self._client, NAMESPACE)
        files = {"token": token.encode(), "namespace": NAMESPACE.encode(), "ca.crt": self._cluster.authority}
        return self._write(f"{name}-account", files)

    def _write(self, name: str, files: dict[str, bytes]) -> Path:
        folder = self._folder / name
        folder.mkdir()
        for path, content in files.items():
            (folder / path).write_bytes(content)
        return folder

    def stop(self) -> None:
        for one in self._started:
            one.stop()


async def kohort(cluster: Cluster, *words: str) -> str:
    command = [sys.executable, "-m", "kohort", *words, "--kubeconfig", str(cluster.kubeconfig)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def webhooks_answer(client: Client) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                await client.create(LEADER_WORKER_SETS, lws("probe", "default").size(1), dry_run=True)
            except InternalError:
                await asyncio.sleep(0.05)
            else:
                return


async def ready(port: int) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(30):
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if (answer.status, await answer.text()) == (200, "ok"):
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


async def holder(client: Client) -> str:
    lease: JsonObject = await client.get(LEASES, LEASE, NAMESPACE)
    return str(lease["spec"].get("holderIdentity") or "")


async def test_two_operators_in_containers(cluster: Cluster, runtime: Containerd, tmp_path: Path) -> None:
    async with connected(cluster) as client:
        said = await kohort(cluster, "install", "--replicas", "0", "--image", TAGGED)
        assert "Deployment lws-controller-manager applied" in said
        await replace_service(client, InstallOptions())
        kubelet = Kubelet(runtime, cluster, client, tmp_path)
        try:
            first, webhooks, health = await kubelet.start("first")
            await lead_webhooks_to(webhooks, client, InstallOptions())
            await first.says("controllers started")
            await ready(health)
            await webhooks_answer(client)
            await client.create(LEADER_WORKER_SETS, lws("llm", "default").replicas(2).size(2))
            await settled(client, "default", 2)

            second, webhooks, health = await kubelet.start("second")
            await second.says("standing by")
            await ready(health)
            assert second.said("controllers started") is None
            before = await holder(client)
            assert first.stop() == 0
            await second.says("controllers started", TAKEOVER)
            assert await holder(client) not in ("", before)
            await lead_webhooks_to(webhooks, client, InstallOptions())
            await webhooks_answer(client)
            await client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 3}})
            await settled(client, "default", 3)

            await kohort(cluster, "uninstall", "--yes")
        finally:
            kubelet.stop()
        names = {one["metadata"]["name"] for one in (await client.list(NAMESPACES)).items}
        assert NAMESPACE not in names
