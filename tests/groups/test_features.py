"""Features of groups on a whole cluster in this process, on virtual time."""

from typing import cast

import pytest
from tests.builders import lws
from tests.groups.test_lifecycle import (
    NAMESPACE,
    conditions,
    create,
    groups_cluster,
    images,
    patch,
    pods,
    settled,
    status,
)

from kohort.groups import wire
from kohort.kube.errors import Forbidden, Invalid
from kohort.kube.resources import (
    LEADER_WORKER_SETS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
)
from kohort.objects.jsontypes import Json, JsonObject
from kohort.testing import Cluster


def but(subject: JsonObject, path: str, value: Json) -> JsonObject:
    """The object with one more value at a dotted path."""
    place = subject
    *steps, last = path.split(".")
    for step in steps:
        place = place.setdefault(step, {})
    place[last] = value
    return subject


def leader_set(cluster: Cluster) -> JsonObject:
    found = cluster.find(STATEFUL_SETS, "llm", NAMESPACE)
    assert found is not None
    return found


def new_image(image: str) -> JsonObject:
    container = {"name": "main", "image": image}
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}}


async def test_a_surge_group_comes_first_and_goes_last() -> None:
    slow = {"start_latency": 2.0}
    async with Cluster(parts=("workloads", "scheduler", "operator"), nodes=8, node_settings=slow) as cluster:
        await create(cluster, lws("llm").replicas(2).size(2).max_surge(1).max_unavailable(0))
        await cluster.until(lambda: settled(cluster, 2))
        seen: set[int] = set()
        ready: list[int] = []

        def watch() -> bool:
            seen.add(leader_set(cluster)["spec"]["replicas"])
            ready.append(status(cluster).get("readyReplicas", 0))
            return settled(cluster, 2) and images(cluster) == {"new:2"}

        await patch(cluster, "llm", new_image("new:2"))
        await cluster.until(watch)
        assert seen == {2, 3}
        assert min(ready) >= 2, "nothing may be away without maxUnavailable"


async def test_the_partition_holds_the_lower_groups_back() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(3).size(2).partition(2))
        await cluster.until(lambda: status(cluster).get("readyReplicas") == 3)
        await patch(cluster, "llm", new_image("new:2"))
        await cluster.until(lambda: status(cluster).get("updatedReplicas") == 1 and _ready(cluster, 3))
        await cluster.settle()
        found = {name: one["spec"]["containers"][0]["image"] for name, one in pods(cluster).items()}
        assert {name for name, image in found.items() if image == "new:2"} == {"llm-2", "llm-2-1"}
        assert conditions(cluster)["Available"] == "True"


def _ready(cluster: Cluster, groups: int) -> bool:
    return bool(status(cluster).get("readyReplicas") == groups)


async def test_a_group_of_one_has_no_workers() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(1))
        await cluster.until(lambda: settled(cluster, 2))
        assert sorted(pods(cluster)) == ["llm-0", "llm-1"]
        assert [one["metadata"]["name"] for one in cluster.objects(STATEFUL_SETS, NAMESPACE)] == ["llm"]


async def test_every_replica_may_have_a_service_of_its_own() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2).network("UniquePerReplica"))
        await cluster.until(lambda: settled(cluster, 2))
        found = {one["metadata"]["name"]: one for one in cluster.objects(SERVICES, NAMESPACE)}
        assert {"llm-0", "llm-1"} <= found.keys()
        assert "llm" not in found
        assert found["llm-1"]["spec"]["selector"] == {wire.NAME: "llm", wire.GROUP_INDEX: "1"}
        assert pods(cluster)["llm-1"]["spec"]["subdomain"] == "llm-1"
        assert pods(cluster)["llm-1-1"]["spec"]["subdomain"] == "llm-1"


async def test_workers_may_wait_for_their_leader() -> None:
    async with Cluster(parts=("workloads", "scheduler", "operator"), nodes=0) as cluster:
        await create(cluster, lws("llm").replicas(1).size(2).startup("LeaderReady"))
        await cluster.until(lambda: "llm-0" in pods(cluster))
        await cluster.settle()
        assert sorted(pods(cluster)) == ["llm-0"], "the leader is not ready, so it has no workers yet"
        ready = {"type": "Ready", "status": "True"}
        body = {"status": {"phase": "Running", "conditions": [ready]}}
        await cluster.client.patch(PODS, "llm-0", NAMESPACE, body, subresource="status")
        await cluster.until(lambda: "llm-0-1" in pods(cluster))


async def test_a_new_size_recreates_the_groups_if_the_policy_says_so() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        with pytest.raises(Forbidden, match=r"resizePolicy is None"):
            await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"size": 3}}})
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"size": 3, "resizePolicy": "Recreate"}}})
        await cluster.until(lambda: settled(cluster, 2) and len(pods(cluster)) == 6)
        assert {one["metadata"]["annotations"][wire.SIZE] for one in pods(cluster).values()} == {"3"}


