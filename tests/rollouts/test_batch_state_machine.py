"""The transition table of BatchReleases, and what counts as ready."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import Json
from kohort.objects.meta import ObjectMeta
from kohort.rollouts import batch_state_machine
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.batch_state_machine import BatchAction, BatchObservation, Finalize, Initialize, Upgrade
from kohort.rollouts.rollout_types import (
    Batch,
    BatchRelease,
    ReleaseCanaryStatus,
    ReleasePlan,
    ReleaseSpec,
    ReleaseStatus,
)
from kohort.rollouts.workloads.model import ReplicaCounts
from kohort.rules import rollout_labels

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = ReleasePlan(batches=(Batch(1), Batch("50%"), Batch("100%")), batch_partition=0, rollout_id="id")


def view(
    phase: str = rollout_labels.PROGRESSING,
    state: str = rollout_labels.UPGRADING,
    batch: int = 0,
    *,
    plan: ReleasePlan = PLAN,
    deleting: bool = False,
    observed_hash: str = "plan",
    observed_replicas: int = 4,
    observed_id: str = "id",
    revision: str = "v2",
    **more: Json,
) -> BatchObservation:
    metadata = ObjectMeta(name="llm", deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None)
    status = ReleaseStatus(
        phase=phase,
        update_revision="v2",
        observed_release_plan_hash=observed_hash,
        observed_rollout_id=observed_id,
        observed_workload_replicas=observed_replicas,
        canary_status=ReleaseCanaryStatus(batch_state=state, current_batch=batch),
    )
    known = {
        "replicas": 4,
        "counts": ReplicaCounts(1, 1),
        "desired": 1,
        "revision": revision,
        "plan_hash": "plan",
        **more,
    }
    return BatchObservation(
        release=BatchRelease(metadata, ReleaseSpec(release_plan=plan)), status=status, now=NOW, **known
    )


ALL = msgspec.structs.replace(PLAN, batch_partition=None)
SECOND = msgspec.structs.replace(PLAN, batch_partition=1)


@pytest.mark.parametrize(
    ("here", "phase", "state", "batch", "action"),
    [
        (view(""), rollout_labels.PREPARING, rollout_labels.UPGRADING, 0, Initialize()),
        (view(rollout_labels.PREPARING), rollout_labels.PREPARING, rollout_labels.UPGRADING, 0, Initialize()),
        (view(), rollout_labels.PROGRESSING, rollout_labels.UPGRADING, 0, Upgrade(1)),
        (view(state=rollout_labels.VERIFYING), rollout_labels.PROGRESSING, rollout_labels.BATCH_READY, 0, None),
        (
            view(state=rollout_labels.VERIFYING, counts=ReplicaCounts(1, 0)),
            rollout_labels.PROGRESSING,
            rollout_labels.VERIFYING,
            0,
            None,
        ),
        (
            view(state=rollout_labels.VERIFYING, counts=ReplicaCounts(2, 2), desired=0, shrinks=True),
            rollout_labels.PROGRESSING,
            rollout_labels.BATCH_READY,
            0,
            None,
        ),
        (view(state=rollout_labels.BATCH_READY), rollout_labels.PROGRESSING, rollout_labels.BATCH_READY, 0, None),
        (
            view(state=rollout_labels.BATCH_READY, plan=SECOND),
            rollout_labels.PROGRESSING,
            rollout_labels.UPGRADING,
            1,
            None,
        ),
        (
            view(state=rollout_labels.BATCH_READY, counts=ReplicaCounts(1, 0)),
            rollout_labels.PROGRESSING,
            rollout_labels.UPGRADING,
            0,
            None,
        ),
        (view(rollout_labels.COMPLETED), rollout_labels.COMPLETED, rollout_labels.UPGRADING, 0, None),
        (view(plan=ALL), rollout_labels.FINALIZING, rollout_labels.UPGRADING, 0, None),
        (view(deleting=True), rollout_labels.FINALIZING, rollout_labels.UPGRADING, 0, None),
        (view(replicas=None), rollout_labels.FINALIZING, rollout_labels.UPGRADING, 0, None),
        (view(rollout_labels.FINALIZING), rollout_labels.FINALIZING, rollout_labels.UPGRADING, 0, Finalize()),
        (
            view(state=rollout_labels.BATCH_READY, observed_hash="old", plan=SECOND),
            rollout_labels.PROGRESSING,
            rollout_labels.UPGRADING,
            1,
            None,
        ),
        (
            view(state=rollout_labels.BATCH_READY, batch=1, observed_id="x", observed_hash="old"),
            rollout_labels.PROGRESSING,
            rollout_labels.UPGRADING,
            0,
            None,
        ),
        (view(batch=3), rollout_labels.PREPARING, "", 0, None),
        (
            view(state=rollout_labels.BATCH_READY, observed_replicas=2),
            rollout_labels.PROGRESSING,
            rollout_labels.UPGRADING,
            0,
            None,
        ),
        (
            view(state=rollout_labels.BATCH_READY, revision="v3", counts=ReplicaCounts()),
            rollout_labels.PROGRESSING,
            rollout_labels.BATCH_READY,
            0,
            None,
        ),
        (view(observed=False), rollout_labels.PROGRESSING, rollout_labels.UPGRADING, 0, None),
    ],
)
def test_transitions(here: BatchObservation, phase: str, state: str, batch: int, action: BatchAction | None) -> None:
    decision = batch_state_machine.decide(here)
    found = decision.status.canary_status
    assert (decision.status.phase, found.batch_state, found.current_batch, decision.action) == (
        phase,
        state,
        batch,
        action,
    )


@pytest.mark.parametrize(
    ("action", "result", "phase", "state"),
    [
        (Initialize(), DONE, rollout_labels.PROGRESSING, rollout_labels.UPGRADING),
        (Initialize(), Waiting("canary llm-x is not observed yet"), rollout_labels.PREPARING, rollout_labels.UPGRADING),
        (Upgrade(1), DONE, rollout_labels.PREPARING, rollout_labels.VERIFYING),
        (Upgrade(1), Problem("lost"), rollout_labels.PREPARING, rollout_labels.UPGRADING),
        (Finalize(), DONE, rollout_labels.COMPLETED, rollout_labels.UPGRADING),
        (
            Finalize(),
            Waiting("llm: 1/2 groups have the new version"),
            rollout_labels.PREPARING,
            rollout_labels.UPGRADING,
        ),
    ],
)
def test_outcomes(action: BatchAction, result: ActionResult, phase: str, state: str) -> None:
    decision = batch_state_machine.decide_after(view(rollout_labels.PREPARING), action, result)
    assert (decision.status.phase, decision.status.canary_status.batch_state) == (phase, state)
    assert decision.status.message == ("" if isinstance(result, Done) else result.text)
    if isinstance(result, Problem):
        (condition,) = decision.status.conditions
        assert (condition.type, condition.status, condition.reason) == ("Progressing", "True", "InRolling")


@pytest.mark.parametrize(
    ("updated", "ready", "desired", "threshold", "expected"),
    [
        (3, 3, 3, None, True),
        (3, 2, 3, None, False),
        (2, 2, 3, None, False),
        (10, 8, 10, "20%", True),
        (10, 7, 10, "20%", False),
        (1, 0, 1, 1, False),  # one at least is ready, whatever is tolerated
        (0, 0, 0, None, True),
    ],
)
def test_w07_readiness(updated: int, ready: int, desired: int, threshold: int | str | None, expected: bool) -> None:
    plan = msgspec.structs.replace(PLAN, failure_threshold=threshold)
    assert (
        batch_state_machine.is_ready(view(plan=plan, counts=ReplicaCounts(updated, ready), desired=desired)) == expected
    )


def test_counters_of_an_old_generation_are_not_believed() -> None:
    assert not batch_state_machine.is_ready(view(counts=ReplicaCounts(1, 1, observed=False)))


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.sampled_from(["Upgrading", "Verifying", "Ready"]))
def test_a_batch_beyond_the_partition_is_never_begun(updated: int, ready: int, desired: int, state: str) -> None:
    here = view(state=state, batch=1, plan=SECOND, counts=ReplicaCounts(updated, min(ready, updated)), desired=desired)
    assert batch_state_machine.decide(here).status.canary_status.current_batch == 1


@given(
    phase=st.sampled_from(["", "Preparing", "Progressing", "Finalizing", "Completed"]),
    state=st.sampled_from(["Upgrading", "Verifying", "Ready"]),
    batch=st.integers(0, 4),
    deleting=st.booleans(),
    replicas=st.one_of(st.none(), st.integers(0, 5)),
    updated=st.integers(0, 5),
)
def test_a_status_that_a_special_situation_changed_is_stored_before_anything_is_done(
    phase: str, state: str, batch: int, deleting: bool, replicas: int | None, updated: int
) -> None:
    here = view(phase, state, batch, deleting=deleting, replicas=replicas, counts=ReplicaCounts(updated, updated))
    decision = batch_state_machine.decide(here)
    if decision.status.phase == rollout_labels.FINALIZING != phase:
        assert decision.action is None
    if phase == rollout_labels.COMPLETED:
        assert (decision.action, decision.status) == (None, here.status)
    if decision.action == Finalize():
        assert phase == rollout_labels.FINALIZING


def test_an_upgrade_wants_what_its_batch_wants() -> None:
    assert batch_state_machine.decide(view(desired=3)).action == Upgrade(3)


def test_a_canary_that_lost_every_replica_is_reported() -> None:
    here = view(state=rollout_labels.BATCH_READY, counts=ReplicaCounts(1, 0, text="0/1 groups ready"))
    (event,) = batch_state_machine.decide(here).events
    assert (event.reason, event.message) == (
        "CanaryUnavailable",
        "no replica of the new version is ready: 0/1 groups ready",
    )
