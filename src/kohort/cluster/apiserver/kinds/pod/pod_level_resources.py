"""Resources of a pod as a whole: how what is not said at pod level follows from the containers.

| pod level says | containers                          | pod level becomes              |
|----------------|-------------------------------------|--------------------------------|
| nothing, `{}`  | anything                            | unchanged                      |
| limits 100m    | requests 50m + 30m                  | requests 80m, limits 100m      |
| limits 100m    | none                                | requests 100m, limits 100m     |
| requests 100m  | limits 50m + 50m                    | requests 100m, limits 100m     |
| requests 100m  | limits 50m, none                    | requests 100m                  |
| requests 256Mi | requests 5m + 6m, limits 9m and 10m | requests 11m/256Mi, limits 19m |

This runs after mutating admission, so that injected containers count, and again on a resize. Before Kubernetes 1.37 it
ran at decoding, filled in requests only when there were limits, and never limits (`legacy`).
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from kohort.cluster.apiserver.kinds.resource_names import can_overcommit, is_huge_pages, is_pod_level
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources import aggregate as aggregate_containers
from kohort.resources import limits_of, qos_class, reported, requests_of, view_of, written_of

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
    block: JsonObject = spec["resources"]
    requests: dict[str, str] = dict(block.get("requests") or {})
    bounds: dict[str, str] = dict(block.get("limits") or {})
    typed = view(spec)
    _limits_of_huge_pages(bounds, requests, aggregate_containers(typed, limits_of))
    if bounds or not legacy:
        _requests_from_containers(requests, aggregate_containers(typed, requests_of))
        for name, amount in bounds.items():
            if is_pod_level(name):
                requests.setdefault(name, amount)
    if limits and not legacy:
        _limits_from_containers(spec, bounds, requests, aggregate_containers(typed, limits_of))
    for side, amounts in (("requests", requests), ("limits", bounds)):
        if amounts:
            block[side] = amounts


def _limits_of_huge_pages(limits: dict[str, str], requests: Mapping[str, str], needed: Mapping[str, Quantity]) -> None:
    for name, amount in needed.items():
        if is_huge_pages(name) and name not in limits and name not in requests:
            limits[name] = str(amount)


def _requests_from_containers(requests: dict[str, str], needed: Mapping[str, Quantity]) -> None:
    for name, amount in needed.items():
        if is_pod_level(name) and can_overcommit(name) and name not in requests:
            requests[name] = str(amount)


def _limits_from_containers(
    spec: JsonObject, limits: dict[str, str], requests: Mapping[str, str], needed: Mapping[str, Quantity]
) -> None:
    """A limit for what is requested, if every container has one: then the pod could not exceed it anyway."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    for name, request in requests.items():
        if not is_pod_level(name) or name in limits or name not in needed:
            continue
        if all(name in ((c.get("resources") or {}).get("limits") or {}) for c in containers):
            limits[name] = str(max(Quantity.parse(request), needed[name]))
