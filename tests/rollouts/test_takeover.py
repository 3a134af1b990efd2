"""Statuses of other implementations and of earlier versions, continued."""

import msgspec
import pytest
from tests.rollouts.observations import WORKLOAD, observation, progress, rollout

from kohort.rollouts import takeover
from kohort.rollouts.release_state import Observation
from kohort.rollouts.rollout_types import ReleaseProgress
from kohort.rollouts.workloads.model import ReleasedWorkload
from kohort.rules import group_labels, rollout_labels


def adopted(here: Observation) -> ReleaseProgress:
    state = takeover.adopted(here)
    assert state.progress is not None
    return state.progress


THEIRS = progress(2, revision_key="", revision="their-hash", rollout_hash="their-plan")


def test_a_status_of_ours_stays_as_it_is() -> None:
    here = observation(found=progress(2))
    assert takeover.adopted(here) == here.state


def test_a_rollout_that_has_released_nothing_has_nothing_to_take_over() -> None:
    here = observation()
    empty = here.with_state(msgspec.structs.replace(here.state, progress=None))
    assert takeover.adopted(empty) == empty.state


@pytest.mark.parametrize(
    ("workload", "revision"),
    [
        (msgspec.structs.replace(WORKLOAD, released="v2"), "v2"),
        (msgspec.structs.replace(WORKLOAD, released="v1", canary_revision="v2"), "v1"),
        (WORKLOAD, "v2"),
        (msgspec.structs.replace(WORKLOAD, in_rollback=True), ""),
        (None, ""),
    ],
)
def test_the_released_version_is_what_the_canary_runs(workload: ReleasedWorkload | None, revision: str) -> None:
    assert adopted(observation(found=THEIRS, workload=workload)).revision == revision


def test_the_plan_is_taken_as_it_is_now() -> None:
    assert adopted(observation(found=THEIRS)).rollout_hash == "hash"


@pytest.mark.parametrize(("workload", "key"), [(WORKLOAD, group_labels.REVISION), (None, rollout_labels.TEMPLATE_HASH)])
def test_what_they_pinned_is_the_key_of_the_workload(workload: ReleasedWorkload | None, key: str) -> None:
    assert adopted(observation(found=THEIRS, workload=workload)).revision_key == key


@pytest.mark.parametrize(
    ("phase", "reason", "blue_green", "theirs", "ours"),
    [
        ("Progressing", "Finalising", False, "FinalisingStepRouteTrafficToStable", "RestoreStableService"),
        ("Progressing", "Finalising", False, "", ""),
        ("Progressing", "Finalising", True, "ResumeWorkload", "ResumeWorkload"),
        ("Progressing", "Cancelling", False, "ResumeWorkload", "ResumeWorkload"),
        ("Disabling", "", False, "ResumeWorkload", ""),
        ("Terminating", "", True, "ResumeWorkload", ""),
    ],
)
def test_an_end_that_they_have_begun_is_repeated_from_a_step_that_can_follow(
    phase: str, reason: str, blue_green: bool, theirs: str, ours: str
) -> None:
    found = msgspec.structs.replace(THEIRS, finalising_step=theirs)
    here = observation(rollout(blue_green=blue_green), found, phase=phase, reason=reason)
    assert adopted(here).finalising_step == ours


@pytest.mark.parametrize(("recorded", "revision"), [("earlier", "v2"), ("v2", "v2"), ("other", "other")])
def test_a_version_that_an_earlier_kohort_recorded_is_recognised(recorded: str, revision: str) -> None:
    workload = msgspec.structs.replace(WORKLOAD, earlier_canary_revision="earlier")
    assert adopted(observation(found=progress(2, revision=recorded), workload=workload)).revision == revision
