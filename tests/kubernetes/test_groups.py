"""Groups on real Kubernetes: its API server, StatefulSet controller, garbage collector and scheduler; our operator with
its webhooks; simulated nodes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.builders import lws
from tests.kubernetes.controlplane import ControlPlane

from kohort.cluster.simulation.registration import register as register_nodes
from kohort.kube.client import Client
from kohort.kube.errors import Forbidden, NotFound
from kohort.kube.kubeconfig import load
from kohort.kube.manager import Manager
from kohort.kube.resources import LEADER_WORKER_SETS, NAMESPACES, PODS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.operator import register as register_operator
from kohort.rules import group_labels

PATIENCE = 60.0


@asynccontextmanager
async def running(kubernetes: ControlPlane, namespace: str) -> AsyncIterator[Client]:
    """The operator and eight simulated nodes at work on the cluster, and a namespace for the test."""
    async with AsyncExitStack() as stack:
        for name, register in (("operator", register_operator), ("nodes", _nodes)):
            client = Client(load(kubernetes.kubeconfig), user_agent=f"kohort-{name}")
            stack.push_async_callback(client.close)
            manager = Manager(client, name=name)
            register(manager)
            await stack.enter_async_context(manager.running())
        client = Client(load(kubernetes.kubeconfig), field_manager="test")
        stack.push_async_callback(client.close)
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield client


def _nodes(manager: Manager) -> None:
    register_nodes(manager, nodes=8)


async def settled(
    client: Client, namespace: str, groups: int, when: Callable[[JsonObject], bool] = bool, *, name: str = "llm"
) -> JsonObject:
    """Wait until all groups are ready, updated and observed."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await client.get(LEADER_WORKER_SETS, name, namespace)
            status = found.get("status") or {}
            counters = [status.get(field, 0) for field in ("replicas", "readyReplicas", "updatedReplicas")]
            observed = status.get("observedGeneration") == found["metadata"]["generation"]
            if counters == [groups] * 3 and observed and when(found):
                return found
            await asyncio.sleep(0.1)


async def pods(client: Client, namespace: str) -> dict[str, JsonObject]:
    page = await client.list(PODS, namespace)
    return {one["metadata"]["name"]: one for one in page.items}


async def test_groups_come_up_roll_and_go(kubernetes: ControlPlane) -> None:
    async with running(kubernetes, "story") as client:
        await client.create(LEADER_WORKER_SETS, lws("llm", "story").replicas(2).size(3), "story")
        first = await settled(client, "story", 2)
        found = await pods(client, "story")
        assert sorted(found) == ["llm-0", "llm-0-1", "llm-0-2", "llm-1", "llm-1-1", "llm-1-2"]
        variables = {one["name"]: one["value"] for one in found["llm-1-2"]["spec"]["containers"][0]["env"]}
        assert variables["LWS_LEADER_ADDRESS"] == "llm-1.llm.story"

        container = {"name": "main", "image": "new:2"}
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}}
        await client.patch(LEADER_WORKER_SETS, "llm", "story", body)
        old = first["status"]["updateRevision"]
        await settled(client, "story", 2, lambda one: one["status"]["updateRevision"] != old)
        after = await pods(client, "story")
        assert {one["spec"]["containers"][0]["image"] for one in after.values()} == {"new:2"}
        assert len({one["metadata"]["labels"][group_labels.REVISION] for one in after.values()}) == 1

        await client.delete(LEADER_WORKER_SETS, "llm", "story", propagation="Foreground")
        async with asyncio.timeout(PATIENCE):
            while (await client.list(PODS, "story")).items or (await client.list(STATEFUL_SETS, "story")).items:
                await asyncio.sleep(0.2)


async def test_a_lost_worker_recreates_its_group(kubernetes: ControlPlane) -> None:
    async with running(kubernetes, "restart") as client:
        await client.create(LEADER_WORKER_SETS, lws("llm", "restart").replicas(2).size(2), "restart")
        await settled(client, "restart", 2)
        before = {name: one["metadata"]["uid"] for name, one in (await pods(client, "restart")).items()}
        await client.delete(PODS, "llm-0-1", "restart")
        async with asyncio.timeout(PATIENCE):
            while await _uid(client, "llm-0") in (None, before["llm-0"]):
                await asyncio.sleep(0.1)
        await settled(client, "restart", 2)
        after = {name: one["metadata"]["uid"] for name, one in (await pods(client, "restart")).items()}
        assert {name for name in before if before[name] != after[name]} == {"llm-0", "llm-0-1"}


async def test_admission_speaks_on_the_real_server(kubernetes: ControlPlane) -> None:
    async with running(kubernetes, "refused") as client:
        await client.create(LEADER_WORKER_SETS, lws("llm", "refused").replicas(1).size(2), "refused")
        try:
            await client.patch(LEADER_WORKER_SETS, "llm", "refused", {"spec": {"leaderWorkerTemplate": {"size": 3}}})
        except Forbidden as refusal:
            assert "spec.leaderWorkerTemplate.resizePolicy" in refusal.message
        else:
            raise AssertionError("the size changed although the policy forbids it")
        bad = lws("bad", "refused").size(2).but("spec.leaderWorkerTemplate.workerTemplate.spec.restartPolicy", "Never")
        field = r"spec\.leaderWorkerTemplate\.workerTemplate\.spec\.restartPolicy: Unsupported value"
        with pytest.raises(Forbidden, match=field) as told:
            await client.create(LEADER_WORKER_SETS, bad, "refused")
        assert told.value.status.details is not None
        assert [cause.reason for cause in told.value.status.details.causes] == ["FieldValueNotSupported"]


async def _uid(client: Client, name: str) -> str | None:
    try:
        found = await client.get(PODS, name, "restart")
    except NotFound:
        return None
    uid: str = found["metadata"]["uid"]
    return uid
