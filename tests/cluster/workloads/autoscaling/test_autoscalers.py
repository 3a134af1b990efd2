"""HorizontalPodAutoscalers on a whole cluster in this process; and a scrape over a socket."""

import asyncio
from collections.abc import Callable

import pytest
import yaml
from aiohttp import web
from tests.builders import lws
from tests.docs.pages import ROOT

from kohort.cluster.workloads.autoscaling.pod_metrics import MetricUnavailable, read_number
from kohort.kube.http import Request
from kohort.kube.resources import EVENTS, HORIZONTAL_POD_AUTOSCALERS, LEADER_WORKER_SETS, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules.simulation_labels import METRICS
from kohort.testing import Cluster

NAMESPACE = "default"
EXAMPLE: JsonObject = yaml.safe_load((ROOT / "examples" / "autoscaler.yaml").read_text())


def cluster_with_groups() -> Cluster:
    return Cluster(parts=("workloads", "scheduler", "operator"), nodes=8)


class Load:
    """What the leaders of a set report."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.total = 0.0

    def leaders(self) -> list[JsonObject]:
        return [one for one in self.cluster.objects(PODS, NAMESPACE) if one["metadata"]["name"].count("-") == 1]

    async def share(self, total: float) -> None:
        """Requests wait evenly at all leaders."""
        self.total = total
        leaders = self.leaders()
        number = f"requests_waiting={total / max(1, len(leaders)):.3f}"
        for one in leaders:
            if (one["metadata"].get("annotations") or {}).get(METRICS) == number:
                continue
            body = {"metadata": {"annotations": {METRICS: number}}}
            await self.cluster.client.patch(PODS, one["metadata"]["name"], NAMESPACE, body)

    async def follow(self) -> None:
        """New leaders take their share, and the others of those that went."""
        while True:
            await asyncio.sleep(10)
            await self.share(self.total)


def replicas(cluster: Cluster) -> int:
    found = cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE)
    assert found is not None
    return int(found["spec"]["replicas"])


def ready(cluster: Cluster, groups: int) -> Callable[[], bool]:
    def settled() -> bool:
        found = cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE) or {}
        return replicas(cluster) == groups and (found.get("status") or {}).get("readyReplicas") == groups

    return settled


def autoscaler(cluster: Cluster) -> JsonObject:
    found = cluster.find(HORIZONTAL_POD_AUTOSCALERS, "llm", NAMESPACE)
    assert found is not None
    return found


def condition(cluster: Cluster, type: str) -> JsonObject:
    found: list[JsonObject] = (autoscaler(cluster).get("status") or {}).get("conditions") or []
    return next((one for one in found if one["type"] == type), {})


async def test_the_example_scales_groups_up_and_slowly_down() -> None:
    async with cluster_with_groups() as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(1).size(2), NAMESPACE)
        await cluster.until(ready(cluster, 1))
        load = Load(cluster)
        await load.share(20)
        following = asyncio.create_task(load.follow())
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, EXAMPLE, NAMESPACE)
        await cluster.until(ready(cluster, 5), 120)
        await asyncio.sleep(60)
        assert replicas(cluster) == 5
        status = autoscaler(cluster)["status"]
        assert (status["currentReplicas"], status["desiredReplicas"]) == (5, 5)
        assert status["currentMetrics"][0]["pods"]["current"]["averageValue"] == "4"
        assert condition(cluster, "ScalingActive")["status"] == "True"
        load.total = 4
        await asyncio.sleep(500)
        assert replicas(cluster) == 5, "the window of ten minutes is not over"
        assert condition(cluster, "AbleToScale")["reason"] == "ScaleDownStabilized"
        await cluster.until(ready(cluster, 4), 200)
        await asyncio.sleep(60)
        assert replicas(cluster) == 4, "one group in two minutes"
        await cluster.until(ready(cluster, 1), 600)
        following.cancel()
        events = [one["message"] for one in cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "SuccessfulRescale"]
        assert "New size: 5; reason: pods metric requests_waiting above target" in events


async def test_bounds_hold_and_are_reported() -> None:
    async with cluster_with_groups() as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(2).size(1), NAMESPACE)
        await cluster.until(ready(cluster, 2))
        load = Load(cluster)
        await load.share(400)
        following = asyncio.create_task(load.follow())
        body = {**EXAMPLE, "spec": {**EXAMPLE["spec"], "maxReplicas": 3}}
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, body, NAMESPACE)
        await cluster.until(ready(cluster, 3), 60)
        await asyncio.sleep(60)
        assert replicas(cluster) == 3
        assert condition(cluster, "ScalingLimited")["reason"] == "TooManyReplicas"
        await cluster.client.patch(
            HORIZONTAL_POD_AUTOSCALERS, "llm", NAMESPACE, {"spec": {"minReplicas": 4, "maxReplicas": 4}}
        )
        await cluster.until(ready(cluster, 4), 60)
        following.cancel()


async def test_nothing_changes_without_numbers_or_at_zero() -> None:
    async with cluster_with_groups() as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(2).size(1), NAMESPACE)
        await cluster.until(ready(cluster, 2))
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, EXAMPLE, NAMESPACE)
        await asyncio.sleep(60)
        assert replicas(cluster) == 2
        assert condition(cluster, "ScalingActive")["reason"] == "FailedGetPodsMetric"
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, {"spec": {"replicas": 0}})
        await asyncio.sleep(60)
        assert replicas(cluster) == 0
        assert condition(cluster, "ScalingActive")["reason"] == "ScalingDisabled"


async def test_what_cannot_be_scaled_is_reported() -> None:
    async with cluster_with_groups() as cluster:
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, EXAMPLE, NAMESPACE)
        await asyncio.sleep(30)
        assert condition(cluster, "AbleToScale")["reason"] == "FailedGetScale"
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(1).size(1), NAMESPACE)
        cpu = {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
        }
        await cluster.client.patch(HORIZONTAL_POD_AUTOSCALERS, "llm", NAMESPACE, {"spec": {"metrics": [cpu]}})
        await asyncio.sleep(30)
        assert condition(cluster, "ScalingActive")["reason"] == "FailedGetResourceMetric"


def writes_scale(request: Request) -> bool:
    return request.method == "PUT" and request.path.endswith("/scale")


async def test_a_scale_that_others_write_at_the_same_time_is_written_again() -> None:
    async with cluster_with_groups() as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(2).size(1), NAMESPACE)
        await cluster.until(ready(cluster, 2))
        cluster.faults("workloads").refuse(409, on=writes_scale, times=4)
        body = {**EXAMPLE, "spec": {**EXAMPLE["spec"], "maxReplicas": 1}}
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, body, NAMESPACE)
        await cluster.until(lambda: replicas(cluster) == 1, 10)
        assert not [one for one in cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "FailedRescale"]


async def test_a_scale_that_cannot_be_written_is_reported_and_tried_again() -> None:
    async with cluster_with_groups() as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(2).size(1), NAMESPACE)
        await cluster.until(ready(cluster, 2))
        cluster.faults("workloads").refuse(403, on=writes_scale, times=1)
        body = {**EXAMPLE, "spec": {**EXAMPLE["spec"], "maxReplicas": 1}}
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, body, NAMESPACE)
        await cluster.until(lambda: condition(cluster, "AbleToScale").get("reason") == "FailedUpdateScale", 10)
        status = autoscaler(cluster)["status"]
        assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 0)
        await cluster.until(lambda: replicas(cluster) == 1, 30)
        failed = [one["message"] for one in cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "FailedRescale"]
        assert [text.partition("; error: ")[0] for text in failed] == [
            "New size: 1; reason: Current number of replicas above Spec.MaxReplicas"
        ]


async def test_numbers_come_over_a_socket() -> None:
    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text="requests_waiting 7\n", status=200 if request.path == "/metrics" else 404)

    application = web.Application()
    application.router.add_get("/{path:.*}", metrics)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]

    def pod(**annotations: str) -> JsonObject:
        given = {f"prometheus.io/{key}": value for key, value in annotations.items()}
        return {"metadata": {"annotations": given}, "spec": {}, "status": {"podIP": "127.0.0.1"}}

    def simulated(numbers: str) -> JsonObject:
        return {"metadata": {"annotations": {METRICS: numbers}}, "spec": {}}

    try:
        assert await read_number(pod(port=str(port)), "requests_waiting", {}) == 7
        for one, metric, text in (
            (pod(port=str(port)), "other", "has no other"),
            (pod(port=str(port), path="/no"), "requests_waiting", "answers 404"),
            (pod(port="1"), "requests_waiting", "127.0.0.1:1"),
            (pod(), "requests_waiting", "no container port"),
            (simulated("requests_waiting=NaN"), "requests_waiting", "requests_waiting is nan"),
            (simulated("requests_waiting=1e999"), "requests_waiting", "requests_waiting is inf"),
        ):
            with pytest.raises(MetricUnavailable, match=text):
                await read_number(one, metric, {})
    finally:
        await runner.cleanup()
