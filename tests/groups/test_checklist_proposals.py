"""Rows of the proposals, S1 to S8: worker size updates, volume claim templates, nodes of a replica's own. S1 is a row
of test_checklist_cluster.py as well."""

import pytest
from tests.builders import LeaderWorkerSet, container, lws
from tests.groups.test_checklist_cluster import image, one_revision_each, whole
from tests.groups.test_lifecycle import NAMESPACE, create, images, patch, pods, settled, status

from kohort.kube.errors import ApiError, Forbidden, Invalid
from kohort.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from kohort.rules import group_labels
from kohort.testing import Cluster


async def test_s2_size_change_during_a_rolling_update() -> None:
    async with whole(latency=2.0) as cluster:
        await create(cluster, lws("llm").replicas(3).size(3))
        await cluster.until(lambda: settled(cluster, 3))
        await patch(cluster, "llm", image("new:2"))
        await cluster.until(lambda: status(cluster).get("updatedReplicas") == 1)
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"size": 2, "resizePolicy": "Recreate"}}})
        rebuilt: set[str] = set()

        def done() -> bool:
            assert one_revision_each(cluster)
            rebuilt.update(one["metadata"]["annotations"][group_labels.SIZE] for one in pods(cluster).values())
            return settled(cluster, 3) and len(pods(cluster)) == 6 and images(cluster) == {"new:2"}

        await cluster.until(done)
        assert rebuilt == {"2", "3"}


async def test_s3_resize_policy_recreate_allows_a_new_size() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").size(2).but("spec.leaderWorkerTemplate.resizePolicy", "Recreate"))
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"size": 3}}})


@pytest.mark.parametrize("policy", ["None", None])
async def test_s4_resize_policy_none_refuses_a_new_size(policy: str | None) -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").size(2).but("spec.leaderWorkerTemplate.resizePolicy", policy))
        with pytest.raises(Forbidden, match=r"leaderWorkerTemplate.size: .*resizePolicy is None"):
            await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"size": 3}}})


@pytest.mark.parametrize("moment", ["whenDeleted", "whenScaled"])
async def test_a_retention_policy_that_no_stateful_set_takes_is_refused(moment: str) -> None:
    field = f"spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy.{moment}"
    async with whole() as cluster:
        with pytest.raises(Invalid, match=rf'{field}: Unsupported value: "Foo": supported values: "Retain", "Delete"'):
            await create(cluster, lws("llm").but(field, "Foo"))


async def test_s5_volume_claim_templates_on_create() -> None:
    claim = {"metadata": {"name": "cache"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[index]
    template = "spec.leaderWorkerTemplate"
    mounting = container() | {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    retention = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    shadowed = {"name": "cache", "emptyDir": {}}
    subject = lws("llm").replicas(1).size(2).but(f"{template}.workerTemplate.spec.containers", [mounting])
    subject = subject.but(f"{template}.volumeClaimTemplates", [claim])
    subject = subject.but(f"{template}.persistentVolumeClaimRetentionPolicy", retention)
    subject = subject.but(f"{template}.workerTemplate.spec.volumes", [shadowed])
    async with whole() as cluster:
        await create(cluster, subject)
        await cluster.until(lambda: settled(cluster, 1))
        claims = {one["metadata"]["name"] for one in cluster.objects(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)}
        assert claims == {"cache-llm-0", "cache-llm-0-1"}
        for one in cluster.objects(STATEFUL_SETS, NAMESPACE):
            assert [found["metadata"]["name"] for found in one["spec"]["volumeClaimTemplates"]] == ["cache"]
            assert one["spec"]["persistentVolumeClaimRetentionPolicy"] == retention
        for name, pod in pods(cluster).items():
            (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == "cache"]
            assert volume["persistentVolumeClaim"]["claimName"] == f"cache-{name}", "a claim beats a volume of its name"


POLICY = {"replicaUniqueNodeSelector": "pool", "replicaUniqueToleration": {"key": "pool", "effect": "NoSchedule"}}


def unique() -> LeaderWorkerSet:
    return lws("llm").replicas(2).size(2).but("spec.leaderWorkerTemplate.schedulingPolicy", POLICY)


async def label_nodes(cluster: Cluster, **more: str) -> None:
    for number, node in enumerate(sorted(one["metadata"]["name"] for one in cluster.objects(NODES))[:2]):
        labels = {"pool": f"llm-{number}", **{key: f"{value}-{number}" for key, value in more.items()}}
        taint = {"key": "pool", "value": f"llm-{number}", "effect": "NoSchedule"}
        await cluster.client.patch(NODES, node, "", {"metadata": {"labels": labels}, "spec": {"taints": [taint]}})


async def test_s6_scheduling_policy() -> None:
    async with whole() as cluster:
        await label_nodes(cluster)
        await create(cluster, unique())
        await cluster.until(lambda: settled(cluster, 2))
        notes = {
            group_labels.UNIQUE_NODE_SELECTOR: "pool",
            group_labels.UNIQUE_TOLERATION_KEY: "pool",
            group_labels.UNIQUE_TOLERATION_EFFECT: "NoSchedule",
        }
        for one in cluster.objects(STATEFUL_SETS, NAMESPACE):
            assert notes.items() <= one["spec"]["template"]["metadata"]["annotations"].items()
        for name, pod in pods(cluster).items():
            toleration = {"key": "pool", "operator": "Equal", "value": name[:5], "effect": "NoSchedule"}
            assert pod["spec"]["nodeSelector"] == {"pool": name[:5]}
            assert pod["spec"]["tolerations"].count(toleration) == 1


async def test_s7_unsupported_toleration_effect() -> None:
    bad = {"replicaUniqueToleration": {"key": "pool", "effect": "Sometimes"}}
    async with whole() as cluster:
        with pytest.raises(ApiError, match=r"replicaUniqueToleration.effect: Unsupported value"):
            await create(cluster, lws("llm").size(2).but("spec.leaderWorkerTemplate.schedulingPolicy", bad))


async def test_s8_scheduling_policy_and_exclusive_topology() -> None:
    async with whole() as cluster:
        await label_nodes(cluster, rack="r")
        await create(cluster, unique().exclusive("rack"))
        await cluster.until(lambda: settled(cluster, 2))
        nodes = {name: one["spec"]["nodeName"] for name, one in pods(cluster).items()}
        assert nodes["llm-0"] == nodes["llm-0-1"] != nodes["llm-1"] == nodes["llm-1-1"]
        assert pods(cluster)["llm-1-1"]["spec"]["nodeSelector"] == {"pool": "llm-1", "rack": "r-1"}
