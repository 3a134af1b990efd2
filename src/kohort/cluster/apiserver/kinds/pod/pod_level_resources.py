"""Resources of a pod as a whole, as the API server stores them: `kohort.resources.pod_level_defaults` has the rule.

Amounts are filled in after mutating admission, so that injected containers count, and again on a resize. Before
Kubernetes 1.37 that was at decoding, requests were filled in only when there were limits, and limits never (`legacy`).
"""

from typing import Literal

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources import aggregate as aggregate_containers
from kohort.resources import limits_of, qos_class, reported, requests_of, view_of, written_of
from kohort.rules.stored_requests import fill_in_pod_level

Side = Literal["requests", "limits"]


def view(spec: JsonObject) -> PodSpec:
    return msgspec.convert(spec, PodSpec)


def aggregate(spec: JsonObject, side: Side) -> dict[str, Quantity]:
    """What the containers need together, requests or limits."""
    return aggregate_containers(view(spec), requests_of if side == "requests" else limits_of)


def quality(spec: JsonObject, *, pod_level: bool = True) -> str:
    """The quality-of-service class that a spec amounts to."""
    if not pod_level and "resources" in spec:
        spec = {key: value for key, value in spec.items() if key != "resources"}
    return qos_class(view(spec))


def is_set(spec: JsonObject) -> bool:
    block: JsonObject = spec.get("resources") or {}
    return bool(block.get("requests") or block.get("limits"))


def desired_status(pod: JsonObject) -> JsonObject:
    """`status.resources` of a pod that no node has taken yet: what it will get."""
    requests, limits = reported(view_of({"spec": pod["spec"]}))
    sides = (("requests", written_of(requests)), ("limits", written_of(limits)))
    return {side: amounts for side, amounts in sides if amounts}


def default_levels(spec: JsonObject, *, legacy: bool = False, limits: bool = True) -> None:
    """Without `limits`, those that are not given stay so."""
    if not is_set(spec):
        return
    fill_in_pod_level(spec, legacy=legacy, limits=limits)
