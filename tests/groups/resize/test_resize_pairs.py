"""Resizes of groups together with what else happens to a set."""

import asyncio

import pytest
from tests.groups.drains import drain
from tests.groups.resize.test_group_resizes import (
    QUOTAS,
    available,
    by_hand,
    cluster_with_groups,
    condition,
    cpu_of,
    cpus,
    create,
    edit,
    order,
    pods,
    resizable,
    resized,
    restarts,
    status,
    template,
    uids,
)

from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")


async def patch(cluster: Cluster, **spec: Json) -> None:
    await cluster.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": spec})


def reason(cluster: Cluster) -> str:
    found: str = condition(cluster, "ResizeInProgress").get("reason", "")
    return found


@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])
async def test_r1_an_image_in_the_same_edit_means_an_ordinary_roll_and_the_condition_says_so(policy: str) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable(policy).replicas(2).size(2), 2)
        before = uids(cluster)
        seen: list[JsonObject] = []

        def rolled() -> bool:
            seen.append(condition(cluster, "ResizeInProgress"))
            return available(cluster, 2) and cpus(cluster) == {"200m"}

        slow = {"metadata": {"annotations": {"simulation.kohort.dev/ready-latency": "30s"}}}
        for node in cluster.objects(NODES):
            await cluster.client.patch(NODES, node["metadata"]["name"], "", slow)
        await edit(cluster, image="model:2")
        await cluster.until(rolled)
        said = [one for one in seen if one.get("reason") == "NotSupported"]
        assert said and said[0]["status"] == "False"
        assert said[0]["message"] == "groups are recreated by an ordinary roll: more than cpu and memory changes"
        await cluster.until(lambda: reason(cluster) == "Completed")
        assert set(uids(cluster).values()).isdisjoint(before.values())


async def test_r1_an_edit_without_other_amounts_is_none_of_its_business() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").size(2))
        before = uids(cluster)
        await edit(cluster, cpu="100m", image="model:2")
        await cluster.until(lambda: available(cluster) and set(uids(cluster).values()).isdisjoint(before.values()))
        assert condition(cluster, "ResizeInProgress") == {}


async def test_another_size_in_the_same_edit_means_an_ordinary_roll() -> None:
    async with cluster_with_groups() as cluster:
        subject = resizable("InPlaceOnly").size(2).but("spec.leaderWorkerTemplate.resizePolicy", "Recreate")
        await create(cluster, subject)
        before = uids(cluster)
        await patch(cluster, leaderWorkerTemplate={"size": 3, "workerTemplate": {"spec": template("200m")["spec"]}})
        await cluster.until(lambda: available(cluster) and len(pods(cluster)) == 3 and cpus(cluster) == {"200m"})
        assert set(uids(cluster).values()).isdisjoint(before.values())


