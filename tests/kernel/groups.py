"""A group of real processes that is resized as a whole, or not at all: a cluster with the operator, on this machine."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.kernel.bench import MI, Bench, block, equal, process_agent

from kohort.kube.client import Client
from kohort.kube.manager import Manager
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS
from kohort.node.agent import NodeOptions
from kohort.node.cgroups import MOUNT, node_cgroups
from kohort.node.checkpoint import unobserved
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity
from kohort.testing import Cluster

PARENT = MOUNT / "grouped"
NAMESPACE = "default"
NAME = "procs"
SMALL, LARGE = block(("20m", "100m"), ("16Mi", "32Mi")), block(("40m", "200m"), ("24Mi", "48Mi"))


def template(resources: JsonObject) -> JsonObject:
    container = {"name": "main", "image": "host", "command": ["sleep", "100000"], "resources": resources}
    return {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
    }


class Group:
    """One group of three processes, and what a user does with it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self) -> None:
        strategy = {
            "type": "RollingUpdate",
            "resourceUpdatePolicy": "InPlaceOnly",
            "resourceUpdateDeadlineSeconds": 3,
        }
        spec = {
            "replicas": 1,
            "rolloutStrategy": strategy,
            "leaderWorkerTemplate": {"size": 3, "workerTemplate": {"spec": template(SMALL)}},
        }
        await self.client.create(LEADER_WORKER_SETS, {"metadata": {"name": NAME}, "spec": spec}, NAMESPACE)
        await self.until(lambda found: (found.get("status") or {}).get("readyReplicas") == 1)

    async def edit(self, resources: JsonObject) -> None:
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": template(resources)}}}}
        await self.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)

    async def until(self, holds: Callable[[JsonObject], bool], seconds: float = 60.0) -> JsonObject:
        deadline = time.monotonic() + seconds
        while True:
            found = await self.client.get(LEADER_WORKER_SETS, NAME, NAMESPACE)
            if holds(found):
                return dict(found)
            assert time.monotonic() < deadline, f"not in {seconds} s: {found.get('status')}"
            await asyncio.sleep(0.02)

    async def ended(self, reason: str) -> JsonObject:
        """Wait until the resize of the newest template has ended in this way."""

        def holds(found: JsonObject) -> bool:
            condition = condition_of(found)
            current = condition.get("observedGeneration") == found["metadata"]["generation"]
            return current and condition.get("reason") == reason

        return await self.until(holds)

    async def pods(self) -> dict[str, JsonObject]:
        page = await self.client.list(PODS, NAMESPACE)
        found = {one["metadata"]["name"]: one for one in page.items}
        return {name: pod for name, pod in sorted(found.items()) if name.startswith(NAME)}

    async def too_much_for_all(self) -> JsonObject:
        """Resources that the node has for one of the pods, but not for all of them."""
        page = await self.client.list(NODES)
        most = max(Quantity.parse(node["status"]["allocatable"]["cpu"]).milli for node in page.items)
        return block((f"{most * 6 // 10}m", f"{most}m"), ("16Mi", "32Mi"))


def condition_of(found: JsonObject) -> JsonObject:
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "ResizeInProgress"), {})


def identities(pods: dict[str, JsonObject]) -> list[tuple[str, str, int]]:
    """What changes when a pod is recreated or its container is restarted."""
    statuses = {name: pod["status"]["containerStatuses"][0] for name, pod in pods.items()}
    return [
        (pod["metadata"]["uid"], statuses[name]["containerID"], statuses[name]["restartCount"])
        for name, pod in pods.items()
    ]


def resources_of(pods: dict[str, JsonObject]) -> list[JsonObject]:
    """What the containers have, as their node says."""
    return [pod["status"]["containerStatuses"][0]["resources"] for pod in pods.values()]


async def resized_as_a_whole_or_not_at_all(group: Group, check: Callable[[dict[str, JsonObject], bool], None]) -> None:
    """`check` gets the pods, and whether they should be large."""
    await group.create()
    first = await group.pods()
    equal(len(first), 3)
    check(first, False)

    await group.edit(LARGE)
    await group.ended("Completed")
    pods = await group.pods()
    equal(identities(pods), identities(first))
    equal(resources_of(pods), [LARGE] * 3)
    check(pods, True)

    # One pod gets what it asks for, its node has no room for the others: all of them get their resources back.
    await group.edit(await group.too_much_for_all())
    stopped = await group.ended("DeadlineExceeded")
    assert "enough resource: cpu" in condition_of(stopped)["message"], stopped["status"]
    pods = await group.pods()
    equal(identities(pods), identities(first))
    equal(resources_of(pods), [LARGE] * 3)
    check(pods, True)

    # No node could ever hold one of them: nothing is touched.
    generations = [pod["metadata"]["generation"] for pod in pods.values()]
    await group.edit(block(("10000", "10000"), ("16Mi", "32Mi")))
    await group.ended("Infeasible")
    pods = await group.pods()
    equal([pod["metadata"]["generation"] for pod in pods.values()], generations)
    check(pods, True)

    await group.edit(SMALL)
    await group.ended("Completed")
    pods = await group.pods()
    equal(identities(pods), identities(first))
    check(pods, False)


async def a_group_of_processes_is_resized_as_a_whole_or_not_at_all(bench: Bench) -> None:
    """On a cluster of its own, beside that of the other cases."""
    del bench
    directory = Path(tempfile.mkdtemp(prefix="grouped-"))
    cgroups = node_cgroups(PARENT, unobserved)
    assert cgroups is not None

    def node(manager: Manager) -> None:
        process_agent(manager, NodeOptions("grouped", directory, stop_pods=True), cgroups, unobserved)

    def check(pods: dict[str, JsonObject], large: bool) -> None:
        quota, memory = ("20000 100000", 48) if large else ("10000 100000", 32)
        places = cgroups.pods()
        for name, pod in pods.items():
            for place in (places[pod["metadata"]["uid"]], places[pod["metadata"]["uid"]] / "main"):
                found = [(place / file).read_text().strip() for file in ("cpu.max", "memory.max")]
                equal((name, place.name, found), (name, place.name, [quota, str(memory * MI)]))

    async with Cluster(parts=("workloads", "scheduler", "operator"), extra={"node": node}) as cluster:
        await resized_as_a_whole_or_not_at_all(Group(cluster.client), check)
        await cluster.client.delete(LEADER_WORKER_SETS, NAME, NAMESPACE)
        await cluster.until(lambda: not cluster.objects(PODS, NAMESPACE), 60)
