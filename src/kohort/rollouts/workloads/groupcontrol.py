"""LeaderWorkerSets under release: the stable set held, the new version in a set of its own.

Both styles use the same two objects. They differ in how the stable set is promoted: a canary release lets its groups
roll at the user's pace, blue-green replaces them all at once, since the new version serves alone meanwhile.
"""

from collections import Counter
from typing import Final

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.patches import locked
from kohort.kube.resources import LEADER_WORKER_SETS, PODS, Key
from kohort.objects.core import Pod
from kohort.objects.jsontypes import JsonObject
from kohort.rollouts import arithmetic, wire
from kohort.rollouts.api import BatchRelease, Rollout
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.traffic.model import Note
from kohort.rollouts.workloads import autoscalers, canaryset, groupset
from kohort.rollouts.workloads.groupset import GroupSet
from kohort.rollouts.workloads.labels import assign
from kohort.rollouts.workloads.model import DONE, Counts, Outcome, Workload, wait
from kohort.rollouts.workloads.readiness import groups_of, ready_groups, told, unschedulable

_SALTS: Final = 8


class GroupControl:
    resource = LEADER_WORKER_SETS
    type_label = "leaderworkerset"

    def __init__(self, client: Client, cache: RolloutCache) -> None:
        self.client = client
        self.cache = cache

    # Looking

    def view(self, rollout: Rollout) -> Workload | None:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        stable = self.cache.sets.get(key)
        if stable is None or stable.metadata.deleting:
            return None
        live = self.cache.live_hash(key)
        release = self.cache.releases.get(Key(key.namespace, rollout.metadata.name))
        canaries = self.cache.canaries(key)
        ours = [one for one in canaries if not one.metadata.deleting and _owned(one, release)]
        canary = ours[0] if ours else None
        stable_revision = self._stable_revision(stable, live)
        noted = stable.metadata.annotations.get(wire.STABLE_FINGERPRINT, "")
        back = stable.in_progress and (live == stable_revision or stable.fingerprint == noted)
        return Workload(
            name=key.name,
            generation=stable.metadata.generation,
            revision_key=wire.GROUP_REVISION,
            consistent=stable.observed and bool(live),
            replicas=stable.replicas,
            guarded=wire.WORKLOAD_TYPE in stable.metadata.labels,
            in_progress=stable.in_progress,
            in_rollback=back,
            stable_revision=stable_revision,
            canary_revision=stable.fingerprint,
            pod_template_hash=self.cache.live_hash(_key(canary)) if canary is not None else "",
            rollout_id=stable.metadata.labels.get(wire.ROLLOUT_ID, ""),
            canary_name=canary.metadata.name if canary is not None else "",
            pinned=_pinned(canary) if canary is not None else {},
            canary_lost=canary is None and any(one.metadata.deleting and _owned(one, release) for one in canaries),
            remark=_remark(stable),
        )

    def _stable_revision(self, stable: GroupSet, live: str) -> str:
        if not stable.in_progress:
            return live
        noted = stable.metadata.labels.get(wire.STABLE_REVISION, "")
        if noted:
            return noted
        old = Counter(
            pod.metadata.labels.get(wire.GROUP_REVISION, "")
            for pod in self.cache.pods_of(_key(stable))
            if _leads(pod) and pod.metadata.labels.get(wire.GROUP_REVISION, "") != live
        )
        return old.most_common(1)[0][0] if old else live

    def planned(self, release: BatchRelease, batch: int, replicas: int) -> int:
        if wire.FULL_CAPACITY in release.metadata.annotations:
            return replicas
        batches = release.plan.batches
        return arithmetic.planned(batches[batch].canary_replicas, replicas) if batch < len(batches) else 0

    def replicas(self, release: BatchRelease) -> int | None:
        stable = self._stable(release)
        return None if stable is None else stable.replicas

    def observed(self, release: BatchRelease) -> bool:
        stable = self._stable(release)
        return stable is not None and stable.observed

    def revision(self, release: BatchRelease) -> str:
        stable = self._stable(release)
        return "" if stable is None else stable.fingerprint

    def counts(self, release: BatchRelease, desired: int) -> Counts:
        canary = self._canary(release)
        if canary is None:
            return Counts(observed=False, text=f"0/{desired} groups ready (0 pods), the canary set does not exist yet")
        pods = self.cache.pods_of(_key(canary))
        ready = min(canary.status.ready_replicas, ready_groups(pods, canary.size))
        text = told(ready, desired, pods)
        if waiting := unschedulable(pods):
            text += f"; {waiting} groups unschedulable"
        return Counts(canary.status.replicas, ready, observed=canary.observed, text=text)

    def canary_gone(self, rollout: Rollout) -> bool:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        if self.cache.canaries(key):
            return False
        progress = rollout.status.progress
        name = progress.canary_name if progress is not None else ""
        return not name or not any(_leads(pod) for pod in self.cache.pods_of(Key(key.namespace, name)))

    def _stable(self, release: BatchRelease) -> GroupSet | None:
        found = self.cache.sets.get(Key(release.metadata.namespace, release.spec.workload_ref.name))
        return None if found is None or found.metadata.deleting else found

    def _canaries(self, release: BatchRelease) -> list[GroupSet]:
        key = Key(release.metadata.namespace, release.spec.workload_ref.name)
        return [one for one in self.cache.canaries(key) if _owned(one, release)]

    def _canary(self, release: BatchRelease) -> GroupSet | None:
        """The live one that carries the template of the stable set as it is now."""
        stable = self._stable(release)
        if stable is None:
            return None
        patch = release.plan.patch_pod_template_metadata
        for one in self._canaries(release):
            if not one.metadata.deleting and canaryset.same_version(one, stable, patch):
                return one
        return None

    # Acting

    async def guard(self, key: Key) -> None:
        body = {"metadata": {"labels": {wire.WORKLOAD_TYPE: self.type_label}}}
        await self.client.patch(LEADER_WORKER_SETS, key.name, key.namespace, body)

    async def initialize(self, release: BatchRelease) -> Outcome:
        stable = self._stable(release)
        if stable is None:
            return wait("the LeaderWorkerSet does not exist")
        if not stable.in_progress:
            return wait(f"LeaderWorkerSet {stable.metadata.name} is not held: nothing is released")
        notes = await self._ensure_hold(stable, release)
        if release.plan.rolling_style == wire.BLUE_GREEN:
            await self._autoscalers(stable, enabled=False)
        if self._canary(release) is not None:
            return Outcome("done", notes=tuple(notes))
        return await self._create_canary(stable, release, notes)

    async def _ensure_hold(self, stable: GroupSet, release: BatchRelease) -> list[Note]:
        metadata = stable.metadata
        if not groupset.is_held(stable.spec):
            await self._patch(stable, groupset.hold_again(stable))
            text = f"the hold of {metadata.name} was gone (somebody wrote past the webhook); it is back"
            return [Note("HoldLost", text, warning=True)]
        info = control_info(release)
        if metadata.annotations.get(wire.CONTROL_INFO) != info:
            await self._patch(stable, {"metadata": {"annotations": {wire.CONTROL_INFO: info}}})
        return []

    async def _create_canary(self, stable: GroupSet, release: BatchRelease, notes: list[Note]) -> Outcome:
        for salt in range(_SALTS):
            body = canaryset.canary_set(stable, release, control_info(release), salt)
            name = body["metadata"]["name"]
            try:
                await self.client.create(LEADER_WORKER_SETS, body)
            except AlreadyExists:
                found: GroupSet = await self.client.get(
                    LEADER_WORKER_SETS, name, stable.metadata.namespace, type=GroupSet
                )
                if _owned(found, release):
                    return wait(f"canary {name} is not in sight yet", *notes)
                continue
            return wait(
                f"canary {name} is not in sight yet", *notes, Note("CanaryCreated", f"created {name}, 0 groups")
            )
        return Outcome("problem", f"every name for a canary of {stable.metadata.name} is taken by others")

    async def upgrade(self, release: BatchRelease, desired: int) -> Outcome:
        canary = self._canary(release)
        if canary is None:
            return await self.initialize(release)
        stable = self._stable(release)
        notes = await self._ensure_hold(stable, release) if stable is not None and stable.in_progress else []
        if canary.replicas >= desired:
            return Outcome("done", notes=tuple(notes))
        name = canary.metadata.name
        await self.client.patch(LEADER_WORKER_SETS, name, canary.metadata.namespace, {"spec": {"replicas": desired}})
        note = Note("CanaryScaled", f"{name}: {canary.replicas} to {desired} groups")
        return wait(f"{name} grows to {desired} groups", *notes, note)

    async def label_batches(self, release: BatchRelease, batch: int) -> None:
        canary, replicas = self._canary(release), self.replicas(release)
        release_id = release.plan.rollout_id
        if canary is None or replicas is None or not release_id:
            return
        planned = [self.planned(release, number, replicas) for number in range(batch + 1)]
        groups = groups_of(self.cache.pods_of(_key(canary)))
        known = {str(index): _batch_of(groups[index], release_id) for index in sorted(groups)}
        known |= assign(known, planned)
        for index, assigned in known.items():
            if assigned is None:
                continue
            for pod in groups[int(index)]:
                await self._label(pod, release_id, assigned)

    async def _label(self, pod: Pod, release_id: str, batch: int) -> None:
        wanted = {wire.ROLLOUT_ID: release_id, wire.BATCH_ID: str(batch)}
        if all(pod.metadata.labels.get(name) == value for name, value in wanted.items()):
            return
        try:
            await self.client.patch(PODS, pod.metadata.name, pod.metadata.namespace, {"metadata": {"labels": wanted}})
        except NotFound:
            return

    # Ending

    async def finalize(self, release: BatchRelease) -> Outcome:
        stable = self._stable(release)
        if stable is not None:
            outcome = await self._finalize_stable(stable, release)
            if not outcome.done:
                return outcome
        for canary in self._canaries(release):
            await self._let_go(canary)
        return DONE

    async def _finalize_stable(self, stable: GroupSet, release: BatchRelease) -> Outcome:
        if release.plan.batch_partition is not None:
            if wire.CONTROL_INFO in stable.metadata.annotations:
                await self._patch(stable, {"metadata": {"annotations": {wire.CONTROL_INFO: None}}})
            return DONE
        token, blue_green = release.metadata.uid, release.plan.rolling_style == wire.BLUE_GREEN
        if release.plan.finalizing_policy == wire.WAIT_RESUME:
            if stable.in_progress:
                await self._patch(stable, groupset.lift(stable, token, at_once=blue_green))
                return wait(f"{stable.metadata.name} begins to roll to the new version")
            if stable.promoting and (text := _not_promoted(stable)):
                return wait(text)
        if stable.in_progress or stable.promoting:
            await self._patch(stable, groupset.restore(stable, token))
            return wait(f"{stable.metadata.name} gets its own strategy back")
        if blue_green:
            await self._autoscalers(stable, enabled=True)
        return DONE

    async def resume(self, rollout: Rollout) -> Outcome:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        stable = self.cache.sets.get(key)
        if stable is None or stable.metadata.deleting:
            return DONE
        if stable.in_progress or stable.promoting:
            await self._patch(stable, groupset.restore(stable, rollout.metadata.uid))
            return wait(f"{key.name} gets its own strategy back")
        if rollout.blue_green:
            await self._autoscalers(stable, enabled=True)
        return DONE

    async def discard(self, release: BatchRelease) -> Outcome:
        left = []
        for canary in self._canaries(release):
            await self._let_go(canary)
            if not canary.metadata.deleting:
                left.append(canary.metadata.name)
                try:
                    await self.client.delete(
                        LEADER_WORKER_SETS,
                        canary.metadata.name,
                        canary.metadata.namespace,
                        uid=canary.metadata.uid,
                        propagation="Background",
                    )
                except NotFound:
                    continue
        return (
            wait(f"deleting {', '.join(left)}", Note("CanaryDeleted", f"deleted {', '.join(left)}")) if left else DONE
        )

    async def _let_go(self, canary: GroupSet) -> None:
        if wire.CANARY_FINALIZER in canary.metadata.finalizers:
            rest = [name for name in canary.metadata.finalizers if name != wire.CANARY_FINALIZER]
            try:
                await self._patch(canary, {"metadata": {"finalizers": rest}})
            except NotFound:
                return

    async def _patch(self, subject: GroupSet, body: JsonObject) -> None:
        metadata = subject.metadata
        await self.client.patch(
            LEADER_WORKER_SETS, metadata.name, metadata.namespace, locked(body, metadata.resource_version)
        )

    async def _autoscalers(self, stable: GroupSet, *, enabled: bool) -> None:
        api_version, kind = LEADER_WORKER_SETS.api_version, LEADER_WORKER_SETS.kind
        await autoscalers.set_enabled(self.client, _key(stable), api_version, kind, enabled=enabled)


