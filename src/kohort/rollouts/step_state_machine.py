"""The machine of steps, for canary and blue-green.

| state | guard | act | next |
|---|---|---|---|
| BeforeStepUpgrade | the step routes nothing | – | StepUpgrade |
| BeforeStepUpgrade | step 1, and a canary Service is generated | pin the stable Service | StepUpgrade when done |
| BeforeStepUpgrade | otherwise | – | StepUpgrade |
| StepUpgrade | no BatchRelease, or another plan | write it | StepUpgrade |
| StepUpgrade | its plan is not observed, or its batch not ready | – | StepUpgrade |
| StepUpgrade | its batch is ready | – | StepTrafficRouting |
| StepTrafficRouting | | route | StepMetricsAnalysis when done |
| StepMetricsAnalysis | the judgement of `analysis.judge` | – | StepPaused |
| StepPaused | somebody changed the routes | – | StepTrafficRouting |
| StepPaused | canary, last step, replicas exactly "100%" | – | StepReady |
| StepPaused | no duration | – | StepPaused, until approved |
| StepPaused | duration over | – | StepReady |
| StepReady | not the last step | – | BeforeStepUpgrade of the next |
| StepReady | the last step | – | Completed |

Before any of it: a changed nextStepIndex is a jump, and a step that routes nothing first gives back what an earlier
step has routed.
"""

from typing import Final

import msgspec

from kohort.rollouts import step_analysis, step_arithmetic
from kohort.rollouts.release_state import Act, ActKind, Move, State, World, settled
from kohort.rollouts.rollout_types import Batch, ReleasePlan
from kohort.rollouts.traffic.model import Answer, Note
from kohort.rules import rollout_labels

OVERDUE_SECONDS: Final = 30.0
"""Until then pods just start. From then on an event says what a step waits for, too."""
_GIVE_BACK: Final[tuple[ActKind, ...]] = ("restore_stable", "route_all_to_stable", "remove_canary_service")
TIMED_OUT: Final = "StepTimeout"


def decide(world: World) -> Move:
    world = world.at(refreshed(world))
    lost = _lost(world)
    if lost is not None:
        return lost
    jump = jumped(world)
    if jump is not None:
        return jump
    renamed = _renamed(world)
    if renamed is not None:
        return Move(world.state, Act("write_release", renamed))
    if not world.step.routes and world.rollout.strategy.traffic_routings:
        return Move(world.state, Act(_GIVE_BACK[0]))
    return _in_state(world)


def _renamed(world: World) -> ReleasePlan | None:
    """The user gave the release another id: its BatchRelease gets it too, and pods their labels anew."""
    release, name = world.release, world.progress.observed_rollout_id
    if (
        release is None
        or release.plan.rollout_id == name
        or world.progress.current_step_state == rollout_labels.UPGRADE
    ):
        return None
    return msgspec.structs.replace(release.plan, rollout_id=name)


def _lost(world: World) -> Move | None:
    """Somebody deleted the BatchRelease or the canary by hand. Traffic goes back before either may vanish; then the
    step is made again."""
    release, workload = world.release, world.workload
    cursor = world.progress.finalising_step
    gone = workload is not None and workload.canary_lost
    if release is not None and (release.metadata.deleting or gone):
        if cursor != rollout_labels.RELEASE_CONTROL:
            return Move(world.state, Act("route_all_to_stable"))
        return Move(
            world.state, None if release.metadata.deleting else Act("delete_release"), requeue=rollout_labels.RECHECK
        )
    if cursor == rollout_labels.RELEASE_CONTROL and release is None:
        state = world.state.with_progress(finalising_step="", pod_template_hash="", canary_name="")
        return _entered(world.at(state), rollout_labels.BEFORE_UPGRADE)
    return None


def _in_state(world: World) -> Move:
    state = world.progress.current_step_state
    if state == rollout_labels.BEFORE_UPGRADE:
        return _before_upgrade(world)
    if state == rollout_labels.UPGRADE:
        return _upgrade(world)
    if state == rollout_labels.ROUTING:
        return Move(world.state, Act("route"))
    if state == rollout_labels.ANALYSIS:
        return _analyse(world)
    if state == rollout_labels.PAUSED:
        return _paused(world)
    if state == rollout_labels.READY:
        return _ready(world)
    return Move(world.state)


