"""Sources: pods, the embedded gateway, and a real Prometheus where there is one."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
import pytest
from aiohttp import web
from tests.builders import pod as pod_of
from tests.rollouts.analysis.analyses import analysis_spec
from tests.rollouts.analysis_sources.test_http_fetch import served

from kohort.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from kohort.objects.core import Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.analysis.analysis_rules import AnalysisPlan, parse_plan
from kohort.rollouts.analysis.analysis_types import AnalysisSpec
from kohort.rollouts.analysis.distributions import Distribution
from kohort.rollouts.analysis.http_fetch import FetchError, FetchRequest, HttpFetch
from kohort.rollouts.analysis.sources import SourceError, SourceReader, identity
from kohort.testing import Cluster

TEXT = 't_bucket{le="1"} 2\nt_bucket{le="+Inf"} 3\nr_total{code="200"} 9\nr_total{code="503"} 1\nq 4\n'
METRICS: list[JsonObject] = [
    {"name": "ttft", "histogram": "t", "quantile": 0.9, "maxRatio": 1.1},
    {"name": "errors", "counters": {"total": "r_total", "bad": 'r_total{code=~"5.."}'}, "max": "1%"},
    {"name": "queue", "gauge": "q", "max": 5},
]
TTFT, ERRORS = Distribution((1.0,), (2.0, 1.0)), Distribution((0.5,), (9.0, 1.0))


def plan(source: JsonObject, metrics: list[JsonObject] | None = None) -> AnalysisPlan:
    return parse_plan(msgspec.convert(analysis_spec(source=source, metrics=metrics or METRICS), AnalysisSpec))


def pod(name: str, address: str) -> Pod:
    document: Json = pod_of(name)
    found = msgspec.convert(document, Pod)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, pod_ip=address))


class Answers:
    """What is behind addresses."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts
        self.asked: list[FetchRequest] = []

    async def __call__(self, request: FetchRequest) -> bytes:
        self.asked.append(request)
        for part, text in self.texts.items():
            if part in request.url:
                return text.encode()
        raise FetchError(f"{request.url}: HTTP 500")


async def test_pods_are_read_by_their_addresses_with_token_and_authority() -> None:
    fetch = Answers(metrics=TEXT)
    async with Cluster(parts=(), nodes=0) as cluster:
        data = {"token": "c2VjcmV0Cg==", "ca": "UEVN"}
        await cluster.client.create(SECRETS, {"metadata": {"name": "m"}, "data": data}, "default")
        source = {
            "scrape": {
                "port": 9000,
                "scheme": "https",
                "tls": {"caSecretRef": {"name": "m", "key": "ca"}, "serverName": "model"},
                "tokenSecretRef": {"name": "m", "key": "token"},
            }
        }
        found = await SourceReader(cluster.client, fetch).read(
            plan(source), "default", [pod("new", "10.0.0.1")], [pod("old", "fd00::2")]
        )
        assert [one.pod for one in found.pods] == ["new", "old"]
        assert found.pods[0].counters == {"ttft": TTFT, "errors": ERRORS}
        assert found.pods[0].values == {"queue": 4.0}
        assert [one.url for one in fetch.asked] == ["https://10.0.0.1:9000/metrics", "https://[fd00::2]:9000/metrics"]
        for one in fetch.asked:
            assert (one.pod, one.headers["Authorization"]) == (True, "Bearer secret")
            assert (one.certificate_authority, one.server_name) == ("PEM", "model")
        missing = {"scrape": {"port": 1, "tokenSecretRef": {"name": "other", "key": "token"}}}
        with pytest.raises(SourceError, match="Secret default/other does not exist"):
            await SourceReader(cluster.client, fetch).read(plan(missing), "default", [pod("new", "10.0.0.1")], [])


def test_a_pod_whose_container_has_started_again_counts_as_another_one() -> None:
    document = pod_of("new")
    document["status"] = {"containerStatuses": [{"name": "main", "restartCount": 0}]}
    before = identity(msgspec.convert(document, Pod))
    document["status"]["containerStatuses"][0]["restartCount"] = 1
    assert identity(msgspec.convert(document, Pod)) != before


@pytest.mark.parametrize(("tls", "verifies"), [({}, True), ({"insecureSkipVerify": True}, False)])
async def test_certificates_are_verified_unless_the_user_says_otherwise(tls: JsonObject, verifies: bool) -> None:
    fetch = Answers(metrics=TEXT)
    source = {"scrape": {"port": 9000, "scheme": "https", "tls": tls}}
    async with Cluster(parts=(), nodes=0) as cluster:
        await SourceReader(cluster.client, fetch).read(plan(source), "default", [pod("new", "10.0.0.1")], [])
    assert [one.verifies for one in fetch.asked] == [verifies]


