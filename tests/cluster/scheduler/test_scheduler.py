"""The scheduler at work: embedded API server, virtual time, faults."""

import asyncio
from collections import Counter

import pytest
from tests.cluster.scheduler.scenery import affinity, amounts, near, node_document, pod_document

from kohort.cluster.scheduler.registration import register
from kohort.cluster.scheduler.scheduler import Scheduler, SchedulerSettings
from kohort.kube import errors
from kohort.kube.client import PatchType
from kohort.kube.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster
from kohort.testing.crashes import crash_at_every_write
from kohort.testing.request_matching import writes

ONE = ("scheduler",)


async def add_node(cluster: Cluster, name: str, allocatable: str = "cpu=1,memory=1Gi", **more: object) -> None:
    document = node_document(name, allocatable, **more)  # type: ignore[arg-type]
    await cluster.client.create(NODES, document)
    # A new node is tainted until somebody has seen it ready; that somebody is not part of this cluster.
    await cluster.client.patch(NODES, name, "", {"spec": {"taints": document["spec"]["taints"]}})
    await cluster.client.patch(NODES, name, "", {"status": document["status"]}, subresource="status")


async def add_pod(cluster: Cluster, name: str, requests: str = "", **more: object) -> None:
    await cluster.client.create(PODS, pod_document(name, requests, **more))  # type: ignore[arg-type]


def pod(cluster: Cluster, name: str) -> JsonObject:
    found = cluster.find(PODS, name, "default")
    assert found is not None
    return found


def node_of(cluster: Cluster, name: str) -> str:
    return str(pod(cluster, name)["spec"].get("nodeName", ""))


def condition(cluster: Cluster, name: str, type: str = "PodScheduled") -> JsonObject:
    conditions: list[JsonObject] = pod(cluster, name).get("status", {}).get("conditions", [])
    return next((entry for entry in conditions if entry["type"] == type), {})


def waits(cluster: Cluster, name: str) -> bool:
    return condition(cluster, name).get("status") == "False"


def happened(cluster: Cluster, name: str) -> list[tuple[str, str]]:
    return [
        (event["reason"], event["message"])
        for event in cluster.objects(EVENTS)
        if event["involvedObject"]["name"] == name
    ]


async def test_a_pod_gets_a_node_and_an_event_says_so() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        await add_pod(cluster, "p", "cpu=1")
        await cluster.until(lambda: node_of(cluster, "p") == "n1")
        assert condition(cluster, "p")["status"] == "True"
        await cluster.until(lambda: happened(cluster, "p") == [("Scheduled", "Successfully assigned default/p to n1")])


async def test_events_have_the_form_of_kube_scheduler() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        await add_pod(cluster, "p", "cpu=1")
        await cluster.until(lambda: bool(happened(cluster, "p")))
        (event,) = cluster.objects(EVENTS)
        assert (event["action"], event["reportingComponent"]) == ("Binding", "default-scheduler")
        assert event["reportingInstance"].startswith("default-scheduler-")
        assert event["eventTime"]
        assert not event.get("count")


async def test_the_condition_of_a_victim_comes_last() -> None:
    async with Cluster(parts=ONE) as cluster:
        await cluster.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await add_node(cluster, "n1")
        await add_pod(cluster, "low", "cpu=800m", terminationGracePeriodSeconds=30)
        await cluster.until(lambda: node_of(cluster, "low") == "n1")
        await add_pod(cluster, "high", "cpu=500m", priorityClassName="high", priority=1000)
        await cluster.until(lambda: bool(condition(cluster, "low", "DisruptionTarget")))
        found = pod(cluster, "low")["status"]["conditions"]
        assert [one["type"] for one in found] == ["PodScheduled", "DisruptionTarget"]
        await asyncio.sleep(10)
        (preempted,) = [one for one in cluster.objects(EVENTS) if one["reason"] == "Preempted"]
        assert (preempted["action"], preempted["related"]["name"]) == ("Preempting", "high")
        assert "series" not in preempted, "it is evicted once"


