"""The controller of HorizontalPodAutoscalers: every fifteen seconds it computes the metrics of each autoscaler
(`metric_evaluation`) and writes the scale of its target (`scale_target`).

What the status says, as in Kubernetes:

| what happened | currentReplicas | desiredReplicas | currentMetrics |
|---|---|---|---|
| the scale of the target cannot be read | as before | as before | as before |
| the target has no replicas, or is out of bounds | of the target | what it is scaled to | none |
| the pods cannot be selected | of the target | as before | none |
| the metrics cannot be computed, or the scale not written | of the target | as before | an item for each metric |
| anything else | of the target | what it is scaled to | an item for each metric |

The item of a metric that fails has an empty type: `kubectl` finds the others by their position.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.cluster.workloads.autoscaling import behavior as behaviors
from kohort.cluster.workloads.autoscaling.behavior import LONGEST_WINDOW, Bounds, Limit, Recommendation, ScaleEvent
from kohort.cluster.workloads.autoscaling.metric_evaluation import (
    EvaluatedMetric,
    MetricFailed,
    ScaledPods,
    evaluate,
)
from kohort.cluster.workloads.autoscaling.scale_target import ScaleTarget, find_target, write_replicas
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import ApiError
from kohort.kube.manager import Manager
from kohort.kube.resources import HORIZONTAL_POD_AUTOSCALERS, PODS, Key
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import LabelSelector

PERIOD: Final = 15.0
_LIMIT_WORDS: Final = {
    Limit.NONE: "the desired count is within the acceptable range",
    Limit.MOST: "the desired replica count is more than the maximum replica count",
    Limit.LEAST: "the desired replica count is less than the minimum replica count",
    Limit.RATE_UP: "the desired replica count is increasing faster than the maximum scale rate",
    Limit.RATE_DOWN: "the desired replica count is decreasing faster than the maximum scale rate",
}


def register(manager: Manager) -> None:
    Autoscalers(manager)


class _NothingComputed(Exception):
    """No metric tells how many replicas are wanted; the status says why."""


class _Memory(msgspec.Struct):
    """Of one autoscaler. Lost with the process, as in Kubernetes."""

    recommendations: list[Recommendation]
    events: list[ScaleEvent] = []
    selector: LabelSelector | None = None
    """Of its target."""


class _Wanted(msgspec.Struct, frozen=True):
    replicas: int
    why: str


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
            target = await find_target(self.client, key.namespace, autoscaler["spec"]["scaleTargetRef"])
        except ApiError as problem:
            text = f"the HPA controller was unable to get the target's current scale: {problem}"
            status.condition("AbleToScale", "False", "FailedGetScale", text)
            self._warn(autoscaler, "FailedGetScale", str(problem))
        else:
            await self._scale(key, autoscaler, target, status)
        await status.write(self.client)
        return Requeue(after=PERIOD)

    async def _scale(self, key: Key, autoscaler: JsonObject, target: ScaleTarget, status: "StatusDraft") -> None:
        status.condition(
            "AbleToScale", "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale"
        )
        self._remember(key, target)
        status.current, status.metrics = target.replicas, []
        spec = autoscaler["spec"]
        bounds = Bounds(spec.get("minReplicas", 1), spec["maxReplicas"])
        if target.replicas == 0:
            text = "scaling is disabled since the replica count of the target is zero"
            status.condition("ScalingActive", "False", "ScalingDisabled", text)
            wanted = _Wanted(0, "")
        elif target.replicas > bounds.most:
            wanted = _Wanted(bounds.most, "Current number of replicas above Spec.MaxReplicas")
        elif target.replicas < bounds.least:
            wanted = _Wanted(bounds.least, "Current number of replicas below Spec.MinReplicas")
        else:
            try:
                computed = await self._wanted_by_metrics(key, autoscaler, target, status)
            except _NothingComputed as problem:
                self._warn(autoscaler, "FailedComputeMetricsReplicas", str(problem))
                return
            allowed = self._limited(key, spec.get("behavior"), bounds, target.replicas, computed.replicas, status)
            wanted = _Wanted(allowed, computed.why)
        if wanted.replicas != target.replicas:
            await self._write_scale(key, autoscaler, target, wanted, status)
        else:
            status.desired = wanted.replicas

    def _remember(self, key: Key, target: ScaleTarget) -> None:
        now = asyncio.get_running_loop().time()
        memory = self._memories.setdefault(key, _Memory([Recommendation(now, target.replicas)]))
        memory.recommendations = [one for one in memory.recommendations if one.at > now - LONGEST_WINDOW]
        memory.events = [one for one in memory.events if one.at > now - LONGEST_WINDOW]

    async def _wanted_by_metrics(
        self, key: Key, autoscaler: JsonObject, target: ScaleTarget, status: "StatusDraft"
    ) -> _Wanted:
        """The largest number that a metric asks for. A metric that fails only keeps the target from shrinking."""
        pods = await self._selected_pods(key, autoscaler, target.selector, status)
        spec = autoscaler["spec"]
        tolerance = behaviors.tolerance_of(spec.get("behavior"))
        scaled = ScaledPods(key.namespace, target.selector, pods, target.replicas, tolerance)
        best: EvaluatedMetric | None = None
        failures: list[MetricFailed] = []
        metrics = spec.get("metrics") or ()
        for metric in metrics:
            try:
                found = await evaluate(self.client, metric, scaled)
            except MetricFailed as problem:
                self._warn(autoscaler, problem.reason, str(problem))
                failures.append(problem)
                status.metrics.append({"type": ""})
                continue
            status.metrics.append(found.status)
            if best is None or found.replicas > best.replicas:
                best = found
        if best is None or (failures and best.replicas < target.replicas):
            text = f"the HPA was unable to compute the replica count: {failures[0]}"
            status.condition("ScalingActive", "False", failures[0].reason, text)
            raise _NothingComputed(
                f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), first error is: "
                f"{failures[0].in_full}"
            )
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        status.condition("ScalingActive", "True", "ValidMetricFound", text)
        return _Wanted(best.replicas, _why(best, target.replicas))

    async def _selected_pods(
        self, key: Key, autoscaler: JsonObject, text: str, status: "StatusDraft"
    ) -> list[JsonObject]:
        """Raises _NothingComputed if the selector is none, or if pods have more than one autoscaler."""
        if not text:
            self._warn(autoscaler, "SelectorRequired", "selector is required")
            status.condition(
                "ScalingActive", "False", "InvalidSelector", "the HPA target's scale is missing a selector"
            )
            raise _NothingComputed("selector is required")
        try:
            self._memories[key].selector = LabelSelector.parse(text)
        except ValueError as problem:
            message = f"couldn't convert selector into a corresponding internal selector object: {problem}"
            self._warn(autoscaler, "InvalidSelector", message)
            status.condition("ScalingActive", "False", "InvalidSelector", message)
            raise _NothingComputed(message) from problem
        pods = (await self.client.list(PODS, key.namespace, label_selector=text)).items
        keys = self._autoscalers_of(key.namespace, pods)
        if len(keys) > 1:
            names = " ".join(f"{{{one.name} {one.namespace}}}" for one in keys)
            message = f"pods by selector {text} are controlled by multiple HPAs: [{names}]"
            self._warn(autoscaler, "AmbiguousSelector", message)
            status.condition("ScalingActive", "False", "AmbiguousSelector", message)
            raise _NothingComputed(message)
        return pods

    def _autoscalers_of(self, namespace: str, pods: Sequence[JsonObject]) -> list[Key]:
        labels = [one["metadata"].get("labels") for one in pods]
        return sorted(
            key
            for key, memory in self._memories.items()
            if key.namespace == namespace and memory.selector is not None and any(map(memory.selector.matches, labels))
        )

    def _limited(
        self,
        key: Key,
        behavior: JsonObject | None,
        bounds: Bounds,
        current: int,
        wanted: int,
        status: "StatusDraft",
    ) -> int:
        memory, now = self._memories[key], asyncio.get_running_loop().time()
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
        limited = behaviors.limited(current, steady, bounds, memory.events, behavior, now)
        is_limited = "False" if limited.by is Limit.NONE else "True"
        status.condition("ScalingLimited", is_limited, limited.by.value, _LIMIT_WORDS[limited.by])
        return limited.replicas

    async def _write_scale(
        self, key: Key, autoscaler: JsonObject, target: ScaleTarget, wanted: _Wanted, status: "StatusDraft"
    ) -> None:
        message = f"New size: {wanted.replicas}; reason: {wanted.why}"
        try:
            await write_replicas(self.client, target, wanted.replicas)
        except ApiError as problem:
            text = f"the HPA controller was unable to update the target scale: {problem}"
            status.condition("AbleToScale", "False", "FailedUpdateScale", text)
            self._warn(autoscaler, "FailedRescale", f"{message}; error: {problem}")
            return
        event = ScaleEvent(asyncio.get_running_loop().time(), wanted.replicas - target.replicas)
        self._memories[key].events.append(event)
        status.desired, status.scaled_at = wanted.replicas, clock.timestamp()
        text = f"the HPA controller was able to update the target scale to {wanted.replicas}"
        status.condition("AbleToScale", "True", "SucceededRescale", text)
        self.recorder.normal(HORIZONTAL_POD_AUTOSCALERS, autoscaler, "SuccessfulRescale", message)

    def _warn(self, autoscaler: JsonObject, reason: str, message: str) -> None:
        self.recorder.warning(HORIZONTAL_POD_AUTOSCALERS, autoscaler, reason, message)


def _why(metric: EvaluatedMetric, current: int) -> str:
    """Empty if only the window for scaling down asks for a change."""
    if metric.replicas == current:
        return ""
    return f"{metric.name} above target" if metric.replicas > current else "All metrics below target"


def _spec_changed(old: JsonObject | None, new: JsonObject | None) -> bool:
    return old is None or new is None or old["metadata"].get("generation") != new["metadata"].get("generation")


class StatusDraft:
    """The next status of an autoscaler."""

    def __init__(self, autoscaler: JsonObject) -> None:
        self._autoscaler = autoscaler
        before = autoscaler.get("status") or {}
        self._conditions: dict[str, JsonObject] = {one["type"]: one for one in before.get("conditions") or ()}
        self.current: int = before.get("currentReplicas") or 0
        self.desired: int = before.get("desiredReplicas") or 0
        self.scaled_at: str | None = before.get("lastScaleTime")
        self.metrics: list[JsonObject] = before.get("currentMetrics") or []

    def condition(self, type: str, status: str, reason: str, message: str) -> None:
        old = self._conditions.get(type)
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else clock.timestamp()
        fields = {"type": type, "status": status, "reason": reason, "message": message}
        self._conditions[type] = {**fields, "lastTransitionTime": since}

    async def write(self, client: Client) -> None:
        status: JsonObject = {
            "currentReplicas": self.current,
            "desiredReplicas": self.desired,
            "conditions": list(self._conditions.values()),
            "currentMetrics": self.metrics or None,
            "observedGeneration": self._autoscaler["metadata"].get("generation"),
            **({"lastScaleTime": self.scaled_at} if self.scaled_at else {}),
        }
        before = self._autoscaler.get("status") or {}
        if any(before.get(name) != value for name, value in status.items()):
            await client.patch_status(HORIZONTAL_POD_AUTOSCALERS, self._autoscaler, status)
