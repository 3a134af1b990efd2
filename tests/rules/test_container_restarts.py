"""When containers that have ended start again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.container_restarts import next_pause, restarts_after_exit
from kohort.rules.restart_backoff import FORGIVEN_AFTER, LONGEST_PAUSE, pause_after


@pytest.mark.parametrize(
    ("policy", "exit_code", "restarts"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("", 0, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("OnFailure", 137, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_the_policy_and_the_exit_code_decide_whether_a_container_starts_again(
    policy: str, exit_code: int, restarts: bool
) -> None:
    assert restarts_after_exit(policy, exit_code) is restarts


def test_the_pause_doubles_up_to_five_minutes() -> None:
    pauses, ends = [], 0
    for _ in range(8):
        pause, ends = next_pause(ends, ran_for=1.0)
        pauses.append(pause)
    assert pauses == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_a_run_of_ten_minutes_resets_the_pause() -> None:
    assert next_pause(5, ran_for=FORGIVEN_AFTER - 0.1) == (160.0, 6)
    assert next_pause(5, ran_for=FORGIVEN_AFTER) == (0.0, 1)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_more_failures_never_mean_a_shorter_pause(first: int, second: int) -> None:
    fewer, more = sorted((first, second))
    assert 0.0 <= pause_after(fewer) <= pause_after(more) <= LONGEST_PAUSE
