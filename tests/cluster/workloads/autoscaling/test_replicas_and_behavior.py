"""How many replicas metrics ask for, and how fast the number may change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.autoscaling.behavior import (
    Bounds,
    Limit,
    Limited,
    Recommendation,
    ScaleEvent,
    Tolerance,
    limited,
    stabilized,
    tolerance_of,
)
from kohort.cluster.workloads.autoscaling.pod_metrics import endpoint_of, number_in, simulated_number
from kohort.cluster.workloads.autoscaling.replicas import PodNumbers, wanted_by_average
from kohort.objects.json_types import JsonObject


def numbers(*values: float, missing: int = 0, unready: int = 0) -> PodNumbers:
    return PodNumbers(
        {str(position): round(value * 1000) for position, value in enumerate(values)},
        frozenset(f"missing-{number}" for number in range(missing)),
        frozenset(f"unready-{number}" for number in range(unready)),
    )


@pytest.mark.parametrize(
    ("current", "found", "wanted"),
    [
        (2, numbers(4, 4), 2),
        (2, numbers(8, 8), 4),
        (2, numbers(4.3, 4.3), 2),  # within the tolerance
        (2, numbers(4.4, 4.4), 2),  # at its edge
        (2, numbers(4.5, 4.5), 3),
        (4, numbers(1, 1, 1, 1), 1),
        (3, numbers(0, 0, 0), 0),
        (3, numbers(4.401, 4.4, 4.4), 3),  # the average is rounded down to thousandths
        (2, numbers(8, missing=1), 2),  # the missing pod counts as 0: 8 of 8 are wanted
        (2, numbers(12, missing=1), 3),
        (3, numbers(4, 4, missing=1), 3),  # at the target, nothing is assumed of the missing pod
        (3, numbers(1, 1, missing=1), 2),  # the missing pod counts as 4
        (2, numbers(8, unready=1), 2),
        (2, numbers(16, unready=1), 4),
        (3, numbers(1, 1, unready=1), 1),  # a pod that has not started does not keep others from going
    ],
)
def test_replicas_by_the_average_of_pods(current: int, found: PodNumbers, wanted: int) -> None:
    answer = wanted_by_average(current, found, 4000)
    assert answer is not None
    assert answer.replicas == wanted


def test_without_numbers_nothing_is_wanted() -> None:
    assert wanted_by_average(3, numbers(missing=3), 4000) is None


@given(
    st.integers(1, 20),
    st.lists(st.integers(0, 100_000), min_size=1, max_size=20),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(500, 50_000),
)
def test_missing_numbers_never_turn_the_direction(
    current: int, values: list[int], missing: int, unready: int, target: int
) -> None:
    found = numbers(*(value / 1000 for value in values), missing=missing, unready=unready)
    answer = wanted_by_average(current, found, target)
    assert answer is not None
    ratio = answer.average / target
    if missing or (unready and ratio > 1):
        assert not (ratio < 1 and answer.replicas > current)
        assert not (ratio > 1 and answer.replicas < current)


def test_scaling_down_waits_for_the_window() -> None:
    history = [Recommendation(0, 5), Recommendation(200, 3)]
    assert stabilized(5, 2, history, {}, 250) == 5
    assert stabilized(5, 2, history, {}, 400) == 3
    assert stabilized(5, 2, history, {}, 600) == 2
    assert stabilized(5, 2, history, {"scaleDown": {"stabilizationWindowSeconds": 0}}, 250) == 2
    assert stabilized(5, 9, history, {}, 250) == 9
    assert stabilized(5, 9, history, {"scaleUp": {"stabilizationWindowSeconds": 300}}, 250) == 5


def test_without_behavior_the_highest_number_within_the_window_is_wanted() -> None:
    history = [Recommendation(0, 5), Recommendation(200, 3)]
    assert stabilized(2, 2, history, None, 250) == 5, "also if that is more than there are"
    assert stabilized(2, 2, history, {}, 250) == 2
    assert stabilized(5, 2, history, None, 400) == 3
    assert stabilized(5, 9, history, None, 250) == 9


WIDE = Bounds(1, 100)
ONE_DOWN: JsonObject = {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]}}
TWO_UP: JsonObject = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 15}]}}
FROZEN: JsonObject = {"scaleUp": {"selectPolicy": "Disabled"}, "scaleDown": {"selectPolicy": "Disabled"}}
SLOWEST: JsonObject = {
    "scaleUp": {
        "selectPolicy": "Min",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 50, "periodSeconds": 15},
        ],
    },
    "scaleDown": {
        "selectPolicy": "Min",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 25, "periodSeconds": 15},
        ],
    },
}


@pytest.mark.parametrize(
    ("current", "wanted", "bounds", "events", "behavior", "expected"),
    [
        (2, 3, WIDE, [], None, Limited(3)),
        (1, 20, WIDE, [], None, Limited(4, Limit.RATE_UP)),  # without behavior: up to 4, or twice as many
        (5, 20, WIDE, [], None, Limited(10, Limit.RATE_UP)),
        (5, 20, WIDE, [ScaleEvent(19, 3)], None, Limited(10, Limit.RATE_UP)),  # and nothing before counts
        (2, 20, WIDE, [], {}, Limited(6, Limit.RATE_UP)),
        (10, 50, WIDE, [], {}, Limited(20, Limit.RATE_UP)),
        (6, 20, WIDE, [ScaleEvent(10, 4)], {}, Limited(6, Limit.RATE_UP)),
        (6, 20, WIDE, [ScaleEvent(0, 4)], {}, Limited(12, Limit.RATE_UP)),
        (8, 2, WIDE, [], ONE_DOWN, Limited(7, Limit.RATE_DOWN)),
        (7, 2, WIDE, [ScaleEvent(0, -1)], ONE_DOWN, Limited(7, Limit.RATE_DOWN)),
        (7, 2, WIDE, [ScaleEvent(-110, -1)], ONE_DOWN, Limited(6, Limit.RATE_DOWN)),
        (4, 20, WIDE, [], SLOWEST, Limited(6, Limit.RATE_UP)),
        (8, 1, WIDE, [], SLOWEST, Limited(6, Limit.RATE_DOWN)),
        (7, 2, WIDE, [], FROZEN, Limited(7, Limit.RATE_DOWN)),
        (7, 9, WIDE, [], FROZEN, Limited(7, Limit.RATE_UP)),
        (7, 2, WIDE, [], {}, Limited(2)),
        (2, 9, Bounds(1, 3), [], None, Limited(3, Limit.MOST)),
        (2, 9, Bounds(1, 3), [], TWO_UP, Limited(3, Limit.MOST)),
        (2, 9, Bounds(1, 4), [], TWO_UP, Limited(4, Limit.MOST)),  # bound and policy allow the same
        (2, 9, Bounds(1, 5), [], TWO_UP, Limited(4, Limit.RATE_UP)),
        (4, 1, Bounds(2, 9), [], None, Limited(2, Limit.LEAST)),
        (4, 1, Bounds(3, 9), [], ONE_DOWN, Limited(3, Limit.LEAST)),
        (4, 1, Bounds(2, 9), [], ONE_DOWN, Limited(3, Limit.RATE_DOWN)),
    ],
)
def test_bounds_and_policies_limit_a_change(
    current: int,
    wanted: int,
    bounds: Bounds,
    events: list[ScaleEvent],
    behavior: JsonObject | None,
    expected: Limited,
) -> None:
    assert limited(current, wanted, bounds, events, behavior, 20) == expected


@given(st.integers(1, 50), st.integers(0, 200), st.sampled_from([None, {}, ONE_DOWN, TWO_UP, FROZEN, SLOWEST]))
def test_limits_never_turn_a_change_around_nor_go_beyond_it(
    current: int, wanted: int, behavior: JsonObject | None
) -> None:
    found = limited(current, wanted, Bounds(1, 50), [], behavior, 0).replicas
    assert 1 <= found <= 50
    assert min(current, wanted) <= found <= max(current, wanted)


def test_tolerances_are_ten_percent_unless_given() -> None:
    assert tolerance_of(None) == tolerance_of({}) == Tolerance(0.1, 0.1)
    assert tolerance_of({"scaleUp": {"tolerance": "50m"}, "scaleDown": {"tolerance": "0"}}) == Tolerance(0.05, 0.0)


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
