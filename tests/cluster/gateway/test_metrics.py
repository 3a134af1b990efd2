"""What the gateway counts, by pod, and where others read it."""

import pytest
from aiohttp import ClientPayloadError
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from tests.builders import pod
from tests.cluster.gateway.plane import Stage, ingress, stage, until_answered

from kohort.cluster.gateway.metrics import RequestMetrics
from kohort.kube.resources import CONFIG_MAPS, INGRESSES, PODS, SERVICES, Key

LLM = Key("default", "llm")
Samples = dict[tuple[str, ...], float]


def counted(scene: Stage) -> RequestMetrics:
    assert scene.plane.request_metrics is not None
    return scene.plane.request_metrics


async def scraped(scene: Stage) -> dict[str, Samples]:
    """By name of the sample: value by service, pod, and code or le."""
    config = await scene.cluster.client.get(CONFIG_MAPS, "kohort-gateway", "kohort-system")
    async with scene.http.get(config["data"]["metricsAddress"]) as answer:
        assert answer.status == 200
        text = await answer.text()
    found: dict[str, Samples] = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith("kohort_gateway"):
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    values = [sample.labels[name] for name in ("namespace", "service", "pod")]
                    values += [sample.labels[name] for name in ("code", "le") if name in sample.labels]
                    found.setdefault(sample.name, {})[tuple(values)] = sample.value
    return found


async def test_requests_are_counted_by_the_pod_that_answered() -> None:
    async with stage("one", "two") as scene:
        await scene.endpoints("llm", 0, 1)
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        await scene.open()
        await scene.count(10)
        found = await scraped(scene)
        assert found["kohort_gateway_requests_total"] == {
            ("default", "llm", "pod-0", "200"): 5,
            ("default", "llm", "pod-1", "200"): 5,
        }
        assert found["kohort_gateway_first_byte_seconds_count"][("default", "llm", "pod-0")] == 5
        assert found["kohort_gateway_request_seconds_count"][("default", "llm", "pod-1")] == 5
        assert set(found["kohort_gateway_requests_in_flight"].values()) == {0}


async def test_the_first_byte_of_a_stream_is_not_its_end() -> None:
    async with stage("stable") as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        address = await scene.open()
        async with scene.http.get(address + "/events") as answer:
            assert await answer.content.readany() == b"data: first\n\n"
            during = await scraped(scene)
            scene.servers["stable"].release.set()
            await answer.content.read()
        one = ("default", "llm", "pod-0")
        assert during["kohort_gateway_requests_in_flight"] == {one: 1}
        assert not during.get("kohort_gateway_requests_total")
        after = await scraped(scene)
        assert after["kohort_gateway_requests_in_flight"] == {one: 0}
        first, total = (after[f"kohort_gateway_{name}_seconds_sum"][one] for name in ("first_byte", "request"))
        assert total > first > 0


async def test_answers_that_a_pod_breaks_off_and_clients_that_leave_have_codes_of_their_own() -> None:
    async with stage("stable") as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        address = await scene.open()
        with pytest.raises(ClientPayloadError):
            await scene.get("/broken")
        async with scene.http.get(address + "/events") as answer:
            await answer.content.readany()
            answer.close()
        await scene.cluster.until(lambda: _in_flight(scene) == 0)
        found = await scraped(scene)
        assert found["kohort_gateway_requests_total"] == {
            ("default", "llm", "pod-0", "502"): 1,
            ("default", "llm", "pod-0", "499"): 1,
        }


def _in_flight(scene: Stage) -> float:
    return counted(scene).of(LLM, "pod-0").in_flight.value


async def test_requests_without_a_pod_are_counted_by_service() -> None:
    async with stage("stable") as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm", host="a.example.com"))
        await scene.cluster.client.create(INGRESSES, ingress("none", "none", host="b.example.com"))
        await scene.open()
        await scene.endpoints("llm")
        for host in ("a.example.com", "b.example.com", "c.example.com"):
            await scene.get(headers={"host": host})
        assert (await scraped(scene))["kohort_gateway_requests_total"] == {
            ("default", "llm", "", "503"): 1,
            ("default", "none", "", "503"): 1,
            ("", "", "", "404"): 1,
        }
        await scene.cluster.client.delete(INGRESSES, "none", "default")
        await scene.cluster.until(lambda: Key("default", "none") not in counted(scene).services())


async def test_series_of_a_pod_end_with_its_last_request() -> None:
    async with stage("one", "two") as scene:
        await scene.endpoints("llm", 0, 1)
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        address = await scene.open()
        async with scene.http.get(address + "/events") as stream, scene.http.get(address + "/events") as other:
            assert await stream.content.readany() and await other.content.readany()
            await scene.endpoints("llm", 0)
            await scene.cluster.until(lambda: counted(scene).of(LLM, "pod-1").gone)
            during = await scraped(scene)
            assert during["kohort_gateway_requests_in_flight"][("default", "llm", "pod-1")] == 1
            scene.servers["one"].release.set()
            scene.servers["two"].release.set()
            await stream.content.read()
            await other.content.read()
        after = await scraped(scene)
        assert {labels[2] for samples in after.values() for labels in samples} == {"pod-0"}
        await scene.cluster.client.delete(SERVICES, "llm", "default")
        await scene.cluster.until(lambda: LLM not in counted(scene).services())


async def test_pods_with_loopback_addresses_are_counted_and_dropped_by_name() -> None:
    async with stage("stable") as scene:
        client = scene.cluster.client
        await scene.endpoints("llm")
        await client.create(INGRESSES, ingress("llm", "llm"))
        await scene.open()
        await client.create(PODS, pod("local").labels(app="llm"))
        ready = {"podIP": "127.16.0.0", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(PODS, "local", "default", {"status": ready}, subresource="status")
        await until_answered(scene, "stable")
        assert ("default", "llm", "local", "200") in (await scraped(scene))["kohort_gateway_requests_total"]
        await client.delete(PODS, "local", "default", grace_seconds=0)
        await scene.cluster.until(lambda: "local" not in counted(scene).pods(LLM))


def test_a_pod_that_invents_codes_does_not_make_series_without_end() -> None:
    metrics = RequestMetrics(CollectorRegistry())
    series = metrics.of(LLM, "pod")
    for code in range(200, 500):
        series.count(code)
    assert len(metrics.requests.children) <= 33
    assert sum(child.value for child in metrics.requests.children.values()) == 300


def test_a_series_that_returns_begins_at_zero() -> None:
    metrics = RequestMetrics(CollectorRegistry())
    metrics.of(LLM, "pod").count(200)
    metrics.retain(LLM, frozenset())
    assert not metrics.requests.children and not metrics.in_flight.children
    metrics.of(LLM, "pod").count(200)
    assert [child.value for child in metrics.requests.children.values()] == [1]
