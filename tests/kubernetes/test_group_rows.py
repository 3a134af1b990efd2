"""Rows of the end-to-end checklist against real Kubernetes, with simulated nodes; and gangs by Kubernetes itself."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.groups import gangstories
from tests.groups.stories import STORIES, Stage
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tests.kubernetes.test_groups import running

from kohort.cluster.simulation.registration import register as register_nodes
from kohort.groups import wire
from kohort.groups.native import POD_GROUPS, WORKLOADS
from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.manager import Manager
from kohort.kube.resources import NAMESPACES
from kohort.operator import register as register_operator

GATES = "GenericWorkload=true,GangScheduling=true"


@pytest.mark.parametrize("row", STORIES)
async def test_a_row_of_the_checklist(kubernetes: ControlPlane, row: str) -> None:
    namespace = f"row-{row.lower()}"
    async with running(kubernetes, namespace) as client:
        stage = Stage(client, namespace)
        await STORIES[row](stage)
        await stage.clear()


@pytest.mark.parametrize("row", gangstories.STORIES)
async def test_a_row_about_gangs_by_volcano(kubernetes: ControlPlane, row: str) -> None:
    async with AsyncExitStack() as stack:
        client = await _cluster(stack, kubernetes, f"row-{row.lower()}", "volcano")
        await gangstories.install(client)
        stage = Stage(client, f"row-{row.lower()}")
        await gangstories.STORIES[row](stage)
        await stage.clear()


@pytest.fixture
def plane_with_gangs(binaries: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """With the alpha API that the rest of the tests must do without."""
    flags = {
        "kube-apiserver": [f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true"],
        "kube-controller-manager": [f"--feature-gates={GATES}"],
        "kube-scheduler": [f"--feature-gates={GATES}"],
    }
    components = ("kube-controller-manager", "kube-scheduler")
    with control_plane(binaries, tmp_path / "plane", *components, flags=flags) as found:
        yield found


async def test_groups_are_placed_as_a_whole_or_not_at_all(plane_with_gangs: ControlPlane) -> None:
    """G1, G3, G5 with Kubernetes' own gangs: two nodes have room for four pods, so for one group of three."""
    async with AsyncExitStack() as stack:
        client = await _cluster(stack, plane_with_gangs, "gangs", "kubernetes")
        stage = Stage(client, "gangs")
        container = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
        await stage.create(stage.new().replicas(2).size(3).but(container, {"requests": {"cpu": "1"}}))

        async def one_group_runs() -> bool:
            pods = await stage.pods()
            ready = [name for name, one in pods.items() if one["status"].get("phase") == "Running"]
            return len(pods) == 6 and len(ready) == 3 and len({name[:5] for name in ready}) == 1

        await stage.until(one_group_runs)
        await asyncio.sleep(2)
        assert await one_group_runs(), "the room for a fourth pod stays free"
        pods = await stage.pods()
        groups = {one["metadata"]["name"]: one for one in (await client.list(POD_GROUPS, "gangs")).items}
        assert {one["spec"]["schedulingGroup"]["podGroupName"] for one in pods.values()} == groups.keys()
        assert {one["spec"]["schedulingPolicy"]["gang"]["minCount"] for one in groups.values()} == {3}
        (workload,) = (await client.list(WORKLOADS, "gangs")).items
        assert workload["spec"]["controllerRef"]["name"] == "llm"

        await stage.edit({"spec": {"replicas": 1}})
        await stage.settled(1)
        before = {one["metadata"]["uid"] for one in (await stage.pods()).values()}
        await stage.roll("2")
        found = await stage.settled(1, lambda: stage.all_have("2"))
        assert not before & {one["metadata"]["uid"] for one in (await stage.pods()).values()}
        names = {one["metadata"]["name"] for one in (await client.list(POD_GROUPS, "gangs")).items}
        assert f"llm-0-{found['status']['updateRevision']}" in names
        await stage.clear()

        async def no_gangs() -> bool:
            return not (await client.list(POD_GROUPS, "gangs", label_selector=wire.NAME)).items

        await stage.until(no_gangs)


async def _cluster(stack: AsyncExitStack, plane: ControlPlane, namespace: str, gang_scheduler: str) -> Client:
    """An operator that makes gangs, and two nodes with room for four large pods."""
    capacity = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    for name, register in (
        ("operator", lambda manager: register_operator(manager, gang_scheduler=gang_scheduler, rollouts=False)),
        ("nodes", lambda manager: register_nodes(manager, nodes=2, capacity=capacity)),
    ):
        client = Client(load(plane.kubeconfig), user_agent=f"kohort-{name}")
        stack.push_async_callback(client.close)
        manager = Manager(client, name=name)
        register(manager)
        await stack.enter_async_context(manager.running())
    client = Client(load(plane.kubeconfig), field_manager="test")
    stack.push_async_callback(client.close)
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    return client
