"""A cluster in one process whose node runs pods in a real container runtime."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists
from kohort.kube.http import Request, Response
from kohort.kube.manager import Manager
from kohort.kube.resources import EVENTS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from kohort.kube.transport import InProcessTransport
from kohort.node.agent import Agent, NodeOptions
from kohort.node.api.log_reader import LogOptions, read_log
from kohort.node.registration import container_agent
from kohort.node.runtimes.cri.discovery import examine
from kohort.node.runtimes.interface import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, Launch, parse_container_key
from kohort.objects.json_types import JsonObject

NODE = "containers"
SECONDS = 60.0


class ContainerCluster:
    """The API server and clients of it; agents of the node come and go."""

    def __init__(
        self, server: ApiServer, transport: InProcessTransport, socket: Path, directory: Path, image: str
    ) -> None:
        self.server = server
        self.client = Client(transport)
        self.image = image
        self.socket = socket
        self._transport = transport
        self._directory = directory
        self._agent: Agent | None = None
        self.shares = False
        self.cgroup_writes: list[Path] = []
        # Files of cgroups that the agent itself has written

    def _observe(self, kind: str, path: Path, content: str) -> None:
        if kind == "cgroup":
            self.cgroup_writes.append(path)

    @property
    def agent(self) -> Agent:
        assert self._agent is not None, "no agent runs"
        return self._agent

    @contextlib.asynccontextmanager
    async def node(
        self,
        *,
        own_networks: bool = True,
        stop_pods: bool = True,
        credentials: Path | None = None,
        device_plugins: Path | None = None,
    ) -> AsyncIterator[Agent]:
        """An agent, until the end of the block. Without `stop_pods` it leaves its pods running."""
        facts = await examine(self.socket, self._directory, share=self.shares)
        manager = Manager(Client(self._transport), name="node")
        options = NodeOptions(NODE, self._directory, stop_pods=stop_pods, device_plugins=device_plugins)
        self.cgroup_writes.clear()
        self._agent = container_agent(
            manager, options, facts, credentials, observer=self._observe, own_networks=own_networks
        )
        try:
            async with manager.running():
                await self._agent.heartbeat.registered.wait()
                yield self._agent
        finally:
            self._agent = None

    async def create(self, name: str, *containers: JsonObject, **spec: object) -> None:
        """A container without an image has the image of busybox; without a command it sleeps."""
        filled = [{"name": "c", "image": self.image, **each} for each in containers or ({},)]
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": NODE,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": filled,
                **spec,
            },
        }
        await self.client.create(PODS, document, "default")

    async def run(self, name: str, *containers: JsonObject, **spec: object) -> JsonObject:
        """Create a pod and wait until all its containers are ready."""
        await self.create(name, *containers, **spec)
        return await self.until(name, is_ready)

    async def until(self, name: str, holds: Callable[[JsonObject], bool], seconds: float = SECONDS) -> JsonObject:
        deadline = time.monotonic() + seconds
        while True:
            pod: JsonObject = await self.client.get(PODS, name, "default")
            if holds(pod):
                return pod
            if time.monotonic() > deadline:
                events = await self.events(name)
                raise AssertionError(f"not in {seconds} s: {json.dumps(pod['status'])}\n{events}")
            await asyncio.sleep(0.02)

    async def delete(self, name: str, grace: int = 0) -> None:
        """Delete a pod and wait until nothing is left of it on the node."""
        await self.client.delete(PODS, name, "default", grace_seconds=grace)
        deadline = time.monotonic() + SECONDS
        while self.agent.pods.find("default", name) is not None:
            assert time.monotonic() < deadline, f"{name} is still there"
            await asyncio.sleep(0.02)

    async def log(self, name: str, container: str = "c", *, previous: bool = False) -> str:
        record = self.agent.pods.find("default", name)
        assert record is not None
        run = record.runs[container]
        instance = run.last if previous else run.instance
        assert instance is not None
        path = self.agent.files.log(*parse_container_key(instance.id))
        return b"".join([chunk async for chunk in read_log(path, LogOptions(), lambda: False)]).decode()

    async def until_logged(self, name: str, text: str, container: str = "c") -> str:
        deadline = time.monotonic() + SECONDS
        while text not in (found := await self.log(name, container)):
            assert time.monotonic() < deadline, f"{text!r} is not in {found!r}"
            await asyncio.sleep(0.02)
        return found

    async def execute(
        self,
        name: str,
        *command: str,
        container: str = "c",
        stdin: bytes | None = None,
        tty: bool = False,
        size: tuple[int, int] | None = None,
    ) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command in a container. `size` are rows and columns of its
        terminal."""
        record = self.agent.pods.find("default", name)
        assert record is not None
        instance = record.runs[container].instance
        assert instance is not None
        session = await self.agent.runtime.execute(instance.id, Launch("x", command, stdin=stdin is not None, tty=tty))
        if size is not None:
            await session.write(RESIZE, json.dumps({"Height": size[0], "Width": size[1]}).encode())
        if stdin is not None:
            await session.write(STDIN, stdin)
            if not tty:
                await session.write(CLOSE, bytes([STDIN]))
        seen = {STDOUT: b"", STDERR: b""}
        async with asyncio.timeout(SECONDS):
            while (message := await session.read()) is not None:
                channel, data = message
                if channel == ERROR:
                    await session.close()
                    return int(data), seen[STDOUT].decode(), seen[STDERR].decode()
                seen[channel] += data
        raise AssertionError(f"no exit code after {seen}")

    async def shell(self, name: str, script: str, container: str = "c") -> str:
        """The output of a shell script in a container, which must succeed."""
        code, out, problem = await self.execute(name, "sh", "-c", script, container=container)
        assert code == 0, (code, out, problem)
        return out

    async def until_true(self, holds: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not await holds():
            assert time.monotonic() < deadline, f"not in {seconds} s"
            await asyncio.sleep(0.05)

    async def node_is_ready(self) -> bool:
        node = await self.client.get(NODES, NODE)
        return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages of the events of a pod."""
        found = (await self.client.list(EVENTS, "default")).items
        return [(each["reason"], each["message"]) for each in found if each["involvedObject"]["name"] == name]

    async def until_event(self, name: str, reason: str) -> str:
        deadline = time.monotonic() + SECONDS
        while True:
            found = [message for each, message in await self.events(name) if each == reason]
            if found:
                return found[0]
            assert time.monotonic() < deadline, await self.events(name)
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def container_cluster(
    socket: Path, directory: Path, image: str, kind: type[ContainerCluster] = ContainerCluster
) -> AsyncIterator[ContainerCluster]:
    server, _ = await assemble(open_store(None))

    async def handle(request: Request) -> Response:
        return await server.handle(request, ADMIN)

    transport = InProcessTransport(handle)
    cluster = kind(server, transport, socket, directory, image)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    with contextlib.suppress(AlreadyExists):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        await cluster.client.create(NAMESPACES, namespace)
    with contextlib.suppress(AlreadyExists):
        await cluster.client.create(SERVICE_ACCOUNTS, account, "default")
    yield cluster


def is_ready(pod: JsonObject) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def state_of(pod: JsonObject, container: str = "c") -> JsonObject:
    found: JsonObject = status_of(pod, container).get("state", {})
    return found


def status_of(pod: JsonObject, container: str = "c") -> JsonObject:
    status = pod["status"]
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    every = [each for kind in kinds for each in status.get(kind) or []]
    return next((each for each in every if each["name"] == container), {})
