"""The phases of a Rollout: what is written, what is done, and what is reported once."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.observations import NOW, WORKLOAD, observation, progress, release, rollout

from kohort.kube.clock import format_time
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts import messages, rollout_phases
from kohort.rollouts.action_result import DONE, Problem, ProblemReason, Waiting
from kohort.rollouts.messages import EventReason, ReleaseOutcome
from kohort.rollouts.release_actions import AdoptHeldWorkload
from kohort.rollouts.release_state import Observation, ReleaseDecision, State, with_condition
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.traffic.actions import RouteAllToStable
from kohort.rules import rollout_labels

AT_REST = msgspec.structs.replace(WORKLOAD, in_progress=False)
FINISHED = progress(3, rollout_labels.COMPLETED)


def deleted(subject: Rollout) -> Rollout:
    metadata = ObjectMeta(name="llm", namespace="default", uid="uid", deletion_timestamp=format_time(NOW))
    return msgspec.structs.replace(subject, metadata=metadata)


def healthy(**more: Json) -> Observation:
    given: JsonObject = {"found": FINISHED, "workload": AT_REST, **more}
    return observation(phase=rollout_labels.HEALTHY, reason="", **given)


def saying(here: Observation, text: str) -> Observation:
    return here.with_state(msgspec.structs.replace(here.state, message=text))


def reasons(decision: ReleaseDecision) -> list[EventReason]:
    return [event.reason for event in decision.events]


# What cannot be released


def test_a_style_that_is_not_released_here_is_reported_once_and_left_alone() -> None:
    partition = rollout(enableExtraWorkloadForCanary=False)
    first = rollout_phases.decide(observation(partition, phase="", reason="", found=None))
    assert first.action is None
    assert reasons(first) == [EventReason.NOT_SUPPORTED]
    second = rollout_phases.decide(observation(partition, phase="", reason="").with_state(first.state))
    assert (second.events, second.state) == ((), first.state)


def test_a_rollout_without_steps_says_so() -> None:
    decision = rollout_phases.decide(observation(rollout(steps=[]), phase="", reason=""))
    assert (decision.state.phase, decision.state.message) == (rollout_labels.INITIAL, messages.NO_STEPS)


def test_a_missing_workload_is_reported_once() -> None:
    here = observation(phase="", reason="", workload=None)
    first = rollout_phases.decide(here)
    assert (first.state.phase, first.state.message) == (rollout_labels.INITIAL, "Workload Not Found")
    (event,) = first.events
    assert event.message == (
        "spec.workloadRef: LeaderWorkerSet default/llm (leaderworkerset.x-k8s.io/v1) does not exist; "
        "create it or correct the reference"
    )
    assert rollout_phases.decide(here.with_state(first.state)).events == ()


def test_a_workload_without_the_label_of_the_webhook_is_waited_for() -> None:
    here = observation(phase="", reason="", workload=msgspec.structs.replace(AT_REST, has_webhook_label=False))
    decision = rollout_phases.decide(here)
    assert (decision.state.phase, decision.state.message) == (rollout_labels.INITIAL, messages.WEBHOOK_LABEL_MISSING)
    assert decision.requeue == rollout_labels.RECHECK


# Healthy


def test_a_release_begins_without_the_result_of_the_last_one() -> None:
    here = healthy(workload=WORKLOAD)
    ended = with_condition(here.state, rollout_labels.SUCCEEDED, "True", "Completed", "x", NOW)
    decision = rollout_phases.decide(here.with_state(ended))
    assert (decision.state.phase, decision.state.reason) == (rollout_labels.PROGRESSING, rollout_labels.INITIALIZING)
    assert decision.state.condition(rollout_labels.SUCCEEDED) is None
    assert decision.action is None


def test_a_phase_is_stored_before_it_acts() -> None:
    decision = rollout_phases.decide(healthy(workload=WORKLOAD))
    assert (decision.action, decision.requeue) == (None, 0.0)


def test_the_first_progress_is_that_of_a_finished_release() -> None:
    here = healthy()
    decision = rollout_phases.decide(here.with_state(msgspec.structs.replace(here.state, progress=None)))
    found = decision.state.progress
    assert found is not None
    assert (found.current_step_index, found.next_step_index, found.current_step_state) == (3, -1, "Completed")
    assert (found.revision, found.stable_revision, found.pod_template_hash) == ("v2", "aaa", "bbb")
    assert decision.state.message == messages.NOTHING_RELEASED_YET


def test_a_workload_that_was_left_held_is_adopted() -> None:
    left = msgspec.structs.replace(AT_REST, left_held=True)
    here = healthy(workload=left)
    decision = rollout_phases.decide(here)
    assert decision.action == AdoptHeldWorkload()
    assert reasons(decision) == [EventReason.TAKEN_UP]
    after = rollout_phases.decide_after(here.with_state(decision.state), AdoptHeldWorkload(), DONE)
    assert (after.state, after.action, after.requeue) == (decision.state, None, None)


def test_a_version_that_came_without_a_release_is_reported_once_and_recorded() -> None:
    here = healthy(workload=msgspec.structs.replace(AT_REST, canary_revision="v3", stable_revision="ccc"))
    first = rollout_phases.decide(here)
    assert reasons(first) == [EventReason.RELEASE_NOT_CONTROLLED]
    assert first.state.progress is not None
    assert (first.state.progress.revision, first.state.progress.stable_revision) == ("v3", "ccc")
    assert rollout_phases.decide(here.with_state(first.state)).events == ()


def test_a_rollout_at_rest_follows_the_id_and_the_generation_of_its_workload() -> None:
    named = msgspec.structs.replace(AT_REST, rollout_id="build-7", generation=9)
    decision = rollout_phases.decide(healthy(workload=named))
    assert decision.state.progress is not None
    assert decision.state.progress.observed_rollout_id == "build-7"
    assert decision.state.progress.observed_workload_generation == 9


# References, checked while nothing is released


MISSING = Problem("Service default/svc does not exist; create it", ProblemReason.REF_NOT_FOUND)


def test_missing_references_are_a_condition_a_message_and_one_event() -> None:
    here = healthy(references=MISSING)
    first = rollout_phases.decide(here)
    condition = first.state.condition(rollout_labels.RESOLVED_REFS)
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == ("False", "RefNotFound", MISSING.text)
    assert first.state.message == MISSING.text
    assert reasons(first) == [EventReason.UNRESOLVED_REFS]
    assert rollout_phases.decide(here.with_state(first.state)).events == ()


def test_references_that_were_repaired_take_the_message_back() -> None:
    broken = rollout_phases.decide(healthy(references=MISSING)).state
    decision = rollout_phases.decide(healthy(references=DONE).with_state(broken))
    condition = decision.state.condition(rollout_labels.RESOLVED_REFS)
    assert condition is not None
    assert (condition.status, decision.state.message) == ("True", messages.HEALTHY)


def test_references_that_stay_as_good_as_they_were_leave_the_message_alone() -> None:
    good = rollout_phases.decide(healthy(references=DONE)).state
    other = msgspec.structs.replace(good, message=messages.COMPLETED)
    decision = rollout_phases.decide(healthy(references=DONE).with_state(other))
    assert decision.state.message == messages.COMPLETED


def test_references_that_are_not_known_yet_change_nothing() -> None:
    here = healthy(references=Waiting("one moment"))
    assert rollout_phases.decide(here).state.conditions == here.state.conditions


# Disabled and deleted


def test_disabling_in_the_middle_starts_the_end_from_its_beginning() -> None:
    middle = progress(3, finalising_step=rollout_labels.RESUME)
    decision = rollout_phases.decide(observation(rollout(disabled=True), middle))
    assert (decision.state.phase, decision.state.message) == (rollout_labels.DISABLING, messages.DISABLING)
    assert decision.state.progress is not None
    assert decision.state.progress.finalising_step == ""


def test_a_rollout_that_was_disabled_in_the_middle_ends_as_disabled() -> None:
    done = progress(2, finalising_step=rollout_labels.END)
    here = observation(rollout(disabled=True), done, phase=rollout_labels.DISABLING, workload=AT_REST)
    decision = rollout_phases.decide(here)
    assert (decision.state.phase, decision.outcome) == (rollout_labels.DISABLED, ReleaseOutcome.DISABLED)
    succeeded = decision.state.condition(rollout_labels.SUCCEEDED)
    assert succeeded is not None
    assert (succeeded.status, succeeded.reason) == ("False", rollout_labels.DISABLED)
    assert decision.state.progress is not None
    assert decision.state.progress.current_step_state == rollout_labels.COMPLETED


@pytest.mark.parametrize("phase", ["", rollout_labels.INITIAL, rollout_labels.HEALTHY])
def test_a_rollout_at_rest_is_disabled_at_once(phase: str) -> None:
    here = observation(rollout(disabled=True), phase=phase, reason="", workload=AT_REST)
    decision = rollout_phases.decide(here)
    assert (decision.state.phase, decision.action, decision.outcome) == (rollout_labels.DISABLED, None, None)


def test_a_workload_that_was_just_held_gets_its_hold_released_by_disabling() -> None:
    here = observation(rollout(disabled=True), phase=rollout_labels.HEALTHY, reason="")
    none = here.with_state(msgspec.structs.replace(here.state, progress=None))
    decision = rollout_phases.decide(none)
    assert decision.state.phase == rollout_labels.DISABLING
    assert decision.state.progress is not None
    assert decision.state.progress.finalising_step == ""


def test_an_enabled_rollout_is_healthy_again() -> None:
    here = observation(phase=rollout_labels.DISABLED, reason="", found=progress(2), workload=AT_REST)
    decision = rollout_phases.decide(here)
    assert (decision.state.phase, decision.state.message) == (rollout_labels.HEALTHY, messages.HEALTHY)
    assert decision.state.progress is not None
    assert decision.state.progress.current_step_state == rollout_labels.COMPLETED


def test_a_deleted_rollout_restores_routes_before_it_goes() -> None:
    here = observation(deleted(rollout()), progress(2), release=release(1))
    first = rollout_phases.decide(here)
    assert (first.state.phase, first.state.message) == (rollout_labels.TERMINATING, messages.TERMINATING)
    second = rollout_phases.decide(here.with_state(first.state))
    assert second.action == RouteAllToStable()


def test_a_deleted_rollout_is_gone_once() -> None:
    end = progress(2, finalising_step=rollout_labels.END)
    here = observation(deleted(rollout()), end, phase=rollout_labels.TERMINATING, reason="")
    first = rollout_phases.decide(here)
    condition = first.state.condition(rollout_labels.TERMINATING)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", rollout_labels.COMPLETED)
    second = rollout_phases.decide(here.with_state(first.state))
    assert (second.state, second.requeue, second.outcome) == (first.state, None, None)


def test_a_deleted_rollout_of_another_style_is_put_back_all_the_same() -> None:
    partition = deleted(rollout(enableExtraWorkloadForCanary=False))
    assert rollout_phases.decide(observation(partition)).state.phase == rollout_labels.TERMINATING


# Whatever happens


PHASES = [
    "",
    rollout_labels.INITIAL,
    rollout_labels.HEALTHY,
    rollout_labels.PROGRESSING,
    rollout_labels.DISABLING,
    rollout_labels.DISABLED,
    rollout_labels.TERMINATING,
]


@given(
    phase=st.sampled_from(PHASES),
    disabled=st.booleans(),
    gone=st.booleans(),
    in_progress=st.booleans(),
    consistent=st.booleans(),
    seconds=st.integers(0, 1000),
)
def test_a_pass_that_changes_the_phase_does_nothing_else(
    phase: str, disabled: bool, gone: bool, in_progress: bool, consistent: bool, seconds: int
) -> None:
    """A phase is stored before anything is done in its name, so that a crash in between cannot skip it."""
    workload = None if gone else msgspec.structs.replace(WORKLOAD, in_progress=in_progress, consistent=consistent)
    reason = rollout_labels.IN_ROLLING if phase == rollout_labels.PROGRESSING else ""
    here = observation(rollout(disabled=disabled), progress(2), phase=phase, reason=reason, workload=workload)
    here = msgspec.structs.replace(here, now=NOW + timedelta(seconds=seconds))
    decision = rollout_phases.decide(here)
    if decision.state.phase != phase:
        assert decision.action is None


@given(phase=st.sampled_from(PHASES), disabled=st.booleans(), in_progress=st.booleans())
def test_phases_come_to_rest(phase: str, disabled: bool, in_progress: bool) -> None:
    """Without anything new from outside, a Rollout stops changing phases after a few passes."""
    workload = msgspec.structs.replace(WORKLOAD, in_progress=in_progress)
    reason = rollout_labels.IN_ROLLING if phase == rollout_labels.PROGRESSING else ""
    here = observation(rollout(disabled=disabled), progress(2), phase=phase, reason=reason, workload=workload)
    seen: list[State] = []
    for _ in range(8):
        here = here.with_state(rollout_phases.next_phase(here).state)
        seen.append(here.state)
    assert seen[-1].phase == seen[-2].phase
