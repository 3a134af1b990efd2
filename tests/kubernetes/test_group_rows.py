"""Rows of the end-to-end checklist against real Kubernetes, with simulated nodes; and gangs by Kubernetes itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from tests.groups import gangstories
from tests.groups.stories import STORIES, Stage
from tests.kubernetes.access import AccessLog, rights
from tests.kubernetes.controlplane import ControlPlane, control_plane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words, simulated_nodes
from tests.kubernetes.test_groups import running

from kohort.groups.native_gang import POD_GROUPS, WORKLOADS
from kohort.install.options import InstallOptions
from kohort.install.roles import gang_rules
from kohort.kube.client import Client
from kohort.manager.configuration import API_VERSION, KIND
from kohort.rules import group_labels

GATES = "GenericWorkload=true,GangScheduling=true"


@pytest.mark.parametrize("row", STORIES)
async def test_a_row_of_the_checklist(kubernetes: ControlPlane, row: str) -> None:
    namespace = f"row-{row.lower()}"
    async with running(kubernetes, namespace) as client:
        stage = Stage(client, namespace)
        await STORIES[row](stage)
        await stage.clear()


@pytest.mark.parametrize("row", gangstories.STORIES)
async def test_a_row_about_gangs_by_volcano(kubernetes: ControlPlane, tmp_path: Path, row: str) -> None:
    namespace = f"row-{row.lower()}"
    async with _with_gangs(kubernetes, namespace, "volcano", tmp_path) as client:
        await gangstories.install(client)
        stage = Stage(client, namespace)
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


async def test_groups_are_placed_as_a_whole_or_not_at_all(plane_with_gangs: ControlPlane, tmp_path: Path) -> None:
    """G1, G3, G5 with Kubernetes' own gangs: two nodes have room for four pods, so for one group of three."""
    async with _with_gangs(plane_with_gangs, "gangs", "kubernetes", tmp_path) as client:
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
            return not (await client.list(POD_GROUPS, "gangs", label_selector=group_labels.NAME)).items

        await stage.until(no_gangs)


@asynccontextmanager
async def _with_gangs(plane: ControlPlane, namespace: str, scheduler: str, directory: Path) -> AsyncIterator[Client]:
    """An operator that makes gangs, with exactly the rights that are installed for it, and two nodes with room for four
    large pods."""
    (port,) = free_ports(1)
    system = f"{namespace}-system"
    options = InstallOptions(namespace=system, replicas=0, rollouts=False, gang_scheduler=scheduler)
    settings = {"apiVersion": API_VERSION, "kind": KIND, "gangSchedulingManagement": {"schedulerProvider": scheduler}}
    (directory / "configuration.yaml").write_text(yaml.safe_dump(settings))
    words = (*service_words(port, system), "--no-rollouts", "--config", str(directory / "configuration.yaml"))
    capacity = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    async with (
        administrator(plane, namespace) as client,
        simulated_nodes(plane, 2, capacity=capacity),
        installed(plane, client, options, port) as kubeconfig,
    ):
        with operator(kubeconfig, directory / "operator.log", *words) as process:
            await process.says("controllers started")
            log = AccessLog(plane.audit_log, system)
            yield client
            assert log.refused() == []
            assert rights(gang_rules(scheduler)) <= log.used()
