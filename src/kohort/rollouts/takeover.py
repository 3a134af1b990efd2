"""Continues a Rollout that another implementation of this API has run so far.

Their status has the meaning of ours but for three things. Their hash of the released version cannot be computed here,
so the version is recognised by what the canary runs. Their status does not name the label that they pinned, which is
always that of ReplicaSets. And they end releases in other orders, so an end that they have begun is repeated from the
first of our steps that can follow theirs; a step that is done already finds nothing to do.

| phase | their step | ours |
|---|---|---|
| a canary that succeeded | any | RestoreStableService: they no longer route to the new version |
| blue-green that succeeded, rollback | any | the same: the orders agree |
| Disabling, Terminating | any | from the beginning |

A status of kohort is recognised by its `revisionKey`, which they do not write. Earlier versions of kohort recorded a
version under another name than this one does; it is recognised by that name.
"""

from kohort.rollouts.release_state import Observation, State
from kohort.rollouts.workloads.model import ReleasedWorkload
from kohort.rules import rollout_labels


def adopted(observation: Observation) -> State:
    """The state as kohort would have written it."""
    state, workload = observation.state, observation.workload
    if state.progress is None:
        return state
    if state.progress.revision_key:
        return _with_present_name(state, workload)
    return state.with_progress(
        revision_key=workload.revision_key if workload is not None else rollout_labels.TEMPLATE_HASH,
        revision=_released(observation),
        rollout_hash=observation.plan_hash,
        finalising_step=_finalising_step(observation),
    )


def _with_present_name(state: State, workload: ReleasedWorkload | None) -> State:
    if workload is None or state.progress is None or state.progress.revision != workload.earlier_canary_revision:
        return state
    return state.with_progress(revision=workload.canary_revision)


def _released(observation: Observation) -> str:
    """The version that the canary runs; without a canary, the version that the workload has now."""
    workload = observation.workload
    if workload is None or workload.released:
        return workload.released if workload is not None else ""
    return "" if workload.in_rollback else workload.canary_revision


def _finalising_step(observation: Observation) -> str:
    state, step = observation.state, observation.progress.finalising_step
    if state.phase in (rollout_labels.DISABLING, rollout_labels.TERMINATING):
        return ""
    succeeded = state.phase == rollout_labels.PROGRESSING and state.reason == rollout_labels.FINALISING
    return rollout_labels.RESTORE_STABLE if succeeded and step and not observation.rollout.blue_green else step
