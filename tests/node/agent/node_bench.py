"""An agent on virtual time, with a runtime whose containers end when the test says so; with a tree of cgroups that is
only directories, or without any."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kohort.kube.client import PatchType
from kohort.kube.manager import Manager
from kohort.kube.private_files import make_private_directory
from kohort.kube.resources import EVENTS, PODS
from kohort.node.address_blocks import LOOPBACK_POOL
from kohort.node.agent import Agent, NodeOptions
from kohort.node.cgroups import Cgroups
from kohort.node.checkpoint import WriteObserver, unobserved
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network import AddressPlan
from kohort.node.runtimes.interface import ImageSource
from kohort.node.runtimes.simulated import SimulatedRuntime
from kohort.objects.json_types import Json, JsonObject
from kohort.resources import CgroupValues
from kohort.rules.node_feature_gates import NodeGates
from kohort.testing import Cluster

NODE = "n1"


class Bench:
    def __init__(self, cluster: Cluster, runtime: SimulatedRuntime, agents: list[Agent]) -> None:
        self.cluster = cluster
        self.runtime = runtime
        self._agents = agents

    @property
    def agent(self) -> Agent:
        return self._agents[-1]

    async def create(self, name: str = "p", labels: JsonObject | None = None, **spec: Json) -> str:
        """A pod that is bound to the node; its UID."""
        containers = spec.pop("containers", [{"name": "c", "image": "host", "command": ["run"]}])
        whole = {"nodeName": NODE, "automountServiceAccountToken": False, "containers": containers, **spec}
        answer = await self.cluster.client.create(
            PODS, {"metadata": {"name": name, "namespace": "default", "labels": labels or {}}, "spec": whole}, "default"
        )
        return str(answer["metadata"]["uid"])

    def pod(self, name: str = "p") -> JsonObject:
        found = self.cluster.find(PODS, name, "default")
        assert found is not None, f"{name} is gone"
        return found

    def phase(self, name: str = "p") -> str:
        return str(self.pod(name)["status"].get("phase"))

    def status(self, container: str = "c", name: str = "p") -> JsonObject:
        status = self.pod(name)["status"]
        every = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
        return next((each for each in every if each["name"] == container), {})

    def conditions(self, name: str = "p") -> dict[str, JsonObject]:
        return {each["type"]: each for each in self.pod(name)["status"].get("conditions") or []}

    def running(self) -> list[str]:
        return sorted(id.split("_", 1)[1] for id in self.runtime.running())

    def events(self) -> list[str]:
        return [each["reason"] for each in self.cluster.objects(EVENTS)]

    def said(self) -> list[str]:
        """Events in words."""
        return [f"{each['type']} {each['reason']}: {each['message']}" for each in self.cluster.objects(EVENTS)]

    def cgroup(self, uid: str) -> Path:
        assert self.agent.cgroups is not None
        return self.agent.cgroups.pods()[uid]

    async def crash(self) -> None:
        """The agent is killed; what runs, runs on."""
        await self.cluster.parts["node"].crash()

    async def restart(self, name: str = "p") -> None:
        """Another agent comes, and has looked at the pod."""
        before = self._agents[-1]
        await self.cluster.parts["node"].restart()
        await self.until(lambda: self.agent is not before and self.agent.pods.find("default", name) is not None)

    async def until(self, holds: Callable[[], bool], timeout: float = 600.0) -> None:
        await self.cluster.until(holds, timeout)

    async def resize(self, patch: JsonObject, name: str = "p") -> None:
        await self.cluster.client.patch(PODS, name, "default", {"spec": patch}, PatchType.STRATEGIC, "resize")


class Tree(Cgroups):
    """Directories with the files that a kernel would put there."""

    def create(self, path: Path, values: CgroupValues, *, inner: bool) -> None:
        path.mkdir(parents=True, exist_ok=True)
        for file, content in {**CgroupValues(100).files(), "memory.current": "4096", "cgroup.procs": ""}.items():
            if not (path / file).exists():
                (path / file).write_text(content)
        super().create(path, values, inner=inner)

    def prepare(self) -> None:
        for path in (self.parent, self.parent / "burstable", self.parent / "besteffort"):
            self.create(path, CgroupValues(100), inner=True)

    def remove(self, path: Path) -> None:
        for below in sorted(path.rglob("*"), reverse=True):
            below.rmdir() if below.is_dir() else below.unlink()
        if path.is_dir():
            path.rmdir()


@asynccontextmanager
async def node(
    directory: Path,
    *,
    tree: bool = False,
    observer: WriteObserver = unobserved,
    gates: Callable[[], str] = lambda: "",
    parts: tuple[str, ...] = (),
    images: ImageSource | None = None,
    **capacity: str,
) -> AsyncIterator[Bench]:
    """With `tree`, pods have cgroups; `observer` is told of every write to them; `gates` are asked at every start;
    `parts` of a cluster are there as well; `images` are those of the runtime."""
    runtime, agents = SimulatedRuntime(), list[Agent]()
    runtime.images = images

    def register(manager: Manager) -> None:
        addresses = AddressBook(LOOPBACK_POOL.first_choice("tests"))
        turned = NodeGates.parse(gates())
        cgroups = Tree(directory / "cgroups", observer) if tree else None
        if cgroups is not None:
            make_private_directory(directory)
            cgroups.prepare()
        options = NodeOptions(NODE, directory, capacity=capacity, gates=turned)
        agents.append(Agent(manager, options, runtime, AddressPlan(addresses), cgroups))

    async with Cluster(parts=parts, extra={"node": register}) as cluster:
        await agents[-1].heartbeat.registered.wait()
        yield Bench(cluster, runtime, agents)


def container(name: str, **more: Json) -> JsonObject:
    return {"name": name, "image": "host", "command": ["run"], **more}
