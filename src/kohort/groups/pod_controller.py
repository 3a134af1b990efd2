"""The controller of pods: it observes a pod and its group, decides and performs.

| step | by |
|---|---|
| observe | `pod_observer`: the pod, its group (`group_members`), what has failed |
| decide | `pod_plan`, which asks `restart_decision` |
| recreate a whole group, or give up pods of a lost node | `group_recreation` |
| create what the group of a leader lacks | `group_completion` |
| replace a pod that missed the webhook, wait for the engine's own recovery, end the hold of a pod | here |
"""

import asyncio
import contextlib
from datetime import timedelta
from typing import Final

import msgspec

from kohort.groups import messages, missed_webhook
from kohort.groups.caches import GroupCache
from kohort.groups.engine_recovery import AwaitRecovery, BeginRecovery, GiveUpRestart
from kohort.groups.failed_pod_backoff import is_held, seconds_left
from kohort.groups.gang import Gangs
from kohort.groups.group_completion import GroupCompletion
from kohort.groups.group_members import GroupMembers, key_of
from kohort.groups.group_problems import GroupProblems
from kohort.groups.group_recreation import GroupRecreation
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.node_loss import NodeLost, NodeMayReturn
from kohort.groups.pod_observer import PodObserver
from kohort.groups.pod_plan import (
    CompleteGroup,
    DoNothing,
    PodAction,
    ReplacePod,
    ReportMissingStartOrdinals,
    Wait,
    plan_pod,
)
from kohort.groups.previous_workers import leaders_behind
from kohort.groups.resize.expected_restarts import ResizesByOthers
from kohort.groups.restart_counts import expected_restarts
from kohort.groups.restart_decision import DelayRecreation, HoldGroup, RecreateGroup
from kohort.groups.waiting_reason import WaitingReason
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import Conflict, Invalid, NotFound
from kohort.kube.event_mapping import map_to_controller_owner
from kohort.kube.events import reference_to
from kohort.kube.manager import Manager
from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import LEADER_WORKER_SETS, PODS, Key
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import is_leader
from kohort.rules.restart_backoff import RestartBackoff

_RECOVERY_LOOK: Final = 1.0
"""Seconds between two looks at a leader whose engine recovers: it may fail, too."""
_GATE_LOOK: Final = 1.0
"""Seconds between two looks at a pod that waits behind a scheduling gate."""


