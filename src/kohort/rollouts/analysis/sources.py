"""Reads the metrics of pods from a source: the pods themselves, a Prometheus, or the embedded gateway.

All three return the same: what each pod has counted since it began (`PodReading`). Prometheus is asked for the counters
themselves, not for rates, so that restarts are handled in one place.
"""

import asyncio
import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Final
from urllib.parse import urlencode

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.resources import CONFIG_MAPS, SECRETS
from kohort.objects.core import ConfigMap, Pod, Secret
from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.analysis_rules import AnalysisPlan
from kohort.rollouts.analysis.analysis_types import PrometheusSource, ScrapeSource, SecretKeyRef, Tls
from kohort.rollouts.analysis.counter_samples import PodReading, names_of, reading
from kohort.rollouts.analysis.http_fetch import Fetch, FetchError, FetchRequest
from kohort.rollouts.analysis.metrics_text import Series, parse
from kohort.rollouts.analysis.series_selectors import (
    OLDER_NAMES,
    HistogramSeries,
    Matcher,
    MetricSeries,
    QuerySeries,
    Selector,
    ShareSeries,
    ValueSeries,
)

GATEWAY_NAMESPACE: Final = "kohort-system"
GATEWAY_CONFIG_MAP: Final = "kohort-gateway"
GATEWAY_ADDRESS: Final = "metricsAddress"
_AT_ONCE: Final = 16
_PROMETHEUS_SECONDS: Final = 5.0


class SourceError(Exception):
    """Nothing could be read; says why."""


class SourceReading(msgspec.Struct, frozen=True):
    pods: tuple[PodReading, ...]
    queried: Mapping[str, float] = {}
    problems: tuple[str, ...] = ()
    """Pods that could not be read."""


