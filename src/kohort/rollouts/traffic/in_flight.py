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
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import CONFIG_MAPS
from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.metrics_text import parse
from kohort.rules.pod_addresses import can_be_of_pod

if TYPE_CHECKING:
    from aiohttp import ClientSession

ANNOTATION: Final = "kohort.dev/in-flight-metric"
KNOWN_SERIES: Final = ("vllm:num_requests_running", "sglang:num_running_reqs")
GATEWAY_SERIES: Final = "kohort_gateway_requests_in_flight"
GATEWAY_NAMESPACE: Final = "kohort-system"
GATEWAY_CONFIG_MAP: Final = "kohort-gateway"
GATEWAY_ADDRESS: Final = "metricsAddress"
MAX_BYTES: Final = 1 << 20
TIMEOUT_SECONDS: Final = 2.0
_AT_ONCE: Final = 16


class InFlightReader:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._session: ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

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
            config: JsonObject | None = await self._client.find(CONFIG_MAPS, GATEWAY_CONFIG_MAP, GATEWAY_NAMESPACE)
        except ApiError:
            return {}
        url = str(((config or {}).get("data") or {}).get(GATEWAY_ADDRESS, ""))
        if not _is_loopback(url):
            return {}
        try:
            text = await self._fetch(url)
        except (OSError, TimeoutError):
            return {}
        found: dict[str, float] = {}
        for series in parse(text, {GATEWAY_SERIES}).series:
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
            text = await self._fetch(f"http://{host}:{port}/metrics")
        except TimeoutError:
            return 1.0
        except OSError:
            return None
        return in_flight(text, series_names(pod))

    async def _fetch(self, url: str) -> str:
        """Raises OSError, and TimeoutError if something is there that does not answer in time."""
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, connector=aiohttp.TCPConnector(force_close=True)
            )
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS, sock_connect=TIMEOUT_SECONDS / 2)
        try:
            async with self._session.get(url, allow_redirects=False, timeout=timeout) as answer:
                if answer.status != 200:
                    return ""
                return (await answer.content.read(MAX_BYTES)).decode("utf-8", "replace")
        except aiohttp.ConnectionTimeoutError as problem:
            raise OSError(str(problem)) from None
        except aiohttp.ClientError as problem:
            raise OSError(str(problem)) from None


def series_names(pod: JsonObject) -> tuple[str, ...]:
    named = str((pod["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return (named,) if named else KNOWN_SERIES


def in_flight(text: str, names: Iterable[str]) -> float | None:
    """The sum of all series of these names; None if there is none.

    >>> in_flight('vllm:num_requests_running{model_name="m"} 3.0\\n', KNOWN_SERIES), in_flight("other 1", KNOWN_SERIES)
    (3.0, None)
    """
    found = parse(text, set(names)).series
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
