"""Pods that carry the labels of a group and do not belong to it: a user who may create pods can give them any label."""

import pytest
from tests.builders import pod
from tests.groups.test_disruption_budget import evict
from tests.groups.test_failures import ORDER, budgeted, crash, kept, recreated, uid
from tests.groups.test_lifecycle import NAMESPACE, create, groups_cluster, pods, settled, status

from kohort.kube.resources import EVENTS, PODS, STATEFUL_SETS
from kohort.rules import group_labels
from kohort.testing import Cluster

CRASHES = {f"{ORDER}crashes": "3", f"{ORDER}exit-after": "0s", f"{ORDER}restart-delay": "1s"}


async def add_stray(cluster: Cluster, name: str, like: str, **metadata: object) -> None:
    """A pod with the labels of a member, whose containers fail."""
    member = pods(cluster)[like]["metadata"]
    stray = pod(name).but("metadata.labels", member["labels"])
    for key, value in {"annotations": {**member.get("annotations", {}), **CRASHES}, **metadata}.items():
        stray = stray.but(f"metadata.{key}", value)
    await cluster.client.create(PODS, stray, NAMESPACE)


def sets(cluster: Cluster) -> list[str]:
    return sorted(one["metadata"]["name"] for one in cluster.objects(STATEFUL_SETS, NAMESPACE))


@pytest.mark.parametrize(
    ("name", "like"),
    [("llm-1-7", "llm-1-1"), ("other-1", "llm-1-1"), ("other", "llm-1"), ("other-1", "llm-1"), ("llm-7", "llm-1")],
    ids=["beyond the size", "worker of another name", "leader", "leader with a number", "leader beyond the replicas"],
)
async def test_failures_of_a_stray_pod_cost_no_group(name: str, like: str) -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        before = {one: uid(cluster, one) for one in pods(cluster)}
        await add_stray(cluster, name, like)
        await cluster.settle()
        assert settled(cluster, 2)
        assert {one: uid(cluster, one) for one in before} == before
        assert not status(cluster).get("restarts")
        assert kept(cluster) == []
        assert sets(cluster) == ["llm", "llm-0", "llm-1"], "a stray leader gets no workers"
        reasons = {one["reason"] for one in cluster.objects(EVENTS, NAMESPACE)}
        assert "RecreateGroup" not in reasons


async def test_a_stray_pod_that_something_else_owns_does_not_keep_a_group_from_coming_back() -> None:
    """New workers wait for those of the previous leader to end, and for no others."""
    async with groups_cluster() as cluster:
        await create(cluster, budgeted())
        await cluster.until(lambda: settled(cluster, 2))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "llm-0", "uid": uid(cluster, "llm-0"), "controller": True}
        await add_stray(cluster, "other-1", "llm-1-1", ownerReferences=[owner])
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        assert await recreated(cluster, before) != before


async def test_a_stray_pod_does_not_keep_a_failed_group_from_being_recreated() -> None:
    """A group has started when as many pods run as it has, and only pods of the group count."""
    subject = budgeted().but("spec.leaderWorkerTemplate.restartPolicy", "RecreateGroupAfterStart")
    async with groups_cluster() as cluster:
        await create(cluster, subject)
        await cluster.until(lambda: settled(cluster, 2))
        await add_stray(cluster, "other-1", "llm-1-1")
        await cluster.settle()
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1")
        assert await recreated(cluster, before) != before


async def test_no_budget_of_a_set_keeps_a_stray_pod_from_being_evicted() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, budgeted().but("spec.disruptionBudget", {"maxUnavailable": 0}))
        await cluster.until(lambda: settled(cluster, 2))
        await add_stray(cluster, "other-1", "llm-1-1")
        assert group_labels.NAME in pods(cluster)["other-1"]["metadata"]["labels"]
        await evict(cluster, "other-1")
        await cluster.until(lambda: "other-1" not in pods(cluster))
        assert settled(cluster, 2)
