"""The numbers that pods report, read from their metrics endpoints.

| pod | where |
|---|---|
| on a simulated node | annotation `simulation.kohort.dev/metrics: requests_waiting=12,other=3` |
| with annotation `prometheus.io/port` | that port, `prometheus.io/path` or /metrics |
| with a container port named `metrics` | that port, /metrics |
| any other with a container port | the first one, /metrics |

A metric of an autoscaler is a family of the same name; colons, which names of metrics in Kubernetes cannot have, may be
written as underscores (`vllm:num_requests_waiting` is found as `vllm_num_requests_waiting`). Samples of a family are
added up.
"""

import asyncio
import math
from collections.abc import Mapping
from typing import Final

from kohort.objects.json_types import JsonObject
from kohort.rules import simulation_labels

_SECONDS: Final = 2.0
_MOST_BYTES: Final = 1024 * 1024


class MetricUnavailable(Exception):
    """A pod does not report a metric."""


def endpoint_of(pod: JsonObject) -> str:
    """The address of a pod's metrics; empty if it has none."""
    annotations, address = pod["metadata"].get("annotations") or {}, (pod.get("status") or {}).get("podIP") or ""
    containers = pod["spec"].get("containers") or ()
    ports = [port for one in containers for port in one.get("ports") or () if port.get("protocol", "TCP") == "TCP"]
    named = [port for port in ports if port.get("name") == "metrics"] or ports
    port = annotations.get("prometheus.io/port") or (str(named[0]["containerPort"]) if named else "")
    if not address or not port.isdecimal():
        return ""
    host = f"[{address}]" if ":" in address else address
    path = annotations.get("prometheus.io/path") or "/metrics"
    return f"http://{host}:{port}{path if path.startswith('/') else '/' + path}"


def simulated_number(pod: JsonObject, metric: str) -> float | None:
    """What a simulated pod reports; None if it reports nothing of that name."""
    text = (pod["metadata"].get("annotations") or {}).get(simulation_labels.METRICS, "")
    for item in text.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        if name == metric:
            try:
                return float(value)
            except ValueError:
                return None
    return None


def number_in(text: str, metric: str, labels: Mapping[str, str]) -> float | None:
    """The sum of the samples of a family that have these labels; None if there are none.

    >>> number_in('vllm:waiting{m="a"} 2\\nvllm:waiting{m="b"} 3\\n', "vllm_waiting", {})
    5.0
    """
    from prometheus_client.parser import text_string_to_metric_families

    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = [
        sample.value
        for sample in samples
        if sample.name.replace(":", "_") == metric and labels.items() <= sample.labels.items()
    ]
    return sum(found) if found else None


async def read_number(pod: JsonObject, metric: str, labels: Mapping[str, str]) -> float:
    """Raises MetricUnavailable, also for NaN and infinity, which metrics may be."""
    number = await _read_number(pod, metric, labels)
    if not math.isfinite(number):
        raise MetricUnavailable(f"{metric} is {number}")
    return number


async def _read_number(pod: JsonObject, metric: str, labels: Mapping[str, str]) -> float:
    if simulation_labels.METRICS in (pod["metadata"].get("annotations") or {}):
        simulated = simulated_number(pod, metric)
        if simulated is None:
            raise MetricUnavailable(f"annotation {simulation_labels.METRICS} has no number for {metric}")
        return simulated
    address = endpoint_of(pod)
    if not address:
        raise MetricUnavailable("it has no address or no container port")
    try:
        text = await _fetch(address)
        number = number_in(text, metric, labels)
    except (TimeoutError, OSError, ValueError) as problem:
        raise MetricUnavailable(f"{address}: {problem or type(problem).__name__}") from problem
    if number is None:
        raise MetricUnavailable(f"{address} has no {metric}")
    return number


async def _fetch(address: str) -> str:
    import aiohttp

    try:
        async with (
            asyncio.timeout(_SECONDS),
            aiohttp.ClientSession() as session,
            session.get(address, allow_redirects=False) as answer,
        ):
            body = b""
            while len(body) <= _MOST_BYTES and (more := await answer.content.read(_MOST_BYTES + 1 - len(body))):
                body += more
    except aiohttp.ClientError as problem:
        raise MetricUnavailable(f"{address}: {problem or type(problem).__name__}") from problem
    if answer.status != 200:
        raise MetricUnavailable(f"{address} answers {answer.status}")
    if len(body) > _MOST_BYTES:
        raise MetricUnavailable(f"{address} sends more than {_MOST_BYTES} bytes")
    return body.decode(errors="replace")
