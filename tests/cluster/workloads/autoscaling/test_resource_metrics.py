"""Autoscaling by cpu and memory: which pods count, how many replicas they ask for, and a whole cluster that does it."""

import asyncio
import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import lws, pod
from tests.cluster.workloads.autoscaling.test_autoscalers import (
    EXAMPLE,
    NAMESPACE,
    autoscaler,
    cluster_with_groups,
    condition,
    ready,
    replicas,
)

from kohort.cluster.workloads.autoscaling.replicas import PodNumbers, WantedReplicas, wanted_by_utilization
from kohort.cluster.workloads.autoscaling.resource_metrics import (
    MetricsUnavailable,
    PodUsage,
    group_pods,
    requests_of,
)
from kohort.kube.resources import EVENTS, HORIZONTAL_POD_AUTOSCALERS, LEADER_WORKER_SETS, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules.simulation_labels import USAGE
from kohort.testing import Cluster

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def stored(
    name: str, *, phase: str = "Running", started: float = 600, is_ready: bool = True, since: float = 590
) -> JsonObject:
    state = {"type": "Ready", "status": "True" if is_ready else "False", "lastTransitionTime": ago(since)}
    return {"metadata": {"name": name}, "status": {"phase": phase, "startTime": ago(started), "conditions": [state]}}


def used(milli: int, *, seconds_ago: float = 5) -> PodUsage:
    return PodUsage(milli, NOW - timedelta(seconds=seconds_ago), timedelta(seconds=15))


@pytest.mark.parametrize(
    ("one", "usage", "resource", "counts_as"),
    [
        (stored("a"), used(1), "cpu", "ready"),
        (stored("a", phase="Pending"), used(1), "cpu", "unready"),
        (stored("a", phase="Failed"), used(1), "cpu", "left out"),
        (stored("a") | {"metadata": {"name": "a", "deletionTimestamp": ago(1)}}, used(1), "cpu", "left out"),
        (stored("a"), None, "cpu", "missing"),
        (stored("a", started=60, since=30), used(1), "cpu", "ready"),
        (stored("a", started=60, since=10), used(1), "cpu", "unready"),  # measured while it started
        (stored("a", started=60, since=10), used(1), "memory", "ready"),
        (stored("a", started=60, is_ready=False), used(1), "cpu", "unready"),
        (stored("a", started=600, is_ready=False, since=599), used(1), "cpu", "unready"),  # never was ready
        (stored("a", started=600, is_ready=False, since=60), used(1), "cpu", "ready"),  # was ready before
        ({"metadata": {"name": "a"}, "status": {"phase": "Running"}}, used(1), "cpu", "unready"),
    ],
)
def test_which_pods_count(one: JsonObject, usage: PodUsage | None, resource: str, counts_as: str) -> None:
    grouped = group_pods([one], {"a": usage} if usage is not None else {}, resource, NOW)
    found = {"ready": "a" in grouped.values, "unready": "a" in grouped.unready, "missing": "a" in grouped.missing}
    assert [name for name, is_so in found.items() if is_so] == ([] if counts_as == "left out" else [counts_as])


@pytest.mark.parametrize(
    ("current", "usage", "unready", "missing", "target", "wanted", "percent"),
    [
        (2, [50, 50], 0, 0, 50, 2, 50),
        (2, [100, 100], 0, 0, 50, 4, 100),
        (2, [54, 54], 0, 0, 50, 2, 54),  # within the tolerance
        (2, [56, 56], 0, 0, 50, 3, 56),
        (4, [10, 10, 10, 10], 0, 0, 50, 1, 10),
        (3, [100, 100], 1, 0, 50, 4, 100),  # the unready pod counts as 0
        (3, [10, 10], 1, 0, 50, 1, 10),  # and is left out when it goes down
        (3, [100, 100], 0, 1, 50, 4, 100),
        (3, [10, 10], 0, 1, 50, 3, 10),  # the missing pod counts as all that it requests
        (4, [10, 10, 10], 0, 1, 150, 2, 10),  # or as the target if that is more
        (3, [70, 40], 0, 1, 50, 3, 55),  # at the edge of the tolerance
        (7, [290] * 7, 0, 0, 70, 30, 290),  # 29.000000000000004 is rounded up, as in Kubernetes
        (3, [80, 40], 0, 1, 50, 3, 60),  # the direction would turn around
    ],
)
def test_replicas_by_utilization(
    current: int, usage: list[int], unready: int, missing: int, target: int, wanted: int, percent: int
) -> None:
    """Every pod requests 100."""
    numbers = numbers_of(usage, unready, missing)
    found = wanted_by_utilization(current, numbers, requests_in(numbers), target)
    assert found == WantedReplicas(wanted, sum(usage) // len(usage), percent)


def numbers_of(usage: list[int], unready: int, missing: int) -> PodNumbers:
    return PodNumbers(
        {f"p{number}": amount for number, amount in enumerate(usage)},
        frozenset(f"m{number}" for number in range(missing)),
        frozenset(f"u{number}" for number in range(unready)),
    )


def requests_in(numbers: PodNumbers) -> dict[str, int]:
    return dict.fromkeys([*numbers.values, *numbers.missing, *numbers.unready], 100)


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=8),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(1, 100),
)
def test_pods_without_figures_only_slow_a_change_down(
    usage: list[int], unready: int, missing: int, target: int
) -> None:
    numbers = numbers_of(usage, unready, missing)
    current = len(usage) + unready + missing
    found = wanted_by_utilization(current, numbers, requests_in(numbers), target)
    alone = wanted_by_utilization(current, PodNumbers(numbers.values), requests_in(numbers), target)
    assert found is not None and alone is not None and found.percent is not None
    if missing and found.percent < target:
        assert found.replicas >= min(alone.replicas, current)
    if missing and found.percent > target:
        lost_by_whole_percents = math.ceil(len(usage) / target) + 1
        assert found.replicas <= max(alone.replicas, current) + lost_by_whole_percents


