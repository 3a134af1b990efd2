"""The phases of a Rollout.

| phase | guard | next |
|---|---|---|
| any | of a kind or style that is not released here | the same, with a message |
| any | deleted | Terminating |
| Progressing | disabled | Disabling |
| other | disabled | Disabled |
| "" | | Initial |
| any but Progressing and what ends it | no workload | Initial, "Workload Not Found" |
| any | the workload's controller is behind | the same, in 3 s |
| Initial | workload there and guarded | Healthy |
| Healthy | the workload is in progress | Progressing |
| Progressing | Completed | Healthy |
| Disabling | put away | Disabled |
| Disabled | not disabled any more | Healthy |
| Terminating | put away | gone |

What a pass does follows the phase that was stored before it: a phase is always visible before it acts.
"""

from typing import Final

import msgspec

from kohort.rollouts import finalizing, release_state_machine, step_arithmetic, takeover
from kohort.rollouts.finalizing import Finalised, Reason
from kohort.rollouts.release_state import Act, Move, State, World, with_condition, with_reason, with_refs, without
from kohort.rollouts.rollout_types import Progress
from kohort.rollouts.traffic.model import Answer, Note
from kohort.rollouts.validation import not_released_here
from kohort.rules import rollout_labels

NOT_FOUND: Final = "Workload Not Found"
NOT_GUARDED: Final = "workload not yet guarded"
HEALTHY_MESSAGE: Final = "rollout is healthy"
DISABLED_MESSAGE: Final = "Rollout is disabled"
BROKEN_OFF_MESSAGE: Final = "Rollout was disabled before the release was completed"
_ENDING: Final[dict[str, Reason]] = {
    rollout_labels.DISABLING: "RolloutDisabled",
    rollout_labels.TERMINATING: "RolloutDeleting",
}


def decide(world: World) -> Move:
    """One pass: the phase as it should be now, and what the phase stored before asks for."""
    before = world.state.phase
    if (text := not_released_here(world.rollout)) and not _given_up(world):
        return _left_alone(world, text)
    world = world.at(takeover.adopted(world))
    if not world.rollout.steps_known and before in ("", rollout_labels.INITIAL):
        return Move(_said(world.state, rollout_labels.INITIAL, "spec.strategy has no steps"))
    moved = next_phase(world)
    if moved.state.phase != before or moved.requeue is not None:
        return moved
    world = world.at(moved.state)
    if before == rollout_labels.PROGRESSING:
        return _with(moved, release_state_machine.decide(world))
    if before in _ENDING:
        return _with(moved, _ended(world, finalizing.decide(world, _ENDING[before])))
    return moved


def _given_up(world: World) -> bool:
    """Deleted or disabled: what can be put back is put back, whoever has changed it."""
    return world.rollout.metadata.deleting or world.rollout.spec.disabled


def _left_alone(world: World, text: str) -> Move:
    notes = (Note("NotSupported", text, warning=True),) if world.state.message != text else ()
    return Move(_said(world.state, world.state.phase or rollout_labels.INITIAL, text), notes=notes)


def answered(world: World, act: Act, answer: Answer) -> Move:
    phase = world.state.phase
    if act.kind == "take_up":
        return Move(world.state, notes=answer.notes)
    if phase in _ENDING:
        return _ended(world, finalizing.answered(world, _ENDING[phase], act, answer))
    return release_state_machine.answered(world, act, answer)


def _with(moved: Move, move: Move) -> Move:
    return msgspec.structs.replace(move, notes=(*moved.notes, *move.notes)) if moved.notes else move


