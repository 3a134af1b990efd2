"""Simulated nodes in a cluster: what its other members get to see."""

import asyncio

import pytest
from tests.cluster.simulation.stage import PREFIX, cluster, condition, main_container, pod, ready, started, status
from tests.kube.model_server import ModelServer

from kohort.cluster.simulation.registration import register
from kohort.kube import errors
from kohort.kube.client import Client, PatchType
from kohort.kube.manager import Manager
from kohort.kube.resources import EVENTS, LEASES, NODES, PODS
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster
from kohort.testing.faults import Faults
from kohort.testing.request_matching import writes


async def test_nodes_register_with_capacity_labels_and_topology() -> None:
    options = {"nodes": 4, "capacity": {"cpu": "8", "nvidia.com/gpu": "0"}, "labels": {"pool": "a"}}
    async with cluster(**options, topology={"example.com/rack": 2}) as c:
        await c.until(lambda: sum("conditions" in node.get("status", {}) for node in c.objects(NODES)) == 4)
        nodes = c.objects(NODES)
        assert [node["metadata"]["name"] for node in nodes] == ["sim-0", "sim-1", "sim-2", "sim-3"]
        assert [node["metadata"]["labels"]["example.com/rack"] for node in nodes] == [
            "rack-0",
            "rack-0",
            "rack-1",
            "rack-1",
        ]
        labels = nodes[1]["metadata"]["labels"]
        assert labels.items() >= {"pool": "a", "kubernetes.io/hostname": "sim-1", "kubernetes.io/os": "linux"}.items()
        found = nodes[1]["status"]
        assert found["allocatable"] == {"cpu": "8", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "250"}
        assert condition(found, "Ready")["status"] == "True"
        assert {condition(found, f"{each}Pressure")["status"] for each in ("Memory", "Disk", "PID")} == {"False"}
        assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 4


async def test_nodes_register_as_long_as_it_takes() -> None:
    server, faults = ModelServer(), Faults()
    manager = Manager(Client(faults.wrap(InProcessTransport(server.handle))))
    registered = register(manager, nodes=2)
    for problem in (errors.Unreachable("refused"), errors.failure(500, "InternalError", "not yet")):
        faults.refuse(problem, on=writes(NODES, method="POST"), times=2)
    async with manager.running():
        await registered()
    assert len([one for one in faults.writes if writes(NODES, method="POST")(one)]) == 2 + 4


async def restarted(cluster: Cluster, **options: Json) -> JsonObject:
    """The first node after a start with other options."""
    manager = Manager(Client(cluster.transport()))
    registered = register(manager, **options)
    async with manager.running():
        await registered()
    return cluster.objects(NODES)[0]


async def test_a_later_start_changes_what_is_ordered_otherwise_and_nothing_else() -> None:
    first: JsonObject = {"nodes": 2, "capacity": {"cpu": "8"}, "labels": {"pool": "a", "disk": "fast"}}
    async with cluster(**first) as c:
        await c.until(lambda: sum("addresses" in node.get("status", {}) for node in c.objects(NODES)) == 2)
        await c.parts["simulation"].stop()
        by_hand = {"metadata": {"labels": {"disk": "slow", "mine": "yes"}}}
        await c.client.patch(NODES, "sim-0", "", by_hand)
        same = await restarted(c, **first)
        assert same["metadata"]["labels"].items() >= {"pool": "a", "disk": "slow", "mine": "yes"}.items()
        other = await restarted(c, nodes=2, capacity={"nvidia.com/gpu": "0", "memory": "1Ti"}, labels={"pool": "b"})
        assert other["metadata"]["labels"].items() >= {"pool": "b", "mine": "yes"}.items()
        assert "disk" not in other["metadata"]["labels"]
        for amounts in (other["status"]["capacity"], other["status"]["allocatable"]):
            assert amounts == {"cpu": "32", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "250"}


async def test_a_start_does_not_wait_for_a_node_that_is_to_be_silent() -> None:
    async with cluster() as c:
        await ordered(c, "sim-1", lost="true")
        manager = Manager(Client(c.transport()))
        registered = register(manager, nodes=2)
        async with manager.running(), asyncio.timeout(60):
            await registered()


async def test_a_pod_runs_like_on_a_real_node() -> None:
    async with cluster() as c:
        await started(c, pod())
        found = status(c)
        assert (found["phase"], found["qosClass"]) == ("Running", "Burstable")
        assert found["podIP"] == found["podIPs"][0]["ip"]
        assert found["hostIP"] == found["hostIPs"][0]["ip"]
        for type in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
            assert condition(found, type)["status"] == "True"
            assert condition(found, type)["observedGeneration"] == 1
        container = main_container(c)
        assert list(container["state"]) == ["running"]
        assert container["allocatedResources"] == {"cpu": "1", "memory": "1Gi"}
        assert container["resources"] == {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"cpu": "2", "memory": "1Gi"},
        }
        assert found["allocatedResources"] == {"cpu": "1", "memory": "1Gi"}


