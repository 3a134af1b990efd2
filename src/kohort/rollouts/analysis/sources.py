"""Reads the metrics of pods from a source: the pods themselves, a Prometheus, or the embedded gateway.

All three return the same: what each pod has counted since it began (`PodReading`). Prometheus is asked for the counters
themselves, not for rates, so that restarts are handled in one place.
"""

import asyncio
import base64
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Final
from urllib.parse import urlencode

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.resources import CONFIG_MAPS, SECRETS
from kohort.objects.core import ConfigMap, Pod, Secret
from kohort.rollouts.analysis.analysis_rules import AnalysisPlan
from kohort.rollouts.analysis.analysis_types import PrometheusSource, ScrapeSource, SecretKeyRef, Tls
from kohort.rollouts.analysis.counter_samples import PodReading, names_of, reading
from kohort.rollouts.analysis.http_fetch import Fetch, FetchError, FetchRequest
from kohort.rollouts.analysis.metrics_text import Series, parse_in_turns
from kohort.rollouts.analysis.series_selectors import (
    Matcher,
    MetricSeries,
    QuerySeries,
    Selector,
    series_of,
)
from kohort.rules.gateway_metrics import ADDRESS_KEY, CONFIG_MAP, NAMESPACE

_AT_ONCE: Final = 16
_PROMETHEUS_SECONDS: Final = 5.0
_LONGEST_ERROR: Final = 1000


class SourceError(Exception):
    """Nothing could be read; says why."""


class _Sample(msgspec.Struct, frozen=True):
    metric: Mapping[str, str] = {}
    value: tuple[float, str] | None = None
    """Time and value; None of a native histogram."""


class _Vector(msgspec.Struct, frozen=True, tag_field="resultType", tag="vector"):
    result: tuple[_Sample, ...]


class _Scalar(msgspec.Struct, frozen=True, tag_field="resultType", tag="scalar"):
    result: tuple[float, str]


class _PrometheusAnswer(msgspec.Struct, frozen=True):
    """As the HTTP API of Prometheus documents it. What answers there was named by a user, so nothing is trusted."""

    status: str
    error: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


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
            found = await parse_in_turns(text.decode(errors="replace"), names_of(metrics.values()))
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
            config: ConfigMap | None = await self.client.find(CONFIG_MAPS, CONFIG_MAP, NAMESPACE, type=ConfigMap)
        except ApiError as problem:
            raise SourceError(f"ConfigMap {NAMESPACE}/{CONFIG_MAP}: {problem}") from problem
        address = config.data.get(ADDRESS_KEY, "") if config is not None else ""
        if not address:
            raise SourceError(
                f"the embedded gateway serves nothing, ConfigMap {NAMESPACE}/{CONFIG_MAP} has no {ADDRESS_KEY}: create "
                "the Gateway or the Ingress; on a cluster without it use source.scrape or source.prometheus"
            )
        try:
            text = await self.fetch(FetchRequest(address, trusted=True))
        except FetchError as problem:
            raise SourceError(str(problem)) from problem
        names = names_of(metrics.values())
        by_pod: dict[str, list[Series]] = {pod.metadata.name: [] for pod in pods}
        for one in (await parse_in_turns(text.decode(errors="replace"), names)).series:
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
                for labels, value in await self._query(source, template, query):
                    name = labels.get(source.pod_label, "")
                    if name in by_pod:
                        by_pod[name].append(Series(selector.name, labels, value))
            for name, metric in metrics.items():
                if isinstance(metric, QuerySeries):
                    query = metric.query.replace("{{pods}}", _any_of(canary)).replace("{{namespace}}", namespace)
                    answer = await self._query(source, template, query)
                    if len(answer) > 1:
                        raise SourceError(f"the query of {name} returns {len(answer)} series; aggregate them to one")
                    if answer:
                        queried[name] = answer[0][1]
        except FetchError as problem:
            raise SourceError(str(problem)) from problem
        found = (reading(pod.metadata.name, identity(pod), by_pod[pod.metadata.name], metrics) for pod in pods)
        return SourceReading(tuple(found), queried)

    async def _query(
        self, source: PrometheusSource, template: FetchRequest, query: str
    ) -> list[tuple[Mapping[str, str], float]]:
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
            found = msgspec.json.decode(answer, type=_PrometheusAnswer)
            if found.status != "success":
                raise SourceError(f"Prometheus: {(found.error or found.status)[:_LONGEST_ERROR]}")
            return _finite_values(msgspec.json.decode(found.data, type=_Vector | _Scalar))
        except (ValueError, RecursionError) as problem:  # Those of msgspec are of the first kind.
            raise SourceError(f"{request.url} does not answer as a Prometheus does") from problem

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
    """A pattern without backslashes: how many of them PromQL wants depends on the quotes that a query has around it."""
    return "|".join(pod.metadata.name.replace(".", "[.]") for pod in pods)


def _selectors(metrics: Iterable[MetricSeries]) -> list[Selector]:
    found = [one for metric in metrics for one in series_of(metric)]
    # A selector without conditions brings what one with conditions of the same name would.
    whole = {one.name for one in found if not one.matchers}
    return list(dict.fromkeys(one for one in found if not one.matchers or one.name not in whole))


def _finite_values(found: _Vector | _Scalar) -> list[tuple[Mapping[str, str], float]]:
    """The values with their labels. One that is not finite is missing: PromQL makes NaN of 0/0, and of the scalar of
    nothing, and a reading that is no number would be neither above a limit nor below it."""
    samples = found.result if isinstance(found, _Vector) else (_Sample(value=found.result),)
    values = [(one.metric, float(one.value[1])) for one in samples if one.value is not None]
    return [(labels, value) for labels, value in values if isfinite(value)]
