"""What the pods of a template request, once an API server has stored them.

A template keeps what its author wrote, and a pod does not: limits become requests, which is the usual way to ask for
accelerators, and resources of the pod as a whole are filled in. What a LimitRange or a runtime class of a cluster adds
is not known here.
"""

import copy
from typing import Final

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import PodSpec, ResourceRequirements
from kohort.resources import with_pod_level_defaults

_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


def with_stored_requests(spec: JsonObject) -> JsonObject:
    """The spec of a pod with all of its requests. Applying it twice changes nothing more."""
    result: JsonObject = copy.deepcopy(spec)
    spell_amounts(result)
    for container in (one for name in _CONTAINERS for one in result.get(name) or ()):
        if container.get("resources"):
            requests_from_limits(container["resources"])
    if result.get("resources"):
        fill_in_pod_level(result)
    return result


def requests_from_limits(resources: JsonObject) -> None:
    """What a container may use and does not request, it requests. Changes `resources`."""
    limits = resources.get("limits")
    if not limits:
        return
    requests = resources.get("requests")
    if requests is None:
        resources["requests"] = dict(limits)
        return
    for name, amount in limits.items():
        if name not in requests:
            requests[name] = amount


def fill_in_pod_level(spec: JsonObject, *, legacy: bool = False, limits: bool = True) -> None:
    """Requests and limits of the pod as a whole, from those of its containers (`resources.pod_level_defaults`). Without
    `limits`, those that are not given stay so. Changes `spec`."""
    whole = with_pod_level_defaults(msgspec.convert(spec, PodSpec), legacy=legacy, limits=limits)
    filled_in = whole.resources or ResourceRequirements()
    for side, amounts in (("requests", filled_in.requests), ("limits", filled_in.limits)):
        if amounts:
            spec["resources"][side] = dict(amounts)


def spell_amounts(spec: JsonObject) -> None:
    """`cpu: 500` in a template is a number; in a stored pod it is text, and the defaults are made for that."""
    parts = [spec, *(one for name in _CONTAINERS for one in spec.get(name) or ())]
    blocks = [(part.get("resources") or {}).get(side) for part in parts for side in ("requests", "limits")]
    for amounts in (*blocks, spec.get("overhead")):
        if amounts:
            amounts.update({name: str(amount) for name, amount in amounts.items()})
