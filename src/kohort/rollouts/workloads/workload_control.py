"""Holding, growing, promoting and giving back a workload: what is the same for every kind.

The stable object is held; beside it there may be copies that a BatchRelease owns and that carry the new version.
Detaching copies, deleting them, growing them, releasing the hold: the order is the same for every kind. A kind says how
its objects are found, counted and patched.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.merge_patch import locked
from kohort.kube.resources import PODS, Key, Resource
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import counted
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts import messages, step_arithmetic
from kohort.rollouts.action_result import DONE, ActionResult, Done, Waiting
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.rollout_types import BatchRelease, Rollout
from kohort.rollouts.traffic.draining import drain_timeout
from kohort.rollouts.traffic.model import RouteRef
from kohort.rollouts.traffic.withdrawal import PodWithdrawal, workload_name
from kohort.rollouts.workloads import autoscaler_pause
from kohort.rollouts.workloads.batch_labels import assign
from kohort.rules import rollout_labels
from kohort.rules.release_hold import is_held_by_release


class Subject(Protocol):
    """Any object of the API."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Subject)


class WorkloadControl(ABC, Generic[T]):
    resource: ClassVar[Resource]
    type_label: ClassVar[str]
    unit: ClassVar[str]
    """What replicas are called in messages."""

    @property
    def noun(self) -> str:
        """One of what `unit` counts."""
        return self.unit.removesuffix("s")

    def __init__(self, client: Client, cache: RolloutCache, withdrawal: PodWithdrawal | None = None) -> None:
        """`withdrawal` takes pods out of Services before they are replaced."""
        self.client = client
        self.cache = cache
        self.withdrawal = withdrawal

    # What a kind defines

    @abstractmethod
    def find(self, key: Key) -> T | None: ...

    @abstractmethod
    def copies(self, key: Key) -> list[T]:
        """Made for this workload by any release, newest first."""

    @abstractmethod
    def size(self, subject: T) -> int:
        """How many replicas it should have."""

    @abstractmethod
    def is_seen_by_its_controller(self, subject: T) -> bool:
        """Its controller has observed its newest generation."""

    @abstractmethod
    def version(self, subject: T) -> str:
        """Of its template."""

    @abstractmethod
    def has_copy(self, release: BatchRelease) -> bool:
        """The new version gets a workload of its own, unless the groups of a LeaderWorkerSet are resized in place."""

    @abstractmethod
    def canary(self, release: BatchRelease) -> T | None:
        """The live copy that carries the template of the stable workload as it is now."""

    @abstractmethod
    def has_release_marks(self, stable: T) -> bool:
        """It still carries labels, annotations or settings of a release."""

    @abstractmethod
    def release_hold_patch(self, stable: T, token: str) -> JsonObject:
        """The patch that gives the workload back to its own controller, as the user wrote it."""

    @abstractmethod
    def leave_held_patch(self, stable: T, token: str) -> JsonObject:
        """The patch that removes everything of a release but the hold."""

    @abstractmethod
    def is_held(self, stable: T) -> bool: ...

    @abstractmethod
    def hold_again_patch(self, stable: T) -> JsonObject:
        """The patch that puts a lost hold back."""

    @abstractmethod
    async def finalize_stable(self, stable: T, release: BatchRelease) -> ActionResult: ...

    async def restore_after_hold(self, stable: T) -> None:
        """What else has to be put back after the hold. Nothing by default."""
        del stable

    # Observing

    def stable(self, release: BatchRelease) -> T | None:
        return self.live(Key(release.metadata.namespace, release.spec.workload_ref.name))

    def live(self, key: Key) -> T | None:
        found = self.find(key)
        return None if found is None or found.metadata.deleting else found

    def owned_copies(self, release: BatchRelease) -> list[T]:
        key = Key(release.metadata.namespace, release.spec.workload_ref.name)
        return [one for one in self.copies(key) if is_owned_by(one, release)]

    def planned(self, release: BatchRelease, batch: int, replicas: int) -> int:
        """How many replicas of the new version a batch wants."""
        annotations, batches = release.metadata.annotations, release.plan.batches
        if rollout_labels.WITHDRAWN in annotations:
            return 0
        if rollout_labels.FULL_CAPACITY in annotations and self.has_copy(release):
            return replicas
        if batch >= len(batches):
            return 0
        wanted, style = batches[batch].canary_replicas, release.plan.rolling_style
        return step_arithmetic.planned(wanted, replicas, self.resource.group_kind, style)

    def shrinks(self, release: BatchRelease) -> bool:
        """Replicas of the new version beyond those of the batch are removed."""
        return may_shrink(release)

    def replicas(self, release: BatchRelease) -> int | None:
        stable = self.stable(release)
        return None if stable is None else self.size(stable)

    def is_observed(self, release: BatchRelease) -> bool:
        stable = self.stable(release)
        return stable is not None and self.is_seen_by_its_controller(stable)

    def revision(self, release: BatchRelease) -> str:
        stable = self.stable(release)
        return "" if stable is None else self.version(stable)

    def released(self, release: BatchRelease) -> str:
        if self.canary(release) is not None:
            return self.revision(release)
        return next((self.version(one) for one in self.owned_copies(release) if not one.metadata.deleting), "")

    # Acting

    async def add_webhook_label(self, key: Key) -> None:
        body = {"metadata": {"labels": {rollout_labels.WORKLOAD_TYPE: self.type_label}}}
        await self.client.patch(self.resource, key.name, key.namespace, body)

    async def restore_lost_hold(self, release: BatchRelease) -> tuple[ReleaseEvent, ...]:
        """Only during a release. The stable version must survive updates that were made while the webhook was down."""
        stable = self.stable(release)
        if stable is None or not is_held_by_release(stable.metadata.annotations):
            return ()
        return await self.ensure_hold(stable, release)

    async def ensure_hold(self, stable: T, release: BatchRelease) -> tuple[ReleaseEvent, ...]:
        metadata = stable.metadata
        if not self.is_held(stable):
            await self.patch(stable, self.hold_again_patch(stable))
            return (messages.hold_lost(metadata.name),)
        info = control_info(release)
        if metadata.annotations.get(rollout_labels.CONTROL_INFO) != info:
            await self.patch(stable, {"metadata": {"annotations": {rollout_labels.CONTROL_INFO: info}}})
        return ()

    async def resize_copy(self, copy: T, desired: int, release: BatchRelease) -> ActionResult:
        """It only grows, unless the release says that traffic has left what is too much."""
        size, metadata = self.size(copy), copy.metadata
        if size == desired or (size > desired and not may_shrink(release)):
            return DONE
        await self.client.patch(self.resource, metadata.name, metadata.namespace, {"spec": {"replicas": desired}})
        event = messages.canary_scaled(metadata.name, size, desired, self.noun)
        verb = "grows" if desired > size else "shrinks"
        return Waiting(f"{metadata.name} {verb} to {counted(desired, self.noun)}", events=(event,))

    async def label_pod(self, pod: Pod, name: str, batch: int) -> None:
        wanted = {rollout_labels.ROLLOUT_ID: name, rollout_labels.BATCH_ID: str(batch)}
        if all(pod.metadata.labels.get(name) == value for name, value in wanted.items()):
            return
        try:
            await self.client.patch(PODS, pod.metadata.name, pod.metadata.namespace, {"metadata": {"labels": wanted}})
        except NotFound:
            return

    async def label_pods_of_batches(self, release: BatchRelease, pods: Sequence[Pod], batch: int) -> None:
        """Give pods of the new version the batch that brought them. `pods` are in the order in which they came."""
        name, replicas = release.plan.rollout_id, self.replicas(release)
        if not name or replicas is None:
            return
        present = {pod.metadata.name: pod for pod in pods if not pod.metadata.deleting}
        known = {pod: batch_label(present[pod].metadata.labels, name) for pod in present}
        planned = [self.planned(release, number, replicas) for number in range(batch + 1)]
        for pod, batch_number in assign(known, planned).items():
            await self.label_pod(present[pod], name, batch_number)

    # Ending

    async def finalize(self, release: BatchRelease) -> ActionResult:
        stable = self.stable(release)
        if stable is not None:
            result = await self.finalize_stable(stable, release)
            if not isinstance(result, Done):
                return result
        else:
            await self.put_back(release)
        for copy in self.owned_copies(release):
            await self._remove_canary_finalizer(copy)
        return DONE

    async def detach_release(self, stable: T) -> ActionResult:
        """The release goes, the hold stays for the next one."""
        if rollout_labels.CONTROL_INFO in stable.metadata.annotations:
            await self.patch(stable, {"metadata": {"annotations": {rollout_labels.CONTROL_INFO: None}}})
        return DONE

    async def release_hold(self, rollout: Rollout) -> ActionResult:
        stable = self.live(Key(rollout.metadata.namespace, rollout.spec.workload_ref.name))
        if stable is None:
            return DONE
        if self.has_release_marks(stable):
            await self.patch(stable, self.release_hold_patch(stable, rollout.metadata.uid))
            return Waiting(f"{stable.metadata.name} goes on by itself")
        await self.restore_after_hold(stable)
        await self.set_autoscalers(stable, enabled=True, blue_green=rollout.blue_green)
        return DONE

    async def leave_held(self, rollout: Rollout) -> ActionResult:
        stable = self.live(Key(rollout.metadata.namespace, rollout.spec.workload_ref.name))
        if stable is None:
            return DONE
        if is_held_by_release(stable.metadata.annotations):
            await self.patch(stable, self.leave_held_patch(stable, rollout.metadata.uid))
            return Waiting(f"{stable.metadata.name} is left held, without a release")
        await self.set_autoscalers(stable, enabled=True, blue_green=rollout.blue_green)
        return DONE

    async def delete_canary(self, release: BatchRelease) -> ActionResult:
        left = []
        for copy in self.owned_copies(release):
            await self._remove_canary_finalizer(copy)
            if copy.metadata.deleting:
                continue
            left.append(copy.metadata.name)
            try:
                await self.client.delete(
                    self.resource,
                    copy.metadata.name,
                    copy.metadata.namespace,
                    uid=copy.metadata.uid,
                    propagation="Background",
                )
            except NotFound:
                continue
        text = f"deleted {', '.join(left)}"
        return Waiting(text, events=(messages.canary_deleted(text),)) if left else DONE

    async def _remove_canary_finalizer(self, copy: T) -> None:
        if rollout_labels.CANARY_FINALIZER in copy.metadata.finalizers:
            rest = [name for name in copy.metadata.finalizers if name != rollout_labels.CANARY_FINALIZER]
            try:
                await self.patch(copy, {"metadata": {"finalizers": rest}})
            except NotFound:
                return

    # Pods that are replaced while they serve

    def draining_routes(self, release: BatchRelease) -> tuple[RouteRef, ...]:
        """The routes whose Services lose pods in order; none if the Rollout does not drain."""
        found = self.rollout_of(release)
        refs = found.strategy.traffic_routings if found is not None else ()
        return refs if self.withdrawal is not None and drain_timeout(refs) > 0 else ()

    def rollout_of(self, release: BatchRelease) -> Rollout | None:
        owner = release.metadata.controller
        return self.cache.rollouts.get(Key(release.metadata.namespace, owner.name)) if owner is not None else None

    def goes_on_at_once(self, release: BatchRelease) -> bool:
        """Its Rollout is deleted or disabled: the workload is given back without waiting for its pods."""
        rollout = self.rollout_of(release)
        return rollout is None or rollout.metadata.deleting or rollout.spec.disabled

    async def put_back(self, release: BatchRelease) -> None:
        """No pod is about to be replaced: Services are as before. Also if the Rollout does not drain any more."""
        if self.withdrawal is not None:
            workload = workload_name(self.resource, release.spec.workload_ref.name)
            await self.withdrawal.put_back(release.metadata.namespace, workload)

    # Writing

    async def patch(self, subject: T, body: JsonObject) -> None:
        metadata = subject.metadata
        await self.client.patch(
            self.resource, metadata.name, metadata.namespace, locked(body, metadata.resource_version)
        )

    async def set_autoscalers(self, stable: T, *, enabled: bool, blue_green: bool) -> None:
        """Only blue-green touches them."""
        if blue_green:
            api_version, kind = self.resource.api_version, self.resource.kind
            await autoscaler_pause.set_enabled(self.client, key_of(stable), api_version, kind, enabled=enabled)


