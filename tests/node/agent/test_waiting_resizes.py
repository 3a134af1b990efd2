"""Resizes that wait for one another (rows B of the checklist)."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tests.node.agent.node_bench import Bench, container, node

from kohort.kube.resources import PODS, PRIORITY_CLASSES
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity


async def run(
    bench: Bench, name: str, sizes: Mapping[str, str], *, guaranteed: bool = False, priority: str = ""
) -> None:
    resources = {"requests": dict(sizes), **({"limits": dict(sizes)} if guaranteed else {})}
    more: JsonObject = {"priorityClassName": priority} if priority else {}
    await bench.create(name, containers=[container("c", resources=resources)], terminationGracePeriodSeconds=1, **more)
    await bench.until(lambda: bench.phase(name) == "Running")


async def ask(bench: Bench, name: str, sizes: Mapping[str, str], *, guaranteed: bool = False) -> None:
    resources = {"requests": dict(sizes), **({"limits": dict(sizes)} if guaranteed else {})}
    await bench.resize({"containers": [{"name": "c", "resources": resources}]}, name)


def waits(bench: Bench, name: str) -> bool:
    return bench.conditions(name).get("PodResizePending", {}).get("reason") == "Deferred"


def has(bench: Bench, name: str, **sizes: str) -> bool:
    return bool(sizes.items() <= bench.status(name=name).get("allocatedResources", {}).items())


def accepted_late(bench: Bench, trigger: str) -> float:
    return float(bench.agent.metrics.deferred_accepted.labels(trigger)._value.get())


async def test_b3_h20_z11_room_that_a_pod_leaves_is_given_away_and_counted_by_why(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await run(bench, "a", {"cpu": "500m"})
        await run(bench, "b", {"cpu": "100m"})
        await ask(bench, "b", {"cpu": "200m"})
        await bench.until(lambda: has(bench, "b", cpu="200m"))
        triggers = ("pod_updated", "pods_removed", "pod_terminated", "pod_resized", "periodic_retry", "node_changed")
        assert sum(accepted_late(bench, each) for each in triggers) == 0, "it never had to wait"
        await ask(bench, "b", {"cpu": "800m"})
        await bench.until(lambda: waits(bench, "b"))
        await bench.cluster.client.delete(PODS, "a", "default")
        await bench.until(lambda: has(bench, "b", cpu="800m"))
        counted = {each: accepted_late(bench, each) for each in triggers}
        assert sum(counted.values()) == 1 and counted["pods_removed"] + counted["pod_terminated"] == 1


async def test_z11_a_growth_wakes_no_waiting_resize_and_a_shrink_does(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        for name, size in (("a", "300m"), ("b", "300m"), ("c", "100m")):
            await run(bench, name, {"cpu": size})
        await ask(bench, "b", {"cpu": "700m"})
        await bench.until(lambda: waits(bench, "b"))
        await ask(bench, "c", {"cpu": "200m"})
        await bench.until(lambda: has(bench, "c", cpu="200m"))
        assert waits(bench, "b")
        await ask(bench, "a", {"cpu": "100m"})
        await bench.until(lambda: has(bench, "b", cpu="700m"))
        assert accepted_late(bench, "pod_updated") == 1, "what a gives back counts from the moment that it is accepted"


async def test_b5_room_that_another_resize_frees_is_given_away(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await run(bench, "a", {"cpu": "500m"})
        await run(bench, "b", {"cpu": "300m"})
        await ask(bench, "b", {"cpu": "600m"})
        await bench.until(lambda: waits(bench, "b"))
        await ask(bench, "a", {"cpu": "200m"})
        await bench.until(lambda: has(bench, "b", cpu="600m"))
        assert not waits(bench, "b")


async def test_b6_who_comes_first(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        document = {"metadata": {"name": "high"}, "value": 1000}
        await bench.cluster.client.create(PRIORITY_CLASSES, document)
        await run(bench, "holder", {"cpu": "600m"})
        await run(bench, "oldest", {"cpu": "10m"})
        await run(bench, "newer", {"cpu": "10m"})
        await run(bench, "safe", {"cpu": "10m", "memory": "10Mi"}, guaranteed=True)
        await run(bench, "high", {"cpu": "10m"}, priority="high")
        for name in ("oldest", "newer", "safe", "high"):
            await ask(
                bench,
                name,
                {"cpu": "660m", "memory": "10Mi"} if name == "safe" else {"cpu": "660m"},
                guaranteed=name == "safe",
            )
            await bench.until(lambda name=name: waits(bench, name))  # type: ignore[misc]
            await asyncio.sleep(2)
        order = []
        for holder in ("holder", "high", "safe", "oldest"):
            await bench.cluster.client.delete(PODS, holder, "default")
            left = [each for each in ("oldest", "newer", "safe", "high") if each not in order]
            await bench.until(lambda left=left: any(has(bench, each, cpu="660m") for each in left))  # type: ignore[misc]
            order += [each for each in left if has(bench, each, cpu="660m")]
        assert order == ["high", "safe", "oldest", "newer"]


async def test_b7_one_deletion_sets_a_chain_free(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1", memory=str(1124 << 20)) as bench:  # of which 1Gi for pods
        await run(bench, "p1", {"cpu": "300m", "memory": "10Mi"})
        await run(bench, "p2", {"cpu": "300m", "memory": "800Mi"})
        await run(bench, "p3", {"cpu": "300m", "memory": "100Mi"})
        await run(bench, "p4", {"cpu": "100m", "memory": "10Mi"})
        for name, cpu, memory in (("p2", "500m", "300Mi"), ("p3", "100m", "500Mi"), ("p4", "350m", "10Mi")):
            await ask(bench, name, {"cpu": cpu, "memory": memory})
            await bench.until(lambda name=name: waits(bench, name))  # type: ignore[misc]
            await asyncio.sleep(2)
        await bench.cluster.client.delete(PODS, "p1", "default")
        await bench.until(lambda: has(bench, "p2", cpu="500m") and has(bench, "p3", memory="500Mi"))
        await bench.until(lambda: has(bench, "p4", cpu="350m"))


async def test_room_that_no_trigger_reports_is_given_away_three_minutes_after_the_last_pass(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await run(bench, "a", {"cpu": "500m"})
        await run(bench, "b", {"cpu": "100m"})
        await ask(bench, "b", {"cpu": "800m"})
        await bench.until(lambda: waits(bench, "b"))
        now = asyncio.get_running_loop().time
        await asyncio.sleep(100)
        bench.agent.resizes.decide("pods_removed")
        last_pass = now()
        await asyncio.sleep(0.5)  # the pod is synced once more, for the time in its condition
        bench.agent.state.machine.allocatable["cpu"] = Quantity.parse("2")
        await bench.until(lambda: has(bench, "b", cpu="800m"))
        assert 180 <= now() - last_pass < 181
        assert accepted_late(bench, "periodic_retry") == 1
