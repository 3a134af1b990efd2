"""The machine of a release: from the first look at a new version until everything is put away.

| reason | guard | next |
|---|---|---|
| Initializing | objects of traffic exist, 3 s have passed, the TrafficRouting is joined | InRolling |
| Initializing, InRolling | the template is the stable one again | Cancelling |
| InRolling | strategy.paused | Paused |
| InRolling | yet another template | traffic back, canary away, Initializing |
| InRolling | another plan | the step that fits it |
| InRolling | all steps completed | Finalising |
| Paused | not paused any more | InRolling |
| Finalising | done | Completed, Succeeded=True |
| Cancelling | done | Completed, Succeeded=False |

A rollback is taken while paused too, and both a rollback and another version while finalising, as long as the stable
workload is still held: nothing has been promoted then.
"""

from typing import Final

import msgspec

from kohort.rollouts import finalizing, step_arithmetic, step_state_machine
from kohort.rollouts.finalizing import Finalised
from kohort.rollouts.release_state import Act, Move, State, World, settled, with_condition, with_reason, with_refs
from kohort.rollouts.rollout_types import Progress
from kohort.rollouts.traffic.model import Answer, Note
from kohort.rollouts.traffic.services import same_keys
from kohort.rules import rollout_labels

IN_PROGRESS: Final = "Rollout is in Progressing"
COMPLETED_MESSAGE: Final = "Rollout progressing has been completed"
CANCELED_MESSAGE: Final = "Rollout progressing has been canceled"
_SETTLE_SECONDS: Final = 3.0


def decide(world: World) -> Move:
    reason = world.state.reason
    if world.workload is None:
        return _without_workload(world)
    if reason == rollout_labels.INITIALIZING or world.state.progress is None:
        return _initializing(world)
    if reason == rollout_labels.IN_ROLLING:
        return _in_rolling(world)
    if reason == rollout_labels.REASON_PAUSED:
        return _paused(world)
    if reason == rollout_labels.FINALISING:
        world = world.at(step_state_machine.refreshed(world))
        return _turned(world) or _finalising(world, finalizing.decide(world, "Success"))
    if reason == rollout_labels.CANCELLING:
        return _cancelling(world, finalizing.decide(world, "Rollback"))
    return Move(world.state)


def answered(world: World, act: Act, answer: Answer) -> Move:
    reason = world.state.reason
    if world.workload is None:
        return _workload_gone(world, finalizing.answered(world, "RolloutDeleting", act, answer))
    if reason == rollout_labels.INITIALIZING:
        return _checked(world, act, answer)
    if reason == rollout_labels.FINALISING:
        return _finalising(world, finalizing.answered(world, "Success", act, answer))
    if reason == rollout_labels.CANCELLING:
        return _cancelling(world, finalizing.answered(world, "Rollback", act, answer))
    if is_superseded(world):
        return _reset_answered(world, act, answer)
    return step_state_machine.answered(world, act, answer)


# Initializing


def _initializing(world: World) -> Move:
    if _given_up(world):
        return _rolled_back(world)
    state = msgspec.structs.replace(world.state, progress=first_progress(world))
    if world.rollout.strategy.traffic_routings:
        workload = world.workload
        if workload is not None and workload.stable_revision and workload.expected_key == workload.stable_revision:
            problem = Answer("problem", text=same_keys(workload.stable_revision))
            return _checked(world.at(state), Act("check"), problem)
        return Move(state, Act("check"))
    return _checked(world.at(state), Act("check"), Answer("done"))


def _given_up(world: World) -> bool:
    """The old template is back before the release could begin: something that it needs may be missing for good."""
    workload, progress = world.workload, world.state.progress
    begun = progress is not None and progress.current_step_state == rollout_labels.BEFORE_UPGRADE
    return (
        workload is not None
        and progress is not None
        and begun
        and workload.in_progress
        and workload.in_rollback
        and workload.canary_revision != progress.revision
    )