def key_of(subject: Subject) -> Key:
    return Key(subject.metadata.namespace, subject.metadata.name)


def is_owned_by(copy: Subject, release: BatchRelease | None) -> bool:
    owner = copy.metadata.controller
    return release is not None and owner is not None and owner.uid == release.metadata.uid


def control_info(release: BatchRelease) -> str:
    return msgspec.json.encode(release.owner_reference()).decode()


def is_blue_green(release: BatchRelease) -> bool:
    return release.plan.rolling_style == rollout_labels.BLUE_GREEN


def is_partition(release: BatchRelease) -> bool:
    return release.plan.rolling_style == rollout_labels.PARTITION


def may_shrink(release: BatchRelease) -> bool:
    """The Rollout says so for one batch at a time, when it has moved the traffic."""
    annotations = release.metadata.annotations
    return rollout_labels.WITHDRAWN in annotations or annotations.get(rollout_labels.SHRINK) == str(
        release.plan.batch_partition
    )


def batch_label(labels: Mapping[str, str], name: str) -> int | None:
    """The batch of this release that brought a pod."""
    text = labels.get(rollout_labels.BATCH_ID, "")
    return int(text) if labels.get(rollout_labels.ROLLOUT_ID) == name and text.isdigit() else None


def release_id(stable: Subject) -> str:
    """What the user calls this release. One concept with two places: the label is what pods get, the annotation is
    what the webhook looks at; a user who sets only one of them means both."""
    metadata = stable.metadata
    return metadata.labels.get(rollout_labels.ROLLOUT_ID) or metadata.annotations.get(rollout_labels.ROLLOUT_ID, "")
