"""What a set waits for: which group, which pod of it, and why that pod is not ready.

This is reported in the condition `Waiting`. It is written only when the same obstacle has stood for a while: groups
that simply start would otherwise rewrite the status with every pod.

| reason | the pod |
|---|---|
| LeaderMissing, WorkersMissing | does not exist yet; `missing_pod_cause` asks why |
| NameTaken | cannot be created: an object of that name does not belong to the set |
| PodRefused | cannot be created: the API server refuses it, with its message |
| WorkersRefused | none: the API server refuses the StatefulSet of a group's workers, with its message |
| RevisionMissing | none: workers cannot be created, because the revision that describes them was deleted |
| WebhookMissed | was created while the webhook was away, and is replaced |
| PodTerminating | is being deleted, and still exists |
| PodUnschedulable | has no node |
| ContainerWaiting | has a container that cannot start, or waits to be restarted |
| GroupFailing | restarted, which recreates its group; but that was done not long ago, and is delayed |
| EngineRecovering | is a worker that failed, in a set that gives its engine time to recover; written at once |
| LeaderSetRefused | none: the API server refuses the leader StatefulSet, with its message |
| PodNotReady | runs, or begins to, and does not report that it is ready |
"""

import asyncio
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from kohort.groups import messages
from kohort.groups.caches import BY_GROUP, GroupCache, by_group
from kohort.groups.engine_recovery import recovery_seconds, recovery_until
from kohort.groups.group_problems import GroupProblems
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.missed_webhook import missed_webhook
from kohort.groups.observed_groups import cannot_be_completed
from kohort.kube import clock
from kohort.kube.errors import BadRequest, Forbidden, Invalid
from kohort.kube.resources import Key
from kohort.objects.core import Pod
from kohort.rules import group_labels
from kohort.rules.group_identity import leader_name, worker_index
from kohort.rules.group_state import GroupState, group_size, pod_is_ready
from kohort.rules.pod_scheduling import without_node
from kohort.rules.unready_reason import stuck_container, why_not_ready

PATIENCE: Final = 15.0
"""Seconds for which the same obstacle must stand before it is written."""
REFUSALS: Final = (BadRequest, Forbidden, Invalid)
"""Errors of the API server that come back until the user fixes what they name."""


class WaitingReason(StrEnum):
    """The reasons of the condition `Waiting`."""

    LEADER_MISSING = "LeaderMissing"
    WORKERS_MISSING = "WorkersMissing"
    NAME_TAKEN = "NameTaken"
    POD_REFUSED = "PodRefused"
    WORKERS_REFUSED = "WorkersRefused"
    REVISION_MISSING = "RevisionMissing"
    WEBHOOK_MISSED = "WebhookMissed"
    POD_TERMINATING = "PodTerminating"
    POD_UNSCHEDULABLE = "PodUnschedulable"
    CONTAINER_WAITING = "ContainerWaiting"
    GROUP_FAILING = "GroupFailing"
    ENGINE_RECOVERING = "EngineRecovering"
    LEADER_SET_REFUSED = "LeaderSetRefused"
    POD_NOT_READY = "PodNotReady"


class Obstacle(msgspec.Struct, frozen=True):
    reason: WaitingReason
    message: str
    group: int = 0
    leader: str = ""

    @property
    def missing(self) -> bool:
        """A pod does not exist; the cached pods cannot show why."""
        return self.reason in (WaitingReason.LEADER_MISSING, WaitingReason.WORKERS_MISSING)