def control_info(release: BatchRelease) -> str:
    return msgspec.json.encode(release.owner_reference()).decode()


def _owned(canary: GroupSet, release: BatchRelease | None) -> bool:
    owner = canary.metadata.controller
    return release is not None and owner is not None and owner.uid == release.metadata.uid


def _key(subject: GroupSet) -> Key:
    return Key(subject.metadata.namespace, subject.metadata.name)


def _pinned(canary: GroupSet) -> dict[str, str]:
    """Leaders of the canary, and nobody else."""
    return {wire.WORKER_INDEX: wire.LEADER, wire.GROUP_SET: canary.metadata.name}


def _leads(pod: Pod) -> bool:
    return pod.metadata.labels.get(wire.WORKER_INDEX) == wire.LEADER


def _batch_of(members: list[Pod], release_id: str) -> int | None:
    """The leader decides for its group."""
    for pod in members:
        labels = pod.metadata.labels
        text = labels.get(wire.BATCH_ID, "")
        if _leads(pod) and labels.get(wire.ROLLOUT_ID) == release_id and text.isdigit():
            return int(text)
    return None


def _not_promoted(stable: GroupSet) -> str:
    """What is missing until every group has the new version; empty when nothing is."""
    status, replicas = stable.status, stable.replicas
    if not stable.observed:
        return f"{stable.metadata.name} has not been looked at by its controller yet"
    if status.replicas != replicas or status.updated_replicas != replicas:
        return f"{stable.metadata.name}: {status.updated_replicas}/{replicas} groups have the new version"
    enough = status.ready_replicas + groupset.unavailable(stable) >= replicas
    if not enough or (replicas > 0 and status.ready_replicas == 0):
        return f"{stable.metadata.name}: {status.ready_replicas}/{replicas} groups ready at the new version"
    return ""


def _remark(stable: GroupSet) -> str:
    if stable.in_progress and stable.replicas == 0:
        return "the stable set was scaled to 0: its old version is lost, groups that come back have the new one"
    return ""
