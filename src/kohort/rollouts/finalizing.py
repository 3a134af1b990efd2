"""The end of a release, in order.

The order is what keeps traffic whole. Where the new version lives in a workload of its own, the stable one is at full
size until promotion, so:

| why it ends | order |
|---|---|
| Success | all to the new version, unpin, promote stable, all to stable, canary Service away, release control |
| Rollback | all to stable, lift the hold, release control, unpin when no canary pod is left, canary Service away |
| Disabled, Deleting | all to stable, unpin, canary Service away, lift the hold, release control |
| the same, the hold to be kept | all to stable, release control, leave held, unpin, canary Service away |

Nobody sees the old version again after the last step (success), and the pin goes before stable pods change their
revision, or the stable Service would lose its endpoints while it rolls. Where both versions live in one Deployment, the
control is released last in every order.

Steps that find nothing to do follow each other in one pass; a step that changed something is stored first.
"""

from typing import Final, Literal

import msgspec

from kohort.rollouts.release_state import Act, ActKind, Move, State, World, settled
from kohort.rollouts.traffic.model import Answer, Note
from kohort.rules import rollout_labels

Reason = Literal["Success", "Rollback", "RolloutDisabled", "RolloutDeleting"]

_SUCCESS: Final = (
    rollout_labels.TO_NEW,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.RESUME,
    rollout_labels.TO_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
    rollout_labels.RELEASE_CONTROL,
)
_ROLLBACK: Final = (
    rollout_labels.TO_STABLE,
    rollout_labels.RESUME,
    rollout_labels.RELEASE_CONTROL,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
)
_ROLLBACK_IN_PLACE: Final = (
    rollout_labels.TO_STABLE,
    rollout_labels.RESUME,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
    rollout_labels.RELEASE_CONTROL,
)
_STOPPED: Final = (
    rollout_labels.TO_STABLE,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
    rollout_labels.RESUME,
    rollout_labels.RELEASE_CONTROL,
)
_STOPPED_AND_HELD: Final = (
    rollout_labels.TO_STABLE,
    rollout_labels.RELEASE_CONTROL,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
)
_ACTS: Final[dict[str, ActKind]] = {
    rollout_labels.TO_NEW: "route_all_to_new",
    rollout_labels.TO_STABLE: "route_all_to_stable",
    rollout_labels.RESTORE_STABLE: "restore_stable",
    rollout_labels.REMOVE_CANARY_SERVICE: "remove_canary_service",
}
STALLED_SECONDS: Final = 600


class Finalised(msgspec.Struct, frozen=True):
    """`move` with `done` set when nothing is left."""

    move: Move
    done: bool = False


def order(reason: Reason, world: World) -> tuple[str, ...]:
    if reason == "Success":
        return _SUCCESS
    if reason == "Rollback":
        return _ROLLBACK if world.extra_workload else _ROLLBACK_IN_PLACE
    return _STOPPED_AND_HELD if world.keeps_hold else _STOPPED


def decide(world: World, reason: Reason) -> Finalised:
    if world.state.progress is None or world.progress.finalising_step == rollout_labels.END:
        return Finalised(Move(world.state), done=True)
    steps = order(reason, world)
    if world.progress.finalising_step not in steps:
        state = world.state.with_progress(finalising_step=steps[0], last_update_time=world.stamp)
        world = world.at(state)
    return _at(world, reason)


def answered(world: World, reason: Reason, act: Act, answer: Answer) -> Finalised:
    state = settled(world.state, answer)
    if answer.state == "problem":
        note = Note("FinalisingFailed", answer.text, warning=True)
        return Finalised(Move(_said(state, answer.text), requeue=rollout_labels.RECHECK, notes=(*answer.notes, note)))
    if answer.state == "wait":
        state = _said(state, answer.text) if answer.text else state
        return Finalised(Move(state, requeue=answer.seconds, notes=answer.notes))
    if act.kind in ("write_release", "resume_release", "fill_release", "delete_release"):
        # The BatchRelease answers by an event; should that be lost, we look again.
        return Finalised(Move(state, requeue=rollout_labels.RECHECK, notes=answer.notes))
    return _next(world.at(state), reason, answer)