async def test_pods_that_do_not_answer_are_named_and_others_are_read() -> None:
    fetch = Answers(**{"10.0.0.1": TEXT})
    async with Cluster(parts=(), nodes=0) as cluster:
        reader = SourceReader(cluster.client, fetch)
        source = {"scrape": {"port": 9000}}
        found = await reader.read(plan(source), "default", [pod("new", "10.0.0.1")], [pod("old", "10.0.0.2")])
        assert [one.pod for one in found.pods] == ["new"]
        assert "old: http://10.0.0.2:9000/metrics: HTTP 500" in found.problems[0]
        with pytest.raises(SourceError, match="HTTP 500"):
            await reader.read(plan(source), "default", [], [pod("old", "10.0.0.2")])


async def test_the_gateway_is_found_by_its_config_map_and_read_per_pod() -> None:
    labels = 'namespace="default",service="llm"'
    other = 'namespace="other",service="llm"'
    text = (
        f'kohort_gateway_first_byte_seconds_bucket{{{labels},pod="new",le="1"}} 2\n'
        f'kohort_gateway_first_byte_seconds_bucket{{{labels},pod="new",le="+Inf"}} 3\n'
        f'kohort_gateway_requests_total{{{labels},pod="new",code="200"}} 9\n'
        f'kohort_gateway_requests_total{{{labels},pod="new",code="503"}} 1\n'
        f'kohort_gateway_requests_total{{{other},pod="new",code="503"}} 70\n'
    )
    metrics: list[JsonObject] = [
        {"name": "ttft", "quantile": 0.9, "maxRatio": 1.1},
        {"name": "errorRate", "max": "1%"},
    ]
    async with Cluster(parts=(), nodes=0) as cluster:
        reader = SourceReader(cluster.client, Answers(gateway=text))
        source = plan({"gateway": {}}, metrics)
        pods = [pod("new", "10.0.0.1")]
        with pytest.raises(
            SourceError, match=r"the embedded gateway serves nothing, .*: create the Gateway or the Ingress"
        ):
            await reader.read(source, "default", pods, [])
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "kohort-system"}})
        data = {"metricsAddress": "http://127.0.0.1:1/gateway"}
        await cluster.client.create(
            CONFIG_MAPS, {"metadata": {"name": "kohort-gateway"}, "data": data}, "kohort-system"
        )
        found = await reader.read(source, "default", pods, [pod("old", "10.0.0.2")])
        assert found.pods[0].counters == {"ttft": TTFT, "errorRate": ERRORS}
        assert found.pods[1].counters == {}


