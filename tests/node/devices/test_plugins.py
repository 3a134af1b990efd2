"""Plugins that speak gRPC through grpcio: they register, change, go and come back, and pods get their devices."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec
import pytest
from tests.node.devices.fake_plugin import FakePlugin

from kohort.node.devices import pod_resources, registry
from kohort.node.devices.allocations import DeviceAllocations
from kohort.node.devices.container_use import NO_DEVICES, DeviceUse
from kohort.node.devices.interface import DeviceProblem
from kohort.node.devices.messages import Empty
from kohort.node.devices.pod_resources import PodRequest, PodResources
from kohort.node.devices.registry import PluginRegistry, RegistrationTaken
from kohort.node.grpc.client import channel
from kohort.node.grpc.status import Code, RpcError
from kohort.node.runtimes.interface import Device, Mount
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.rules.pod_admission import Rejection, RejectionReason

GPU = "example.com/gpu"
PATIENCE = 30.0


class Node:
    """The parts of an agent that deal with devices."""

    def __init__(self, folder: Path) -> None:
        self.sockets, self._records = folder / "plugins", folder / "records"
        self._news = asyncio.Event()
        self.registry = PluginRegistry(self.sockets, self._records, self._news.set)
        self.allocations = DeviceAllocations(self.registry, self._records)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def has(self, capacity: int, allocatable: int, resource: str = GPU) -> None:
        def holds() -> bool:
            found = self.registry.capacity().get(resource), self.registry.allocatable().get(resource)
            return found == (str(capacity), str(allocatable))

        await self.until(holds)


@contextlib.asynccontextmanager
async def node(folder: Path) -> AsyncIterator[Node]:
    made = Node(folder)
    await made.registry.start()
    try:
        yield made
    finally:
        await made.registry.close()


@contextlib.asynccontextmanager
async def plugin(
    node: Node, *devices: str, prefers: tuple[str, ...] = (), pre_start: bool = False
) -> AsyncIterator[FakePlugin]:
    made = FakePlugin(node.sockets, prefers=prefers, pre_start=pre_start)
    made.announce(*devices)
    await made.start()
    try:
        await made.register()
        await node.has(len(devices), len(devices), made.resource)
        yield made
    finally:
        await made.stop()


def pod(
    name: str, *amounts: int, init: tuple[int, ...] = (), sidecar: tuple[int, ...] = (), resource: str = GPU
) -> Pod:
    def containers(kind: str, counts: tuple[int, ...], **more: str) -> list[JsonObject]:
        return [
            {"name": f"{kind}{number}", "resources": {"limits": {resource: str(count)}}, **more}
            for number, count in enumerate(counts)
        ]

    first = containers("init", init) + containers("side", sidecar, restartPolicy="Always")
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"initContainers": first, "containers": containers("c", amounts)},
    }
    return msgspec.convert(document, Pod)


def ids(node: Node, name: str) -> dict[str, tuple[str, ...]]:
    (found,) = [each for each in node.allocations.pods() if each.name == name]
    return {container: given[GPU].ids for container, given in found.containers.items()}


async def test_a_plugin_registers_and_its_devices_are_counted(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0", "gpu-1", "gpu-2") as gpus:
        gpus.announce("gpu-0", "gpu-1", unhealthy=["gpu-2"])
        await here.has(3, 2)
        gpus.announce("gpu-0")
        await here.has(1, 1)


async def test_a_container_gets_everything_that_the_plugin_says(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0", "gpu-1") as gpus:
        assert await here.allocations.admit(pod("a", 2)) is None
        assert gpus.allocated == [("gpu-0", "gpu-1")]
        use = here.allocations.use("uid-a", "c0")
        assert use == DeviceUse(
            {"EXAMPLE_VISIBLE_DEVICES": "gpu-0,gpu-1"},
            (Mount(str(here.sockets), "/usr/lib/example", True),),
            tuple(Device("/dev/null", f"/dev/{id}", "rw") for id in ("gpu-0", "gpu-1")),
            {"example.com/devices": "gpu-0,gpu-1"},
            tuple(f"{GPU}={id}" for id in ("gpu-0", "gpu-1")),
        )
        assert here.allocations.use("uid-a", "another") == NO_DEVICES


async def test_no_device_is_given_twice_and_those_of_ended_pods_are_given_again(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0", "gpu-1", "gpu-2"):
        # At the same time, as workers of pods do.
        await asyncio.gather(*(here.allocations.admit(pod(name, 1)) for name in "abc"))
        assert sorted(ids(here, name)["c0"] for name in "abc") == [("gpu-0",), ("gpu-1",), ("gpu-2",)]
        refused = await here.allocations.admit(pod("d", 1))
        assert refused == Rejection(
            RejectionReason.UNEXPECTED,
            f"Allocate failed due to requested number of devices unavailable for {GPU}. Requested: 1, Available: 0, "
            "which is unexpected",
        )
        freed = ids(here, "b")["c0"]
        here.allocations.release("uid-b")
        assert await here.allocations.admit(pod("d", 1)) is None
        assert ids(here, "d")["c0"] == freed
        here.allocations.forget({"uid-d"})
        assert [each.name for each in here.allocations.pods()] == ["d"]


async def test_devices_of_a_pod_that_is_gone_from_the_api_are_given_to_the_next_one(tmp_path: Path) -> None:
    gone: set[tuple[str, str, str]] = set()
    async with node(tmp_path) as here, plugin(here, "gpu-0"):
        allocations = DeviceAllocations(
            here.registry, tmp_path / "own", is_gone=lambda key, uid: (key.namespace, key.name, uid) in gone
        )
        assert await allocations.admit(pod("a", 1)) is None
        assert await allocations.admit(pod("b", 1)) is not None, "the pod exists"
        gone.update({("default", "a", "uid-a"), ("default", "c", "uid-c")})
        # The second pod goes while its plugin is asked, and the third one waits for the plugin meanwhile.
        assert await asyncio.gather(*(allocations.admit(pod(name, 1)) for name in "cd")) == [None, None]
        assert [each.name for each in allocations.pods()] == ["d"]


async def test_devices_of_init_containers_are_used_again_but_not_those_of_sidecars(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, *(f"gpu-{number}" for number in range(4))):
        assert await here.allocations.admit(pod("a", 1, 1, init=(2, 1), sidecar=(1,))) is None
        found = ids(here, "a")
        assert found["init0"] == ("gpu-0", "gpu-1")
        assert set(found["init1"]) <= set(found["init0"])
        assert {*found["c0"], *found["side0"]} <= {"gpu-0", "gpu-1"}
        assert len({*found["c0"], *found["c1"], *found["side0"]}) == 3


async def test_the_plugin_is_asked_what_it_prefers(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0", "gpu-1", "gpu-2", prefers=("gpu-2", "gpu-1")) as gpus:
        assert await here.allocations.admit(pod("a", 2)) is None
        assert gpus.asked == [(("gpu-0", "gpu-1", "gpu-2"), (), 2)]
        assert ids(here, "a")["c0"] == ("gpu-2", "gpu-1")
        # What it prefers is taken now, so its answer cannot be used.
        assert await here.allocations.admit(pod("b", 1)) is None
        assert ids(here, "b")["c0"] == ("gpu-0",)


async def test_a_plugin_that_refuses_fails_the_pod_and_keeps_its_devices(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0") as gpus:
        gpus.refuses = "the GPU has fallen off the bus"
        refused = await here.allocations.admit(pod("a", 1))
        assert refused is not None and refused.reason == RejectionReason.UNEXPECTED
        assert "the GPU has fallen off the bus" in refused.message
        gpus.refuses = ""
        assert await here.allocations.admit(pod("b", 1)) is None


async def test_a_plugin_that_does_not_answer_holds_up_only_its_own_pods(tmp_path: Path) -> None:
    async with node(tmp_path) as made, plugin(made, "gpu-0", "gpu-1") as slow:
        other = FakePlugin(made.sockets, resource="example.com/other", socket="other.sock")
        other.announce("o-0")
        await other.start()
        await other.register()
        await made.has(1, 1, other.resource)
        slow.hangs = True
        waiting = asyncio.create_task(made.allocations.admit(pod("waiting", 2)))
        second = asyncio.create_task(made.allocations.admit(pod("second", 1)))
        async with asyncio.timeout(10):
            assert await made.allocations.admit(pod("prompt", 1, resource=other.resource)) is None
        assert not waiting.done()
        slow.hangs = False
        waiting.cancel()  # the pod is deleted: what was reserved for it is free
        assert await second is None and ids(made, "second") == {"c0": ("gpu-0",)}
        assert [each.name for each in made.allocations.pods()] == ["prompt", "second"]
        await other.stop()


async def test_unhealthy_devices_are_not_given_but_stay_with_their_pod(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0", "gpu-1") as gpus:
        assert await here.allocations.admit(pod("a", 1)) is None
        gpus.announce("gpu-1", unhealthy=["gpu-0"])
        await here.has(2, 1)
        assert ids(here, "a")["c0"] == ("gpu-0",)
        assert await here.allocations.admit(pod("a", 1)) is None
        assert await here.allocations.admit(pod("b", 1)) is None
        assert ids(here, "b")["c0"] == ("gpu-1",)


async def test_a_pod_keeps_its_devices_when_the_agent_and_the_plugin_are_restarted(tmp_path: Path) -> None:
    async with node(tmp_path) as before, plugin(before, "gpu-0", "gpu-1"):
        assert await before.allocations.admit(pod("a", 1)) is None
        use = before.allocations.use("uid-a", "c0")
    async with node(tmp_path) as after:
        # Before the plugin is back: the pod may be running already, so it is not refused; a new one is.
        assert (after.registry.capacity(), after.registry.allocatable()) == ({GPU: "0"}, {GPU: "0"})
        assert await after.allocations.admit(pod("a", 1)) is None
        assert after.allocations.use("uid-a", "c0") == use
        refused = await after.allocations.admit(pod("b", 1))
        assert refused is not None and f"no device plugin registered for {GPU}" in refused.message
        async with plugin(after, "gpu-0", "gpu-1") as gpus:
            assert await after.allocations.admit(pod("a", 1)) is None
            assert gpus.allocated == []
            assert await after.allocations.admit(pod("c", 1)) is None
            assert ids(after, "c")["c0"] == ("gpu-1",)


async def test_a_lost_plugin_has_no_healthy_devices_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path) as here:
        async with plugin(here, "gpu-0", "gpu-1"):
            pass
        await here.has(2, 0)
        async with plugin(here, "gpu-0", "gpu-1", "gpu-2"):
            pass
        await here.has(3, 0)
        monkeypatch.setattr(registry, "ABSENT_SECONDS", 0.0)
        async with plugin(here, "gpu-0"):
            pass
        await here.has(0, 0)


async def test_a_plugin_that_registers_twice_is_one_plugin(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0") as gpus:
        await gpus.register()
        second = FakePlugin(here.sockets, socket="second.sock")
        second.announce("gpu-7", "gpu-8")
        await second.start()
        await second.register()
        await here.has(2, 2)
        assert await here.allocations.admit(pod("a", 1)) is None
        assert second.allocated == [("gpu-7",)]
        await second.stop()


@pytest.mark.parametrize("write", ["checkpoint", "rename"])
async def test_devices_that_cannot_be_recorded_are_not_given(tmp_path: Path, write: str) -> None:
    """As after a crash at that write: the next agent finds all devices free."""

    def fail(kind: str, path: Path, content: str) -> None:
        if kind == write and path.name == "devices.json":
            raise OSError("disk full")

    async with node(tmp_path) as here, plugin(here, "gpu-0"):
        broken = DeviceAllocations(here.registry, tmp_path / "records", fail)
        with pytest.raises(OSError, match="disk full"):
            await broken.admit(pod("a", 1))
        assert broken.use("uid-a", "c0") == NO_DEVICES
        after = DeviceAllocations(here.registry, tmp_path / "records")
        assert after.pods() == []
        assert await after.admit(pod("b", 1)) is None


async def test_devices_are_prepared_before_each_start(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0", pre_start=True) as gpus:
        assert await here.allocations.admit(pod("a", 1)) is None
        await here.allocations.before_start("uid-a", "c0")
        await here.allocations.before_start("uid-a", "c0")
        await here.allocations.before_start("uid-a", "without-devices")
        assert gpus.prepared == [("gpu-0",), ("gpu-0",)]


async def test_a_start_whose_devices_cannot_be_prepared_is_refused(tmp_path: Path) -> None:
    class Failing(FakePlugin):
        async def _prepare(self, request: Any, context: Any) -> Any:
            await context.abort(grpc.StatusCode.INTERNAL, "reset failed")

    async with node(tmp_path) as here:
        gpus = Failing(here.sockets, pre_start=True)
        gpus.announce("gpu-0")
        await gpus.start()
        await gpus.register()
        await here.has(1, 1)
        assert await here.allocations.admit(pod("a", 1)) is None
        with pytest.raises(DeviceProblem, match="reset failed"):
            await here.allocations.before_start("uid-a", "c0")
        await gpus.stop()


@pytest.mark.parametrize(
    ("resource", "version", "endpoint", "words"),
    [
        (GPU, "v1alpha", None, "'v1alpha' is not supported; supported is v1beta1"),
        ("cpu", "v1beta1", None, "'cpu' is not that of an extended resource"),
        ("x.kubernetes.io/gpu", "v1beta1", None, "not that of an extended resource"),
        (GPU, "v1beta1", "../outside.sock", "'../outside.sock' is not the name of a socket"),
        (GPU, "v1beta1", "", "'' is not the name of a socket"),
        (GPU, "v1beta1", "kubelet.sock", "is not the name of a socket"),
    ],
)
async def test_a_registration_that_cannot_work_is_refused(
    tmp_path: Path, resource: str, version: str, endpoint: str | None, words: str
) -> None:
    async with node(tmp_path) as here:
        gpus = FakePlugin(here.sockets, resource)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await gpus.register(version, endpoint)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert words in (refused.value.details() or "")
        assert here.registry.capacity() == {}


async def test_pods_that_ask_for_resources_of_no_plugin_are_left_alone(tmp_path: Path) -> None:
    """The scheduler keeps them away unless someone has put the resource on the node, and then it is not ours."""
    async with node(tmp_path) as here:
        assert await here.allocations.admit(pod("a", 1, resource="example.com/other")) is None
        assert here.allocations.pods() == []


async def test_the_folder_of_another_kubelet_is_left_alone(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        left = here.sockets / "kubelet.sock"
        with pytest.raises(RegistrationTaken, match="served by another program"):
            await Node(tmp_path).registry.start()
        assert left.exists()


async def test_sockets_that_are_left_over_are_removed_so_that_plugins_notice(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        sockets = here.sockets
        gpus = FakePlugin(sockets)
        await gpus.start()
        (sockets / "checkpoint").write_text("a plugin's own file")
        await here.registry.close()
        async with node(tmp_path):
            assert sorted(path.name for path in sockets.iterdir()) == ["checkpoint", "kubelet.sock"]
        await gpus.stop()


async def test_monitoring_programs_see_which_pod_has_which_device(tmp_path: Path) -> None:
    async with node(tmp_path) as here, plugin(here, "gpu-0", "gpu-1") as gpus:
        gpus.announce("gpu-0", "gpu-1", numa={"gpu-0": 0, "gpu-1": 1})
        await here.until(lambda: bool(here.registry.healthy(GPU)[0].topology))
        assert await here.allocations.admit(pod("a", 1)) is None
        served = PodResources(here.allocations, here.registry)
        await served.start(tmp_path / "pod-resources")
        try:
            async with channel(tmp_path / "pod-resources" / "kubelet.sock") as client:
                (listed,) = (await client.call(pod_resources.LIST, Empty(), timeout=30)).pods
                asked = PodRequest("a", "default")
                assert (await client.call(pod_resources.GET, asked, timeout=30)).pod == listed
                assert (listed.namespace, listed.name) == ("default", "a")
                ((devices,),) = [container.devices for container in listed.containers]
                assert (devices.resource_name, devices.ids) == (GPU, ("gpu-0",))
                assert devices.topology is not None and [each.id for each in devices.topology.nodes] == [0]
                (free,) = (await client.call(pod_resources.ALLOCATABLE, Empty(), timeout=30)).devices
                assert free.ids == ("gpu-0", "gpu-1")
                with pytest.raises(RpcError) as refused:
                    await client.call(pod_resources.GET, PodRequest("b", "default"), timeout=30)
                assert refused.value.code == Code.NOT_FOUND
        finally:
            await served.close()
