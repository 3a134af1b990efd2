"""How many requests pods have in flight.

| source                                               | series                                                       |
|------------------------------------------------------|--------------------------------------------------------------|
| the embedded gateway, at the address in its ConfigMap | `kohort_gateway_requests_in_flight`                         |
| the pod, `/metrics` at the port of its Service       | `vllm:num_requests_running`, `sglang:num_running_reqs`, or   |
|                                                      | the name in annotation `kohort.dev/in-flight-metric`         |

The larger number counts: the gateway sees what went through it, the server sees all. A pod that does not answer has
none that are known; one that takes too long to answer is busy.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import CONFIG_MAPS
from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.http_fetch import Fetch, FetchError, FetchRequest, FetchTimeout
from kohort.rollouts.analysis.metrics_text import parse_in_turns
from kohort.rules.gateway_metrics import ADDRESS_KEY, CONFIG_MAP, IN_FLIGHT, NAMESPACE
from kohort.rules.pod_addresses import can_be_of_pod

ANNOTATION: Final = "kohort.dev/in-flight-metric"
KNOWN_SERIES: Final = ("vllm:num_requests_running", "sglang:num_running_reqs")
_AT_ONCE: Final = 16


class InFlightReader:
    def __init__(self, client: Client, fetch: Fetch) -> None:
        self._client = client
        self._fetch = fetch

    async def read(self, namespace: str, pods: Sequence[JsonObject], service: JsonObject) -> dict[str, float]:
        """By name of the pod; those of which nothing is known are missing."""
        found = await self._of_gateway(namespace, {pod["metadata"]["name"] for pod in pods})
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(pod: JsonObject) -> tuple[str, float | None]:
            async with limit:
                return pod["metadata"]["name"], await self._of_pod(pod, service)

        for name, count in await asyncio.gather(*(one(pod) for pod in pods)):
            if count is not None:
                found[name] = max(count, found.get(name, 0.0))
        return found

    async def _of_gateway(self, namespace: str, pods: set[str]) -> dict[str, float]:
        try:
            config: JsonObject | None = await self._client.find(CONFIG_MAPS, CONFIG_MAP, NAMESPACE)
        except ApiError:
            return {}
        url = str(((config or {}).get("data") or {}).get(ADDRESS_KEY, ""))
        if not _is_loopback(url):
            return {}
        try:
            text = (await self._fetch(FetchRequest(url, trusted=True))).decode("utf-8", "replace")
        except FetchError:
            return {}
        found: dict[str, float] = {}
        for series in (await parse_in_turns(text, {IN_FLIGHT})).series:
            name = series.labels.get("pod", "")
            if series.labels.get("namespace") == namespace and name in pods:
                found[name] = found.get(name, 0.0) + series.value
        return found

    async def _of_pod(self, pod: JsonObject, service: JsonObject) -> float | None:
        address = str((pod.get("status") or {}).get("podIP", ""))
        port = metrics_port(pod, service)
        if not can_be_of_pod(address) or port is None:
            return None
        host = f"[{address}]" if ":" in address else address
        try:
            answer = await self._fetch(FetchRequest(f"http://{host}:{port}/metrics", pod=True))
        except FetchTimeout:
            return 1.0
        except FetchError:
            return None
        return await in_flight(answer.decode("utf-8", "replace"), series_names(pod))


def series_names(pod: JsonObject) -> tuple[str, ...]:
    named = str((pod["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return (named,) if named else KNOWN_SERIES


async def in_flight(text: str, names: Iterable[str]) -> float | None:
    """The sum of all series of these names; None if there is none."""
    found = (await parse_in_turns(text, set(names))).series
    return sum(series.value for series in found) if found else None


def metrics_port(pod: JsonObject, service: JsonObject) -> int | None:
    """Where the first port of the Service leads in this pod."""
    ports: Sequence[JsonObject] = (service.get("spec") or {}).get("ports") or ()
    if not ports:
        return None
    target = ports[0].get("targetPort") or ports[0].get("port")
    if isinstance(target, int):
        return target
    declared: Mapping[str, int] = {
        str(port.get("name")): int(port["containerPort"])
        for container in pod["spec"].get("containers") or ()
        for port in container.get("ports") or ()
    }
    return declared.get(str(target))


def _is_loopback(url: str) -> bool:
    parts = urlsplit(url)
    try:
        return parts.scheme == "http" and ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
