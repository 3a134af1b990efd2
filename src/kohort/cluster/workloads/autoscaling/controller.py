"""The controller of HorizontalPodAutoscalers: every fifteen seconds it reads the metrics of the pods of each target and
writes the scale of the target.

Metrics of type Pods are read from the pods themselves (`pod_metrics`), those of types Resource and ContainerResource
from the resource metrics API (`resource_metrics`). The other types need an API for metrics that this cluster does not
have; they are reported as unavailable.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.cluster.workloads.autoscaling import behavior as behaviors
from kohort.cluster.workloads.autoscaling.behavior import LONGEST_WINDOW, Recommendation, ScaleEvent
from kohort.cluster.workloads.autoscaling.pod_metrics import MetricUnavailable, read_number
from kohort.cluster.workloads.autoscaling.replicas import (
    PodNumbers,
    WantedReplicas,
    wanted_by_utilization,
    wanted_replicas,
)
from kohort.cluster.workloads.autoscaling.resource_metrics import (
    MetricsUnavailable,
    PodUsage,
    group_pods,
    read_usage,
    requests_of,
)
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import ApiError
from kohort.kube.manager import Manager
from kohort.kube.resources import HORIZONTAL_POD_AUTOSCALERS, PODS, Key
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity

PERIOD: Final = 15.0
_MOST_READS: Final = 20
"""Pods that are asked at the same time."""


def register(manager: Manager) -> None:
    Autoscalers(manager)


class MetricFailed(Exception):
    """A metric cannot be computed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Target(msgspec.Struct, frozen=True):
    path: str
    """Of the scale subresource."""
    replicas: int
    selector: str


class _Memory(msgspec.Struct):
    """Of one autoscaler. Lost with the process, as in Kubernetes."""

    recommendations: list[Recommendation] = []
    events: list[ScaleEvent] = []


