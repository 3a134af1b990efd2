"""Resizes on simulated nodes: judged, allocated and carried out as on a real one, or as ordered."""

import asyncio

import pytest
from tests.cluster.simulation.stage import PREFIX, cluster, condition, main_container, pod, started, status

from kohort.cluster.simulation.registration import register
from kohort.kube.client import PatchType
from kohort.kube.manager import Manager
from kohort.kube.resources import EVENTS, NODES, PODS, PRIORITY_CLASSES
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster


async def resized(c: Cluster, cpu: str, memory: str = "1Gi", name: str = "p") -> None:
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "64", "memory": memory}}
    body = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    await c.client.patch(PODS, name, "default", body, PatchType.STRATEGIC, "resize")


def pending(c: Cluster, name: str = "p") -> JsonObject:
    return condition(status(c, name), "PodResizePending")


def in_progress(c: Cluster) -> JsonObject:
    return condition(status(c), "PodResizeInProgress")


def actual_cpu(c: Cluster, name: str = "p") -> str:
    return str(main_container(c, name)["resources"]["requests"]["cpu"])


def generation(c: Cluster) -> int:
    found = c.find(PODS, "p", "default")
    assert found is not None
    return int(found["metadata"]["generation"])


async def test_a_resize_is_allocated_then_applied() -> None:
    async with cluster() as c:
        await started(c, pod(resize_latency="5s"))
        await resized(c, "3")
        await c.until(lambda: bool(in_progress(c)))
        assert in_progress(c)["observedGeneration"] == generation(c)
        assert main_container(c)["allocatedResources"]["cpu"] == "3"
        assert actual_cpu(c) == "1"
        await c.until(lambda: actual_cpu(c) == "3")
        assert not in_progress(c)
        assert status(c)["resources"]["requests"]["cpu"] == "3"
        assert main_container(c)["restartCount"] == 0


async def test_progress_is_reported_however_short_it_is() -> None:
    async with cluster() as c:
        await started(c, pod())
        watch = c.server.store.watch("pods", c.server.store.revision)
        await resized(c, "3")
        await c.until(lambda: actual_cpu(c) == "3")
        changes = await anext(watch)
        seen = [bool(condition(change.after.decode()["status"], "PodResizeInProgress")) for change in changes]
        assert seen == [False, True, False]


async def test_a_container_that_asked_for_it_is_restarted_by_a_resize() -> None:
    async with cluster() as c:
        subject = pod()
        subject["spec"]["containers"][0]["resizePolicy"] = [
            {"resourceName": "memory", "restartPolicy": "RestartContainer"}
        ]
        await started(c, subject)
        await resized(c, "2")
        await c.until(lambda: actual_cpu(c) == "2")
        assert main_container(c)["restartCount"] == 0
        await resized(c, "2", "2Gi")
        await c.until(lambda: main_container(c)["resources"]["requests"]["memory"] == "2Gi")
        assert main_container(c)["restartCount"] == 1


@pytest.mark.parametrize(("order", "reason"), [("deferred", "Deferred"), ("infeasible", "Infeasible")])
async def test_a_resize_can_be_refused_and_granted_later(order: str, reason: str) -> None:
    async with cluster() as c:
        await started(c, pod(resize=order, resize_message="not now"))
        await resized(c, "3")
        await c.until(lambda: bool(pending(c)))
        assert pending(c).items() >= {"reason": reason, "message": "not now", "observedGeneration": 2}.items()
        assert main_container(c)["allocatedResources"]["cpu"] == "1"
        assert status(c)["observedGeneration"] == 2
        await c.client.patch(PODS, "p", "default", {"metadata": {"annotations": {PREFIX + "resize": None}}})
        await c.until(lambda: actual_cpu(c) == "3")
        assert not pending(c)


async def test_a_reverted_resize_is_no_longer_pending() -> None:
    async with cluster() as c:
        await started(c, pod(resize="deferred"))
        await resized(c, "3")
        await c.until(lambda: bool(pending(c)))
        resources = pod()["spec"]["containers"][0]["resources"]
        body = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        await c.client.patch(PODS, "p", "default", body, PatchType.STRATEGIC, "resize")
        await c.until(lambda: not pending(c))


async def test_a_failing_resize_says_so_until_it_succeeds() -> None:
    async with cluster() as c:
        await started(c, pod(resize="error", resize_message="cgroup is stubborn"))
        await resized(c, "3")
        await c.until(lambda: in_progress(c).get("reason") == "Error")
        assert in_progress(c)["message"] == "cgroup is stubborn"
        assert (main_container(c)["allocatedResources"]["cpu"], actual_cpu(c)) == ("3", "1")
        await c.client.patch(PODS, "p", "default", {"metadata": {"annotations": {PREFIX + "resize": None}}})
        await c.until(lambda: actual_cpu(c) == "3" and not in_progress(c))


async def test_a_resize_waits_for_room_and_takes_it() -> None:
    async with cluster(capacity={"cpu": "4"}) as c:
        await started(c, pod("neighbour"))
        await started(c, pod())
        await resized(c, "3500m")
        await c.until(lambda: bool(pending(c)))
        assert pending(c).items() >= {
            "reason": "Deferred",
            "message": "Node didn't have enough resource: cpu, requested: 3500, used: 1000, capacity: 4000",
        }.items()  # fmt: skip
        await c.client.delete(PODS, "neighbour", "default")
        await c.until(lambda: actual_cpu(c) == "3500m")


