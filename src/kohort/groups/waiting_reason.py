"""What a set waits for, in words: which group, which pod of it, and why that pod is not ready.

The words go into the condition `Waiting`. They are written only when the same obstacle has stood for a while: groups
that simply start would otherwise rewrite the status with every pod.

| reason | the pod |
|---|---|
| LeaderMissing, WorkersMissing | does not exist yet; `inquiry` asks why |
| WorkersRefused | none: the API server refuses the StatefulSet of a group's workers, with its words |
| WebhookMissed | was created while the webhook was away, and is replaced |
| PodTerminating | is being deleted, and is not gone |
| PodUnschedulable | has no node |
| ContainerWaiting | has a container that cannot start, or waits to be restarted |
| GroupFailing | restarted, which recreates its group; but that was done not long ago, and is put off |
| LeaderSetRefused | none: the API server refuses the leader StatefulSet, with its words |
| PodNotReady | runs, or begins to, and does not say that it is ready |
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.groups.caches import BY_GROUP, GroupCache, by_group
from kohort.groups.missed_webhook import missed_webhook
from kohort.kube.errors import BadRequest, Forbidden, Invalid
from kohort.kube.resources import Key
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition
from kohort.objects.unready_reason import stuck_container, why_not_ready
from kohort.rules.group_identity import leader_name, worker_index
from kohort.rules.group_state import GroupState, group_size, pod_is_ready

PATIENCE: Final = 15.0
"""Seconds for which the same obstacle must stand before it is written down."""


LEADER_MISSING: Final = "LeaderMissing"
WORKERS_MISSING: Final = "WorkersMissing"
REFUSALS: Final = (BadRequest, Forbidden, Invalid)
"""Answers of a server that stay the same until somebody mends what they name."""


class Obstacle(msgspec.Struct, frozen=True):
    reason: str
    message: str
    group: int = 0
    leader: str = ""

    @property
    def missing(self) -> bool:
        """Something does not exist, which has a reason that pods cannot tell."""
        return self.reason in (LEADER_MISSING, WORKERS_MISSING)


class Watchman:
    """Remembers since when each set waits for what."""

    def __init__(self, cache: GroupCache) -> None:
        self._cache = cache
        self._since: dict[Key, tuple[Obstacle, float]] = {}

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)

    def report(self, key: Key, wanted: int, states: Mapping[int, GroupState]) -> tuple[Obstacle | None, float]:
        """The obstacle that has stood long enough to be told, if any; and in how many seconds to look again."""
        failing = self._failing(key, wanted)
        if failing is not None:
            return failing, 0.0
        found = self._obstacle(key, wanted, states)
        if found is None:
            self.forget(key)
            return None, 0.0
        now = asyncio.get_running_loop().time()
        known, since = self._since.get(key, (None, now))
        if known != found:
            self._since[key] = (found, now)
            return None, PATIENCE
        left = since + PATIENCE - now
        return (None, left) if left > 0 else (found, 0.0)

    def _failing(self, key: Key, wanted: int) -> Obstacle | None:
        """A group that fails again and again. It may be ready in between, so nothing else would stand for long."""
        if not self._cache.failing:
            return None
        for index in range(wanted):
            leader = leader_name(key.name, index)
            failure = self._cache.failing.get(Key(key.namespace, leader))
            if failure is not None:
                return Obstacle("GroupFailing", f"group {index}: {failure.message}", index, leader)
        return None

    def _obstacle(self, key: Key, wanted: int, states: Mapping[int, GroupState]) -> Obstacle | None:
        """The first group that is not ready decides."""
        for index in range(wanted):
            state = states.get(index)
            if state is None or not state.ready:
                leader = leader_name(key.name, index)
                found = obstacle_in(index, leader, self._members(key, index))
                refusal = self._cache.refused_workers.get(Key(key.namespace, leader))
                if refusal and found is not None and found.reason == WORKERS_MISSING:
                    text = f"group {index}: the StatefulSet of its workers is refused: {refusal}"
                    return Obstacle("WorkersRefused", text, index, leader)
                return found
        return None

    def _members(self, key: Key, index: int) -> list[Pod]:
        leader = self._cache.pods.get(Key(key.namespace, leader_name(key.name, index)))
        if leader is None or missed_webhook(leader):
            return [] if leader is None else [leader]
        return [pod for value in by_group(leader) for pod in self._cache.pods.by_index(BY_GROUP, value)] or [leader]


def obstacle_in(index: int, leader: str, members: Iterable[Pod]) -> Obstacle | None:
    """Why a group is not ready; None when nothing is wrong with the pods that it has."""
    pods = sorted(members, key=_worker)
    if not pods:
        return Obstacle(LEADER_MISSING, f"group {index}: pod {leader} does not exist yet", index, leader)
    for pod in pods:
        found = _why(pod)
        if found is not None:
            return Obstacle(found.reason, f"group {index}: pod {pod.metadata.name} {found.message}")
    size = group_size(pods[0], 1) or 1
    if len(pods) < size:
        text = f"group {index}: {size - len(pods)} of {size - 1} workers do not exist yet"
        return Obstacle(WORKERS_MISSING, text, index, leader)
    return None


def _why(pod: Pod) -> Obstacle | None:
    if missed_webhook(pod):
        return Obstacle("WebhookMissed", "was created while the webhook was away, and is being replaced")
    if pod.metadata.deleting:
        return Obstacle("PodTerminating", _terminating(pod))
    if pod_is_ready(pod):
        return None
    return Obstacle(_reason(pod), f"is {why_not_ready(pod)}")


def _reason(pod: Pod) -> str:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return "PodUnschedulable"
    return "ContainerWaiting" if stuck_container(pod) is not None else "PodNotReady"


def _terminating(pod: Pod) -> str:
    """A group is recreated only when all of it is gone, so a pod on a dead node holds it up. Only a person can know
    that the node will not come back with the pod still running on it."""
    node = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
    return (
        f"is to be gone{node} since {pod.metadata.deletion_timestamp} and still exists; if its node is dead, taint it "
        "with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or delete the pod with --force"
    )


def _worker(pod: Pod) -> int:
    return worker_index(pod.metadata.labels) or 0
