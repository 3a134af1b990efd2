"""A Rollout that another implementation of this API has run so far, taken over where it stands.

Their status is ours but for three things. What they call the version that is released is a hash that only they can
compute: it is known again by what the canary runs. What they pinned is not said: their only key is that of
ReplicaSets. And they end releases in other orders, so an end that they have begun is gone through again, from the
first step of ours that can follow theirs; every step that is done already finds nothing to do.

| phase | their step | ours |
|---|---|---|
| a canary that succeeded | any | RestoreStableService: they send nobody to the new version any more |
| blue-green that succeeded, rollback | any | the same: the orders agree |
| Disabling, Terminating | any | from the beginning |

A status of our own is told by its `revisionKey`, which they do not write. Earlier versions of kohort recorded a version
under another name than this one does; it is known again by that name.
"""

from kohort.rollouts.release_state import State, World
from kohort.rollouts.workloads.model import Workload
from kohort.rules import rollout_labels


def adopted(world: World) -> State:
    """The state as if we had brought it about."""
    state, workload = world.state, world.workload
    if state.progress is None:
        return state
    if state.progress.revision_key:
        return _renamed(state, workload)
    return state.with_progress(
        revision_key=workload.revision_key if workload is not None else rollout_labels.TEMPLATE_HASH,
        revision=_released(world),
        rollout_hash=world.plan_hash,
        finalising_step=_cursor(world),
    )


def _renamed(state: State, workload: Workload | None) -> State:
    if workload is None or state.progress is None or state.progress.revision != workload.earlier_canary_revision:
        return state
    return state.with_progress(revision=workload.canary_revision)


def _released(world: World) -> str:
    """What the canary runs. Without one, nothing is out yet: then it is the version that is asked for now."""
    workload = world.workload
    if workload is None or workload.released:
        return workload.released if workload is not None else ""
    return "" if workload.in_rollback else workload.canary_revision


def _cursor(world: World) -> str:
    state, step = world.state, world.progress.finalising_step
    if state.phase in (rollout_labels.DISABLING, rollout_labels.TERMINATING):
        return ""
    succeeded = state.phase == rollout_labels.PROGRESSING and state.reason == rollout_labels.FINALISING
    return rollout_labels.RESTORE_STABLE if succeeded and step and not world.rollout.blue_green else step
