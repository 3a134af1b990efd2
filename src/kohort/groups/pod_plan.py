"""What the pod controller does for one pod of a set: the first row that applies.

| pod | action |
|---|---|
| was created without the webhook | ReplacePod, after a delay that grows from one time to the next |
| has no place in a group, by its labels or by its name | none |
| demands that its group is recreated (`restart_decision`) | RecreateGroup, DelayRecreation, or HoldGroup |
| has failed, and its engine gets time to recover (`engine_recovery`) | BeginRecovery, AwaitRecovery, or GiveUpRestart |
| belongs to a group that is being recreated | none |
| is a worker, or a leader that is being deleted | none |
| is a leader that looks like a worker | ReportMissingStartOrdinals |
| is a leader | CompleteGroup |

What a leader needs then: its Service and its gang if the set asks for them, and the StatefulSet of its workers
(`plan_workers`), the first row that applies:

| group | action |
|---|---|
| has one pod only | none |
| starts its workers when the leader is ready, and it is not | none |
| has a StatefulSet of that leader, or of the previous one, which is being deleted | none |
| has a StatefulSet that belongs to something else | ReportNameTaken |
| still has workers of the previous leader (`previous_workers`) | none |
| is placed by the leader's node, and the leader has none | none |
| any other | CreateWorkers |

Where the action is none, a change of a cached object leads to the next decision.
"""

import msgspec

from kohort.groups.engine_recovery import AwaitRecovery, BeginRecovery, GiveUpRestart, RecoveryDecision
from kohort.groups.restart_decision import (
    DelayRecreation,
    GroupBeingRecreated,
    HoldGroup,
    KeepGroup,
    RecreateGroup,
    RestartDecision,
)


class GroupPodObservation(msgspec.Struct, frozen=True):
    deleting: bool = False
    leader: bool = False
    missed_webhook: bool = False
    replacement_delay: float = 0.0
    """Seconds until a pod that missed the webhook may be replaced again."""
    carries_leader_name: bool = False
    """Has the annotation that only workers get."""
    restart: RestartDecision | None = None
    """None for a pod without a place in a group."""


class DoNothing(msgspec.Struct, frozen=True):
    pass


class Wait(msgspec.Struct, frozen=True):
    seconds: float


class ReplacePod(msgspec.Struct, frozen=True):
    """Delete a pod that missed the webhook: its StatefulSet creates it again."""


class ReportMissingStartOrdinals(msgspec.Struct, frozen=True):
    pass


class CompleteGroup(msgspec.Struct, frozen=True):
    """Create what a leader's group lacks."""


PodAction = (
    DoNothing
    | Wait
    | ReplacePod
    | RecreateGroup
    | DelayRecreation
    | HoldGroup
    | RecoveryDecision
    | ReportMissingStartOrdinals
    | CompleteGroup
)


def plan_pod(pod: GroupPodObservation) -> PodAction:
    if pod.missed_webhook:
        if pod.deleting:
            return DoNothing()
        return Wait(pod.replacement_delay) if pod.replacement_delay > 0 else ReplacePod()
    match pod.restart:
        case None | GroupBeingRecreated():
            return DoNothing()
        case RecreateGroup() | DelayRecreation() | HoldGroup() as action:
            return action
        case BeginRecovery() | AwaitRecovery() | GiveUpRestart() as action:
            return action
        case KeepGroup():
            return _plan_healthy(pod)


def _plan_healthy(pod: GroupPodObservation) -> PodAction:
    if not pod.leader or pod.deleting:
        return DoNothing()
    return ReportMissingStartOrdinals() if pod.carries_leader_name else CompleteGroup()


class WorkersObservation(msgspec.Struct, frozen=True):
    size: int
    """Of the group, at the leader's revision."""
    start_after_leader: bool = False
    """The workers start when the leader is ready."""
    leader_ready: bool = False
    leader_has_node: bool = False
    by_leaders_node: bool = False
    """Workers are placed in the topology of the leader's node."""
    exists: bool = False
    """A StatefulSet of that name."""
    owned_by_pod: bool = False
    """It belongs to a leader: this one, or the previous one."""
    owner: str = ""
    """Kind and name of its owner; empty if it has none."""
    previous_workers: bool = False


class ReportNameTaken(msgspec.Struct, frozen=True):
    owner: str


class CreateWorkers(msgspec.Struct, frozen=True):
    """Create the StatefulSet of a group's workers."""


WorkersAction = DoNothing | ReportNameTaken | CreateWorkers


def plan_workers(group: WorkersObservation) -> WorkersAction:
    if group.size <= 1 or (group.start_after_leader and not group.leader_ready):
        return DoNothing()
    if group.exists:
        return DoNothing() if group.owned_by_pod else ReportNameTaken(group.owner)
    if group.previous_workers or (group.by_leaders_node and not group.leader_has_node):
        return DoNothing()
    return CreateWorkers()
