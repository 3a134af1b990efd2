"""Requests in flight are waited for, within bounds, before pods that served are deleted."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import JsonObject
from kohort.rollouts.traffic import in_flight
from kohort.rollouts.traffic.draining import Drained, DrainTimedOut, StillDraining, decide_drain
from kohort.rollouts.traffic.model import Selectors
from kohort.rollouts.traffic.services import left_pods_selector

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


ONE = "1 request in flight (a: 1)"
TWO = "2 requests in flight (a: 2)"
CASES: list[tuple[Mapping[str, float], str | None, float, object]] = [
    ({}, None, 60, Drained()),
    ({"a": 0.0}, ago(5), 60, Drained()),
    ({"a": 2.0}, None, 0, Drained()),
    ({"a": 1.0}, None, 60, StillDraining("waiting for 1 request in flight (a: 1), at most 60 s", 1.0, begins=True)),
    ({"a": 2.0}, ago(5), 60, StillDraining("waiting for 2 requests in flight (a: 2), at most 60 s", 1.0)),
    ({"a": 2.0}, ago(59.5), 60, StillDraining("waiting for 2 requests in flight (a: 2), at most 60 s", 0.5)),
    (
        {"a": 2.0},
        ago(60),
        60,
        DrainTimedOut("2 requests in flight (a: 2) after 60 s (drainTimeoutSeconds); they are cut off"),
    ),
    (
        {"a": 1.0},
        ago(-3600),
        60,
        StillDraining("waiting for 1 request in flight (a: 1), at most 60 s", 1.0, begins=True),
    ),
]


@pytest.mark.parametrize(("found", "began", "timeout", "expected"), CASES)
def test_what_follows(found: Mapping[str, float], began: str | None, timeout: float, expected: object) -> None:
    assert decide_drain(found, began, NOW, timeout) == expected


def test_a_message_names_the_busiest_pods_only() -> None:
    decision = decide_drain({f"pod-{n}": float(n) for n in range(1, 6)}, None, NOW, 60)
    assert isinstance(decision, StillDraining)
    assert "15 requests in flight (pod-5: 5, pod-4: 4, pod-3: 3 and 2 more pods)" in decision.text


@given(
    counts=st.dictionaries(st.text("ab", min_size=1), st.floats(0, 100), max_size=4),
    age=st.none() | st.integers(-1000, 1000),
    timeout=st.integers(0, 600),
)
def test_a_wait_ends_and_never_lasts_longer_than_allowed(
    counts: dict[str, float], age: int | None, timeout: int
) -> None:
    decision = decide_drain(counts, None if age is None else ago(age), NOW, timeout)
    if isinstance(decision, StillDraining):
        assert any(counts.values()) and 0 < decision.seconds <= timeout
        assert decision.begins == (age is None or age < 0)
        assert age is None or age < timeout
    else:
        assert not any(counts.values()) or timeout == 0 or (age is not None and age >= timeout - 0.001)


KEY = "revision"
BOTH = Selectors(KEY, "v1", "v2", {"set": "llm-canary"})
STABLE: JsonObject = {"metadata": {"name": "llm", "namespace": "default"}, "spec": {"selector": {"app": "llm"}}}
SELECTED = {"app": "llm", KEY: "v2", "set": "llm-canary"}
CANARY: JsonObject = {"metadata": {"name": "llm-canary"}, "spec": {"selector": SELECTED}}


def test_which_pods_are_left() -> None:
    assert left_pods_selector(STABLE, CANARY, BOTH, new=True) == SELECTED
    assert left_pods_selector(STABLE, CANARY, BOTH, new=False) == {"app": "llm", KEY: "v1"}
    assert left_pods_selector(STABLE, STABLE, BOTH, new=True) == {"app": "llm", KEY: "v2", "set": "llm-canary"}
    assert left_pods_selector(STABLE, None, Selectors(KEY, "v1", "v1"), new=False) == {}
    assert left_pods_selector(STABLE, None, Selectors(KEY), new=False) == {}


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ('vllm:num_requests_running{model_name="m"} 3.0\n', in_flight.KNOWN_SERIES, 3.0),
        (
            'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_running{engine="1"} 2\n',
            in_flight.KNOWN_SERIES,
            3.0,
        ),
        ("sglang:num_running_reqs 0\n", in_flight.KNOWN_SERIES, 0.0),
        ("my_requests 4\n", ("my_requests",), 4.0),
        ("my_requests 4\n", in_flight.KNOWN_SERIES, None),
        ("", in_flight.KNOWN_SERIES, None),
        ("<html>", in_flight.KNOWN_SERIES, None),
    ],
)
async def test_requests_of_a_server(text: str, names: tuple[str, ...], expected: float | None) -> None:
    assert await in_flight.in_flight(text, names) == expected


def test_where_a_pod_serves_its_metrics() -> None:
    pod = {"spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8000}]}]}}
    for target, expected in (("http", 8000), (9000, 9000), ("other", None)):
        assert in_flight.metrics_port(pod, {"spec": {"ports": [{"port": 80, "targetPort": target}]}}) == expected
    assert in_flight.metrics_port(pod, {"spec": {"ports": [{"port": 80}]}}) == 80
    assert in_flight.metrics_port(pod, {"spec": {}}) is None


def test_the_annotation_of_a_pod_names_its_series() -> None:
    assert in_flight.series_names({"metadata": {"annotations": {in_flight.ANNOTATION: "x"}}}) == ("x",)
    assert in_flight.series_names({"metadata": {}}) == in_flight.KNOWN_SERIES