class SourceReader:
    def __init__(self, client: Client, fetch: Fetch) -> None:
        self.client = client
        self.fetch = fetch

    async def read(
        self, plan: AnalysisPlan, namespace: str, canary: Sequence[Pod], stable: Sequence[Pod]
    ) -> SourceReading:
        """Raises SourceError where nothing could be read."""
        metrics = {metric.name: metric.series for metric in plan.metrics}
        pods = [*canary, *stable]
        source = plan.source
        if source.gateway is not None:
            return await self._gateway(metrics, namespace, pods)
        if source.prometheus is not None:
            return await self._prometheus(source.prometheus, metrics, namespace, canary, pods)
        assert source.scrape is not None, "a plan has a source"
        return await self._scrape(source.scrape, metrics, namespace, pods)

    # Pods

    async def _scrape(
        self, source: ScrapeSource, metrics: Mapping[str, MetricSeries], namespace: str, pods: Sequence[Pod]
    ) -> SourceReading:
        template = await self._request(source.tls, source.token_secret_ref, namespace)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(pod: Pod) -> PodReading | str:
            address = pod.status.pod_ip
            host = f"[{address}]" if ":" in address else address
            request = msgspec.structs.replace(
                template, url=f"{source.scheme}://{host}:{source.port}{source.path}", pod=True
            )
            try:
                async with turns:
                    text = await self.fetch(request)
            except FetchError as problem:
                return f"{pod.metadata.name}: {problem}"
            found = parse(text.decode(errors="replace"), names_of(metrics.values()))
            return reading(pod.metadata.name, identity(pod), found.series, metrics)

        answers = await asyncio.gather(*(one(pod) for pod in pods))
        problems = tuple(answer for answer in answers if isinstance(answer, str))
        found = tuple(answer for answer in answers if isinstance(answer, PodReading))
        if problems and not found:
            raise SourceError("; ".join(problems[:3]))
        return SourceReading(found, problems=problems)

    # The embedded gateway

    async def _gateway(self, metrics: Mapping[str, MetricSeries], namespace: str, pods: Sequence[Pod]) -> SourceReading:
        try:
            config: ConfigMap | None = await self.client.find(
                CONFIG_MAPS, GATEWAY_CONFIG_MAP, GATEWAY_NAMESPACE, type=ConfigMap
            )
        except ApiError as problem:
            raise SourceError(f"ConfigMap {GATEWAY_NAMESPACE}/{GATEWAY_CONFIG_MAP}: {problem}") from problem
        address = config.data.get(GATEWAY_ADDRESS, "") if config is not None else ""
        if not address:
            raise SourceError(
                f"there is no embedded gateway: ConfigMap {GATEWAY_NAMESPACE}/{GATEWAY_CONFIG_MAP} has no "
                f"{GATEWAY_ADDRESS}; use source.scrape or source.prometheus on this cluster"
            )
        try:
            text = await self.fetch(FetchRequest(address, trusted=True))
        except FetchError as problem:
            raise SourceError(str(problem)) from problem
        names = names_of(metrics.values())
        by_pod: dict[str, list[Series]] = {pod.metadata.name: [] for pod in pods}
        for one in parse(text.decode(errors="replace"), names).series:
            if one.labels.get("namespace") == namespace and one.labels.get("pod", "") in by_pod:
                by_pod[one.labels["pod"]].append(one)
        return SourceReading(
            tuple(reading(pod.metadata.name, identity(pod), by_pod[pod.metadata.name], metrics) for pod in pods)
        )

    # Prometheus

    async def _prometheus(
        self,
        source: PrometheusSource,
        metrics: Mapping[str, MetricSeries],
        namespace: str,
        canary: Sequence[Pod],
        pods: Sequence[Pod],
    ) -> SourceReading:
        template = await self._request(source.tls, source.token_secret_ref, namespace)
        by_pod: dict[str, list[Series]] = {pod.metadata.name: [] for pod in pods}
        within = (
            Matcher(source.pod_label, "=~", _any_of(pods)),
            Matcher(source.namespace_label, "=", namespace),
        )
        queried: dict[str, float] = {}
        try:
            for selector in _selectors(metrics.values()):
                query = selector.text(*within)
                for labels, value in _vector(await self._query(source, template, query)):
                    name = labels.get(source.pod_label, "")
                    if name in by_pod:
                        by_pod[name].append(Series(selector.name, labels, value))
            for name, metric in metrics.items():
                if isinstance(metric, QuerySeries):
                    query = metric.query.replace("{{pods}}", _any_of(canary)).replace("{{namespace}}", namespace)
                    answer = _vector(await self._query(source, template, query))
                    if len(answer) > 1:
                        raise SourceError(f"the query of {name} returns {len(answer)} series; aggregate them to one")
                    if answer:
                        queried[name] = answer[0][1]
        except FetchError as problem:
            raise SourceError(str(problem)) from problem
        found = (reading(pod.metadata.name, identity(pod), by_pod[pod.metadata.name], metrics) for pod in pods)
        return SourceReading(tuple(found), queried)

    async def _query(self, source: PrometheusSource, template: FetchRequest, query: str) -> JsonObject:
        """By POST, since the names of many pods do not fit into an address."""
        request = msgspec.structs.replace(
            template,
            url=f"{source.address.rstrip('/')}/api/v1/query",
            headers={**template.headers, "Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode({"query": query}).encode(),
            seconds=_PROMETHEUS_SECONDS,
        )
        answer = await self.fetch(request)
        try:
            document: JsonObject = msgspec.json.decode(answer)
            if document["status"] != "success":
                raise SourceError(f"Prometheus: {document.get('error', document['status'])}")
            data: JsonObject = document["data"]
        except (msgspec.DecodeError, KeyError, TypeError) as problem:
            raise SourceError(f"{request.url} does not answer as a Prometheus does") from problem
        return data

    # Secrets

    async def _request(self, tls: Tls | None, token: SecretKeyRef | None, namespace: str) -> FetchRequest:
        headers = {}
        if token is not None:
            headers["Authorization"] = f"Bearer {(await self.secret(token, namespace)).strip()}"
        tls = tls or Tls()
        authority = await self.secret(tls.ca_secret_ref, namespace) if tls.ca_secret_ref is not None else ""
        return FetchRequest(
            "",
            headers,
            certificate_authority=authority,
            server_name=tls.server_name,
            verifies=not tls.insecure_skip_verify,
        )

    async def secret(self, ref: SecretKeyRef, namespace: str) -> str:
        where = f"Secret {namespace}/{ref.name}"
        try:
            found: Secret = await self.client.get(SECRETS, ref.name, namespace, type=Secret)
        except NotFound:
            raise SourceError(f"{where} does not exist") from None
        except Forbidden:
            raise SourceError(
                f"{where} may not be read by the operator; allow it: kubectl -n {namespace} create role "
                f"read-{ref.name} --verb=get --resource=secrets --resource-name={ref.name}, and bind it"
            ) from None
        except ApiError as problem:
            raise SourceError(f"{where}: {problem}") from problem
        try:
            return base64.b64decode(found.data[ref.key]).decode()
        except (KeyError, ValueError):
            raise SourceError(f"{where} has no text under key {ref.key}") from None


def identity(pod: Pod) -> str:
    """Another one after every start of a container: its counters begin anew then."""
    restarts = sum(status.restart_count for status in pod.status.container_statuses)
    return f"{pod.metadata.uid}/{restarts}"


def _any_of(pods: Sequence[Pod]) -> str:
    return "|".join(re.escape(pod.metadata.name).replace("\\-", "-") for pod in pods)


def _selectors(metrics: Iterable[MetricSeries]) -> list[Selector]:
    found: list[Selector] = []
    for metric in metrics:
        match metric:
            case HistogramSeries(selector=selector):
                names = [selector.name, *filter(None, [OLDER_NAMES.get(selector.name)])]
                found += [Selector(f"{name}_bucket", selector.matchers) for name in names]
            case ShareSeries(total=total, bad=bad, good=good):
                found += [one for one in (total, bad, good) if one is not None]
            case ValueSeries(selector=selector):
                found.append(selector)
    # A selector without conditions brings what one with conditions of the same name would.
    whole = {one.name for one in found if not one.matchers}
    return list(dict.fromkeys(one for one in found if not one.matchers or one.name not in whole))


def _vector(data: JsonObject) -> list[tuple[Mapping[str, str], float]]:
    kind, result = data.get("resultType"), data.get("result")
    if kind == "scalar" and isinstance(result, list):
        return [({}, float(result[1]))]
    found = []
    for one in result if isinstance(result, list) else ():
        value = float(one["value"][1])
        if isfinite(value):
            found.append((one.get("metric") or {}, value))
    return found