def test_every_container_must_request_what_a_percentage_is_of() -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}, {"name": "side"}]
    one = {"metadata": {"name": "a"}, "spec": {"containers": containers}}
    assert requests_of([one], "cpu", "main") == {"a": 500}
    with pytest.raises(MetricsUnavailable, match="container other not found in Pod a"):
        requests_of([one], "cpu", "other")
    with pytest.raises(MetricsUnavailable, match="missing request for cpu in container side of Pod a"):
        requests_of([one], "cpu")


def test_init_containers_that_go_on_count_and_a_request_of_the_pod_replaces_all() -> None:
    resources = {"requests": {"cpu": "500m"}}
    spec: JsonObject = {
        "containers": [{"name": "main", "resources": resources}],
        "initContainers": [{"name": "once"}, {"name": "proxy", "restartPolicy": "Always", "resources": resources}],
    }
    one: JsonObject = {"metadata": {"name": "a"}, "spec": spec}
    assert requests_of([one], "cpu") == {"a": 1000}
    spec["resources"] = {"requests": {"cpu": "3"}}
    assert requests_of([one], "cpu") == {"a": 3000}
    assert requests_of([one], "cpu", "main") == {"a": 500}
    with pytest.raises(MetricsUnavailable, match="missing pod-level request for memory in Pod a"):
        requests_of([one], "memory")


def test_pods_that_request_nothing_have_no_percentage() -> None:
    assert wanted_by_utilization(1, PodNumbers({"a": 5}), {"a": 0}, 50) is None


def by(metric: JsonObject) -> JsonObject:
    limits = {"minReplicas": 1, "maxReplicas": 6}
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    return {**EXAMPLE, "spec": {**EXAMPLE["spec"], **limits, "metrics": [metric], "behavior": behavior}}


def requesting_set() -> JsonObject:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    template = pod().containers({"name": "main", "image": "model:1", "resources": resources})
    return lws("llm").replicas(2).size(2).workers(template)


async def use(cluster: Cluster, text: str, *, workers: str = "cpu=1m,memory=1Mi") -> None:
    """Leaders use this much."""
    for one in cluster.objects(PODS, NAMESPACE):
        leads = one["metadata"]["name"].count("-") == 1
        body = {"metadata": {"annotations": {USAGE: text if leads else workers}}}
        await cluster.client.patch(PODS, one["metadata"]["name"], NAMESPACE, body)


async def test_cpu_of_the_leaders_scales_a_set() -> None:
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    async with cluster_with_groups() as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, requesting_set(), NAMESPACE)
        await cluster.until(ready(cluster, 2))
        await asyncio.sleep(300)
        await use(cluster, "cpu=750m")
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, by(metric), NAMESPACE)
        await cluster.until(ready(cluster, 3), 60)
        status = autoscaler(cluster)["status"]
        current = {"averageUtilization": 75, "averageValue": "750m"}
        assert status["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
        events = [one["message"] for one in cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "SuccessfulRescale"]
        assert events == ["New size: 3; reason: cpu resource utilization (percentage of request) above target"]
        await use(cluster, "cpu=10m")
        await cluster.until(ready(cluster, 1), 600)
        assert condition(cluster, "ScalingActive")["message"] == (
            "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of "
            "request)"
        )


async def test_memory_of_one_container_scales_a_set() -> None:
    target = {"type": "AverageValue", "averageValue": "512Mi"}
    metric: JsonObject = {
        "type": "ContainerResource",
        "containerResource": {"name": "memory", "container": "main", "target": target},
    }
    async with cluster_with_groups() as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, requesting_set(), NAMESPACE)
        await cluster.until(ready(cluster, 2))
        await use(cluster, "memory=1Gi")
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, by(metric), NAMESPACE)
        await cluster.until(ready(cluster, 4), 60)
        metric["containerResource"]["container"] = "other"
        await cluster.client.patch(HORIZONTAL_POD_AUTOSCALERS, "llm", NAMESPACE, {"spec": {"metrics": [metric]}})
        await asyncio.sleep(30)
        found = condition(cluster, "ScalingActive")
        assert (found["status"], found["reason"]) == ("False", "FailedGetContainerResourceMetric")
        assert found["message"].endswith("did not receive metrics for targeted pods (pods might be unready)")


async def test_without_requests_there_is_no_percentage_and_nothing_changes() -> None:
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    async with cluster_with_groups() as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(2).size(1), NAMESPACE)
        await cluster.until(ready(cluster, 2))
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, by(metric), NAMESPACE)
        await asyncio.sleep(60)
        found = condition(cluster, "ScalingActive")
        assert found["message"].startswith(
            "the HPA was unable to compute the replica count: failed to get cpu utilization: missing request for cpu "
            "in container "
        )
        assert replicas(cluster) == 2
