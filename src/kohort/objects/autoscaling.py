"""Horizontal pod autoscalers and the scale subresource."""

from kohort.objects.jsontypes import JsonObject
from kohort.objects.meta import Condition, ObjectMeta
from kohort.objects.view import View


class ScaleTarget(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(View, frozen=True):
    scale_target_ref: ScaleTarget = ScaleTarget()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[JsonObject, ...] = ()


class HorizontalPodAutoscalerStatus(View, frozen=True):
    observed_generation: int | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    conditions: tuple[Condition, ...] | None = None


class HorizontalPodAutoscaler(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


class ScaleSpec(View, frozen=True):
    replicas: int = 0


class ScaleStatus(View, frozen=True):
    replicas: int = 0
    selector: str = ""


class Scale(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
