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
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from kohort.groups import wire


class PodFacts(msgspec.Struct, frozen=True):
    name: str
    phase: str = "Running"
    restarted: bool = False
    """A container or init container has restarted since the pod was created."""
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
    if group.policy not in (wire.RECREATE_ON_RESTART, wire.RECREATE_WHEN_STARTED):
        return Verdict("nothing", "the policy leaves pods to themselves")
    if not (pod.restarted and pod.phase in ("Running", "Pending")) and not pod.deleting:
        return Verdict("nothing", "the pod is in order")
    if group.policy == wire.RECREATE_WHEN_STARTED and not _started(group):
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


def _started(group: GroupFacts) -> bool:
    return len(group.pods) == group.size and all(pod.phase != "Pending" for pod in group.pods)
