"""The stored state of a Rollout: conditions, progress in both spellings, and times."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.observations import NOW, WORKLOAD, observation, progress, rollout

from kohort.kube.clock import format_time
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition
from kohort.rollouts.action_result import DONE, Done, Problem, ProblemReason, Waiting
from kohort.rollouts.release_state import (
    State,
    stored_state,
    with_condition,
    with_grace_times,
    with_message,
    with_reason,
    with_references,
    without,
)
from kohort.rollouts.rollout_types import ReleaseProgress, RolloutStatus
from kohort.rules import rollout_labels

LATER = NOW + timedelta(seconds=10)


def condition(state: State, type: str) -> Condition:
    found = state.condition(type)
    assert found is not None
    return found


def test_a_condition_keeps_its_transition_time_while_its_status_stays() -> None:
    first = with_condition(State(), "A", "True", "One", "x", NOW)
    second = with_condition(first, "A", "True", "Two", "y", LATER)
    assert condition(second, "A").last_transition_time == format_time(NOW)
    assert condition(second, "A").last_update_time == format_time(LATER)
    third = with_condition(second, "A", "False", "Two", "y", LATER)
    assert condition(third, "A").last_transition_time == format_time(LATER)


def test_a_condition_is_replaced_not_added() -> None:
    state = State()
    for type in ("A", "B", "A"):
        state = with_condition(state, type, "True", "x", "x", NOW)
    assert [one.type for one in state.conditions] == ["B", "A"]
    assert [one.type for one in without(state.conditions, "A")] == ["B"]


def test_the_reason_of_progressing_and_the_message_go_together() -> None:
    state = with_reason(State(), rollout_labels.IN_ROLLING, "it rolls", NOW)
    assert (state.reason, state.message) == (rollout_labels.IN_ROLLING, "it rolls")
    assert condition(state, rollout_labels.PROGRESSING).message == "it rolls"


def test_a_state_without_conditions_has_no_reason() -> None:
    assert State().reason == ""


def test_the_same_message_is_the_same_state() -> None:
    state = State(message="x")
    assert with_message(state, "x") is state
    assert with_message(state, "y").message == "y"


# Grace times


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (DONE, {"pin": "a"}),
        (Waiting("x"), {"pin": "a"}),
        (Problem("x"), {"pin": "a"}),
        (Done(grace_times={}), {}),
        (Waiting("x", grace_times={"routes": "b"}), {"routes": "b"}),
    ],
)
def test_results_store_times_only_where_they_have_some(
    result: Done | Waiting | Problem, expected: dict[str, str]
) -> None:
    state = with_grace_times(State(progress=progress(1, grace_times={"pin": "a"})), result)
    assert state.progress is not None
    assert state.progress.grace_times == expected


def test_a_state_without_progress_stores_no_times() -> None:
    assert with_grace_times(State(), Done(grace_times={"pin": "a"})) == State()


# References


def test_references_in_order_are_a_condition_without_an_event() -> None:
    state, events = with_references(State(), DONE, NOW)
    assert (condition(state, rollout_labels.RESOLVED_REFS).status, events) == ("True", ())


@pytest.mark.parametrize("reason", list(ProblemReason))
def test_a_problem_with_references_is_reported_until_it_changes(reason: ProblemReason) -> None:
    state, events = with_references(State(), Problem("x", reason), NOW)
    assert condition(state, rollout_labels.RESOLVED_REFS).reason == reason.value
    assert [event.message for event in events] == ["x"]
    again, none = with_references(state, Problem("x", reason), LATER)
    assert (again, none) == (state, ())
    _, other = with_references(state, Problem("y", reason), LATER)
    assert [event.message for event in other] == ["y"]


# Observations


@pytest.mark.parametrize(("index", "replicas"), [(1, 1), (2, "50%"), (3, "100%"), (0, 1), (4, 1), (-1, 1)])
def test_an_index_that_names_no_step_means_the_first(index: int, replicas: int | str) -> None:
    assert observation(found=progress(index)).step.replicas == replicas


@pytest.mark.parametrize(("after", "left"), [(0, 60.0), (59, 1.0), (60, 0.0), (100, 0.0)])
def test_how_long_until_a_time(after: float, left: float) -> None:
    assert observation(after=after).seconds_until(format_time(NOW), 60) == left


@pytest.mark.parametrize(("after", "left"), [(0, 3.0), (1, 2.0), (3, 0.0), (60, 0.0)])
def test_a_release_settles_for_three_seconds_before_its_first_step(after: float, left: float) -> None:
    assert observation(reason=rollout_labels.INITIALIZING, after=after).settle_left == left
    assert observation(reason="", after=after).settle_left == 0.0


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({}, False),
        ({"in_rollback": True}, False),
        ({"canary_revision": "v3"}, True),
        ({"canary_revision": "v1", "in_rollback": True}, True),
        ({"canary_revision": "v3", "in_progress": False}, False),
    ],
)
def test_which_workload_has_another_version_than_its_release(changes: JsonObject, other: bool) -> None:
    here = observation(workload=msgspec.structs.replace(WORKLOAD, **changes))
    assert here.has_other_version is other
    assert not here.with_state(msgspec.structs.replace(here.state, progress=None)).has_other_version
    assert not observation(workload=None).has_other_version


def test_a_time_that_was_never_stored_has_passed() -> None:
    assert observation().seconds_until("", 60) == 0.0


@pytest.mark.parametrize("blue_green", [False, True])
def test_without_its_workload_a_rollout_knows_whether_there_was_a_second_one(blue_green: bool) -> None:
    assert observation(rollout(blue_green=blue_green), workload=None).extra_workload
    inside = msgspec.structs.replace(WORKLOAD, extra_workload=False)
    assert not observation(workload=inside).extra_workload


# As it is written


@pytest.mark.parametrize(
    ("blue_green", "name", "revision", "replicas"),
    [
        (False, "canaryStatus", "canaryRevision", "canaryReplicas"),
        (True, "blueGreenStatus", "updatedRevision", "updatedReplicas"),
    ],
)
def test_the_two_spellings_of_a_status(blue_green: bool, name: str, revision: str, replicas: str) -> None:
    state = State("Progressing", "x", (), progress(2, replicas=3))
    document = state.document(7, blue_green=blue_green)
    assert (document["observedGeneration"], document["currentStepIndex"]) == (7, 2)
    assert (document[name][revision], document[name][replicas]) == ("v2", 3)


def test_a_state_without_progress_has_no_sub_status() -> None:
    document = State("Healthy", "x").document(1, blue_green=False)
    assert set(document) == {"observedGeneration", "phase", "message", "currentStepIndex", "currentStepState"}


texts = st.text("abc", max_size=3)
numbers = st.integers(0, 5)


@given(
    blue_green=st.booleans(),
    found=st.builds(
        ReleaseProgress,
        observed_rollout_id=texts,
        stable_revision=texts,
        pod_template_hash=texts,
        revision=texts,
        replicas=numbers,
        ready_replicas=numbers,
        current_step_index=numbers,
        next_step_index=st.integers(-1, 5),
        current_step_state=texts,
        finalising_step=texts,
        canary_name=texts,
        revision_key=texts,
        timed_out_step=numbers,
        judged_step=numbers,
        analysis_result=texts,
        announced_wait=texts,
        missing_replicas=numbers,
        grace_times=st.dictionaries(st.sampled_from(["pin", "routes"]), st.just("2026-01-01T00:00:00Z")),
    ),
)
def test_a_progress_comes_back_as_it_was_stored(blue_green: bool, found: ReleaseProgress) -> None:
    """Everything that must survive a restart is in the status."""
    document = State("Progressing", "x", (), found).document(1, blue_green=blue_green)
    status = msgspec.convert(document, RolloutStatus)
    stored = stored_state(msgspec.structs.replace(rollout(blue_green=blue_green), status=status))
    assert stored.progress == found