async def test_a_pod_that_does_not_fit_says_why_once_and_is_placed_when_it_can_be() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        await add_pod(cluster, "p", "cpu=2")
        await cluster.until(lambda: waits(cluster, "p"))
        said = condition(cluster, "p")
        assert (said["reason"], said["observedGeneration"]) == ("Unschedulable", 1)
        assert said["message"].startswith("0/1 nodes are available: 1 Insufficient cpu. ")
        version = pod(cluster, "p")["metadata"]["resourceVersion"]
        await add_node(cluster, "n2", "cpu=500m,memory=1Gi")
        await asyncio.sleep(700)
        assert (
            pod(cluster, "p")["metadata"]["resourceVersion"] == version or "0/2" in condition(cluster, "p")["message"]
        )
        await add_node(cluster, "n3", "cpu=2,memory=1Gi")
        await cluster.until(lambda: node_of(cluster, "p") == "n3")


async def test_an_identical_condition_is_not_written_again() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        await add_pod(cluster, "p", "cpu=2")
        await cluster.until(lambda: waits(cluster, "p"))
        version = pod(cluster, "p")["metadata"]["resourceVersion"]
        await asyncio.sleep(1200)
        assert pod(cluster, "p")["metadata"]["resourceVersion"] == version


async def test_gates_hold_a_pod_back_and_other_schedulers_keep_theirs() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        await add_pod(cluster, "gated", schedulingGates=[{"name": "example.com/wait"}])
        await add_pod(cluster, "foreign", schedulerName="somebody-else")
        await asyncio.sleep(60)
        assert (node_of(cluster, "gated"), node_of(cluster, "foreign")) == ("", "")
        await cluster.client.patch(PODS, "gated", "default", {"spec": {"schedulingGates": []}})
        await cluster.until(lambda: node_of(cluster, "gated") == "n1")


async def test_a_more_important_pod_displaces_a_lesser_one() -> None:
    async with Cluster(parts=ONE) as cluster:
        await cluster.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await add_node(cluster, "n1")
        await add_pod(cluster, "low", "cpu=800m", terminationGracePeriodSeconds=0)
        await cluster.until(lambda: node_of(cluster, "low") == "n1")
        await add_pod(cluster, "high", "cpu=500m", priorityClassName="high", priority=1000)
        await cluster.until(lambda: node_of(cluster, "high") == "n1")
        assert cluster.find(PODS, "low", "default") is None
        uid = pod(cluster, "high")["metadata"]["uid"]
        await cluster.until(lambda: ("Preempted", f"Preempted by pod {uid} on node n1") in happened(cluster, "low"))


async def test_while_a_victim_takes_its_time_the_place_is_promised() -> None:
    async with Cluster(parts=ONE) as cluster:
        await cluster.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await add_node(cluster, "n1")
        await add_pod(cluster, "low", "cpu=800m", terminationGracePeriodSeconds=30)
        await cluster.until(lambda: node_of(cluster, "low") == "n1")
        await add_pod(cluster, "high", "cpu=500m", priorityClassName="high", priority=1000)
        await cluster.until(lambda: pod(cluster, "high")["status"].get("nominatedNodeName") == "n1")
        assert condition(cluster, "low", "DisruptionTarget")["reason"] == "PreemptionByScheduler"
        assert "deletionTimestamp" in pod(cluster, "low")["metadata"]
        await add_pod(cluster, "sneaky", "cpu=300m")
        await cluster.until(lambda: waits(cluster, "sneaky"))
        await cluster.client.delete(PODS, "low", "default", grace_seconds=0)
        await cluster.until(lambda: node_of(cluster, "high") == "n1")
        await cluster.until(lambda: node_of(cluster, "sneaky") == "n1")


