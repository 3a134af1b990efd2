"""Groups that have failed, in a set whose resources change: they never count as ready while they are broken."""

import asyncio

import pytest
from tests.builders import LeaderWorkerSet
from tests.groups.resize.test_group_resizes import (
    available,
    cluster_with_groups,
    condition,
    cpus,
    create,
    edit,
    order,
    resizable,
    status,
    uids,
)
from tests.groups.test_failures import crash

from kohort.testing import Cluster

POLICIES = pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])


def budgeted(policy: str, **budget: int) -> LeaderWorkerSet:
    wanted = {"backoffSeconds": 0, "maxBackoffSeconds": 0, **budget}
    return resizable(policy).replicas(3).size(2).but("spec.leaderWorkerTemplate.restartBudget", wanted)


def held(cluster: Cluster) -> bool:
    return condition(cluster, "GroupsExhausted").get("status") == "True"


def ready_groups(cluster: Cluster) -> int:
    found: int = status(cluster).get("readyReplicas", 0)
    return found


async def hold_group(cluster: Cluster, index: int) -> None:
    """Of a set whose groups have no restart left."""
    await crash(cluster, f"llm-{index}-1")
    await cluster.until(lambda: held(cluster))


async def never_ready_with(cluster: Cluster, failed: str, groups: int) -> None:
    """Wait until all groups have the new resources; the leader with the uid `failed` never counts."""
    wrong: list[str] = []

    def done() -> bool:
        if uids(cluster).get("llm-1") == failed and ready_groups(cluster) == groups:
            wrong.append("the group is ready with the pods that failed")
        return available(cluster, groups) and cpus(cluster) == {"200m"} and uids(cluster)["llm-1"] != failed

    await cluster.until(done)
    assert wrong == []


@POLICIES
@pytest.mark.parametrize("group", [0, 1, 2])
async def test_a_held_group_is_recreated_with_the_new_resources_and_the_others_are_resized(
    policy: str, group: int
) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, budgeted(policy, maxRestarts=0), 3)
        await hold_group(cluster, group)
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: available(cluster, 3) and cpus(cluster) == {"200m"})
        await cluster.settle()
        after = uids(cluster)
        assert {name for name in after if after[name] != before[name]} == {f"llm-{group}", f"llm-{group}-1"}
        assert not held(cluster)
        await edit(cluster, cpu="100m")
        await cluster.until(lambda: available(cluster, 3) and cpus(cluster) == {"100m"})
        assert uids(cluster) == after, "an undo finds healthy groups, and is in place"


async def test_an_undo_before_the_turn_of_a_held_group_leaves_it_held() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, budgeted("InPlaceOnly", maxRestarts=0), 3)
        await hold_group(cluster, 1)
        before = uids(cluster)
        await order(cluster, "llm-2-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        await edit(cluster, cpu="100m")
        await cluster.settle()
        assert (uids(cluster), cpus(cluster), held(cluster)) == (before, {"100m"}, True)


@POLICIES
async def test_a_group_that_waits_for_its_back_off_gets_the_new_resources_when_it_is_recreated(policy: str) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, budgeted(policy, maxRestarts=9, backoffSeconds=300, maxBackoffSeconds=300), 3)
        first = uids(cluster)["llm-1"]
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: available(cluster, 3) and uids(cluster)["llm-1"] != first)
        failed = uids(cluster)["llm-1"]
        await crash(cluster, "llm-1-1")
        await cluster.until(lambda: ready_groups(cluster) == 2)
        await edit(cluster)
        await never_ready_with(cluster, failed, 3)


@POLICIES
@pytest.mark.parametrize("moment", ["while its node cannot follow", "while it is adopted"])
async def test_a_failure_during_a_resize_is_not_forgotten(policy: str, moment: str) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, budgeted(policy, maxRestarts=0), 3)
        await order(cluster, "llm-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        failed = uids(cluster)["llm-1"]
        await crash(cluster, "llm-1-1")
        if moment == "while its node cannot follow":
            await asyncio.sleep(60)
        await order(cluster, "llm-1", resize="accept")
        await cluster.settle()
        if uids(cluster)["llm-1"] == failed:
            assert ready_groups(cluster) == 2 and held(cluster)
        else:
            assert available(cluster, 3) and cpus(cluster) == {"200m"}
