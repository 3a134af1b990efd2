"""The first restart is immediate, later ones wait longer and longer, and a time without failure resets the count."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.groups.restart_budget import Restart, RestartBudget, decide
from kohort.kube import clock
from kohort.rules.container_restarts import next_pause
from kohort.rules.recorded_restarts import GroupRestarts
from kohort.rules.restart_backoff import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    RestartBackoff,
    pause_after,
    reset_after,
    resets_count,
)


@pytest.mark.parametrize(
    ("first", "longest", "pauses"),
    [
        pytest.param(10.0, 300.0, [0, 10, 20, 40, 80, 160, 300, 300], id="groups and containers"),
        pytest.param(1.0, 900.0, [0, 1, 2, 4, 8, 16, 32, 64], id="daemon pods"),
        pytest.param(10.0, 600.0, [0, 10, 20, 40, 80, 160, 320, 600], id="jobs"),
        pytest.param(0.0, 300.0, [0, 0, 0, 0, 0, 0, 0, 0], id="no pause"),
    ],
)
def test_pauses_double_up_to_the_longest(first: float, longest: float, pauses: list[float]) -> None:
    assert [pause_after(failures, first, longest) for failures in range(8)] == pauses


@given(st.integers(0, 10**6), st.floats(0.1, 100), st.floats(100, 10**4))
def test_pauses_never_fall_and_never_exceed_the_longest(failures: int, first: float, longest: float) -> None:
    pause, later = (pause_after(times, first, longest) for times in (failures, failures + 1))
    assert 0.0 <= pause <= later <= longest


def test_each_restart_waits_for_its_pause() -> None:
    backoff, now, pauses = RestartBackoff[str](), 0.0, list[float]()
    for _ in range(8):
        pauses.append(backoff.pause("a", now))
        now += pauses[-1]
        backoff.done("a", now)
    assert pauses == [0, 10, 20, 40, 80, 160, LONGEST_PAUSE, LONGEST_PAUSE]
    assert (backoff.pause("b", now), backoff.times("a"), backoff.times("b")) == (0.0, 8, 0)


def test_a_pause_runs_down_with_time() -> None:
    backoff = RestartBackoff[str]()
    backoff.done("a", 100.0)
    assert [backoff.pause("a", now) for now in (100.0, 104.0, 110.0, 200.0)] == [FIRST_PAUSE, 6.0, 0.0, 0.0]


def test_it_is_forgiven_after_a_time_without_failure() -> None:
    backoff = RestartBackoff[str]()
    backoff.done("a", 0.0)
    backoff.done("a", 10.0)
    assert backoff.pause("a", 10.0 + reset_after() + 1) == 0.0
    backoff.done("a", 10.0 + reset_after() + 1)
    assert backoff.times("a") == 1
    backoff.forget_old(3 * reset_after())
    assert backoff.times("a") == 0


@pytest.mark.parametrize(
    ("quiet", "longest", "expected"),
    [(0, 300, False), (599.9, 300, False), (600, 300, False), (600.1, 300, True), (8, 4, False), (9, 4, True)],
)
def test_more_than_twice_the_longest_pause_resets_the_count(quiet: float, longest: float, expected: bool) -> None:
    assert resets_count(quiet, longest) is expected


def test_all_who_wait_reset_their_count_at_the_same_moment() -> None:
    """Things made again, containers and groups."""
    for quiet, expected in ((reset_after(), 2), (reset_after() + 1, 1)):
        backoff = RestartBackoff[str]()
        backoff.done("a", 0.0)
        backoff.done("a", quiet)
        _, containers = next_pause(1, ran_for=quiet)
        start = datetime(2026, 1, 1, tzinfo=UTC)
        once = GroupRestarts("r", "leader", 1, clock.format_time(start))
        groups = decide(RestartBudget(), once, "next", "r", start + timedelta(seconds=quiet))
        assert isinstance(groups, Restart)
        assert backoff.times("a") == containers == groups.restarts.in_a_row == expected


def test_a_failure_just_before_the_end_of_that_time_still_counts() -> None:
    backoff = RestartBackoff[str]()
    backoff.done("a", 0.0)
    backoff.done("a", reset_after())
    assert backoff.times("a") == 2
    backoff.forget_old(2 * reset_after())
    assert backoff.times("a") == 2


def test_other_pauses_are_forgiven_after_twice_the_longest() -> None:
    backoff = RestartBackoff[str](first=1.0, longest=4.0)
    for _ in range(5):
        backoff.done("a", 0.0)
    assert backoff.pause("a", 0.0) == 4.0
    backoff.done("a", 8.5)
    assert (backoff.times("a"), backoff.pause("a", 8.5)) == (1, 1.0)


def test_keys_are_forgotten_by_choice() -> None:
    backoff = RestartBackoff[tuple[str, int]]()
    for generation in (1, 2):
        backoff.done(("node", generation), 0.0)
    backoff.forget(lambda key: key[1] != 2)
    assert [backoff.times(("node", generation)) for generation in (1, 2)] == [0, 1]


@given(st.lists(st.floats(0, 1000), max_size=30))
def test_what_waits_for_its_pauses_is_made_at_most_a_few_times_in_ten_minutes(gaps: list[float]) -> None:
    """However soon it fails: at 0, 10, 30, 70, 150 and 310 s, and then once in five minutes."""
    backoff, now, made = RestartBackoff[str](), 0.0, list[float]()
    for gap in gaps:
        now += gap
        now += backoff.pause("a", now)
        backoff.done("a", now)
        made.append(now)
    for start in made:
        assert sum(start <= moment < start + reset_after() for moment in made) <= 6
