"""The workload controllers at work on a cluster in this process, with nodes on which pods become ready."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kohort.kube.errors import Forbidden, TooManyRequests
from kohort.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

NS = "default"


@asynccontextmanager
async def at_work() -> AsyncIterator[Cluster]:
    async with Cluster(parts=("workloads", "scheduler"), nodes=3) as cluster:
        yield cluster


def template(app: str, image: str = "img:1", **spec: Json) -> JsonObject:
    container = {"name": "main", "image": image}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def deployment(name: str, replicas: int, **spec: Json) -> JsonObject:
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name, "namespace": NS},
        "spec": {"replicas": replicas, "selector": selector, "template": template(name), **spec},
    }


def stateful_set(name: str, replicas: int, **spec: Json) -> JsonObject:
    return {**deployment(name, replicas, serviceName=name, **spec)}


def counter(cluster: Cluster, found: JsonObject | None, name: str) -> int:
    return ((found or {}).get("status") or {}).get(name) or 0


async def ready(cluster: Cluster, resource: Json, name: str, replicas: int) -> JsonObject:
    await cluster.until(lambda: counter(cluster, cluster.find(resource, name, NS), "readyReplicas") == replicas)
    found = cluster.find(resource, name, NS)
    assert found is not None
    return found


def names(cluster: Cluster, resource: Json) -> list[str]:
    return sorted(one["metadata"]["name"] for one in cluster.objects(resource, NS))


async def test_a_deployment_rolls_to_a_new_replica_set_and_keeps_the_old_one() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment("web", 3))
        await ready(cluster, DEPLOYMENTS, "web", 3)
        (first,) = names(cluster, REPLICA_SETS)
        body = {"spec": {"template": template("web", "img:2")}}
        await cluster.client.patch(DEPLOYMENTS, "web", NS, body)
        await cluster.until(lambda: _rolled(cluster, "web", 3))
        sets = {one["metadata"]["name"]: one["spec"]["replicas"] for one in cluster.objects(REPLICA_SETS, NS)}
        assert sets.pop(first) == 0
        assert list(sets.values()) == [3]
        images = {one["spec"]["containers"][0]["image"] for one in cluster.objects(PODS, NS)}
        assert images == {"img:2"}
        found = cluster.find(DEPLOYMENTS, "web", NS)
        assert found is not None
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


async def test_a_longer_wait_for_availability_reaches_the_replica_set_that_is_there() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment("web", 1))
        await ready(cluster, DEPLOYMENTS, "web", 1)
        await cluster.client.patch(DEPLOYMENTS, "web", NS, {"spec": {"minReadySeconds": 7}})
        await cluster.settle()
        (found,) = cluster.objects(REPLICA_SETS, NS)
        assert found["spec"]["minReadySeconds"] == 7


def _rolled(cluster: Cluster, name: str, replicas: int) -> bool:
    found = cluster.find(DEPLOYMENTS, name, NS)
    counters = ("updatedReplicas", "readyReplicas", "replicas", "availableReplicas")
    if found is None or counter(cluster, found, "observedGeneration") != found["metadata"]["generation"]:
        return False
    return all(counter(cluster, found, one) == replicas for one in counters)


async def test_an_ordered_set_comes_up_in_order_with_claims_that_outlive_it() -> None:
    claim: JsonObject = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    async with at_work() as cluster:
        await cluster.client.create(STATEFUL_SETS, stateful_set("db", 3, volumeClaimTemplates=[claim]))
        await ready(cluster, STATEFUL_SETS, "db", 3)
        assert names(cluster, PODS) == ["db-0", "db-1", "db-2"]
        assert names(cluster, PERSISTENT_VOLUME_CLAIMS) == ["data-db-0", "data-db-1", "data-db-2"]
        await cluster.until(
            lambda: all(one["status"]["phase"] == "Bound" for one in cluster.objects(PERSISTENT_VOLUME_CLAIMS, NS))
        )
        await cluster.client.delete(STATEFUL_SETS, "db", NS)
        await cluster.until(lambda: not names(cluster, PODS))
        assert len(names(cluster, PERSISTENT_VOLUME_CLAIMS)) == 3


async def test_a_deleted_claim_takes_its_provisioned_volume_along() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    async with at_work() as cluster:
        await cluster.client.create(
            PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "c", "namespace": NS}, "spec": spec}
        )
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
        pod = {"metadata": {"name": "p", "namespace": NS}, "spec": template("p", volumes=[volume])["spec"]}
        await cluster.client.create(PODS, pod)
        await cluster.until(lambda: bool(cluster.objects(PERSISTENT_VOLUMES)))
        assert "local" in cluster.objects(PERSISTENT_VOLUMES)[0]["spec"], "which follows the fsGroup of a pod"
        await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "c", NS)
        await cluster.settle()
        assert names(cluster, PERSISTENT_VOLUME_CLAIMS) == ["c"], "it is in use"
        await cluster.client.delete(PODS, "p", NS)
        await cluster.until(lambda: not names(cluster, PERSISTENT_VOLUME_CLAIMS))
        await cluster.until(lambda: not cluster.objects(PERSISTENT_VOLUMES))


async def test_a_service_follows_its_pods() -> None:
    service: JsonObject = {"metadata": {"name": "web", "namespace": NS}}
    service["spec"] = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
    async with at_work() as cluster:
        await cluster.client.create(SERVICES, service)
        await cluster.client.create(DEPLOYMENTS, deployment("web", 2))
        await cluster.until(lambda: len(_ready_endpoints(cluster, "web")) == 2)
        await cluster.client.patch(DEPLOYMENTS, "web", NS, {"spec": {"replicas": 1}})
        await cluster.until(lambda: len(_ready_endpoints(cluster, "web")) == 1)


def _ready_endpoints(cluster: Cluster, service: str) -> list[JsonObject]:
    slices = [
        one
        for one in cluster.objects(ENDPOINT_SLICES, NS)
        if one["metadata"]["labels"].get("kubernetes.io/service-name") == service
    ]
    return [entry for one in slices for entry in one.get("endpoints") or [] if entry["conditions"]["ready"]]


async def test_a_job_runs_to_its_end_and_counts_every_pod_once() -> None:
    pod = template("job", restartPolicy="Never")
    job = {"metadata": {"name": "job", "namespace": NS}, "spec": {"completions": 3, "parallelism": 2, "template": pod}}
    async with at_work() as cluster:
        await cluster.client.create(JOBS, job)
        await cluster.until(lambda: counter(cluster, cluster.find(JOBS, "job", NS), "active") == 2)
        for _ in range(3):
            await cluster.until(lambda: any(_running(one) for one in cluster.objects(PODS, NS)))
            victim = next(one for one in cluster.objects(PODS, NS) if _running(one))
            await _finish(cluster, victim["metadata"]["name"])
        await cluster.until(lambda: _has(cluster.find(JOBS, "job", NS), "Complete"))
        found = cluster.find(JOBS, "job", NS)
        assert found is not None
        assert found["status"]["succeeded"] == 3
        assert not any(one["metadata"].get("finalizers") for one in cluster.objects(PODS, NS))


def _running(pod: JsonObject) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


async def _finish(cluster: Cluster, name: str) -> None:
    await cluster.client.patch(PODS, name, NS, {"status": {"phase": "Succeeded"}}, subresource="status")


def _has(obj: JsonObject | None, condition: str) -> bool:
    found = ((obj or {}).get("status") or {}).get("conditions") or []
    return any(one["type"] == condition and one["status"] == "True" for one in found)


async def test_a_budget_lets_one_pod_go_and_no_more() -> None:
    budget: JsonObject = {"metadata": {"name": "b", "namespace": NS}}
    budget["spec"] = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    async with at_work() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment("web", 3))
        await cluster.client.create(POD_DISRUPTION_BUDGETS, budget)
        await ready(cluster, DEPLOYMENTS, "web", 3)
        await cluster.until(
            lambda: counter(cluster, cluster.find(POD_DISRUPTION_BUDGETS, "b", NS), "disruptionsAllowed") == 1
        )
        first, second, _ = names(cluster, PODS)
        await _evict(cluster, first)
        try:
            await _evict(cluster, second)
        except TooManyRequests:
            pass
        else:
            raise AssertionError("a second pod was evicted before the first was replaced")


async def _evict(cluster: Cluster, name: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NS}}
    await cluster.client.create(PODS, eviction, NS, "eviction", name)


async def test_a_namespace_is_emptied_and_then_gone() -> None:
    async with at_work() as cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "x"}})
        await cluster.until(lambda: cluster.find(SERVICE_ACCOUNTS, "default", "x") is not None)
        await cluster.until(lambda: cluster.find(CONFIG_MAPS, "kube-root-ca.crt", "x") is not None)
        await cluster.client.create(
            CONFIG_MAPS, {"metadata": {"name": "held", "namespace": "x", "finalizers": ["a.b/c"]}}
        )
        await cluster.client.delete(NAMESPACES, "x")
        await cluster.until(lambda: _has(cluster.find(NAMESPACES, "x"), "NamespaceFinalizersRemaining"))
        await cluster.client.patch(CONFIG_MAPS, "held", "x", {"metadata": {"finalizers": []}})
        await cluster.until(lambda: cluster.find(NAMESPACES, "x") is None)


async def test_a_template_that_carries_the_hash_label_makes_one_replica_set() -> None:
    async with at_work() as cluster:
        marked = template("web")
        marked["metadata"]["labels"]["pod-template-hash"] = "mine"
        await cluster.client.create(DEPLOYMENTS, deployment("web", 2, template=marked))
        await ready(cluster, DEPLOYMENTS, "web", 2)
        await cluster.settle()
        (made,) = cluster.objects(REPLICA_SETS, NS)
        assert made["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] != "mine"
        found = cluster.find(DEPLOYMENTS, "web", NS)
        assert found is not None and "collisionCount" not in found["status"]


async def test_a_quota_is_credited_when_pods_go() -> None:
    async with at_work() as cluster:
        quota = {"metadata": {"name": "q", "namespace": NS}, "spec": {"hard": {"pods": "1"}}}
        await cluster.client.create(RESOURCE_QUOTAS, quota)
        await cluster.until(lambda: _used(cluster) == "0")
        pod = {"metadata": {"name": "a", "namespace": NS}, "spec": template("a")["spec"]}
        await cluster.client.create(PODS, pod)
        try:
            await cluster.client.create(PODS, {**pod, "metadata": {"name": "b", "namespace": NS}})
        except Forbidden as refusal:
            assert "exceeded quota: q" in refusal.message
        else:
            raise AssertionError("the quota was exceeded")
        await cluster.client.delete(PODS, "a", NS)
        await cluster.until(lambda: _used(cluster) == "0")


def _used(cluster: Cluster) -> str | None:
    found = cluster.find(RESOURCE_QUOTAS, "q", NS) or {}
    used: str | None = ((found.get("status") or {}).get("used") or {}).get("pods")
    return used


async def test_pods_of_a_lost_node_are_moved() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment("web", 1))
        await ready(cluster, DEPLOYMENTS, "web", 1)
        (pod,) = cluster.objects(PODS, NS)
        node = pod["spec"]["nodeName"]
        annotation = {"metadata": {"annotations": {"simulation.kohort.dev/lost": "true"}}}
        await cluster.client.patch(NODES, node, "", annotation)
        await cluster.until(
            lambda: any(one["spec"].get("nodeName") not in (None, node) for one in cluster.objects(PODS, NS))
        )
