"""A quota is credited as soon as a node has applied a shrink, not with the next periodic count."""

import asyncio
from collections.abc import Callable

import pytest

from kohort.kube.client import PatchType
from kohort.kube.resources import PODS, RESOURCE_QUOTAS
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster

NS = "default"
PREFIX = "simulation.kohort.dev/"


def resources(cpu: str) -> JsonObject:
    return {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": cpu, "memory": "1Gi"}}


def pod(cpu: str, **orders: str) -> JsonObject:
    containers = [{"name": "main", "image": "host", "resources": resources(cpu)}]
    metadata = {"name": "p", "namespace": NS, "annotations": {PREFIX + key: text for key, text in orders.items()}}
    return {"metadata": metadata, "spec": {"containers": containers}}


def used(cluster: Cluster, name: str) -> str:
    quota = cluster.find(RESOURCE_QUOTAS, "q", NS) or {}
    return str(((quota.get("status") or {}).get("used") or {}).get(name))


def applied_cpu(cluster: Cluster) -> str:
    found = cluster.find(PODS, "p", NS) or {}
    containers: list[JsonObject] = (found.get("status") or {}).get("containerStatuses") or []
    return "".join(str(each["resources"]["requests"]["cpu"]) for each in containers if "resources" in each)


async def resize(cluster: Cluster, cpu: str) -> None:
    body = {"spec": {"containers": [{"name": "main", "resources": resources(cpu)}]}}
    await cluster.client.patch(PODS, "p", NS, body, PatchType.STRATEGIC, "resize")


async def test_a_shrink_is_credited_when_it_is_applied() -> None:
    async with Cluster(parts=("workloads", "scheduler"), nodes=1) as cluster:
        hard = {"requests.cpu": "8", "limits.cpu": "8"}
        await cluster.client.create(
            RESOURCE_QUOTAS, {"metadata": {"name": "q", "namespace": NS}, "spec": {"hard": hard}}
        )
        await cluster.until(lambda: used(cluster, "requests.cpu") == "0")
        await cluster.client.create(PODS, pod("4", **{"resize-latency": "10s"}))
        await cluster.until(lambda: applied_cpu(cluster) == "4")
        await resize(cluster, "1")
        await asyncio.sleep(5)
        assert used(cluster, "requests.cpu") == "4", "the node has not given the cpus back yet"
        await cluster.until(lambda: applied_cpu(cluster) == "1")
        applied = asyncio.get_running_loop().time()
        await cluster.until(lambda: used(cluster, "requests.cpu") == "1" and used(cluster, "limits.cpu") == "1")
        assert asyncio.get_running_loop().time() - applied < 2.0


async def test_a_resize_found_infeasible_is_not_charged() -> None:
    async with Cluster(parts=("workloads", "scheduler"), nodes=1) as cluster:
        quota = {"metadata": {"name": "q", "namespace": NS}, "spec": {"hard": {"requests.cpu": "100"}}}
        await cluster.client.create(RESOURCE_QUOTAS, quota)
        await cluster.client.create(PODS, pod("4", resize="infeasible"))
        await cluster.until(lambda: applied_cpu(cluster) == "4")
        before = asyncio.get_running_loop().time()
        await resize(cluster, "20")
        assert used(cluster, "requests.cpu") == "20", "admission charges what is asked for"
        await cluster.until(lambda: used(cluster, "requests.cpu") == "4")
        assert asyncio.get_running_loop().time() - before < 5.0


def of_pod(amount: str) -> JsonObject:
    resources = {side: {"cpu": amount, "memory": "1Gi"} for side in ("requests", "limits")}
    return {"containers": [{"name": "main", "image": "host"}], "resources": resources}


def of_memory(amount: str) -> JsonObject:
    resources = {side: {"cpu": "1", "memory": f"{amount}Gi"} for side in ("requests", "limits")}
    return {"containers": [{"name": "main", "image": "host", "resources": resources}]}


def of_sidecar(amount: str) -> JsonObject:
    sidecar = {"name": "log", "image": "host", "restartPolicy": "Always", "resources": resources(amount)}
    main = {"name": "main", "image": "host", "resources": {"requests": {"cpu": "0"}}}
    return {"containers": [main], "initContainers": [sidecar]}


@pytest.mark.parametrize(
    ("spec", "charged", "unit"),
    [(of_pod, "requests.cpu", ""), (of_memory, "requests.memory", "Gi"), (of_sidecar, "requests.cpu", "")],
)
async def test_whatever_shrinks_is_credited(spec: Callable[[str], JsonObject], charged: str, unit: str) -> None:
    """The pod as a whole, memory, a sidecar."""
    async with Cluster(parts=("workloads", "scheduler"), nodes=1) as cluster:
        quota = {"metadata": {"name": "q", "namespace": NS}, "spec": {"hard": {charged: f"8{unit}"}}}
        await cluster.client.create(RESOURCE_QUOTAS, quota)
        await cluster.until(lambda: used(cluster, charged) == "0")
        await cluster.client.create(PODS, {"metadata": {"name": "p", "namespace": NS}, "spec": spec("4")})
        await cluster.until(lambda: running(cluster) and used(cluster, charged) == f"4{unit}")
        await cluster.client.patch(PODS, "p", NS, {"spec": spec("1")}, PatchType.STRATEGIC, "resize")
        begun = asyncio.get_running_loop().time()
        await cluster.until(lambda: used(cluster, charged) == f"1{unit}")
        assert asyncio.get_running_loop().time() - begun < 5.0


def running(cluster: Cluster) -> bool:
    return ((cluster.find(PODS, "p", NS) or {}).get("status") or {}).get("phase") == "Running"
