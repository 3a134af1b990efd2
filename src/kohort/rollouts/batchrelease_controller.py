"""Reconciles BatchReleases: observes the workload, decides, acts on the workload, writes the status."""

from collections.abc import Iterable

import msgspec

from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import NotFound
from kohort.kube.manager import Manager
from kohort.kube.merge_patch import locked, merge_patch
from kohort.kube.resources import (
    BATCH_RELEASES,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    ROLLOUTS,
    STATEFUL_SETS,
    Key,
)
from kohort.objects.apps import Deployment, ReplicaSet, StatefulSet
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts import batch_state_machine, messages
from kohort.rollouts.action_result import ActionResult, Done, Waiting
from kohort.rollouts.batch_state_machine import BatchAction, BatchObservation, Finalize, Initialize, Upgrade
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.go_hashes import release_plan_hash
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.metrics import RolloutMetrics
from kohort.rollouts.release_events import recorder
from kohort.rollouts.rollout_types import BatchRelease, ReleaseStatus, Rollout, WorkloadRef
from kohort.rollouts.workloads.model import Controls, WorkloadOperations
from kohort.rules import group_labels, rollout_labels
from kohort.rules.rollout_labels import BatchReleasePhase

_AT_ONCE = 0.01


class ReleaseController:
    def __init__(self, manager: Manager, cache: RolloutCache, controls: Controls, metrics: RolloutMetrics) -> None:
        self.client = manager.client
        self.cache = cache
        self.controls = controls
        self.metrics = metrics
        self.recorder = recorder(manager)
        self.controller = manager.controller("batchrelease-controller", self.reconcile, workers=3, max_delay=30)
        self.controller.watches(cache.releases)
        self.controller.watches(cache.sets, self._for_set)
        self.controller.watches(cache.pods, self._for_pod, when=_readiness_changed)
        self.controller.watches(cache.deployments, self._for_deployment)
        self.controller.watches(cache.replica_sets, self._for_replica_set)
        self.controller.watches(cache.stateful_sets, self._for_stateful_set)
        self.controller.watches(cache.stateful_pods, self._for_stateful_pod, when=_readiness_changed)

    async def reconcile(self, key: Key) -> Requeue | None:
        release = self.cache.releases.get(key)
        if release is None:
            return None
        control = self.controls.get(release.spec.workload_ref.group_kind)
        if control is None:
            await self._unsupported(release)
            return None
        if release.metadata.deleting and release.status.phase == BatchReleasePhase.COMPLETED:
            return await self._remove_finalizer_when_safe(release, control)
        if not release.metadata.deleting and rollout_labels.RELEASE_FINALIZER not in release.metadata.finalizers:
            finalizers = [*release.metadata.finalizers, rollout_labels.RELEASE_FINALIZER]
            await self._patch(release, {"metadata": {"finalizers": finalizers}})
            return None
        if release.status.phase == BatchReleasePhase.PROGRESSING and release.plan.batch_partition is not None:
            self._emit(release, await control.restore_lost_hold(release))
        observation = self._observe(release, control)
        decision = batch_state_machine.decide(observation)
        look_again: float | None = None
        if decision.action is not None:
            observation = msgspec.structs.replace(observation, status=decision.status)
            result = await _perform(release, decision.action, control)
            events = decision.events
            if isinstance(result, Waiting) and result.seconds != rollout_labels.RECHECK:
                look_again = max(result.seconds, _AT_ONCE)
            decision = batch_state_machine.decide_after(observation, decision.action, result)
            decision = msgspec.structs.replace(decision, events=(*events, *decision.events))
        if decision.label:
            await control.label_batches(release, decision.status.canary_status.current_batch)
        self._emit(release, decision.events)
        written = await self._write(release, decision.status)
        if decision.again and not written:
            return Requeue(after=_AT_ONCE)
        return Requeue(after=look_again) if look_again is not None else None

    def _observe(self, release: BatchRelease, control: WorkloadOperations) -> BatchObservation:
        replicas = control.replicas(release)
        desired = control.planned(release, release.status.canary_status.current_batch, replicas or 0)
        return BatchObservation(
            release=release,
            status=release.status,
            now=clock.now(),
            plan_hash=release_plan_hash(release.plan),
            replicas=replicas,
            observed=control.is_observed(release),
            revision=control.revision(release),
            released=control.released(release),
            counts=control.counts(release, desired),
            desired=desired,
            shrinks=control.shrinks(release),
        )

    async def _remove_finalizer_when_safe(self, release: BatchRelease, control: WorkloadOperations) -> Requeue | None:
        """The object goes when its canary is being deleted. A release that a user deleted waits until its Rollout has
        routed the traffic back."""
        if rollout_labels.RELEASE_FINALIZER not in release.metadata.finalizers:
            return None
        if not may_delete_canary(release, self._rollout(release)):
            return Requeue(after=rollout_labels.RECHECK)
        result = await control.delete_canary(release)
        self._emit(release, result.events)
        if not isinstance(result, Done):
            return Requeue(after=rollout_labels.RECHECK)
        rest = [name for name in release.metadata.finalizers if name != rollout_labels.RELEASE_FINALIZER]
        try:
            await self._patch(release, {"metadata": {"finalizers": rest}})
        except NotFound:
            return None
        return None

    async def _unsupported(self, release: BatchRelease) -> None:
        ref = release.spec.workload_ref
        event = messages.unsupported_workload(ref.api_version, ref.kind)
        self.recorder.warning(BATCH_RELEASES, release, event.reason, event.message)
        if release.metadata.deleting and rollout_labels.RELEASE_FINALIZER in release.metadata.finalizers:
            rest = [name for name in release.metadata.finalizers if name != rollout_labels.RELEASE_FINALIZER]
            await self._patch(release, {"metadata": {"finalizers": rest}})

    async def _write(self, release: BatchRelease, status: ReleaseStatus) -> bool:
        wanted = msgspec.structs.replace(status, observed_generation=release.metadata.generation)
        change = merge_patch(release_document(release.status), release_document(wanted))
        if change is None:
            return False
        return await self.client.patch_status(BATCH_RELEASES, release, change, locked=True) is not None

    async def _patch(self, release: BatchRelease, body: JsonObject) -> None:
        metadata = release.metadata
        await self.client.patch(
            BATCH_RELEASES, metadata.name, metadata.namespace, locked(body, metadata.resource_version)
        )

    def _emit(self, release: BatchRelease, events: Iterable[ReleaseEvent]) -> None:
        """Events are emitted on the Rollout, which is the object that users look at."""
        rollout = self._rollout(release)
        for event in events:
            if rollout is not None:
                self.metrics.count_event(rollout, event.reason)
            resource, subject = (ROLLOUTS, rollout) if rollout is not None else (BATCH_RELEASES, release)
            record = self.recorder.warning if event.warning else self.recorder.normal
            record(resource, subject, event.reason, event.message)

    def _rollout(self, release: BatchRelease) -> Rollout | None:
        """The one that owns the release. A Rollout that is deleted with `--cascade=orphan` does not own it any more; it
        has the same name."""
        owner = release.metadata.controller
        if owner is None:
            found = self.cache.rollouts.get(Key(release.metadata.namespace, release.metadata.name))
            return found if found is not None and found.metadata.deleting else None
        found = self.cache.rollouts.get(Key(release.metadata.namespace, owner.name))
        return found if found is not None and found.metadata.uid == owner.uid else None

    # Which releases an object concerns

    def _for_workload(self, namespace: str, ref: WorkloadRef) -> list[Key]:
        return [
            Key(namespace, one.metadata.name)
            for one in self.cache.releases.list(namespace)
            if one.spec.workload_ref.identity == ref.identity
        ]

    def _for_set(self, subject: GroupSet) -> list[Key]:
        metadata = subject.metadata
        name = metadata.labels.get(rollout_labels.CANARY_SET, metadata.name)
        return self._for_workload(metadata.namespace, WorkloadRef.to(LEADER_WORKER_SETS, name))

    def _for_pod(self, pod: Pod) -> list[Key]:
        name = pod.metadata.labels.get(group_labels.NAME, "")
        subject = self.cache.sets.get(Key(pod.metadata.namespace, name))
        return self._for_set(subject) if subject is not None else []

    def _for_deployment(self, subject: Deployment) -> list[Key]:
        return self._named_deployment(subject.metadata)

    def _named_deployment(self, metadata: ObjectMeta) -> list[Key]:
        name = metadata.labels.get(rollout_labels.CANARY_DEPLOYMENT, metadata.name)
        return self._for_workload(metadata.namespace, WorkloadRef.to(DEPLOYMENTS, name))

    def _for_replica_set(self, subject: ReplicaSet) -> list[Key]:
        owner = subject.metadata.controller
        if owner is None:
            return []
        found = self.cache.deployments.get(Key(subject.metadata.namespace, owner.name))
        return self._named_deployment(found.metadata) if found is not None else []

    def _for_stateful_set(self, subject: StatefulSet) -> list[Key]:
        metadata = subject.metadata
        return self._for_workload(metadata.namespace, WorkloadRef.to(STATEFUL_SETS, metadata.name))

    def _for_stateful_pod(self, pod: Pod) -> list[Key]:
        owner = pod.metadata.controller
        if owner is None:
            return []
        return self._for_workload(pod.metadata.namespace, WorkloadRef.to(STATEFUL_SETS, owner.name))


