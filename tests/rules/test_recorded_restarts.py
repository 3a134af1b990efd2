"""What the records about restarts of groups mean."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import pod

from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules.group_labels import RESTARTS_COUNTED_SINCE
from kohort.rules.group_state import GroupState, RestartState
from kohort.rules.recorded_restarts import (
    DueRestart,
    Exhaustion,
    GroupRestarts,
    age,
    counted,
    counted_since,
    due_restarts,
    exhausted_groups,
    is_held,
    leader_identities,
    outdated_groups,
    outdated_records,
    parsed,
    with_restart_states,
)

LEADERS = {0: ("a", "r1"), 1: ("b", "r1"), 2: ("c", "r1")}
READY = GroupState(ready=True, updated=True)
STATES = dict.fromkeys(LEADERS, READY)


def stored(**groups: GroupRestarts) -> dict[str, JsonObject]:
    return {name.removeprefix("group_"): msgspec.to_builtins(one) for name, one in groups.items()}


HELD_AND_DUE = stored(
    group_0=GroupRestarts("r1", exhausted=Exhaustion("a", "2026-01-01T00:00:00Z")),
    group_1=GroupRestarts("r1", due=DueRestart("b", "2026-01-01T00:01:00Z")),
)


def test_groups_that_are_held_or_wait_to_be_recreated_are_not_ready() -> None:
    found = with_restart_states(STATES, HELD_AND_DUE, {}, LEADERS, has_budget=True)
    assert {index: (one.ready, one.restart) for index, one in found.items()} == {
        0: (False, RestartState.HELD),
        1: (False, RestartState.DUE),
        2: (True, None),
    }


def test_no_group_is_held_without_a_budget() -> None:
    found = with_restart_states(STATES, HELD_AND_DUE, {}, LEADERS, has_budget=False)
    assert [found[index].ready for index in LEADERS] == [True, False, True]


@pytest.mark.parametrize("leaders", [{1: ("another", "r1")}, {1: ("b", "r2")}, {}])
def test_a_record_is_about_one_leader_of_one_revision(leaders: dict[int, tuple[str, str]]) -> None:
    assert not due_restarts(HELD_AND_DUE, {}, leaders)


def test_a_group_that_a_user_restarted_is_not_held() -> None:
    annotations = {RESTARTS_COUNTED_SINCE: '{"0": "2026-01-01T00:00:01Z"}'}
    found = with_restart_states(STATES, HELD_AND_DUE, annotations, LEADERS, has_budget=True)
    assert found[0].ready


def test_outdated_records() -> None:
    status: dict[str, JsonObject] = {"0": {"revision": "r1"}, "1": {"revision": "r1"}, "5": {"revision": "r1"}}
    leaders = {0: ("a", "r2"), 1: ("b", "r1")}
    assert outdated_groups(status, leaders, 2, has_budget=True) == ["0", "5"]
    assert outdated_groups(status, leaders, 6, has_budget=True) == ["0"]
    assert outdated_groups(status, leaders, 6, has_budget=False) == ["0", "1", "5"]


def test_without_a_budget_only_due_restarts_of_present_leaders_are_kept() -> None:
    assert outdated_groups(HELD_AND_DUE, LEADERS, 3, has_budget=False) == ["0"]
    assert outdated_groups(HELD_AND_DUE, {0: ("a", "r1"), 1: ("another", "r1")}, 3, has_budget=False) == ["0", "1"]
    assert outdated_groups(HELD_AND_DUE, {}, 3, has_budget=False) == ["0", "1"]


def test_a_time_that_cannot_be_read_is_long_ago() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert age("2026-01-01T00:00:30Z", now) == 30
    assert age("yesterday", now) == age("", now) == float("inf")


NOON, ONE, TWO, THREE = (f"2026-01-01T{hour}:00:00Z" for hour in (12, 13, 14, 15))
RECORD = GroupRestarts(
    "r1", leader="a", in_a_row=3, last=THREE, times=(THREE, TWO, ONE), exhausted=Exhaustion("b", THREE, 3)
)


def since(time: str, group: int = 0) -> dict[str, str]:
    return {RESTARTS_COUNTED_SINCE: msgspec.json.encode({str(group): time}).decode()}


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (NOON, RECORD),
        (ONE, msgspec.structs.replace(RECORD, times=(THREE, TWO))),
        (TWO, msgspec.structs.replace(RECORD, times=(THREE,))),
        (THREE, GroupRestarts("r1")),
    ],
)
def test_restarts_count_after_the_time_at_which_a_user_restarted_the_group(time: str, expected: GroupRestarts) -> None:
    assert counted(stored(group_0=RECORD), since(time), 0, "r1") == expected


def test_a_restart_by_a_user_counts_for_one_group() -> None:
    assert counted(stored(group_0=RECORD), since(THREE, group=1), 0, "r1") == RECORD


def test_a_hold_that_came_after_the_restart_by_a_user_stays() -> None:
    record = msgspec.structs.replace(RECORD, last=ONE, exhausted=Exhaustion("b", THREE))
    found = counted(stored(group_0=record), since(TWO), 0, "r1")
    assert (found.leader, found.in_a_row, found.last, found.exhausted) == ("", 0, "", Exhaustion("b", THREE))


def test_times_that_cannot_be_read_do_not_count_after_a_restart_by_a_user() -> None:
    record = msgspec.structs.replace(RECORD, times=(THREE, "later", "2026-01-01T16:00:00"), last="soon")
    found = counted(stored(group_0=record), since(NOON), 0, "r1")
    assert (found.times, found.last, found.in_a_row) == ((THREE,), "", 0)


@pytest.mark.parametrize(
    ("status", "revision", "expected"),
    [
        ({}, "r1", GroupRestarts()),
        (stored(group_1=RECORD), "r1", GroupRestarts()),
        (stored(group_0=RECORD), "r2", GroupRestarts()),
        (stored(group_0=GroupRestarts(in_a_row=2)), "r2", GroupRestarts(in_a_row=2)),
        ({"0": {"revision": "r1", "inARow": "many"}}, "r1", GroupRestarts()),
    ],
)
def test_a_record_counts_for_its_group_and_template(
    status: dict[str, JsonObject], revision: str, expected: GroupRestarts
) -> None:
    assert counted(status, {}, 0, revision) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("{", {}),
        ("[]", {}),
        ('{"0": 5}', {}),
        (f'{{"0": "{NOON}", "1": "noon", "2": "2026-01-01T12:00:00"}}', {"0": NOON}),
    ],
)
def test_only_times_with_a_zone_say_since_when_restarts_count(text: str, expected: dict[str, str]) -> None:
    assert counted_since({RESTARTS_COUNTED_SINCE: text}) == expected


def test_without_the_annotation_all_restarts_count() -> None:
    assert counted_since({}) == {}


def test_a_group_is_held_with_the_leader_that_it_had_then() -> None:
    assert is_held(RECORD, "b")
    assert not is_held(RECORD, "a")
    assert not is_held(GroupRestarts("r1"), "")


def test_held_groups_are_those_whose_leader_is_still_there() -> None:
    status = stored(group_0=RECORD, group_1=RECORD, group_2=RECORD)
    leaders = {2: ("b", "r1"), 1: ("b", "r2"), 0: ("other", "r1"), 7: ("b", "r1")}
    assert exhausted_groups(status, {}, leaders) == {2: Exhaustion("b", THREE, 3)}


def test_a_group_that_is_held_and_waits_counts_as_held() -> None:
    both = GroupRestarts("r1", exhausted=Exhaustion("a"), due=DueRestart("a"))
    found = with_restart_states(STATES, stored(group_0=both), {}, LEADERS, has_budget=True)
    assert found[0].restart is RestartState.HELD


def test_states_of_groups_without_records_stay_as_they_are() -> None:
    assert with_restart_states(STATES, {}, {}, LEADERS, has_budget=True) == STATES
    assert with_restart_states({}, HELD_AND_DUE, {}, LEADERS, has_budget=True) == {}


def test_a_leader_is_known_by_uid_and_revision() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/template-revision-hash": "r1"}
    first = pod("llm-0").but("metadata.uid", "a").but("metadata.labels", labels).as_view(Pod)
    second = pod("llm-1").but("metadata.uid", "b").but("metadata.labels", None).as_view(Pod)
    assert leader_identities({0: first, 1: second}) == {0: ("a", "r1"), 1: ("b", "")}


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)), st.integers(0, 10**6))
def test_an_age_is_the_time_that_has_passed(moment: datetime, seconds: int) -> None:
    assert parsed(moment.isoformat()) == moment
    assert age(moment.isoformat(), moment + timedelta(seconds=seconds)) == seconds


@pytest.mark.parametrize("time", ["2026-01-01T12:00:00", "2026-13-01T12:00:00Z", "noon", ""])
def test_a_time_without_a_zone_is_no_time(time: str) -> None:
    assert parsed(time) is None


def test_records_about_earlier_leaders_are_outdated() -> None:
    assert outdated_records(HELD_AND_DUE, LEADERS) == {}
    assert outdated_records(HELD_AND_DUE, {}) == {}, "a group without a leader may wait for one"
    others = {index: ("another", revision) for index, (_, revision) in LEADERS.items()}
    assert outdated_records(HELD_AND_DUE, others) == {"0": ("exhausted",), "1": ("due",)}
