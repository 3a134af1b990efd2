"""The transition tables of Rollouts: one line, one case."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.clock import format_time
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import Condition, ObjectMeta
from kohort.rollouts import finalizing, release_state_machine, rollout_phases, step_state_machine
from kohort.rollouts.release_state import Act, Move, State, World
from kohort.rollouts.rollout_types import (
    Batch,
    BatchRelease,
    Progress,
    ReleaseCanaryStatus,
    ReleasePlan,
    ReleaseSpec,
    ReleaseStatus,
    Rollout,
)
from kohort.rollouts.traffic.model import Answer
from kohort.rollouts.workloads.model import Workload
from kohort.rules import rollout_labels

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
ROUTED = [{"service": "svc", "ingress": {"name": "ing"}}]
THREE: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%"},
    {"replicas": "50%", "traffic": "50%", "pause": {"duration": 60}},
    {"replicas": "100%", "traffic": "100%"},
]


def rollout(*, blue_green: bool = False, paused: bool = False, disabled: bool = False, **more: Json) -> Rollout:
    strategy = {"steps": THREE, "trafficRoutings": ROUTED, "enableExtraWorkloadForCanary": not blue_green, **more}
    document: JsonObject = {
        "metadata": {"name": "llm", "namespace": "default", "uid": "uid", "generation": 1},
        "spec": {
            "workloadRef": {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "llm"},
            "disabled": disabled,
            "strategy": {"paused": paused, "blueGreen" if blue_green else "canary": strategy},
        },
    }
    return msgspec.convert(document, Rollout)


WORKLOAD = Workload(
    name="llm",
    generation=2,
    revision_key=rollout_labels.GROUP_REVISION,
    replicas=4,
    in_progress=True,
    stable_revision="aaa",
    canary_revision="v2",
    pod_template_hash="bbb",
    canary_name="llm-x",
)


def progress(step: int = 1, state: str = rollout_labels.PAUSED, **more: Json) -> Progress:
    known: JsonObject = {
        "revision": "v2",
        "revision_key": rollout_labels.GROUP_REVISION,
        "rollout_hash": "hash",
        "stable_revision": "aaa",
        "pod_template_hash": "bbb",
        "canary_name": "llm-x",
        "current_step_index": step,
        "next_step_index": step + 1 if step < 3 else -1,
        "current_step_state": state,
        "last_update_time": format_time(NOW),
        **more,
    }
    return Progress(**known)


def world(
    subject: Rollout | None = None,
    found: Progress | None = None,
    *,
    reason: str = rollout_labels.IN_ROLLING,
    phase: str = rollout_labels.PROGRESSING,
    workload: Workload | None = WORKLOAD,
    release: BatchRelease | None = None,
    after: float = 0.0,
    **more: Json,
) -> World:
    condition = Condition(
        type=rollout_labels.PROGRESSING, status="True", reason=reason, last_update_time=format_time(NOW)
    )
    state = State(phase, "", (condition,) if reason else (), found or progress())
    return World(
        rollout=subject or rollout(),
        state=state,
        now=NOW + timedelta(seconds=after),
        workload=workload,
        release=release,
        release_hash="plan",
        plan_hash="hash",
        **more,
    )


def release(
    batch: int = 0, state: str = rollout_labels.BATCH_READY, *, phase: str = rollout_labels.PROGRESSING, **more: Json
) -> BatchRelease:
    base = world()
    plan = msgspec.structs.replace(step_state_machine.wanted_plan(base, batch), **more)
    status = ReleaseStatus(
        phase=phase,
        observed_release_plan_hash="plan",
        canary_status=ReleaseCanaryStatus(batch_state=state, current_batch=batch, updated_replicas=1),
    )
    return BatchRelease(ObjectMeta(name="llm"), ReleaseSpec(release_plan=plan), status)


def state_of(move: Move) -> str:
    assert move.state.progress is not None
    return move.state.progress.current_step_state


DONE = Answer("done")
WAIT = Answer("wait", seconds=2.0)


@pytest.mark.parametrize(
    ("before", "act"),
    [
        (progress(1, rollout_labels.BEFORE_UPGRADE), "pin_stable"),
        (progress(1, rollout_labels.UPGRADE), "write_release"),
        (progress(1, rollout_labels.ROUTING), "route"),
        (progress(1, rollout_labels.PAUSED), None),
    ],
)
def test_what_a_state_does(before: Progress, act: str | None) -> None:
    move = step_state_machine.decide(world(found=before))
    assert (move.act.kind if move.act else None) == act


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
def test_where_a_state_leads(before: Progress, found: BatchRelease | None, after: float, expected: str) -> None:
    assert state_of(step_state_machine.decide(world(found=before, release=found, after=after))) == expected


@pytest.mark.parametrize(
    ("state", "act", "answer", "expected"),
    [
        (rollout_labels.BEFORE_UPGRADE, "pin_stable", WAIT, rollout_labels.BEFORE_UPGRADE),
        (rollout_labels.BEFORE_UPGRADE, "pin_stable", DONE, rollout_labels.UPGRADE),
        (rollout_labels.ROUTING, "route", WAIT, rollout_labels.ROUTING),
        (rollout_labels.ROUTING, "route", Answer("problem", text="no Ingress"), rollout_labels.ROUTING),
        (rollout_labels.ROUTING, "route", DONE, rollout_labels.ANALYSIS),
    ],
)
def test_what_an_answer_means(state: str, act: str, answer: Answer, expected: str) -> None:
    move = step_state_machine.answered(world(found=progress(1, state)), msgspec.convert({"kind": act}, Act), answer)
    assert state_of(move) == expected
    if answer.state == "problem":
        assert move.state.message == "no Ingress"
        assert any(note.warning for note in move.notes)


def test_the_last_step_of_blue_green_waits_for_a_person() -> None:
    move = step_state_machine.decide(
        world(rollout(blue_green=True), progress(3, rollout_labels.PAUSED), release=release(2))
    )
    assert state_of(move) == rollout_labels.PAUSED
    assert move.state.message == "Rollout is in step(3/3), and you need manually confirm to enter the next step"


def test_routes_that_others_changed_are_set_again() -> None:
    move = step_state_machine.decide(
        world(found=progress(1, rollout_labels.PAUSED), release=release(), astray="create Ingress llm-canary")
    )
    assert state_of(move) == rollout_labels.ROUTING
    assert [note.reason for note in move.notes] == ["RoutesChanged"]


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
    move = step_state_machine.decide(world(late, at, release=release(here - 1)))
    assert move.state.progress is not None
    found = move.state.progress
    assert (found.current_step_index, found.current_step_state, found.next_step_index) == (step, state, following)


def test_a_step_that_routes_nothing_gives_back_what_was_routed() -> None:
    plan = rollout(steps=[{"replicas": 1, "traffic": "20%"}, {"replicas": 2}])
    here = world(plan, progress(2, rollout_labels.BEFORE_UPGRADE, next_step_index=-1))
    move, acts = step_state_machine.decide(here), []
    while move.act is not None:
        acts.append(move.act.kind)
        move = step_state_machine.answered(here.at(move.state), move.act, DONE)
    assert acts == ["restore_stable", "route_all_to_stable", "remove_canary_service"]
    assert state_of(move) == rollout_labels.UPGRADE


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
def test_reasons(reason: str, paused: bool, workload: Workload, expected: str) -> None:
    here = world(rollout(paused=paused), reason=reason, workload=workload, release=release(0))
    assert release_state_machine.decide(here).state.reason == expected


def test_a_third_version_takes_traffic_off_first_and_the_service_last() -> None:
    here = world(workload=THIRD, release=release(0))
    seen: list[str] = []
    for _ in range(12):
        move = release_state_machine.decide(here)
        if move.act is not None:
            seen.append(move.act.kind)
            gone = move.act.kind == "delete_release"
            move = release_state_machine.answered(here.at(move.state), move.act, DONE)
            here = msgspec.structs.replace(here, release=None if gone else here.release)
        here = here.at(move.state)
        if here.state.reason == rollout_labels.INITIALIZING:
            break
    assert seen == ["route_all_to_stable", "delete_release", "remove_canary_service"]
    assert here.state.message == "Workload is continuous release"
    assert here.progress.revision == "v3"


def test_a_third_version_inside_one_deployment_is_refused() -> None:
    inside = msgspec.structs.replace(THIRD, extra_workload=False)
    move = release_state_machine.decide(world(rollout(blue_green=True), workload=inside, release=release(0)))
    assert move.act is None
    assert move.state.message == (
        "new version releasing detected in the progress of blue-green release, please rollback first"
    )


TO_NEW, TO_STABLE = "route_all_to_new", "route_all_to_stable"


@pytest.mark.parametrize(
    ("reason", "acts"),
    [
        ("Success", [TO_NEW, "restore_stable", TO_STABLE, "remove_canary_service"]),
        ("Rollback", [TO_STABLE, "restore_stable", "remove_canary_service"]),
        ("RolloutDisabled", [TO_STABLE, "restore_stable", "remove_canary_service"]),
        ("RolloutDeleting", [TO_STABLE, "restore_stable", "remove_canary_service"]),
    ],
)
def test_orders_of_the_end(reason: finalizing.Reason, acts: list[str]) -> None:
    """With the BatchRelease gone, unholding happens where resuming stands in the order."""
    here = world(found=progress(3, rollout_labels.COMPLETED, ready_replicas=4, replicas=4))
    found = finalizing.decide(here, reason)
    seen: list[str] = []
    for _ in range(20):
        if found.move.act is None:
            break
        seen.append(found.move.act.kind)
        found = finalizing.answered(here.at(found.move.state), reason, found.move.act, DONE)
    assert found.done
    assert [one for one in seen if one != "unhold"] == acts
    assert "unhold" in seen
    assert seen.index("unhold") > seen.index(TO_STABLE if reason != "Success" else "restore_stable")


def test_a_canary_that_cannot_carry_everything_keeps_its_split() -> None:
    here = world(found=progress(3, rollout_labels.COMPLETED, ready_replicas=2, replicas=2), release=release(2))
    found = finalizing.decide(here, "Success")
    assert found.move.act is not None
    assert found.move.act.kind == "restore_stable"


def test_blue_green_fills_up_first() -> None:
    here = world(rollout(blue_green=True), progress(3, rollout_labels.COMPLETED, ready_replicas=2), release=release(2))
    found = finalizing.decide(here, "Success")
    assert found.move.act is not None
    assert found.move.act.kind == "fill_release"


def test_a_changed_object_is_stored_before_the_next_step() -> None:
    here = world(found=progress(3, rollout_labels.COMPLETED, ready_replicas=4))
    first = finalizing.decide(here, "Success")
    assert first.move.act is not None
    after = finalizing.answered(here.at(first.move.state), "Success", first.move.act, Answer("done", changed=True))
    assert after.move.act is None
    assert after.move.state.progress is not None
    assert after.move.state.progress.finalising_step == rollout_labels.RESTORE_STABLE


@pytest.mark.parametrize(
    ("phase", "subject", "workload", "expected"),
    [
        ("", rollout(), None, rollout_labels.INITIAL),
        ("", rollout(), WORKLOAD, rollout_labels.HEALTHY),
        (rollout_labels.INITIAL, rollout(), msgspec.structs.replace(WORKLOAD, guarded=False), rollout_labels.INITIAL),
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
def test_phases(phase: str, subject: Rollout, workload: Workload | None, expected: str) -> None:
    here = world(
        subject,
        phase=phase,
        workload=workload,
        reason=rollout_labels.IN_ROLLING if phase == rollout_labels.PROGRESSING else "",
    )
    assert rollout_phases.next_phase(here).state.phase == expected


def test_a_workload_whose_controller_is_behind_changes_nothing() -> None:
    behind = msgspec.structs.replace(WORKLOAD, consistent=False)
    move = rollout_phases.decide(world(workload=behind))
    assert (move.act, move.requeue, move.state) == (None, 3.0, world().state)


def test_initializing_waits_three_seconds_and_checks_first() -> None:
    here = world(reason=rollout_labels.INITIALIZING, after=1)
    move = release_state_machine.decide(here)
    assert move.act == Act("check")
    early = release_state_machine.answered(here.at(move.state), Act("check"), DONE)
    assert (early.state.reason, early.requeue) == (rollout_labels.INITIALIZING, 2.0)
    late = release_state_machine.answered(world(reason=rollout_labels.INITIALIZING, after=3), Act("check"), DONE)
    assert late.state.reason == rollout_labels.IN_ROLLING
    missing = Answer("problem", text="Service svc does not exist: create it")
    failed = release_state_machine.answered(here.at(move.state), Act("check"), missing)
    assert failed.state.message == missing.text
    assert [note.reason for note in failed.notes] == ["InitializeFailed"]


def test_a_plan_that_changes_goes_on_at_the_step_that_fits() -> None:
    plan = ReleasePlan(batches=(Batch(1), Batch("50%"), Batch("100%")), batch_partition=1)
    running = msgspec.structs.replace(release(1), spec=ReleaseSpec(release_plan=plan))
    grown = rollout(steps=[{"replicas": 3}, {"replicas": 3}, {"replicas": "100%"}])
    here = msgspec.structs.replace(world(grown, progress(2), release=running), plan_hash="other")
    assert release_state_machine.fitting_step(here) == 2
    move = release_state_machine.decide(here)
    assert move.state.progress is not None
    assert (move.state.progress.current_step_index, move.state.progress.rollout_hash) == (2, "other")


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
    answers=st.lists(st.sampled_from(["done", "wait", "problem"]), max_size=8),
    blue_green=st.booleans(),
    after=st.integers(0, 100),
)
def test_no_step_is_ever_skipped_or_taken_twice(
    step: int, state: str, answers: list[str], blue_green: bool, after: int
) -> None:
    """Whatever traffic answers, the index moves by one at most, and only out of StepReady."""
    here = world(rollout(blue_green=blue_green), progress(step, state), release=release(step - 1), after=after)
    move = step_state_machine.decide(here)
    for text in answers:
        if move.act is None:
            break
        answer = msgspec.convert({"state": text, "seconds": 1.0}, Answer)
        move = step_state_machine.answered(here.at(move.state), move.act, answer)
    found = move.state.progress
    assert found is not None
    moved = found.current_step_index - step
    assert moved == (1 if state == rollout_labels.READY and step < 3 else 0)
    assert found.next_step_index == (found.current_step_index + 1 if found.current_step_index < 3 else -1)
