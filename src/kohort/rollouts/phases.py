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

from kohort.rollouts import adopting, arithmetic, finalising, progressing, wire
from kohort.rollouts.api import Progress
from kohort.rollouts.finalising import Finalised, Reason
from kohort.rollouts.state import Act, Move, State, World, with_condition, with_reason, with_refs, without
from kohort.rollouts.traffic.model import Answer, Note
from kohort.rollouts.validation import not_released_here

NOT_FOUND: Final = "Workload Not Found"
NOT_GUARDED: Final = "workload not yet guarded"
HEALTHY_MESSAGE: Final = "rollout is healthy"
DISABLED_MESSAGE: Final = "Rollout is disabled"
BROKEN_OFF_MESSAGE: Final = "Rollout was disabled before the release was completed"
_ENDING: Final[dict[str, Reason]] = {wire.DISABLING: "RolloutDisabled", wire.TERMINATING: "RolloutDeleting"}


def decide(world: World) -> Move:
    """One pass: the phase as it should be now, and what the phase stored before asks for."""
    before = world.state.phase
    if (text := not_released_here(world.rollout)) and not _given_up(world):
        return _left_alone(world, text)
    world = world.at(adopting.adopted(world))
    if not world.rollout.steps_known and before in ("", wire.INITIAL):
        return Move(_said(world.state, wire.INITIAL, "spec.strategy has no steps"))
    moved = next_phase(world)
    if moved.state.phase != before or moved.requeue is not None:
        return moved
    world = world.at(moved.state)
    if before == wire.PROGRESSING:
        return _with(moved, progressing.decide(world))
    if before in _ENDING:
        return _with(moved, _ended(world, finalising.decide(world, _ENDING[before])))
    return moved


def _given_up(world: World) -> bool:
    """Deleted or disabled: what can be put back is put back, whoever has changed it."""
    return world.rollout.metadata.deleting or world.rollout.spec.disabled


def _left_alone(world: World, text: str) -> Move:
    notes = (Note("NotSupported", text, warning=True),) if world.state.message != text else ()
    return Move(_said(world.state, world.state.phase or wire.INITIAL, text), notes=notes)


def answered(world: World, act: Act, answer: Answer) -> Move:
    phase = world.state.phase
    if act.kind == "take_up":
        return Move(world.state, notes=answer.notes)
    if phase in _ENDING:
        return _ended(world, finalising.answered(world, _ENDING[phase], act, answer))
    return progressing.answered(world, act, answer)


def _with(moved: Move, move: Move) -> Move:
    return msgspec.structs.replace(move, notes=(*moved.notes, *move.notes)) if moved.notes else move


def next_phase(world: World) -> Move:
    state, rollout, workload = world.state, world.rollout, world.workload
    phase = state.phase
    if rollout.metadata.deleting:
        if phase == wire.TERMINATING:
            return Move(state)
        text = "Rollout is in terminating"
        ended = with_condition(state, wire.TERMINATING, "True", wire.IN_TERMINATING, text, world.now)
        ended = _fresh_cursor(world.at(ended))
        return Move(_said(ended, wire.TERMINATING, text), requeue=0.0)
    if rollout.spec.disabled:
        return _disabled(world)
    if phase == wire.DISABLING:
        return Move(state)
    if phase == wire.DISABLED:
        return Move(_said(_without_steps(world), wire.HEALTHY, HEALTHY_MESSAGE), requeue=0.0)
    if workload is None:
        if phase == wire.PROGRESSING:
            return Move(state)
        notes = (_missing(world),) if state.message != NOT_FOUND else ()
        return Move(State(phase=wire.INITIAL, message=NOT_FOUND), notes=notes)
    if not workload.consistent:
        return Move(state if phase else _said(state, wire.INITIAL, state.message), requeue=wire.RECHECK)
    if phase in ("", wire.INITIAL):
        if not workload.guarded:
            return Move(_said(state, wire.INITIAL, NOT_GUARDED), requeue=wire.RECHECK)
        return Move(_said(state, wire.HEALTHY, HEALTHY_MESSAGE), requeue=0.0)
    if phase == wire.HEALTHY:
        return _healthy(world)
    if phase == wire.PROGRESSING and state.reason == wire.COMPLETED:
        return Move(msgspec.structs.replace(state, phase=wire.HEALTHY), requeue=0.0)
    return Move(state)