@asynccontextmanager
async def prometheus(directory: Path, target: str) -> AsyncIterator[str]:
    """The real program, from Debian's packages, which scrapes `target` as two pods."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("NO PROMETHEUS: python -m tools.prometheus_package installs it")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    jobs = [
        {
            "job_name": name,
            "scrape_interval": "1s",
            "static_configs": [{"targets": [target], "labels": {"pod": name, "namespace": "default"}}],
        }
        for name in ("new", "old")
    ]
    configuration = directory / "prometheus.yml"
    configuration.write_text(msgspec.yaml.encode({"scrape_configs": jobs}).decode())
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={configuration}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def test_a_real_prometheus_returns_the_counters_of_pods(tmp_path: Path) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=TEXT, headers={"Content-Type": "text/plain; version=0.0.4"})

    fetch = HttpFetch(loopback=True)
    async with served(answer) as host, prometheus(tmp_path, host) as address, Cluster(parts=(), nodes=0) as cluster:
        query = {"name": "mine", "query": 'sum(q{pod=~"{{pods}}", namespace="{{namespace}}"})', "max": 5}
        source = plan({"prometheus": {"address": address}}, [*METRICS, query])
        reader = SourceReader(cluster.client, fetch)
        pods = [pod("new", "10.0.0.1")], [pod("old", "10.0.0.2"), pod("absent", "10.0.0.3")]
        async with asyncio.timeout(60):
            while True:
                try:
                    found = await reader.read(source, "default", *pods)
                    if found.queried and found.pods[1].counters:
                        break
                except SourceError:
                    pass
                await asyncio.sleep(0.2)
        by_name = {one.pod: one for one in found.pods}
        assert by_name["new"].counters == by_name["old"].counters == {"ttft": TTFT, "errors": ERRORS}
        assert by_name["new"].values == {"queue": 4.0}
        assert by_name["absent"].counters == {}
        assert found.queried == {"mine": 4.0}
        several = plan({"prometheus": {"address": address}}, [{**query, "query": 'r_total{pod=~"{{pods}}"}'}])
        with pytest.raises(SourceError, match="returns 2 series; aggregate them"):
            await reader.read(several, "default", *pods)
        broken = plan({"prometheus": {"address": address}}, [{**query, "query": '((({pod=~"{{pods}}"}'}])
        with pytest.raises(SourceError, match="HTTP 400"):
            await reader.read(broken, "default", *pods)
    await fetch.close()


async def test_an_address_that_is_no_prometheus_is_named() -> None:
    async with Cluster(parts=(), nodes=0) as cluster:
        reader = SourceReader(cluster.client, Answers(query="<html>"))
        source = plan({"prometheus": {"address": "http://10.0.0.9:9090"}})
        with pytest.raises(SourceError, match="does not answer as a Prometheus does"):
            await reader.read(source, "default", [pod("new", "10.0.0.1")], [])


def prometheus_answer(data: str) -> str:
    return f'{{"status": "success", "data": {data}}}'


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        '"text"',
        "[" * 100_000,
        '{"status": 3}',
        '{"status": "success"}',
        prometheus_answer("[]"),
        prometheus_answer("[" * 100_000),
        prometheus_answer('{"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"]]}]}'),
        prometheus_answer('{"resultType": "vector", "result": {}}'),
        prometheus_answer('{"resultType": "vector", "result": [7]}'),
        prometheus_answer('{"resultType": "vector", "result": [{"metric": {"pod": ["new"]}, "value": [1, "2"]}]}'),
        prometheus_answer('{"resultType": "vector", "result": [{"metric": {}, "value": [1]}]}'),
        prometheus_answer('{"resultType": "vector", "result": [{"metric": {}, "value": [1, "many"]}]}'),
        prometheus_answer('{"resultType": "scalar", "result": [1]}'),
        prometheus_answer('{"resultType": "scalar", "result": [1, null]}'),
        prometheus_answer('{"resultType": ["vector"], "result": []}'),
    ],
)
async def test_an_answer_of_another_shape_is_an_error_of_the_source(answer: str) -> None:
    async with Cluster(parts=(), nodes=0) as cluster:
        reader = SourceReader(cluster.client, Answers(query=answer))
        source = plan({"prometheus": {"address": "http://10.0.0.9:9090"}})
        with pytest.raises(SourceError, match="does not answer as a Prometheus does"):
            await reader.read(source, "default", [pod("new", "10.0.0.1")], [])


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
@pytest.mark.parametrize(
    "data",
    [
        '{"resultType": "scalar", "result": [1, "VALUE"]}',
        '{"resultType": "vector", "result": [{"metric": {}, "value": [1, "VALUE"]}]}',
        '{"resultType": "vector", "result": [{"metric": {}, "histogram": [1, {"count": "3"}]}]}',
    ],
)
async def test_a_query_whose_value_is_no_number_has_no_value(data: str, value: str) -> None:
    """It would be neither above a limit nor below it, so that readings of nothing passed every limit."""
    metric: JsonObject = {"name": "mine", "query": 'scalar(sum(errors{pod=~"{{pods}}"}))', "max": 5}
    async with Cluster(parts=(), nodes=0) as cluster:
        reader = SourceReader(cluster.client, Answers(query=prometheus_answer(data.replace("VALUE", value))))
        source = plan({"prometheus": {"address": "http://10.0.0.9:9090"}}, [metric])
        found = await reader.read(source, "default", [pod("new", "10.0.0.1")], [])
        assert found.queried == {}


async def test_names_of_pods_with_dots_stay_valid_in_quotes_of_a_query() -> None:
    metric: JsonObject = {"name": "mine", "query": 'max(depth{pod=~"{{pods}}"})', "max": 5}
    fetch = Answers(query=prometheus_answer('{"resultType": "vector", "result": []}'))
    async with Cluster(parts=(), nodes=0) as cluster:
        source = plan({"prometheus": {"address": "http://10.0.0.9:9090"}}, [metric])
        await SourceReader(cluster.client, fetch).read(source, "default", [pod("web.v2-x", "10.0.0.1")], [])
    assert parse_qs(fetch.asked[0].body.decode())["query"] == ['max(depth{pod=~"web[.]v2-x"})']