class Autoscalers:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("horizontal-pod-autoscaler")
        self.autoscalers = manager.informer(HORIZONTAL_POD_AUTOSCALERS, JsonObject)
        self._memories: dict[Key, _Memory] = {}
        controller = manager.controller("horizontalpodautoscaler", self.reconcile, workers=4, max_delay=PERIOD)
        controller.watches(self.autoscalers, when=_spec_changed)

    async def reconcile(self, key: Key) -> Requeue | None:
        autoscaler = self.autoscalers.get(key)
        if autoscaler is None or "deletionTimestamp" in autoscaler["metadata"]:
            self._memories.pop(key, None)
            return None
        status = StatusDraft(autoscaler)
        try:
            await self._scale(key, autoscaler, status)
        except ApiError as problem:
            text = f"the HPA controller was unable to get the target's current scale: {problem}"
            status.condition("AbleToScale", "False", "FailedGetScale", text)
            self.recorder.warning(HORIZONTAL_POD_AUTOSCALERS, autoscaler, "FailedGetScale", str(problem))
        await status.write(self.client)
        return Requeue(after=PERIOD)

    async def _scale(self, key: Key, autoscaler: JsonObject, status: "StatusDraft") -> None:
        spec = autoscaler["spec"]
        target = await find_target(self.client, key.namespace, spec["scaleTargetRef"])
        status.condition(
            "AbleToScale", "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale"
        )
        status.current = status.desired = target.replicas
        lowest, highest = spec.get("minReplicas", 1), spec["maxReplicas"]
        if target.replicas == 0 and lowest != 0:
            status.condition(
                "ScalingActive",
                "False",
                "ScalingDisabled",
                "scaling is disabled since the replica count of the target is zero",
            )
            return
        if target.replicas > highest or target.replicas < lowest:
            wanted = highest if target.replicas > highest else lowest
            why = (
                "Current number of replicas above Spec.MaxReplicas"
                if wanted == highest
                else "Current number of replicas below Spec.MinReplicas"
            )
        else:
            try:
                found, why = await self._wanted_by_metrics(key.namespace, spec, target, status)
            except MetricFailed as problem:
                text = f"the HPA was unable to compute the replica count: {problem}"
                status.condition("ScalingActive", "False", problem.reason, text)
                self.recorder.warning(HORIZONTAL_POD_AUTOSCALERS, autoscaler, problem.reason, str(problem))
                return
            wanted = self._limited(key, spec, target.replicas, found, status)
        status.desired = wanted
        if wanted != target.replicas:
            await self._write_scale(key, autoscaler, target, wanted, why, status)

    async def _wanted_by_metrics(
        self, namespace: str, spec: JsonObject, target: Target, status: "StatusDraft"
    ) -> tuple[int, str]:
        """The largest number that a metric asks for. A metric that fails only keeps the target from shrinking."""
        page = await self.client.list(PODS, namespace, label_selector=target.selector)
        pods = [one for one in page.items if "deletionTimestamp" not in one["metadata"]]
        best, name, failure = -1, "", None
        for metric in spec.get("metrics") or ():
            try:
                wanted, metric_name, shown = await self._wanted_by_metric(metric, pods, target)
            except MetricFailed as problem:
                failure = failure or problem
                continue
            status.metrics.append(shown)
            if wanted > best:
                best, name = wanted, metric_name
        if best < 0 or (failure is not None and best < target.replicas):
            raise failure or MetricFailed("InvalidMetricSourceType", "the autoscaler has no metric")
        text = f"the HPA was able to successfully calculate a replica count from {name}"
        status.condition("ScalingActive", "True", "ValidMetricFound", text)
        direction = "above" if best > target.replicas else "below"
        return best, f"{name} {direction} target" if direction == "above" else "All metrics below target"

    async def _wanted_by_metric(
        self, metric: JsonObject, pods: list[JsonObject], target: Target
    ) -> tuple[int, str, JsonObject]:
        if metric["type"] in ("Resource", "ContainerResource"):
            return await self._wanted_by_resource(metric, pods, target)
        if metric["type"] != "Pods":
            raise MetricFailed(
                f"FailedGet{metric['type']}Metric",
                f"metrics of type {metric['type']} need an API for metrics, which this cluster does not have; use a "
                "metric of type Resource, ContainerResource or Pods",
            )
        identifier, goal = metric["pods"]["metric"], metric["pods"]["target"]
        labels = (identifier.get("selector") or {}).get("matchLabels") or {}
        numbers, problem = await read_numbers(pods, identifier["name"], labels)
        value = Quantity.parse(str(goal["averageValue"])).milli / 1000
        found: WantedReplicas | None = wanted_replicas(target.replicas, numbers, value)
        if found is None:
            text = f"unable to get metric {identifier['name']}: {problem or 'no pod reports it'}"
            raise MetricFailed("FailedGetPodsMetric", text)
        shown = {"metric": identifier, "current": {"averageValue": _quantity(found.average)}}
        return found.replicas, f"pods metric {identifier['name']}", {"type": "Pods", "pods": shown}

    async def _wanted_by_resource(
        self, metric: JsonObject, pods: list[JsonObject], target: Target
    ) -> tuple[int, str, JsonObject]:
        """Metrics of type Resource, and ContainerResource for one container."""
        field = "resource" if metric["type"] == "Resource" else "containerResource"
        source, goal = metric[field], metric[field]["target"]
        resource, container = source["name"], source.get("container", "")
        what = "usage" if goal.get("averageValue") is not None else "utilization"
        try:
            if not pods:
                raise MetricsUnavailable("no pods returned by selector while calculating replica count")
            namespace = pods[0]["metadata"]["namespace"]
            usage = await read_usage(self.client, namespace, target.selector, resource, container)
            found, current, described = _by_usage(target.replicas, goal, resource, container, pods, usage)
        except MetricsUnavailable as problem:
            reason = f"FailedGet{metric['type']}Metric"
            raise MetricFailed(reason, f"failed to get {resource} {what}: {problem}") from problem
        name = f"{resource} container resource{described}" if container else f"{resource} resource{described}"
        shown = {"name": resource, **({"container": container} if container else {}), "current": current}
        return found, name, {"type": metric["type"], field: shown}

    def _limited(self, key: Key, spec: JsonObject, current: int, wanted: int, status: "StatusDraft") -> int:
        memory, now = self._memories.setdefault(key, _Memory()), asyncio.get_running_loop().time()
        memory.recommendations = [one for one in memory.recommendations if one.at > now - LONGEST_WINDOW]
        memory.events = [one for one in memory.events if one.at > now - LONGEST_WINDOW]
        behavior = spec.get("behavior")
        steady = behaviors.stabilized(current, wanted, memory.recommendations, behavior, now)
        memory.recommendations.append(Recommendation(now, wanted))
        if steady != wanted:
            shrinks = wanted < steady
            held = "ScaleDownStabilized" if shrinks else "ScaleUpStabilized"
            were, applied = ("higher", "highest") if shrinks else ("lower", "lowest")
            text = f"recent recommendations were {were} than current one, applying the {applied} recent recommendation"
            status.condition("AbleToScale", "True", held, text)
        else:
            status.condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
        lowest, highest = spec.get("minReplicas", 1), spec["maxReplicas"]
        limited = behaviors.limited_by_policies(current, steady, memory.events, behavior, now)
        bounded: int = min(max(limited.replicas, lowest), highest)
        if bounded != limited.replicas:
            few = bounded == lowest and limited.replicas < lowest
            reason = "TooFewReplicas" if few else "TooManyReplicas"
            than = "less than the minimum" if few else "more than the maximum"
            text = f"the desired replica count is {than} replica count"
            status.condition("ScalingLimited", "True", reason, text)
        elif limited.reason:
            moves = "increasing" if limited.reason == "ScaleUpLimit" else "decreasing"
            text = f"the desired replica count is {moves} faster than the maximum scale rate"
            status.condition("ScalingLimited", "True", limited.reason, text)
        else:
            status.condition(
                "ScalingLimited", "False", "DesiredWithinRange", "the desired count is within the acceptable range"
            )
        return bounded

    async def _write_scale(
        self, key: Key, autoscaler: JsonObject, target: Target, wanted: int, why: str, status: "StatusDraft"
    ) -> None:
        body = msgspec.json.encode({"spec": {"replicas": wanted}})
        try:
            await _patch(self.client, target.path, body)
        except ApiError as problem:
            text = f"the HPA controller was unable to update the target scale: {problem}"
            status.condition("AbleToScale", "False", "FailedUpdateScale", text)
            self.recorder.warning(HORIZONTAL_POD_AUTOSCALERS, autoscaler, "FailedRescale", str(problem))
            return
        memory = self._memories.setdefault(key, _Memory())
        memory.events.append(ScaleEvent(asyncio.get_running_loop().time(), wanted - target.replicas))
        status.scaled_at = clock.timestamp()
        text = f"the HPA controller was able to update the target scale to {wanted}"
        status.condition("AbleToScale", "True", "SucceededRescale", text)
        message = f"New size: {wanted}; reason: {why}"
        self.recorder.normal(HORIZONTAL_POD_AUTOSCALERS, autoscaler, "SuccessfulRescale", message)