def next_phase(world: World) -> Move:
    state, rollout, workload = world.state, world.rollout, world.workload
    phase = state.phase
    if rollout.metadata.deleting:
        if phase == rollout_labels.TERMINATING:
            return Move(state)
        text = "Rollout is in terminating"
        ended = with_condition(
            state, rollout_labels.TERMINATING, "True", rollout_labels.IN_TERMINATING, text, world.now
        )
        ended = _fresh_cursor(world.at(ended))
        return Move(_said(ended, rollout_labels.TERMINATING, text), requeue=0.0)
    if rollout.spec.disabled:
        return _disabled(world)
    if phase == rollout_labels.DISABLING:
        return Move(state)
    if phase == rollout_labels.DISABLED:
        return Move(_said(_without_steps(world), rollout_labels.HEALTHY, HEALTHY_MESSAGE), requeue=0.0)
    if workload is None:
        if phase == rollout_labels.PROGRESSING:
            return Move(state)
        notes = (_missing(world),) if state.message != NOT_FOUND else ()
        return Move(State(phase=rollout_labels.INITIAL, message=NOT_FOUND), notes=notes)
    if not workload.consistent:
        return Move(
            state if phase else _said(state, rollout_labels.INITIAL, state.message), requeue=rollout_labels.RECHECK
        )
    if phase in ("", rollout_labels.INITIAL):
        if not workload.guarded:
            return Move(_said(state, rollout_labels.INITIAL, NOT_GUARDED), requeue=rollout_labels.RECHECK)
        return Move(_said(state, rollout_labels.HEALTHY, HEALTHY_MESSAGE), requeue=0.0)
    if phase == rollout_labels.HEALTHY:
        return _healthy(world)
    if phase == rollout_labels.PROGRESSING and state.reason == rollout_labels.COMPLETED:
        return Move(msgspec.structs.replace(state, phase=rollout_labels.HEALTHY), requeue=0.0)
    return Move(state)


def _missing(world: World) -> Note:
    ref = world.rollout.spec.workload_ref
    where = f"{ref.kind} {world.rollout.metadata.namespace}/{ref.name}"
    text = f"spec.workloadRef: {where} ({ref.api_version}) does not exist; create it or correct the reference"
    return Note("WorkloadNotFound", text, warning=True)


def _disabled(world: World) -> Move:
    state = world.state
    if state.phase in (rollout_labels.DISABLED, rollout_labels.DISABLING):
        return Move(state)
    if state.phase == rollout_labels.PROGRESSING or _held(world):
        text = "Disabling rollout, release resources"
        return Move(_said(_fresh_cursor(world), rollout_labels.DISABLING, text), requeue=0.0)
    return Move(_said(state, rollout_labels.DISABLED, DISABLED_MESSAGE), requeue=0.0)


def _held(world: World) -> bool:
    return world.workload is not None and world.workload.in_progress


def _healthy(world: World) -> Move:
    state, workload = world.state, world.workload
    assert workload is not None
    if workload.in_progress:
        cleared = msgspec.structs.replace(state, conditions=without(state.conditions, rollout_labels.SUCCEEDED))
        begun = with_reason(cleared, rollout_labels.INITIALIZING, release_state_machine.IN_PROGRESS, world.now)
        return Move(msgspec.structs.replace(begun, phase=rollout_labels.PROGRESSING), requeue=0.0)
    if workload.left_held:
        # An event tells when it says that it is in progress again.
        return Move(state, Act("take_up"), notes=(_TAKEN_UP,))
    if state.progress is None:
        text = "workload deployment is completed"
        return Move(msgspec.structs.replace(state, progress=finished_progress(world), message=text))
    return _resting(world)


_TAKEN_UP: Final = Note("TakenUp", "the workload was left held by a release that was given up; it is released anew")


def finished_progress(world: World) -> Progress:
    """As if the version that runs had been released by us."""
    workload = world.workload
    assert workload is not None
    return Progress(
        observed_rollout_id=workload.release_id,
        observed_workload_generation=workload.generation,
        rollout_hash=world.plan_hash,
        stable_revision=workload.stable_revision,
        pod_template_hash=workload.pod_template_hash or workload.stable_revision,
        revision=workload.canary_revision,
        revision_key=workload.revision_key,
        current_step_index=len(world.steps),
        next_step_index=step_arithmetic.NO_STEP,
        current_step_state=rollout_labels.COMPLETED,
    )