async def test_every_pod_has_an_address_of_its_own() -> None:
    async with cluster() as c:
        for number in range(12):
            await started(c, pod(f"p{number}", f"sim-{number % 2}"))
        assert len({item["status"]["podIP"] for item in c.objects(PODS)}) == 12


async def test_the_way_to_ready_can_be_watched() -> None:
    async with cluster() as c:
        await c.client.create(PODS, pod(start_latency="5s", ready_latency="3s"))
        await c.until(lambda: "containerStatuses" in status(c))
        assert (status(c)["phase"], main_container(c)["state"]) == (
            "Pending",
            {"waiting": {"reason": "ContainerCreating"}},
        )
        await c.until(lambda: status(c)["phase"] == "Running")
        assert condition(status(c), "Ready").items() >= {
            "status": "False",
            "reason": "ContainersNotReady",
            "message": "containers with unready status: [main]",
        }.items()  # fmt: skip
        await c.until(lambda: ready(c))
        assert "reason" not in condition(status(c), "Ready")


async def test_the_time_of_a_condition_moves_only_with_its_status() -> None:
    """minReadySeconds is counted from it."""
    async with cluster() as c:
        await started(c, pod())
        before = condition(status(c), "Ready")["lastTransitionTime"]
        await c.client.patch(PODS, "p", "default", {"metadata": {"annotations": {PREFIX + "crash": "now"}}})
        await c.until(lambda: main_container(c)["restartCount"] == 1)
        assert condition(status(c), "Ready")["lastTransitionTime"] == before


async def test_a_crash_is_visible_as_a_restart() -> None:
    async with cluster() as c:
        await started(c, pod(crashes="1", exit_after="5s", exit_code="137"))
        first = main_container(c)["containerID"]
        await c.until(lambda: main_container(c)["restartCount"] == 1)
        container = main_container(c)
        ended = {"exitCode": 137, "reason": "Error", "containerID": first}
        assert container["lastState"]["terminated"].items() >= ended.items()
        assert container["containerID"] != first
        assert container["ready"]


async def test_an_image_that_a_node_cannot_pull_keeps_pods_from_starting_until_they_have_another() -> None:
    async with cluster() as c:
        await c.until(lambda: len(c.objects(NODES)) == 2)
        await c.client.patch(
            NODES, "sim-0", "", {"metadata": {"annotations": {PREFIX + "missing-images": "web:bad, test/*"}}}
        )
        for name, image in (("p", "web:bad"), ("q", "test/other:1"), ("r", "web:good")):
            subject = pod(name)
            subject["spec"]["containers"][0]["image"] = image
            await c.client.create(PODS, subject)
        await c.until(lambda: ready(c, "r") and bool(status(c, "p")) and bool(status(c, "q")))
        for name in ("p", "q"):
            assert main_container(c, name)["state"]["waiting"]["reason"] == "ImagePullBackOff"
        other = {"spec": {"containers": [{"name": "main", "image": "web:good"}]}}
        await c.client.patch(PODS, "p", "default", other, PatchType.STRATEGIC)
        await c.until(lambda: ready(c))


async def test_a_crash_loop_waits_in_back_off() -> None:
    async with cluster() as c:
        await c.client.create(PODS, pod(exit_code="1"))
        await c.until(lambda: main_container_state(c) == "waiting")
        container = main_container(c)
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert (container["ready"], status(c)["phase"]) == (False, "Running")


def main_container_state(cluster: Cluster) -> str:
    statuses = status(cluster).get("containerStatuses")
    return next(iter(statuses[0]["state"])) if statuses else ""


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
async def test_a_pod_that_runs_to_its_end(code: str, phase: str) -> None:
    async with cluster() as c:
        job = pod(exit_after="10s", exit_code=code)
        job["spec"]["restartPolicy"] = "Never"
        await started(c, job)
        await c.until(lambda: status(c)["phase"] == phase)
        assert main_container(c)["state"]["terminated"]["exitCode"] == int(code)
        assert condition(status(c), "Ready")["status"] == "False"


async def test_a_node_refuses_a_pod() -> None:
    async with cluster() as c:
        await c.client.create(PODS, pod(fail="OutOfcpu: not today"))
        await c.until(lambda: status(c).get("phase") == "Failed")
        assert (status(c)["reason"], status(c)["message"]) == ("OutOfcpu", "not today")
        await c.client.delete(PODS, "p", "default")
        await c.until(lambda: c.find(PODS, "p", "default") is None)


