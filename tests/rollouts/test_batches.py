"""The transition table of BatchReleases, and what counts as ready."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.jsontypes import Json
from kohort.objects.meta import ObjectMeta
from kohort.rollouts import batches, wire
from kohort.rollouts.api import Batch, BatchRelease, ReleaseCanaryStatus, ReleasePlan, ReleaseSpec, ReleaseStatus
from kohort.rollouts.batches import BatchView
from kohort.rollouts.workloads.model import DONE, Counts, Outcome, wait

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = ReleasePlan(batches=(Batch(1), Batch("50%"), Batch("100%")), batch_partition=0, rollout_id="id")


def view(
    phase: str = wire.PROGRESSING,
    state: str = wire.UPGRADING,
    batch: int = 0,
    *,
    plan: ReleasePlan = PLAN,
    deleting: bool = False,
    observed_hash: str = "plan",
    observed_replicas: int = 4,
    observed_id: str = "id",
    revision: str = "v2",
    **more: Json,
) -> BatchView:
    metadata = ObjectMeta(name="llm", deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None)
    status = ReleaseStatus(
        phase=phase,
        update_revision="v2",
        observed_release_plan_hash=observed_hash,
        observed_rollout_id=observed_id,
        observed_workload_replicas=observed_replicas,
        canary_status=ReleaseCanaryStatus(batch_state=state, current_batch=batch),
    )
    known = {"replicas": 4, "counts": Counts(1, 1), "desired": 1, "revision": revision, "plan_hash": "plan", **more}
    return BatchView(release=BatchRelease(metadata, ReleaseSpec(release_plan=plan)), status=status, now=NOW, **known)


ALL = msgspec.structs.replace(PLAN, batch_partition=None)
SECOND = msgspec.structs.replace(PLAN, batch_partition=1)


@pytest.mark.parametrize(
    ("here", "phase", "state", "batch", "act"),
    [
        (view(""), wire.PREPARING, wire.UPGRADING, 0, "initialize"),
        (view(wire.PREPARING), wire.PREPARING, wire.UPGRADING, 0, "initialize"),
        (view(), wire.PROGRESSING, wire.UPGRADING, 0, "upgrade"),
        (view(state=wire.VERIFYING), wire.PROGRESSING, wire.BATCH_READY, 0, None),
        (view(state=wire.VERIFYING, counts=Counts(1, 0)), wire.PROGRESSING, wire.VERIFYING, 0, None),
        (view(state=wire.BATCH_READY), wire.PROGRESSING, wire.BATCH_READY, 0, None),
        (view(state=wire.BATCH_READY, plan=SECOND), wire.PROGRESSING, wire.UPGRADING, 1, None),
        (view(state=wire.BATCH_READY, counts=Counts(1, 0)), wire.PROGRESSING, wire.UPGRADING, 0, None),
        (view(wire.COMPLETED), wire.COMPLETED, wire.UPGRADING, 0, None),
        (view(plan=ALL), wire.FINALIZING, wire.UPGRADING, 0, None),
        (view(deleting=True), wire.FINALIZING, wire.UPGRADING, 0, None),
        (view(replicas=None), wire.FINALIZING, wire.UPGRADING, 0, None),
        (view(wire.FINALIZING), wire.FINALIZING, wire.UPGRADING, 0, "finalize"),
        (view(state=wire.BATCH_READY, observed_hash="old", plan=SECOND), wire.PROGRESSING, wire.UPGRADING, 1, None),
        (
            view(state=wire.BATCH_READY, batch=1, observed_id="x", observed_hash="old"),
            wire.PROGRESSING,
            wire.UPGRADING,
            0,
            None,
        ),
        (view(batch=3), wire.PREPARING, "", 0, None),
        (view(state=wire.BATCH_READY, observed_replicas=2), wire.PROGRESSING, wire.UPGRADING, 0, None),
        (view(state=wire.BATCH_READY, revision="v3", counts=Counts()), wire.PROGRESSING, wire.BATCH_READY, 0, None),
        (view(observed=False), wire.PROGRESSING, wire.UPGRADING, 0, None),
    ],
)
def test_transitions(here: BatchView, phase: str, state: str, batch: int, act: str | None) -> None:
    move = batches.decide(here)
    found = move.status.canary_status
    assert (move.status.phase, found.batch_state, found.current_batch, move.act) == (phase, state, batch, act)


@pytest.mark.parametrize(
    ("act", "outcome", "phase", "state"),
    [
        ("initialize", DONE, wire.PROGRESSING, wire.UPGRADING),
        ("initialize", wait("canary llm-x is not in sight yet"), wire.PREPARING, wire.UPGRADING),
        ("upgrade", DONE, wire.PREPARING, wire.VERIFYING),
        ("upgrade", Outcome("problem", "lost"), wire.PREPARING, wire.UPGRADING),
        ("finalize", DONE, wire.COMPLETED, wire.UPGRADING),
        ("finalize", wait("llm: 1/2 groups have the new version"), wire.PREPARING, wire.UPGRADING),
    ],
)
def test_outcomes(act: batches.BatchAct, outcome: Outcome, phase: str, state: str) -> None:
    move = batches.answered(view(wire.PREPARING), act, outcome)
    assert (move.status.phase, move.status.canary_status.batch_state) == (phase, state)
    assert move.status.message == outcome.text
    if outcome.state == "problem":
        (condition,) = move.status.conditions
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
    assert batches.is_ready(view(plan=plan, counts=Counts(updated, ready), desired=desired)) == expected


def test_counters_of_an_old_generation_are_not_believed() -> None:
    assert not batches.is_ready(view(counts=Counts(1, 1, observed=False)))


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.sampled_from(["Upgrading", "Verifying", "Ready"]))
def test_a_batch_beyond_the_partition_is_never_begun(updated: int, ready: int, desired: int, state: str) -> None:
    here = view(state=state, batch=1, plan=SECOND, counts=Counts(updated, min(ready, updated)), desired=desired)
    assert batches.decide(here).status.canary_status.current_batch == 1
