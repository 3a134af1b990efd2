"""AnalysisRuns of steps that are over do not say that they run."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.rollouts.analysis.served_metrics import ANALYSIS, JudgedStory, judged_cluster, judged_rollout
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3

from kohort.kube.resources import LEADER_WORKER_SETS, ROLLOUTS
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, OwnerReference
from kohort.rollouts.analysis.analysis_types import AnalysisRun, RunSpec
from kohort.rollouts.analysis.run_types import RunPhase, RunReason, RunStatus
from kohort.rollouts.analysis_control.run_endings import ended, reopened, run_ending
from kohort.rollouts.rollout_types import ReleaseProgress, Rollout
from kohort.rollouts.step_analysis import override_document
from kohort.rules import rollout_labels

HOLDS_LONG: list[JsonObject] = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": "100%", "traffic": "50%"}]


async def _abort(story: JudgedStory) -> None:
    await story.change(V1)
    await story.healthy(V1)


async def _supersede(story: JudgedStory) -> None:
    await story.change(V3)
    await story.until(lambda: len(story.runs) == 2, timeout=600)


async def _disable(story: JudgedStory) -> None:
    await story.edit({"spec": {"disabled": True}})
    await story.until(lambda: story.phase == "Disabled", timeout=600)


async def _delete(story: JudgedStory) -> None:
    """Its runs stay until requests go to the stable version again."""
    await story.client.delete(ROLLOUTS, NAME, NAMESPACE)


async def _override(story: JudgedStory) -> None:
    await story.edit(override_document(ReleaseProgress.from_status(story.progress), "alice", "known"))
    await story.approve()
    await story.until(lambda: story.step == 2, timeout=600)


async def _remove_annotation(story: JudgedStory) -> None:
    await story.edit({"metadata": {"annotations": {rollout_labels.ANALYSIS_NAME: None}}})


async def _delete_workload(story: JudgedStory) -> None:
    await story.client.delete(LEADER_WORKER_SETS, NAME, NAMESPACE)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (_abort, RunReason.ROLLED_BACK),
        (_supersede, RunReason.SUPERSEDED),
        (_disable, RunReason.ROLLOUT_DISABLED),
        (_delete, RunReason.ROLLOUT_DELETED),
        (_override, RunReason.OVERRIDDEN),
        (_remove_annotation, RunReason.ANALYSIS_REMOVED),
        (_delete_workload, RunReason.WORKLOAD_DELETED),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
async def test_a_run_without_a_verdict_ends_with_its_release(
    end: Callable[[JudgedStory], Awaitable[None]], reason: RunReason
) -> None:
    async with judged_cluster() as story:
        await story.analysis(minSamples={"canary": 1000000, "stable": 1000000})
        await story.begin(plan=judged_rollout(steps=HOLDS_LONG))
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Running", timeout=600)
        first = story.runs[0]["metadata"]["name"]
        await end(story)

        def status() -> JsonObject:
            return next((one["status"] for one in story.runs if one["metadata"]["name"] == first), {})

        await story.until(lambda: status()["phase"] == "Ended", timeout=600)
        assert status()["reason"] == reason
        assert status()["message"].startswith("ended without a verdict, ")
        assert status()["finishedAt"]
        await asyncio.sleep(60)
        assert status().get("phase") in (None, "Ended")


async def test_a_dry_run_that_was_too_slow_has_ended_and_the_rollout_says_so() -> None:
    async with judged_cluster() as story:
        await story.analysis(mode="DryRun", minSamples={"canary": 1000000, "stable": 1000000})
        steps = [{"replicas": 1, "traffic": "20%", "pause": {"duration": 90}}, {"replicas": "100%", "traffic": "50%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.healthy(V2, timeout=3600)
        await story.until(lambda: {one["status"]["phase"] for one in story.runs} == {"Ended"})
        assert {one["status"]["reason"] for one in story.runs} == {"StepEnded"}
        condition = story.condition("Analysis")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("Unknown", "Ended")
        assert condition["message"].startswith("ended without a verdict: ")


async def test_a_jump_ends_the_run_of_the_step_that_it_leaves() -> None:
    async with judged_cluster() as story:
        await story.analysis(mode="DryRun", minSamples={"canary": 1000000, "stable": 1000000})
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": 2, "traffic": "50%", "pause": {}}]
        await story.begin(plan=judged_rollout(steps=[*steps, {"replicas": "100%", "traffic": "100%"}]))
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Running", timeout=600)
        await story.jump(3)
        await story.until(lambda: story.run(1).get("phase") == "Ended", timeout=600)
        assert story.run(1)["reason"] == "StepEnded"


async def test_a_run_goes_on_where_its_step_can_be_judged_again() -> None:
    async with judged_cluster() as story:
        await story.analysis(minSamples={"canary": 1000000, "stable": 1000000})
        await story.begin(plan=judged_rollout(steps=HOLDS_LONG))
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Running", timeout=600)
        await _remove_annotation(story)
        await story.until(lambda: story.run(1).get("phase") == "Ended", timeout=600)
        await story.edit({"metadata": {"annotations": {rollout_labels.ANALYSIS_NAME: ANALYSIS}}})
        await story.until(lambda: story.run(1).get("phase") == "Running", timeout=600)
        assert not story.run(1).get("finishedAt")
        assert len(story.runs) == 1


# The table


def rollout(phase: str, reason: str = "", *, step: int = 1, state: str = "StepPaused", **more: str) -> Rollout:
    """`more`: the release, the attempt, the condition Succeeded and its reason, the analysis."""
    conditions = [Condition("Progressing", "True", reason)] if reason else []
    if "succeeded" in more:
        conditions.append(Condition("Succeeded", more["succeeded"], more.get("why", "")))
    progress = ReleaseProgress(
        observed_rollout_id=more.get("release", "r1"),
        analysis_attempt=int(more.get("attempt", 1)),
        current_step_index=step,
        current_step_state=state,
    )
    name = {"name": "llm", "namespace": "default", "uid": more.get("uid", "u1")}
    annotations = {rollout_labels.ANALYSIS_NAME: more.get("analysis", "slo")}
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if more.get("deleted") else {}
    status = {
        "phase": phase,
        "conditions": [one.document() for one in conditions],
        "canaryStatus": progress.to_status(blue_green=False),
    }
    document = {"metadata": {**name, "annotations": annotations, **deleted}, "spec": {}, "status": status}
    return msgspec.convert(document, Rollout)


def run(phase: RunPhase = RunPhase.RUNNING, overridden_by: str = "") -> AnalysisRun:
    owner = OwnerReference(api_version=rollout_labels.API_VERSION, kind="Rollout", name="llm", uid="u1")
    return AnalysisRun(
        metadata=ObjectMeta(name="llm-1", namespace="default", owner_references=(owner,)),
        spec=RunSpec(rollout="llm", release="r1", step=1, attempt=1, analysis="slo"),
        status=RunStatus(phase=phase, overridden_by=overridden_by),
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, RunReason.ROLLOUT_DELETED),
        (rollout("Progressing", "InRolling", uid="u2"), RunReason.ROLLOUT_DELETED),
        (rollout("Terminating", "InRolling", deleted="yes"), RunReason.ROLLOUT_DELETED),
        (rollout("Disabling", "InRolling"), RunReason.ROLLOUT_DISABLED),
        (rollout("Disabled"), RunReason.ROLLOUT_DISABLED),
        (rollout("Initial"), RunReason.WORKLOAD_DELETED),
        (rollout("Progressing", "InRolling"), None),
        (rollout("Progressing", "Paused"), None),
        (rollout("Progressing", "InRolling", state="StepUpgrade"), None),
        (rollout("Progressing", "InRolling", release="r2", attempt="2"), RunReason.SUPERSEDED),
        (rollout("Progressing", "Initializing", release="r2", attempt="2"), RunReason.SUPERSEDED),
        (rollout("Progressing", "InRolling", attempt="2"), RunReason.RETRIED),
        (rollout("Progressing", "InRolling", attempt="2", step=3), RunReason.STEP_ENDED),
        (rollout("Progressing", "Cancelling"), RunReason.ROLLED_BACK),
        (rollout("Progressing", "Finalising", state="Completed"), RunReason.STEP_ENDED),
        (rollout("Progressing", "InRolling", step=2), RunReason.STEP_ENDED),
        (rollout("Progressing", "InRolling", state="Completed"), RunReason.STEP_ENDED),
        (rollout("Progressing", "InRolling", analysis=""), RunReason.ANALYSIS_REMOVED),
        (rollout("Healthy", "Completed", succeeded="True"), RunReason.STEP_ENDED),
        (rollout("Healthy", "Completed", succeeded="False"), RunReason.ROLLED_BACK),
        (rollout("Healthy", "Completed", succeeded="False", why="Disabled"), RunReason.ROLLOUT_DISABLED),
    ],
)
def test_when_a_run_ends(found: Rollout | None, expected: RunReason | None) -> None:
    for phase in (RunPhase.WARMING_UP, RunPhase.RUNNING, RunPhase.HELD):
        assert run_ending(run(phase), found) is expected
    for phase in (RunPhase.PASSED, RunPhase.FAILED, RunPhase.ENDED):
        assert run_ending(run(phase), found) is None
    if expected is RunReason.STEP_ENDED:
        assert run_ending(run(overridden_by="alice"), found) is RunReason.OVERRIDDEN


def test_an_ended_run_keeps_what_was_known() -> None:
    status = ended(RunStatus(RunPhase.RUNNING, message="too few samples yet"), RunReason.SUPERSEDED, "now")
    assert status.message == "ended without a verdict, another version is released; before: too few samples yet"
    assert (status.phase, status.reason, status.finished_at) == (RunPhase.ENDED, RunReason.SUPERSEDED, "now")
    assert reopened(status) == RunStatus(RunPhase.WARMING_UP)
    assert reopened(RunStatus(RunPhase.HELD)) == RunStatus(RunPhase.HELD)