async def test_claims_of_leaders_and_workers() -> None:
    claim: JsonObject = {
        "metadata": {"name": "cache", "labels": {"tier": "fast"}},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    container = {"name": "main", "image": "x", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    subject = but(lws("llm").replicas(1).size(2), "spec.leaderWorkerTemplate.volumeClaimTemplates", [claim])
    subject = but(subject, "spec.leaderWorkerTemplate.workerTemplate.spec.containers", [container])
    async with groups_cluster() as cluster:
        await create(cluster, subject)
        await cluster.until(lambda: settled(cluster, 1))
        found = {one["metadata"]["name"]: one for one in cluster.objects(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)}
        assert sorted(found) == ["cache-llm-0", "cache-llm-0-1"]
        assert found["cache-llm-0-1"]["metadata"]["labels"]["tier"] == "fast"
        with pytest.raises(Forbidden, match="field is immutable"):
            await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"volumeClaimTemplates": []}}})


async def test_a_replica_may_have_nodes_of_its_own() -> None:
    policy = {"replicaUniqueNodeSelector": "pool", "replicaUniqueToleration": {"key": "pool", "effect": "NoSchedule"}}
    subject = but(lws("llm").replicas(2).size(2), "spec.leaderWorkerTemplate.schedulingPolicy", policy)
    async with groups_cluster() as cluster:
        for number, node in enumerate(sorted(one["metadata"]["name"] for one in cluster.objects(NODES))[:2]):
            taint = {"key": "pool", "value": f"llm-{number}", "effect": "NoSchedule"}
            body = {"metadata": {"labels": {"pool": f"llm-{number}"}}, "spec": {"taints": [taint]}}
            await cluster.client.patch(NODES, node, "", body)
        await create(cluster, subject)
        await cluster.until(lambda: settled(cluster, 2))
        nodes = {name: one["spec"]["nodeName"] for name, one in pods(cluster).items()}
        assert nodes["llm-0"] == nodes["llm-0-1"] != nodes["llm-1"] == nodes["llm-1-1"]


async def test_an_unknown_effect_is_refused() -> None:
    policy = {"replicaUniqueToleration": {"key": "pool", "effect": "Sometimes"}}
    subject = but(lws("llm").replicas(1).size(2), "spec.leaderWorkerTemplate.schedulingPolicy", policy)
    async with groups_cluster() as cluster:
        with pytest.raises(Invalid, match=r"replicaUniqueToleration.effect"):
            await create(cluster, subject)


async def test_a_group_keeps_to_one_topology_domain_and_has_it_alone() -> None:
    async with Cluster(
        parts=("workloads", "scheduler", "operator"), nodes=8, node_settings={"topology": {"rack": 4}}
    ) as cluster:
        await create(cluster, lws("llm").replicas(3).size(2).exclusive("rack"))
        await cluster.until(lambda: settled(cluster, 3))
        racks = {one["metadata"]["name"]: one["metadata"]["labels"]["rack"] for one in cluster.objects(NODES)}
        by_group: dict[str, set[str]] = {}
        for one in pods(cluster).values():
            group = cast(str, one["metadata"]["labels"][wire.GROUP_INDEX])
            by_group.setdefault(group, set()).add(racks[one["spec"]["nodeName"]])
        assert all(len(found) == 1 for found in by_group.values())
        assert len(set.union(*by_group.values())) == 3


async def test_the_scale_subresource_serves_autoscalers() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(1).size(2))
        await cluster.until(lambda: settled(cluster, 1))
        scale = await cluster.client.get(LEADER_WORKER_SETS, "llm", NAMESPACE, subresource="scale")
        assert scale["status"] == {"replicas": 1, "selector": f"{wire.NAME}=llm,{wire.WORKER_INDEX}=0"}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, {"spec": {"replicas": 2}}, subresource="scale")
        await cluster.until(lambda: settled(cluster, 2))


async def test_a_lost_service_or_leader_set_comes_back() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(1).size(2))
        await cluster.until(lambda: settled(cluster, 1))
        await cluster.client.delete(SERVICES, "llm", NAMESPACE)
        await cluster.until(lambda: cluster.find(SERVICES, "llm", NAMESPACE) is not None)
        before = leader_set(cluster)["metadata"]["uid"]
        await cluster.client.delete(STATEFUL_SETS, "llm", NAMESPACE)
        await cluster.until(
            lambda: (
                (cluster.find(STATEFUL_SETS, "llm", NAMESPACE) or {}).get("metadata", {}).get("uid")
                not in (None, before)
            )
        )
        await cluster.until(lambda: settled(cluster, 1))
