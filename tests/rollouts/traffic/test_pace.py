"""Grace periods: what may happen now, by the table of `traffic.model`."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.clock import format_time
from kohort.rollouts.traffic.model import (
    DEFAULT_GRACE,
    FRESH_SECONDS,
    Pace,
    RouteRef,
    TrafficRequest,
    TrafficStep,
    finalising_grace,
    pace,
    routing_grace,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("needed", "changed_at", "grace", "expected"),
    [
        (True, None, 3, (Pace.RECORD_TIME, 0.0)),
        (True, ago(FRESH_SECONDS + 1), 3, (Pace.RECORD_TIME, 0.0)),
        (True, ago(1), 3, (Pace.CHANGE, 0.0)),
        (True, ago(-2), 3, (Pace.CHANGE, 0.0)),
        (True, ago(-100), 3, (Pace.RECORD_TIME, 0.0)),
        (True, None, 0, (Pace.CHANGE, 0.0)),
        (True, ago(1), 0, (Pace.CHANGE, 0.0)),
        (False, ago(1), 3, (Pace.WAIT, 2.0)),
        (False, ago(3), 3, (Pace.FINISHED, 0.0)),
        (False, ago(100), 3, (Pace.FINISHED, 0.0)),
        (False, None, 3, (Pace.FINISHED, 0.0)),
        (False, ago(1), 0, (Pace.FINISHED, 0.0)),
        (False, ago(-100), 3, (Pace.WAIT, 3)),
    ],
)
def test_what_may_happen_now(needed: bool, changed_at: str | None, grace: float, expected: tuple[Pace, float]) -> None:
    assert pace(needed=needed, changed_at=changed_at, now=NOW, grace=grace) == expected


@given(st.booleans(), st.one_of(st.none(), st.integers(-1000, 1000)), st.integers(0, 100))
def test_nothing_waits_longer_than_its_grace_period(needed: bool, age: int | None, grace: int) -> None:
    what, seconds = pace(needed=needed, changed_at=None if age is None else ago(age), now=NOW, grace=grace)
    assert 0 <= seconds <= grace
    assert (seconds > 0) == (what is Pace.WAIT)
    assert (what in (Pace.CHANGE, Pace.RECORD_TIME)) == needed


@given(st.integers(1, 100))
def test_a_change_is_made_only_after_its_time_was_stored(grace: int) -> None:
    """Two calls for every change: the first gives the time to store, the second makes the change."""
    first, _ = pace(needed=True, changed_at=None, now=NOW, grace=grace)
    second, _ = pace(needed=True, changed_at=ago(0), now=NOW, grace=grace)
    assert (first, second) == (Pace.RECORD_TIME, Pace.CHANGE)


@pytest.mark.parametrize(
    ("seconds", "routing", "finalising"),
    [((), 0, 0), ((3,), 3, 3), ((0,), DEFAULT_GRACE, 0), ((-1,), DEFAULT_GRACE, DEFAULT_GRACE), ((1, 7), 7, 7)],
)
def test_grace_periods_of_references(seconds: tuple[int, ...], routing: int, finalising: int) -> None:
    refs = tuple(RouteRef("svc", one) for one in seconds)
    assert (routing_grace(refs), finalising_grace(refs)) == (routing, finalising)


@pytest.mark.parametrize(
    ("generates", "only_traffic", "name"),
    [(True, False, "svc-canary"), (False, False, "svc"), (True, True, "svc"), (False, True, "svc")],
)
def test_the_name_of_the_service_that_gets_the_requests_of_the_canary(
    generates: bool, only_traffic: bool, name: str
) -> None:
    ref = RouteRef("svc")
    request = TrafficRequest("default", {}, (ref,), generates_canary_service=generates, only_traffic=only_traffic)
    assert request.canary_service(ref) == name


@pytest.mark.parametrize(("weight", "routes"), [(None, False), (0, True), (20, True)])
def test_a_step_with_a_weight_routes_even_nothing(weight: int | None, routes: bool) -> None:
    assert TrafficStep(weight).routes is routes
