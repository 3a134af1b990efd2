"""Features of groups on a whole cluster in this process, on virtual time."""

from typing import cast

import pytest
from tests.builders import lws
from tests.groups.test_lifecycle import (
    NAMESPACE,
    create,
    groups_cluster,
    patch,
    pods,
    settled,
)
from tests.installed import installed

from kohort.kube.errors import Forbidden
from kohort.kube.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster


def but(subject: JsonObject, path: str, value: Json) -> JsonObject:
    """The object with one more value at a dotted path."""
    place = subject
    *steps, last = path.split(".")
    for step in steps:
        place = place.setdefault(step, {})
    place[last] = value
    return subject


def new_image(image: str) -> JsonObject:
    container = {"name": "main", "image": image}
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}}


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


async def test_a_group_keeps_to_one_topology_domain_and_has_it_alone() -> None:
    async with Cluster(
        parts=("workloads", "scheduler", "operator"),
        nodes=8,
        contents=installed("workloads"),
        node_settings={"topology": {"rack": 4}},
    ) as cluster:
        await create(cluster, lws("llm").replicas(3).size(2).exclusive("rack"))
        await cluster.until(lambda: settled(cluster, 3))
        racks = {one["metadata"]["name"]: one["metadata"]["labels"]["rack"] for one in cluster.objects(NODES)}
        by_group: dict[str, set[str]] = {}
        for one in pods(cluster).values():
            group = cast(str, one["metadata"]["labels"][group_labels.GROUP_INDEX])
            by_group.setdefault(group, set()).add(racks[one["spec"]["nodeName"]])
        assert all(len(found) == 1 for found in by_group.values())
        assert len(set.union(*by_group.values())) == 3


@pytest.mark.parametrize(("size", "length"), [(1, 52), (2, 50)])
async def test_the_longest_name_gets_its_pods_and_one_more_letter_is_refused(size: int, length: int) -> None:
    name = "x" * length
    async with groups_cluster() as cluster:
        await create(cluster, lws(name).replicas(1).size(size))
        await cluster.until(lambda: settled(cluster, 1, name))
        with pytest.raises(Forbidden, match=f"at most {length} characters"):
            await create(cluster, lws(f"{name}x").replicas(1).size(size))
