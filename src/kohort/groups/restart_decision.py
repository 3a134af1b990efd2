"""When a group is recreated as a whole.

| policy | a restart or deletion of one pod |
|---|---|
| None | concerns that pod alone |
| RecreateGroupOnPodRestart | recreates the group |
| RecreateGroupAfterStart | recreates the group, once all its pods have started |

A group is recreated by deleting its leader in the foreground: what the leader owns is deleted first, so the new leader
appears only when nothing of the old group is left. Three kinds of pods look like failures and are none: workers of an
older revision that are being deleted after their leader was replaced, workers of an earlier leader of the same
revision, and anything that happens while the group is already being recreated.

With RecreateGroupAfterStart, containers that restarted while the group started never count: restart counts never fall,
so what they were when the last pod had started is remembered (`RestartBaselines`) and only more than that counts. An
operator that starts anew takes the counts that it finds.

A group whose containers fail again right after it was recreated is recreated after a delay that grows
(`rules.restart_backoff`). A pod that is deleted recreates its group at once: the pod does not exist any more a moment
later, so there would be nothing left to decide by after a delay.

A set may give its groups a budget (`restart_budget`). A group that has used it up is held: it is not recreated any
more. A pod that is deleted for the sake of its node (eviction, drain, loss of the node) recreates its group without
cost. A set may also give its engine time to recover by itself, while the leader is ready (`engine_recovery`).
"""

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from kohort.groups.engine_recovery import EngineRecovery, RecoveryDecision, decide_recovery
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.kube.resources import Key
from kohort.rules import group_labels


def restart_policy(group_set: LeaderWorkerSet) -> str:
    """The policy, with the annotation that preceded the value RecreateGroupAfterStart."""
    policy = group_set.template.restart_policy
    if (
        policy == group_labels.RECREATE_ON_RESTART
        and group_labels.RECREATE_AFTER_START in group_set.metadata.annotations
    ):
        return group_labels.RECREATE_WHEN_STARTED
    return policy


class PodFacts(msgspec.Struct, frozen=True):
    phase: str = "Running"
    restarted: bool = False
    """A container or init container has restarted since the pod was created, or since its group had started."""
    down: bool = False
    """A container has ended, and has not restarted yet."""
    deleting: bool = False
    disrupted: bool = False
    """It is deleted for the sake of its node: evicted, drained or preempted."""
    leader: bool = False
    ready: bool = False
    revision: str = ""
    recovery: EngineRecovery | None = None
    """The time that the set gives its engine to recover from a failure of this pod."""


class GroupFacts(msgspec.Struct, frozen=True):
    policy: str
    size: int
    """Pods that the group has at its own revision."""
    pods: Sequence[PodFacts]
    """Empty under policies that do not ask whether the group has started."""
    leader: PodFacts | None
    owned: bool = True
    """The pod is owned by the leader that exists now, by uid, and is one of the pods that the group has."""
    recreations: int = 0
    """How often in a row the group was recreated for failures."""
    delay: float = 0.0
    """Seconds until a failure may recreate it again."""
    held: bool = False
    """Its budget was used up while it had this leader."""
    exhausted: bool = False
    """Its budget has no restart left."""


class KeepReason(Enum):
    """Why nothing is done for a pod."""

    POLICY_CONCERNS_POD_ALONE = "policy"
    POD_HEALTHY = "healthy"
    GROUP_STARTING = "starting"
    LEADER_GONE = "leader gone"
    POD_OF_OLDER_REVISION = "older revision"
    POD_OF_PREVIOUS_LEADER = "previous leader"
    NO_PLACE_IN_GROUP = "no place in a group"
    BUDGET_EXHAUSTED = "budget exhausted"


class RestartCause(Enum):
    """What happened to the pod because of which a group is recreated. The values are those of the metric's label."""

    POD_RESTARTED = "restarted"
    POD_DELETED = "deleted"
    NODE_LOST = "node-lost"


class KeepGroup(msgspec.Struct, frozen=True):
    reason: KeepReason


class GroupBeingRecreated(msgspec.Struct, frozen=True):
    """The leader is being deleted already."""


class RecreateGroup(msgspec.Struct, frozen=True):
    cause: RestartCause
    counts: bool = True
    """Against the budget of the group."""


class DelayRecreation(msgspec.Struct, frozen=True):
    seconds: float
    recreations: int


class HoldGroup(msgspec.Struct, frozen=True):
    """The budget is used up: the group stays as it is, and the set says so."""

    cause: RestartCause


RestartDecision = KeepGroup | GroupBeingRecreated | RecreateGroup | DelayRecreation | HoldGroup | RecoveryDecision


def decide_restart(pod: PodFacts, group: GroupFacts) -> RestartDecision:
    """What the state of `pod` means for its group."""
    if group.policy not in (group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED):
        return KeepGroup(KeepReason.POLICY_CONCERNS_POD_ALONE)
    if not (_has_failed(pod) and pod.phase in ("Running", "Pending")) and not pod.deleting:
        return KeepGroup(KeepReason.POD_HEALTHY)
    if group.policy == group_labels.RECREATE_WHEN_STARTED and not has_started(group):
        return KeepGroup(KeepReason.GROUP_STARTING)
    leader = pod if pod.leader else group.leader
    if leader is None:
        return KeepGroup(KeepReason.LEADER_GONE)
    if not pod.leader and leader.revision != pod.revision:
        return KeepGroup(KeepReason.POD_OF_OLDER_REVISION)
    if not pod.leader and not group.owned:
        return KeepGroup(KeepReason.POD_OF_PREVIOUS_LEADER)
    if leader.deleting:
        return GroupBeingRecreated()
    if group.held:
        return KeepGroup(KeepReason.BUDGET_EXHAUSTED)
    if not pod.deleting and not pod.leader:
        recovery = decide_recovery(pod.recovery, leader_ready=leader.ready, pod_ready=pod.ready)
        if recovery is not None:
            return recovery
    if pod.deleting and pod.disrupted:
        return RecreateGroup(RestartCause.POD_DELETED, counts=False)
    if group.exhausted:
        return HoldGroup(RestartCause.POD_DELETED if pod.deleting else RestartCause.POD_RESTARTED)
    if pod.deleting:
        return RecreateGroup(RestartCause.POD_DELETED)
    if group.delay > 0:
        return DelayRecreation(group.delay, group.recreations)
    return RecreateGroup(RestartCause.POD_RESTARTED)


def _has_failed(pod: PodFacts) -> bool:
    """A container that is down restarts at once or after a back-off, and counts then. Only the time that an engine has
    to recover begins before, and has begun already if it is noted."""
    if pod.restarted:
        return True
    return pod.recovery is not None and not pod.leader and (pod.down or pod.recovery.left is not None)


def has_started(group: GroupFacts) -> bool:
    return len(group.pods) == group.size and all(pod.phase != "Pending" for pod in group.pods)


class RestartBaselines:
    """Restart counts of the pods of each group when all of them had started, by leader."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, Mapping[str, int]]] = {}

    def of(self, leader: Key, uid: str) -> Mapping[str, int] | None:
        """Counts by uid of the pod; None while the group of this very leader has not started."""
        known, counts = self._known.get(leader, ("", None))
        return counts if known == uid else None

    def set(self, leader: Key, uid: str, counts: Mapping[str, int]) -> None:
        self._known[leader] = (uid, counts)

    def forget(self, leader: Key) -> None:
        self._known.pop(leader, None)