def answered(world: World, act: Act, answer: Answer) -> Move:
    """How a traffic operation of a step went."""
    state = settled(world.state, answer)
    world = world.at(state)
    if answer.state == "problem":
        note = Note("RouteFailed", answer.text, warning=True)
        return Move(_said(state, answer.text), requeue=rollout_labels.RECHECK, notes=(*answer.notes, note))
    if answer.state == "wait":
        if act.kind == "route" and answer.changed:
            state = state.with_progress(last_update_time=world.stamp)
        if act.kind in ("route", "pin_stable") and answer.text:
            state = _said(state, f"{_place(world)}, and route traffic: {answer.text}")
        return Move(state, requeue=answer.seconds or 0.0, notes=answer.notes)
    if act.kind == "withdraw_release":
        return Move(_said(state, f"{state.message}; {_WITHDRAWAL}"), requeue=rollout_labels.RECHECK, notes=answer.notes)
    if act.kind in ("delete_release", "renew_release"):
        return Move(state, requeue=rollout_labels.RECHECK, notes=answer.notes)
    if act.kind == "route_all_to_stable" and _lost(world) is not None:
        return Move(
            state.with_progress(finalising_step=rollout_labels.RELEASE_CONTROL), requeue=0.0, notes=answer.notes
        )
    if act.kind == "route_all_to_stable" and _withdraws(world):
        return Move(state, Act("withdraw_release"), notes=(*answer.notes, _WITHDRAWN))
    if act.kind in _GIVE_BACK:
        return _given_back(world, act, answer)
    if act.kind == "pin_stable":
        return _entered(world, rollout_labels.UPGRADE, answer.notes)
    if act.kind == "route":
        notes = (*answer.notes, *_shifted(world))
        if _too_large(world):
            return Move(state, Act("shrink_release"), notes=notes)
        return _entered(world, rollout_labels.ANALYSIS, notes)
    if act.kind == "shrink_release":
        return _entered(world, rollout_labels.ANALYSIS, answer.notes)
    return Move(state, notes=answer.notes)


def _too_large(world: World) -> bool:
    """A jump back left more replicas than the step wants, and the user would rather have them back. Traffic has moved
    by now, and its grace period has passed."""
    if world.rollout.metadata.annotations.get(rollout_labels.SCALE_DOWN_ON_JUMP) != "true" or world.release is None:
        return False
    replicas = world.workload.replicas if world.workload is not None else 0
    return world.progress.replicas > step_arithmetic.planned(world.step.replicas or 0, replicas)


def _given_back(world: World, act: Act, answer: Answer) -> Move:
    rest = _GIVE_BACK[_GIVE_BACK.index(act.kind) + 1 :]
    if answer.changed:
        return Move(world.state, requeue=0.0, notes=answer.notes)
    return Move(world.state, Act(rest[0]), notes=answer.notes) if rest else _in_state(world)


def _shifted(world: World) -> tuple[Note, ...]:
    step = world.step
    if not step.routes or not world.rollout.strategy.traffic_routings:
        return ()
    service = world.rollout.strategy.traffic_routings[0].service
    what = f"{step.traffic}" if step.traffic and not step.matches else f"{len(step.matches)} match(es)"
    return (Note("TrafficShifted", f"step({world.progress.current_step_index}): routed {what} to {service}-canary"),)


# Before a step


def refreshed(world: World) -> State:
    """The state with what the BatchRelease and the workload say now."""
    progress, release, workload = world.progress, world.release, world.workload
    changes: dict[str, object] = {}
    if release is not None:
        batch = release.status.canary_status
        text = (
            f"BatchRelease is at state {batch.batch_state}, rollout-id {progress.observed_rollout_id}, "
            f"step {batch.current_batch + 1}"
        )
        remark = workload.remark if workload is not None else ""
        changes["message"] = ", ".join(filter(None, (text, release.status.message, remark)))
        changes["replicas"] = batch.updated_replicas
        changes["ready_replicas"] = batch.updated_ready_replicas
    if workload is not None:
        if not progress.pod_template_hash:
            changes["pod_template_hash"] = workload.pod_template_hash
        if workload.canary_name and workload.canary_name != progress.canary_name:
            # A canary that was made anew has another name, and perhaps another hash.
            changes["canary_name"] = workload.canary_name
            changes["pod_template_hash"] = workload.pod_template_hash
    return world.state.with_progress(**changes)


