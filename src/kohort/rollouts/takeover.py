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

from kohort.rollouts.release_state import Observation, State
from kohort.rollouts.workloads.model import Workload
from kohort.rules import rollout_labels


def adopted(observation: Observation) -> State:
    """The state as if we had brought it about."""
    state, workload = observation.state, observation.workload
    if state.progress is None:
        return state
    if state.progress.revision_key:
        return _renamed(state, workload)
    return state.with_progress(
        revision_key=workload.revision_key if workload is not None else rollout_labels.TEMPLATE_HASH,
        revision=_released(observation),
        rollout_hash=observation.plan_hash,
        finalising_step=_cursor(observation),
    )


def _renamed(state: State, workload: Workload | None) -> State:
    if workload is None or state.progress is None or state.progress.revision != workload.earlier_canary_revision:
        return state
    return state.with_progress(revision=workload.canary_revision)


def _released(observation: Observation) -> str:
    """What the canary runs. Without one, nothing is out yet: then it is the version that is asked for now."""
    workload = observation.workload
    if workload is None or workload.released:
        return workload.released if workload is not None else ""
    return "" if workload.in_rollback else workload.canary_revision


def _cursor(observation: Observation) -> str:
    state, step = observation.state, observation.progress.finalising_step
    if state.phase in (rollout_labels.DISABLING, rollout_labels.TERMINATING):
        return ""
    succeeded = state.phase == rollout_labels.PROGRESSING and state.reason == rollout_labels.FINALISING
    return rollout_labels.RESTORE_STABLE if succeeded and step and not observation.rollout.blue_green else step
