"""A cluster in one process whose node is this machine, for cases on a pure cgroup v2 kernel."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.client import Client, PatchType
from kohort.kube.errors import AlreadyExists
from kohort.kube.http import Request, Response
from kohort.kube.manager import Manager
from kohort.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from kohort.kube.transport import InProcessTransport
from kohort.node.agent import Agent, NodeOptions
from kohort.node.cgroups import Cgroups, node_cgroups
from kohort.node.checkpoint import WriteObserver
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network import AddressPlan
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.objects.json_types import Json, JsonObject

MI = 1 << 20
NODE = "kernel"
SLEEP = ["sleep", "100000"]


class Bench:
    """The cluster, its node, and what a test does with them."""

    def __init__(self, server: ApiServer, client: Client, agent: Agent, writes: list[str]) -> None:
        self.server = server
        self.client = client
        self.agent = agent
        self.writes = writes

    async def run(
        self, name: str, containers: list[JsonObject], resources: JsonObject | None = None, node: str = NODE
    ) -> JsonObject:
        """Start a pod and wait until it runs."""
        spec: JsonObject = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{"image": "host", "command": SLEEP, **each} for each in containers],
        }
        if resources:
            spec["resources"] = resources
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        await self.client.create(PODS, document, "default")
        return await self.until(name, lambda pod: pod["status"].get("phase") == "Running")

    async def until(self, name: str, holds: Callable[[JsonObject], bool], seconds: float = 90.0) -> JsonObject:
        deadline = time.monotonic() + seconds
        while True:
            pod = await self.client.get(PODS, name, "default")
            if holds(pod):
                return pod
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {seconds} s: {json.dumps(pod['status'])}")
            await asyncio.sleep(0.02)

    async def resize(self, name: str, patch: JsonObject, *, settled: bool = True) -> JsonObject:
        """Ask for other resources, and wait until the node has done it."""
        answer = await self.client.patch(PODS, name, "default", {"spec": patch}, PatchType.STRATEGIC, "resize")
        generation = answer["metadata"]["generation"]
        if not settled:
            return dict(answer)
        return await self.until(
            name,
            lambda pod: pod["status"].get("observedGeneration", 0) >= generation and not resize_conditions(pod),
        )

    def place(self, pod: JsonObject) -> Path:
        assert self.agent.cgroups is not None
        return self.agent.cgroups.pods()[pod["metadata"]["uid"]]

    def values(self, pod: JsonObject, container: str = "") -> tuple[str, str, str]:
        """cpu.max, cpu.weight and memory.max, as the kernel holds them."""
        place = self.place(pod) / container
        return tuple((place / file).read_text().strip() for file in ("cpu.max", "cpu.weight", "memory.max"))  # type: ignore[return-value]

    def pid(self, pod: JsonObject, container: str) -> int:
        worker = self.agent.pods.find("default", pod["metadata"]["name"])
        assert worker is not None
        instance = worker.runs[container].instance
        assert instance is not None and instance.running, f"{container} does not run"
        return instance.pid

    async def delete(self, name: str) -> None:
        """Delete a pod and wait until nothing is left of it on the node."""
        await self.client.delete(PODS, name, "default", grace_seconds=0)
        deadline = time.monotonic() + 120
        while self.agent.pods.find("default", name) is not None:
            assert time.monotonic() < deadline, f"{name} is still there"
            await asyncio.sleep(0.02)


def resize_conditions(pod: JsonObject) -> dict[str, JsonObject]:
    found = pod["status"].get("conditions") or []
    return {each["type"]: each for each in found if each["type"].startswith("PodResize")}


def status_of(pod: JsonObject, container: str) -> JsonObject:
    found: JsonObject = next(each for each in pod["status"]["containerStatuses"] if each["name"] == container)
    return found


def equal(found: Json, expected: Json) -> None:
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


def block(cpu: tuple[str, str], memory: tuple[str, str]) -> JsonObject:
    """Requests and limits: `block(("100m", "200m"), ("64Mi", "128Mi"))`."""
    return {
        "requests": {"cpu": cpu[0], "memory": memory[0]},
        "limits": {"cpu": cpu[1], "memory": memory[1]},
    }


def process_agent(manager: Manager, options: NodeOptions, cgroups: Cgroups | None, observer: WriteObserver) -> Agent:
    """An agent whose containers are processes that share the network of the machine."""
    directory = options.directory
    addresses = AddressBook.for_node(f"{options.name} {directory}", directory / "records" / "addresses")
    runtime = ProcessRuntime(directory / "runtime")
    return Agent(manager, options, runtime, AddressPlan(addresses), cgroups, observer)


@contextlib.asynccontextmanager
async def bench(directory: Path) -> AsyncIterator[Bench]:
    server, _ = await assemble(open_store(None))

    async def handle(request: Request) -> Response:
        return await server.handle(request, ADMIN)

    transport = InProcessTransport(handle)
    client = Client(transport)
    with contextlib.suppress(AlreadyExists):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    with contextlib.suppress(AlreadyExists):
        await client.create(SERVICE_ACCOUNTS, account, "default")
    writes: list[str] = []

    def observer(kind: str, path: Path, content: str) -> None:
        if kind == "cgroup":
            writes.append(f"{path.parent.name}/{path.name} {content}")

    manager = Manager(Client(transport), name="node")
    agent = process_agent(manager, NodeOptions(NODE, directory, stop_pods=True), node_cgroups(None, observer), observer)
    assert agent.cgroups is not None, "there is no writable cgroup v2 here"
    async with manager.running():
        await agent.heartbeat.registered.wait()
        yield Bench(server, client, agent, writes)
