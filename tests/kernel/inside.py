"""Runs on a pure cgroup v2 kernel: a cluster in one process whose node is this machine, and real processes as pods.

Prints one line of JSON for every case, or for each that is named: its name, and what went wrong, if anything. Started
by `test_kernel.py`, inside user-mode-linux or on the machine itself.
"""

import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.kernel.bench import MI, NODE, SLEEP, Bench, bench, block, equal, resize_conditions, status_of
from tests.kernel.groups import a_group_of_processes_is_resized_as_a_whole_or_not_at_all
from tests.kernel.killing import whole_agents_may_be_killed_at_any_write
from tests.kernel.ordering import writes_come_in_the_order_of_the_proposal

from kohort.kube.resources import PODS
from kohort.objects.json_types import JsonObject

RESTARTS = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
]
SPIN = ["sh", "-c", "while :; do :; done"]


async def inherited_limits_are_set(bench: Bench) -> None:
    pod = await bench.run("inherits", [{"name": "c1"}], block(("100m", "200m"), ("64Mi", "128Mi")))
    equal(bench.values(pod), ("20000 100000", "17", str(128 * MI)))
    equal(bench.values(pod, "c1"), ("20000 100000", "29", str(128 * MI)))
    equal(pod["status"]["resources"], block(("100m", "200m"), ("64Mi", "128Mi")))
    equal(status_of(pod, "c1").get("resources", {}), {})
    await bench.delete("inherits")


async def share_used(bench: Bench, pod: JsonObject, seconds: float) -> float:
    """Of a cpu, by all of a pod, which is throttled meanwhile."""

    def used() -> dict[str, int]:
        lines = (bench.place(pod) / "cpu.stat").read_text().splitlines()
        return {line.split()[0]: int(line.split()[1]) for line in lines}

    before, start = used(), time.monotonic()
    await asyncio.sleep(seconds)
    after, end = used(), time.monotonic()
    assert after["nr_throttled"] > before["nr_throttled"], "the kernel never throttled it"
    return (after["usage_usec"] - before["usage_usec"]) / 1e6 / (end - start)


async def cpu_is_throttled_at_the_limit_of_the_pod(bench: Bench) -> None:
    pod = await bench.run("spins", [{"name": "c1", "command": SPIN}], {"limits": {"cpu": "200m", "memory": "128Mi"}})
    share = await share_used(bench, pod, 3.0)
    assert 0.1 < share < 0.27, f"used {share:.3f} of a cpu, the limit is 0.2"
    await bench.delete("spins")


async def containers_together_are_throttled_as_the_pod_before_and_after_a_resize(bench: Bench) -> None:
    """Either may use all that the pod may, but not both of them."""
    spinning: list[JsonObject] = [{"name": name, "command": SPIN} for name in ("c1", "c2")]
    sizes = block(("20m", "200m"), ("16Mi", "128Mi"))
    pod = await bench.run("pair", spinning, sizes)
    equal([bench.values(pod, name)[0] for name in ("", "c1", "c2")], ["20000 100000"] * 3)
    share = await share_used(bench, pod, 3.0)
    assert 0.1 < share < 0.27, f"both used {share:.3f} of a cpu, the limit of the pod is 0.2"
    pod = await bench.resize("pair", {"resources": block(("20m", "400m"), ("16Mi", "128Mi"))})
    share = await share_used(bench, pod, 3.0)
    assert 0.27 < share < 0.5, f"both used {share:.3f} of a cpu, the new limit of the pod is 0.4"
    await bench.delete("pair")


async def containers_together_end_at_the_memory_of_the_pod(bench: Bench) -> None:
    """Each of them alone would fit."""
    eat = ["python3", "-c", "x = bytearray(70 << 20); import time; time.sleep(600)"]
    eating: list[JsonObject] = [{"name": name, "command": eat} for name in ("c1", "c2")]
    await bench.run("feast", eating, {"limits": {"cpu": "1", "memory": "112Mi"}})

    def restarted(pod: JsonObject) -> list[JsonObject]:
        return [each for each in pod["status"]["containerStatuses"] if each["restartCount"]]

    pod = await bench.until("feast", lambda found: bool(restarted(found)))
    ended = restarted(pod)[0]["lastState"]["terminated"]
    equal((ended["reason"], ended["exitCode"]), ("OOMKilled", 137))
    events = (bench.place(pod) / "memory.events.local").read_text().split()
    assert int(events[events.index("oom") + 1]) > 0, f"it was not the limit of the pod: {events}"
    await bench.delete("feast")