def _by_usage(
    replicas: int,
    goal: JsonObject,
    resource: str,
    container: str,
    pods: list[JsonObject],
    usage: Mapping[str, PodUsage],
) -> tuple[int, JsonObject, str]:
    """How many replicas the usage of a resource asks for, the current value, and words for the kind of target."""
    grouped = group_pods(pods, usage, resource, clock.now())
    none = MetricsUnavailable("did not receive metrics for targeted pods (pods might be unready)")
    if goal.get("averageValue") is not None:
        values = {name: milli / 1000 for name, milli in grouped.usage.items()}
        numbers = PodNumbers(values, len(grouped.missing), len(grouped.unready))
        plain = wanted_replicas(replicas, numbers, Quantity.parse(str(goal["averageValue"])).milli / 1000)
        if plain is None:
            raise none
        return plain.replicas, {"averageValue": _quantity(plain.average)}, ""
    requests = requests_of(pods, resource, container)
    found = wanted_by_utilization(
        replicas, grouped.usage, grouped.unready, grouped.missing, requests, goal["averageUtilization"]
    )
    if found is None:
        raise none
    current = {"averageUtilization": found.percent, "averageValue": _quantity(found.average / 1000)}
    return found.replicas, current, " utilization (percentage of request)"


async def read_numbers(pods: list[JsonObject], metric: str, labels: Mapping[str, str]) -> tuple[PodNumbers, str]:
    """What pods report, and why one of them does not."""
    running = [one for one in pods if (one.get("status") or {}).get("phase") == "Running"]
    pending = [one for one in pods if (one.get("status") or {}).get("phase", "Pending") == "Pending"]
    turns = asyncio.Semaphore(_MOST_READS)

    async def read(pod: JsonObject) -> float | MetricUnavailable:
        async with turns:
            try:
                return await read_number(pod, metric, labels)
            except MetricUnavailable as problem:
                return problem

    answers = await asyncio.gather(*map(read, running))
    values: dict[str, float] = {}
    problem = ""
    for pod, answer in zip(running, answers, strict=True):
        if isinstance(answer, MetricUnavailable):
            problem = f"pod {pod['metadata']['name']}: {answer}"
        else:
            values[pod["metadata"]["name"]] = answer
    return PodNumbers(values, len(running) - len(values), len(pending)), problem


