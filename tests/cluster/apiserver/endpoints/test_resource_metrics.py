"""The resource metrics API on a cluster with simulated nodes, and from the summaries of node agents."""

import msgspec
import pytest
from tests.builders import lws, pod

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.endpoints.resource_metrics import measured_usage
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, Resource
from kohort.objects.json_types import JsonObject
from kohort.rules.simulation_labels import USAGE
from kohort.testing import Cluster

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
PATH = "/apis/metrics.k8s.io/v1beta1"
NAMESPACE = "default"


async def get(client: Client, path: str) -> JsonObject:
    document: JsonObject = msgspec.json.decode(await client.raw("GET", PATH + path))
    return document


def requesting_set() -> JsonObject:
    requests = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    template = pod().containers({"name": "main", "image": "model:1", "resources": requests})
    return lws("llm").replicas(2).size(2).workers(template)


async def running(cluster: Cluster) -> None:
    await cluster.client.create(LEADER_WORKER_SETS, requesting_set(), NAMESPACE)
    await cluster.until(
        lambda: (
            ((cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE) or {}).get("status") or {}).get("readyReplicas") == 2
        )
    )


def new_cluster() -> Cluster:
    return Cluster(parts=("workloads", "scheduler", "operator"), nodes=2)


async def test_pods_of_simulated_nodes_use_half_of_their_requests_or_what_they_say() -> None:
    async with new_cluster() as cluster:
        await running(cluster)
        annotations = {USAGE: "cpu=900m,memory=2Gi"}
        await cluster.client.patch(PODS, "llm-0", NAMESPACE, {"metadata": {"annotations": annotations}})
        found = await get(cluster.client, f"/namespaces/{NAMESPACE}/pods")
        usages = {one["metadata"]["name"]: one["containers"][0]["usage"] for one in found["items"]}
        assert usages["llm-0"] == {"cpu": "900000000n", "memory": f"{2 * 1024 * 1024}Ki"}
        assert usages["llm-1"] == {"cpu": "250000000n", "memory": f"{512 * 1024}Ki"}
        assert found["kind"] == "PodMetricsList"
        one = await get(cluster.client, f"/namespaces/{NAMESPACE}/pods/llm-1")
        assert (one["kind"], one["window"], one["containers"][0]["name"]) == ("PodMetrics", "15s", "main")


async def test_nodes_use_what_their_pods_use_while_they_are_ready() -> None:
    async with new_cluster() as cluster:
        await running(cluster)
        found = await get(cluster.client, "/nodes")
        total = sum(int(one["usage"]["cpu"].removesuffix("n")) for one in found["items"])
        assert (found["kind"], len(found["items"]), total) == ("NodeMetricsList", 2, 4 * 250_000_000)
        lost = {"metadata": {"annotations": {"simulation.kohort.dev/not-ready": "true"}}}
        await cluster.client.patch(NODES, "sim-0", "", lost)
        await cluster.settle(quiet=5)
        assert [one["metadata"]["name"] for one in (await get(cluster.client, "/nodes"))["items"]] == ["sim-1"]
        with pytest.raises(NotFound, match=r'nodemetrics\.metrics\.k8s\.io "sim-0" not found'):
            await get(cluster.client, "/nodes/sim-0")


async def test_pods_are_selected_by_labels_and_by_name() -> None:
    async with new_cluster() as cluster:
        await running(cluster)
        leaders = "leaderworkerset.sigs.k8s.io/worker-index=0"
        found = await cluster.client.raw("GET", f"{PATH}/pods", query=(("labelSelector", leaders),))
        assert [one["metadata"]["name"] for one in msgspec.json.decode(found)["items"]] == ["llm-0", "llm-1"]
        found = await cluster.client.raw("GET", f"{PATH}/pods", query=(("fieldSelector", "metadata.name=llm-0-1"),))
        assert [one["metadata"]["name"] for one in msgspec.json.decode(found)["items"]] == ["llm-0-1"]
        with pytest.raises(NotFound, match=r'podmetrics\.metrics\.k8s\.io "default/none" not found'):
            await get(cluster.client, f"/namespaces/{NAMESPACE}/pods/none")
        with pytest.raises(ApiError) as refused:
            await cluster.client.raw("DELETE", f"{PATH}/namespaces/{NAMESPACE}/pods/llm-0")
        assert refused.value.code == 405
        with pytest.raises(ApiError) as wrong:
            await cluster.client.raw("GET", f"{PATH}/pods", query=(("labelSelector", "a in b"),))
        assert wrong.value.code == 400


async def test_it_is_discovered_and_available() -> None:
    async with new_cluster() as cluster:
        groups = msgspec.json.decode(await cluster.client.raw("GET", "/apis"))["groups"]
        assert any(one["name"] == "metrics.k8s.io" for one in groups)
        served = (await get(cluster.client, ""))["resources"]
        assert [(one["name"], one["kind"]) for one in served] == [("nodes", "NodeMetrics"), ("pods", "PodMetrics")]
        found = cluster.find(API_SERVICES, "v1beta1.metrics.k8s.io")
        assert found is not None
        (condition,) = found["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Available", "True")


async def test_only_users_with_a_role_may_read_it() -> None:
    async with new_cluster() as cluster:
        user = User("jane", ("system:authenticated",))
        client = Client(cluster.transport(user))
        with pytest.raises(Forbidden, match=r'cannot list resource "pods" in API group "metrics\.k8s\.io"'):
            await get(client, "/pods")
        binding = {
            "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        await cluster.client.create(CLUSTER_ROLE_BINDINGS, binding)
        await cluster.settle(quiet=5)
        assert (await get(client, "/pods"))["items"] == []


def test_summaries_of_node_agents_are_read() -> None:
    cpu, memory = {"time": "2026-01-01T00:00:00Z", "usageNanoCores": 7, "windowSeconds": 10.0}, {"workingSetBytes": 9}
    containers = [{"name": "main", "cpu": cpu, "memory": memory}, {"name": "new"}]
    summary = {"node": {}, "pods": [{"podRef": {"namespace": "a", "name": "b", "uid": "c"}, "containers": containers}]}
    found = measured_usage(summary)
    assert found.node is None
    assert [*found.containers["a", "b"]] == ["main"]
    assert (found.containers["a", "b"]["main"].cpu, found.containers["a", "b"]["main"].window) == (7, 10.0)
