"""Revisions at which all groups were ready are marked; those that were replaced before are not."""

from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, group_set, release_cluster, rollout

from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, ROLLOUTS
from kohort.rules import group_labels
from kohort.testing import Cluster


def served(cluster: Cluster, name: str = NAME) -> dict[str, bool]:
    """By image."""
    found = {}
    for one in cluster.objects(CONTROLLER_REVISIONS, NAMESPACE):
        if one["metadata"]["labels"].get(group_labels.NAME) == name and "leaderWorkerTemplate" in one["data"]["spec"]:
            template = one["data"]["spec"]["leaderWorkerTemplate"]["workerTemplate"]
            annotations = one["metadata"].get("annotations") or {}
            found[template["spec"]["containers"][0]["image"]] = group_labels.SERVED_AT in annotations
    return found


async def test_a_version_that_never_became_ready_is_not_marked() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await story.create(LEADER_WORKER_SETS, group_set())
        await story.until(story.all_ready)
        await cluster.settle(5)
        assert served(cluster) == {V1: True}
        await story.cordon()
        await story.change(V2)
        await cluster.settle(20)
        assert served(cluster) == {V1: True, V2: False}
        await story.cordon(False)
        await story.change(V3)
        await story.until(lambda: story.images() == {V3} and story.all_ready())
        await cluster.settle(5)
        assert served(cluster) == {V1: True, V2: False, V3: True}


async def test_a_version_that_a_release_superseded_is_not_marked() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=[{"replicas": 1, "pause": {}}]))
        await story.change(V2)
        await story.at(1)
        await story.change(V3)
        await story.until(lambda: bool(story.events("Superseded")))
        await story.at(1)
        assert served(cluster) == {V1: True, V2: False, V3: False}
        await story.approve()
        await story.healthy(V3)
        assert served(cluster) == {V1: True, V2: False, V3: True}
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)


async def test_a_set_without_groups_serves_nothing() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await story.create(LEADER_WORKER_SETS, group_set(replicas=0))
        await cluster.settle(10)
        assert served(cluster) == {V1: False}


async def test_a_version_that_serves_everywhere_under_a_partition_is_marked() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        held = {"rollingUpdateConfiguration": {"partition": 1}, "type": "RollingUpdate"}
        subject = group_set()
        subject["spec"]["rolloutStrategy"] = held
        await story.create(LEADER_WORKER_SETS, subject)
        await story.until(story.all_ready)
        await cluster.settle(5)
        assert served(cluster) == {V1: True}
        await story.change(V2)
        await cluster.settle(20)
        assert served(cluster) == {V1: True, V2: False}