async def test_groups_that_are_added_during_a_resize_get_the_new_resources_too() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().replicas(2).size(2), 2)
        before = uids(cluster)
        await order(cluster, "llm-1-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        await patch(cluster, replicas=4)
        await cluster.until(lambda: len(pods(cluster)) == 8)
        await order(cluster, "llm-1-1", resize="accept")
        await cluster.until(lambda: resized(cluster, 4))
        assert cpus(cluster) == {"200m"}
        after = uids(cluster)
        assert {name: after[name] for name in before} == before


async def test_a_group_under_way_that_is_scaled_away_does_not_hold_the_others() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").replicas(3).size(2), 3)
        before = uids(cluster)
        await order(cluster, "llm-2-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        await patch(cluster, replicas=2)
        await cluster.until(lambda: resized(cluster, 2) and len(pods(cluster)) == 4)
        assert cpus(cluster) == {"200m"}
        assert uids(cluster) == {name: before[name] for name in uids(cluster)}


async def test_an_undo_during_a_resize_is_in_place() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").replicas(3).size(2), 3)
        before, first = uids(cluster), status(cluster)["updateRevision"]
        await order(cluster, "llm-1-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        assert cpu_of(cluster, "llm-2") == "200m"
        await edit(cluster, cpu="100m")
        await cluster.until(lambda: resized(cluster, 3) and status(cluster)["updateRevision"] == first)
        assert (uids(cluster), cpus(cluster), restarts(cluster)) == (before, {"100m"}, 0)


@pytest.mark.parametrize(("hard", "goes"), [("800m", True), ("799m", False)], ids=["just enough", "one short"])
async def test_a_quota_to_the_last_bit(hard: str, goes: bool) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly"))
        await cluster.client.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": hard}}}, "default")
        await asyncio.sleep(10)
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == ("Completed" if goes else "QuotaExceeded"))
        assert cpus(cluster) == {"200m" if goes else "100m"}


@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])
@pytest.mark.parametrize("range", [{"max": {"cpu": "150m"}}, {"max": {"cpu": "150m"}, "default": {"cpu": "150m"}}])
async def test_no_group_is_touched_for_amounts_that_a_limit_range_forbids(policy: str, range: JsonObject) -> None:
    """New pods would be refused like the running ones, so recreating a group would only lose it."""
    async with cluster_with_groups() as cluster:
        await cluster.client.create(
            LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **range}]}}, "default"
        )
        await create(cluster, resizable(policy).replicas(2).size(2), 2)
        before = {name: (one["metadata"]["uid"], one["metadata"]["generation"]) for name, one in pods(cluster).items()}
        await edit(cluster)
        await cluster.until(lambda: status(cluster).get("resize", {}).get("state") == "Stopped")
        await cluster.settle()
        assert reason(cluster) == "Infeasible"
        assert "150m" in condition(cluster, "ResizeInProgress")["message"]
        after = {name: (one["metadata"]["uid"], one["metadata"]["generation"]) for name, one in pods(cluster).items()}
        assert after == before
        await cluster.client.delete(LIMIT_RANGES, "l", "default")
        await edit(cluster, cpu="140m")
        await cluster.until(lambda: resized(cluster, 2))


@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])
async def test_a_limit_range_that_came_after_the_pods_stops_a_resize_and_touches_nothing(policy: str) -> None:
    """It fills in a limit of the resize, which the request is above; the pods that run have none."""
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable(policy).replicas(2).size(2), 2)
        before = uids(cluster)
        ranges = [{"type": "Container", "max": {"cpu": "150m"}}]
        await cluster.client.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": ranges}}, "default")
        await edit(cluster)
        await cluster.until(lambda: status(cluster).get("resize", {}).get("state") == "Stopped")
        await cluster.settle()
        assert (reason(cluster), uids(cluster), cpus(cluster)) == ("Infeasible", before, {"100m"})


async def test_a_quota_without_room_keeps_a_group_from_being_recreated_too() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOrRecreate").size(2))
        await cluster.client.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1"}}}, "default")
        await asyncio.sleep(10)
        before = uids(cluster)
        await edit(cluster, cpu="5k")
        await cluster.until(lambda: reason(cluster) == "QuotaExceeded")
        await cluster.settle()
        assert (uids(cluster), status(cluster)["resize"]["state"]) == (before, "Stopped")


@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])
async def test_amounts_finer_than_the_api_server_stores(policy: str) -> None:
    """Pods get 334m for 0.3333, and 1m for 1n: that is what the template asks for, and no one else's change."""
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable(policy).replicas(2).size(2), 2)
        before = uids(cluster)
        for written, stored in (("0.3333", "334m"), ("334m", "334m"), ("1n", "1m")):
            await edit(cluster, cpu=written)
            await cluster.until(lambda: resized(cluster, 2) and cpus(cluster) == {stored})  # noqa: B023
            assert condition(cluster, "ResizeConflict").get("status", "False") == "False"
        assert (uids(cluster), restarts(cluster)) == (before, 0)


async def test_a_resize_is_not_completed_while_a_group_waits_to_be_recreated() -> None:
    """No node can ever hold the new size: the first group is lost to it, and the status says so and why."""
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOrRecreate").replicas(2).size(2), 2)
        await edit(cluster, cpu="5k")
        await cluster.until(lambda: cpu_of(cluster, "llm-1") == "5k" if "llm-1" in pods(cluster) else False)
        await cluster.settle()
        assert reason(cluster) != "Completed"
        assert status(cluster)["resize"]["groups"]["adopted"] == 0
        assert cpu_of(cluster, "llm-0") == "100m"


