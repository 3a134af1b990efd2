"""Horizontal pod autoscalers, as far as releases need them: what they scale."""

from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View


class ScaleTarget(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(View, frozen=True):
    scale_target_ref: ScaleTarget = ScaleTarget()


class HorizontalPodAutoscaler(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
