"""Resizes that other clients send while the operator does not run, as it finds them when it is back."""

import pytest
from tests.groups.resize.test_group_resizes import (
    by_hand,
    cluster_with_groups,
    condition,
    cpu_of,
    cpus,
    create,
    edit,
    order,
    resizable,
    resized,
    restarted,
    status,
    uids,
)

RESTARTING = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]


@pytest.mark.parametrize("policy", ["Recreate", "InPlaceOrRecreate", "InPlaceOnly"])
@pytest.mark.parametrize("sizes", [("150m",), ("150m", "180m")], ids=["once", "twice"])
async def test_a_restart_by_a_resize_that_the_operator_missed_does_not_recreate_the_group(
    policy: str, sizes: tuple[str, ...]
) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable(policy, resizePolicy=RESTARTING).size(2))
        before = uids(cluster)
        await cluster.parts["operator"].crash()
        for number, cpu in enumerate(sizes, start=1):
            await by_hand(cluster, "llm-0-1", cpu)
            await cluster.until(restarted(cluster, number))
        await cluster.parts["operator"].restart()
        await cluster.settle()
        assert uids(cluster) == before
        assert cpu_of(cluster, "llm-0-1") == sizes[-1]
        await order(cluster, "llm-0-1", crash="now")
        await cluster.until(lambda: set(uids(cluster).values()).isdisjoint(before.values()))


async def test_a_crash_that_the_operator_missed_still_recreates_the_group_beside_a_resize() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("Recreate", resizePolicy=RESTARTING).size(2))
        before = uids(cluster)
        await cluster.parts["operator"].crash()
        await by_hand(cluster, "llm-0-1", "150m")
        await cluster.until(restarted(cluster, 1))
        await order(cluster, "llm-0-1", crash="now")
        await cluster.until(restarted(cluster, 2))
        await cluster.parts["operator"].restart()
        await cluster.until(lambda: set(uids(cluster).values()).isdisjoint(before.values()))


async def test_a_resize_that_its_node_carries_out_after_the_operator_is_back_is_expected() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("Recreate", resizePolicy=RESTARTING).size(2))
        before = uids(cluster)
        await order(cluster, "llm-0-1", resize="deferred")
        await cluster.parts["operator"].crash()
        await by_hand(cluster, "llm-0-1", "150m")
        await cluster.settle()
        await cluster.parts["operator"].restart()
        await cluster.settle()
        await order(cluster, "llm-0-1", resize="accept")
        await cluster.until(restarted(cluster, 1))
        await cluster.settle()
        assert uids(cluster) == before


async def test_a_resize_that_the_operator_missed_is_drift() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").replicas(2).size(2), 2)
        before = uids(cluster)
        await cluster.parts["operator"].crash()
        await by_hand(cluster, "llm-1-1", "150m")
        await cluster.parts["operator"].restart()
        await cluster.until(lambda: condition(cluster, "ResizeConflict").get("status") == "True")
        assert "llm-1-1: containers[main].resources.requests.cpu" in condition(cluster, "ResizeConflict")["message"]
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Conflict")
        await cluster.until(lambda: cpu_of(cluster, "llm-0-1") == "200m")
        await cluster.settle()
        assert (cpu_of(cluster, "llm-1-1"), cpu_of(cluster, "llm-1")) == ("150m", "100m")
        await by_hand(cluster, "llm-1-1", "100m")
        await cluster.until(lambda: resized(cluster, 2))
        assert uids(cluster) == before
        assert condition(cluster, "ResizeConflict")["status"] == "False"


async def test_a_pod_that_was_resized_by_hand_amid_a_resize_stops_its_group() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").size(3))
        before = uids(cluster)
        await order(cluster, "llm-0-2", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        await cluster.parts["operator"].crash()
        await by_hand(cluster, "llm-0-1", "150m")
        await cluster.parts["operator"].restart()
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Conflict")
        await cluster.settle()
        assert status(cluster)["resize"]["state"] == "Stopped"
        found = condition(cluster, "ResizeConflict")
        assert "llm-0-1: containers[main].resources.requests.cpu" in found["message"]
        assert [cpu_of(cluster, name) for name in ("llm-0", "llm-0-1", "llm-0-2")] == ["100m", "150m", "100m"]
        await order(cluster, "llm-0-2", resize="accept")
        await by_hand(cluster, "llm-0-1", "100m")
        await cluster.until(lambda: resized(cluster) and cpus(cluster) == {"200m"})
        assert uids(cluster) == before


async def test_restarts_that_the_operator_noted_before_it_went_away_are_not_noted_twice() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly", resizePolicy=RESTARTING).size(2))
        before = uids(cluster)
        await edit(cluster, resizePolicy=RESTARTING)
        await cluster.until(lambda: resized(cluster))
        await cluster.parts["operator"].crash()
        await order(cluster, "llm-0-1", crash="now")
        await cluster.until(restarted(cluster, 3))
        await cluster.parts["operator"].restart()
        await cluster.until(lambda: set(uids(cluster).values()).isdisjoint(before.values()))