def _at(world: World, reason: Reason) -> Finalised:
    step = world.progress.finalising_step
    if step == rollout_labels.TO_NEW:
        return _to_new(world, reason)
    if step == rollout_labels.RESUME:
        return _resume(world, reason)
    if step == rollout_labels.RELEASE_CONTROL:
        return _release_control(world, reason)
    if step == rollout_labels.RESTORE_STABLE and reason == "Rollback" and not world.canary_gone:
        return Finalised(
            Move(_said(world.state, "waiting for the pods of the canary to go"), requeue=rollout_labels.RECHECK)
        )
    return Finalised(Move(world.state, Act(_ACTS[step])))


def _to_new(world: World, reason: Reason) -> Finalised:
    """Only a canary that can carry all traffic gets it all. Blue-green makes it so; a canary keeps its last split."""
    replicas = world.workload.replicas if world.workload is not None else 0
    if world.extra_workload and world.progress.ready_replicas < replicas:
        if not world.rollout.blue_green:
            return _next(world, reason, Answer("done", marks=world.progress.grace_times))
        release = world.release
        if release is not None and rollout_labels.FULL_CAPACITY not in release.metadata.annotations:
            return Finalised(Move(world.state, Act("fill_release")))
        waiting = release.status.message if release is not None else "the BatchRelease is gone"
        return Finalised(
            Move(_said(world.state, f"new version grows to full size: {waiting}"), requeue=rollout_labels.RECHECK)
        )
    return Finalised(Move(world.state, Act("route_all_to_new")))


def _resume(world: World, reason: Reason) -> Finalised:
    release = world.release
    if release is None:
        return Finalised(Move(world.state, Act("unhold")))
    policy = rollout_labels.WAIT_RESUME if reason == "Success" else rollout_labels.IMMEDIATE
    if release.status.phase == rollout_labels.COMPLETED:
        return _next(world, reason, Answer("done", marks=world.progress.grace_times))
    asked = release.plan.batch_partition is None and release.plan.finalizing_policy == policy
    if not asked and not release.metadata.deleting:
        return Finalised(Move(world.state, Act("resume_release", policy=policy)))
    notes: tuple[Note, ...] = ()
    waiting = release.status.message or "waiting for the workload to resume"
    if reason == "Success" and world.after(world.progress.last_update_time, STALLED_SECONDS) == 0:
        notes = (
            Note("PromotionStalled", f"the stable workload is not at the new version yet: {waiting}", warning=True),
        )
    return Finalised(Move(_said(world.state, waiting), requeue=rollout_labels.RECHECK, notes=notes))


def _release_control(world: World, reason: Reason) -> Finalised:
    if world.release is None:
        if order(reason, world) is _STOPPED_AND_HELD:
            return Finalised(Move(world.state, Act("leave_held")))
        return _next(world, reason, Answer("done", marks=world.progress.grace_times))
    if not world.release.metadata.deleting:
        return Finalised(Move(world.state, Act("delete_release")))
    return Finalised(Move(world.state, requeue=rollout_labels.RECHECK))


def _next(world: World, reason: Reason, answer: Answer) -> Finalised:
    steps = order(reason, world)
    place = steps.index(world.progress.finalising_step) + 1
    if place == len(steps):
        state = world.state.with_progress(finalising_step=rollout_labels.END, last_update_time=world.stamp)
        return Finalised(Move(state, notes=answer.notes), done=True)
    state = world.state.with_progress(finalising_step=steps[place], last_update_time=world.stamp)
    if answer.changed:
        return Finalised(Move(state, requeue=0.0, notes=answer.notes))
    after = _at(world.at(state), reason)
    return Finalised(msgspec.structs.replace(after.move, notes=(*answer.notes, *after.move.notes)), done=after.done)


def _said(state: State, text: str) -> State:
    return state if state.message == text else msgspec.structs.replace(state, message=text)
