"""Runs on a pure cgroup v2 kernel: a cluster in one process whose node runs pods in containerd, or in CRI-O.

Prints one line of JSON for every case, as `inside.py` does. Started by `test_containers.py`; with names of cases it
runs only these.
"""

import asyncio
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.containers.cluster import NODE, ContainerCluster, container_cluster, is_ready, state_of, status_of
from tests.containers.containerd import Containerd, image_archive, pause_archive
from tests.containers.crio import Crio
from tests.containers.runtime import RuntimeUnderTest
from tests.kernel.killing_containers import whole_agents_may_be_killed_at_any_step
from tests.node.devices.fake_plugin import FakePlugin

from kohort.kube.client import PatchType
from kohort.kube.resources import NODES, PODS
from kohort.objects.json_types import JsonObject

MI = 1 << 20
IMAGE = "kohort.test/busybox:1"
PLACE = Path("/run/containerd-test")
PLUGINS = PLACE / "plugins"
GPU = "example.com/gpu"
SLEEP = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"]
EATS = "dd if=/dev/zero of=/dev/shm/x bs=1M count={} 2>/dev/null; echo eaten; while :; do sleep 0.2; done"


class Bench(ContainerCluster):
    container_runtime: RuntimeUnderTest

    def place(self, pod: JsonObject, container: str = "") -> Path:
        cgroups = self.agent.cgroups
        assert cgroups is not None, "there is no writable cgroup v2 here"
        uid = pod["metadata"]["uid"]
        path = cgroups.pods()[uid]
        return path / self.agent.runtime.cgroup_name(uid, container) if container else path

    def values(self, pod: JsonObject, container: str = "") -> tuple[str, ...]:
        """cpu.max, cpu.weight and memory.max, as the kernel holds them."""
        place = self.place(pod, container)
        return tuple((place / file).read_text().strip() for file in ("cpu.max", "cpu.weight", "memory.max"))

    async def resize(self, name: str, patch: JsonObject) -> JsonObject:
        answer = await self.client.patch(PODS, name, "default", {"spec": patch}, PatchType.STRATEGIC, "resize")
        generation = answer["metadata"]["generation"]
        return await self.until(
            name, lambda pod: pod["status"].get("observedGeneration", 0) >= generation and not resizing(pod)
        )


def resizing(pod: JsonObject) -> dict[str, str]:
    found = pod["status"].get("conditions") or []
    return {each["type"]: each.get("message", "") for each in found if each["type"].startswith("PodResize")}


def block(cpu: tuple[str, str], memory: tuple[str, str]) -> JsonObject:
    return {"requests": {"cpu": cpu[0], "memory": memory[0]}, "limits": {"cpu": cpu[1], "memory": memory[1]}}


def sized(name: str, cpu: tuple[str, str], memory: tuple[str, str], **more: object) -> JsonObject:
    return {"name": name, "command": SLEEP, "resources": block(cpu, memory), **more}


def patched(name: str, cpu: tuple[str, str], memory: tuple[str, str]) -> JsonObject:
    return {"containers": [{"name": name, "resources": block(cpu, memory)}]}