async def test_deletion_takes_its_time_and_ends_with_the_pod() -> None:
    async with cluster() as c:
        await started(c, pod(termination_latency="7s"))
        await c.client.delete(PODS, "p", "default")
        await c.until(lambda: not ready(c))
        assert c.find(PODS, "p", "default") is not None
        await c.until(lambda: c.find(PODS, "p", "default") is None)


async def test_a_pod_of_the_same_name_is_another_pod() -> None:
    async with cluster() as c:
        await started(c, pod())
        first = main_container(c)["containerID"]
        await c.client.delete(PODS, "p", "default")
        await c.until(lambda: c.find(PODS, "p", "default") is None)
        await started(c, pod())
        assert main_container(c)["containerID"] != first


async def test_a_restarted_simulation_continues_where_it_was() -> None:
    async with cluster() as c:
        await started(c, pod(crashes="1", exit_after="1s"))
        await c.until(lambda: main_container(c)["restartCount"] == 1)
        before = c.find(PODS, "p", "default")
        await c.parts["simulation"].restart()
        await started(c, pod("later"))
        assert c.find(PODS, "p", "default") == before
        assert len({item["status"]["podIP"] for item in c.objects(PODS)}) == 2


async def test_readiness_gates_of_others_are_respected() -> None:
    async with cluster() as c:
        gated = pod()
        gated["spec"]["readinessGates"] = [{"conditionType": "example.com/open"}]
        await c.client.create(PODS, gated)
        await c.until(lambda: condition(status(c), "ContainersReady").get("status") == "True")
        assert condition(status(c), "Ready")["reason"] == "ReadinessGatesNotReady"
        gate = {"type": "example.com/open", "status": "True"}
        conditions = [*status(c)["conditions"], gate]
        await c.client.patch(PODS, "p", "default", {"status": {"conditions": conditions}}, subresource="status")
        await c.until(lambda: ready(c))


async def ordered(c: Cluster, node: str, **behavior: str | None) -> None:
    annotations = {PREFIX + key.replace("_", "-"): value for key, value in behavior.items()}
    await c.client.patch(NODES, node, "", {"metadata": {"annotations": annotations}})


def renewed(c: Cluster, node: str) -> str:
    lease = c.find(LEASES, node, "kube-node-lease")
    return str(lease["spec"]["renewTime"]) if lease is not None else ""


async def test_a_lost_node_falls_silent_with_all_its_pods_and_comes_back() -> None:
    async with cluster() as c:
        await started(c, pod())
        await ordered(c, "sim-0", lost="true")
        await c.client.delete(PODS, "p", "default")
        await asyncio.sleep(20)
        silent = renewed(c, "sim-0")
        await asyncio.sleep(120)
        assert renewed(c, "sim-0") == silent
        assert renewed(c, "sim-1") > silent
        assert c.find(PODS, "p", "default") is not None
        await ordered(c, "sim-0", lost=None)
        await c.until(lambda: c.find(PODS, "p", "default") is None)
        await c.until(lambda: renewed(c, "sim-0") > silent)


async def test_pods_are_ready_again_when_a_lost_node_comes_back() -> None:
    """The node lifecycle controller marked them while the node was silent."""
    async with Cluster(parts=("workloads",), nodes=1) as c:
        await started(c, pod())

        def ready() -> bool:
            found = c.find(PODS, "p", "default")
            return found is not None and condition(found["status"], "Ready")["status"] == "True"

        await c.until(ready)
        await ordered(c, "sim-0", lost="true")
        await c.until(lambda: not ready())
        await ordered(c, "sim-0", lost=None)
        await c.until(ready, 120)
        await c.settle(quiet=60)


async def test_a_node_can_say_that_it_is_not_ready() -> None:
    async with cluster() as c:

        def ready_condition() -> JsonObject:
            return condition(c.objects(NODES)[0]["status"], "Ready") if c.objects(NODES) else {}

        await c.until(lambda: ready_condition().get("status") == "True")
        await ordered(c, "sim-0", not_ready="out of coffee")
        await c.until(lambda: ready_condition()["status"] == "False")
        assert ready_condition()["message"] == "out of coffee"
        await ordered(c, "sim-0", not_ready=None)
        await c.until(lambda: ready_condition()["status"] == "True")