def _missing(world: World) -> Note:
    ref = world.rollout.spec.workload_ref
    where = f"{ref.kind} {world.rollout.metadata.namespace}/{ref.name}"
    text = f"spec.workloadRef: {where} ({ref.api_version}) does not exist; create it or correct the reference"
    return Note("WorkloadNotFound", text, warning=True)


def _disabled(world: World) -> Move:
    state = world.state
    if state.phase in (wire.DISABLED, wire.DISABLING):
        return Move(state)
    if state.phase == wire.PROGRESSING or _held(world):
        text = "Disabling rollout, release resources"
        return Move(_said(_fresh_cursor(world), wire.DISABLING, text), requeue=0.0)
    return Move(_said(state, wire.DISABLED, DISABLED_MESSAGE), requeue=0.0)


def _held(world: World) -> bool:
    return world.workload is not None and world.workload.in_progress


def _healthy(world: World) -> Move:
    state, workload = world.state, world.workload
    assert workload is not None
    if workload.in_progress:
        cleared = msgspec.structs.replace(state, conditions=without(state.conditions, wire.SUCCEEDED))
        begun = with_reason(cleared, wire.INITIALIZING, progressing.IN_PROGRESS, world.now)
        return Move(msgspec.structs.replace(begun, phase=wire.PROGRESSING), requeue=0.0)
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
        next_step_index=arithmetic.NO_STEP,
        current_step_state=wire.COMPLETED,
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
    before = move.state.condition(wire.RESOLVED_REFS)
    if world.refs.state == "problem":
        state = msgspec.structs.replace(state, message=world.refs.text)
    elif world.refs.state == "done" and before is not None and state.message == before.message:
        state = msgspec.structs.replace(state, message=HEALTHY_MESSAGE)
    return msgspec.structs.replace(move, state=state, notes=(*move.notes, *notes))


def _ended(world: World, found: Finalised) -> Move:
    if not found.done:
        return found.move
    state = found.move.state
    if world.state.phase == wire.DISABLING:
        ended = _broken_off(world.at(state))
        return Move(
            _said(ended, wire.DISABLED, DISABLED_MESSAGE), requeue=0.0, notes=found.move.notes, outcome="disabled"
        )
    text = "Rollout has been terminated"
    old = state.condition(wire.TERMINATING)
    if old is not None and old.reason == wire.COMPLETED:
        return Move(state)
    state = with_condition(state, wire.TERMINATING, "False", wire.COMPLETED, text, world.now)
    at_rest = world.state.progress is None or world.progress.finalising_step == wire.END
    return Move(state, requeue=0.0, notes=found.move.notes, outcome="" if at_rest else "deleted")


def _broken_off(world: World) -> State:
    """Nothing is released any more: neither a step nor the condition says otherwise, now or when the Rollout is enabled
    again."""
    state = with_condition(world.state, wire.SUCCEEDED, "False", wire.DISABLED, BROKEN_OFF_MESSAGE, world.now)
    state = with_reason(state, wire.COMPLETED, BROKEN_OFF_MESSAGE, world.now, status="False")
    return _without_steps(world.at(state))


def _without_steps(world: World) -> State:
    """The progress of a release that was broken off, once it is over: as if what runs now had been released."""
    progress, workload = world.state.progress, world.workload
    if progress is None or progress.current_step_state == wire.COMPLETED:
        return world.state
    at_rest = {"current_step_state": wire.COMPLETED, "next_step_index": arithmetic.NO_STEP}
    if workload is None or workload.in_progress or workload.left_held:
        return world.state.with_progress(**at_rest)
    finished = msgspec.structs.replace(
        finished_progress(world), observed_rollout_id=progress.observed_rollout_id, finalising_step=wire.END
    )
    return msgspec.structs.replace(world.state, progress=finished)


def _fresh_cursor(world: World) -> State:
    """A release that is broken off ends in another order than the one it may be in the middle of. A workload that was
    held a moment ago is let go even where no release has begun."""
    state = world.state
    running = state.phase == wire.PROGRESSING and state.reason != wire.COMPLETED
    if state.progress is None and _held(world):
        state = msgspec.structs.replace(state, progress=finished_progress(world))
    if state.progress is None:
        return state
    return state.with_progress(finalising_step="" if running or _held(world) else wire.END)


def _said(state: State, phase: str, message: str) -> State:
    return msgspec.structs.replace(state, phase=phase, message=message)