def jumped(world: World) -> Move | None:
    """The user set another next step. A value that names no step is put right, so that the status never lies."""
    progress, count = world.progress, len(world.steps)
    regular = step_arithmetic.next_index(progress.current_step_index, count)
    target = progress.next_step_index
    if target == regular:
        return None
    if not 1 <= target <= count:
        note = Note("JumpRefused", f"nextStepIndex {target} is no step: there are 1 to {count}", warning=True)
        return Move(world.state.with_progress(next_step_index=regular), requeue=0.0, notes=(note,))
    return jump_to(world, target)


def jump_to(world: World, target: int) -> Move:
    count = len(world.steps)
    replicas = world.workload.replicas if world.workload is not None else 0
    wanted = world.steps[target - 1].replicas or 0
    enough = step_arithmetic.planned(wanted, replicas) == world.progress.replicas
    state = world.state.with_progress(
        current_step_index=target,
        next_step_index=step_arithmetic.next_index(target, count),
        current_step_state=rollout_labels.ROUTING if enough else rollout_labels.BEFORE_UPGRADE,
        last_update_time=world.stamp,
    )
    return Move(state, requeue=0.0, notes=(Note("StepStarted", f"jumped to step({target}/{count})"),))


# The states


def _before_upgrade(world: World) -> Move:
    pinned = not world.rollout.strategy.disable_generate_canary_service
    first = world.progress.current_step_index == 1
    if world.step.routes and first and pinned and world.rollout.strategy.traffic_routings:
        return Move(world.state, Act("pin_stable"))
    return _entered(world, rollout_labels.UPGRADE)


def _upgrade(world: World) -> Move:
    index, release = world.progress.current_step_index, world.release
    state, notes, requeue = _waiting(world)
    plan = wanted_plan(world, index - 1)
    if release is None or release.plan != plan:
        return Move(state, Act("write_release", plan), requeue, notes)
    if _withdraws(world):
        withdrawn = rollout_labels.WITHDRAWN in release.metadata.annotations
        return Move(state, None if withdrawn else Act("route_all_to_stable"), requeue, notes)
    if rollout_labels.WITHDRAWN in release.metadata.annotations:
        return Move(state, Act("renew_release"), requeue, notes)
    batch = release.status.canary_status
    if not _is_answered(world) or batch.batch_state != rollout_labels.BATCH_READY or batch.current_batch + 1 < index:
        return Move(state, requeue=requeue, notes=notes)
    done = Note("Progressing", f"upgrade step({index}) canary pods with new versions done")
    if world.workload is not None:
        state = state.with_progress(pod_template_hash=world.workload.pod_template_hash)
    return _entered(world.at(state), rollout_labels.ROUTING, (done,))


def _is_answered(world: World) -> bool:
    """What the BatchRelease says is about the plan that it has now."""
    release = world.release
    return (
        release is not None
        and release.status.observed_release_plan_hash == world.release_hash
        and release.status.observed_generation >= release.metadata.generation
    )


def _allowed_seconds(world: World) -> int:
    """How long a step may take by the user's word; 0 without one."""
    text = world.rollout.metadata.annotations.get(rollout_labels.STEP_TIMEOUT, "")
    return int(text) if text.isdigit() else 0


def _timed_out(world: World) -> bool:
    allowed = _allowed_seconds(world)
    return allowed > 0 and world.after(world.progress.last_update_time, allowed) == 0


def _withdraws(world: World) -> bool:
    """The user wants a version that is not ready in time to be taken back: traffic to stable, no replicas of it. The
    template stays theirs; with the old one, another one, or more time, the release goes on."""
    action = world.rollout.metadata.annotations.get(rollout_labels.STEP_TIMEOUT_ACTION, "")
    return action == "rollback" and world.progress.current_step_state == rollout_labels.UPGRADE and _timed_out(world)


_WITHDRAWAL: Final = (
    "withdrawn: requests go to the stable version, the canary is scaled to 0; put the old template back, release "
    f"another one, or raise the annotation {rollout_labels.STEP_TIMEOUT}"
)
_WITHDRAWN: Final = Note("Withdrawn", f"the new version was not ready in time, {_WITHDRAWAL}", warning=True)


