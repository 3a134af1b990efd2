"""The end of a release: its order for every reason, what each step waits for, and what never happens."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.observations import WORKLOAD, observation, progress, release, rollout

from kohort.objects.json_types import Json
from kohort.objects.meta import ObjectMeta
from kohort.rollouts import finalizing, messages
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.finalizing import EndReason, FinalizingDecision
from kohort.rollouts.messages import EventReason
from kohort.rollouts.release_actions import (
    Action,
    DeleteRelease,
    GrowToFullCapacity,
    LeaveHeld,
    ReleaseHold,
    ResumeRelease,
)
from kohort.rollouts.release_state import Observation
from kohort.rollouts.rollout_types import BatchRelease
from kohort.rollouts.traffic.actions import RemoveCanaryService, RouteAllToNew, RouteAllToStable, UnpinStableService
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import FinalizingPolicy

IN_PLACE = msgspec.structs.replace(WORKLOAD, extra_workload=False)


def ending(step: str = "", *, ready: int = 4, **more: Json) -> Observation:
    found = progress(3, rollout_labels.COMPLETED, ready_replicas=ready, replicas=4, finalising_step=step)
    return observation(found=found, **more)


def step_of(found: FinalizingDecision) -> str:
    assert found.decision.state.progress is not None
    return found.decision.state.progress.finalising_step


def deleting(found: BatchRelease) -> BatchRelease:
    metadata = ObjectMeta(name="llm", deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(found, metadata=metadata)


# Orders


@pytest.mark.parametrize(
    ("reason", "in_place", "keeps_hold", "steps"),
    [
        (
            EndReason.SUCCESS,
            False,
            False,
            [
                rollout_labels.TO_NEW,
                rollout_labels.RESTORE_STABLE,
                rollout_labels.RESUME,
                rollout_labels.TO_STABLE,
                rollout_labels.REMOVE_CANARY_SERVICE,
                rollout_labels.RELEASE_CONTROL,
            ],
        ),
        (
            EndReason.ROLLBACK,
            False,
            False,
            [
                rollout_labels.TO_STABLE,
                rollout_labels.RESUME,
                rollout_labels.RELEASE_CONTROL,
                rollout_labels.RESTORE_STABLE,
                rollout_labels.REMOVE_CANARY_SERVICE,
            ],
        ),
        (
            EndReason.ROLLBACK,
            True,
            False,
            [
                rollout_labels.TO_STABLE,
                rollout_labels.RESUME,
                rollout_labels.RESTORE_STABLE,
                rollout_labels.REMOVE_CANARY_SERVICE,
                rollout_labels.RELEASE_CONTROL,
            ],
        ),
        (
            EndReason.DISABLED,
            False,
            False,
            [
                rollout_labels.TO_STABLE,
                rollout_labels.RESTORE_STABLE,
                rollout_labels.REMOVE_CANARY_SERVICE,
                rollout_labels.RESUME,
                rollout_labels.RELEASE_CONTROL,
            ],
        ),
        (
            EndReason.DELETED,
            False,
            True,
            [
                rollout_labels.TO_STABLE,
                rollout_labels.RELEASE_CONTROL,
                rollout_labels.RESTORE_STABLE,
                rollout_labels.REMOVE_CANARY_SERVICE,
            ],
        ),
        (
            EndReason.SUPERSEDED,
            False,
            True,
            [rollout_labels.TO_STABLE, rollout_labels.RELEASE_CONTROL, rollout_labels.REMOVE_CANARY_SERVICE],
        ),
    ],
)
def test_the_order_follows_the_reason(reason: EndReason, in_place: bool, keeps_hold: bool, steps: list[str]) -> None:
    workload = IN_PLACE if in_place else WORKLOAD
    assert list(finalizing.order(reason, ending(workload=workload, keeps_hold=keeps_hold))) == steps


@pytest.mark.parametrize("reason", list(EndReason))
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("keeps_hold", [False, True])
def test_the_pin_never_outlives_the_canary_service(reason: EndReason, in_place: bool, keeps_hold: bool) -> None:
    workload = IN_PLACE if in_place else WORKLOAD
    steps = finalizing.order(reason, ending(workload=workload, keeps_hold=keeps_hold))
    assert steps.index(rollout_labels.TO_STABLE) < steps.index(rollout_labels.REMOVE_CANARY_SERVICE)
    if reason is EndReason.SUPERSEDED:  # The next version needs the pin.
        assert rollout_labels.RESTORE_STABLE not in steps
        return
    assert steps.index(rollout_labels.RESTORE_STABLE) < steps.index(rollout_labels.REMOVE_CANARY_SERVICE)


def test_a_rollout_without_progress_has_nothing_to_end() -> None:
    here = ending()
    empty = here.with_state(msgspec.structs.replace(here.state, progress=None))
    assert finalizing.decide(empty, EndReason.DELETED).done


def test_an_end_that_was_reached_is_not_begun_again() -> None:
    assert finalizing.decide(ending(rollout_labels.END), EndReason.SUCCESS).done


def test_a_step_of_another_order_starts_the_order_from_its_beginning() -> None:
    found = finalizing.decide(ending(rollout_labels.TO_NEW), EndReason.ROLLBACK)
    assert (step_of(found), found.decision.action) == (rollout_labels.TO_STABLE, RouteAllToStable())


# Single steps


@pytest.mark.parametrize(
    ("step", "reason", "action"),
    [
        (rollout_labels.TO_NEW, EndReason.SUCCESS, RouteAllToNew()),
        (rollout_labels.TO_STABLE, EndReason.SUCCESS, RouteAllToStable()),
        (rollout_labels.RESTORE_STABLE, EndReason.SUCCESS, UnpinStableService()),
        (rollout_labels.RESTORE_STABLE, EndReason.ROLLBACK, UnpinStableService()),
        (rollout_labels.REMOVE_CANARY_SERVICE, EndReason.DELETED, RemoveCanaryService()),
        (rollout_labels.RESUME, EndReason.ROLLBACK, ReleaseHold()),
    ],
)
def test_what_a_step_does_without_a_release(step: str, reason: EndReason, action: Action) -> None:
    assert finalizing.decide(ending(step), reason).decision.action == action


@pytest.mark.parametrize(
    ("reason", "policy"),
    [
        (EndReason.SUCCESS, rollout_labels.WAIT_RESUME),
        (EndReason.ROLLBACK, rollout_labels.IMMEDIATE),
        (EndReason.DISABLED, rollout_labels.IMMEDIATE),
        (EndReason.DELETED, rollout_labels.IMMEDIATE),
    ],
)
def test_only_a_success_waits_until_the_stable_workload_has_arrived(
    reason: EndReason, policy: FinalizingPolicy
) -> None:
    here = ending(rollout_labels.RESUME, release=release(2))
    assert finalizing.decide(here, reason).decision.action == ResumeRelease(policy)
    asked = release(2, batch_partition=None, finalizing_policy=policy)
    waiting = finalizing.decide(ending(rollout_labels.RESUME, release=asked), reason).decision
    assert (waiting.action, waiting.requeue) == (None, rollout_labels.RECHECK)
    assert waiting.state.message == messages.WAITING_FOR_WORKLOAD_TO_RESUME


def test_a_release_that_is_being_deleted_is_not_written_any_more() -> None:
    here = ending(rollout_labels.RESUME, release=deleting(release(2)))
    assert finalizing.decide(here, EndReason.SUCCESS).decision.action is None


def test_a_release_that_has_completed_is_deleted_next() -> None:
    completed = release(2, phase=rollout_labels.COMPLETED, batch_partition=None)
    found = finalizing.decide(ending(rollout_labels.RESUME, release=completed), EndReason.ROLLBACK)
    assert (step_of(found), found.decision.action) == (rollout_labels.RELEASE_CONTROL, DeleteRelease())


def test_the_hold_that_a_deleted_release_has_left_is_released() -> None:
    left = deleting(release(2, phase=rollout_labels.COMPLETED))
    found = finalizing.decide(ending(rollout_labels.RESUME, release=left), EndReason.DELETED)
    assert (step_of(found), found.decision.action) == (rollout_labels.RESUME, ReleaseHold())


def test_control_is_released_when_the_release_is_gone() -> None:
    going = finalizing.decide(ending(rollout_labels.RELEASE_CONTROL, release=deleting(release(2))), EndReason.SUCCESS)
    assert (going.done, going.decision.action, going.decision.requeue) == (False, None, rollout_labels.RECHECK)
    gone = finalizing.decide(ending(rollout_labels.RELEASE_CONTROL), EndReason.SUCCESS)
    assert gone.done
    assert step_of(gone) == rollout_labels.END


def test_a_hold_that_is_kept_is_left_on_after_the_release_is_gone() -> None:
    found = finalizing.decide(ending(rollout_labels.RELEASE_CONTROL, keeps_hold=True), EndReason.DELETED)
    assert found.decision.action == LeaveHeld()
    after = finalizing.decide_after(
        ending(rollout_labels.RELEASE_CONTROL, keeps_hold=True), EndReason.DELETED, LeaveHeld(), DONE
    )
    assert (step_of(after), after.decision.action) == (rollout_labels.RESTORE_STABLE, UnpinStableService())


def test_a_rollback_unpins_when_the_last_pod_of_the_canary_is_gone() -> None:
    waiting = finalizing.decide(ending(rollout_labels.RESTORE_STABLE, canary_gone=False), EndReason.ROLLBACK)
    assert (waiting.decision.action, waiting.decision.state.message) == (None, messages.WAITING_FOR_CANARY_PODS_TO_GO)
    other = finalizing.decide(ending(rollout_labels.RESTORE_STABLE, canary_gone=False), EndReason.DISABLED)
    assert other.decision.action == UnpinStableService()


# All traffic to the new version


@pytest.mark.parametrize("ready", [0, 1, 3])
def test_a_canary_below_full_size_keeps_its_split(ready: int) -> None:
    found = finalizing.decide(ending(ready=ready, release=release(2)), EndReason.SUCCESS)
    assert found.decision.action == UnpinStableService()


def test_a_canary_at_full_size_gets_everything() -> None:
    assert finalizing.decide(ending(release=release(2)), EndReason.SUCCESS).decision.action == RouteAllToNew()


def test_both_versions_in_one_deployment_are_routed_whatever_is_ready() -> None:
    here = ending(ready=0, workload=IN_PLACE, subject=rollout(blue_green=True))
    assert finalizing.decide(here, EndReason.SUCCESS).decision.action == RouteAllToNew()


def test_blue_green_grows_to_full_size_first_and_says_what_it_waits_for() -> None:
    grown = msgspec.structs.replace(
        release(2), metadata=ObjectMeta(name="llm", annotations={rollout_labels.FULL_CAPACITY: "true"})
    )
    grown = msgspec.structs.replace(grown, status=msgspec.structs.replace(grown.status, message="2/4 groups ready"))
    here = ending(ready=2, subject=rollout(blue_green=True), release=release(2))
    assert finalizing.decide(here, EndReason.SUCCESS).decision.action == GrowToFullCapacity()
    later = finalizing.decide(msgspec.structs.replace(here, release=grown), EndReason.SUCCESS).decision
    assert (later.action, later.state.message) == (None, "new version grows to full size: 2/4 groups ready")
    lost = finalizing.decide(msgspec.structs.replace(here, release=None), EndReason.SUCCESS).decision
    assert lost.state.message == "new version grows to full size: the BatchRelease is gone"


# Results


def test_a_problem_is_shown_and_tried_again() -> None:
    here = ending(rollout_labels.TO_STABLE)
    found = finalizing.decide_after(here, EndReason.ROLLBACK, RouteAllToStable(), Problem("no Ingress"))
    assert (found.done, found.decision.state.message) == (False, "no Ingress")
    assert found.decision.requeue == rollout_labels.RECHECK
    assert [event.reason for event in found.decision.events] == [EventReason.FINALISING_FAILED]
    assert step_of(found) == rollout_labels.TO_STABLE


def test_a_grace_period_is_stored_and_waited_for() -> None:
    here = ending(rollout_labels.TO_STABLE)
    result = Waiting("waiting for proxies", 2.5, grace_times={"restoreRoutes": "2026-01-01T12:00:00Z"})
    found = finalizing.decide_after(here, EndReason.ROLLBACK, RouteAllToStable(), result)
    assert found.decision.requeue == 2.5
    assert found.decision.state.message == "waiting for proxies"
    assert found.decision.state.progress is not None
    assert found.decision.state.progress.grace_times == {"restoreRoutes": "2026-01-01T12:00:00Z"}


def test_a_result_without_grace_times_leaves_them_as_they_are() -> None:
    found = progress(3, finalising_step=rollout_labels.TO_STABLE, grace_times={"pin": "x"})
    after = finalizing.decide_after(observation(found=found), EndReason.ROLLBACK, RouteAllToStable(), Waiting("x"))
    assert after.decision.state.progress is not None
    assert after.decision.state.progress.grace_times == {"pin": "x"}


@pytest.mark.parametrize("action", [ResumeRelease(rollout_labels.IMMEDIATE), GrowToFullCapacity(), DeleteRelease()])
def test_a_written_release_is_looked_at_again_later(action: Action) -> None:
    here = ending(rollout_labels.RESUME, release=release(2))
    found = finalizing.decide_after(here, EndReason.ROLLBACK, action, Done(changed=True))
    assert (found.done, found.decision.requeue, step_of(found)) == (False, 3.0, rollout_labels.RESUME)


def test_before_another_version_every_step_is_stored_with_the_time_of_the_release() -> None:
    here = ending(rollout_labels.RELEASE_CONTROL, after=60.0)
    found = finalizing.decide(here, EndReason.SUPERSEDED)
    assert (found.done, found.decision.action, found.decision.requeue) == (False, None, 0.0)
    assert step_of(found) == rollout_labels.REMOVE_CANARY_SERVICE
    assert found.decision.state.progress is not None
    assert found.decision.state.progress.last_update_time == here.progress.last_update_time


@pytest.mark.parametrize(
    ("reason", "result", "done", "message"),
    [
        (EndReason.SUPERSEDED, Waiting("deleted", 3.0, changed=True), True, ""),
        (EndReason.SUPERSEDED, Waiting("not yet", 3.0), False, ""),
        (EndReason.ROLLBACK, Waiting("deleted", 3.0, changed=True), False, "deleted"),
    ],
)
def test_only_before_another_version_the_canary_service_needs_no_grace_period(
    reason: EndReason, result: ActionResult, done: bool, message: str
) -> None:
    here = ending(rollout_labels.REMOVE_CANARY_SERVICE)
    found = finalizing.decide_after(here, reason, RemoveCanaryService(), result)
    assert (found.done, found.decision.state.message) == (done, message)


@pytest.mark.parametrize(("after", "stalled"), [(0, False), (599, False), (600, True), (9999, True)])
def test_a_promotion_that_takes_ten_minutes_is_reported(after: float, stalled: bool) -> None:
    asked = release(2, batch_partition=None, finalizing_policy=rollout_labels.WAIT_RESUME)
    found = finalizing.decide(ending(rollout_labels.RESUME, release=asked, after=after), EndReason.SUCCESS)
    reasons = [event.reason for event in found.decision.events]
    assert reasons == ([EventReason.PROMOTION_STALLED] if stalled else [])


RESULTS: list[ActionResult] = [DONE, Done(changed=True), Waiting("x", 1.0), Problem("broken")]


@given(
    reason=st.sampled_from(EndReason),
    in_place=st.booleans(),
    keeps_hold=st.booleans(),
    ready=st.integers(0, 4),
    results=st.lists(st.sampled_from(RESULTS), min_size=1, max_size=40),
)
def test_an_end_goes_through_its_order_without_leaving_a_step_out(
    reason: EndReason, in_place: bool, keeps_hold: bool, ready: int, results: list[ActionResult]
) -> None:
    """Whatever the cluster answers: steps only follow each other, and only a result that is done leads on."""
    here = ending(ready=ready, workload=IN_PLACE if in_place else WORKLOAD, keeps_hold=keeps_hold)
    steps = [*finalizing.order(reason, here), rollout_labels.END]
    place = 0
    found = finalizing.decide(here, reason)
    for result in results:
        if found.done:
            break
        here = here.with_state(found.decision.state)
        assert steps.index(here.progress.finalising_step) >= place
        place = steps.index(here.progress.finalising_step)
        if found.decision.action is None:
            found = finalizing.decide(here, reason)
            continue
        found = finalizing.decide_after(here, reason, found.decision.action, result)
        if not isinstance(result, Done):
            assert step_of(found) == here.progress.finalising_step
    if found.done:
        assert step_of(found) == rollout_labels.END
