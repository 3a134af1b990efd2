"""What the pods of a target use of cpu or memory, as the resource metrics API answers, and which pods count.

| pod | counts as |
|---|---|
| deleted, or failed | nothing: it is left out |
| pending | not ready |
| without metrics | missing |
| cpu, in the first five minutes: not ready, or measured before it became ready | not ready |
| cpu, later: not ready, and never ready since thirty seconds after its start | not ready |
| any other | ready |

A pod that starts uses much cpu, which says nothing about its load. What unready and missing pods mean for the number of
replicas is in `replicas`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kohort.cluster.workloads.autoscaling.replicas import PodNumbers
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import is_sidecar
from kohort.objects.quantity import Quantity
from kohort.resources import effective
from kohort.rules.go_duration import parse_duration

CPU: Final = "cpu"
CPU_INITIALIZATION: Final = timedelta(minutes=5)
INITIAL_READINESS_DELAY: Final = timedelta(seconds=30)
_PATH: Final = "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"


class MetricsUnavailable(Exception):
    """Replicas cannot be computed, in the words of Kubernetes."""


class PodUsage(msgspec.Struct, frozen=True):
    milli: int
    at: datetime
    window: timedelta


async def read_usage(
    client: Client, namespace: str, selector: str, resource: str, container: str = ""
) -> dict[str, PodUsage]:
    """Of all containers of each pod, or of one. A pod that lacks the resource or the container has no usage."""
    try:
        answer = await client.raw("GET", _PATH.format(namespace=namespace), (("labelSelector", selector),))
    except ApiError as problem:
        text = f"unable to get metrics for resource {resource}: unable to fetch metrics from resource metrics API: "
        raise MetricsUnavailable(f"{text}{problem}") from problem
    items: list[JsonObject] = msgspec.json.decode(answer).get("items") or []
    if not items:
        text = f"unable to get metrics for resource {resource}: no metrics returned from resource metrics API"
        raise MetricsUnavailable(text)
    found: dict[str, PodUsage] = {}
    for item in items:
        amounts = _amounts(item, resource, container)
        if amounts is not None:
            window = timedelta(seconds=parse_duration(item["window"]))
            found[item["metadata"]["name"]] = PodUsage(sum(amounts), clock.parse_time(item["timestamp"]), window)
    return found


def _amounts(item: JsonObject, resource: str, container: str) -> list[int] | None:
    usages = [one["usage"].get(resource) for one in item["containers"] if container in ("", one["name"])]
    return None if not usages or None in usages else [Quantity.parse(one).milli for one in usages]


def group_pods(pods: Sequence[JsonObject], usage: Mapping[str, PodUsage], resource: str, now: datetime) -> PodNumbers:
    ready: dict[str, int] = {}
    unready: set[str] = set()
    missing: set[str] = set()
    for pod in pods:
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase") or "Pending"
        if "deletionTimestamp" in pod["metadata"] or phase == "Failed":
            continue
        if phase == "Pending":
            unready.add(name)
        elif name not in usage:
            missing.add(name)
        elif resource == CPU and not _has_settled(pod, usage[name], now):
            unready.add(name)
        else:
            ready[name] = usage[name].milli
    return PodNumbers(ready, frozenset(missing), frozenset(unready))


def _has_settled(pod: JsonObject, usage: PodUsage, now: datetime) -> bool:
    """Whether the use of cpu says something about the load of a pod."""
    status = pod.get("status") or {}
    condition = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), None)
    if condition is None or not status.get("startTime"):
        return False
    started, changed = clock.parse_time(status["startTime"]), clock.parse_time(condition["lastTransitionTime"])
    is_ready = condition.get("status") != "False"
    if started + CPU_INITIALIZATION > now:
        return is_ready and usage.at >= changed + usage.window
    return is_ready or started + INITIAL_READINESS_DELAY <= changed


def requests_of(pods: Sequence[JsonObject], resource: str, container: str = "") -> dict[str, int]:
    """What pods request, in thousandths. A pod that has requests of its own counts as a whole, unless one container is
    meant. Otherwise every container must say what it requests: without it there is no percentage."""
    return {pod["metadata"]["name"]: _request_of(pod, resource, container) for pod in pods}


def _request_of(pod: JsonObject, resource: str, container: str) -> int:
    name, view = pod["metadata"]["name"], effective.view_of(pod)
    if not container and effective.pod_level_requests_set(view.spec):
        whole = effective.requests(view).get(resource)
        if whole is None:
            raise MetricsUnavailable(f"missing pod-level request for {resource} in Pod {name}")
        return whole.milli
    chosen = [one for one in _long_running(pod) if container in ("", one["name"])]
    if not chosen:
        raise MetricsUnavailable(f"container {container} not found in Pod {name}")
    total = 0
    for one in chosen:
        given = ((one.get("resources") or {}).get("requests") or {}).get(resource)
        if given is None:
            raise MetricsUnavailable(f"missing request for {resource} in container {one['name']} of Pod {name}")
        total += Quantity.parse(given).milli
    return total


def _long_running(pod: JsonObject) -> list[JsonObject]:
    """Containers, and init containers that go on beside them."""
    sidecars = [one for one in pod["spec"].get("initContainers") or () if is_sidecar(one)]
    return [*(pod["spec"].get("containers") or ()), *sidecars]