@pytest.mark.parametrize("story", ["a pod is lost", "a pod can never fit"])
async def test_containers_restart_in_one_group_at_a_time(story: str) -> None:
    """With maxUnavailable 1, no group restarts its containers while another one is still on its way back."""
    fewest = 3
    async with cluster_with_groups() as cluster:
        slow = {f"simulation.kohort.dev/{one}-latency": "3s" for one in ("start", "ready")}
        for node in cluster.objects(NODES):
            await cluster.client.patch(NODES, node["metadata"]["name"], "", {"metadata": {"annotations": slow}})
        policy = "InPlaceOnly" if story == "a pod is lost" else "InPlaceOrRecreate"
        subject = resizable(policy, resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}])
        await create(cluster, subject.replicas(3).size(2).restart("None"), 3)
        if story == "a pod can never fit":
            await order(cluster, "llm-2-1", resize="infeasible")
        await edit(cluster, resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}])
        if story == "a pod is lost":
            await cluster.client.delete(PODS, "llm-2", "default")

        def done() -> bool:
            nonlocal fewest
            fewest = min(fewest, ready_groups(cluster))
            return available(cluster, 3) and cpus(cluster) == {"200m"}

        await cluster.until(done)
        assert fewest == 2


def ready_groups(cluster: Cluster) -> int:
    ready: dict[str, list[bool]] = {}
    for name, one in pods(cluster).items():
        conditions = {each["type"]: each["status"] for each in one.get("status", {}).get("conditions", ())}
        ready.setdefault(name.split("-")[1], []).append(conditions.get("Ready") == "True")
    return sum(len(found) == 2 and all(found) for found in ready.values())


async def test_a_pod_that_someone_changed_does_not_keep_the_other_groups_from_their_end() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOrRecreate").replicas(3).size(2), 3)
        await by_hand(cluster, "llm-1-1", "170m")
        await cluster.until(lambda: condition(cluster, "ResizeConflict").get("status") == "True")
        await edit(cluster)
        seen: list[tuple[str, str]] = []

        def stopped() -> bool:
            found = condition(cluster, "ResizeInProgress")
            seen.append((status(cluster).get("resize", {}).get("state", ""), found.get("status", "")))
            return found.get("reason") == "Conflict"

        await cluster.until(stopped)
        assert [cpu_of(cluster, name) for name in ("llm-0", "llm-1", "llm-2")] == ["200m", "100m", "200m"]
        assert all((state == "Stopped") == (value == "False") for state, value in seen if state and value)
        assert "llm-1-1" in status(cluster)["resize"]["message"]


async def test_a_resize_by_an_autoscaler_at_the_same_time_is_kept_and_reported() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOrRecreate").size(3))
        before = uids(cluster)
        await order(cluster, "llm-0-2", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        await by_hand(cluster, "llm-0-1", "170m")
        await cluster.until(lambda: reason(cluster) == "Conflict")
        await cluster.settle()
        assert [cpu_of(cluster, name) for name in ("llm-0", "llm-0-1", "llm-0-2")] == ["100m", "170m", "100m"]
        assert "llm-0-1: containers[main].resources.requests.cpu" in condition(cluster, "ResizeConflict")["message"]
        assert uids(cluster) == before


async def test_a_pod_lost_midway_recreates_its_group_within_its_budget_and_the_resize_goes_on() -> None:
    async with cluster_with_groups() as cluster:
        budget = {"maxRestarts": 3, "windowSeconds": 3600, "backoffSeconds": 0}
        subject = resizable("InPlaceOnly").replicas(2).size(2)
        await create(cluster, subject.but("spec.leaderWorkerTemplate.restartBudget", budget), 2)
        before = uids(cluster)
        await order(cluster, "llm-1-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        await cluster.client.delete(PODS, "llm-1-1", "default")
        await cluster.until(lambda: resized(cluster, 2))
        assert cpus(cluster) == {"200m"}
        after = uids(cluster)
        assert {name for name in after if after[name] != before[name]} == {"llm-1", "llm-1-1"}
        assert condition(cluster, "GroupsExhausted").get("status", "False") == "False"


@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])
async def test_a_node_that_gives_nothing_back_does_not_hold_the_others(policy: str) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable(policy, deadline=30).replicas(2).size(2), 2)
        before = uids(cluster)
        await order(cluster, "llm-1-1", resize="error")
        await edit(cluster)
        if policy == "InPlaceOnly":
            await cluster.until(lambda: reason(cluster) == "DeadlineExceeded")
            assert (uids(cluster), cpus(cluster)) == (before, {"100m"})
            return
        await cluster.until(lambda: available(cluster, 2) and cpus(cluster) == {"200m"})
        after = uids(cluster)
        assert {name for name in after if after[name] != before[name]} == {"llm-1", "llm-1-1"}