async def find_target(client: Client, namespace: str, reference: JsonObject) -> Target:
    """The scale of the object that an autoscaler names. Raises ApiError."""
    version, kind = reference["apiVersion"], reference["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    known: JsonObject = msgspec.json.decode(await client.raw("GET", root))
    plural = next(
        (one["name"] for one in known["resources"] if one["kind"] == kind and "/" not in one["name"]), kind.lower()
    )
    path = f"{root}/namespaces/{namespace}/{plural}/{reference['name']}/scale"
    scale: JsonObject = msgspec.json.decode(await client.raw("GET", path))
    status = scale.get("status") or {}
    return Target(path, (scale.get("spec") or {}).get("replicas") or 0, status.get("selector") or "")


async def _patch(client: Client, path: str, body: bytes) -> None:
    scale: JsonObject = msgspec.json.decode(await client.raw("GET", path))
    scale["spec"] = {**(scale.get("spec") or {}), **msgspec.json.decode(body)["spec"]}
    await client.raw("PUT", path, body=msgspec.json.encode(scale))


def _quantity(number: float) -> str:
    """As Kubernetes writes it: whole, or in thousandths."""
    thousandths = round(number * 1000)
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def _spec_changed(old: JsonObject | None, new: JsonObject | None) -> bool:
    return old is None or new is None or old["metadata"].get("generation") != new["metadata"].get("generation")


class StatusDraft:
    """The next status of an autoscaler."""

    def __init__(self, autoscaler: JsonObject) -> None:
        self._autoscaler = autoscaler
        before = autoscaler.get("status") or {}
        self._conditions: dict[str, JsonObject] = {one["type"]: one for one in before.get("conditions") or ()}
        self.current: int | None = before.get("currentReplicas")
        self.desired: int = before.get("desiredReplicas") or 0
        self.scaled_at: str | None = before.get("lastScaleTime")
        self.metrics: list[JsonObject] = []

    def condition(self, type: str, status: str, reason: str, message: str) -> None:
        old = self._conditions.get(type)
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else clock.timestamp()
        fields = {"type": type, "status": status, "reason": reason, "message": message}
        self._conditions[type] = {**fields, "lastTransitionTime": since}

    async def write(self, client: Client) -> None:
        status: JsonObject = {
            "currentReplicas": self.current or 0,
            "desiredReplicas": self.desired,
            "conditions": list(self._conditions.values()),
            "currentMetrics": self.metrics or None,
            "observedGeneration": self._autoscaler["metadata"].get("generation"),
            **({"lastScaleTime": self.scaled_at} if self.scaled_at else {}),
        }
        before = self._autoscaler.get("status") or {}
        if any(before.get(name) != value for name, value in status.items()):
            await client.patch_status(HORIZONTAL_POD_AUTOSCALERS, self._autoscaler, status)
