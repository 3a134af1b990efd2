"""Groups whose resources change in place, on a whole cluster in this process: rows GR1 to GR16 of the specification."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.builders import LeaderWorkerSet, lws, pod
from tests.installed import installed

from kohort.kube.errors import Forbidden, NotFound, Status
from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    EVENTS,
    LEADER_WORKER_SETS,
    NODES,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

NAMESPACE = "default"
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


@asynccontextmanager
async def cluster_with_groups(nodes: int = 8) -> AsyncIterator[Cluster]:
    async with Cluster(
        parts=("workloads", "scheduler", "operator"), nodes=nodes, contents=installed("workloads")
    ) as cluster:
        yield cluster


def template(cpu: str = "100m", memory: str = "128Mi", **container: Json) -> JsonObject:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return pod().containers({"name": "main", "image": "model", "resources": resources, **container})


def resizable(policy: str = "InPlaceOrRecreate", deadline: int = 420, **container: Json) -> LeaderWorkerSet:
    strategy = {"type": "RollingUpdate", "resourceUpdatePolicy": policy, "resourceUpdateDeadlineSeconds": deadline}
    return lws("llm").replicas(1).size(4).workers(template(**container)).but("spec.rolloutStrategy", strategy)


async def create(cluster: Cluster, subject: JsonObject, groups: int = 1) -> None:
    await cluster.client.create(LEADER_WORKER_SETS, subject, NAMESPACE)
    await cluster.until(lambda: available(cluster, groups))


async def edit(cluster: Cluster, cpu: str = "200m", memory: str = "128Mi", **container: Json) -> None:
    body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": template(cpu, memory, **container)["spec"]}}}}
    await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)


def group_set(cluster: Cluster) -> JsonObject:
    found = cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE)
    assert found is not None
    return found


def status(cluster: Cluster) -> JsonObject:
    found: JsonObject = group_set(cluster).get("status") or {}
    return found


def condition(cluster: Cluster, type: str) -> JsonObject:
    return next((one for one in status(cluster).get("conditions", []) if one["type"] == type), {})


def available(cluster: Cluster, groups: int = 1) -> bool:
    found = group_set(cluster)
    counted = [(found.get("status") or {}).get(key, 0) for key in ("readyReplicas", "updatedReplicas")]
    seen = (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]
    return counted == [groups] * 2 and seen and condition(cluster, "Available").get("status") == "True"


def resized(cluster: Cluster, groups: int = 1) -> bool:
    return available(cluster, groups) and condition(cluster, "ResizeInProgress").get("reason") == "Completed"


def pods(cluster: Cluster) -> dict[str, JsonObject]:
    return {one["metadata"]["name"]: one for one in cluster.objects(PODS, NAMESPACE)}


def uids(cluster: Cluster) -> dict[str, str]:
    return {name: one["metadata"]["uid"] for name, one in pods(cluster).items()}


def cpu_of(cluster: Cluster, name: str) -> str:
    cpu: str = pods(cluster)[name]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return cpu


def cpus(cluster: Cluster) -> set[str]:
    return {cpu_of(cluster, name) for name in pods(cluster)}


def restarts(cluster: Cluster) -> int:
    return sum(one["restartCount"] for each in pods(cluster).values() for one in each["status"]["containerStatuses"])


def restarted(cluster: Cluster, times: int) -> Callable[[], bool]:
    return lambda: restarts(cluster) == times


def revision_labels(cluster: Cluster) -> set[str]:
    return {one["metadata"]["labels"][group_labels.REVISION] for one in pods(cluster).values()}


async def order(cluster: Cluster, name: str, **orders: str) -> None:
    annotations = {f"simulation.kohort.dev/{key.replace('_', '-')}": value for key, value in orders.items()}
    await cluster.client.patch(PODS, name, NAMESPACE, {"metadata": {"annotations": annotations}})


async def test_gr1_a_group_gets_other_resources_without_a_new_pod() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: resized(cluster))
        assert cpus(cluster) == {"200m"}
        assert uids(cluster) == before
        assert restarts(cluster) == 0
        assert revision_labels(cluster) == {status(cluster)["updateRevision"]}


async def test_gr11_nothing_is_left_of_the_adoption() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().replicas(2), 2)
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: resized(cluster, 2))
        await cluster.settle()
        assert uids(cluster) == before
        for one in cluster.objects(STATEFUL_SETS, NAMESPACE):
            assert one["status"]["currentRevision"] == one["status"]["updateRevision"]
            assert one["spec"]["updateStrategy"].get("rollingUpdate", {}).get("partition", 0) == 0
        for one in pods(cluster).values():
            assert group_labels.GROUP_RESIZE not in one["metadata"].get("annotations", {})


async def test_a_policy_of_recreate_recreates() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("Recreate"))
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"200m"})
        assert not set(uids(cluster).values()) & set(before.values())


async def test_gr2_a_deferred_pod_is_waited_for() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        before = uids(cluster)
        await order(cluster, "llm-0-2", resize="deferred", resize_message="no room")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        message = status(cluster)["resize"]["message"]
        assert re.fullmatch(r"group 0: llm-0-2 is deferred on node sim-\d: no room; since \d+ s, until 420 s", message)
        assert condition(cluster, "Available")["status"] == "False"
        assert status(cluster)["resize"]["groups"]["deferred"] == 1
        await order(cluster, "llm-0-2", resize="accept")
        await cluster.until(lambda: resized(cluster))
        assert uids(cluster) == before


async def test_gr3_beyond_the_deadline_the_group_is_recreated() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable(deadline=60))
        before = uids(cluster)
        await order(cluster, "llm-0-2", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"200m"})
        assert not set(uids(cluster).values()) & set(before.values())


async def test_beyond_the_deadline_in_place_only_stops_at_the_old_resources() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly", deadline=60))
        before = uids(cluster)
        await order(cluster, "llm-0-2", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "DeadlineExceeded")
        await cluster.settle()
        assert condition(cluster, "ResizeInProgress")["status"] == "False"
        assert status(cluster)["resize"]["state"] == "Stopped"
        assert uids(cluster) == before
        assert cpus(cluster) == {"100m"}


async def test_gr4_a_node_that_is_too_small_is_noticed_before_the_first_write() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly"))
        generations = {name: one["metadata"]["generation"] for name, one in pods(cluster).items()}
        await edit(cluster, cpu="1000")
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Infeasible")
        await cluster.settle()
        assert {name: one["metadata"]["generation"] for name, one in pods(cluster).items()} == generations


async def test_gr5_a_quota_that_lacks_room_for_the_whole_group_stops_it_before_the_first_write() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "650m"}}}
        await cluster.client.create(QUOTAS, quota, NAMESPACE)
        await asyncio.sleep(10)
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "QuotaExceeded")
        assert cpus(cluster) == {"100m"}
        await cluster.client.patch(QUOTAS, "team", NAMESPACE, {"spec": {"hard": {"requests.cpu": "800m"}}})
        await cluster.until(lambda: resized(cluster))
        assert cpus(cluster) == {"200m"}


async def test_gr6_a_pod_that_fails_gets_its_old_resources_back() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly", deadline=60))
        await order(cluster, "llm-0-1", resize="error", resize_message="memory in use")
        await edit(cluster, cpu="100m", memory="64Mi")
        await cluster.until(lambda: status(cluster).get("resize", {}).get("state") == "Reverting")
        await order(cluster, "llm-0-1", resize="accept")
        await cluster.until(lambda: status(cluster).get("resize", {}).get("state") == "Stopped")
        memory = {one["spec"]["containers"][0]["resources"]["requests"]["memory"] for one in pods(cluster).values()}
        assert memory == {"128Mi"}


async def test_gr7_a_container_that_must_restart_means_an_ordinary_roll() -> None:
    async with cluster_with_groups() as cluster:
        restarting = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        await create(cluster, resizable(resizePolicy=restarting))
        before = uids(cluster)
        await edit(cluster, resizePolicy=restarting)
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"200m"})
        assert not set(uids(cluster).values()) & set(before.values())
        said = {one["message"] for one in cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "GroupRecreate"}
        assert any("its resizePolicy restarts main, and restarts recreate the group" in one for one in said), said


async def test_expected_restarts_do_not_recreate_a_group() -> None:
    async with cluster_with_groups() as cluster:
        restarting = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        await create(cluster, resizable("InPlaceOnly", resizePolicy=restarting))
        before = uids(cluster)
        await edit(cluster, resizePolicy=restarting)
        await cluster.until(lambda: resized(cluster))
        await cluster.settle()
        assert uids(cluster) == before
        assert restarts(cluster) == 4


async def test_gr8_a_container_that_inherits_the_limit_of_the_pod_and_must_restart_for_it_means_a_roll() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().size(2).workers(limited_pod("1")))
        before = uids(cluster)
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, workers(limited_pod("2")))
        await cluster.until(lambda: available(cluster) and pod_limits(cluster) == {"2"})
        assert not set(uids(cluster).values()) & set(before.values())
        assert restarts(cluster) == 0


async def test_a_limit_of_the_pod_changes_in_place() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().size(2).workers(limited_pod("1", restarts=False)))
        before = uids(cluster)
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, workers(limited_pod("2", restarts=False)))
        await cluster.until(lambda: resized(cluster))
        assert pod_limits(cluster) == {"2"}
        assert uids(cluster) == before


def limited_pod(cpu: str, *, restarts: bool = True) -> JsonObject:
    """A pod with a limit for all of its containers, of which one has none of its own."""
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer" if restarts else "NotRequired"}]
    container = {"name": "main", "image": "model", "resources": {"requests": {"cpu": "100m"}}, "resizePolicy": policy}
    limited = pod().containers(container)
    limited["spec"]["resources"] = {"requests": {"cpu": "500m"}, "limits": {"cpu": cpu}}
    return limited


def workers(subject: JsonObject) -> JsonObject:
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": subject["spec"]}}}}


def pod_limits(cluster: Cluster) -> set[str]:
    return {one["spec"]["resources"]["limits"]["cpu"] for one in pods(cluster).values()}


async def by_hand(cluster: Cluster, name: str, cpu: str) -> None:
    """What kubectl patch --subresource resize does."""
    body = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    await cluster.client.patch(PODS, name, NAMESPACE, body, PatchType.STRATEGIC, "resize")


async def test_a_restart_by_a_resize_of_another_client_does_not_recreate_the_group() -> None:
    restarting = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("Recreate", resizePolicy=restarting).size(2))
        before = uids(cluster)
        for number, cpu in enumerate(("150m", "180m"), start=1):
            await by_hand(cluster, "llm-0-1", cpu)
            await cluster.until(restarted(cluster, number))
            await cluster.settle()
            assert uids(cluster) == before
        await cluster.parts["operator"].crash()
        await cluster.parts["operator"].restart()
        await cluster.settle()
        assert uids(cluster) == before
        await order(cluster, "llm-0-1", crash="now")
        await cluster.until(lambda: set(uids(cluster).values()).isdisjoint(before.values()))


async def test_a_restart_without_a_resize_policy_still_recreates_the_group() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("Recreate").size(2))
        before = uids(cluster)
        await by_hand(cluster, "llm-0-1", "150m")
        await cluster.settle()
        assert uids(cluster) == before
        await order(cluster, "llm-0-1", crash="now")
        await cluster.until(lambda: set(uids(cluster).values()).isdisjoint(before.values()))


async def test_expected_restarts_of_one_container_are_kept_when_another_one_is_resized() -> None:
    restarting = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]

    def two(first: str, second: str) -> JsonObject:
        amounts = {"main": first, "other": second}
        return pod().containers(
            *(
                {"name": name, "image": "model", "resources": {"requests": {"cpu": cpu}}, "resizePolicy": restarting}
                for name, cpu in amounts.items()
            )
        )

    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").size(2).workers(two("100m", "100m")))
        before = uids(cluster)
        for first, second, expected in (("200m", "100m", 2), ("200m", "200m", 4)):
            await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, workers(two(first, second)))
            await cluster.until(restarted(cluster, expected))
            await cluster.until(lambda: resized(cluster))
            await cluster.settle()
            assert uids(cluster) == before


async def test_gr9_an_operator_that_is_killed_goes_on() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        before = uids(cluster)
        await order(cluster, "llm-0-3", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        await cluster.parts["operator"].crash()
        await order(cluster, "llm-0-3", resize="accept")
        await cluster.parts["operator"].restart()
        await cluster.until(lambda: resized(cluster))
        assert uids(cluster) == before


async def test_gr10_a_worker_that_is_lost_midway_is_replaced_and_resized() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().restart("None"))
        await order(cluster, "llm-0-3", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        before = uids(cluster)
        await cluster.client.delete(PODS, "llm-0-3", NAMESPACE)
        await cluster.until(lambda: resized(cluster))
        after = uids(cluster)
        assert cpus(cluster) == {"200m"}
        assert {name for name in after if after[name] != before[name]} == {"llm-0-3"}


async def test_gr12_a_pod_that_is_lost_afterwards_comes_back_at_the_new_size() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        await edit(cluster)
        await cluster.until(lambda: resized(cluster))
        await cluster.client.delete(PODS, "llm-0", NAMESPACE)
        await cluster.settle()
        await cluster.until(lambda: available(cluster))
        assert cpus(cluster) == {"200m"}


async def note_new_pods(cluster: Cluster, created: list[str]) -> None:
    known = set(uids(cluster).values())
    async for event in cluster.client.watch(PODS, NAMESPACE):
        metadata = event.object["metadata"]
        if event.type == "ADDED" and metadata["uid"] not in known:
            cpu = event.object["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            created.append(f"{metadata['name']} {cpu}")


async def test_gr13_a_pod_that_is_lost_before_the_adoption_comes_back_at_the_old_size_and_is_resized() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().restart("None"))
        await order(cluster, "llm-0-3", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        before = uids(cluster)
        assert cpu_of(cluster, "llm-0-1") == "200m"
        created: list[str] = []
        watching = asyncio.create_task(note_new_pods(cluster, created))
        await asyncio.sleep(1)
        await cluster.client.delete(PODS, "llm-0-1", NAMESPACE)
        await cluster.until(lambda: bool(created))
        assert created == ["llm-0-1 100m"]
        await order(cluster, "llm-0-3", resize="accept")
        await cluster.until(lambda: resized(cluster))
        watching.cancel()
        assert cpus(cluster) == {"200m"}
        after = uids(cluster)
        assert {name for name in after if after[name] != before[name]} == {"llm-0-1"}


def without_resize(cluster: Cluster) -> None:
    """The operator meets an API server older than the subresource."""
    missing = NotFound(Status(message="the server could not find the requested resource", code=404))
    cluster.faults("operator").refuse(missing, on=lambda request: request.path.endswith("/resize"), times=None)


async def test_gr14_a_cluster_that_cannot_resize_rolls_and_says_why() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        without_resize(cluster)
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"200m"})
        assert not set(uids(cluster).values()) & set(before.values())
        said = [one["message"] for one in cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "GroupRecreate"]
        assert "the cluster does not serve pods/resize" in said[0]


async def test_r10_in_place_only_stops_where_the_cluster_cannot_resize_and_says_why() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly"))
        without_resize(cluster)
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "NotSupported")
        await cluster.settle()
        found = condition(cluster, "ResizeInProgress")
        assert found["status"] == "False"
        assert "the cluster does not serve pods/resize" in found["message"]
        assert (uids(cluster), cpus(cluster)) == (before, {"100m"})


async def test_gr14_a_cluster_without_resizes_at_pod_level_rolls() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().size(2).workers(limited_pod("1", restarts=False)))
        without_pod_level(cluster)
        before = uids(cluster)
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, workers(limited_pod("2", restarts=False)))
        await cluster.until(lambda: available(cluster) and pod_limits(cluster) == {"2"})
        assert not set(uids(cluster).values()) & set(before.values())


async def test_r10_in_place_only_stops_where_a_node_cannot_resize_pods_as_a_whole() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").size(2).workers(limited_pod("1", restarts=False)))
        without_pod_level(cluster)
        before = uids(cluster)
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, workers(limited_pod("2", restarts=False)))
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "NotSupported")
        assert "InPlacePodLevelResourcesVerticalScaling" in condition(cluster, "ResizeInProgress")["message"]
        assert (uids(cluster), pod_limits(cluster)) == (before, {"1"})


def without_pod_level(cluster: Cluster) -> None:
    """As the API server refuses it for a node that does not declare the feature."""
    feature = "InPlacePodLevelResourcesVerticalScaling"
    text = f'pods "llm-0" is forbidden: pod update requires features {feature} which are not available on node "n"'
    refusal = Forbidden(Status(message=text, code=403))
    cluster.faults("operator").refuse(refusal, on=lambda request: request.path.endswith("/resize"), times=None)


async def test_gr15_another_quality_of_service_means_an_ordinary_roll() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        before = uids(cluster)
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
        await edit(cluster, resources=resources)
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"1"})
        assert not set(uids(cluster).values()) & set(before.values())


async def test_gr16_shrinking_comes_before_growing() -> None:
    async with cluster_with_groups(nodes=1) as cluster:
        (node,) = cluster.objects(NODES)
        room = int(node["status"]["allocatable"]["cpu"])
        small, large = str(room - 5), "1"
        await create(cluster, resizable().size(2).leader(template(small)).workers(template(large)))
        before = uids(cluster)
        template_edit = {
            "leaderTemplate": {"spec": template(large)["spec"]},
            "workerTemplate": {"spec": template(small)["spec"]},
        }
        await cluster.client.patch(
            LEADER_WORKER_SETS, "llm", NAMESPACE, {"spec": {"leaderWorkerTemplate": template_edit}}
        )
        await cluster.until(lambda: resized(cluster))
        assert uids(cluster) == before
        assert cpus(cluster) == {small, large}


async def test_groups_are_resized_from_the_highest_index_down_to_the_partition() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().replicas(3).size(2).partition(1), 3)
        await edit(cluster)
        await cluster.until(lambda: status(cluster).get("updatedReplicas") == 2)
        await cluster.settle()
        sizes = {
            name: one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for name, one in pods(cluster).items()
        }
        assert {name for name, cpu in sizes.items() if cpu == "100m"} == {"llm-0", "llm-0-1"}


@pytest.mark.parametrize(("unavailable", "at_once"), [(0, 1), (1, 1), (2, 2)])
async def test_at_most_as_many_groups_as_may_be_away_are_resized_at_a_time(unavailable: int, at_once: int) -> None:
    """And only those that are through count as updated (R2, R6)."""
    async with cluster_with_groups() as cluster:
        subject = resizable("InPlaceOnly").replicas(4).size(2)
        away: JsonObject = {"maxUnavailable": unavailable, "maxSurge": 0 if unavailable else 1}
        await create(cluster, subject.but("spec.rolloutStrategy.rollingUpdateConfiguration", away), 4)
        for index in range(4):
            await order(cluster, f"llm-{index}-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: (status(cluster).get("resize") or {}).get("groups", {}).get("deferred") == at_once)
        await asyncio.sleep(60)
        waiting = {name for index in range(4 - at_once) for name in (f"llm-{index}", f"llm-{index}-1")}
        assert {name for name in pods(cluster) if cpu_of(cluster, name) == "100m"} == waiting
        assert status(cluster).get("updatedReplicas", 0) == 0
        await order(cluster, "llm-3-1", resize="accept")
        await cluster.until(lambda: status(cluster).get("updatedReplicas") == 1)
        assert status(cluster)["resize"]["groups"]["adopted"] == 1
        for index in range(3):
            await order(cluster, f"llm-{index}-1", resize="accept")
        await cluster.until(lambda: resized(cluster, 4))


async def test_undo_is_in_place_too() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        before, first = uids(cluster), status(cluster)["updateRevision"]
        await edit(cluster)
        await cluster.until(lambda: resized(cluster))
        await edit(cluster, cpu="100m")
        await cluster.until(lambda: resized(cluster) and status(cluster)["updateRevision"] == first)
        assert cpus(cluster) == {"100m"}
        assert uids(cluster) == before
        assert len(cluster.objects(CONTROLLER_REVISIONS, NAMESPACE)) >= 2


async def test_another_edit_midway_reverts_first() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        before = uids(cluster)
        await order(cluster, "llm-0-2", resize="deferred")
        await edit(cluster, cpu="200m")
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        await order(cluster, "llm-0-2", resize="accept")
        await edit(cluster, cpu="300m")
        await cluster.until(lambda: resized(cluster) and cpus(cluster) == {"300m"})
        assert uids(cluster) == before


async def test_amounts_of_someone_else_are_reported_and_kept() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly"))
        by_hand = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "150m"}}}]}}
        await cluster.client.patch(PODS, "llm-0-1", NAMESPACE, by_hand, PatchType.STRATEGIC, "resize")
        await cluster.until(lambda: condition(cluster, "ResizeConflict").get("status") == "True")
        assert "llm-0-1: containers[main].resources.requests.cpu" in condition(cluster, "ResizeConflict")["message"]
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Conflict")
        assert cpus(cluster) == {"100m", "150m"}


async def test_another_network_together_with_other_resources_means_an_ordinary_roll() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().size(2))
        before = uids(cluster)
        worker = {"workerTemplate": {"spec": template("200m")["spec"]}}
        body = {"spec": {"leaderWorkerTemplate": worker, "networkConfig": {"subdomainPolicy": "UniquePerReplica"}}}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"200m"})
        assert not set(uids(cluster).values()) & set(before.values())
        assert {one["spec"]["subdomain"] for one in pods(cluster).values()} == {"llm-0"}


@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])
async def test_a_group_that_found_no_node_is_recreated_at_the_size_that_is_wanted_then(policy: str) -> None:
    """Pods without a node run nothing and cannot be resized: waiting for them to become ready would never end."""
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable())
        await edit(cluster, cpu="1000")
        await cluster.until(lambda: not pods(cluster)["llm-0"]["spec"].get("nodeName"))
        await cluster.settle()
        body = {"spec": {"rolloutStrategy": {"resourceUpdatePolicy": policy}}}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)
        await edit(cluster, cpu="150m")
        await cluster.until(lambda: available(cluster) and cpus(cluster) == {"150m"})
