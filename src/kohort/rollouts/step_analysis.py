"""What the analysis of a step means for the release.

`analyse` is called when a step has its pods and its traffic, and again before it leaves its pause and before the next
step begins. So a version never gets further than its judgement, whatever else was approved.

| annotation, step, override | mode | the run of this step | result |
|---|---|---|---|
| no annotation, or before the first judged step | | | passed |
| overridden by a user | | | passed |
| the ReleaseAnalysis is missing or invalid | | Failed, when it enforced | failed |
| the ReleaseAnalysis is missing or invalid | | otherwise | held |
| | DryRun | | passed |
| | Gate, Enforce | none yet, WarmingUp, Running | running |
| | Gate, Enforce | Held | held |
| | Gate, Enforce | Passed | passed |
| | Gate | Failed | held |
| | Enforce | Failed | failed |

A jump forward leaves the step, too: `may_jump` is asked by the controller, and before by commands and the dashboard,
which read in the status what the controller has found. Back, or to the beginning of the step, no verdict is needed.

A step that failed is withdrawn: requests go to the stable version, then its replicas are taken back as the style allows
(`step_state_machine.way_of_withdrawal`). The template stays the user's. With the old one, another one, an override, or
when the step is begun again, the release goes on.
"""

from enum import StrEnum

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition
from kohort.objects.recorded_json import read_recorded
from kohort.rollouts.analysis.analysis_rules import Mode
from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.analysis.run_types import RunPhase
from kohort.rollouts.rollout_types import ReleaseProgress, Rollout
from kohort.rules import rollout_labels


class Passed(msgspec.Struct, frozen=True):
    """The step may go on."""

    overridden: bool = False


class AnalysisRunning(msgspec.Struct, frozen=True):
    """The analysis is not finished. Its next reading is an event."""

    text: str


class AnalysisHeld(msgspec.Struct, frozen=True):
    """The step stays where it is until the metrics, the ReleaseAnalysis or a user say otherwise."""

    text: str


class Failed(msgspec.Struct, frozen=True):
    """The step is withdrawn."""

    text: str


StepResult = Passed | AnalysisRunning | AnalysisHeld | Failed


class StepVerdict(StrEnum):
    """A `StepResult` as the status of a Rollout records it."""

    PASSED = "Passed"
    RUNNING = "Running"
    HELD = "Held"
    FAILED = "Failed"


class AnalysisReason(StrEnum):
    """Reasons of the condition Analysis."""

    NOT_FOUND = "NotFound"
    INVALID = "Invalid"
    DRY_RUN = "DryRun"
    OVERRIDDEN = "Overridden"
    RUNNING = "Running"
    PASSED = "Passed"
    FAILED = "Failed"
    HELD = "Held"
    ENDED = "Ended"
    """The release ended, or another one began, before there was a verdict."""
    NOT_JUDGED = "NotJudged"
    """The step is before the first one that is judged."""


class Override(msgspec.Struct, frozen=True):
    """A user let a step go on in spite of its analysis."""

    release: str = ""
    step: int = 0
    by: str = ""
    reason: str = ""
    attempt: int = 0
    """A step that is begun again, in this release or in another one of the same version, is judged anew."""

    @property
    def text(self) -> str:
        return f"{self.by or 'a user'}: {self.reason}" if self.reason else self.by or "a user"


class Judgement(msgspec.Struct, frozen=True):
    """What is known of the analysis that a Rollout asks for."""

    name: str
    """Of the ReleaseAnalysis."""
    problem: str = ""
    """Why it cannot be used."""
    missing: bool = False
    mode: Mode = Mode.DRY_RUN
    first_step: int = 1
    run: AnalysisRun | None = None
    """Of the current step."""
    override: Override | None = None
    """Of the current step."""
    latest_attempt: int = 0
    """The highest one that this Rollout has runs of."""

    def judges(self, step: int) -> bool:
        return step >= self.first_step


def override_of(rollout: Rollout) -> Override | None:
    """The override of the current step; None where there is none, or where it is about another step or release."""
    progress = rollout.status.progress
    text = rollout.metadata.annotations.get(rollout_labels.ANALYSIS_OVERRIDE, "")
    if not text or progress is None:
        return None
    found = read_recorded(text, Override)
    if found is None or (found.release, found.step, found.attempt) != _place_of(progress):
        return None
    return found


