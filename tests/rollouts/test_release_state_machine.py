"""The states of a release: how it begins, what turns it around, and how it ends."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.observations import NOW, THREE, WORKLOAD, observation, progress, release, rollout

from kohort.objects.json_types import Json
from kohort.rollouts import messages, release_state_machine
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, ProblemReason, Waiting
from kohort.rollouts.forecast_types import ForecastUnknown, ReleaseForecast
from kohort.rollouts.messages import EventReason, ReleaseOutcome
from kohort.rollouts.release_actions import DeleteRelease, JoinTrafficRouting
from kohort.rollouts.release_state import Observation, ReleaseDecision
from kohort.rollouts.rollout_types import Batch, BatchRelease, ReleasePlan, ReleaseProgress, ReleaseSpec
from kohort.rollouts.step_analysis import Judgement
from kohort.rollouts.traffic.actions import CheckReferences, RemoveCanaryService, RouteAllToStable
from kohort.rollouts.workloads.model import ReleasedWorkload
from kohort.rules import rollout_labels

BACK = msgspec.structs.replace(WORKLOAD, canary_revision="v1", in_rollback=True)
THIRD = msgspec.structs.replace(WORKLOAD, canary_revision="v3")
INITIALIZING = rollout_labels.INITIALIZING


def reasons(decision: ReleaseDecision) -> list[EventReason]:
    return [event.reason for event in decision.events]


def found_in(decision: ReleaseDecision) -> ReleaseProgress:
    assert decision.state.progress is not None
    return decision.state.progress


# Initializing


def test_a_release_begins_at_the_first_step_with_what_the_workload_has() -> None:
    decision = release_state_machine.decide(observation(reason=INITIALIZING))
    found = found_in(decision)
    assert (found.current_step_index, found.next_step_index) == (1, 2)
    assert found.current_step_state == rollout_labels.BEFORE_UPGRADE
    assert (found.revision, found.stable_revision, found.rollout_hash) == ("v2", "aaa", "hash")
    assert (found.pod_template_hash, found.canary_name, found.grace_times) == ("", "", {})


def test_a_single_step_has_no_next_one() -> None:
    decision = release_state_machine.decide(observation(rollout(steps=THREE[:1]), reason=INITIALIZING))
    assert found_in(decision).next_step_index == -1


def test_the_time_of_the_beginning_is_kept_over_passes() -> None:
    first = release_state_machine.decide(observation(reason=INITIALIZING))
    here = observation(reason=INITIALIZING, after=2).with_state(first.state)
    assert found_in(release_state_machine.decide(here)).last_update_time == found_in(first).last_update_time


@pytest.mark.parametrize(("before", "runs", "attempt"), [(0, 0, 1), (3, 0, 4), (0, 3, 4), (5, 3, 6)])
def test_every_release_has_analyses_of_its_own(before: int, runs: int, attempt: int) -> None:
    here = observation(found=progress(2, analysis_attempt=before), reason=INITIALIZING)
    here = msgspec.structs.replace(here, judgement=Judgement("slo", latest_attempt=runs))
    first = release_state_machine.decide(here)
    again = release_state_machine.decide(here.with_state(first.state))
    assert [found_in(one).analysis_attempt for one in (first, again)] == [attempt, attempt]


def test_a_release_without_routes_checks_nothing() -> None:
    decision = release_state_machine.decide(observation(rollout(trafficRoutings=[]), reason=INITIALIZING, after=3))
    assert (decision.action, decision.state.reason) == (None, rollout_labels.IN_ROLLING)
    assert decision.state.condition(rollout_labels.RESOLVED_REFS) is None
    assert reasons(decision) == [EventReason.STEP_STARTED]


@pytest.mark.parametrize(("after", "left"), [(0, 3.0), (1, 2.0), (2.5, 0.5)])
def test_a_release_begins_three_seconds_after_its_template(after: float, left: float) -> None:
    here = observation(reason=INITIALIZING, after=after)
    decision = release_state_machine.decide_after(here, CheckReferences(), DONE)
    assert (decision.state.reason, decision.requeue) == (INITIALIZING, left)


def test_versions_with_one_revision_key_are_not_released() -> None:
    same = msgspec.structs.replace(WORKLOAD, expected_key="aaa")
    decision = release_state_machine.decide(observation(reason=INITIALIZING, workload=same))
    assert decision.action is None
    assert decision.state.message == messages.same_revision_keys("aaa")
    assert reasons(decision) == [EventReason.INITIALIZE_FAILED]


def test_missing_routes_hold_the_release_and_are_a_condition() -> None:
    problem = Problem("Service default/svc does not exist", ProblemReason.REF_NOT_FOUND)
    decision = release_state_machine.decide_after(observation(reason=INITIALIZING, after=9), CheckReferences(), problem)
    condition = decision.state.condition(rollout_labels.RESOLVED_REFS)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "RefNotFound")
    assert (decision.state.reason, decision.requeue) == (INITIALIZING, rollout_labels.RECHECK)


def test_a_check_that_waits_keeps_the_message_when_it_has_none_of_its_own() -> None:
    here = observation(reason=INITIALIZING)
    said = here.with_state(msgspec.structs.replace(here.state, message="before"))
    decision = release_state_machine.decide_after(said, CheckReferences(), Waiting(seconds=0.0))
    assert (decision.state.message, decision.requeue) == ("before", rollout_labels.RECHECK)


def test_a_shared_routing_is_joined_before_the_first_step() -> None:
    shared = rollout(trafficRoutingRef="shared")
    here = observation(shared, reason=INITIALIZING, after=3)
    decision = release_state_machine.decide_after(here, CheckReferences(), DONE)
    assert (decision.action, decision.state.reason) == (JoinTrafficRouting(), INITIALIZING)
    joining = release_state_machine.decide_after(here, JoinTrafficRouting(), Waiting("joining", 0.01))
    assert (joining.state.reason, joining.state.message, joining.requeue) == (INITIALIZING, "joining", 0.01)
    joined = release_state_machine.decide_after(here, JoinTrafficRouting(), DONE)
    assert joined.state.reason == rollout_labels.IN_ROLLING


def test_a_shared_routing_that_is_missing_is_an_event_and_no_condition() -> None:
    here = observation(rollout(trafficRoutingRef="shared"), reason=INITIALIZING, after=3)
    decision = release_state_machine.decide_after(here, JoinTrafficRouting(), Problem("it does not exist"))
    assert reasons(decision) == [EventReason.INITIALIZE_FAILED]
    assert decision.state.condition(rollout_labels.RESOLVED_REFS) is None


def test_the_old_template_ends_a_release_that_could_not_begin() -> None:
    here = observation(found=progress(1, rollout_labels.BEFORE_UPGRADE), reason=INITIALIZING, workload=BACK)
    assert release_state_machine.decide(here).state.reason == rollout_labels.CANCELLING


# Another template while it is released


def test_a_rollback_is_reported_and_begins_the_end() -> None:
    decision = release_state_machine.decide(observation(workload=BACK, release=release(0)))
    assert decision.state.reason == rollout_labels.CANCELLING
    assert decision.state.message == messages.CANCELLING
    assert (found_in(decision).revision, found_in(decision).finalising_step) == ("v1", "")
    assert decision.events == (messages.ROLLBACK_STARTED,)


def test_a_rollback_in_batches_is_refused_by_an_event() -> None:
    subject = rollout()
    annotations = {rollout_labels.ROLLBACK_IN_BATCH: "true"}
    metadata = msgspec.structs.replace(subject.metadata, annotations=annotations)
    here = observation(msgspec.structs.replace(subject, metadata=metadata), workload=BACK)
    assert reasons(release_state_machine.decide(here)) == [
        EventReason.PROGRESSING,
        EventReason.ROLLBACK_IN_BATCH_IGNORED,
    ]


@pytest.mark.parametrize(
    ("workload", "superseded"),
    [
        (THIRD, True),
        (WORKLOAD, False),
        (BACK, False),
        (msgspec.structs.replace(THIRD, in_progress=False), False),
        (None, False),
    ],
)
def test_what_supersedes_a_release(workload: ReleasedWorkload | None, superseded: bool) -> None:
    assert release_state_machine.is_superseded(observation(workload=workload)) is superseded


def superseding(step: str, **more: Json) -> Observation:
    return observation(found=progress(2, finalising_step=step), workload=THIRD, **more)


@pytest.mark.parametrize(
    ("result", "step"),
    [
        (DONE, rollout_labels.RELEASE_CONTROL),
        (Done(changed=True), rollout_labels.RELEASE_CONTROL),
        (Waiting("x", 1.0), rollout_labels.TO_STABLE),
        (Problem("broken"), rollout_labels.TO_STABLE),
    ],
)
def test_a_superseded_version_goes_when_its_traffic_is_back(result: ActionResult, step: str) -> None:
    here = superseding(rollout_labels.TO_STABLE, release=release(1))
    assert release_state_machine.decide(here).action == RouteAllToStable()
    decision = release_state_machine.decide_after(here, RouteAllToStable(), result)
    assert found_in(decision).finalising_step == step


def test_a_new_version_during_a_blue_green_release_waits_for_a_rollback_and_says_so_once() -> None:
    deployed = rollout(blue_green=True)
    ref = msgspec.structs.replace(deployed.spec.workload_ref, api_version="apps/v1", kind="Deployment")
    deployed = msgspec.structs.replace(deployed, spec=msgspec.structs.replace(deployed.spec, workload_ref=ref))
    within = msgspec.structs.replace(WORKLOAD, extra_workload=False)
    here = observation(deployed, workload=msgspec.structs.replace(within, canary_revision="v3"), release=release(0))
    first = release_state_machine.decide(here)
    assert first.events == (messages.NEWER_VERSION,)
    assert first.state.message == messages.NEW_VERSION_DURING_BLUE_GREEN
    assert release_state_machine.decide(here.with_state(first.state)).events == ()
    gone_back = release_state_machine.decide(
        observation(deployed, workload=within, release=release(0)).with_state(first.state)
    )
    assert release_state_machine.decide(here.with_state(gone_back.state)).events == (messages.NEWER_VERSION,)


def required_capacity(fitting: int | None) -> Observation:
    subject = rollout()
    metadata = msgspec.structs.replace(subject.metadata, annotations={rollout_labels.REQUIRE_CAPACITY: "true"})
    forecast: ReleaseForecast | ForecastUnknown = ForecastUnknown("nodes is forbidden")
    if fitting is not None:
        forecast = ReleaseForecast(
            replicas=(1, 2, 4), extra_replicas=4, unit="group", fitting=fitting, lacking=("cpu",), step_without_room=2
        )
    subject = msgspec.structs.replace(subject, metadata=metadata)
    return observation(subject, reason=INITIALIZING, forecast=forecast)


def test_missing_room_is_reported_once_for_every_number_of_replicas_that_lack_it() -> None:
    state = required_capacity(1).state
    reported = []
    for fitting in (None, None, 1, 1, 2, 2, None):
        here = required_capacity(fitting).with_state(state)
        decision = release_state_machine.decide_after(here, CheckReferences(), DONE)
        reported.append(reasons(decision))
        state = decision.state
    once = [EventReason.CAPACITY_MISSING]
    assert reported == [once, [], once, [], once, [], once]


def test_the_release_of_a_superseded_version_is_deleted_and_waited_for() -> None:
    here = superseding(rollout_labels.RELEASE_CONTROL, release=release(1))
    assert release_state_machine.decide(here).action == DeleteRelease()
    deleted = release_state_machine.decide_after(here, DeleteRelease(), Done(changed=True))
    assert (found_in(deleted).finalising_step, deleted.requeue) == (rollout_labels.RELEASE_CONTROL, 3.0)
    gone = release_state_machine.decide(superseding(rollout_labels.RELEASE_CONTROL))
    assert found_in(gone).finalising_step == rollout_labels.REMOVE_CANARY_SERVICE


@pytest.mark.parametrize("result", [DONE, Waiting("deleted", 3.0, changed=True)])
def test_the_newest_version_begins_when_the_canary_service_is_gone(result: ActionResult) -> None:
    here = superseding(rollout_labels.REMOVE_CANARY_SERVICE)
    decision = release_state_machine.decide_after(here, RemoveCanaryService(), result)
    assert (decision.state.reason, decision.outcome) == (INITIALIZING, ReleaseOutcome.SUPERSEDED)
    assert (found_in(decision).revision, found_in(decision).current_step_index) == ("v3", 1)


def test_the_end_of_one_release_is_left_for_the_next_one() -> None:
    here = observation(
        found=progress(3, rollout_labels.COMPLETED, finalising_step=rollout_labels.TO_NEW),
        reason=rollout_labels.FINALISING,
        workload=THIRD,
        release=release(2),
    )
    decision = release_state_machine.decide(here)
    assert (decision.state.reason, found_in(decision).finalising_step) == (
        rollout_labels.IN_ROLLING,
        rollout_labels.TO_STABLE,
    )


# Plans that change


def with_plan(batch: int, *counts: int | str) -> BatchRelease:
    plan = ReleasePlan(batches=tuple(Batch(one) for one in counts), batch_partition=batch)
    return msgspec.structs.replace(release(0), spec=ReleaseSpec(release_plan=plan))


@pytest.mark.parametrize(
    ("current", "batch", "old", "new", "expected"),
    [
        (1, 0, (1,), (1, 2, 4), 1),
        (2, 1, (1, 2), (1, 2, 4), 2),
        (2, 1, (1, 2), (2, 4), 2),
        (2, 1, (1, "100%"), (1, 2), 2),
        (3, 2, (1, 2, 4), (4,), 1),
        (1, 0, (4,), (1, 2, 3), 3),
    ],
)
def test_a_changed_plan_goes_on_at_the_step_that_keeps_the_groups(
    current: int, batch: int, old: tuple[int | str, ...], new: tuple[int, ...], expected: int
) -> None:
    subject = rollout(steps=[{"replicas": one} for one in new])
    here = observation(subject, progress(current), release=with_plan(batch, *old))
    assert release_state_machine.fitting_step(here) == expected


def test_a_plan_that_changes_before_anything_is_released_begins_anew() -> None:
    assert release_state_machine.fitting_step(observation(found=progress(3))) == 1


@given(
    current=st.integers(1, 6),
    batch=st.integers(0, 5),
    old=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    new=st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_a_changed_plan_never_names_a_step_that_does_not_exist(
    current: int, batch: int, old: list[int], new: list[int]
) -> None:
    subject = rollout(steps=[{"replicas": one} for one in new])
    here = observation(subject, progress(current), release=with_plan(batch, *old))
    assert 1 <= release_state_machine.fitting_step(here) <= len(new)


# Its end


@pytest.mark.parametrize(
    ("reason", "outcome", "status", "event", "text"),
    [
        (
            rollout_labels.FINALISING,
            ReleaseOutcome.SUCCEEDED,
            "True",
            EventReason.STABLE_PROMOTED,
            "Rollout progressing has been completed",
        ),
        (
            rollout_labels.CANCELLING,
            ReleaseOutcome.ROLLED_BACK,
            "False",
            EventReason.ROLLED_BACK,
            "Rollout progressing has been canceled",
        ),
    ],
)
def test_how_a_release_ends(reason: str, outcome: ReleaseOutcome, status: str, event: EventReason, text: str) -> None:
    found = progress(3, rollout_labels.COMPLETED, finalising_step=rollout_labels.END)
    workload = msgspec.structs.replace(WORKLOAD, in_progress=False)
    decision = release_state_machine.decide(observation(found=found, reason=reason, workload=workload))
    assert (decision.outcome, reasons(decision), decision.state.message) == (outcome, [event], text)
    succeeded = decision.state.condition(rollout_labels.SUCCEEDED)
    assert succeeded is not None
    assert succeeded.status == status
    assert (decision.state.reason, found_in(decision).next_step_index) == (rollout_labels.COMPLETED, -1)


def test_a_workload_that_is_deleted_in_the_middle_ends_the_release() -> None:
    here = observation(found=progress(2), workload=None, release=release(1))
    assert release_state_machine.decide(here).action == RouteAllToStable()
    over = observation(found=progress(2, finalising_step=rollout_labels.END), workload=None)
    decision = release_state_machine.decide(over)
    assert (decision.state.phase, decision.state.message) == (rollout_labels.INITIAL, "Workload Not Found")
    assert (decision.outcome, reasons(decision)) == (ReleaseOutcome.DELETED, [EventReason.WORKLOAD_GONE])


def test_a_pause_by_the_user_keeps_the_step() -> None:
    decision = release_state_machine.decide(observation(rollout(paused=True), progress(2), release=release(1)))
    assert (decision.state.reason, decision.state.message) == (rollout_labels.REASON_PAUSED, messages.PAUSED_BY_USER)
    assert decision.state.progress == progress(2)
    condition = decision.state.condition(rollout_labels.PROGRESSING)
    assert condition is not None
    assert condition.last_update_time is not None
    assert NOW.strftime("%Y-%m-%dT%H:%M:%S") in condition.last_update_time
