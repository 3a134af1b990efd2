"""Growing pauses with jitter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.backoff import Backoff


@given(st.floats(0.01, 10), st.floats(10, 600), st.integers(1, 60))
def test_every_pause_is_within_half_of_its_nominal_length(base: float, limit: float, attempts: int) -> None:
    backoff = Backoff(base, limit)
    for attempt in range(attempts):
        nominal = min(limit, base * 2**attempt)
        assert 0.5 * nominal <= backoff.next() <= 1.5 * nominal


def test_pauses_grow_to_the_limit_and_start_again_after_a_reset() -> None:
    backoff = Backoff(base=1.0, limit=4.0)
    nominal = [1.0, 2.0, 4.0, 4.0]
    assert [backoff.next() / one for one in nominal] == pytest.approx([1.0] * 4, abs=0.5)
    backoff.reset()
    assert backoff.next() <= 1.5


def test_a_failure_that_lasts_for_weeks_does_not_overflow() -> None:
    backoff = Backoff(base=1.0, limit=30.0)
    assert all(backoff.next() <= 45.0 for _ in range(5000))


def test_two_clients_do_not_return_at_the_same_moment() -> None:
    assert len({Backoff().next() for _ in range(50)}) > 40


def test_the_default_pauses_go_from_a_fifth_of_a_second_to_half_a_minute() -> None:
    backoff = Backoff()
    pauses = [backoff.next() for _ in range(12)]
    assert 0.1 <= pauses[0] <= 0.3
    assert all(15.0 <= pause <= 45.0 for pause in pauses[8:])
