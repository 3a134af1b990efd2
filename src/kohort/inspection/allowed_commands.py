"""Which commands the state of a workload permits.

Commands ask before they write, and `kohort explain` asks before it recommends one: both get the same answer.

| command | is permitted if |
|---|---|
| approve | a step of its Rollout waits, for an approval or for its time to pass |
| approve --step N | its Rollout is rolling and has a step N; later: if its analysis permits it; the next: as approve |
| abort | the version that is wanted is not the stable one, and that is still kept |
| resume | its Rollout is paused, or the workload itself |
| undo | an earlier version is kept that served |
"""

from collections.abc import Iterable

from kohort.inspection.advice import Advice, Command, Verb, alternatives
from kohort.inspection.history import NoSuchRevision, previous
from kohort.inspection.release import (
    failed_analysis,
    is_at_pause,
    is_outdated,
    is_rolling,
    is_withdrawn,
    may_jump_to,
    overridable_analysis,
    stopping_analysis,
)
from kohort.inspection.release_subject import Subject, command, title
from kohort.inspection.roll_pause import paused
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import rollout_labels


def refusal(subject: Subject, verb: Verb) -> str:
    """Why the command is not permitted; empty if it is."""
    match verb:
        case Verb.APPROVE:
            return approval_refusal(subject)
        case Verb.ABORT:
            return abort_refusal(subject)
        case Verb.RESUME:
            return resume_refusal(subject)
        case Verb.UNDO:
            return undo_refusal(subject)
        case _:
            return ""


def offered(subject: Subject, words: str, offers: Iterable[tuple[str, Command]]) -> Advice:
    """Advice with those commands that would be accepted now."""
    return alternatives(words, [one for one in offers if not refusal(subject, one[1].verb)])


def approval_refusal(subject: Subject) -> str:
    rollout = subject.rollout
    if rollout is None:
        return f"no Rollout releases {title(subject)}; only steps of Rollouts wait for approval"
    if subject.releasing and is_at_pause(subject):
        return ""
    name = f"Rollout {rollout.metadata.name}"
    if subject.releasing and (stopped := _stopped(subject, rollout)):
        return f"{name} does not wait for approval: {stopped}"
    return f"{name} does not wait for approval: it is {_state(subject, rollout)}"


def _stopped(subject: Subject, rollout: Rollout) -> str:
    """Why the current step goes on by another command, and by which."""
    step = rollout.status.current_step_index
    if is_outdated(subject):
        return "the template has changed since, and what was released before is removed first"
    judged = overridable_analysis(rollout)
    if judged is None and not is_withdrawn(rollout):
        return ""
    failed = failed_analysis(rollout) is not None
    what = "was rolled back" if is_withdrawn(rollout) else f"{'failed' if failed else 'is held by'} its analysis"
    again = f"begin it again: {command(subject, Verb.RETRY).text}"
    override = f"; or go on in spite of it: {command(subject, Verb.OVERRIDE).text}" if judged is not None else ""
    return f"step {step} {what}; {again}{override}"


def jump_refusal(subject: Subject, step: int) -> str:
    rollout = subject.rollout
    if rollout is None:
        return f"no Rollout releases {title(subject)}; only Rollouts have steps"
    if not subject.releasing or not is_rolling(rollout):
        return f"Rollout {rollout.metadata.name} has no step to leave: it is {_state(subject, rollout)}"
    count = len(rollout.strategy.steps)
    if not 1 <= step <= count:
        return f"Rollout {rollout.metadata.name} has no step {step}: there are 1 to {count}"
    if is_outdated(subject):
        return approval_refusal(subject)
    current = rollout.status.current_step_index
    if not may_jump_to(rollout, step):
        return _held_by_analysis(subject, rollout)
    return approval_refusal(subject) if step == current + 1 else ""


def _held_by_analysis(subject: Subject, rollout: Rollout) -> str:
    """Why no step after the current one may be entered."""
    leaves = f"Rollout {rollout.metadata.name} does not leave step {rollout.status.current_step_index}"
    if overridable_analysis(rollout) is not None:
        return approval_refusal(subject)
    if (found := stopping_analysis(rollout)) is not None:
        return f"{leaves}: {found.message}"
    return f"{leaves} before its analysis has a verdict; to go on without one: {command(subject, Verb.OVERRIDE).text}"


def abort_refusal(subject: Subject) -> str:
    kept = any(one.key == subject.stable_key for one in subject.versions)
    if subject.stable_key and kept and subject.stable_key != subject.update_key:
        return ""
    undo = command(subject, Verb.UNDO)
    return f"{title(subject)} has nothing under way; to return to an earlier one: {undo.text}"


def resume_refusal(subject: Subject) -> str:
    rollout = subject.rollout
    if rollout is not None:
        return "" if paused(subject) else f"Rollout {rollout.metadata.name} is not paused"
    return "" if subject.held else f"{title(subject)} is not paused"


def undo_refusal(subject: Subject) -> str:
    try:
        previous(subject)
    except NoSuchRevision as problem:
        return str(problem)
    return ""


def _state(subject: Subject, rollout: Rollout) -> str:
    status = rollout.status
    if not subject.releasing:
        return status.phase or "not started"
    if status.phase == rollout_labels.PROGRESSING and not is_rolling(rollout):
        return status.reason
    return status.current_step_state or status.phase or "about to begin"