def _resting(world: World) -> Move:
    """Nothing is released. A version that came past us is told once and then taken as the one that runs."""
    state, workload, progress = world.state, world.workload, world.progress
    assert workload is not None
    changes: dict[str, object] = {
        "observed_rollout_id": workload.release_id,
        "observed_workload_generation": workload.generation,
    }
    notes: tuple[Note, ...] = ()
    if progress.revision and workload.canary_revision != progress.revision:
        text = (
            "the workload was changed without being held (it had no replicas, several versions at once, "
            "or the webhook was not asked): this version is rolled out natively, without steps"
        )
        notes = (Note("ReleaseNotControlled", text, warning=True),)
        changes |= {"revision": workload.canary_revision, "stable_revision": workload.stable_revision}
    return _with_refs(world, Move(state.with_progress(**changes), notes=notes))


def _with_refs(world: World, move: Move) -> Move:
    """What the next release would stumble over is said while there is time, and taken back when it is mended."""
    if world.refs is None:
        return move
    state, notes = with_refs(move.state, world.refs, world.now)
    before = move.state.condition(rollout_labels.RESOLVED_REFS)
    if world.refs.state == "problem":
        state = msgspec.structs.replace(state, message=world.refs.text)
    elif world.refs.state == "done" and before is not None and state.message == before.message:
        state = msgspec.structs.replace(state, message=HEALTHY_MESSAGE)
    return msgspec.structs.replace(move, state=state, notes=(*move.notes, *notes))


def _ended(world: World, found: Finalised) -> Move:
    if not found.done:
        return found.move
    state = found.move.state
    if world.state.phase == rollout_labels.DISABLING:
        ended = _broken_off(world.at(state))
        return Move(
            _said(ended, rollout_labels.DISABLED, DISABLED_MESSAGE),
            requeue=0.0,
            notes=found.move.notes,
            outcome="disabled",
        )
    text = "Rollout has been terminated"
    old = state.condition(rollout_labels.TERMINATING)
    if old is not None and old.reason == rollout_labels.COMPLETED:
        return Move(state)
    state = with_condition(state, rollout_labels.TERMINATING, "False", rollout_labels.COMPLETED, text, world.now)
    at_rest = world.state.progress is None or world.progress.finalising_step == rollout_labels.END
    return Move(state, requeue=0.0, notes=found.move.notes, outcome="" if at_rest else "deleted")


def _broken_off(world: World) -> State:
    """Nothing is released any more: neither a step nor the condition says otherwise, now or when the Rollout is enabled
    again."""
    state = with_condition(
        world.state, rollout_labels.SUCCEEDED, "False", rollout_labels.DISABLED, BROKEN_OFF_MESSAGE, world.now
    )
    state = with_reason(state, rollout_labels.COMPLETED, BROKEN_OFF_MESSAGE, world.now, status="False")
    return _without_steps(world.at(state))


def _without_steps(world: World) -> State:
    """The progress of a release that was broken off, once it is over: as if what runs now had been released."""
    progress, workload = world.state.progress, world.workload
    if progress is None or progress.current_step_state == rollout_labels.COMPLETED:
        return world.state
    at_rest = {"current_step_state": rollout_labels.COMPLETED, "next_step_index": step_arithmetic.NO_STEP}
    if workload is None or workload.in_progress or workload.left_held:
        return world.state.with_progress(**at_rest)
    finished = msgspec.structs.replace(
        finished_progress(world), observed_rollout_id=progress.observed_rollout_id, finalising_step=rollout_labels.END
    )
    return msgspec.structs.replace(world.state, progress=finished)


def _fresh_cursor(world: World) -> State:
    """A release that is broken off ends in another order than the one it may be in the middle of. A workload that was
    held a moment ago is let go even where no release has begun."""
    state = world.state
    running = state.phase == rollout_labels.PROGRESSING and state.reason != rollout_labels.COMPLETED
    if state.progress is None and _held(world):
        state = msgspec.structs.replace(state, progress=finished_progress(world))
    if state.progress is None:
        return state
    return state.with_progress(finalising_step="" if running or _held(world) else rollout_labels.END)


def _said(state: State, phase: str, message: str) -> State:
    return msgspec.structs.replace(state, phase=phase, message=message)
