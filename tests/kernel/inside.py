"""Runs on a pure cgroup v2 kernel: a cluster in one process whose node is this machine, and real processes as pods.

Prints one line of JSON for every case: its name, and what went wrong, if anything. Started by `test_kernel.py`, inside
user-mode-linux or on the machine itself.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from kohort.cluster.apiserver.assembly import assemble
from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.client import Client, PatchType
from kohort.kube.errors import AlreadyExists
from kohort.kube.http import Request, Response
from kohort.kube.manager import Manager
from kohort.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from kohort.kube.transport import InProcessTransport
from kohort.node.agent import Agent
from kohort.node.runtimes.process.client import ProcessRuntime
from kohort.objects.jsontypes import Json, JsonObject

MI = 1 << 20
NODE = "kernel"
SLEEP = ["sleep", "100000"]
RESTARTS = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
]


class Bench:
    """The cluster, its node, and what a test does with them."""

    def __init__(self, client: Client, agent: Agent, writes: list[str]) -> None:
        self.client = client
        self.agent = agent
        self.writes = writes

    async def run(self, name: str, containers: list[JsonObject], resources: JsonObject | None = None) -> JsonObject:
        """Start a pod and wait until it runs."""
        spec: JsonObject = {
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{"image": "host", "command": SLEEP, **each} for each in containers],
        }
        if resources:
            spec["resources"] = resources
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        await self.client.create(PODS, document, "default")
        return await self.until(name, lambda pod: pod["status"].get("phase") == "Running")

    async def until(self, name: str, holds: Callable[[JsonObject], bool], seconds: float = 30.0) -> JsonObject:
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
        assert self.agent.node.cgroups is not None
        return self.agent.node.cgroups.pods()[pod["metadata"]["uid"]]

    def values(self, pod: JsonObject, container: str = "") -> tuple[str, str, str]:
        """cpu.max, cpu.weight and memory.max, as the kernel holds them."""
        place = self.place(pod) / container
        return tuple((place / file).read_text().strip() for file in ("cpu.max", "cpu.weight", "memory.max"))  # type: ignore[return-value]

    def pid(self, pod: JsonObject, container: str) -> int:
        worker = self.agent.worker("default", pod["metadata"]["name"])
        assert worker is not None
        instance = worker.runs[container].instance
        assert instance is not None and instance.running, f"{container} does not run"
        return instance.pid

    async def delete(self, name: str) -> None:
        """Delete a pod and wait until nothing is left of it on the node."""
        await self.client.delete(PODS, name, "default", grace_seconds=0)
        deadline = time.monotonic() + 30
        while self.agent.worker("default", name) is not None:
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


async def inherited_limits_are_set(bench: Bench) -> None:
    pod = await bench.run("inherits", [{"name": "c1"}], block(("100m", "200m"), ("64Mi", "128Mi")))
    equal(bench.values(pod), ("20000 100000", "17", str(128 * MI)))
    equal(bench.values(pod, "c1"), ("20000 100000", "29", str(128 * MI)))
    equal(pod["status"]["resources"], block(("100m", "200m"), ("64Mi", "128Mi")))
    equal(status_of(pod, "c1").get("resources", {}), {})
    await bench.delete("inherits")


async def cpu_is_throttled_at_the_limit_of_the_pod(bench: Bench) -> None:
    spin = {"name": "c1", "command": ["sh", "-c", "while :; do :; done"]}
    pod = await bench.run("spins", [spin], {"limits": {"cpu": "200m", "memory": "128Mi"}})

    def used() -> dict[str, int]:
        lines = (bench.place(pod) / "cpu.stat").read_text().splitlines()
        return {line.split()[0]: int(line.split()[1]) for line in lines}

    before, start = used(), time.monotonic()
    await asyncio.sleep(3.0)
    after, end = used(), time.monotonic()
    share = (after["usage_usec"] - before["usage_usec"]) / 1e6 / (end - start)
    assert 0.1 < share < 0.27, f"used {share:.3f} of a cpu, the limit is 0.2"
    assert after["nr_throttled"] > before["nr_throttled"], "the kernel never throttled it"
    await bench.delete("spins")


async def memory_ends_at_the_limit_of_the_pod(bench: Bench) -> None:
    eat = {"name": "c1", "command": ["python3", "-c", "x = bytearray(300 << 20); import time; time.sleep(60)"]}
    pod = await bench.run("eats", [eat], {"limits": {"cpu": "1", "memory": "64Mi"}})
    pod = await bench.until("eats", lambda found: status_of(found, "c1")["restartCount"] > 0)
    ended = status_of(pod, "c1")["lastState"]["terminated"]
    equal((ended["reason"], ended["exitCode"]), ("OOMKilled", 137))
    await bench.delete("eats")


async def resized_up_and_down_without_restart(bench: Bench) -> None:
    sizes = block(("100m", "200m"), ("64Mi", "128Mi"))
    pod = await bench.run("resized", [{"name": "c1", "resources": sizes}, {"name": "c2", "resources": sizes}])
    pids = [bench.pid(pod, name) for name in ("c1", "c2")]
    equal(bench.values(pod), ("40000 100000", "29", str(256 * MI)))
    equal((bench.place(pod).parent / "cpu.weight").read_text().strip(), "29")
    for cpu, memory, c1, whole in (
        (("200m", "400m"), ("96Mi", "192Mi"), ("40000 100000", "29"), ("60000 100000", "41")),
        (("50m", "100m"), ("32Mi", "64Mi"), ("10000 100000", "11"), ("30000 100000", "24")),
    ):
        changed = {"containers": [{"name": "c1", "resources": block(cpu, memory)}]}
        pod = await bench.resize("resized", changed)
        limit = int(memory[1].removesuffix("Mi"))
        equal(bench.values(pod, "c1"), (*c1, str(limit * MI)))
        equal(bench.values(pod)[2], str((limit + 128) * MI))
        equal(bench.values(pod)[0], whole[0])
        equal(status_of(pod, "c1")["resources"], block(cpu, memory))
        equal(status_of(pod, "c1")["allocatedResources"], {"cpu": cpu[0], "memory": memory[0]})
    equal([bench.pid(pod, name) for name in ("c1", "c2")], pids)
    equal(status_of(pod, "c1")["restartCount"], 0)
    await bench.delete("resized")


async def pod_level_resize_restarts_only_by_policy_and_effect(bench: Bench) -> None:
    """The example of the proposal: c1 inherits, c2 has its own."""
    own = block(("50m", "100m"), ("50Mi", "100Mi"))
    containers: list[JsonObject] = [
        {"name": "c1", "resizePolicy": RESTARTS},
        {"name": "c2", "resizePolicy": RESTARTS, "resources": own},
    ]
    pod = await bench.run("example", containers, block(("100m", "200m"), ("100Mi", "200Mi")))
    first = {name: bench.pid(pod, name) for name in ("c1", "c2")}
    pod = await bench.resize("example", {"resources": block(("100m", "300m"), ("100Mi", "200Mi"))})
    equal({name: bench.pid(pod, name) for name in ("c1", "c2")}, first)
    equal((bench.values(pod)[0], bench.values(pod, "c1")[0]), ("30000 100000", "30000 100000"))
    equal(bench.values(pod, "c2")[0], "10000 100000")
    await bench.resize("example", {"resources": block(("100m", "300m"), ("100Mi", "300Mi"))})
    pod = await bench.until("example", lambda found: status_of(found, "c1")["restartCount"] == 1)
    assert bench.pid(pod, "c1") != first["c1"], "c1 was not restarted"
    equal(bench.pid(pod, "c2"), first["c2"])
    equal((bench.values(pod)[2], bench.values(pod, "c1")[2]), (str(300 * MI), str(300 * MI)))
    equal(bench.values(pod, "c2")[2], str(100 * MI))
    equal(pod["status"]["resources"], block(("100m", "300m"), ("100Mi", "300Mi")))
    await bench.delete("example")


async def writes_come_in_the_order_of_the_proposal(bench: Bench) -> None:
    def sized(c1: str, c2: str) -> list[JsonObject]:
        return [{"name": n, "resources": block(("10m", "100m"), ("8Mi", m))} for n, m in (("c1", c1), ("c2", c2))]

    def whole(memory: str) -> JsonObject:
        return block(("20m", "200m"), ("16Mi", memory))

    pod = await bench.run("ordered", sized("100Mi", "200Mi"), whole("300Mi"))
    name = f"pod{pod['metadata']['uid']}"
    for memory, c1, c2, expected in (
        ("250Mi", "150Mi", "100Mi", [f"c2 {100 * MI}", f"{name} {250 * MI}", f"c1 {150 * MI}"]),
        ("400Mi", "300Mi", "50Mi", [f"{name} {400 * MI}", f"c2 {50 * MI}", f"c1 {300 * MI}"]),
    ):
        bench.writes.clear()
        pod = await bench.resize("ordered", {"containers": sized(c1, c2), "resources": whole(memory)})
        equal([line.replace("/memory.max", "") for line in bench.writes if "/memory.max " in line], expected)
    await bench.delete("ordered")


async def a_first_block_of_the_pod_is_taken_up(bench: Bench) -> None:
    """P31: figures of its own for a pod that had none; what its containers hold themselves stays."""
    own = block(("20m", "100m"), ("32Mi", "64Mi"))
    pod = await bench.run(
        "first", [{"name": "c1", "resources": own}, {"name": "c2", "resources": {"requests": {"cpu": "20m"}}}]
    )
    pids = [bench.pid(pod, name) for name in ("c1", "c2")]
    equal(bench.values(pod), ("max 100000", "9", "max"))
    pod = await bench.resize("first", {"resources": block(("100m", "300m"), ("64Mi", "128Mi"))})
    equal(bench.values(pod), ("30000 100000", "17", str(128 * MI)))
    equal(bench.values(pod, "c1"), ("10000 100000", "6", str(64 * MI)))
    equal(bench.values(pod, "c2")[0::2], ("30000 100000", str(128 * MI)))
    equal([bench.pid(pod, name) for name in ("c1", "c2")], pids)
    equal(pod["status"]["resources"], block(("100m", "300m"), ("64Mi", "128Mi")))
    await bench.delete("first")


async def an_init_container_is_resized_while_it_runs(bench: Bench) -> None:
    """T72: live, up and down again, before anything else of the pod has started."""
    small, large = block(("20m", "100m"), ("32Mi", "64Mi")), block(("40m", "200m"), ("48Mi", "96Mi"))
    spec: JsonObject = {
        "nodeName": NODE,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "initContainers": [{"name": "early", "image": "host", "command": SLEEP, "resources": small}],
        "containers": [{"name": "c1", "image": "host", "command": SLEEP, "resources": small}],
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "early", "namespace": "default"}, "spec": spec}
    await bench.client.create(PODS, document, "default")

    def runs(pod: JsonObject) -> bool:
        statuses = pod["status"].get("initContainerStatuses") or [{}]
        return "running" in statuses[0].get("state", {})

    pod = await bench.until("early", runs)
    pid = bench.pid(pod, "early")
    for size, quota, limit in ((large, "20000 100000", 96), (small, "10000 100000", 64)):
        pod = await bench.resize("early", {"initContainers": [{"name": "early", "resources": size}]})
        equal(bench.values(pod, "early")[0::2], (quota, str(limit * MI)))
        equal(bench.pid(pod, "early"), pid)
    await bench.delete("early")


async def memory_in_use_is_not_taken_away(bench: Bench) -> None:
    hold = {"name": "c1", "command": ["python3", "-c", "x = bytearray(60 << 20); import time; time.sleep(1000)"]}
    pod = await bench.run("holds", [hold], block(("10m", "500m"), ("16Mi", "256Mi")))
    pid = bench.pid(pod, "c1")
    deadline = time.monotonic() + 20
    while int((bench.place(pod) / "memory.current").read_text()) < 60 * MI:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await bench.resize("holds", {"resources": block(("10m", "500m"), ("16Mi", "32Mi"))}, settled=False)
    pod = await bench.until(
        "holds", lambda found: resize_conditions(found).get("PodResizeInProgress", {}).get("reason") == "Error"
    )
    conditions = resize_conditions(pod)
    assert "below current usage" in conditions["PodResizeInProgress"]["message"]
    assert "PodResizePending" not in conditions
    equal((bench.values(pod)[2], bench.pid(pod, "c1")), (str(256 * MI), pid))
    equal(pod["status"]["resources"]["limits"]["memory"], "256Mi")
    pod = await bench.resize("holds", {"resources": block(("10m", "500m"), ("16Mi", "200Mi"))})
    equal((bench.values(pod)[2], bench.pid(pod, "c1")), (str(200 * MI), pid))
    await bench.delete("holds")


async def more_than_is_free_waits_until_it_is(bench: Bench) -> None:
    total = bench.agent.node.allocatable["cpu"].milli
    half = f"{total * 6 // 10}m"
    await bench.run("big", [{"name": "c1", "resources": {"requests": {"cpu": half}}}])
    pod = await bench.run("small", [{"name": "c1", "resources": {"requests": {"cpu": "10m"}}}])
    await bench.resize(
        "small", {"containers": [{"name": "c1", "resources": {"requests": {"cpu": half}}}]}, settled=False
    )
    pod = await bench.until(
        "small", lambda found: resize_conditions(found).get("PodResizePending", {}).get("reason") == "Deferred"
    )
    assert "enough resource: cpu" in resize_conditions(pod)["PodResizePending"]["message"]
    await bench.delete("big")
    pod = await bench.until("small", lambda found: not resize_conditions(found))
    equal(pod["status"]["allocatedResources"]["cpu"], half)
    await bench.delete("small")


async def the_agent_may_die_before_any_write(bench: Bench) -> None:
    """Enumerated: every write of a resize is the last one of an agent that is killed with SIGKILL."""
    script = Path(__file__).with_name("dying.py")
    result = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await result.communicate()
    if result.returncode != 0:
        raise AssertionError(output.decode()[-3000:])


CASES: dict[str, Callable[[Bench], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        inherited_limits_are_set,
        cpu_is_throttled_at_the_limit_of_the_pod,
        memory_ends_at_the_limit_of_the_pod,
        resized_up_and_down_without_restart,
        pod_level_resize_restarts_only_by_policy_and_effect,
        writes_come_in_the_order_of_the_proposal,
        a_first_block_of_the_pod_is_taken_up,
        an_init_container_is_resized_while_it_runs,
        memory_in_use_is_not_taken_away,
        more_than_is_free_waits_until_it_is,
        the_agent_may_die_before_any_write,
    )
}


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

    def witness(kind: str, path: Path, content: str) -> None:
        if kind == "cgroup":
            writes.append(f"{path.parent.name}/{path.name} {content}")

    manager = Manager(Client(transport), name="node")
    agent = Agent(manager, NODE, directory, ProcessRuntime(directory / "runtime"), witness=witness, stop_pods=True)
    assert agent.limits, "there is no writable cgroup v2 here"
    async with manager.running():
        await agent.heartbeat.registered.wait()
        yield Bench(client, agent, writes)


async def main() -> None:
    directory = Path(os.environ.get("KERNEL_TEST_DIRECTORY", "/tmp/kernel-test"))
    async with bench(directory) as ready:
        for name, case in CASES.items():
            problem = ""
            try:
                async with asyncio.timeout(150):
                    await case(ready)
            except Exception as found:
                problem = f"{found}\n{''.join(traceback.format_tb(found.__traceback__)[-3:])}"
            print("\nCASE " + json.dumps({"name": name, "problem": problem}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
