"""Effective requests and limits of pods as figures, for Prometheus."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.cluster.scheduler.scenery import pod

from kohort.cluster.scheduler.metrics import ResourceCollector, limit_samples, request_samples
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.resources import reported


def counted(**status: str) -> Pod:
    document: JsonObject = {
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {
            "nodeName": "n1",
            "schedulerName": "default-scheduler",
            "priority": 7,
            "overhead": {"cpu": "250m"},
            "resources": {"requests": {"cpu": "1500m", "hugepages-2Mi": "2Mi"}, "limits": {"cpu": "2"}},
            "containers": [
                {"name": "c", "resources": {"requests": {"memory": "1Gi", "x.io/gpu": "1", "ephemeral-storage": "0"}}}
            ],
        },
        "status": status,
    }
    return msgspec.convert(document, Pod)


def test_an_amount_beyond_every_float_does_not_fail_the_scrape() -> None:
    found = [*request_samples([pod("p", "cpu=1e1000000,memory=1e400").pod])]
    assert [sample.value for sample in found] == [float("inf")] * 2


def test_a_pod_shows_its_effective_requests_and_limits() -> None:
    known = ("team", "p", "n1", "default-scheduler", "7")
    assert {sample.labels: sample.value for sample in request_samples([counted()])} == {
        (*known, "cpu", "cores"): 1.75,
        (*known, "memory", "bytes"): 2.0**30,
        (*known, "hugepages-2Mi", "bytes"): 2.0**21,
        (*known, "x.io/gpu", ""): 1.0,
    }
    assert [(sample.labels[5], sample.value) for sample in limit_samples([counted()])] == [("cpu", 2.25)]


def test_a_finished_pod_shows_nothing() -> None:
    assert [*request_samples([counted(phase="Succeeded")])] == []


def test_prometheus_reads_it() -> None:
    registry = CollectorRegistry()
    registry.register(ResourceCollector(lambda: [counted()]))
    text = generate_latest(registry).decode()
    assert (
        'kube_pod_resource_limit{namespace="team",node="n1",pod="p",priority="7",resource="cpu",'
        'scheduler="default-scheduler",unit="cores"} 2.25' in text
    )


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({}, {"x.io/gpu": 1.0}),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": 3.0, "memory": 2.0**31, "x.io/gpu": 1.0}),
        ({"cpu": "1"}, {"cpu": 3.0, "x.io/gpu": 1.0}),
    ],
)
def test_limits_agree_with_what_the_status_says(second: dict[str, str], expected: dict[str, float]) -> None:
    """A container without a limit may use all there is, so that the pod has none; of a device it gets none."""
    first = {"cpu": "2", "memory": "1Gi", "x.io/gpu": "1"}
    containers = [{"name": "a", "resources": {"limits": first}}, {"name": "b", "resources": {"limits": second}}]
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": containers}}, Pod)
    assert {sample.labels[5]: sample.value for sample in limit_samples([pod])} == expected
    assert set(reported(pod)[1]) == set(expected)