async def test_affinity_to_a_pod_that_comes_later_is_met_when_it_comes() -> None:
    async with Cluster(parts=ONE) as cluster:
        for name in ("n1", "n2"):
            await add_node(cluster, name)
        await add_pod(cluster, "follower", affinity=affinity(near({"app": "leader"})))
        await cluster.until(lambda: waits(cluster, "follower"))
        await add_pod(cluster, "leader", labels={"app": "leader"}, nodeSelector={"kubernetes.io/hostname": "n2"})
        await cluster.until(lambda: node_of(cluster, "follower") == "n2")


async def test_a_resize_counts_until_the_node_has_carried_it_out() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        await add_pod(cluster, "shrinking", "cpu=100m")
        await cluster.until(lambda: node_of(cluster, "shrinking") == "n1")
        await tell(cluster, "shrinking", actual="cpu=800m")
        await add_pod(cluster, "p", "cpu=500m")
        await cluster.until(lambda: waits(cluster, "p"))
        await tell(cluster, "shrinking", actual="cpu=100m")
        await cluster.until(lambda: node_of(cluster, "p") == "n1")


async def tell(cluster: Cluster, name: str, actual: str, pending: str = "") -> None:
    """What a node would report about a pod's resources."""
    status = {
        "name": "c",
        "image": "i",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "allocatedResources": amounts(actual),
        "resources": {"requests": amounts(actual)},
    }
    body: JsonObject = {"status": {"phase": "Running", "containerStatuses": [status]}}
    if pending:
        reason = {"type": "PodResizePending", "status": "True", "reason": pending}
        body["status"]["conditions"] = [reason | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]
    await cluster.client.patch(PODS, name, "default", body, PatchType.STRATEGIC, "status")


async def test_deferred_growth_reserves_room_only_as_long_as_it_is_told_to() -> None:
    def impatient(manager: object) -> None:
        register(manager, SchedulerSettings(deferred_growth_seconds=60.0))  # type: ignore[arg-type]

    for parts, extra, expected in ((ONE, {}, ""), ((), {"scheduler": impatient}, "n1")):
        async with Cluster(parts=parts, extra=extra) as cluster:
            await add_node(cluster, "n1")
            await add_pod(cluster, "growing", "cpu=900m")
            await cluster.until(lambda: node_of(cluster, "growing") == "n1")
            await tell(cluster, "growing", actual="cpu=200m", pending="Deferred")
            await asyncio.sleep(5)
            await add_pod(cluster, "p", "cpu=500m")
            await asyncio.sleep(600)
            assert node_of(cluster, "p") == expected


