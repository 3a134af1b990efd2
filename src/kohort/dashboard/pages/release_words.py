"""A release in a few words, for readers who do not know the states of the Rollout API."""

from collections.abc import Mapping
from typing import Final

from kohort.inspection.release import Release
from kohort.rules.rollout_labels import StepState

_STATES: Final[Mapping[str, str]] = {
    StepState.BEFORE_UPGRADE: "is about to begin",
    StepState.UPGRADE: "starts the new version",
    StepState.ROUTING: "moves requests",
    StepState.ANALYSIS: "is being judged",
    StepState.PAUSED: "pauses",
    StepState.READY: "is done",
    StepState.COMPLETED: "is the last, and done",
}


def place(release: Release) -> str:
    """Which step it is."""
    return f"step {release.step} of {release.steps}" if release.step else "about to begin"


def state(release: Release, *, stopped: bool = False) -> str:
    """What the step does, or waits for. `stopped`: its analysis keeps it from going on."""
    if stopped:
        return "is stopped by its analysis"
    if release.paused:
        return "is paused"
    if release.waits_for_approval:
        return "waits for approval"
    return _STATES.get(release.step_state, release.step_state or release.phase)