async def test_a_user_can_add_a_node() -> None:
    async with cluster(nodes=0) as c:
        metadata = {"name": "mine", "labels": {PREFIX + "node": "true"}, "annotations": {PREFIX + "capacity": "cpu=3"}}
        await c.client.create(NODES, {"metadata": metadata})
        await started(c, pod(node="mine"))
        assert c.objects(NODES)[0]["status"]["allocatable"]["cpu"] == "3"


async def test_pods_of_other_nodes_are_not_touched() -> None:
    async with cluster() as c:
        await c.client.create(NODES, {"metadata": {"name": "real"}})
        await c.client.create(PODS, pod(node="real"))
        await started(c, pod("other"))
        assert status(c).get("containerStatuses") is None


async def test_an_order_that_cannot_be_understood_is_told_by_an_event() -> None:
    async with cluster() as c:
        await started(c, pod(start_latency="soon"))
        await c.until(lambda: any(event["reason"] == "BadSimulationOrder" for event in c.objects(EVENTS)))


async def test_bad_orders_on_a_node_are_told_at_the_node_and_once() -> None:
    async with cluster() as c:
        await started(c, pod())
        await ordered(c, "sim-0", lots="true", capacity="cpu=many")
        await c.settle()
        told = [event for event in c.objects(EVENTS) if event["reason"] == "BadSimulationOrder"]
        assert {(event["involvedObject"]["kind"], event["message"], event["count"]) for event in told} == {
            ("Node", "annotation simulation.kohort.dev/lots: is not known", 1),
            (
                "Node",
                "annotation simulation.kohort.dev/capacity: 'cpu=many' is not a resource and its amount, "
                "such as cpu=8 or memory=64Gi",
                1,
            ),
        }


async def added(cluster: Cluster, name: str = "debugger") -> JsonObject:
    """The status of a container that was added to the running pod."""
    container = {"name": name, "image": "busybox"}
    patch = {"spec": {"ephemeralContainers": [container]}}
    await cluster.client.patch(PODS, "p", "default", patch, PatchType.STRATEGIC, "ephemeralcontainers")
    await cluster.until(lambda: bool(status(cluster).get("ephemeralContainerStatuses")))
    return ephemeral(cluster)


def ephemeral(cluster: Cluster) -> JsonObject:
    container: JsonObject = status(cluster)["ephemeralContainerStatuses"][-1]
    return container


async def test_a_container_that_is_added_to_a_running_pod_runs() -> None:
    async with cluster() as c:
        await started(c, pod())
        found = await added(c)
        assert (found["name"], found["ready"], list(found["state"])) == ("debugger", False, ["running"])
        assert ready(c)
        await c.parts["simulation"].restart()
        await c.settle()
        assert ephemeral(c) == found


async def test_what_was_added_ends_with_the_pod() -> None:
    async with cluster() as c:
        subject = pod(exit_after="100s")
        subject["spec"]["restartPolicy"] = "Never"
        await started(c, subject)
        await added(c)
        await c.until(lambda: status(c)["phase"] == "Succeeded")
        assert list(ephemeral(c)["state"]) == ["terminated"]


@pytest.mark.parametrize(
    ("capacity", "reason"),
    [({"cpu": "2"}, "OutOfcpu"), ({"memory": "2Gi"}, "OutOfmemory"), ({"pods": "2"}, "OutOfpods")],
)
async def test_a_pod_that_names_a_node_without_room_is_rejected_until_another_ends(
    capacity: dict[str, str], reason: str
) -> None:
    async with cluster(capacity=capacity) as c:
        await c.until(lambda: all(node.get("status", {}).get("allocatable") for node in c.objects(NODES)))
        for name in ("a", "b"):
            await started(c, pod(name))
        await c.client.create(PODS, pod("c"))
        await c.until(lambda: status(c, "c").get("phase") == "Failed")
        assert status(c, "c")["reason"] == reason
        assert status(c, "c")["message"].startswith("Node didn't have enough resource: ")
        await c.until(lambda: any(each["reason"] == reason for each in c.objects(EVENTS, "default")))
        assert ready(c, "a") and ready(c, "b")
        await c.client.delete(PODS, "a", "default", grace_seconds=0)
        await started(c, pod("d"))


async def test_a_new_process_counts_the_pods_that_an_earlier_one_has_admitted() -> None:
    async with cluster(capacity={"cpu": "2"}) as c:
        await c.until(lambda: all(node.get("status", {}).get("allocatable") for node in c.objects(NODES)))
        for name in ("a", "b"):
            await started(c, pod(name))
        await c.parts["simulation"].restart()
        await c.client.create(PODS, pod("c"))
        await c.until(lambda: status(c, "c").get("phase") == "Failed")
        assert status(c, "c")["reason"] == "OutOfcpu" and ready(c, "a")
