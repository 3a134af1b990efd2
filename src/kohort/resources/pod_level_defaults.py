"""Resources of a pod as a whole: how what is not said at pod level follows from the containers.

| pod level says | containers                          | pod level becomes              |
|----------------|-------------------------------------|--------------------------------|
| nothing, `{}`  | anything                            | unchanged                      |
| limits 100m    | requests 50m + 30m                  | requests 80m, limits 100m      |
| limits 100m    | none                                | requests 100m, limits 100m     |
| requests 100m  | limits 50m + 50m                    | requests 100m, limits 100m     |
| requests 100m  | limits 50m, none                    | requests 100m                  |
| requests 256Mi | requests 5m + 6m, limits 9m and 10m | requests 11m/256Mi, limits 19m |

The API server stores what is filled in, so that it stays when a container changes later: a resize of the pod must state
what follows for the pod (`kohort.rules.resource_edit.change_of_pod`).
"""

from collections.abc import Mapping

import msgspec

from kohort.objects.pods import PodSpec, ResourceRequirements
from kohort.objects.quantity import Quantity
from kohort.resources.amounts import CPU, HUGE_PAGES_PREFIX, MEMORY, Amounts, Written, supported_at_pod_level
from kohort.resources.effective import aggregate, limits_of, requests_of


def with_pod_level_defaults(spec: PodSpec, *, legacy: bool = False, limits: bool = True) -> PodSpec:
    """Without `limits`, those that are not given stay so. `legacy` is how Kubernetes did it before 1.37: requests only
    if there are limits, and never limits."""
    block = spec.resources
    if block is None or not (block.requests or block.limits):
        return spec
    requests, bounds = dict(block.requests), dict(block.limits)
    limits_together = aggregate(spec, limits_of)
    _limits_of_huge_pages(bounds, requests, limits_together)
    if bounds or not legacy:
        for name, amount in aggregate(spec, requests_of).items():
            if name in (CPU, MEMORY):
                requests.setdefault(name, str(amount))
        for name, written in bounds.items():
            if supported_at_pod_level(name):
                requests.setdefault(name, written)
    if limits and not legacy:
        _limits_from_containers(spec, bounds, requests, limits_together)
    return msgspec.structs.replace(spec, resources=ResourceRequirements(requests, bounds, block.claims))


def _limits_of_huge_pages(limits: dict[str, str | int | float], requests: Written, needed: Amounts) -> None:
    for name, amount in needed.items():
        if name.startswith(HUGE_PAGES_PREFIX) and name not in limits and name not in requests:
            limits[name] = str(amount)


def _limits_from_containers(
    spec: PodSpec, limits: dict[str, str | int | float], requests: Written, needed: Mapping[str, Quantity]
) -> None:
    """A limit for what is requested, if every container has one: then the pod could not exceed it anyway."""
    for name, request in requests.items():
        if not supported_at_pod_level(name) or name in limits or name not in needed:
            continue
        if all(name in container.resources.limits for container in spec.all_containers):
            limits[name] = str(max(Quantity.parse(request), needed[name]))