def _place_of(progress: ReleaseProgress) -> tuple[str, int, int]:
    return progress.observed_rollout_id, progress.current_step_index, progress.analysis_attempt


def override_document(progress: ReleaseProgress, by: str, reason: str) -> JsonObject:
    """The patch of a Rollout that lets its current step go on."""
    release, step, attempt = _place_of(progress)
    text = msgspec.json.encode(Override(release, step, by, reason, attempt)).decode()
    return {"metadata": {"annotations": {rollout_labels.ANALYSIS_OVERRIDE: text}}}


def analyse(judgement: Judgement | None, step: int) -> StepResult:
    if judgement is None:
        return Passed()
    if judgement.override is not None:
        return Passed(overridden=True)
    run = judgement.run
    if judgement.problem:
        failed = run is not None and (run.status.phase, run.status.mode) == (RunPhase.FAILED, Mode.ENFORCE)
        return Failed(run.status.message) if run is not None and failed else AnalysisHeld(judgement.problem)
    if not judgement.judges(step) or judgement.mode is Mode.DRY_RUN:
        return Passed()
    if run is None:
        return AnalysisRunning("waiting for the first reading")
    text = run.status.message
    match run.status.phase:
        case RunPhase.PASSED:
            return Passed()
        case RunPhase.HELD:
            return AnalysisHeld(text)
        case RunPhase.FAILED:
            return Failed(text) if judgement.mode is Mode.ENFORCE else AnalysisHeld(text)
        case _:
            return AnalysisRunning(text)


def verdict(judgement: Judgement | None, step: int) -> StepVerdict | None:
    """What the status records of the current step; None where no analysis is asked for."""
    if judgement is None:
        return None
    match analyse(judgement, step):
        case Passed():
            return StepVerdict.PASSED
        case AnalysisRunning():
            return StepVerdict.RUNNING
        case AnalysisHeld():
            return StepVerdict.HELD
        case Failed():
            return StepVerdict.FAILED


def verdict_at_beginning(judgement: Judgement | None, step: int) -> StepVerdict | None:
    """The same of a step that begins: run and override are those of the step before."""
    return verdict(msgspec.structs.replace(judgement, run=None, override=None) if judgement else None, step)


def may_jump(progress: ReleaseProgress, target: int) -> bool:
    """Whether the release may go from its current step to another one."""
    return target <= progress.current_step_index or progress.analysis_result in ("", StepVerdict.PASSED)


def condition(judgement: Judgement, step: int) -> tuple[str, AnalysisReason, str]:
    """Status, reason and message of the condition Analysis."""
    if judgement.override is not None:
        said = judgement.run.status.message if judgement.run is not None else ""
        return "True", AnalysisReason.OVERRIDDEN, f"step {step} goes on by {judgement.override.text}; {said}"
    if judgement.problem:
        return "False", AnalysisReason.NOT_FOUND if judgement.missing else AnalysisReason.INVALID, judgement.problem
    if not judgement.judges(step):
        return "Unknown", AnalysisReason.NOT_JUDGED, f"steps are judged from step {judgement.first_step}"
    run = judgement.run
    if run is None:
        return "Unknown", AnalysisReason.RUNNING, f"step {step}: waiting for the first reading"
    text = f"step {step}: {run.status.message}"
    status, reason = {
        RunPhase.PASSED: ("True", AnalysisReason.PASSED),
        RunPhase.FAILED: ("False", AnalysisReason.FAILED),
        RunPhase.HELD: ("Unknown", AnalysisReason.HELD),
    }.get(run.status.phase, ("Unknown", AnalysisReason.RUNNING))
    if judgement.mode is Mode.DRY_RUN:
        return status, reason, f"{text} (DryRun: only reported)"
    return status, reason, text


def condition_at_end(found: Condition) -> Condition:
    """The condition Analysis of a release that is over: nothing is judged or held any more."""
    if found.reason not in (AnalysisReason.RUNNING, AnalysisReason.HELD):
        return found
    text = f"ended without a verdict: {found.message}"
    return msgspec.structs.replace(found, status="Unknown", reason=AnalysisReason.ENDED.value, message=text)
