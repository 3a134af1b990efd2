"""When a part or the process is started again."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.up.restart_policy import (
    PART_FORGET_SECONDS,
    PART_LONGEST_SECONDS,
    PROCESS_RESTARTS,
    PROCESS_WINDOW_SECONDS,
    End,
    EndReason,
    Restart,
    after_exit,
    exit_words,
    part_pause,
)


@pytest.mark.parametrize(
    ("failures", "pause"),
    [
        ([0], 1),
        ([0, 10], 2),
        ([0, 10, 20], 4),
        ([0, 10, 20, 30, 40, 50], 32),
        ([0, 10, 20, 30, 40, 50, 60], 60),
        ([0] * 2000, 60),
        ([0, 10, 20, 321], 1),
        ([0, 400, 410], 2),
    ],
)
def test_the_pause_of_a_part_doubles_until_it_has_run_for_five_minutes(failures: list[float], pause: float) -> None:
    assert part_pause(failures) == pause


@given(st.lists(st.integers(0, 1_000_000).map(float), min_size=1).map(sorted))
def test_a_part_is_always_started_again_within_a_minute(failures: list[float]) -> None:
    assert 1 <= part_pause(failures) <= PART_LONGEST_SECONDS
    later = failures[-1] + PART_FORGET_SECONDS
    assert part_pause([*failures, later]) == 1


SEGV, KILL = -signal.SIGSEGV, -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "stopping", "was_ready", "restarts", "expected"),
    [
        (SEGV, False, True, [], Restart(1)),
        (KILL, False, True, [], Restart(1)),
        (1, False, True, [100], Restart(2)),
        (SEGV, False, True, [100, 200, 300, 400], Restart(16)),
        (SEGV, False, True, [100, 200, 300, 400, 500], End(EndReason.TOO_MANY_RESTARTS)),
        (SEGV, False, True, [0, 1, 2, 3, 601], Restart(2)),
        (0, False, True, [], End(EndReason.STOPPED)),
        (130, False, True, [], End(EndReason.STOPPED)),
        (-signal.SIGTERM, False, True, [], End(EndReason.STOPPED)),
        (SEGV, True, True, [], End(EndReason.STOPPED)),
        (1, False, False, [], End(EndReason.START_FAILED)),
        (SEGV, False, False, [], End(EndReason.START_FAILED)),
    ],
)
def test_what_follows_the_end_of_a_process(
    code: int, stopping: bool, was_ready: bool, restarts: list[float], expected: Restart | End
) -> None:
    assert after_exit(code, stopping=stopping, was_ready=was_ready, restarts=restarts, now=610) == expected


@given(st.lists(st.integers(1, 400).map(float), max_size=100))
def test_there_are_never_more_than_five_restarts_in_ten_minutes(gaps: list[float]) -> None:
    now, restarts = 0.0, list[float]()
    for gap in gaps:
        now += gap
        if isinstance(after_exit(SEGV, stopping=False, was_ready=True, restarts=restarts, now=now), Restart):
            restarts.append(now)
    for begin in restarts:
        assert sum(begin <= when < begin + PROCESS_WINDOW_SECONDS for when in restarts) <= PROCESS_RESTARTS


def test_how_a_process_ended_in_words() -> None:
    assert exit_words(SEGV) == "ended by signal SIGSEGV"
    assert exit_words(-64) == "ended by signal SIGRTMAX"
    assert exit_words(-99) == "ended by signal 99"
    assert exit_words(1) == "ended with exit code 1"
