"""Metrics of releases: what is counted, what is shown, and that the series of a Rollout go with it."""

import pytest
from tests.rollouts.observations import progress, rollout

from kohort.kube.metrics import Metrics
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition
from kohort.rollouts.messages import EventReason, ReleaseOutcome
from kohort.rollouts.metrics import RolloutMetrics
from kohort.rollouts.release_state import State
from kohort.rules import rollout_labels

LABELS = {"namespace": "default", "rollout": "llm", "workload_kind": "LeaderWorkerSet", "strategy": "Canary"}


class Board:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.rollouts = RolloutMetrics(self.metrics)

    def value(self, name: str, **more: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {**LABELS, **more})


def state(step: int = 2, step_state: str = rollout_labels.PAUSED, **more: str | int) -> State:
    condition = Condition(type=rollout_labels.PROGRESSING, status="True", reason=rollout_labels.IN_ROLLING)
    return State(rollout_labels.PROGRESSING, "", (condition,), progress(step, step_state, **more))


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (EventReason.HOLD_LOST, "rollout_hold_lost_total"),
        (EventReason.RELEASE_NOT_CONTROLLED, "rollout_uncontrolled_total"),
        (EventReason.STEP_TIMEOUT, "rollout_step_timeouts_total"),
    ],
)
def test_some_events_are_counted(reason: EventReason, name: str) -> None:
    board = Board()
    for _ in range(2):
        board.rollouts.count_event(rollout(), reason)
    assert board.value(name) == 2


def test_events_without_a_metric_count_nothing() -> None:
    board = Board()
    for reason in EventReason:
        board.rollouts.count_event(rollout(), reason)
    assert board.value("rollout_hold_lost_total") == 1
    assert board.value("rollout_step_timeouts_total") == 1


REFS: list[tuple[JsonObject, str]] = [
    ({"service": "svc", "ingress": {"name": "ing"}}, "ingress"),
    ({"service": "svc", "gateway": {"httpRouteName": "route"}}, "gateway"),
    ({"service": "svc", "customNetworkRefs": [{"apiVersion": "v1", "kind": "X", "name": "x"}]}, "custom"),
]


@pytest.mark.parametrize(("ref", "provider"), REFS)
def test_failed_routes_are_counted_by_their_kind(ref: JsonObject, provider: str) -> None:
    board = Board()
    board.rollouts.count_event(rollout(trafficRoutings=[ref]), EventReason.ROUTE_FAILED)
    assert board.metrics.registry.get_sample_value("rollout_route_errors_total", {"provider": provider}) == 1


@pytest.mark.parametrize("outcome", list(ReleaseOutcome))
def test_releases_are_counted_by_their_outcome(outcome: ReleaseOutcome) -> None:
    board = Board()
    board.rollouts.count_outcome(rollout(), outcome)
    assert board.value("rollout_outcomes_total", outcome=outcome.value) == 1


def test_what_is_shown_of_a_release() -> None:
    board = Board()
    board.rollouts.observe(rollout(), state(replicas=2, ready_replicas=1), 2, 0.0)
    assert board.value("rollout_phase", phase="Progressing") == 1
    assert board.value("rollout_phase", phase="Healthy") == 0
    assert (board.value("rollout_step_index"), board.value("rollout_step_count")) == (2, 3)
    assert board.value("rollout_step_state", state="StepPaused") == 1
    assert [board.value("rollout_canary_groups", state=one) for one in ("desired", "updated", "ready")] == [2, 2, 1]
    assert board.value("rollout_waiting_for_approval") == 1
    assert board.value("rollout_paused") == 0


@pytest.mark.parametrize(
    ("step", "step_state", "finalising", "weight"),
    [
        (1, rollout_labels.BEFORE_UPGRADE, "", 0),
        (1, rollout_labels.ROUTING, "", 0),
        (1, rollout_labels.PAUSED, "", 20),
        (2, rollout_labels.UPGRADE, "", 20),
        (2, rollout_labels.PAUSED, "", 50),
        (3, rollout_labels.COMPLETED, rollout_labels.RESUME, 100),
        (3, rollout_labels.COMPLETED, rollout_labels.RESTORE_STABLE, 100),
    ],
)
def test_the_share_of_requests_follows_the_routes(step: int, step_state: str, finalising: str, weight: int) -> None:
    board = Board()
    board.rollouts.observe(rollout(), state(step, step_state, finalising_step=finalising), 1, 0.0)
    assert board.value("rollout_traffic_weight_percent") == weight


def test_a_pause_by_the_user_is_shown() -> None:
    board = Board()
    board.rollouts.observe(rollout(paused=True), state(), 1, 0.0)
    assert board.value("rollout_paused") == 1


def test_a_rollout_that_has_released_nothing_has_a_phase_only() -> None:
    board = Board()
    board.rollouts.observe(rollout(), State(rollout_labels.INITIAL), 0, 0.0)
    assert board.value("rollout_phase", phase="Initial") == 1
    assert board.value("rollout_step_index") is None


def test_the_series_of_a_rollout_go_with_it() -> None:
    board = Board()
    board.rollouts.observe(rollout(), state(), 1, 0.0)
    board.rollouts.forget(rollout())
    for name in ("rollout_step_index", "rollout_step_count", "rollout_traffic_weight_percent", "rollout_paused"):
        assert board.value(name) is None
    assert board.value("rollout_phase", phase="Progressing") is None
    assert board.value("rollout_canary_groups", state="ready") is None
    board.rollouts.forget(rollout())
