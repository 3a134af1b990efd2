"""The transition tables of Rollouts: one line, one case."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.observations import THREE, WORKLOAD, observation, progress, release, rollout

from kohort.rollouts import finalizing, release_state_machine, rollout_phases, step_state_machine
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.finalizing import EndReason
from kohort.rollouts.release_actions import Action, DeleteRelease, GrowToFullCapacity, ReleaseHold, WriteRelease
from kohort.rollouts.release_state import ReleaseDecision
from kohort.rollouts.rollout_types import (
    Batch,
    BatchRelease,
    ReleasePlan,
    ReleaseProgress,
    ReleaseSpec,
    Rollout,
)
from kohort.rollouts.traffic.actions import (
    CheckReferences,
    PinStableService,
    RemoveCanaryService,
    RouteAllToNew,
    RouteAllToStable,
    RouteStep,
    UnpinStableService,
)
from kohort.rollouts.workloads.model import ReleasedWorkload
from kohort.rules import rollout_labels


def state_of(decision: ReleaseDecision) -> str:
    assert decision.state.progress is not None
    return decision.state.progress.current_step_state


WAIT = Waiting(seconds=2.0)
RESTORE = [RouteAllToStable, UnpinStableService, RemoveCanaryService]


@pytest.mark.parametrize(
    ("before", "action"),
    [
        (progress(1, rollout_labels.BEFORE_UPGRADE), PinStableService),
        (progress(1, rollout_labels.UPGRADE), WriteRelease),
        (progress(1, rollout_labels.ROUTING), RouteStep),
        (progress(1, rollout_labels.PAUSED), None),
    ],
)
def test_what_a_state_does(before: ReleaseProgress, action: type[Action] | None) -> None:
    decision = step_state_machine.decide(observation(found=before))
    assert (type(decision.action) if decision.action else None) == action


@pytest.mark.parametrize(
    ("before", "found", "after", "expected"),
    [
        (progress(2, rollout_labels.BEFORE_UPGRADE), None, 0, rollout_labels.UPGRADE),
        (progress(1, rollout_labels.UPGRADE), release(0), 0, rollout_labels.ROUTING),
        (progress(1, rollout_labels.UPGRADE), release(0, rollout_labels.VERIFYING), 0, rollout_labels.UPGRADE),
        (progress(1, rollout_labels.ANALYSIS), release(0), 0, rollout_labels.PAUSED),
        (progress(1, rollout_labels.PAUSED), release(0), 9999, rollout_labels.PAUSED),
        (progress(2, rollout_labels.PAUSED), release(1), 59, rollout_labels.PAUSED),
        (progress(2, rollout_labels.PAUSED), release(1), 60, rollout_labels.READY),
        (progress(3, rollout_labels.PAUSED), release(2), 0, rollout_labels.READY),
        (progress(2, rollout_labels.READY), release(1), 0, rollout_labels.BEFORE_UPGRADE),
        (progress(3, rollout_labels.READY), release(2), 0, rollout_labels.COMPLETED),
    ],
)
def test_where_a_state_leads(before: ReleaseProgress, found: BatchRelease | None, after: float, expected: str) -> None:
    assert state_of(step_state_machine.decide(observation(found=before, release=found, after=after))) == expected


@pytest.mark.parametrize(
    ("state", "action", "result", "expected"),
    [
        (rollout_labels.BEFORE_UPGRADE, PinStableService(), WAIT, rollout_labels.BEFORE_UPGRADE),
        (rollout_labels.BEFORE_UPGRADE, PinStableService(), DONE, rollout_labels.UPGRADE),
        (rollout_labels.ROUTING, RouteStep(), WAIT, rollout_labels.ROUTING),
        (rollout_labels.ROUTING, RouteStep(), Problem("no Ingress"), rollout_labels.ROUTING),
        (rollout_labels.ROUTING, RouteStep(), DONE, rollout_labels.ANALYSIS),
    ],
)
def test_what_an_answer_means(state: str, action: Action, result: ActionResult, expected: str) -> None:
    decision = step_state_machine.decide_after(observation(found=progress(1, state)), action, result)
    assert state_of(decision) == expected
    if isinstance(result, Problem):
        assert decision.state.message == "no Ingress"
        assert any(event.warning for event in decision.events)


def test_the_last_step_of_blue_green_waits_for_a_person() -> None:
    decision = step_state_machine.decide(
        observation(rollout(blue_green=True), progress(3, rollout_labels.PAUSED), release=release(2))
    )
    assert state_of(decision) == rollout_labels.PAUSED
    assert decision.state.message == "Rollout is in step(3/3), and you need manually confirm to enter the next step"


def test_routes_that_others_changed_are_set_again() -> None:
    decision = step_state_machine.decide(
        observation(found=progress(1, rollout_labels.PAUSED), release=release(), drift="create Ingress llm-canary")
    )
    assert state_of(decision) == rollout_labels.ROUTING
    assert [event.reason for event in decision.events] == ["RoutesChanged"]


@pytest.mark.parametrize(
    ("here", "asked", "step", "state", "following"),
    [
        (2, 1, 1, rollout_labels.ROUTING, 2),  # one replica is what step 1 wants: only traffic changes
        (1, 3, 3, rollout_labels.BEFORE_UPGRADE, -1),
        (2, 3, 2, rollout_labels.PAUSED, 3),  # the regular next step is no jump
        (2, 0, 2, rollout_labels.PAUSED, 3),
        (2, 7, 2, rollout_labels.PAUSED, 3),
    ],
)
def test_jumps(here: int, asked: int, step: int, state: str, following: int) -> None:
    at = progress(here, rollout_labels.PAUSED, next_step_index=asked)
    late = rollout(steps=[{**one, "pause": {}} for one in THREE])
    decision = step_state_machine.decide(observation(late, at, release=release(here - 1)))
    assert decision.state.progress is not None
    found = decision.state.progress
    assert (found.current_step_index, found.current_step_state, found.next_step_index) == (step, state, following)


def test_a_step_that_routes_nothing_gives_back_what_was_routed() -> None:
    plan = rollout(steps=[{"replicas": 1, "traffic": "20%"}, {"replicas": 2}])
    here = observation(plan, progress(2, rollout_labels.BEFORE_UPGRADE, next_step_index=-1))
    decision, actions = step_state_machine.decide(here), list[type[Action]]()
    while decision.action is not None:
        actions.append(type(decision.action))
        decision = step_state_machine.decide_after(here.with_state(decision.state), decision.action, DONE)
    assert actions == [UnpinStableService, RouteAllToStable, RemoveCanaryService]
    assert state_of(decision) == rollout_labels.UPGRADE


ROLLED_BACK = msgspec.structs.replace(WORKLOAD, canary_revision="v1", in_rollback=True)
THIRD = msgspec.structs.replace(WORKLOAD, canary_revision="v3")


@pytest.mark.parametrize(
    ("reason", "paused", "workload", "expected"),
    [
        (rollout_labels.IN_ROLLING, False, ROLLED_BACK, rollout_labels.CANCELLING),
        (rollout_labels.IN_ROLLING, True, ROLLED_BACK, rollout_labels.CANCELLING),
        (rollout_labels.IN_ROLLING, True, WORKLOAD, rollout_labels.REASON_PAUSED),
        (rollout_labels.REASON_PAUSED, True, WORKLOAD, rollout_labels.REASON_PAUSED),
        (rollout_labels.REASON_PAUSED, True, ROLLED_BACK, rollout_labels.CANCELLING),
        (rollout_labels.REASON_PAUSED, False, WORKLOAD, rollout_labels.IN_ROLLING),
        (rollout_labels.FINALISING, False, ROLLED_BACK, rollout_labels.CANCELLING),
        (rollout_labels.FINALISING, False, THIRD, rollout_labels.IN_ROLLING),
    ],
)
def test_reasons(reason: str, paused: bool, workload: ReleasedWorkload, expected: str) -> None:
    here = observation(rollout(paused=paused), reason=reason, workload=workload, release=release(0))
    assert release_state_machine.decide(here).state.reason == expected


def test_a_third_version_takes_traffic_off_first_and_the_service_last() -> None:
    here = observation(workload=THIRD, release=release(0))
    seen: list[type[Action]] = []
    for _ in range(12):
        decision = release_state_machine.decide(here)
        if decision.action is not None:
            seen.append(type(decision.action))
            gone = isinstance(decision.action, DeleteRelease)
            decision = release_state_machine.decide_after(here.with_state(decision.state), decision.action, DONE)
            here = msgspec.structs.replace(here, release=None if gone else here.release)
        here = here.with_state(decision.state)
        if here.state.reason == rollout_labels.INITIALIZING:
            break
    assert seen == [RouteAllToStable, DeleteRelease, RemoveCanaryService]
    assert here.state.message == "Workload is continuous release"
    assert here.progress.revision == "v3"


def test_a_third_version_inside_one_deployment_is_refused() -> None:
    inside = msgspec.structs.replace(THIRD, extra_workload=False)
    decision = release_state_machine.decide(observation(rollout(blue_green=True), workload=inside, release=release(0)))
    assert decision.action is None
    assert decision.state.message == (
        "new version releasing detected in the progress of blue-green release, please rollback first"
    )


@pytest.mark.parametrize(
    ("reason", "actions"),
    [
        (EndReason.SUCCESS, [RouteAllToNew, UnpinStableService, RouteAllToStable, RemoveCanaryService]),
        (EndReason.ROLLBACK, RESTORE),
        (EndReason.DISABLED, RESTORE),
        (EndReason.DELETED, RESTORE),
    ],
)
def test_orders_of_the_end(reason: EndReason, actions: list[type[Action]]) -> None:
    """With the BatchRelease gone, the hold is released where resuming stands in the order."""
    here = observation(found=progress(3, rollout_labels.COMPLETED, ready_replicas=4, replicas=4))
    found = finalizing.decide(here, reason)
    seen: list[type[Action]] = []
    for _ in range(20):
        if found.decision.action is None:
            break
        seen.append(type(found.decision.action))
        found = finalizing.decide_after(here.with_state(found.decision.state), reason, found.decision.action, DONE)
    assert found.done
    assert [one for one in seen if one is not ReleaseHold] == actions
    before = UnpinStableService if reason is EndReason.SUCCESS else RouteAllToStable
    assert seen.index(ReleaseHold) > seen.index(before)


def test_a_canary_that_cannot_carry_everything_keeps_its_split() -> None:
    here = observation(found=progress(3, rollout_labels.COMPLETED, ready_replicas=2, replicas=2), release=release(2))
    found = finalizing.decide(here, EndReason.SUCCESS)
    assert found.decision.action == UnpinStableService()


def test_blue_green_fills_up_first() -> None:
    here = observation(
        rollout(blue_green=True), progress(3, rollout_labels.COMPLETED, ready_replicas=2), release=release(2)
    )
    found = finalizing.decide(here, EndReason.SUCCESS)
    assert found.decision.action == GrowToFullCapacity()


def test_a_changed_object_is_stored_before_the_next_step() -> None:
    here = observation(found=progress(3, rollout_labels.COMPLETED, ready_replicas=4))
    first = finalizing.decide(here, EndReason.SUCCESS)
    assert first.decision.action is not None
    after = finalizing.decide_after(
        here.with_state(first.decision.state), EndReason.SUCCESS, first.decision.action, Done(changed=True)
    )
    assert after.decision.action is None
    assert after.decision.state.progress is not None
    assert after.decision.state.progress.finalising_step == rollout_labels.RESTORE_STABLE


@pytest.mark.parametrize(
    ("phase", "subject", "workload", "expected"),
    [
        ("", rollout(), None, rollout_labels.INITIAL),
        ("", rollout(), WORKLOAD, rollout_labels.HEALTHY),
        (
            rollout_labels.INITIAL,
            rollout(),
            msgspec.structs.replace(WORKLOAD, has_webhook_label=False),
            rollout_labels.INITIAL,
        ),
        (rollout_labels.INITIAL, rollout(), WORKLOAD, rollout_labels.HEALTHY),
        (rollout_labels.HEALTHY, rollout(), WORKLOAD, rollout_labels.PROGRESSING),
        (
            rollout_labels.HEALTHY,
            rollout(),
            msgspec.structs.replace(WORKLOAD, in_progress=False),
            rollout_labels.HEALTHY,
        ),
        (rollout_labels.HEALTHY, rollout(), None, rollout_labels.INITIAL),
        (rollout_labels.PROGRESSING, rollout(disabled=True), WORKLOAD, rollout_labels.DISABLING),
        (
            rollout_labels.HEALTHY,
            rollout(disabled=True),
            msgspec.structs.replace(WORKLOAD, in_progress=False),
            rollout_labels.DISABLED,
        ),
        (rollout_labels.HEALTHY, rollout(disabled=True), WORKLOAD, rollout_labels.DISABLING),
        (rollout_labels.DISABLED, rollout(disabled=True), WORKLOAD, rollout_labels.DISABLED),
        (rollout_labels.DISABLED, rollout(), WORKLOAD, rollout_labels.HEALTHY),
        (rollout_labels.PROGRESSING, rollout(), None, rollout_labels.PROGRESSING),
    ],
)
def test_phases(phase: str, subject: Rollout, workload: ReleasedWorkload | None, expected: str) -> None:
    here = observation(
        subject,
        phase=phase,
        workload=workload,
        reason=rollout_labels.IN_ROLLING if phase == rollout_labels.PROGRESSING else "",
    )
    assert rollout_phases.next_phase(here).state.phase == expected


def test_a_workload_whose_controller_is_behind_changes_nothing() -> None:
    behind = msgspec.structs.replace(WORKLOAD, consistent=False)
    decision = rollout_phases.decide(observation(workload=behind))
    assert (decision.action, decision.requeue, decision.state) == (None, 3.0, observation().state)


def test_initializing_waits_three_seconds_and_checks_first() -> None:
    here = observation(reason=rollout_labels.INITIALIZING, after=1)
    decision = release_state_machine.decide(here)
    assert decision.action == CheckReferences()
    early = release_state_machine.decide_after(here.with_state(decision.state), CheckReferences(), DONE)
    assert (early.state.reason, early.requeue) == (rollout_labels.INITIALIZING, 2.0)
    late = release_state_machine.decide_after(
        observation(reason=rollout_labels.INITIALIZING, after=3), CheckReferences(), DONE
    )
    assert late.state.reason == rollout_labels.IN_ROLLING
    missing = Problem("Service svc does not exist: create it")
    failed = release_state_machine.decide_after(here.with_state(decision.state), CheckReferences(), missing)
    assert failed.state.message == missing.text
    assert [event.reason for event in failed.events] == ["InitializeFailed"]


def test_a_plan_that_changes_goes_on_at_the_step_that_fits() -> None:
    plan = ReleasePlan(batches=(Batch(1), Batch("50%"), Batch("100%")), batch_partition=1)
    running = msgspec.structs.replace(release(1), spec=ReleaseSpec(release_plan=plan))
    grown = rollout(steps=[{"replicas": 3}, {"replicas": 3}, {"replicas": "100%"}])
    here = msgspec.structs.replace(observation(grown, progress(2), release=running), plan_hash="other")
    assert release_state_machine.fitting_step(here) == 2
    decision = release_state_machine.decide(here)
    assert decision.state.progress is not None
    assert (decision.state.progress.current_step_index, decision.state.progress.rollout_hash) == (2, "other")


@given(
    step=st.integers(1, 3),
    state=st.sampled_from(
        [
            rollout_labels.BEFORE_UPGRADE,
            rollout_labels.UPGRADE,
            rollout_labels.ROUTING,
            rollout_labels.ANALYSIS,
            rollout_labels.PAUSED,
            rollout_labels.READY,
        ]
    ),
    results=st.lists(st.sampled_from([DONE, Waiting(seconds=1.0), Problem("broken")]), max_size=8),
    blue_green=st.booleans(),
    after=st.integers(0, 100),
)
def test_no_step_is_ever_skipped_or_taken_twice(
    step: int, state: str, results: list[ActionResult], blue_green: bool, after: int
) -> None:
    """Whatever traffic answers, the index moves by one at most, and only out of StepReady."""
    here = observation(rollout(blue_green=blue_green), progress(step, state), release=release(step - 1), after=after)
    decision = step_state_machine.decide(here)
    for result in results:
        if decision.action is None:
            break
        decision = step_state_machine.decide_after(here.with_state(decision.state), decision.action, result)
    found = decision.state.progress
    assert found is not None
    moved = found.current_step_index - step
    assert moved == (1 if state == rollout_labels.READY and step < 3 else 0)
    assert found.next_step_index == (found.current_step_index + 1 if found.current_step_index < 3 else -1)