def equal(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


async def limits_are_those_of_processes(bench: Bench) -> None:
    """The same files as without a container runtime, weights included."""
    pod = await bench.run("a", sized("c", ("100m", "200m"), ("64Mi", "128Mi")))
    equal(bench.values(pod), ("20000 100000", "17", str(128 * MI)))
    equal(bench.values(pod, "c"), ("20000 100000", "17", str(128 * MI)))
    place = bench.place(pod, "c")
    equal((place / "memory.oom.group").read_text().strip(), "1")
    equal((place / "memory.high").read_text().strip(), "max")
    equal(status_of(pod, "c")["resources"], block(("100m", "200m"), ("64Mi", "128Mi")))
    unlimited = await bench.run("b", {"command": SLEEP})
    equal(bench.values(unlimited, "c"), ("max 100000", "1", "max"))
    path = bench.place(pod)
    await bench.delete("a")
    equal(path.exists(), False)
    await bench.delete("b")


async def resized_up_and_down_without_a_restart(bench: Bench) -> None:
    before = await bench.run("a", sized("c", ("100m", "200m"), ("64Mi", "128Mi")))
    bench.cgroup_writes.clear()
    begun = time.monotonic()
    pod = await bench.resize("a", patched("c", ("400m", "500m"), ("96Mi", "256Mi")))
    print(f"INFO resize took {time.monotonic() - begun:.3f} s", flush=True)
    equal(bench.values(pod, "c"), ("50000 100000", "49", str(256 * MI)))
    equal(bench.values(pod), ("50000 100000", "49", str(256 * MI)))
    equal(status_of(pod, "c")["resources"], block(("400m", "500m"), ("96Mi", "256Mi")))
    pod = await bench.resize("a", patched("c", ("50m", "100m"), ("32Mi", "64Mi")))
    equal(bench.values(pod, "c"), ("10000 100000", "11", str(64 * MI)))
    equal(bench.values(pod), ("10000 100000", "11", str(64 * MI)))
    equal(status_of(pod, "c")["containerID"], status_of(before, "c")["containerID"])
    equal(status_of(pod, "c")["restartCount"], 0)
    own = {path.name for path in bench.cgroup_writes if path.parent == bench.place(pod, "c")}
    assert own <= {"memory.high"}, f"the agent wrote {own} into the cgroup of a container"
    equal((bench.place(pod, "c") / "memory.high").read_text().strip(), "max")
    await bench.delete("a")


async def memory_in_use_is_not_taken_away(bench: Bench) -> None:
    shm: JsonObject = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    eater = sized("c", ("100m", "200m"), ("64Mi", "128Mi"), **shm) | {"command": ["sh", "-c", EATS.format(60)]}
    await bench.run("a", eater, volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}])
    before = await bench.client.get(PODS, "a", "default")
    await bench.until_logged("a", "eaten")
    patch = patched("c", ("100m", "200m"), ("16Mi", "32Mi"))
    await bench.client.patch(PODS, "a", "default", {"spec": patch}, PatchType.STRATEGIC, "resize")
    pod = await bench.until("a", lambda pod: "below current usage" in resizing(pod).get("PodResizeInProgress", ""))
    equal(bench.values(pod, "c")[2], str(128 * MI))
    equal((bench.place(pod, "c") / "memory.high").read_text().strip(), "max")
    await bench.shell("a", "rm /dev/shm/x")
    pod = await bench.until("a", lambda pod: not resizing(pod))
    equal(bench.values(pod, "c")[2], str(32 * MI))
    equal(status_of(pod, "c")["containerID"], status_of(before, "c")["containerID"])
    await bench.delete("a")


async def a_container_that_runs_out_of_memory_says_so(bench: Bench) -> None:
    greedy = {"command": ["sh", "-c", "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done"]}
    await bench.create("a", sized("c", ("100m", "1"), ("16Mi", "32Mi")) | greedy, restartPolicy="Never")
    pod = await bench.until("a", lambda pod: pod["status"].get("phase") == "Failed")
    ended = state_of(pod)["terminated"]
    equal((ended["exitCode"], ended["reason"]), (137, "OOMKilled"))
    await bench.delete("a")


async def resources_of_the_pod_are_resized(bench: Bench) -> None:
    pod = await bench.run("a", {"name": "c", "command": SLEEP}, resources=block(("100m", "200m"), ("64Mi", "128Mi")))
    equal(bench.values(pod), ("20000 100000", "17", str(128 * MI)))
    equal(bench.values(pod, "c"), ("20000 100000", "29", str(128 * MI)))
    before = status_of(pod, "c")["containerID"]
    pod = await bench.resize("a", {"resources": block(("200m", "400m"), ("96Mi", "192Mi"))})
    equal(bench.values(pod), ("40000 100000", "29", str(192 * MI)))
    equal(bench.values(pod, "c")[0], "40000 100000")
    equal(bench.values(pod, "c")[2], str(192 * MI))
    equal(pod["status"]["resources"], block(("200m", "400m"), ("96Mi", "192Mi")))
    equal(status_of(pod, "c")["containerID"], before)
    await bench.delete("a")


async def a_container_restarts_only_if_its_policy_says_so(bench: Bench) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    before = await bench.run("a", sized("c", ("100m", "200m"), ("64Mi", "128Mi"), resizePolicy=policy))
    pod = await bench.resize("a", patched("c", ("200m", "300m"), ("64Mi", "128Mi")))
    equal(status_of(pod, "c")["restartCount"], 0)
    await bench.resize("a", patched("c", ("200m", "300m"), ("64Mi", "256Mi")))
    pod = await bench.until("a", lambda pod: status_of(pod, "c")["restartCount"] == 1 and is_ready(pod))
    assert status_of(pod, "c")["containerID"] != status_of(before, "c")["containerID"]
    equal(bench.values(pod, "c"), ("30000 100000", "29", str(256 * MI)))
    await bench.delete("a")