async def test_a_shrink_is_accepted_while_neighbours_wait() -> None:
    async with cluster(capacity={"cpu": "4"}) as c:
        for name in ("a", "b", "p"):
            await started(c, pod(name))
        await resized(c, "3500m", name="a")
        await resized(c, "3500m", name="b")
        await c.until(lambda: bool(pending(c, "a") and pending(c, "b")))
        await resized(c, "500m")
        await c.until(lambda: actual_cpu(c) == "500m")
        assert not pending(c)


async def test_pods_that_wait_do_not_block_each_other_and_the_higher_priority_goes_first() -> None:
    async with cluster(capacity={"cpu": "4"}) as c:
        await c.client.create(PRIORITY_CLASSES, {"metadata": {"name": "important"}, "value": 1000})
        important = pod("important")
        important["spec"]["priorityClassName"] = "important"
        for subject in (pod("early"), important, pod()):
            await started(c, subject)
        await resized(c, "2500m", name="early")
        await c.until(lambda: bool(pending(c, "early")))
        await asyncio.sleep(10.0)
        await resized(c, "2500m", name="important")
        await c.until(lambda: bool(pending(c, "important")))
        await c.client.delete(PODS, "p", "default")
        await c.until(lambda: actual_cpu(c, "important") == "2500m")
        assert pending(c, "early")["reason"] == "Deferred"
        await resized(c, "1500m", name="important")
        await c.until(lambda: actual_cpu(c, "early") == "2500m")


async def test_a_smaller_growth_is_accepted_while_a_larger_one_waits() -> None:
    async with cluster(capacity={"cpu": "4"}) as c:
        for name in ("large", "p"):
            await started(c, pod(name))
        await resized(c, "3500m", name="large")
        await c.until(lambda: bool(pending(c, "large")))
        await resized(c, "2")
        await c.until(lambda: actual_cpu(c) == "2")


async def test_room_that_a_finished_pod_leaves_is_given_at_once() -> None:
    async with cluster(capacity={"cpu": "4"}) as c:
        finishing = pod("finishing", exit_after="30s")
        finishing["spec"]["restartPolicy"] = "Never"
        await started(c, finishing)
        await started(c, pod())
        await resized(c, "3500m")
        await c.until(lambda: bool(pending(c)))
        await c.until(lambda: status(c, "finishing")["phase"] == "Succeeded")
        ended = asyncio.get_running_loop().time()
        await c.until(lambda: actual_cpu(c) == "3500m")
        assert asyncio.get_running_loop().time() - ended < 1.0


async def test_the_story_of_a_resize_is_told_by_events() -> None:
    async with cluster() as c:
        await started(c, pod())
        await resized(c, "3")
        await c.until(lambda: actual_cpu(c) == "3")
        await c.until(lambda: {event["reason"] for event in c.objects(EVENTS)} >= {"ResizeStarted", "ResizeCompleted"})


async def set_allocatable(c: Cluster, cpu: str) -> None:
    await c.client.patch(NODES, "sim-0", "", {"status": {"allocatable": {"cpu": cpu}}}, subresource="status")


@pytest.mark.parametrize(("shrunk", "reason"), [("4", "Deferred"), ("3", "Infeasible")])
async def test_room_that_a_node_gets_is_given_at_once(shrunk: str, reason: str) -> None:
    async with cluster(capacity={"cpu": "4"}) as c:
        await started(c, pod("neighbour"))
        await started(c, pod())
        await resized(c, "3500m")
        await c.until(lambda: pending(c).get("reason") == "Deferred")
        await set_allocatable(c, shrunk)
        await c.until(lambda: pending(c).get("reason") == reason)
        await asyncio.sleep(1.5)
        grown = asyncio.get_running_loop().time()
        await set_allocatable(c, "8")
        await c.until(lambda: actual_cpu(c) == "3500m")
        assert asyncio.get_running_loop().time() - grown < 1.0


@pytest.mark.parametrize(("order", "passes"), [("accept", 3), ("infeasible", 0)])
async def test_what_waits_is_decided_every_three_minutes_and_what_is_infeasible_is_not(order: str, passes: int) -> None:
    managers: list[Manager] = []

    def plug(manager: Manager) -> None:
        managers.append(manager)
        register(manager, nodes=1, capacity={"cpu": "4"})

    async with Cluster(extra={"simulation": plug}) as c:
        await started(c, pod("neighbour"))
        await started(c, pod(resize=order))
        await resized(c, "3500m")
        await c.until(lambda: bool(pending(c)))
        await asyncio.sleep(10.0)
        before = reconciles(managers[0])
        await asyncio.sleep(540.0)
        assert reconciles(managers[0]) - before == passes


def reconciles(manager: Manager) -> float:
    name = "controller_runtime_reconcile_total"
    return sum(
        sample.value
        for family in manager.metrics.registry.collect()
        for sample in family.samples
        if sample.name == name and sample.labels["controller"] == "simulated-pods"
    )
