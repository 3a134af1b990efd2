"""What the verdict of an analysis means for the step, and what is said about it."""

import msgspec
import pytest
from tests.rollouts.observations import observation, rollout

from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.analysis_rules import Mode
from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.analysis.run_types import RunPhase, RunStatus
from kohort.rollouts.messages import EventReason
from kohort.rollouts.release_state import Observation
from kohort.rollouts.rollout_types import ReleaseProgress, Rollout
from kohort.rollouts.step_analysis import (
    AnalysisHeld,
    AnalysisReason,
    AnalysisRunning,
    Failed,
    Judgement,
    Override,
    Passed,
    StepResult,
    analyse,
    condition,
    override_document,
    override_of,
)
from kohort.rollouts.step_state_machine import with_analysis

WAITING = "waiting for the first reading"


def run(phase: RunPhase, message: str = "ttft is 2 s", mode: Mode = Mode.ENFORCE) -> AnalysisRun:
    return AnalysisRun(status=RunStatus(phase=phase, message=message, mode=mode))


def judged(found: AnalysisRun | None = None, mode: Mode = Mode.ENFORCE, **more: object) -> Judgement:
    return msgspec.structs.replace(Judgement("llm", mode=mode, run=found), **more)


@pytest.mark.parametrize(
    ("judgement", "expected"),
    [
        pytest.param(None, Passed(), id="no analysis is asked for"),
        pytest.param(judged(run(RunPhase.PASSED)), Passed(), id="passed"),
        pytest.param(judged(run(RunPhase.FAILED)), Failed("ttft is 2 s"), id="failed"),
        pytest.param(judged(run(RunPhase.HELD)), AnalysisHeld("ttft is 2 s"), id="held"),
        pytest.param(judged(run(RunPhase.WARMING_UP)), AnalysisRunning("ttft is 2 s"), id="warming up"),
        pytest.param(judged(run(RunPhase.RUNNING)), AnalysisRunning("ttft is 2 s"), id="running"),
        pytest.param(judged(), AnalysisRunning(WAITING), id="not begun"),
        pytest.param(judged(first_step=3), Passed(), id="the step is not judged"),
        pytest.param(judged(first_step=2), AnalysisRunning(WAITING), id="the first step that is judged"),
        pytest.param(judged(problem="no such metric"), AnalysisHeld("no such metric"), id="unusable"),
        pytest.param(
            judged(run(RunPhase.FAILED), problem="deleted"), Failed("ttft is 2 s"), id="failed, then made unusable"
        ),
        pytest.param(
            judged(run(RunPhase.FAILED, mode=Mode.GATE), problem="deleted"),
            AnalysisHeld("deleted"),
            id="failed as a gate, then made unusable",
        ),
        pytest.param(
            judged(run(RunPhase.PASSED), problem="deleted"), AnalysisHeld("deleted"), id="passed, then made unusable"
        ),
        pytest.param(judged(run(RunPhase.FAILED), Mode.GATE), AnalysisHeld("ttft is 2 s"), id="failed, mode Gate"),
        pytest.param(judged(run(RunPhase.FAILED), Mode.DRY_RUN), Passed(), id="failed, mode DryRun"),
        pytest.param(judged(None, Mode.DRY_RUN), Passed(), id="not begun, mode DryRun"),
        pytest.param(
            judged(run(RunPhase.FAILED), override=Override(by="ann")), Passed(overridden=True), id="failed, overridden"
        ),
        pytest.param(
            judged(problem="no such metric", override=Override()), Passed(overridden=True), id="unusable, overridden"
        ),
    ],
)
def test_a_verdict_lets_the_step_go_on_waits_or_ends_it(judgement: Judgement | None, expected: StepResult) -> None:
    assert analyse(judgement, 2) == expected


@pytest.mark.parametrize(
    ("judgement", "expected"),
    [
        (judged(run(RunPhase.PASSED)), ("True", AnalysisReason.PASSED, "step 2: ttft is 2 s")),
        (judged(run(RunPhase.FAILED)), ("False", AnalysisReason.FAILED, "step 2: ttft is 2 s")),
        (judged(run(RunPhase.HELD)), ("Unknown", AnalysisReason.HELD, "step 2: ttft is 2 s")),
        (judged(run(RunPhase.RUNNING)), ("Unknown", AnalysisReason.RUNNING, "step 2: ttft is 2 s")),
        (judged(), ("Unknown", AnalysisReason.RUNNING, f"step 2: {WAITING}")),
        (
            judged(run(RunPhase.FAILED), Mode.DRY_RUN),
            ("False", AnalysisReason.FAILED, "step 2: ttft is 2 s (DryRun: only reported)"),
        ),
        (judged(first_step=3), ("Unknown", AnalysisReason.NOT_JUDGED, "steps are judged from step 3")),
        (judged(problem="gone", missing=True), ("False", AnalysisReason.NOT_FOUND, "gone")),
        (judged(problem="no such metric"), ("False", AnalysisReason.INVALID, "no such metric")),
        (
            judged(run(RunPhase.FAILED), override=Override(by="ann", reason="known")),
            ("True", AnalysisReason.OVERRIDDEN, "step 2 goes on by ann: known; ttft is 2 s"),
        ),
    ],
)
def test_the_condition_says_what_the_verdict_is(judgement: Judgement, expected: tuple[str, str, str]) -> None:
    assert condition(judgement, 2) == expected