def _waiting(world: World) -> tuple[State, tuple[Note, ...], float | None]:
    """What a step says while its replicas are brought up: what it waits for; after a while by an event, too; and when
    it takes longer than the user allowed, that. Also, when there is more to say at the latest."""
    release = world.release
    waiting = release.status.message if release is not None and _is_answered(world) else ""
    if _timed_out(world):
        return _overdue(world, waiting)
    text = f"{_place(world)}, and upgrade workload to new version"
    state = _said(world.state, f"{text}: {waiting}" if waiting else text)
    since = world.progress.last_update_time
    quiet, allowed = world.after(since, OVERDUE_SECONDS), world.after(since, _allowed_seconds(world))
    told = (Note("StepWaiting", f"step({_fraction(world)}): {waiting}"),) if waiting and not quiet else ()
    return state, told, min((left for left in (quiet, allowed) if left > 0), default=None)


def _overdue(world: World, waiting: str) -> tuple[State, tuple[Note, ...], None]:
    """Told once. A version that was withdrawn has no pods any more: what was wrong with them stays said."""
    release, before = world.release, world.state.message
    if release is not None and rollout_labels.WITHDRAWN in release.metadata.annotations:
        return (world.state if _WITHDRAWAL in before else _said(world.state, _WITHDRAWN.message)), (), None
    passed = f"step({_fraction(world)}) not ready after {_allowed_seconds(world)}s: "
    text = passed + (waiting or "no batch yet")
    notes = () if before.startswith(passed) else (Note(TIMED_OUT, text, warning=True),)
    return _said(world.state, text), notes, None


def _place(world: World) -> str:
    return f"Rollout is in step({_fraction(world)})"


def _fraction(world: World) -> str:
    return f"{world.progress.current_step_index}/{len(world.steps)}"


def wanted_plan(world: World, batch: int) -> ReleasePlan:
    """The plan that the BatchRelease should have while this batch is the last one allowed."""
    rollout, strategy = world.rollout, world.rollout.strategy
    return ReleasePlan(
        batches=tuple(Batch(step.replicas or 0) for step in strategy.steps),
        batch_partition=batch,
        rollout_id=world.progress.observed_rollout_id,
        failure_threshold=strategy.failure_threshold,
        patch_pod_template_metadata=strategy.patch_pod_template_metadata,
        rolling_style=rollout.style,
        enable_extra_workload_for_canary=strategy.enable_extra_workload_for_canary,
    )


def _analyse(world: World) -> Move:
    verdict = step_analysis.judge(world)
    if verdict.state == "passed":
        return _entered(world, rollout_labels.PAUSED, keep_time=True)
    return Move(_said(world.state, verdict.text), requeue=verdict.seconds)


def _paused(world: World) -> Move:
    index, count = world.progress.current_step_index, len(world.steps)
    step = world.step
    if world.astray:
        text = f"step({index}/{count}): the traffic is not carried as it should be, it is routed again: {world.astray}"
        return _entered(world, rollout_labels.ROUTING, (Note("RoutesChanged", text, warning=True),))
    if world.rollout.skips_pause(index):
        return _entered(world, rollout_labels.READY)
    duration = step.pause_seconds
    if duration is None:
        text = f"{_place(world)}, and you need manually confirm to enter the next step"
        asked = world.state.message != text
        notes = (Note("StepPausedForApproval", text),) if asked else ()
        return Move(_said(world.state, text), notes=notes)
    left = world.after(world.progress.last_update_time, duration)
    if left > 0:
        text = f"{_place(world)}, and wait duration({duration} seconds) to enter the next step"
        return Move(_said(world.state, text), requeue=left)
    return _entered(world, rollout_labels.READY)


def _ready(world: World) -> Move:
    index, count = world.progress.current_step_index, len(world.steps)
    if index >= count:
        return _entered(world, rollout_labels.COMPLETED)
    state = world.state.with_progress(
        current_step_index=index + 1, next_step_index=step_arithmetic.next_index(index + 1, count)
    )
    return _entered(
        world.at(state), rollout_labels.BEFORE_UPGRADE, (Note("StepStarted", f"step({index + 1}/{count})"),)
    )


def _entered(world: World, step_state: str, notes: tuple[Note, ...] = (), *, keep_time: bool = False) -> Move:
    """Another state, from now on. The next pass goes on at once."""
    changes = {} if keep_time else {"last_update_time": world.stamp}
    return Move(world.state.with_progress(current_step_state=step_state, **changes), requeue=0.0, notes=notes)


def _said(state: State, text: str) -> State:
    return state if state.message == text else _replaced(state, text)


def _replaced(state: State, text: str) -> State:
    return State(state.phase, text, state.conditions, state.progress)