def first_progress(world: World) -> Progress:
    workload, before = world.workload, world.state.progress
    assert workload is not None
    fresh = Progress(
        observed_workload_generation=workload.generation,
        observed_rollout_id=workload.release_id,
        rollout_hash=world.plan_hash,
        stable_revision=workload.stable_revision,
        revision=workload.canary_revision,
        revision_key=workload.revision_key,
        current_step_index=1,
        next_step_index=step_arithmetic.next_index(1, len(world.steps)),
        current_step_state=rollout_labels.BEFORE_UPGRADE,
        last_update_time=world.stamp,
    )
    if before is not None and msgspec.structs.replace(before, last_update_time="") == msgspec.structs.replace(
        fresh, last_update_time=""
    ):
        return before
    return fresh


def _checked(world: World, act: Act, answer: Answer) -> Move:
    state = world.state
    if act.kind == "check" and world.rollout.strategy.traffic_routings:
        state, _ = with_refs(state, answer, world.now)
    if answer.state == "problem":
        note = Note("InitializeFailed", answer.text, warning=True)
        said = msgspec.structs.replace(state, message=answer.text)
        return Move(said, requeue=rollout_labels.RECHECK, notes=(*answer.notes, note))
    if answer.state == "wait":
        said = msgspec.structs.replace(state, message=answer.text or state.message)
        return Move(said, requeue=answer.seconds or rollout_labels.RECHECK, notes=answer.notes)
    if act.kind == "check":
        condition = state.condition(rollout_labels.PROGRESSING)
        began = condition.last_update_time if condition is not None else ""
        left = world.after(began or "", _SETTLE_SECONDS)
        if left > 0:
            return Move(state, requeue=left, notes=answer.notes)
        if world.rollout.traffic_routing:
            return Move(state, Act("join"), notes=answer.notes)
    count = len(world.steps)
    begun = with_reason(state, rollout_labels.IN_ROLLING, IN_PROGRESS, world.now)
    return Move(begun, requeue=0.0, notes=(*answer.notes, Note("StepStarted", f"step(1/{count})")))


# InRolling


def _in_rolling(world: World) -> Move:
    turned = _turned(world)
    if turned is not None:
        return turned
    if world.rollout.spec.strategy.paused:
        text = "Rollout has been paused, you can resume it by kube-cli"
        return Move(with_reason(world.state, rollout_labels.REASON_PAUSED, text, world.now))
    progress = world.progress
    if progress.rollout_hash and progress.rollout_hash != world.plan_hash:
        return _plan_changed(world)
    if progress.current_step_state == rollout_labels.COMPLETED:
        text = "Rollout has been completed and some closing work is being done"
        state = with_reason(world.state, rollout_labels.FINALISING, text, world.now).with_progress(finalising_step="")
        return Move(state, requeue=0.0)
    return step_state_machine.decide(world.at(_observed(world)))


def _observed(world: World) -> State:
    """Ids and generation follow the workload as long as it has the recorded version."""
    workload, progress = world.workload, world.progress
    if workload is None or workload.canary_revision != progress.revision or workload.in_rollback:
        return world.state
    return world.state.with_progress(
        observed_rollout_id=workload.release_id, observed_workload_generation=workload.generation
    )


def _turned(world: World) -> Move | None:
    """The user has changed their mind: back to the stable version, or on to another one."""
    workload = world.workload
    assert workload is not None
    if not workload.in_progress or workload.canary_revision == world.progress.revision:
        return None
    if workload.in_rollback:
        return _rolled_back(world)
    return _superseded(world) if is_superseded(world) else None


def is_superseded(world: World) -> bool:
    workload = world.workload
    progress = world.state.progress
    return (
        workload is not None
        and progress is not None
        and workload.in_progress
        and not workload.in_rollback
        and bool(progress.revision)
        and workload.canary_revision != progress.revision
    )