@pytest.mark.parametrize(
    ("override", "text"),
    [
        (Override(by="ann", reason="known"), "ann: known"),
        (Override(reason="known"), "a user: known"),
        (Override(by="ann"), "ann"),
        (Override(), "a user"),
    ],
)
def test_an_override_names_who_and_why(override: Override, text: str) -> None:
    assert override.text == text


def overridden(document: JsonObject, step: int = 2, release: str = "r1") -> Rollout:
    base = rollout()
    found: JsonObject = {"currentStepIndex": step, "observedRolloutID": release}
    status = msgspec.structs.replace(base.status, canary_status=found)
    metadata = msgspec.structs.replace(base.metadata, annotations=document["metadata"]["annotations"])
    return msgspec.structs.replace(base, metadata=metadata, status=status)


def place(release: str = "r1", step: int = 2, attempt: int = 0) -> ReleaseProgress:
    return ReleaseProgress(observed_rollout_id=release, current_step_index=step, analysis_attempt=attempt)


def test_an_override_is_read_as_it_was_written() -> None:
    document = override_document(place(), "ann", "known")
    assert override_of(overridden(document)) == Override("r1", 2, "ann", "known")


@pytest.mark.parametrize(
    ("release", "step", "attempt"), [("r2", 2, 0), ("r1", 1, 0), ("r1", 3, 0), ("", 0, 0), ("r1", 2, 1)]
)
def test_an_override_of_another_step_release_or_attempt_does_not_count(release: str, step: int, attempt: int) -> None:
    document = override_document(place(release, step, attempt), "ann", "known")
    assert override_of(overridden(document)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"step": "two"}'])
def test_an_override_that_cannot_be_read_does_not_count(text: str) -> None:
    annotation = next(iter(override_document(place("", 0), "", "")["metadata"]["annotations"]))
    assert override_of(overridden({"metadata": {"annotations": {annotation: text}}}, 0, "")) is None


def said(found: Observation, *judgements: Judgement) -> list[tuple[EventReason, str]]:
    """The events while the analysis says one thing after the other."""
    events: list[tuple[EventReason, str]] = []
    for judgement in judgements:
        found, new = with_analysis(msgspec.structs.replace(found, judgement=judgement))
        events += [(one.reason, one.message) for one in new]
    return events


@pytest.mark.parametrize(
    ("judgement", "reason"),
    [
        (judged(run(RunPhase.PASSED)), EventReason.ANALYSIS_PASSED),
        (judged(run(RunPhase.FAILED)), EventReason.ANALYSIS_FAILED),
        (judged(run(RunPhase.HELD)), EventReason.ANALYSIS_HELD),
        (judged(problem="gone", missing=True), EventReason.ANALYSIS_HELD),
        (judged(problem="no such metric"), EventReason.ANALYSIS_HELD),
        (judged(run(RunPhase.FAILED), override=Override(by="ann")), EventReason.ANALYSIS_OVERRIDDEN),
    ],
)
def test_a_verdict_is_an_event_once(judgement: Judgement, reason: EventReason) -> None:
    assert [one for one, _ in said(observation(), judgement, judgement)] == [reason]


@pytest.mark.parametrize("phase", [RunPhase.RUNNING, RunPhase.WARMING_UP])
def test_an_analysis_that_runs_is_no_event(phase: RunPhase) -> None:
    assert said(observation(), judged(), judged(run(phase))) == []


@pytest.mark.parametrize(
    ("phase", "override"),
    [(RunPhase.HELD, None), (RunPhase.PASSED, None), (RunPhase.FAILED, Override(by="ann"))],
)
def test_new_figures_of_the_same_verdict_are_no_event(phase: RunPhase, override: Override | None) -> None:
    figures = [judged(run(phase, f"ttft is {value} s"), override=override) for value in (2, 3, 4)]
    assert len(said(observation(), *figures)) == 1


def test_the_same_verdict_of_the_next_step_is_an_event() -> None:
    held = judged(run(RunPhase.HELD))
    found, first = with_analysis(observation(judgement=held))
    following = found.state.with_progress(current_step_index=2)
    _, second = with_analysis(msgspec.structs.replace(found, state=following))
    assert [one.message for one in (*first, *second)] == [
        "step(1/3): step 1: ttft is 2 s",
        "step(2/3): step 2: ttft is 2 s",
    ]


def test_without_an_analysis_there_is_no_condition() -> None:
    found = observation()
    assert with_analysis(found) == (found, ())
