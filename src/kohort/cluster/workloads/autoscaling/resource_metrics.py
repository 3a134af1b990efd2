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

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity
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


class GroupedPods(msgspec.Struct, frozen=True):
    usage: Mapping[str, int]
    """Of ready pods, in thousandths."""
    unready: frozenset[str]
    missing: frozenset[str]


async def read_usage(
    client: Client, namespace: str, selector: str, resource: str, container: str = ""
) -> dict[str, PodUsage]:
    """Of all containers of each pod, or of one. A pod that lacks the resource has no usage."""
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
    chosen = [one for one in item["containers"] if container in ("", one["name"])]
    if container and not chosen:
        name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        text = f"unable to get metrics for resource {resource}: failed to get container metrics: "
        raise MetricsUnavailable(f"{text}container {container} not present in metrics for pod {name}")
    usages = [one["usage"].get(resource) for one in chosen]
    return None if None in usages else [Quantity.parse(one).milli for one in usages]


def group_pods(pods: Sequence[JsonObject], usage: Mapping[str, PodUsage], resource: str, now: datetime) -> GroupedPods:
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
    return GroupedPods(ready, frozenset(unready), frozenset(missing))


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
    """What pods request, in thousandths. Every container must say so: without it there is no percentage."""
    found: dict[str, int] = {}
    for pod in pods:
        name, total = pod["metadata"]["name"], 0
        level = ((pod["spec"].get("resources") or {}).get("requests") or {}).get(resource)
        if level is not None and not container:
            found[name] = Quantity.parse(level).milli
            continue
        for one in _long_running(pod):
            if container not in ("", one["name"]):
                continue
            given = ((one.get("resources") or {}).get("requests") or {}).get(resource)
            if given is None:
                raise MetricsUnavailable(f"missing request for {resource} in container {one['name']} of Pod {name}")
            total += Quantity.parse(given).milli
        found[name] = total
    return found


def _long_running(pod: JsonObject) -> list[JsonObject]:
    """Containers, and init containers that go on beside them."""
    sidecars = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return [*(pod["spec"].get("containers") or ()), *sidecars]