async def a_container_that_runs_out_of_memory_ends_as_a_whole_and_does_not_swap(bench: Bench) -> None:
    """The shell, which is the container's first process, uses no memory to speak of: only its child is too large."""
    eat = "python3 -c 'x = bytearray(300 << 20)'; echo survived; exec sleep 600"
    container = {"name": "c1", "command": ["sh", "-c", f"sleep 1; {eat}"]}
    pod = await bench.run("parent", [container], {"limits": {"cpu": "1", "memory": "64Mi"}})
    place = bench.place(pod) / "c1"
    equal((place / "memory.oom.group").read_text().strip(), "1")
    swap = place / "memory.swap.max"
    equal(swap.read_text().strip() if swap.exists() else "this kernel cannot swap", "0")
    pod = await bench.until("parent", lambda found: status_of(found, "c1")["restartCount"] > 0)
    ended = status_of(pod, "c1")["lastState"]["terminated"]
    equal((ended["reason"], ended["exitCode"]), ("OOMKilled", 137))
    await bench.delete("parent")


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
        (("200m", "400m"), ("96Mi", "192Mi"), ("40000 100000", "29"), ("60000 100000", "40")),
        (("50m", "100m"), ("32Mi", "64Mi"), ("10000 100000", "11"), ("30000 100000", "24")),
    ):
        changed = {"containers": [{"name": "c1", "resources": block(cpu, memory)}]}
        pod = await bench.resize("resized", changed)
        limit = int(memory[1].removesuffix("Mi"))
        equal(bench.values(pod, "c1"), (*c1, str(limit * MI)))
        equal(bench.values(pod), (*whole, str((limit + 128) * MI)))
        equal((bench.place(pod).parent / "cpu.weight").read_text().strip(), whole[1])
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
    await bench.resize("example", {"resources": block(("100m", "300m"), ("100Mi", "150Mi"))})
    pod = await bench.until("example", lambda found: status_of(found, "c1")["restartCount"] == 2)
    equal(bench.pid(pod, "c2"), first["c2"])
    equal([bench.values(pod, name)[2] for name in ("", "c1", "c2")], [str(each * MI) for each in (150, 150, 100)])
    await bench.delete("example")


async def memory_in_use_goes_with_the_container_that_is_restarted(bench: Bench) -> None:
    """Whoever cannot give memory back while it runs asks for a restart, and starts with less."""
    hold = ["python3", "-c", "import os, time; x = bytearray(int(os.environ['LIMIT']) << 19); time.sleep(1000)"]
    limit = [{"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}}]
    restarts: JsonObject = {"name": "c1", "command": hold, "env": limit, "resizePolicy": RESTARTS}
    sizes = block(("20m", "500m"), ("16Mi", "256Mi"))
    pod = await bench.run("holder", [{**restarts, "resources": sizes}, {"name": "c2", "resources": sizes}])
    stays = bench.pid(pod, "c2")
    await holding(bench, pod, 128)
    smaller = block(("20m", "500m"), ("16Mi", "48Mi"))
    lesser = {"containers": [{"name": name, "resources": smaller} for name in ("c1", "c2")]}
    await bench.resize("holder", lesser, settled=False)
    pod = await bench.until("holder", lambda found: status_of(found, "c1")["restartCount"] == 1)
    equal([bench.values(pod, name)[2] for name in ("", "c1", "c2")], [str(each * MI) for each in (96, 48, 48)])
    equal(bench.pid(pod, "c2"), stays)
    pod = await bench.until("holder", lambda found: not resize_conditions(found))
    equal(status_of(pod, "c1")["resources"], smaller)
    await holding(bench, pod, 24)
    await bench.delete("holder")


async def holding(bench: Bench, pod: JsonObject, mebibytes: int) -> None:
    """Wait until a pod has so much memory in use."""
    deadline = time.monotonic() + 60
    while int((bench.place(pod) / "memory.current").read_text()) < mebibytes * MI:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


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
    await holding(bench, pod, 60)
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
    total = bench.agent.state.machine.allocatable["cpu"].milli
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


CASES: dict[str, Callable[[Bench], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        inherited_limits_are_set,
        cpu_is_throttled_at_the_limit_of_the_pod,
        containers_together_are_throttled_as_the_pod_before_and_after_a_resize,
        containers_together_end_at_the_memory_of_the_pod,
        a_container_that_runs_out_of_memory_ends_as_a_whole_and_does_not_swap,
        memory_ends_at_the_limit_of_the_pod,
        resized_up_and_down_without_restart,
        pod_level_resize_restarts_only_by_policy_and_effect,
        memory_in_use_goes_with_the_container_that_is_restarted,
        writes_come_in_the_order_of_the_proposal,
        a_first_block_of_the_pod_is_taken_up,
        an_init_container_is_resized_while_it_runs,
        memory_in_use_is_not_taken_away,
        more_than_is_free_waits_until_it_is,
        a_group_of_processes_is_resized_as_a_whole_or_not_at_all,
        whole_agents_may_be_killed_at_any_write,
    )
}


async def main() -> None:
    directory = Path(os.environ.get("KERNEL_TEST_DIRECTORY", "/tmp/kernel-test"))
    async with bench(directory) as ready:
        for name in sys.argv[1:] or CASES:
            case, problem = CASES[name], ""
            try:
                async with asyncio.timeout(300):
                    await case(ready)
            except Exception as found:
                problem = f"{found}\n{''.join(traceback.format_tb(found.__traceback__)[-3:])}"
            print("\nCASE " + json.dumps({"name": name, "problem": problem}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
