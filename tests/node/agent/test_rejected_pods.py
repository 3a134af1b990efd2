"""Pods that the node does not take in."""

import asyncio
import signal
from pathlib import Path
from typing import cast

import pytest
from tests.node.agent.node_bench import container, node

from kohort.kube.resources import PODS, STATEFUL_SETS
from kohort.node.devices.allocations import DeviceAllocations
from kohort.node.devices.messages import ContainerAllocation, Device
from kohort.node.devices.registry import PluginRegistry
from kohort.objects.json_types import JsonObject


async def test_more_than_the_node_has_is_not_taken_in(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await bench.create(containers=[container("c", resources={"requests": {"cpu": "2"}})])
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.pod()["status"]["reason"] == "OutOfcpu"


@pytest.mark.parametrize(
    ("second", "labels", "reason"),
    [
        ({"os": {"name": "windows"}}, {}, "PodOSNotSupported"),
        ({}, {"kubernetes.io/os": "windows"}, "PodOSSelectorNodeLabelDoesNotMatch"),
        ({"containers": [container("c", ports=[{"containerPort": 1, "hostPort": 80}])]}, {}, "NodePorts"),
    ],
)
async def test_pods_that_were_bound_to_the_wrong_node_are_not_taken_in(
    tmp_path: Path, second: JsonObject, labels: JsonObject, reason: str
) -> None:
    async with node(tmp_path) as bench:
        await bench.create("p", containers=[container("c", ports=[{"containerPort": 2, "hostPort": 80}])])
        await bench.until(lambda: bench.phase() == "Running")
        await bench.create("q", labels=labels, **second)
        await bench.until(lambda: bench.phase("q") == "Failed")
        assert bench.pod("q")["status"]["reason"] == reason


async def test_pods_with_resources_of_their_own_need_cgroups(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(resources={"limits": {"cpu": "1", "memory": "64Mi"}})
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.pod()["status"]["reason"] == "PodLevelResourcesNotSupported"


async def test_a_set_whose_pods_are_refused_tries_again_ever_more_slowly(tmp_path: Path) -> None:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "nodeName": "n1",
            "automountServiceAccountToken": False,
            "resources": {"limits": {"cpu": "1", "memory": "64Mi"}},
            "containers": [container("c")],
        },
    }
    document = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    async with node(tmp_path, parts=("workloads",)) as bench:
        await bench.cluster.client.create(STATEFUL_SETS, document, "default")
        seen: set[str] = set()

        def look() -> bool:
            pods = bench.cluster.objects(PODS)
            seen.update(each["metadata"]["uid"] for each in pods)
            return len(seen) == 6

        start = asyncio.get_running_loop().time()
        await bench.until(look)
        took = asyncio.get_running_loop().time() - start
        assert took > 15, "pauses grow; nodes refuse a pod within milliseconds"
        await bench.until(lambda: bench.phase("web-0") == "Failed")
        status = bench.pod("web-0")["status"]
        assert status["reason"] == "PodLevelResourcesNotSupported" and status["message"].startswith(
            "Pod was rejected: "
        )
        await asyncio.sleep(5)
        assert bench.pod("web-0")["status"] == status, "it stays, and with it the reason"
        assert not bench.pod("web-0")["metadata"].get("deletionTimestamp")


async def test_volumes_in_place_of_files_of_the_node_are_what_a_container_sees(tmp_path: Path) -> None:
    mounts = [{"name": "v", "mountPath": path, "subPath": "f"} for path in ("/etc/resolv.conf", "/etc/hosts/")]
    async with node(tmp_path) as bench:
        await bench.create(containers=[container("c", volumeMounts=mounts)], volumes=[{"name": "v", "emptyDir": {}}])
        await bench.until(lambda: bench.phase() == "Running")
        worker = bench.agent.pods.find("default", "p")
        assert worker is not None
        targets = [each.target.rstrip("/") for each in worker.launches["c"].mounts]
        assert sorted(targets) == ["/dev/termination-log", "/etc/hosts", "/etc/resolv.conf"], "each once"


async def test_containers_that_wait_for_a_failed_init_container_never_ran(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create(restartPolicy="Never", initContainers=[container("first")])
        await bench.until(lambda: bench.running() == ["first_0"])
        bench.runtime.end(f"{uid}_first_0", 1)
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.status()["state"] == {"waiting": {"reason": "PodInitializing"}}


async def test_a_pod_takes_the_room_of_one_that_was_deleted_without_grace(tmp_path: Path) -> None:
    """Its containers may still be ending: the scheduler, and kubelet, count it no longer."""
    half = {"requests": {"cpu": "600m"}}
    async with node(tmp_path, cpu="1") as bench:
        await bench.create("p", containers=[container("c", resources=half)])
        await bench.until(lambda: bench.phase("p") == "Running")
        await bench.cluster.client.delete(PODS, "p", "default", grace_seconds=0)
        await bench.create("q", containers=[container("c", resources=half)])
        await bench.until(lambda: bench.phase("q") in ("Running", "Failed"))
        assert bench.phase("q") == "Running", bench.pod("q")["status"]


class OneDevice:
    """A plugin with one device, and the registry that knows it."""

    resource = "example.com/gpu"

    def manages(self, resource: str) -> bool:
        return resource == self.resource

    def plugin(self, resource: str) -> "OneDevice":
        return self

    def healthy(self, resource: str) -> list[Device]:
        return [Device("gpu-0")]

    def capacity(self) -> dict[str, str]:
        return {self.resource: "1"}

    allocatable = capacity

    async def preferred(self, available: list[str], must_include: list[str], wanted: int) -> tuple[str, ...]:
        return ()

    async def allocate(self, ids: tuple[str, ...]) -> ContainerAllocation:
        return ContainerAllocation()

    async def pre_start(self, ids: tuple[str, ...]) -> None:
        pass


async def test_a_pod_takes_the_device_of_one_that_was_deleted_without_grace(tmp_path: Path) -> None:
    """As with kubelet, whose device manager counts pods of the API only. Its containers may still be ending."""
    async with node(tmp_path) as bench:
        registry = cast(PluginRegistry, OneDevice())
        bench.agent.state.devices = DeviceAllocations(registry, tmp_path, is_gone=bench.agent.pods.is_gone)
        gpu = [container("c", resources={"limits": {OneDevice.resource: "1"}})]
        first = await bench.create("p", containers=gpu)
        await bench.until(lambda: bench.phase("p") == "Running")
        stop, may_end = bench.runtime.stop, asyncio.Event()

        async def stop_late(id: str, grace: float, number: int = signal.SIGTERM) -> None:
            await may_end.wait()
            await stop(id, grace, number)

        bench.runtime.stop = stop_late  # type: ignore[method-assign]
        await bench.cluster.client.delete(PODS, "p", "default", grace_seconds=0)
        await bench.create("q", containers=gpu)
        await bench.until(lambda: bench.phase("q") in ("Running", "Failed"))
        assert bench.phase("q") == "Running", bench.pod("q")["status"]
        assert f"{first}_c_0" in bench.runtime.running(), "still ending"
        may_end.set()
        await bench.until(lambda: len(bench.runtime.running()) == 1)
