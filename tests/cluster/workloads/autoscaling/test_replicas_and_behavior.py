"""How many replicas metrics ask for, and how fast the number may change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.autoscaling.behavior import (
    Limited,
    Recommendation,
    ScaleEvent,
    limited_by_policies,
    stabilized,
)
from kohort.cluster.workloads.autoscaling.pod_metrics import endpoint_of, number_in, simulated_number
from kohort.cluster.workloads.autoscaling.replicas import PodNumbers, wanted_for_total, wanted_replicas
from kohort.objects.json_types import JsonObject


def numbers(*values: float, missing: int = 0, pending: int = 0) -> PodNumbers:
    return PodNumbers({str(position): value for position, value in enumerate(values)}, missing, pending)


@pytest.mark.parametrize(
    ("current", "found", "wanted"),
    [
        (2, numbers(4, 4), 2),
        (2, numbers(8, 8), 4),
        (2, numbers(4.3, 4.3), 2),  # within the tolerance
        (2, numbers(4.5, 4.5), 3),
        (4, numbers(1, 1, 1, 1), 1),
        (3, numbers(0, 0, 0), 0),
        (2, numbers(8, missing=1), 2),  # the missing pod counts as 0: 8 of 8 are wanted
        (2, numbers(12, missing=1), 3),
        (3, numbers(1, 1, missing=1), 2),  # the missing pod counts as 4
        (2, numbers(8, pending=1), 2),
        (2, numbers(16, pending=1), 4),
        (3, numbers(1, 1, pending=1), 1),  # a pod that has not started does not keep others from going
    ],
)
def test_replicas_by_the_average_of_pods(current: int, found: PodNumbers, wanted: int) -> None:
    answer = wanted_replicas(current, found, 4.0)
    assert answer is not None
    assert answer.replicas == wanted


def test_without_numbers_nothing_is_wanted() -> None:
    assert wanted_replicas(3, numbers(missing=3), 4.0) is None
    assert wanted_for_total(2, 12, 4).replicas == 6


@given(
    st.integers(1, 20),
    st.lists(st.floats(0, 100), min_size=1, max_size=20),
    st.integers(0, 3),
    st.integers(0, 3),
    st.floats(0.5, 50),
)
def test_missing_numbers_never_turn_the_direction(
    current: int, values: list[float], missing: int, pending: int, target: float
) -> None:
    answer = wanted_replicas(current, PodNumbers(dict(enumerate_text(values)), missing, pending), target)
    assert answer is not None
    ratio = sum(values) / len(values) / target
    if missing or (pending and ratio > 1):
        assert not (ratio < 1 and answer.replicas > current)
        assert not (ratio > 1 and answer.replicas < current)


def enumerate_text(values: list[float]) -> list[tuple[str, float]]:
    return [(str(position), value) for position, value in enumerate(values)]


def test_scaling_down_waits_for_the_window() -> None:
    history = [Recommendation(0, 5), Recommendation(200, 3)]
    assert stabilized(5, 2, history, None, 250) == 5
    assert stabilized(5, 2, history, None, 400) == 3
    assert stabilized(5, 2, history, None, 600) == 2
    assert stabilized(5, 2, history, {"scaleDown": {"stabilizationWindowSeconds": 0}}, 250) == 2
    assert stabilized(5, 9, history, None, 250) == 9
    assert stabilized(5, 9, history, {"scaleUp": {"stabilizationWindowSeconds": 300}}, 250) == 5


def test_policies_limit_the_rate() -> None:
    assert limited_by_policies(2, 20, [], None, 0) == Limited(6, "ScaleUpLimit")
    assert limited_by_policies(10, 50, [], None, 0) == Limited(20, "ScaleUpLimit")
    assert limited_by_policies(6, 20, [ScaleEvent(10, 4)], None, 20) == Limited(6, "ScaleUpLimit")
    assert limited_by_policies(6, 20, [ScaleEvent(0, 4)], None, 20) == Limited(12, "ScaleUpLimit")
    one = {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]}}
    assert limited_by_policies(8, 2, [], one, 0) == Limited(7, "ScaleDownLimit")
    assert limited_by_policies(7, 2, [ScaleEvent(0, -1)], one, 60) == Limited(7, "ScaleDownLimit")
    assert limited_by_policies(7, 2, [ScaleEvent(0, -1)], one, 130) == Limited(6, "ScaleDownLimit")
    assert limited_by_policies(7, 2, [], {"scaleDown": {"selectPolicy": "Disabled"}}, 0).replicas == 7
    assert limited_by_policies(7, 2, [], None, 0) == Limited(2)


def pod(**annotations: str) -> JsonObject:
    ports = [{"containerPort": 8080}, {"containerPort": 9090, "name": "metrics"}]
    given = {f"prometheus.io/{key}": value for key, value in annotations.items()}
    return {
        "metadata": {"annotations": given},
        "spec": {"containers": [{"ports": ports}]},
        "status": {"podIP": "10.0.0.7"},
    }


def test_where_metrics_are() -> None:
    assert endpoint_of(pod()) == "http://10.0.0.7:9090/metrics"
    assert endpoint_of(pod(port="8000", path="stats")) == "http://10.0.0.7:8000/stats"
    assert endpoint_of({"metadata": {}, "spec": {}, "status": {"podIP": "10.0.0.7"}}) == ""


def test_numbers_in_a_scrape() -> None:
    text = '# TYPE vllm:waiting gauge\nvllm:waiting{model="a"} 2\nvllm:waiting{model="b"} 3\n'
    assert number_in(text, "vllm_waiting", {}) == 5
    assert number_in(text, "vllm_waiting", {"model": "b"}) == 3
    assert number_in(text, "other", {}) is None
    simulated = {"metadata": {"annotations": {"simulation.kohort.dev/metrics": "a=1, b=2.5,c=x"}}}
    assert [simulated_number(simulated, name) for name in ("a", "b", "c", "d")] == [1.0, 2.5, None, None]
