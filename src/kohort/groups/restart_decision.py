"""When a group is recreated as a whole.

| policy | a restart or deletion of one pod |
|---|---|
| None | concerns that pod alone |
| RecreateGroupOnPodRestart | recreates the group |
| RecreateGroupAfterStart | recreates the group, once all its pods have started |

A group is recreated by deleting its leader in the foreground: what the leader owns goes first, so the new leader
appears only when nothing of the old group is left. Three kinds of pods look like failures and are none: workers of an
older revision that are leaving after their leader was replaced, workers of an earlier generation of the same revision,
and anything that happens while the group is already being recreated.

With RecreateGroupAfterStart, containers that restarted while the group started are forgiven for good: restart counts
never fall, so what they were when the last pod had started is remembered (`Baselines`) and only more than that counts.
An operator that starts anew finds groups as they are and begins from there.

A group whose containers fail again right after it was recreated is not recreated at full speed
(`rules.restart_backoff`). A pod that is deleted does recreate its group at once: it is gone the next moment, and nobody
would know of it any more.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from kohort.kube.resources import Key
from kohort.rules import group_labels


class PodFacts(msgspec.Struct, frozen=True):
    name: str
    phase: str = "Running"
    restarted: bool = False
    """A container or init container has restarted since the pod was created, or since its group had started."""
    deleting: bool = False
    leader: bool = False
    revision: str = ""


class GroupFacts(msgspec.Struct, frozen=True):
    policy: str
    size: int
    """Pods that the group has at its own revision."""
    pods: Sequence[PodFacts]
    leader: PodFacts | None
    belongs: bool = True
    """The pod is owned by the leader that exists now, by uid."""


Answer = Literal["nothing", "being recreated", "recreate"]


class Verdict(msgspec.Struct, frozen=True):
    answer: Answer
    reason: str


def judge(pod: PodFacts, group: GroupFacts) -> Verdict:
    """What the state of `pod` means for its group."""
    if group.policy not in (group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED):
        return Verdict("nothing", "the policy leaves pods to themselves")
    if not (pod.restarted and pod.phase in ("Running", "Pending")) and not pod.deleting:
        return Verdict("nothing", "the pod is in order")
    if group.policy == group_labels.RECREATE_WHEN_STARTED and not started(group):
        return Verdict("nothing", "the group has not started yet")
    leader = pod if pod.leader else group.leader
    if leader is None:
        return Verdict("nothing", "the leader is gone already")
    if not pod.leader and leader.revision != pod.revision:
        return Verdict("nothing", "the pod is a leftover of an older revision")
    if not pod.leader and not group.belongs:
        return Verdict("nothing", "the pod is a leftover of an earlier leader")
    if leader.deleting:
        return Verdict("being recreated", "the leader is being deleted")
    return Verdict("recreate", f"{pod.name} {'is being deleted' if pod.deleting else 'restarted'}")


def started(group: GroupFacts) -> bool:
    return len(group.pods) == group.size and all(pod.phase != "Pending" for pod in group.pods)


class Baselines:
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