def _rolled_back(world: World) -> Move:
    assert world.workload is not None
    notes = [Note("Progressing", "workload has been rollback, then rollout is canceled")]
    if world.rollout.metadata.annotations.get(rollout_labels.ROLLBACK_IN_BATCH) == "true":
        text = "the stable workload was never touched: there is nothing to roll back in batches"
        notes.append(Note("RollbackInBatchIgnored", text))
    text = "The workload has been rolled back and the rollout process will be canceled"
    state = with_reason(world.state, rollout_labels.CANCELLING, text, world.now)
    state = state.with_progress(revision=world.workload.canary_revision, finalising_step="")
    return Move(state, requeue=0.0, notes=tuple(notes))


def _superseded(world: World) -> Move:
    """Traffic back, then the canary of the version in between goes. The pin of the stable Service stays, or pods of the
    next version could be reached before its first step."""
    if not world.extra_workload:
        text = "new version releasing detected in the progress of blue-green release, please rollback first"
        if world.state.message == text:
            return Move(world.state)
        return Move(msgspec.structs.replace(world.state, message=text), notes=(_SUPERSEDED,))
    cursor = world.progress.finalising_step
    if cursor not in _RESET_STEPS or world.state.reason != rollout_labels.IN_ROLLING:
        state = with_reason(world.state, rollout_labels.IN_ROLLING, IN_PROGRESS, world.now)
        state = msgspec.structs.replace(state, message=_MAKING_WAY).with_progress(finalising_step=_RESET_STEPS[0])
        return Move(state, requeue=0.0, notes=(_SUPERSEDED,))
    return _reset_at(world)


_MAKING_WAY: Final = "Workload is continuous release: traffic goes back, then the version in between is removed"
_SUPERSEDED: Final = Note("Progressing", "workload continuous publishing canaryRevision, then restart publishing")
_RESET_STEPS: Final = (rollout_labels.TO_STABLE, rollout_labels.RELEASE_CONTROL, rollout_labels.REMOVE_CANARY_SERVICE)


def _reset_at(world: World) -> Move:
    cursor = world.progress.finalising_step
    if cursor == rollout_labels.TO_STABLE:
        return Move(world.state, Act("route_all_to_stable"))
    if cursor == rollout_labels.REMOVE_CANARY_SERVICE:
        return Move(world.state, Act("remove_canary_service"))
    if world.release is None:
        return _reset_next(world, Answer("done", marks=world.progress.grace_times))
    if world.release.metadata.deleting:
        return Move(world.state, requeue=rollout_labels.RECHECK)
    return Move(world.state, Act("delete_release"))


def _reset_answered(world: World, act: Act, answer: Answer) -> Move:
    state = settled(world.state, answer)
    if answer.state == "problem":
        said = msgspec.structs.replace(state, message=answer.text)
        note = Note("FinalisingFailed", answer.text, warning=True)
        return Move(said, requeue=rollout_labels.RECHECK, notes=(*answer.notes, note))
    # The canary Service is deleted without a grace period: no route names it any more.
    gone = act.kind == "remove_canary_service" and answer.changed
    if answer.state == "wait" and not gone:
        return Move(state, requeue=answer.seconds, notes=answer.notes)
    if act.kind == "delete_release":
        return Move(state, requeue=rollout_labels.RECHECK, notes=answer.notes)
    return _reset_next(world.at(state), answer)


def _reset_next(world: World, answer: Answer) -> Move:
    place = _RESET_STEPS.index(world.progress.finalising_step) + 1
    if place < len(_RESET_STEPS):
        return Move(world.state.with_progress(finalising_step=_RESET_STEPS[place]), requeue=0.0, notes=answer.notes)
    state = with_reason(world.state, rollout_labels.INITIALIZING, "Workload is continuous release", world.now)
    note = Note("Superseded", "the version in between is gone, the newest one is released from step 1")
    fresh = msgspec.structs.replace(state, progress=first_progress(world.at(state)))
    return Move(fresh, requeue=0.0, notes=(*answer.notes, note), outcome="superseded")


