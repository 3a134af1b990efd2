"""What becomes of a stopped resize when only the deadline or the policy of its set changes, by any client."""

import asyncio

import pytest
from tests.groups.resize.test_group_resizes import (
    available,
    by_hand,
    cluster_with_groups,
    condition,
    cpus,
    create,
    edit,
    order,
    pods,
    resizable,
    resized,
    status,
    uids,
    without_resize,
)

from kohort.groups.resize.record import RevertReason, read_record
from kohort.kube.resources import LEADER_WORKER_SETS, NODES
from kohort.objects.json_types import Json
from kohort.testing import Cluster


async def edit_strategy(cluster: Cluster, **fields: Json) -> None:
    await cluster.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"rolloutStrategy": fields}})


def reason(cluster: Cluster) -> str:
    found: str = condition(cluster, "ResizeInProgress").get("reason", "")
    return found


async def stopped_at_its_deadline(cluster: Cluster) -> dict[str, str]:
    await create(cluster, resizable("InPlaceOnly", deadline=60).replicas(2).size(2), 2)
    before = uids(cluster)
    await order(cluster, "llm-1-1", resize="deferred")
    await edit(cluster)
    await cluster.until(lambda: reason(cluster) == "DeadlineExceeded")
    await cluster.settle()
    return before


async def test_a_longer_deadline_tries_again() -> None:
    async with cluster_with_groups() as cluster:
        before = await stopped_at_its_deadline(cluster)
        await edit_strategy(cluster, resourceUpdateDeadlineSeconds=300)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        assert status(cluster)["resize"]["message"].endswith("until 300 s")
        await order(cluster, "llm-1-1", resize="accept")
        await cluster.until(lambda: resized(cluster, 2))
        assert (uids(cluster), cpus(cluster)) == (before, {"200m"})


async def test_a_longer_deadline_that_passes_too_stops_again() -> None:
    async with cluster_with_groups() as cluster:
        before = await stopped_at_its_deadline(cluster)
        await edit_strategy(cluster, resourceUpdateDeadlineSeconds=90)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        await cluster.until(lambda: reason(cluster) == "DeadlineExceeded")
        await cluster.settle()
        assert status(cluster)["resize"]["state"] == "Stopped"
        assert (uids(cluster), cpus(cluster)) == (before, {"100m"})


async def test_a_shorter_deadline_changes_nothing() -> None:
    async with cluster_with_groups() as cluster:
        before = await stopped_at_its_deadline(cluster)
        await edit_strategy(cluster, resourceUpdateDeadlineSeconds=30)
        await cluster.settle()
        assert (reason(cluster), status(cluster)["resize"]["state"]) == ("DeadlineExceeded", "Stopped")
        assert (uids(cluster), cpus(cluster)) == (before, {"100m"})


async def test_a_longer_deadline_does_not_help_where_a_pod_can_never_fit() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly", deadline=60).size(2))
        await order(cluster, "llm-0-1", resize="infeasible")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Infeasible")
        await edit_strategy(cluster, resourceUpdateDeadlineSeconds=300)
        await cluster.settle()
        assert (reason(cluster), status(cluster)["resize"]["state"]) == ("Infeasible", "Stopped")


async def test_a_deadline_is_extended_while_a_group_waits() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly", deadline=60).size(2))
        before = uids(cluster)
        await order(cluster, "llm-0-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        await edit_strategy(cluster, resourceUpdateDeadlineSeconds=600)
        await cluster.until(lambda: "until 600 s" in status(cluster)["resize"]["message"])
        await asyncio.sleep(300)
        assert reason(cluster) == "Deferred"
        await order(cluster, "llm-0-1", resize="accept")
        await cluster.until(lambda: resized(cluster))
        assert uids(cluster) == before


@pytest.mark.parametrize("order_", ["deferred", "infeasible"])
@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "Recreate"])
async def test_another_policy_recreates_the_groups_that_could_not_follow(policy: str, order_: str) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly", deadline=60).replicas(2).size(2), 2)
        before = uids(cluster)
        await order(cluster, "llm-1-1", resize=order_)
        await edit(cluster)
        await cluster.until(lambda: status(cluster).get("resize", {}).get("state") == "Stopped")
        await edit_strategy(cluster, resourceUpdatePolicy=policy)
        await cluster.until(lambda: available(cluster, 2) and cpus(cluster) == {"200m"})
        kept = {name for name, uid in uids(cluster).items() if before[name] == uid}
        assert kept == ({"llm-0", "llm-0-1"} if policy == "InPlaceOrRecreate" else set())
        assert reason(cluster) == "Completed"


async def test_another_policy_recreates_groups_of_a_cluster_that_cannot_resize() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").size(2))
        without_resize(cluster)
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "NotSupported")
        await edit_strategy(cluster, resourceUpdatePolicy="InPlaceOrRecreate")
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"200m"})
        assert set(uids(cluster).values()).isdisjoint(before.values())


async def test_no_policy_overwrites_what_someone_else_set() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").size(2))
        before = uids(cluster)
        await order(cluster, "llm-0-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        await by_hand(cluster, "llm-0-1", "150m")
        await cluster.until(lambda: status(cluster).get("resize", {}).get("state") == "Stopped")
        await edit_strategy(cluster, resourceUpdatePolicy="InPlaceOrRecreate")
        await cluster.settle()
        assert (reason(cluster), uids(cluster)) == ("Conflict", before)


async def test_a_group_that_waits_to_be_recreated_stays_if_the_policy_forbids_that_by_then() -> None:
    """Group 0 waits until group 1 is ready again."""
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOrRecreate", deadline=60).replicas(2).size(2), 2)
        for name in ("llm-0-1", "llm-1-1"):
            await order(cluster, name, resize="infeasible")
        slow = {"metadata": {"annotations": {"simulation.kohort.dev/ready-latency": "120s"}}}
        for node in cluster.objects(NODES):
            await cluster.client.patch(NODES, node["metadata"]["name"], "", slow)
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: uids(cluster).get("llm-1", before["llm-1"]) != before["llm-1"])
        await asyncio.sleep(10)
        await edit_strategy(cluster, resourceUpdatePolicy="InPlaceOnly")
        await cluster.until(lambda: status(cluster).get("resize", {}).get("state") == "Stopped")
        await cluster.settle()
        assert {name for name, uid in uids(cluster).items() if before[name] == uid} == {"llm-0", "llm-0-1"}
        assert reason(cluster) == "Infeasible"


async def test_a_node_that_is_lost_during_a_resize_is_named() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly", deadline=60).size(2))
        node = pods(cluster)["llm-0"]["spec"]["nodeName"]
        lost = {"metadata": {"annotations": {"simulation.kohort.dev/lost": "true"}}}
        await cluster.client.patch(NODES, node, "", lost)
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "DeadlineExceeded")
        message = condition(cluster, "ResizeInProgress")["message"]
        assert message == f"group 0: llm-0 on node {node}: the node does not report, and has not looked at the resize"
        record = read_record(pods(cluster)["llm-0"]["metadata"]["annotations"])
        assert record is not None and record.reason is RevertReason.NODE_NOT_REPORTING
