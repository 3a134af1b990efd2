"""What follows when a release is approved, paused, resumed, or goes to another step.

The steps are those of the rail; nothing is decided here.
"""

from collections.abc import Mapping, Sequence

from kohort.dashboard.commands import Verb
from kohort.dashboard.release_page import RailStep, rail
from kohort.inspection.readable_amounts import duration_text
from kohort.inspection.release import Release, release_of
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.kube import clock
from kohort.objects.counted_nouns import counted_of

_PAUSED = "The release is paused: this follows when it is resumed."


def release_lines(subject: Snapshot | PlainWorkload, verb: Verb, parameters: Mapping[str, str]) -> list[str]:
    """Empty if no release is under way, or if the verb does not move one."""
    release, rollout = release_of(subject, clock.now()), subject.rollout
    if release is None or rollout is None:
        return []
    steps = rail(rollout, subject.replicas, release)
    noun = "group" if isinstance(subject, Snapshot) else "pod"
    match verb:
        case Verb.APPROVE:
            if "override" in parameters:
                passed = f"Step {release.step} of {release.steps} counts as passed, whatever its analysis finds;"
                return [passed, *_rest(steps, release)]
            lines = _going_on(release, steps, _target(release, steps, parameters), subject.replicas, noun)
            return [*lines, _PAUSED] if release.paused and lines else lines
        case Verb.PAUSE:
            return [
                f"The release stays at step {release.step} of {release.steps} until it is resumed.",
                "Both versions keep running, and requests stay divided as they are.",
            ]
        case Verb.RESUME:
            return [f"The release goes on from step {release.step} of {release.steps}."]
        case Verb.RETRY:
            return [f"Step {release.step} of {release.steps} begins again, and is judged again if it is judged at all."]
    return []


def _rest(steps: Sequence[RailStep], release: Release) -> list[str]:
    """What a step that has passed its analysis still does itself."""
    return [f"  {_then(steps[release.step - 1], release.step == len(steps))}"] if release.step else []


def _target(release: Release, steps: Sequence[RailStep], parameters: Mapping[str, str]) -> int:
    if "full" in parameters:
        return len(steps)
    return int(parameters["step"]) if parameters.get("step") else release.step + 1


def _going_on(release: Release, steps: Sequence[RailStep], target: int, replicas: int, noun: str) -> list[str]:
    if target > len(steps):
        return [
            f"Step {release.step} is the last: all {noun}s get the new version, and the release ends.",
            "The stable version is gone then; the history keeps its template.",
        ]
    step = steps[target - 1] if target > 0 else None
    if step is None:
        return []
    lines = [f"The release goes {'back ' if target < release.step else ''}to step {target} of {release.steps}:"]
    if target - release.step > 1:
        lines = [f"The release leaves out {_left_out(release.step, target)} and goes to step {target}:"]
    lines.append(f"  {counted_of(step.groups, replicas, noun)} of the new version")
    if step.traffic:
        lines.append(f"  {step.traffic} of the requests go to it")
    if step.matches:
        lines.append(f"  requests with {' or '.join(step.matches)} go to it")
    lines.append(f"  {_then(step, target == len(steps))}")
    return lines


def _left_out(current: int, target: int) -> str:
    first, last = current + 1, target - 1
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _then(step: RailStep, last: bool) -> str:
    after = "the release ends" if last else "the next step follows"
    if step.waits_for_approval:
        return f"then it waits for approval; after that {after}"
    if step.pause_seconds is not None:
        return f"then it waits {duration_text(step.pause_seconds)}; after that {after}"
    return f"then {after}"