class ObstacleTracker:
    """Remembers since when each set waits for what."""

    def __init__(self, cache: GroupCache, problems: GroupProblems) -> None:
        self._cache = cache
        self._problems = problems
        self._since: dict[Key, tuple[Obstacle, float]] = {}

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)

    def observe(
        self, group_set: LeaderWorkerSet, newest: str, states: Mapping[int, GroupState]
    ) -> tuple[Obstacle | None, float]:
        """The obstacle that has stood long enough to be reported, if any; and in how many seconds to look again.

        `newest` is the key of the revision that groups shall have."""
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        failing = self._failing_group(key, group_set.replicas)
        if failing is not None:
            return failing, 0.0
        found = self._recovering_group(key, group_set) or self._first_obstacle(key, group_set, newest, states)
        if found is None:
            self.forget(key)
            return None, 0.0
        if found.reason is WaitingReason.ENGINE_RECOVERING:
            return found, 0.0
        now = asyncio.get_running_loop().time()
        known, since = self._since.get(key, (None, now))
        if known != found:
            self._since[key] = (found, now)
            return None, PATIENCE
        left = since + PATIENCE - now
        return (None, left) if left > 0 else (found, 0.0)

    def _failing_group(self, key: Key, wanted: int) -> Obstacle | None:
        """A group that fails repeatedly. It may be ready in between, so no other obstacle would stand for long."""
        for index, delayed in self._problems.delayed_recreations(key):
            if index < wanted:
                text = messages.recreation_delayed(index, delayed)
                return Obstacle(WaitingReason.GROUP_FAILING, text, index, leader_name(key.name, index))
        return None

    def _recovering_group(self, key: Key, group_set: LeaderWorkerSet) -> Obstacle | None:
        if not recovery_seconds(group_set.metadata.annotations):
            return None
        for index, _ in sorted(self._cache.leaders(key).items()):
            for pod in self._members(key, index):
                found = _pod_obstacle(index, pod) if group_labels.RECOVERY_UNTIL in pod.metadata.annotations else None
                if found is not None and found.reason is WaitingReason.ENGINE_RECOVERING:
                    return found
        return None

    def _first_obstacle(
        self, key: Key, group_set: LeaderWorkerSet, newest: str, states: Mapping[int, GroupState]
    ) -> Obstacle | None:
        """Of the first group that is not ready."""
        for index in range(group_set.replicas):
            state = states.get(index)
            if state is None or not state.ready:
                leader = leader_name(key.name, index)
                pod = self._cache.pods.get(Key(key.namespace, leader))
                known = self._cache.revisions_of(group_set)
                if pod is not None and cannot_be_completed(pod, state, newest, known):
                    text = messages.revision_missing(index, pod.metadata.labels.get(group_labels.REVISION, ""))
                    return Obstacle(WaitingReason.REVISION_MISSING, text, index, leader)
                found = obstacle_in(index, leader, self._members(key, index))
                refused = self._problems.workers_refused(Key(key.namespace, leader))
                if refused is not None and found is not None and found.reason == WaitingReason.WORKERS_MISSING:
                    text = messages.workers_refused(index, refused)
                    return Obstacle(WaitingReason.WORKERS_REFUSED, text, index, leader)
                return found
        return None

    def _members(self, key: Key, index: int) -> list[Pod]:
        leader = self._cache.pods.get(Key(key.namespace, leader_name(key.name, index)))
        if leader is None or missed_webhook(leader):
            return [] if leader is None else [leader]
        return [pod for value in by_group(leader) for pod in self._cache.pods.by_index(BY_GROUP, value)] or [leader]


def obstacle_in(index: int, leader: str, members: Iterable[Pod]) -> Obstacle | None:
    """Why a group is not ready; None when nothing is wrong with the pods that it has."""
    pods = sorted(members, key=lambda pod: worker_index(pod.metadata.labels) or 0)
    if not pods:
        return Obstacle(WaitingReason.LEADER_MISSING, messages.leader_missing(index, leader), index, leader)
    for pod in pods:
        found = _pod_obstacle(index, pod)
        if found is not None:
            return found
    size = group_size(pods[0], 1) or 1
    if len(pods) < size:
        text = messages.workers_missing(index, size - len(pods), size - 1)
        return Obstacle(WaitingReason.WORKERS_MISSING, text, index, leader)
    return None


def _pod_obstacle(index: int, pod: Pod) -> Obstacle | None:
    if missed_webhook(pod):
        reason, text = WaitingReason.WEBHOOK_MISSED, messages.WITHOUT_WEBHOOK
    elif pod.metadata.deleting:
        reason = WaitingReason.POD_TERMINATING
        text = messages.terminating(pod.spec.node_name, pod.metadata.deletion_timestamp or "")
    elif pod_is_ready(pod):
        return None
    elif (until := recovery_until(pod.metadata.annotations)) is not None:
        reason = WaitingReason.ENGINE_RECOVERING
        text = messages.engine_recovers(why_not_ready(pod), clock.format_time(until))
    else:
        reason, text = _unready_reason(pod), f"is {why_not_ready(pod)}"
    return Obstacle(reason, messages.pod_obstacle(index, pod.metadata.name, text))


def _unready_reason(pod: Pod) -> WaitingReason:
    if without_node(pod) is not None:
        return WaitingReason.POD_UNSCHEDULABLE
    return WaitingReason.CONTAINER_WAITING if stuck_container(pod) is not None else WaitingReason.POD_NOT_READY