async def test_choosing_a_node_binds_a_claim_that_waited_for_it() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        await cluster.client.create(
            STORAGE_CLASSES,
            {
                "metadata": {"name": "late"},
                "provisioner": "example.com/p",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        claim: JsonObject = {
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, claim)
        await add_pod(cluster, "p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])

        def selected() -> bool:
            found = cluster.find(PERSISTENT_VOLUME_CLAIMS, "data", "default")
            assert found is not None
            annotations: JsonObject = found["metadata"].get("annotations", {})
            return annotations.get("volume.kubernetes.io/selected-node") == "n1"

        await cluster.until(selected)
        await asyncio.sleep(10)
        assert node_of(cluster, "p") == ""
        bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}}
        volume = {
            "metadata": {"name": "v"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "hostPath": {"path": "/tmp"},
            },
        }
        await cluster.client.create(PERSISTENT_VOLUMES, volume)
        await cluster.client.patch(PERSISTENT_VOLUME_CLAIMS, "data", "default", bound)
        await cluster.until(lambda: node_of(cluster, "p") == "n1")


async def test_a_refused_binding_is_tried_again_after_a_pause() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        cluster.faults("scheduler").refuse(errors.internal("disk full"), on=writes(PODS), times=2)
        await add_pod(cluster, "p", "cpu=1")
        await cluster.until(lambda: node_of(cluster, "p") == "n1")


async def test_a_binding_whose_answer_is_lost_fills_its_place_only_once() -> None:
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1")
        faults = cluster.faults("scheduler")
        faults.lose_answer(on=writes(PODS), times=1)
        faults.delay_events(5.0)
        await add_pod(cluster, "a", "cpu=1")
        await add_pod(cluster, "b", "cpu=1")
        await asyncio.sleep(120)
        assert sorted([node_of(cluster, "a"), node_of(cluster, "b")]) == ["", "n1"]


def booked(cluster: Cluster) -> Counter[str]:
    """Thousandths of a core asked for on each node; every pod here asks for 400."""
    return Counter(
        {
            node: 400 * count
            for node, count in Counter(entry["spec"].get("nodeName", "") for entry in cluster.objects(PODS)).items()
        }
    )


@pytest.mark.parametrize("seed", range(3))
async def test_through_any_trouble_no_node_is_filled_beyond_its_size(seed: int) -> None:
    async with Cluster(parts=ONE) as cluster:
        cluster.faults("scheduler").chaos(0.1, seed=seed)
        for name in ("n1", "n2", "n3"):
            await add_node(cluster, name)
        for number in range(8):
            await add_pod(cluster, f"p{number}", "cpu=400m")
        await asyncio.sleep(900)
        assert booked(cluster) == {"n1": 800, "n2": 800, "n3": 800, "": 800}


def test_a_scheduler_that_dies_at_any_write_leaves_nothing_undone() -> None:
    async def story(cluster: Cluster) -> None:
        await add_node(cluster, "n1")
        for number in range(3):
            await add_pod(cluster, f"p{number}", "cpu=400m")
        await cluster.settle()
        assert booked(cluster) == {"n1": 800, "": 400}
        left = next(entry["metadata"]["name"] for entry in cluster.objects(PODS) if "nodeName" not in entry["spec"])
        assert waits(cluster, left)

    assert crash_at_every_write(lambda: Cluster(parts=ONE), "scheduler", story) >= 6


async def test_a_binding_does_not_wait_behind_the_reports_of_pods_that_no_node_takes() -> None:
    """Counted in writes: what has a slot, and one turn, is all that other pods may have before it."""
    slots = SchedulerSettings().concurrent_writes
    async with Cluster(parts=ONE) as cluster:
        await add_node(cluster, "n1", "cpu=4,memory=1Gi")
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        faults = cluster.faults("scheduler")
        faults.slow_down(1.0, on=writes(PODS))
        before = faults.write_count
        for number in range(5 * slots):
            await add_pod(cluster, f"p{number}", "cpu=100")
        document = pod_document("q", "cpu=1")
        document["metadata"]["namespace"] = "other"
        await cluster.client.create(PODS, document)
        await cluster.until(lambda: waits(cluster, f"p{5 * slots - 1}"))
        bound = writes(PODS, subresource="binding")
        order = [bound(request) for request in faults.writes_since(before) if writes(PODS)(request)]
        assert order.index(True) <= slots + 1


async def test_a_pod_that_leaves_wakes_no_pod_that_would_not_fit_there() -> None:
    schedulers: list[Scheduler] = []

    def attempts() -> int:
        waiting = (schedulers[0].queue.get(found["metadata"]["uid"]) for found in cluster.objects(PODS))
        return sum(entry.attempts for entry in waiting if entry is not None)

    async with Cluster(extra={"scheduler": lambda manager: schedulers.append(register(manager))}) as cluster:
        await add_node(cluster, "n1", "cpu=4,memory=1Gi")
        await add_pod(cluster, "small", "cpu=1")
        await cluster.until(lambda: node_of(cluster, "small") == "n1")
        for number in range(50):
            await add_pod(cluster, f"p{number}", "cpu=100")
        await cluster.until(lambda: all(waits(cluster, f"p{number}") for number in range(50)))
        before = attempts()
        await cluster.client.delete(PODS, "small", "default", grace_seconds=0)
        await asyncio.sleep(30)
        assert attempts() == before == 50
