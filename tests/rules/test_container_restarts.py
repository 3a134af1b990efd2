"""When containers that have ended start again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.container_restarts import RESTART, RESTART_ALL, action_of_rules, next_pause, restarts_after_exit
from kohort.rules.restart_backoff import LONGEST_PAUSE, pause_after, reset_after


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
    assert next_pause(5, ran_for=reset_after()) == (160.0, 6)
    assert next_pause(5, ran_for=reset_after() + 0.1) == (0.0, 1)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_more_failures_never_mean_a_shorter_pause(first: int, second: int) -> None:
    fewer, more = sorted((first, second))
    assert 0.0 <= pause_after(fewer) <= pause_after(more) <= LONGEST_PAUSE


class Codes(msgspec.Struct, frozen=True):
    operator: str
    values: tuple[int, ...]


class Rule(msgspec.Struct, frozen=True):
    action: str
    exit_codes: Codes | None


def listed(action: str, *codes: int) -> Rule:
    return Rule(action, Codes("In", codes))


def all_but(action: str, *codes: int) -> Rule:
    return Rule(action, Codes("NotIn", codes))


@pytest.mark.parametrize(
    ("rules", "exit_code", "action"),
    [
        ([], 1, ""),
        ([listed(RESTART, 42)], 42, RESTART),
        ([listed(RESTART, 42)], 0, ""),
        ([listed(RESTART, 1, 42)], 42, RESTART),
        ([all_but(RESTART, 42)], 42, ""),
        ([all_but(RESTART, 42)], 0, RESTART),
        ([listed(RESTART_ALL, 42), all_but(RESTART, 0)], 42, RESTART_ALL),
        ([all_but(RESTART, 0), listed(RESTART_ALL, 42)], 42, RESTART),
        ([listed(RESTART_ALL, 42), all_but(RESTART, 0)], 1, RESTART),
        ([listed(RESTART_ALL, 42), all_but(RESTART, 0)], 0, ""),
        ([Rule(RESTART_ALL, None), listed(RESTART, 1)], 1, RESTART),
        ([Rule(RESTART, None)], 1, ""),
    ],
)
def test_the_first_rule_that_applies_to_the_exit_code_decides(rules: list[Rule], exit_code: int, action: str) -> None:
    assert action_of_rules(rules, exit_code) == action


exit_codes = st.integers(0, 255)
rules_of_containers = st.lists(
    st.builds(
        Rule,
        st.sampled_from([RESTART, RESTART_ALL]),
        st.builds(Codes, st.sampled_from(["In", "NotIn"]), st.lists(exit_codes, max_size=3).map(tuple)),
    ),
    max_size=4,
)


@given(rules_of_containers, rules_of_containers, exit_codes)
def test_rules_are_asked_in_their_order(first: list[Rule], then: list[Rule], exit_code: int) -> None:
    assert action_of_rules([*first, *then], exit_code) == (
        action_of_rules(first, exit_code) or action_of_rules(then, exit_code)
    )


@given(st.lists(exit_codes, max_size=5), exit_codes)
def test_a_rule_and_its_opposite_never_both_apply(codes: list[int], exit_code: int) -> None:
    found = [action_of_rules([of(RESTART, *codes)], exit_code) for of in (listed, all_but)]
    assert sorted(found) == ["", RESTART]


@given(st.integers(0, 10_000), st.floats(0, 2 * reset_after()))
def test_every_end_counts_unless_the_run_was_long(ends: int, ran_for: float) -> None:
    pause, counted = next_pause(ends, ran_for)
    assert (pause, counted) == ((0.0, 1) if ran_for > reset_after() else (pause_after(ends), ends + 1))
