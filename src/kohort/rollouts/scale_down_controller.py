"""Drains groups that a user or an autoscaler removes by scaling a set down.

Only for sets whose Rollout has `drainTimeoutSeconds`. An annotation on the set lets its controller keep the groups
(`rules.scale_down`); here their leaders are taken out of the Services of the Rollout and their requests in flight are
waited for (`traffic.withdrawal`). Then another annotation lets the groups go.

| the set | what follows |
|---|---|
| no Rollout of it drains | both annotations go, Services are as before |
| it is sized for more groups than it wants | leaders of the others leave the Services, and are drained |
| those are drained | the annotation says so; the leaders stay out of the Services until they are deleted |
| none of them is left, or the set wants them back | Services are as before, the second annotation goes |
| it is gone | Services are as before |
"""

from collections.abc import Mapping

import msgspec

from kohort.kube.controller import Requeue
from kohort.kube.errors import NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import LEADER_WORKER_SETS, ROLLOUTS, Key
from kohort.objects.core import Pod
from kohort.rollouts import messages
from kohort.rollouts.action_result import Waiting
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.release_events import recorder
from kohort.rollouts.rollout_types import Rollout, WorkloadRef
from kohort.rollouts.traffic.draining import drain_timeout, longest_drain
from kohort.rollouts.traffic.withdrawal import LOOK_SECONDS, PodWithdrawal, workload_name
from kohort.rules import group_labels
from kohort.rules.group_identity import group_index, is_leader, parse_index
from kohort.rules.scale_down import DRAIN_ON_SCALE_DOWN, DRAINED_FOR, DrainedFor, drained_for


class ScaleDownController:
    def __init__(self, manager: Manager, cache: RolloutCache, withdrawal: PodWithdrawal) -> None:
        self.client = manager.client
        self.cache = cache
        self.withdrawal = withdrawal
        self.recorder = recorder(manager)
        self._reported: dict[Key, str] = {}
        """What was last said about a set, so that it is said once."""
        self.controller = manager.controller("scale-down", self.reconcile, workers=2, max_delay=30)
        self.controller.watches(cache.sets)
        self.controller.watches(cache.rollouts, _set_of)
        self.controller.watches(cache.leader_sets, lambda one: [Key(one.metadata.namespace, one.metadata.name)])

    async def reconcile(self, key: Key) -> Requeue | None:
        group_set, workload = self.cache.sets.get(key), workload_name(LEADER_WORKER_SETS, key.name)
        if group_set is None or group_set.metadata.deleting or group_set.is_canary:
            self._reported.pop(key, None)
            if group_set is None:
                await self.withdrawal.put_back(key.namespace, workload)
            return None
        rollout = self.cache.rollout_for(key.namespace, WorkloadRef.to(LEADER_WORKER_SETS, key.name))
        refs = rollout.strategy.traffic_routings if rollout is not None else ()
        if rollout is None or drain_timeout(refs) <= 0:
            await self._without_draining(group_set)
            return None
        await self._annotate(group_set, {DRAIN_ON_SCALE_DOWN: str(longest_drain(refs))})
        leaving, drained = self._leaving(key, group_set)
        if not leaving:
            self._reported.pop(key, None)
            await self.withdrawal.put_back(key.namespace, workload)
            await self._annotate(group_set, {DRAINED_FOR: None})
            return None
        result = await self.withdrawal.withdraw(key.namespace, refs, workload, leaving.keys(), drained=drained)
        for event in result.events:
            self.recorder.warning(ROLLOUTS, rollout, event.reason, event.message)
        if isinstance(result, Waiting):
            self._report(key, rollout, messages.draining_groups(list(leaving.values()), result.text))
            return Requeue(after=min(result.seconds or LOOK_SECONDS, LOOK_SECONDS))
        if not drained:
            done = DrainedFor(group_set.replicas, tuple(leaving))
            await self._annotate(group_set, {DRAINED_FOR: msgspec.json.encode(done).decode()})
        return Requeue(after=LOOK_SECONDS)

    async def _without_draining(self, group_set: GroupSet) -> None:
        """The Rollout is gone, disabled, or does not drain any more."""
        metadata = group_set.metadata
        known = [one for one in (DRAIN_ON_SCALE_DOWN, DRAINED_FOR) if one in metadata.annotations]
        if not known:
            return
        await self.withdrawal.put_back(metadata.namespace, workload_name(LEADER_WORKER_SETS, metadata.name))
        await self._annotate(group_set, dict.fromkeys(known))

    def _leaving(self, key: Key, group_set: GroupSet) -> tuple[dict[str, str], bool]:
        """Uids and names of the leaders that go, and whether they are drained."""
        leader_set = self.cache.leader_sets.get(key)
        noted = leader_set.metadata.annotations.get(group_labels.REPLICAS) if leader_set is not None else None
        sized_for, wanted = parse_index(noted), group_set.replicas
        surplus = {
            pod.metadata.uid: pod.metadata.name
            for pod in self.cache.pods_of(key)
            if is_leader(pod.metadata.labels) and not pod.metadata.deleting and _index(pod) >= wanted
        }
        done = drained_for(group_set.metadata.annotations)
        if done is not None and done.replicas == wanted:
            return {uid: name for uid, name in surplus.items() if uid in done.leaders}, True
        # Groups beyond what the set is sized for are those of a surge, which serve until the roll is over.
        return (surplus if sized_for is not None and sized_for > wanted else {}), False

    async def _annotate(self, group_set: GroupSet, values: Mapping[str, str | None]) -> None:
        metadata = group_set.metadata
        changed = {name: value for name, value in values.items() if metadata.annotations.get(name) != value}
        if not changed:
            return
        try:
            body = {"metadata": {"annotations": changed}}
            await self.client.patch(LEADER_WORKER_SETS, metadata.name, metadata.namespace, body)
        except NotFound:
            return

    def _report(self, key: Key, rollout: Rollout, text: str) -> None:
        if self._reported.get(key) == text:
            return
        self._reported[key] = text
        event = messages.groups_draining(text)
        self.recorder.normal(ROLLOUTS, rollout, event.reason, event.message)


def _index(pod: Pod) -> int:
    index = group_index(pod.metadata.labels)
    return -1 if index is None else index


def _set_of(rollout: Rollout) -> list[Key]:
    ref = rollout.spec.workload_ref
    return [Key(rollout.metadata.namespace, ref.name)] if ref.is_group_set else []
