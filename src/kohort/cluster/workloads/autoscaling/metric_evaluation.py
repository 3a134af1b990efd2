"""How many replicas one metric of an autoscaler asks for, and what the status shows of it.

Metrics of type Pods are read from the pods themselves (`pod_metrics`), those of types Resource and ContainerResource
from the resource metrics API (`resource_metrics`). The other types need an API for metrics that this cluster does not
have; they are reported as unavailable.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.cluster.workloads.autoscaling.behavior import Tolerance
from kohort.cluster.workloads.autoscaling.pod_metrics import MetricUnavailable, read_number
from kohort.cluster.workloads.autoscaling.replicas import (
    PodNumbers,
    WantedReplicas,
    wanted_by_average,
    wanted_by_utilization,
)
from kohort.cluster.workloads.autoscaling.resource_metrics import (
    MetricsUnavailable,
    group_pods,
    read_usage,
    requests_of,
)
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import BINARY_SI, DECIMAL_SI, Quantity

_MOST_READS: Final = 20
"""Pods that are asked at the same time."""


class MetricFailed(Exception):
    """A metric cannot be computed."""

    def __init__(self, metric: JsonObject, message: str) -> None:
        super().__init__(message)
        self.reason = f"FailedGet{metric['type']}Metric"
        self.in_full = f"failed to get {_value_of(metric)} value: {message}"


class EvaluatedMetric(msgspec.Struct, frozen=True):
    replicas: int
    name: str
    """In the words of conditions and events."""
    status: JsonObject
    """An item of `status.currentMetrics`."""


class ScaledPods(msgspec.Struct, frozen=True):
    """What a metric is computed for."""

    namespace: str
    selector: str
    pods: list[JsonObject]
    replicas: int
    tolerance: Tolerance


async def evaluate(client: Client, metric: JsonObject, scaled: ScaledPods) -> EvaluatedMetric:
    """Raises MetricFailed."""
    match metric["type"]:
        case "Resource":
            return await _evaluate_resource(client, metric, "resource", scaled)
        case "ContainerResource":
            return await _evaluate_resource(client, metric, "containerResource", scaled)
        case "Pods":
            return await _evaluate_pods(metric, scaled)
        case other:
            raise MetricFailed(
                metric,
                f"metrics of type {other} need an API for metrics, which this cluster does not have; use a metric of "
                "type Resource, ContainerResource or Pods",
            )


async def _evaluate_pods(metric: JsonObject, scaled: ScaledPods) -> EvaluatedMetric:
    identifier, goal = metric["pods"]["metric"], metric["pods"]["target"]
    labels = (identifier.get("selector") or {}).get("matchLabels") or {}
    numbers, problem = await _read_numbers(scaled.pods, identifier["name"], labels)
    wanted = wanted_by_average(scaled.replicas, numbers, _milli(goal["averageValue"]), scaled.tolerance)
    if wanted is None:
        raise MetricFailed(metric, f"unable to get metric {identifier['name']}: {problem or 'no pod reports it'}")
    shown = {"metric": identifier, "current": {"averageValue": str(Quantity.of_milli(wanted.average))}}
    return EvaluatedMetric(wanted.replicas, f"pods metric {identifier['name']}", {"type": "Pods", "pods": shown})


async def _evaluate_resource(client: Client, metric: JsonObject, field: str, scaled: ScaledPods) -> EvaluatedMetric:
    source, goal = metric[field], metric[field]["target"]
    resource, container = source["name"], source.get("container", "")
    by_amount = goal.get("averageValue") is not None
    try:
        usage = await read_usage(client, scaled.namespace, scaled.selector, resource, container)
        if not scaled.pods:
            raise MetricsUnavailable("no pods returned by selector while calculating replica count")
        numbers = group_pods(scaled.pods, usage, resource, clock.now())
        wanted = _wanted(scaled, numbers, goal, resource, container)
    except MetricsUnavailable as problem:
        what = "usage" if by_amount else "utilization"
        raise MetricFailed(metric, f"failed to get {resource} {what}: {problem}") from problem
    kind = "container resource" if container and not by_amount else "resource"
    name = f"{resource} {kind}" + ("" if by_amount else " utilization (percentage of request)")
    current = {
        **({"averageUtilization": wanted.percent} if wanted.percent is not None else {}),
        "averageValue": str(Quantity.of_milli(wanted.average, BINARY_SI if resource == "memory" else DECIMAL_SI)),
    }
    shown = {"name": resource, **({"container": container} if container else {}), "current": current}
    return EvaluatedMetric(wanted.replicas, name, {"type": metric["type"], field: shown})


def _wanted(scaled: ScaledPods, numbers: PodNumbers, goal: JsonObject, resource: str, container: str) -> WantedReplicas:
    """Raises MetricsUnavailable."""
    if not numbers.values:
        raise MetricsUnavailable("did not receive metrics for targeted pods (pods might be unready)")
    if goal.get("averageValue") is not None:
        wanted = wanted_by_average(scaled.replicas, numbers, _milli(goal["averageValue"]), scaled.tolerance)
    else:
        requests, percent = requests_of(scaled.pods, resource, container), goal["averageUtilization"]
        wanted = wanted_by_utilization(scaled.replicas, numbers, requests, percent, scaled.tolerance)
    if wanted is None:
        raise MetricsUnavailable("no metrics returned matched known pods")
    return wanted


async def _read_numbers(pods: list[JsonObject], metric: str, labels: Mapping[str, str]) -> tuple[PodNumbers, str]:
    """What pods report, and why one of them does not."""
    phases = {
        one["metadata"]["name"]: (one.get("status") or {}).get("phase") or "Pending"
        for one in pods
        if "deletionTimestamp" not in one["metadata"]
    }
    turns = asyncio.Semaphore(_MOST_READS)

    async def read(pod: JsonObject) -> float | MetricUnavailable:
        async with turns:
            try:
                return await read_number(pod, metric, labels)
            except MetricUnavailable as problem:
                return problem

    running = [one for one in pods if phases.get(one["metadata"]["name"]) == "Running"]
    values: dict[str, int] = {}
    problem = ""
    for pod, answer in zip(running, await asyncio.gather(*map(read, running)), strict=True):
        if isinstance(answer, MetricUnavailable):
            problem = f"pod {pod['metadata']['name']}: {answer}"
        else:
            values[pod["metadata"]["name"]] = round(answer * 1000)
    unready = frozenset(name for name, phase in phases.items() if phase == "Pending")
    missing = frozenset(name for name, phase in phases.items() if phase not in ("Pending", "Failed")) - values.keys()
    return PodNumbers(values, missing, unready), problem


def _milli(amount: str | int) -> int:
    return Quantity.parse(amount).milli


def _value_of(metric: JsonObject) -> str:
    match metric["type"]:
        case "Resource":
            return f"{metric['resource']['name']} resource metric"
        case "ContainerResource":
            return f"{metric['containerResource']['container']} container metric"
        case "External":
            return f"{metric['external']['metric']['name']} external metric"
        case other:
            return f"{other.lower()} metric"
