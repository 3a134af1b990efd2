"""ReplicationControllers on a cluster in this process: scaled, adopting and releasing pods, deleted."""

from tests.cluster.workloads.test_controllers import at_work, template

from kohort.kube.client import PatchType
from kohort.kube.resources import POD_DISRUPTION_BUDGETS, PODS, REPLICATION_CONTROLLERS, RESOURCE_QUOTAS
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster

NS = "default"


def controller(name: str, replicas: int) -> JsonObject:
    return {"metadata": {"name": name, "namespace": NS}, "spec": {"replicas": replicas, "template": template(name)}}


def status(cluster: Cluster, name: str = "web") -> JsonObject:
    return (cluster.find(REPLICATION_CONTROLLERS, name, NS) or {}).get("status") or {}


def owners(pod: JsonObject) -> list[tuple[str, str, bool]]:
    return [
        (each["apiVersion"], each["kind"], each.get("controller", False))
        for each in pod["metadata"].get("ownerReferences") or ()
    ]


async def ready(cluster: Cluster, replicas: int) -> None:
    await cluster.until(
        lambda: (status(cluster).get("readyReplicas") or 0, status(cluster).get("replicas")) == (replicas, replicas)
    )


async def test_pods_are_made_and_counted() -> None:
    async with at_work() as cluster:
        await cluster.client.create(REPLICATION_CONTROLLERS, controller("web", 3))
        await ready(cluster, 3)
        found = status(cluster)
        assert found["observedGeneration"] == 1
        assert (found["availableReplicas"], found["fullyLabeledReplicas"]) == (3, 3)
        assert "terminatingReplicas" not in found
        assert all(owners(pod) == [("v1", "ReplicationController", True)] for pod in cluster.objects(PODS, NS))


async def test_it_is_scaled_by_its_subresource() -> None:
    async with at_work() as cluster:
        await cluster.client.create(REPLICATION_CONTROLLERS, controller("web", 1))
        await ready(cluster, 1)
        body = {"spec": {"replicas": 4}}
        await cluster.client.patch(REPLICATION_CONTROLLERS, "web", NS, body, PatchType.MERGE, "scale")
        await ready(cluster, 4)
        scale = await cluster.client.get(REPLICATION_CONTROLLERS, "web", NS, subresource="scale")
        assert scale["status"] == {"replicas": 4, "selector": "app=web"}
        await cluster.client.patch(
            REPLICATION_CONTROLLERS, "web", NS, {"spec": {"replicas": 0}}, PatchType.MERGE, "scale"
        )
        await cluster.until(lambda: not cluster.objects(PODS, NS))


async def test_it_adopts_pods_that_match_and_releases_those_that_no_longer_do() -> None:
    async with at_work() as cluster:
        stray = {
            "metadata": {"name": "stray", "namespace": NS, "labels": {"app": "web"}},
            "spec": template("web")["spec"],
        }
        await cluster.client.create(PODS, stray)
        await cluster.client.create(REPLICATION_CONTROLLERS, controller("web", 1))
        await ready(cluster, 1)
        (pod,) = cluster.objects(PODS, NS)
        assert owners(pod) == [("v1", "ReplicationController", True)]
        await cluster.client.patch(PODS, "stray", NS, {"metadata": {"labels": {"app": "other"}}})
        await cluster.until(lambda: len(cluster.objects(PODS, NS)) == 2)
        released = cluster.find(PODS, "stray", NS)
        assert released is not None and owners(released) == []


async def test_a_quota_that_is_exceeded_shows_in_a_condition_until_it_is_not() -> None:
    async with at_work() as cluster:
        quota = {"metadata": {"name": "q", "namespace": NS}, "spec": {"hard": {"pods": "2"}}}
        await cluster.client.create(RESOURCE_QUOTAS, quota)
        await cluster.until(lambda: bool((cluster.find(RESOURCE_QUOTAS, "q", NS) or {}).get("status", {}).get("used")))
        await cluster.client.create(REPLICATION_CONTROLLERS, controller("web", 3))
        await cluster.until(lambda: bool(status(cluster).get("conditions")))
        (condition,) = status(cluster)["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "ReplicaFailure",
            "True",
            "FailedCreate",
        )
        assert "exceeded quota: q" in condition["message"]
        await cluster.client.patch(REPLICATION_CONTROLLERS, "web", NS, {"spec": {"replicas": 2}})
        await cluster.until(lambda: not status(cluster).get("conditions"))


async def test_deleting_it_orphans_or_removes_its_pods() -> None:
    async with at_work() as cluster:
        await cluster.client.create(REPLICATION_CONTROLLERS, controller("web", 2))
        await ready(cluster, 2)
        await cluster.client.delete(REPLICATION_CONTROLLERS, "web", NS, propagation="Orphan")
        await cluster.until(lambda: cluster.find(REPLICATION_CONTROLLERS, "web", NS) is None)
        await cluster.settle()
        assert [owners(pod) for pod in cluster.objects(PODS, NS)] == [[], []]
        await cluster.client.create(REPLICATION_CONTROLLERS, controller("web", 2))
        await ready(cluster, 2)
        await cluster.client.delete(REPLICATION_CONTROLLERS, "web", NS, propagation="Background")
        await cluster.until(lambda: not cluster.objects(PODS, NS))


async def test_a_disruption_budget_knows_how_many_pods_it_wants() -> None:
    async with at_work() as cluster:
        await cluster.client.create(REPLICATION_CONTROLLERS, controller("web", 4))
        await ready(cluster, 4)
        spec = {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}
        await cluster.client.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b", "namespace": NS}, "spec": spec})

        def allowed() -> JsonObject:
            return (cluster.find(POD_DISRUPTION_BUDGETS, "b", NS) or {}).get("status") or {}

        await cluster.until(lambda: allowed().get("disruptionsAllowed") == 1)
        assert allowed()["expectedPods"] == 4
