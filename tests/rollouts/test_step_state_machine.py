"""The states of a step: the table of `step_state_machine`, jumps, and what other clients do meanwhile."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.observations import NOW, WORKLOAD, observation, progress, release, rollout

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts import messages, release_state_machine, step_analysis, step_state_machine
from kohort.rollouts.action_result import DONE, Done, Problem, Waiting
from kohort.rollouts.analysis.analysis_rules import Mode
from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.analysis.run_types import RunPhase, RunStatus
from kohort.rollouts.messages import EventReason
from kohort.rollouts.release_actions import DeleteRelease, ShrinkToBatch, WriteRelease
from kohort.rollouts.release_state import ReleaseDecision, with_reason
from kohort.rollouts.rollout_types import BatchRelease, ReleaseProgress, Rollout, WorkloadRef
from kohort.rollouts.step_analysis import Judgement, Override, Passed
from kohort.rollouts.traffic.actions import (
    PinStableService,
    RemoveCanaryService,
    RouteAllToStable,
    RouteStep,
    UnpinStableService,
)
from kohort.rollouts.workloads.model import ReleasedWorkload
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import ProgressingReason

UPGRADE, ROUTING, PAUSED = rollout_labels.UPGRADE, rollout_labels.ROUTING, rollout_labels.PAUSED


def found_in(decision: ReleaseDecision) -> ReleaseProgress:
    assert decision.state.progress is not None
    return decision.state.progress


def reasons(decision: ReleaseDecision) -> list[EventReason]:
    return [event.reason for event in decision.events]


def annotated(annotations: dict[str, str]) -> Rollout:
    subject = rollout()
    return msgspec.structs.replace(subject, metadata=msgspec.structs.replace(subject.metadata, annotations=annotations))


def deleting(found: BatchRelease) -> BatchRelease:
    metadata = ObjectMeta(name="llm", deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(found, metadata=metadata)


# Before the upgrade


@pytest.mark.parametrize(
    ("step", "routed", "generates", "pins"),
    [
        (1, True, True, True),
        (2, True, True, False),
        (1, True, False, False),
        (1, False, True, False),
    ],
)
def test_the_stable_service_is_pinned_before_the_first_step_that_routes(
    step: int, routed: bool, generates: bool, pins: bool
) -> None:
    strategy: JsonObject = {"disableGenerateCanaryService": not generates}
    subject = rollout(**(strategy if routed else {**strategy, "trafficRoutings": []}))
    decision = step_state_machine.decide(observation(subject, progress(step, rollout_labels.BEFORE_UPGRADE)))
    assert isinstance(decision.action, PinStableService) is pins
    if not pins:
        assert found_in(decision).current_step_state == UPGRADE


def test_a_pin_that_waits_says_so() -> None:
    here = observation(found=progress(1, rollout_labels.BEFORE_UPGRADE))
    decision = step_state_machine.decide_after(here, PinStableService(), Waiting("waiting for proxies", 2.0))
    assert decision.state.message == "Rollout is in step(1/3), and route traffic: waiting for proxies"
    assert (found_in(decision).current_step_state, decision.requeue) == (rollout_labels.BEFORE_UPGRADE, 2.0)


# Upgrade


def test_the_plan_of_a_release_is_that_of_the_rollout_up_to_the_step() -> None:
    subject = rollout(failureThreshold="20%", patchPodTemplateMetadata={"labels": {"track": "canary"}})
    plan = step_state_machine.wanted_plan(observation(subject, progress(2, observed_rollout_id="7")), 1)
    assert [one.canary_replicas for one in plan.batches] == [1, "50%", "100%"]
    assert (plan.batch_partition, plan.rollout_id, plan.failure_threshold) == (1, "7", "20%")
    assert plan.patch_pod_template_metadata is not None
    assert (plan.rolling_style, plan.enable_extra_workload_for_canary) == ("Canary", True)


@pytest.mark.parametrize("found", [None, release(1)])
def test_a_release_that_is_missing_or_has_another_plan_is_written(found: BatchRelease | None) -> None:
    decision = step_state_machine.decide(observation(found=progress(1, UPGRADE), release=found))
    assert isinstance(decision.action, WriteRelease)
    assert decision.action.plan.batch_partition == 0


@pytest.mark.parametrize(
    ("change", "leads_on"),
    [
        ({}, True),
        ({"observed_release_plan_hash": "old"}, False),
        ({"observed_generation": -1}, False),
    ],
)
def test_only_an_answer_to_the_present_plan_counts(change: JsonObject, leads_on: bool) -> None:
    found = release(0)
    found = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, **change))
    decision = step_state_machine.decide(observation(found=progress(1, UPGRADE), release=found))
    assert (found_in(decision).current_step_state == ROUTING) is leads_on


def test_a_batch_that_is_behind_the_step_is_waited_for() -> None:
    behind = release(1)
    canary = msgspec.structs.replace(behind.status.canary_status, current_batch=0)
    behind = msgspec.structs.replace(behind, status=msgspec.structs.replace(behind.status, canary_status=canary))
    decision = step_state_machine.decide(observation(found=progress(2, UPGRADE), release=behind))
    assert found_in(decision).current_step_state == UPGRADE


def test_an_upgrade_that_is_done_records_the_key_of_its_pods() -> None:
    here = observation(found=progress(1, UPGRADE, pod_template_hash="old"), release=release(0))
    decision = step_state_machine.decide(here)
    assert (found_in(decision).pod_template_hash, found_in(decision).current_step_state) == ("bbb", ROUTING)
    assert reasons(decision) == [EventReason.PROGRESSING]


# Routing


def test_traffic_that_moved_is_reported() -> None:
    here = observation(found=progress(1, ROUTING), release=release(0))
    decision = step_state_machine.decide_after(here, RouteStep(), DONE)
    assert [event.message for event in decision.events] == ["step(1): routed 20% to svc-canary"]
    assert found_in(decision).current_step_state == rollout_labels.ANALYSIS


def test_matches_are_counted_in_the_report() -> None:
    matches = [{"headers": [{"name": "a", "value": "b"}]}, {"headers": [{"name": "c", "value": "d"}]}]
    here = observation(rollout(steps=[{"replicas": 1, "matches": matches}]), progress(1, ROUTING, next_step_index=-1))
    decision = step_state_machine.decide_after(here, RouteStep(), DONE)
    assert decision.events[0].message == "step(1): routed 2 match(es) to svc-canary"


@pytest.mark.parametrize(("changed", "moves"), [(True, True), (False, False)])
def test_the_time_of_a_step_follows_the_last_change_of_its_routes(changed: bool, moves: bool) -> None:
    here = observation(found=progress(1, ROUTING), after=30)
    decision = step_state_machine.decide_after(here, RouteStep(), Waiting("x", 3.0, changed=changed))
    assert (found_in(decision).last_update_time != progress(1).last_update_time) is moves


def test_routes_that_fail_are_reported_and_tried_again() -> None:
    here = observation(found=progress(1, ROUTING))
    decision = step_state_machine.decide_after(here, RouteStep(), Problem("no Ingress"))
    assert (decision.requeue, reasons(decision)) == (rollout_labels.RECHECK, [EventReason.ROUTE_FAILED])


@pytest.mark.parametrize(
    ("wanted", "replicas", "shrinks"), [("true", 3, True), ("true", 1, False), ("false", 3, False), ("", 3, False)]
)
def test_replicas_of_a_jump_back_go_only_where_the_user_wants_that(wanted: str, replicas: int, shrinks: bool) -> None:
    subject = annotated({rollout_labels.SCALE_DOWN_ON_JUMP: wanted})
    here = observation(subject, progress(1, ROUTING, replicas=replicas), release=release(0))
    decision = step_state_machine.decide_after(here, RouteStep(), DONE)
    assert (decision.action == ShrinkToBatch()) is shrinks
    if shrinks:
        after = step_state_machine.decide_after(here.with_state(decision.state), ShrinkToBatch(), Done(changed=True))
        assert found_in(after).current_step_state == rollout_labels.ANALYSIS


# Steps that route nothing


def test_a_step_without_traffic_restores_the_routes_one_after_the_other() -> None:
    subject = rollout(steps=[{"replicas": 1}, {"replicas": 2}])
    here = observation(subject, progress(1, UPGRADE), release=release(0))
    decision = step_state_machine.decide(here)
    assert decision.action == UnpinStableService()
    second = step_state_machine.decide_after(here, UnpinStableService(), DONE)
    assert second.action == RouteAllToStable()
    third = step_state_machine.decide_after(here, RouteAllToStable(), DONE)
    assert third.action == RemoveCanaryService()
    last = step_state_machine.decide_after(here, RemoveCanaryService(), DONE)
    assert isinstance(last.action, WriteRelease)


def test_a_route_that_was_restored_is_stored_before_the_next() -> None:
    here = observation(rollout(steps=[{"replicas": 1}]), progress(1, UPGRADE, next_step_index=-1))
    decision = step_state_machine.decide_after(here, UnpinStableService(), Done(changed=True))
    assert (decision.action, decision.requeue) == (None, 0.0)


# What users and other clients do


def test_a_release_that_a_user_deleted_goes_after_its_traffic() -> None:
    here = observation(found=progress(2, PAUSED), release=deleting(release(1)))
    assert step_state_machine.decide(here).action == RouteAllToStable()
    routed = step_state_machine.decide_after(here, RouteAllToStable(), DONE)
    assert found_in(routed).finalising_step == rollout_labels.RELEASE_CONTROL
    waiting = step_state_machine.decide(here.with_state(routed.state))
    assert (waiting.action, waiting.requeue) == (None, rollout_labels.RECHECK)
    gone = step_state_machine.decide(msgspec.structs.replace(here.with_state(routed.state), release=None))
    assert (found_in(gone).current_step_state, found_in(gone).canary_name) == (rollout_labels.BEFORE_UPGRADE, "")


def test_a_canary_that_a_user_deleted_takes_its_release_with_it() -> None:
    lost = msgspec.structs.replace(WORKLOAD, canary_lost=True)
    here = observation(
        found=progress(2, PAUSED, finalising_step=rollout_labels.RELEASE_CONTROL), workload=lost, release=release(1)
    )
    assert step_state_machine.decide(here).action == DeleteRelease()


def test_another_id_is_given_to_the_release_at_once() -> None:
    here = observation(found=progress(1, PAUSED, observed_rollout_id="build-8"), release=release(0))
    decision = step_state_machine.decide(here)
    assert isinstance(decision.action, WriteRelease)
    assert decision.action.plan.rollout_id == "build-8"


def test_a_canary_that_was_made_anew_has_another_name_and_key() -> None:
    here = observation(found=progress(1, PAUSED, canary_name="llm-old", pod_template_hash="old"), release=release(0))
    refreshed = step_state_machine.refreshed(here)
    assert refreshed.progress is not None
    assert (refreshed.progress.canary_name, refreshed.progress.pod_template_hash) == ("llm-x", "bbb")


def test_counts_and_message_follow_the_release() -> None:
    remark = msgspec.structs.replace(WORKLOAD, remark="scaled to 0")
    refreshed = step_state_machine.refreshed(observation(workload=remark, release=release(0)))
    assert refreshed.progress is not None
    assert refreshed.progress.replicas == 1
    assert refreshed.progress.message.endswith(", scaled to 0")


# Pauses


@pytest.mark.parametrize(
    ("step", "blue_green", "skips"), [(1, False, False), (3, False, True), (3, True, False), (2, True, False)]
)
def test_only_a_canary_at_full_size_is_promoted_without_a_pause(step: int, blue_green: bool, skips: bool) -> None:
    assert rollout(blue_green=blue_green).skips_pause(step) is skips


def test_approval_is_asked_for_once() -> None:
    here = observation(found=progress(1, PAUSED), release=release(0))
    first = step_state_machine.decide(here)
    assert reasons(first) == [EventReason.STEP_PAUSED_FOR_APPROVAL]
    assert step_state_machine.decide(here.with_state(first.state)).events == ()


def test_approval_is_asked_for_again_after_a_pause_by_the_user() -> None:
    here = observation(found=progress(1, PAUSED), release=release(0))
    asked = step_state_machine.decide(here).state
    resumed = with_reason(asked, rollout_labels.IN_ROLLING, messages.IN_PROGRESS, here.now)
    assert reasons(step_state_machine.decide(here.with_state(resumed))) == [EventReason.STEP_PAUSED_FOR_APPROVAL]


def test_approval_is_asked_for_again_when_routes_had_to_be_repaired() -> None:
    here = observation(found=progress(1, PAUSED), release=release(0), drift="create Ingress llm-canary")
    asked = step_state_machine.decide(msgspec.structs.replace(here, drift="")).state
    routing = step_state_machine.decide(here.with_state(asked))
    assert found_in(routing).announced_wait == ""


def test_a_pause_with_a_duration_forgets_that_approval_was_asked_for() -> None:
    timed = observation(found=progress(2, PAUSED, announced_wait="Approval"), release=release(1))
    assert found_in(step_state_machine.decide(timed)).announced_wait == ""


def test_routes_that_drifted_are_routed_again_even_at_the_last_step() -> None:
    here = observation(found=progress(3, PAUSED), release=release(2), drift="create Ingress llm-canary")
    decision = step_state_machine.decide(here)
    assert found_in(decision).current_step_state == ROUTING
    assert decision.events == (messages.routes_changed(3, 3, "create Ingress llm-canary"),)


def test_without_an_analysis_every_step_passes() -> None:
    assert step_analysis.analyse(None, 1) == Passed()


# Jumps


@given(here=st.integers(1, 3), target=st.integers(-3, 6))
def test_the_next_step_always_exists_after_a_pass(here: int, target: int) -> None:
    late = rollout(steps=[{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}, {"replicas": 3, "pause": {}}])
    decision = step_state_machine.decide(
        observation(late, progress(here, PAUSED, next_step_index=target), release=release(here - 1))
    )
    following = found_in(decision).next_step_index
    assert following == -1 or 1 <= following <= 3
    assert 1 <= found_in(decision).current_step_index <= 3


def test_a_jump_that_is_refused_says_which_steps_there_are() -> None:
    decision = step_state_machine.decide(observation(found=progress(1, PAUSED, next_step_index=7)))
    assert decision.events == (messages.jump_refused(7, 3),)
    assert found_in(decision).next_step_index == 2


@pytest.mark.parametrize(("replicas", "state"), [(2, ROUTING), (1, rollout_labels.BEFORE_UPGRADE)])
def test_a_jump_to_the_same_size_only_changes_routes(replicas: int, state: str) -> None:
    here = observation(found=progress(3, PAUSED, replicas=replicas, next_step_index=2))
    decision = step_state_machine.jump_to(here, 2)
    assert (found_in(decision).current_step_index, found_in(decision).current_step_state) == (2, state)


def judged(phase: RunPhase | None, mode: Mode = Mode.ENFORCE, **more: object) -> Judgement:
    run = None if phase is None else AnalysisRun(status=RunStatus(phase=phase, mode=mode))
    return msgspec.structs.replace(Judgement("slo", mode=mode, run=run), **more)


IN_EVERY_STATE = pytest.mark.parametrize(
    "state", [rollout_labels.BEFORE_UPGRADE, UPGRADE, ROUTING, rollout_labels.ANALYSIS, PAUSED, rollout_labels.READY]
)


@IN_EVERY_STATE
@pytest.mark.parametrize(
    "judgement",
    [
        pytest.param(judged(None), id="not begun"),
        pytest.param(judged(None, Mode.GATE), id="not begun, mode Gate"),
        pytest.param(judged(RunPhase.WARMING_UP), id="warming up"),
        pytest.param(judged(RunPhase.RUNNING), id="running"),
        pytest.param(judged(RunPhase.HELD), id="held"),
        pytest.param(judged(RunPhase.FAILED), id="failed"),
        pytest.param(judged(RunPhase.FAILED, Mode.GATE), id="failed, mode Gate"),
        pytest.param(judged(RunPhase.PASSED, problem="deleted"), id="unusable"),
    ],
)
def test_no_jump_leads_past_a_step_whose_analysis_has_not_passed(judgement: Judgement, state: str) -> None:
    here = observation(found=progress(1, state, next_step_index=3), release=release(), judgement=judgement)
    decision = step_state_machine.decide(here)
    assert (found_in(decision).current_step_index, found_in(decision).next_step_index) == (1, 2)
    assert messages.jump_before_verdict(3, 1, 3) in decision.events


@IN_EVERY_STATE
@pytest.mark.parametrize(
    "judgement",
    [
        pytest.param(None, id="no analysis"),
        pytest.param(judged(RunPhase.PASSED), id="passed"),
        pytest.param(judged(None, Mode.DRY_RUN), id="not begun, mode DryRun"),
        pytest.param(judged(RunPhase.FAILED, Mode.DRY_RUN), id="failed, mode DryRun"),
        pytest.param(judged(None, first_step=2), id="the step is not judged"),
        pytest.param(judged(None, override=Override(by="ann")), id="overridden before it began"),
        pytest.param(judged(RunPhase.FAILED, override=Override(by="ann")), id="overridden"),
    ],
)
def test_a_jump_leads_on_where_the_analysis_does_not_hold_the_step(judgement: Judgement | None, state: str) -> None:
    here = observation(found=progress(1, state, next_step_index=3), release=release(), judgement=judgement)
    assert found_in(step_state_machine.decide(here)).current_step_index == 3


@IN_EVERY_STATE
@pytest.mark.parametrize("target", [1, 2])
def test_a_jump_back_and_a_step_begun_again_need_no_verdict(target: int, state: str) -> None:
    found = progress(2, state, next_step_index=target)
    decision = step_state_machine.decide(observation(found=found, release=release(1), judgement=judged(None)))
    assert (found_in(decision).current_step_index, found_in(decision).analysis_attempt) == (target, 1)


@pytest.mark.parametrize("state", [PAUSED, rollout_labels.READY])
@pytest.mark.parametrize(
    ("judgement", "expected"),
    [
        (judged(RunPhase.PASSED), "goes on"),
        (judged(RunPhase.HELD), rollout_labels.ANALYSIS),
        (judged(RunPhase.RUNNING), rollout_labels.ANALYSIS),
        (judged(None), rollout_labels.ANALYSIS),
        (judged(RunPhase.FAILED), UPGRADE),
        (judged(RunPhase.FAILED, Mode.GATE), rollout_labels.ANALYSIS),
    ],
)
def test_no_approval_leads_past_a_step_whose_analysis_has_not_passed(
    judgement: Judgement, expected: str, state: str
) -> None:
    """Step 2 has paused long enough, or was approved."""
    decision = step_state_machine.decide(
        observation(found=progress(2, state), release=release(1), judgement=judgement, after=600)
    )
    found = found_in(decision)
    if expected == "goes on":
        assert (found.current_step_state == rollout_labels.READY) or found.current_step_index == 3
        return
    assert (found.current_step_index, found.current_step_state) == (2, expected)
    ignored = EventReason.APPROVAL_IGNORED in reasons(decision)
    assert ignored is (state == rollout_labels.READY and expected == rollout_labels.ANALYSIS)


@pytest.mark.parametrize(
    ("judgement", "asked", "expected"),
    [
        (None, 2, ""),
        (judged(RunPhase.PASSED), 2, "Running"),
        (judged(RunPhase.PASSED), 3, "Running"),
        (judged(None, override=Override(by="ann")), 2, "Running"),
        (judged(None, override=Override(by="ann")), 3, "Running"),
        (judged(RunPhase.PASSED, Mode.DRY_RUN), 3, "Passed"),
        (judged(None, first_step=3), 2, "Passed"),
        (judged(None, first_step=3), 3, "Running"),
    ],
)
def test_the_next_step_begins_without_the_verdict_of_the_one_before(
    judgement: Judgement | None, asked: int, expected: str
) -> None:
    """A command that reads the status at this moment must not take one for the other."""
    found = progress(1, rollout_labels.READY, next_step_index=asked)
    decision = step_state_machine.decide(observation(found=found, release=release(), judgement=judgement))
    assert found_in(decision).current_step_index == asked
    assert found_in(decision).analysis_result == expected


def test_a_release_begins_with_a_step_that_has_no_verdict() -> None:
    found = release_state_machine.first_progress(observation(judgement=judged(RunPhase.PASSED)))
    assert (found.current_step_index, found.analysis_result) == (1, "Running")


def test_where_nothing_is_judged_any_more_no_jump_is_held() -> None:
    found = progress(1, UPGRADE, next_step_index=3, analysis_result="Running")
    assert found_in(step_state_machine.decide(observation(found=found, release=release()))).current_step_index == 3


def test_what_the_analysis_of_a_step_said_ends_with_the_release() -> None:
    state = observation(found=progress(1, UPGRADE, analysis_result="Running")).state
    ended = with_reason(state, ProgressingReason.COMPLETED, "done", NOW).progress
    assert ended is not None
    assert ended.analysis_result == ""


RESIZED = msgspec.structs.replace(WORKLOAD, in_place=True)
IN_ONE = msgspec.structs.replace(WORKLOAD, extra_workload=False)


def of_kind(kind: str, subject: Rollout, api_version: str = "apps/v1") -> Rollout:
    spec = msgspec.structs.replace(subject.spec, workload_ref=WorkloadRef(api_version, kind, "llm"))
    return msgspec.structs.replace(subject, spec=spec)


@pytest.mark.parametrize(
    ("subject", "workload", "step", "text"),
    [
        (rollout(), WORKLOAD, 1, "the canary is scaled to 0"),
        (rollout(blue_green=True), WORKLOAD, 1, "the canary is scaled to 0"),
        (rollout(), RESIZED, 1, "groups get their former resources back"),
        (of_kind("Deployment", rollout()), WORKLOAD, 1, "the canary is scaled to 0"),
        (
            of_kind("Deployment", rollout(blue_green=True)),
            IN_ONE,
            1,
            "requests go to the stable version, pods of the new version stay",
        ),
        (
            of_kind("Deployment", rollout(blue_green=True, trafficRoutings=[])),
            IN_ONE,
            1,
            "pods of the new version stay, and requests reach them",
        ),
        *(
            (of_kind(kind, rollout(enableExtraWorkloadForCanary=False)), IN_ONE, step, text)
            for kind, step, text in (
                ("Deployment", 1, "pods of the new version are replaced by pods of the old one"),
                ("Deployment", 3, "pods of the new version are replaced by pods of the old one"),
                ("StatefulSet", 1, "pods of the new version are replaced by pods of the old one"),
                ("StatefulSet", 3, "every pod has the new version, and keeps it until the old template is back"),
            )
        ),
    ],
)
def test_a_failed_analysis_says_what_becomes_of_the_replicas(
    subject: Rollout, workload: ReleasedWorkload, step: int, text: str
) -> None:
    """No text speaks of a canary where there is none."""
    here = observation(subject, progress(step, UPGRADE), workload=workload, release=release(step - 1))
    here = msgspec.structs.replace(here, judgement=judged(RunPhase.FAILED))
    message = step_state_machine.decide(here).state.message
    assert f"; {text}" in message or f", {text}" in message
    assert ("canary" in message) is (text == "the canary is scaled to 0")


def test_pods_of_a_stateful_set_that_are_not_ready_in_time_go_back_from_the_last_step_too() -> None:
    subject = of_kind("StatefulSet", rollout(enableExtraWorkloadForCanary=False))
    here = observation(subject, progress(3, UPGRADE), workload=IN_ONE, release=release(2))
    assert step_state_machine.way_of_withdrawal(here) is messages.Withdrawal.PODS_GO_BACK
