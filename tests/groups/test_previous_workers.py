"""A group follows another one of the same name."""

from collections import Counter

import msgspec
import pytest
from tests.builders import lws
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import create, groups_cluster, images, patch, settled

from kohort.groups.previous_workers import predecessors
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.simulation_labels import PREFIX
from kohort.testing import Cluster


def _pods_asked_for(cluster: Cluster, since: int) -> Counter[str]:
    """By name, how often StatefulSets tried to create a pod."""
    tried = [one for one in cluster.faults("workloads").writes_since(since) if one.method == "POST"]
    return Counter(
        msgspec.json.decode(one.body)["metadata"]["name"]
        for one in tried
        if one.path.partition("?")[0].endswith("/pods")
    )


async def test_pods_of_a_new_group_are_created_when_their_names_are_free() -> None:
    """The old workers take five seconds to end, after their leader and their StatefulSet have gone."""
    async with groups_cluster() as cluster:
        slow = {
            "metadata": {"annotations": {f"{PREFIX}termination-latency": "5s"}},
            "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "main", "image": "old:1"}]},
        }
        await create(cluster, lws("llm").replicas(2).size(3).workers(slow))
        await cluster.until(lambda: settled(cluster, 2))
        begin = cluster.faults("workloads").write_count
        await patch(cluster, "llm", new_image("new:2"))
        await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})
        asked = _pods_asked_for(cluster, begin)
        assert sorted(asked) == ["llm-0", "llm-0-1", "llm-0-2", "llm-1", "llm-1-1", "llm-1-2"]
        assert set(asked.values()) == {1}, "a name that is taken costs a refusal, and a pause that grows"


CONTROLLER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "llm-0", "uid": "old", "controller": True}


def _pod(name: str, index: str, **metadata: object) -> Pod:
    labels = {group_labels.NAME: "llm", group_labels.GROUP_INDEX: "0", group_labels.WORKER_INDEX: index}
    document: JsonObject = {"metadata": {"name": name, "namespace": "default", "labels": labels, **metadata}}
    return msgspec.convert(document, Pod)


@pytest.mark.parametrize(
    ("pod", "in_the_way"),
    [
        (_pod("llm-0", "0", ownerReferences=[CONTROLLER]), False),
        (_pod("llm-0-1", "1", ownerReferences=[CONTROLLER]), True),
        (_pod("llm-0-1", "1", ownerReferences=[CONTROLLER], deletionTimestamp="2026-01-01T00:00:00Z"), True),
        (_pod("llm-0-1", "1"), False),
        (_pod("llm-0-1", "1", deletionTimestamp="2026-01-01T00:00:00Z"), True),
    ],
    ids=["the leader", "owned by a set that is gone", "ending", "orphaned on purpose: adopted", "orphaned, and ending"],
)
def test_who_is_in_the_way_of_new_workers(pod: Pod, in_the_way: bool) -> None:
    assert bool(predecessors([pod])) is in_the_way