class PodController:
    def __init__(
        self,
        manager: Manager,
        cache: GroupCache,
        problems: GroupProblems,
        metrics: GroupMetrics,
        gangs: Gangs | None = None,
    ) -> None:
        self.client = manager.client
        self.cache = cache
        self.problems = problems
        self.metrics = metrics
        self.recorder = manager.recorder("leaderworkerset")
        self._replacements = RestartBackoff[Key]()
        """Of pods that missed the webhook."""
        members, recreations = GroupMembers(cache), RestartBackoff[Key]()
        self._observer = PodObserver(cache, members, problems, recreations, self._replacements)
        self._recreation = GroupRecreation(manager.client, members, problems, metrics, self.recorder, recreations)
        self._completion = GroupCompletion(manager.client, cache, self._observer, problems, self.recorder, gangs)
        self._resizes_by_others = ResizesByOthers()
        cache.pods.on_change(self._resizes_by_others.saw)
        controller = manager.controller("pod", self.reconcile, workers=8, max_delay=30)
        controller.watches(cache.pods)
        controller.watches(cache.pods, leaders_behind, when=lambda _, new: new is None)
        controller.watches(cache.pods, lambda leader: map(key_of, members.of(leader)), when=_leader_was_adopted)
        controller.watches(cache.stateful_sets, map_to_controller_owner("Pod", ""))
        controller.watches(cache.services, map_to_controller_owner("Pod", ""), when=lambda _, new: new is None)

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self.cache.pods.get(key)
        if pod is None:
            self._observer.forget(key)
            self.problems.forget(key)
            return None
        group_set = self.cache.sets.get(Key(key.namespace, pod.metadata.labels.get(group_labels.NAME, "")))
        if group_set is None:
            return None
        if self._resizes_by_others.is_unexamined(pod):
            self._resizes_by_others.examine(pod, self._observer.stated_amounts(group_set, pod))
        await self._resizes_by_others.write(self.client, pod)
        pod = self._resizes_by_others.noted(pod)
        if is_held(pod) and not pod.metadata.deleting and seconds_left(pod) <= 0:
            await self._remove_gate(pod)
        loss = await self._recreation.node_loss(group_set, pod)
        if isinstance(loss, NodeLost):
            return await self._recreation.give_up_pod(group_set, pod, loss)
        observed = self._observer.observe(group_set, pod)
        await self._recreation.forget_due_restart(group_set, pod, observed.restart)
        done = await self._perform(plan_pod(observed), group_set, pod)
        if isinstance(loss, NodeMayReturn) and (done is None or loss.seconds < done.after):
            done = Requeue(after=loss.seconds)
        if is_held(pod) and not pod.metadata.deleting:
            left = max(seconds_left(pod), _GATE_LOOK)
            return done if done is not None and done.after < left else Requeue(after=left)
        return done

    async def _perform(self, action: PodAction, group_set: LeaderWorkerSet, pod: Pod) -> Requeue | None:
        match action:
            case DoNothing():
                return None
            case Wait(seconds):
                return Requeue(after=seconds)
            case ReplacePod():
                await self._replace(group_set, pod)
                return None
            case RecreateGroup(cause, counts):
                return await self._recreation.recreate(group_set, pod, cause, counts)
            case HoldGroup(cause):
                return await self._recreation.recreate(group_set, pod, cause, counts=True)
            case BeginRecovery(seconds):
                until = clock.now() + timedelta(seconds=seconds)
                await self._annotate(pod, {group_labels.RECOVERY_UNTIL: until.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})
                return Requeue(after=_RECOVERY_LOOK)
            case AwaitRecovery(seconds):
                return Requeue(after=min(seconds, _RECOVERY_LOOK))
            case GiveUpRestart():
                await self._give_up_restart(group_set, pod)
                return None
            case DelayRecreation(seconds, recreations):
                return await self._recreation.delay(group_set, pod, seconds, recreations)
            case ReportMissingStartOrdinals():
                self._completion.report_missing_start_ordinals(group_set, pod)
                return None
            case CompleteGroup():
                return await self._completion.complete(group_set, pod)

    async def _remove_gate(self, pod: Pod) -> None:
        """Of a pod that was held because others before it had failed."""
        metadata = pod.metadata
        gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != group_labels.HELD_GATE]
        patch: list[JsonObject] = [
            {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
            {"op": "replace", "path": "/spec/schedulingGates", "value": gates},
        ]
        with contextlib.suppress(NotFound, Conflict, Invalid):  # gone, or without gates: the next look tells
            await self.client.patch(PODS, metadata.name, metadata.namespace, patch, PatchType.JSON)

    async def _replace(self, group_set: LeaderWorkerSet, pod: Pod) -> None:
        key, now = key_of(pod), asyncio.get_running_loop().time()
        try:
            whole = await self.client.get(PODS, key.name, key.namespace)
            await self.client.delete(PODS, key.name, key.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        self._replacements.forget_old(now)
        self._replacements.done(key, now)
        text = messages.replaced_pod_without_webhook(key.name, missed_webhook.what_is_missing(whole, key.namespace))
        reason, replaced = WaitingReason.WEBHOOK_MISSED, reference_to(PODS, pod)
        self.recorder.warning(LEADER_WORKER_SETS, group_set, reason, text, action="Delete", related=replaced)
        self.metrics.missed.labels(key.namespace, group_set.metadata.name).inc()

    async def _give_up_restart(self, group_set: LeaderWorkerSet, pod: Pod) -> None:
        """The engine has recovered: what restarted does not count any more."""
        statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        known = expected_restarts(pod)
        counts = known | {
            status.name: max(status.restart_count, known.get(status.name, 0))
            for status in statuses
            if status.restart_count
        }
        text = msgspec.json.encode(counts, order="sorted").decode()
        await self._annotate(pod, {group_labels.EXPECTED_RESTARTS: text, group_labels.RECOVERY_UNTIL: None})
        self.recorder.normal(
            LEADER_WORKER_SETS,
            group_set,
            "EngineRecovered",
            messages.engine_recovered(pod.metadata.name),
            action="Keep",
            related=reference_to(PODS, pod),
        )

    async def _annotate(self, pod: Pod, annotations: dict[str, str | None]) -> None:
        """The pod that was read; another one of that name is left alone."""
        metadata = pod.metadata
        body = {"metadata": {"uid": metadata.uid, "annotations": annotations}}
        with contextlib.suppress(NotFound, Conflict):
            await self.client.patch(PODS, metadata.name, metadata.namespace, body)


def _leader_was_adopted(old: Pod | None, new: Pod | None) -> bool:
    """After a resize, the labels of the leader move to the new revision last. Until then its workers look like those of
    another revision, and what happened to one of them did not count."""
    if old is None or new is None or not is_leader(new.metadata.labels):
        return False
    return old.metadata.labels.get(group_labels.REVISION) != new.metadata.labels.get(group_labels.REVISION)