async def test_amounts_that_someone_gave_a_pod_as_a_whole_are_reported_and_kept() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOrRecreate").size(2))
        whole = {"spec": {"resources": {"requests": {"cpu": "300m"}}}}
        await cluster.client.patch(PODS, "llm-0-1", "default", whole, PatchType.STRATEGIC, subresource="resize")
        await cluster.until(lambda: condition(cluster, "ResizeConflict").get("status") == "True")
        assert "llm-0-1: spec.resources.requests.cpu" in condition(cluster, "ResizeConflict")["message"]
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Conflict")
        assert cpus(cluster) == {"100m"}


async def test_a_limit_that_someone_gave_a_pod_is_gone_with_a_new_pod() -> None:
    """No LimitRange filled it in, so that a new pod is admitted with more."""
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOrRecreate").size(2))
        before = uids(cluster)
        limits = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "150m"}}}]}}
        await cluster.client.patch(PODS, "llm-0-1", "default", limits, PatchType.STRATEGIC, subresource="resize")
        await cluster.settle()
        await edit(cluster)
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"200m"})
        assert set(uids(cluster).values()).isdisjoint(before.values())


async def test_a_drain_during_a_resize_takes_one_group_at_a_time_and_both_end() -> None:
    """The node of a group under way is drained: that group returns elsewhere, at the new size; the others stay."""
    async with cluster_with_groups() as cluster:
        subject = resizable("InPlaceOnly").replicas(3).size(2).but("spec.disruptionBudget", {"maxUnavailable": 1})
        await create(cluster, subject, 3)
        before = uids(cluster)
        await order(cluster, "llm-2-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: reason(cluster) == "Deferred")
        node = pods(cluster)["llm-2-1"]["spec"]["nodeName"]
        there = {name.split("-")[1] for name, one in pods(cluster).items() if one["spec"]["nodeName"] == node}
        await drain(cluster.client, node)
        await cluster.until(lambda: resized(cluster, 3))
        assert node not in {one["spec"]["nodeName"] for one in pods(cluster).values()}
        assert (cpus(cluster), restarts(cluster)) == ({"200m"}, 0)
        after = uids(cluster)
        assert {name.split("-")[1] for name in after if after[name] != before[name]} == there
        assert condition(cluster, "ResizeConflict").get("status", "False") == "False"


async def test_a_group_with_a_rack_of_its_own_is_resized_there_and_recreated_in_one_of_its_own() -> None:
    settings: JsonObject = {"topology": {"rack": 4}}
    parts = ("workloads", "scheduler", "operator")
    async with Cluster(parts=parts, nodes=8, node_settings=settings) as cluster:
        await create(cluster, resizable("InPlaceOrRecreate").replicas(2).size(2).exclusive("rack"), 2)
        before, places = uids(cluster), racks(cluster)
        await order(cluster, "llm-0-1", resize="infeasible")
        await edit(cluster)
        await cluster.until(lambda: available(cluster, 2) and cpus(cluster) == {"200m"})
        after = uids(cluster)
        assert {name for name in after if after[name] != before[name]} == {"llm-0", "llm-0-1"}
        assert racks(cluster)["1"] == places["1"]
        assert all(len(found) == 1 for found in racks(cluster).values())
        assert racks(cluster)["0"].isdisjoint(racks(cluster)["1"])


def racks(cluster: Cluster) -> dict[str, set[str]]:
    """Of each group: the racks that its pods are in."""
    rack_of = {one["metadata"]["name"]: one["metadata"]["labels"]["rack"] for one in cluster.objects(NODES)}
    found: dict[str, set[str]] = {}
    for name, one in pods(cluster).items():
        found.setdefault(name.split("-")[1], set()).add(rack_of[one["spec"]["nodeName"]])
    return found