async def _perform(release: BatchRelease, action: BatchAction, control: WorkloadOperations) -> ActionResult:
    match action:
        case Initialize():
            return await control.initialize(release)
        case Upgrade(desired=desired):
            return await control.upgrade(release, desired)
        case Finalize():
            return await control.finalize(release)


def may_delete_canary(release: BatchRelease, rollout: Rollout | None) -> bool:
    """Whether no route leads to the canary of the release any more."""
    if rollout is None or rollout.status.progress is None:
        return True
    if rollout.status.phase not in (rollout_labels.PROGRESSING, rollout_labels.TERMINATING, rollout_labels.DISABLING):
        return True
    return rollout.status.progress.finalising_step in (rollout_labels.RELEASE_CONTROL, rollout_labels.END)


def release_document(status: ReleaseStatus) -> JsonObject:
    """As it is written: what the API never leaves out is always there."""
    document: JsonObject = msgspec.to_builtins(status)
    if not status.phase:
        return document
    canary = document.get("canaryStatus") or {}
    return document | {"canaryStatus": {**canary, "currentBatch": status.canary_status.current_batch}}


def _readiness_changed(old: Pod | None, new: Pod | None) -> bool:
    return old is None or new is None or _readiness(old) != _readiness(new)


def _readiness(pod: Pod) -> tuple[object, ...]:
    return pod.ready, pod.status.phase, pod.metadata.deleting, pod.status.conditions