async def a_resize_is_finished_when_the_runtime_returns(bench: Bench) -> None:
    before = await bench.run("a", sized("c", ("100m", "200m"), ("64Mi", "128Mi")))
    bench.container_runtime.kill()
    try:
        patch = patched("c", ("300m", "600m"), ("96Mi", "192Mi"))
        await bench.client.patch(PODS, "a", "default", {"spec": patch}, PatchType.STRATEGIC, "resize")
        await bench.until("a", lambda pod: bool(resizing(pod)))
    finally:
        bench.container_runtime.start()
    pod = await bench.until("a", lambda pod: not resizing(pod))
    equal(bench.values(pod, "c"), ("60000 100000", "40", str(192 * MI)))
    equal(status_of(pod, "c")["containerID"], status_of(before, "c")["containerID"])
    equal(status_of(pod, "c")["restartCount"], 0)
    await bench.delete("a")


async def a_resize_leaves_devices_alone(bench: Bench) -> None:
    """Neither one in place nor one with a restart asks the plugin again."""
    gpus = FakePlugin(PLUGINS, cdi=False)
    gpus.announce("gpu-0", "gpu-1")
    await gpus.start()
    await gpus.register()

    async def offered() -> bool:
        return bool((await bench.client.get(NODES, NODE))["status"]["allocatable"].get(GPU) == "2")

    def with_device(cpu: tuple[str, str], memory: tuple[str, str]) -> JsonObject:
        return {kind: {**amounts, GPU: "1"} for kind, amounts in block(cpu, memory).items()}

    async def resized(cpu: tuple[str, str], memory: tuple[str, str]) -> JsonObject:
        return await bench.resize("a", {"containers": [{"name": "c", "resources": with_device(cpu, memory)}]})

    try:
        await bench.until_true(offered)
        policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        container: JsonObject = {"command": SLEEP, "resizePolicy": policy}
        await bench.run("a", {**container, "resources": with_device(("100m", "200m"), ("64Mi", "128Mi"))})
        pod = await resized(("200m", "400m"), ("64Mi", "128Mi"))
        equal(bench.values(pod, "c")[0], "40000 100000")
        equal(status_of(pod, "c")["restartCount"], 0)
        await resized(("200m", "400m"), ("64Mi", "256Mi"))
        await bench.until("a", lambda pod: status_of(pod, "c")["restartCount"] == 1 and is_ready(pod))
        equal(await bench.shell("a", "echo $EXAMPLE_VISIBLE_DEVICES"), "gpu-0\n")
        equal(gpus.allocated, [("gpu-0",)])
        await bench.delete("a")
    finally:
        await gpus.stop()


CASES: tuple[Callable[[Bench], Awaitable[None]], ...] = (
    limits_are_those_of_processes,
    resized_up_and_down_without_a_restart,
    memory_in_use_is_not_taken_away,
    a_container_that_runs_out_of_memory_says_so,
    resources_of_the_pod_are_resized,
    a_container_restarts_only_if_its_policy_says_so,
    a_resize_is_finished_when_the_runtime_returns,
    a_resize_leaves_devices_alone,
    whole_agents_may_be_killed_at_any_step,
)


async def tried(runtime: RuntimeUnderTest, case: Callable[[Bench], Awaitable[None]]) -> str:
    directory = PLACE / f"node-{case.__name__}"
    directory.mkdir(mode=0o700)
    try:
        async with container_cluster(runtime.socket, directory, IMAGE, Bench) as bench:
            assert isinstance(bench, Bench)
            bench.container_runtime = runtime
            async with bench.node(own_networks=False, device_plugins=PLUGINS):
                await case(bench)
    except Exception:
        return traceback.format_exc()
    return ""


def main() -> None:
    os.environ.setdefault("KOHORT_LOG", "warning")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    with_crio = os.environ.get("KOHORT_TEST_RUNTIME") == "crio"
    runtime = Crio(PLACE, driver="vfs") if with_crio else Containerd(PLACE, snapshotter="native")
    runtime.start()
    try:
        runtime.load(pause_archive())
        runtime.load(image_archive(IMAGE, command=SLEEP))
        for case in CASES:
            if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
                continue
            begun = time.monotonic()
            problem = asyncio.run(tried(runtime, case))
            print(f"INFO {case.__name__} took {time.monotonic() - begun:.1f} s", flush=True)
            print("CASE " + json.dumps({"name": case.__name__, "problem": problem}), flush=True)
    finally:
        runtime.stop()


if __name__ == "__main__":
    main()
