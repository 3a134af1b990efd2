"""A partition holds groups at their old revision, also when there are none for a while."""

from tests.builders import lws
from tests.groups.test_lifecycle import create, groups_cluster, patch, pods, status

from kohort.kube.resources import PODS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

NAMESPACE = "default"
OLD, NEW = "model:1", "model:2"


def template(image: str) -> JsonObject:
    spec = {"containers": [{"name": "main", "image": image}]}
    return {"leaderWorkerTemplate": {"workerTemplate": {"spec": spec}}}


def rolling(partition: int) -> JsonObject:
    values = {"partition": partition, "maxUnavailable": 1, "maxSurge": 0}
    return {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": values}}


def leader_images(cluster: Cluster) -> dict[str, str]:
    return {
        name: pod["spec"]["containers"][0]["image"]
        for name, pod in sorted(pods(cluster).items())
        if pod["metadata"]["labels"][group_labels.WORKER_INDEX] == "0"
    }


def template_label(cluster: Cluster) -> str:
    found = cluster.find(STATEFUL_SETS, "llm", NAMESPACE)
    assert found is not None
    return str(found["spec"]["template"]["metadata"]["labels"][group_labels.REVISION])


async def held_at_3_of_4(cluster: Cluster) -> None:
    await create(cluster, lws("llm").replicas(4).size(2))
    await patch(cluster, "llm", {"spec": template(OLD)})
    await cluster.until(lambda: status(cluster).get("updatedReadyReplicas") == 4)
    await cluster.settle(30)
    await patch(cluster, "llm", {"spec": {**template(NEW), **rolling(3)}})
    await cluster.until(lambda: leader_images(cluster) == {"llm-0": OLD, "llm-1": OLD, "llm-2": OLD, "llm-3": NEW})


async def test_groups_below_the_partition_come_back_from_zero_at_the_stable_revision() -> None:
    async with groups_cluster() as cluster:
        await held_at_3_of_4(cluster)
        await patch(cluster, "llm", {"spec": {"replicas": 0}})
        await cluster.settle(30)
        assert not pods(cluster)
        assert template_label(cluster) == status(cluster)["stableRevision"] != status(cluster)["updateRevision"]
        await patch(cluster, "llm", {"spec": {"replicas": 4}})
        await cluster.settle(60)
        assert leader_images(cluster) == {"llm-0": OLD, "llm-1": OLD, "llm-2": OLD, "llm-3": NEW}
        assert template_label(cluster) == status(cluster)["updateRevision"], "and the new template is back"
        assert {pod["spec"]["containers"][0]["image"] for name, pod in pods(cluster).items() if "llm-0" in name} == {
            OLD
        }, "workers are of their leader's revision"
        await cluster.client.delete(PODS, "llm-0", NAMESPACE)
        await cluster.settle(60)
        assert leader_images(cluster)["llm-0"] == OLD
        await patch(cluster, "llm", {"spec": rolling(0)})
        await cluster.until(lambda: set(leader_images(cluster).values()) == {NEW})
        await cluster.until(lambda: status(cluster)["stableRevision"] == status(cluster)["updateRevision"])


async def test_a_hold_lifted_at_zero_groups_lets_the_new_template_in() -> None:
    async with groups_cluster() as cluster:
        await held_at_3_of_4(cluster)
        await patch(cluster, "llm", {"spec": {"replicas": 0}})
        await cluster.settle(30)
        await patch(cluster, "llm", {"spec": rolling(0)})
        await cluster.settle(30)
        await patch(cluster, "llm", {"spec": {"replicas": 2}})
        await cluster.settle(30)
        assert leader_images(cluster) == {"llm-0": NEW, "llm-1": NEW}


async def test_a_lost_leader_stateful_set_comes_back_with_what_the_partition_holds() -> None:
    async with groups_cluster() as cluster:
        await held_at_3_of_4(cluster)
        await cluster.client.delete(STATEFUL_SETS, "llm", NAMESPACE, propagation="Foreground")
        await cluster.settle(120)
        assert leader_images(cluster) == {"llm-0": OLD, "llm-1": OLD, "llm-2": OLD, "llm-3": NEW}
