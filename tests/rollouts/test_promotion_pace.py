"""At which pace a stable set is promoted: the table, and what holds whatever the facts are."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.clock import format_time
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rollouts.promotion_pace import (
    GRACE_SECONDS,
    PATIENCE_SECONDS,
    CanaryGroups,
    PaceReason,
    PromotionPace,
    PromotionView,
    first_taken,
    groups_without_node,
    promotion_pace,
    seconds_without_node,
)
from kohort.rules import group_labels

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG = PATIENCE_SECONDS
OWN = PromotionPace(PaceReason.PACE_OF_USER)
STANDS_IN, NOT_WHOLE, LOST = PaceReason.CANARY_STANDS_IN, PaceReason.CANARY_NOT_WHOLE, PaceReason.CANARY_LOST


def facts(
    surge: int,
    unavailable: int,
    *,
    canary: tuple[int, int] | None,
    waiting: float | None = None,
    without: bool = False,
) -> PromotionView:
    """Four groups; of the canary, how many are wanted and ready."""
    found = CanaryGroups(*canary) if canary is not None else None
    return PromotionView(4, surge, unavailable, without_surge=without, waiting=waiting, canary=found)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (facts(0, 1, canary=(4, 4), waiting=LONG), OWN),
        (facts(1, 0, canary=None, waiting=LONG), OWN),
        (facts(1, 0, canary=None, without=True), OWN),
        (facts(1, 0, canary=(4, 4)), OWN),
        (facts(1, 0, canary=(4, 4), waiting=0.0), PromotionPace(PaceReason.NODE_AWAITED, look_again=30)),
        (facts(1, 0, canary=(4, 4), waiting=29), PromotionPace(PaceReason.NODE_AWAITED, look_again=1.0)),
        (facts(1, 0, canary=(4, 4), waiting=30), PromotionPace(STANDS_IN, 1)),
        (facts(1, 1, canary=(5, 5), waiting=30), PromotionPace(STANDS_IN, 2)),
        (facts(4, 2, canary=(4, 4), waiting=30), PromotionPace(STANDS_IN, 4)),
        (facts(2, 0, canary=(4, 3), waiting=30), PromotionPace(NOT_WHOLE, look_again=570)),
        (facts(2, 0, canary=(4, 2), waiting=LONG), PromotionPace(STANDS_IN, 2)),
        (facts(2, 0, canary=(4, 1), waiting=LONG), PromotionPace(NOT_WHOLE)),
        (facts(1, 0, canary=(3, 3), waiting=LONG), PromotionPace(NOT_WHOLE)),
        (facts(2, 1, canary=(4, 2), without=True), PromotionPace(STANDS_IN, 3)),
        (facts(2, 1, canary=(4, 1), without=True), PromotionPace(STANDS_IN, 2)),
        (facts(2, 1, canary=(4, 0), without=True), PromotionPace(STANDS_IN, 1)),
        (facts(2, 0, canary=(4, 0), without=True), PromotionPace(LOST, 0)),
    ],
)
def test_the_pace_of_a_promotion(view: PromotionView, expected: PromotionPace) -> None:
    assert promotion_pace(view) == expected


@st.composite
def views(draw: st.DrawFn) -> PromotionView:
    replicas = draw(st.integers(1, 6))
    return PromotionView(
        replicas=replicas,
        surge=draw(st.integers(0, replicas)),
        unavailable=draw(st.integers(0, replicas)),
        without_surge=draw(st.booleans()),
        waiting=draw(st.none() | st.floats(0, 1000)),
        canary=draw(st.none() | st.builds(CanaryGroups, st.integers(0, 7), st.integers(0, 7))),
    )


@given(views())
def test_set_and_canary_together_keep_what_the_user_wants_available(view: PromotionView) -> None:
    pace = promotion_pace(view)
    if pace.away is not None:
        assert view.canary is not None
        assert view.replicas - pace.away + view.canary.ready >= view.replicas - view.unavailable
        assert pace.away <= view.replicas


@given(views())
def test_a_surge_is_given_up_only_for_a_canary_that_can_stand_in_and_after_the_grace(view: PromotionView) -> None:
    pace = promotion_pace(view)
    if pace.away is not None and not view.without_surge:
        assert view.canary is not None
        assert 0 < view.surge <= view.canary.ready
        assert max(view.canary.wanted, view.canary.ready) >= view.replicas
        assert (view.waiting or 0) >= (GRACE_SECONDS if view.canary.ready >= view.replicas else PATIENCE_SECONDS)


@given(views())
def test_a_decision_holds_when_it_is_made_again(view: PromotionView) -> None:
    pace = promotion_pace(view)
    if pace.away is not None:
        again = msgspec.structs.replace(view, without_surge=True)
        assert promotion_pace(again).away == pace.away


@given(views())
def test_groups_that_may_be_away_without_a_surge_are_at_least_those_of_the_user(view: PromotionView) -> None:
    pace = promotion_pace(view)
    assert pace.away is None or pace.away >= min(view.unavailable, view.replicas)


# What pods show

REPLICAS, SIZE, OLD, NEW = 2, 2, "old", "new"


def pod(index: int, worker: int, revision: str, waiting: float | None, ready: bool, reason: str) -> Pod:
    labels = {
        group_labels.NAME: "llm",
        group_labels.GROUP_INDEX: str(index),
        group_labels.WORKER_INDEX: str(worker),
        group_labels.REVISION: revision,
    }
    conditions: list[JsonObject] = [{"type": "Ready", "status": str(ready)}]
    if waiting is not None:
        since = format_time(NOW - timedelta(seconds=waiting))
        conditions.append({"type": "PodScheduled", "status": "False", "reason": reason, "lastTransitionTime": since})
    status = {"phase": "Running" if ready else "Pending", "conditions": conditions}
    return msgspec.convert({"metadata": {"name": f"llm-{index}-{worker}", "labels": labels}, "status": status}, Pod)


def group(
    index: int, revision: str = NEW, *, waiting: float | None = None, ready: bool = True, reason: str = "Unschedulable"
) -> list[Pod]:
    """Two pods, of which the worker may wait for a node."""
    ready = ready and waiting is None
    return [pod(index, 0, revision, None, ready, reason), pod(index, 1, revision, waiting, ready, reason)]


@pytest.mark.parametrize(
    ("groups", "waiting", "seconds"),
    [
        ([group(0, OLD), group(1, OLD), group(2, waiting=40)], (2,), 40.0),
        ([group(0, OLD), group(1, OLD), group(2, waiting=40), group(3, waiting=50)], (2, 3), 50.0),
        ([group(0, OLD), group(1, OLD), group(2)], (), None),
        # Another surge group is starting: it may be all that the promotion needs for now.
        ([group(0, OLD), group(1, OLD), group(2, ready=False), group(3, waiting=40)], (3,), None),
        ([group(0, OLD), group(1, OLD), group(2, waiting=40, reason="SchedulingGated")], (), None),
        # A replaced group whose room a surge group has.
        ([group(0, OLD), group(1, waiting=40), group(2)], (1,), 40.0),
        ([group(0, OLD), group(1, waiting=40), group(2, waiting=35)], (1, 2), 40.0),
        # A group that had no node before the promotion says nothing about the surge.
        ([group(0, OLD, waiting=4000), group(1, OLD), group(2)], (), None),
        # No surge group: scaling, or a roll without a surge.
        ([group(0, OLD), group(1, waiting=40)], (), None),
        # The clock of the scheduler is ahead.
        ([group(0, OLD), group(1, OLD), group(2, waiting=-5)], (2,), 0.0),
    ],
)
def test_new_groups_that_wait_for_a_node(
    groups: list[list[Pod]], waiting: tuple[int, ...], seconds: float | None
) -> None:
    found = dict(enumerate(groups))
    assert groups_without_node(found, REPLICAS, NEW) == waiting
    assert seconds_without_node(found, REPLICAS, NEW, SIZE, NOW) == seconds


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ({0: group(0, OLD), 1: group(1, OLD)}, 2),
        ({0: group(0, OLD), 1: group(1)}, 1),
        ({0: group(0, OLD), 2: group(2)}, 1),
        ({0: group(0), 1: group(1)}, 0),
        ({}, 0),
    ],
)
def test_a_promotion_stops_above_the_last_group_of_the_old_version(groups: dict[int, list[Pod]], expected: int) -> None:
    assert first_taken(groups, NEW) == expected