def _plan_changed(world: World) -> Move:
    """The step that fits what has been released already; the current one is tried first."""
    progress, count = world.progress, len(world.steps)
    target = fitting_step(world)
    state = world.state.with_progress(rollout_hash=world.plan_hash)
    if target == progress.next_step_index:
        state = state.with_progress(current_step_state=rollout_labels.READY, last_update_time=world.stamp)
        return Move(state, requeue=0.0)
    note = Note("Progressing", f"the plan has changed, going on at step({target}/{count})")
    jump = step_state_machine.jump_to(world.at(state), target)
    return msgspec.structs.replace(jump, notes=(note,))


def fitting_step(world: World) -> int:
    release, count = world.release, len(world.steps)
    if release is None or release.plan.batch_partition is None or not release.plan.batches:
        return 1
    replicas = world.workload.replicas if world.workload is not None else 0
    place = min(release.plan.batch_partition, len(release.plan.batches) - 1)
    reached = step_arithmetic.planned(release.plan.batches[place].canary_replicas, replicas)
    candidates: list[int] = [min(max(world.progress.current_step_index, 1), count), *range(1, count + 1)]
    for index in candidates:
        if step_arithmetic.planned(world.steps[index - 1].replicas or 0, replicas) >= reached:
            return int(index)
    return count


# Paused, Finalising, Cancelling


def _paused(world: World) -> Move:
    workload = world.workload
    assert workload is not None
    if workload.in_progress and workload.in_rollback and workload.canary_revision != world.progress.revision:
        return _rolled_back(world)
    if world.rollout.spec.strategy.paused:
        return Move(world.state)
    return Move(with_reason(world.state, rollout_labels.IN_ROLLING, IN_PROGRESS, world.now), requeue=0.0)


def _finalising(world: World, found: Finalised) -> Move:
    if not found.done:
        return found.move
    state = with_condition(
        found.move.state, rollout_labels.SUCCEEDED, "True", rollout_labels.COMPLETED, COMPLETED_MESSAGE, world.now
    )
    state = with_reason(state, rollout_labels.COMPLETED, COMPLETED_MESSAGE, world.now, status="False")
    state = state.with_progress(current_step_state=rollout_labels.COMPLETED, next_step_index=step_arithmetic.NO_STEP)
    note = Note("StablePromoted", "the new version is released, routes and Services are as before")
    return Move(state, requeue=0.0, notes=(*found.move.notes, note), outcome="succeeded")


def _cancelling(world: World, found: Finalised) -> Move:
    if not found.done:
        return found.move
    state = with_condition(
        found.move.state, rollout_labels.SUCCEEDED, "False", rollout_labels.COMPLETED, CANCELED_MESSAGE, world.now
    )
    state = with_reason(state, rollout_labels.COMPLETED, CANCELED_MESSAGE, world.now, status="False")
    state = state.with_progress(current_step_state=rollout_labels.COMPLETED, next_step_index=step_arithmetic.NO_STEP)
    note = Note("RolledBack", "the stable version serves alone again")
    return Move(state, requeue=0.0, notes=(*found.move.notes, note), outcome="rolled_back")


def _without_workload(world: World) -> Move:
    """Somebody deleted the workload: routes, Services and the canary are put away all the same."""
    return _workload_gone(world, finalizing.decide(world, "RolloutDeleting"))


def _workload_gone(world: World, found: Finalised) -> Move:
    if not found.done:
        return found.move
    state = State(phase=rollout_labels.INITIAL, message="Workload Not Found")
    note = Note("WorkloadGone", "the workload was deleted while it was released; what the release had made is gone too")
    return Move(state, notes=(*found.move.notes, note), outcome="deleted")
