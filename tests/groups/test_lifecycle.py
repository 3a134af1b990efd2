"""Groups on a whole cluster in this process, on virtual time: what a user sees from creation to the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.builders import lws
from tests.installed import installed

from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, PODS, SERVICES, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

NAMESPACE = "default"


@asynccontextmanager
async def groups_cluster() -> AsyncIterator[Cluster]:
    async with Cluster(
        parts=("workloads", "scheduler", "operator"), nodes=8, contents=installed("workloads")
    ) as cluster:
        yield cluster


async def create(cluster: Cluster, subject: JsonObject) -> None:
    await cluster.client.create(LEADER_WORKER_SETS, subject, NAMESPACE)


async def patch(cluster: Cluster, name: str, body: JsonObject) -> None:
    await cluster.client.patch(LEADER_WORKER_SETS, name, NAMESPACE, body)


def status(cluster: Cluster, name: str = "llm") -> JsonObject:
    found = cluster.find(LEADER_WORKER_SETS, name, NAMESPACE)
    assert found is not None
    return {**(found.get("status") or {}), "generation": found["metadata"]["generation"]}


def settled(cluster: Cluster, groups: int, name: str = "llm") -> bool:
    found = status(cluster, name)
    counters = [found.get(key, 0) for key in ("replicas", "readyReplicas", "updatedReplicas")]
    return counters == [groups] * 3 and found["observedGeneration"] == found["generation"]


def conditions(cluster: Cluster) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status(cluster).get("conditions", [])}


def pods(cluster: Cluster) -> dict[str, JsonObject]:
    return {one["metadata"]["name"]: one for one in cluster.objects(PODS, NAMESPACE)}


def images(cluster: Cluster) -> set[str]:
    return {one["spec"]["containers"][0]["image"] for one in pods(cluster).values()}


async def test_groups_come_up_with_their_identity() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(3))
        await cluster.until(lambda: settled(cluster, 2))
        assert sorted(pods(cluster)) == ["llm-0", "llm-0-1", "llm-0-2", "llm-1", "llm-1-1", "llm-1-2"]
        worker = pods(cluster)["llm-1-2"]
        variables = {one["name"]: one["value"] for one in worker["spec"]["containers"][0]["env"]}
        assert variables["LWS_LEADER_ADDRESS"] == "llm-1.llm.default"
        assert variables["LWS_GROUP_SIZE"] == "3"
        assert variables["LWS_WORKER_INDEX"] == "2"
        assert worker["metadata"]["labels"][group_labels.GROUP_INDEX] == "1"
        assert conditions(cluster)["Available"] == "True"
        service = cluster.find(SERVICES, "llm", NAMESPACE)
        assert service is not None
        assert service["spec"]["publishNotReadyAddresses"] is True


async def test_a_roll_replaces_groups_one_by_one_and_never_mixes_revisions() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(3).size(2))
        await cluster.until(lambda: settled(cluster, 3))
        before = status(cluster)["updateRevision"]
        await patch(cluster, "llm", _image("new:2"))
        await cluster.until(lambda: settled(cluster, 3) and images(cluster) == {"new:2"})
        assert status(cluster)["updateRevision"] != before
        assert status(cluster)["stableRevision"] == status(cluster)["updateRevision"]
        for index in range(3):
            members = [one for name, one in pods(cluster).items() if name.startswith(f"llm-{index}")]
            assert len({one["metadata"]["labels"][group_labels.REVISION] for one in members}) == 1
        assert len(cluster.objects(CONTROLLER_REVISIONS, NAMESPACE)) >= 2


async def test_a_rollback_returns_to_the_key_that_the_template_had() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(1).size(2))
        await cluster.until(lambda: settled(cluster, 1))
        first, image = status(cluster)["updateRevision"], images(cluster).pop()
        await patch(cluster, "llm", _image("new:2"))
        await cluster.until(lambda: settled(cluster, 1) and images(cluster) == {"new:2"})
        await patch(cluster, "llm", _image(image))
        await cluster.until(lambda: settled(cluster, 1) and images(cluster) == {image})
        assert status(cluster)["updateRevision"] == first


async def test_scaling_to_zero_and_back() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await patch(cluster, "llm", {"spec": {"replicas": 0}})
        await cluster.until(lambda: settled(cluster, 0) and not pods(cluster))
        assert conditions(cluster)["Available"] == "True"
        assert [one["metadata"]["name"] for one in cluster.objects(STATEFUL_SETS, NAMESPACE)] == ["llm"]
        await patch(cluster, "llm", {"spec": {"replicas": 1}})
        await cluster.until(lambda: settled(cluster, 1))


async def test_a_lost_worker_recreates_its_group_and_no_other() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(3))
        await cluster.until(lambda: settled(cluster, 2))
        before = {name: one["metadata"]["uid"] for name, one in pods(cluster).items()}
        await cluster.client.delete(PODS, "llm-0-1", NAMESPACE)
        await cluster.until(lambda: _uid(cluster, "llm-0") not in (None, before["llm-0"]))
        await cluster.until(lambda: settled(cluster, 2))
        after = {name: one["metadata"]["uid"] for name, one in pods(cluster).items()}
        changed = {name for name in before if before[name] != after[name]}
        assert changed == {"llm-0", "llm-0-1", "llm-0-2"}


async def test_a_deleted_set_takes_everything_with_it() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE, propagation="Foreground")
        await cluster.until(lambda: cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE) is None)
        for resource in (PODS, STATEFUL_SETS, CONTROLLER_REVISIONS, SERVICES):
            left = [one["metadata"]["name"] for one in cluster.objects(resource, NAMESPACE)]
            assert [name for name in left if name.startswith("llm")] == []


async def test_a_change_of_nothing_writes_nothing() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.settle()
        before = cluster.writes
        await patch(cluster, "llm", {"metadata": {"annotations": {"note": "x"}}})
        await cluster.settle()
        noted = cluster.writes - before
        await patch(cluster, "llm", {"metadata": {"annotations": {"note": "x"}}})
        await cluster.settle()
        assert noted <= 2, "the annotation itself and its copy on the leader StatefulSet"
        assert cluster.writes - before - noted <= 1, "only the patch of the test, which changed nothing"


def _image(image: str) -> JsonObject:
    container = {"name": "main", "image": image}
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}}


def _uid(cluster: Cluster, name: str) -> str | None:
    found = cluster.find(PODS, name, NAMESPACE)
    return found["metadata"]["uid"] if found else None
