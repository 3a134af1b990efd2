"""Deployments under release: canary by a second Deployment, blue-green inside one."""

from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.patches import locked
from kohort.kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS, Key
from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.core import Pod
from kohort.objects.jsontypes import JsonObject
from kohort.rollouts import arithmetic, wire
from kohort.rollouts.api import BatchRelease, Rollout
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.traffic.model import Note
from kohort.rollouts.workloads import autoscalers, deployments
from kohort.rollouts.workloads.groupcontrol import control_info
from kohort.rollouts.workloads.labels import assign
from kohort.rollouts.workloads.model import DONE, Counts, Outcome, Workload, wait


class DeploymentControl:
    resource = DEPLOYMENTS
    type_label = "deployment"

    def __init__(self, client: Client, cache: RolloutCache) -> None:
        self.client = client
        self.cache = cache

    # Looking

    def view(self, rollout: Rollout) -> Workload | None:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        stable = self.cache.deployments.get(key)
        if stable is None or stable.metadata.deleting:
            return None
        metadata = stable.metadata
        sets = self.cache.replica_sets_of(metadata.uid)
        live = deployments.active(sets)
        in_progress = wire.IN_PROGRESSING in metadata.annotations
        revision = deployments.revision_of(stable.spec.template)
        oldest = live[0] if live else None
        stable_hash = metadata.labels.get(wire.STABLE_REVISION, "") if in_progress else ""
        stable_hash = stable_hash or (_hash(oldest) if oldest else "")
        release = self.cache.releases.get(Key(key.namespace, rollout.metadata.name))
        if rollout.blue_green:
            new = deployments.with_template(sets, stable.spec.template)
            new_hash, canary_name, lost = (_hash(new) if new else ""), "", False
            back = bool(stable_hash) and stable_hash == new_hash
        else:
            owned = [one for one in self.cache.canary_deployments(key) if _owned(one, release)]
            canary = next((one for one in owned if not one.metadata.deleting), None)
            canary_sets = deployments.active(self.cache.replica_sets_of(canary.metadata.uid)) if canary else []
            new_hash = _hash(canary_sets[-1]) if canary_sets else ""
            canary_name = canary.metadata.name if canary else ""
            lost = canary is None and bool(owned)
            held = next((one for one in sets if _hash(one) == stable_hash), None)
            back = held is not None and deployments.revision_of(held.spec.template) == revision
        return Workload(
            name=key.name,
            generation=metadata.generation,
            revision_key=wire.TEMPLATE_HASH,
            consistent=_observed(stable) and bool(live or stable.spec.replicas == 0),
            replicas=_replicas(stable),
            guarded=wire.WORKLOAD_TYPE in metadata.labels,
            in_progress=in_progress,
            in_rollback=in_progress and back,
            stable_revision=stable_hash,
            canary_revision=revision,
            pod_template_hash=new_hash,
            rollout_id=metadata.labels.get(wire.ROLLOUT_ID, ""),
            canary_name=canary_name,
            extra_workload=not rollout.blue_green,
            canary_lost=lost,
        )

    def planned(self, release: BatchRelease, batch: int, replicas: int) -> int:
        batches = release.plan.batches
        if batch >= len(batches):
            return 0
        count = arithmetic.planned_in_place if _in_place(release) else arithmetic.planned
        return count(batches[batch].canary_replicas, replicas)

    def replicas(self, release: BatchRelease) -> int | None:
        stable = self._stable(release)
        return None if stable is None else _replicas(stable)

    def observed(self, release: BatchRelease) -> bool:
        stable = self._stable(release)
        return stable is not None and _observed(stable)

    def revision(self, release: BatchRelease) -> str:
        stable = self._stable(release)
        return "" if stable is None else deployments.revision_of(stable.spec.template)

    def counts(self, release: BatchRelease, desired: int) -> Counts:
        if _in_place(release):
            new = self._new_set(release)
            updated, ready = (new.status.replicas, new.status.ready_replicas) if new is not None else (0, 0)
            observed = new is not None and self.observed(release)
        else:
            canary = self._canary(release)
            updated, ready = (canary.status.replicas, canary.status.available_replicas) if canary else (0, 0)
            observed = canary is not None and _observed(canary)
        return Counts(updated, ready, observed=observed, text=f"{ready}/{desired} pods ready")

    def canary_gone(self, rollout: Rollout) -> bool:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        if rollout.blue_green:
            return True
        progress = rollout.status.progress
        name = progress.canary_name if progress is not None else ""
        left = [one for one in self.cache.replica_sets.list(key.namespace) if _owner(one) == name]
        return not self.cache.canary_deployments(key) and not (name and left)

    def _stable(self, release: BatchRelease) -> Deployment | None:
        found = self.cache.deployments.get(Key(release.metadata.namespace, release.spec.workload_ref.name))
        return None if found is None or found.metadata.deleting else found

    def _new_set(self, release: BatchRelease) -> ReplicaSet | None:
        stable = self._stable(release)
        if stable is None:
            return None
        return deployments.with_template(self.cache.replica_sets_of(stable.metadata.uid), stable.spec.template)

    def _canaries(self, release: BatchRelease) -> list[Deployment]:
        key = Key(release.metadata.namespace, release.spec.workload_ref.name)
        return [one for one in self.cache.canary_deployments(key) if _owned(one, release)]

    def _canary(self, release: BatchRelease) -> Deployment | None:
        stable, patch = self._stable(release), release.plan.patch_pod_template_metadata
        if stable is None:
            return None
        wanted = deployments.template_content(stable.spec.template, patch)
        for one in self._canaries(release):
            if not one.metadata.deleting and deployments.template_content(one.spec.template, patch) == wanted:
                return one
        return None

    # Acting

    async def guard(self, key: Key) -> None:
        body = {"metadata": {"labels": {wire.WORKLOAD_TYPE: self.type_label}}}
        await self.client.patch(DEPLOYMENTS, key.name, key.namespace, body)

    async def initialize(self, release: BatchRelease) -> Outcome:
        stable = self._stable(release)
        if stable is None or wire.IN_PROGRESSING not in stable.metadata.annotations:
            return wait(f"Deployment {release.spec.workload_ref.name} is not held: nothing is released")
        info = control_info(release)
        if _in_place(release):
            return await self._hold_in_place(stable, info)
        if stable.metadata.annotations.get(wire.CONTROL_INFO) != info or not stable.spec.paused:
            body = {"metadata": {"annotations": {wire.CONTROL_INFO: info}}, "spec": {"paused": True}}
            await self._patch(stable, body)
        if self._canary(release) is not None:
            return DONE
        whole: JsonObject = await self.client.get(DEPLOYMENTS, stable.metadata.name, stable.metadata.namespace)
        made = deployments.canary_deployment(stable, whole["spec"], release, info)
        name = made["metadata"]["name"]
        try:
            await self.client.create(DEPLOYMENTS, made)
        except AlreadyExists:
            return wait(f"canary {name} is not in sight yet")
        return wait(f"canary {name} is not in sight yet", Note("CanaryCreated", f"created {name}, 0 pods"))

    async def _hold_in_place(self, stable: Deployment, info: str) -> Outcome:
        await self._autoscalers(stable, enabled=False)
        for one in deployments.active(self.cache.replica_sets_of(stable.metadata.uid)):
            if one.spec.min_ready_seconds != deployments.NEVER_AVAILABLE:
                body = {"spec": {"minReadySeconds": deployments.NEVER_AVAILABLE}}
                await self.client.patch(REPLICA_SETS, one.metadata.name, one.metadata.namespace, body)
        if deployments.held_in_place(stable) and stable.metadata.annotations.get(wire.CONTROL_INFO) == info:
            return DONE
        await self._patch(stable, deployments.hold_in_place(stable, info))
        return wait(f"{stable.metadata.name} is prepared for both versions")

    async def upgrade(self, release: BatchRelease, desired: int) -> Outcome:
        stable = self._stable(release)
        if stable is None:
            return wait("the Deployment does not exist")
        if not _in_place(release):
            return await self._grow_canary(release, desired)
        if not deployments.held_in_place(stable):
            return Outcome("problem", f"Deployment {stable.metadata.name} lost its blue-green settings: roll back")
        rolling = stable.spec.strategy.rolling_update
        surge = rolling.max_surge if rolling is not None else None
        if not stable.spec.paused and isinstance(surge, int) and surge >= desired:
            return DONE
        strategy = {"rollingUpdate": {"maxSurge": max(desired, 1), "maxUnavailable": 0}}
        await self._patch(stable, {"spec": {"paused": False, "strategy": strategy}})
        return wait(f"{stable.metadata.name} starts {desired} pods of the new version")

    async def _grow_canary(self, release: BatchRelease, desired: int) -> Outcome:
        canary = self._canary(release)
        if canary is None:
            return await self.initialize(release)
        if _replicas(canary) >= desired:
            return DONE
        name = canary.metadata.name
        await self._patch(canary, {"spec": {"replicas": desired}})
        note = Note("CanaryScaled", f"{name}: {_replicas(canary)} to {desired} pods")
        return wait(f"{name} grows to {desired} pods", note)

    async def label_batches(self, release: BatchRelease, batch: int) -> None:
        release_id, replicas, value = release.plan.rollout_id, self.replicas(release), self._new_hash(release)
        if not release_id or replicas is None or not value:
            return
        listed = await self.client.list(
            PODS, release.metadata.namespace, type=Pod, label_selector=f"{wire.TEMPLATE_HASH}={value}"
        )
        pods = {one.metadata.name: one for one in listed.items if not one.metadata.deleting}
        known = {name: _batch_of(pods[name], release_id) for name in sorted(pods)}
        planned = [self.planned(release, number, replicas) for number in range(batch + 1)]
        for name, number in assign(known, planned).items():
            body = {"metadata": {"labels": {wire.ROLLOUT_ID: release_id, wire.BATCH_ID: str(number)}}}
            try:
                await self.client.patch(PODS, name, release.metadata.namespace, body)
            except NotFound:
                continue

    def _new_hash(self, release: BatchRelease) -> str:
        if _in_place(release):
            new = self._new_set(release)
            return _hash(new) if new is not None else ""
        canary = self._canary(release)
        sets = deployments.active(self.cache.replica_sets_of(canary.metadata.uid)) if canary is not None else []
        return _hash(sets[-1]) if sets else ""

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

    async def _finalize_stable(self, stable: Deployment, release: BatchRelease) -> Outcome:
        annotations, in_place = stable.metadata.annotations, _in_place(release)
        if release.plan.batch_partition is not None:
            if wire.CONTROL_INFO in annotations and not in_place:
                await self._patch(stable, {"metadata": {"annotations": {wire.CONTROL_INFO: None}}})
            return DONE
        if wire.IN_PROGRESSING in annotations or wire.ORIGINAL_DEPLOYMENT_STRATEGY in annotations:
            await self._patch(stable, _let_loose(stable, release.metadata.uid))
            return wait(f"{stable.metadata.name} goes on by itself")
        await self._wake(stable)
        if release.plan.finalizing_policy == wire.WAIT_RESUME and (text := _not_promoted(stable)):
            return wait(text)
        if in_place:
            await self._autoscalers(stable, enabled=True)
        return DONE

    async def resume(self, rollout: Rollout) -> Outcome:
        stable = self.cache.deployments.get(Key(rollout.metadata.namespace, rollout.spec.workload_ref.name))
        if stable is None or stable.metadata.deleting:
            return DONE
        annotations = stable.metadata.annotations
        if wire.IN_PROGRESSING in annotations or wire.ORIGINAL_DEPLOYMENT_STRATEGY in annotations:
            await self._patch(stable, _let_loose(stable, rollout.metadata.uid))
            return wait(f"{stable.metadata.name} goes on by itself")
        await self._wake(stable)
        if rollout.blue_green:
            await self._autoscalers(stable, enabled=True)
        return DONE

    async def _wake(self, stable: Deployment) -> None:
        """ReplicaSets whose pods we kept from being available get the patience of their Deployment back: old ones are
        never synchronised by their controller."""
        seconds = stable.spec.min_ready_seconds
        if seconds == deployments.NEVER_AVAILABLE:
            return
        for one in self.cache.replica_sets_of(stable.metadata.uid):
            if one.spec.min_ready_seconds == deployments.NEVER_AVAILABLE:
                body = {"spec": {"minReadySeconds": seconds}}
                await self.client.patch(REPLICA_SETS, one.metadata.name, one.metadata.namespace, body)

    async def discard(self, release: BatchRelease) -> Outcome:
        left = []
        for canary in self._canaries(release):
            await self._let_go(canary)
            if canary.metadata.deleting:
                continue
            name, namespace = canary.metadata.name, canary.metadata.namespace
            left.append(name)
            try:
                await self.client.delete(
                    DEPLOYMENTS, name, namespace, uid=canary.metadata.uid, propagation="Background"
                )
            except NotFound:
                continue
        text = f"deleted {', '.join(left)}"
        return wait(text, Note("CanaryDeleted", text)) if left else DONE

    async def _let_go(self, canary: Deployment) -> None:
        if wire.CANARY_FINALIZER in canary.metadata.finalizers:
            rest = [name for name in canary.metadata.finalizers if name != wire.CANARY_FINALIZER]
            try:
                await self._patch(canary, {"metadata": {"finalizers": rest}})
            except NotFound:
                return

    async def _patch(self, subject: Deployment, body: JsonObject) -> None:
        metadata = subject.metadata
        await self.client.patch(DEPLOYMENTS, metadata.name, metadata.namespace, locked(body, metadata.resource_version))

    async def _autoscalers(self, stable: Deployment, *, enabled: bool) -> None:
        key = Key(stable.metadata.namespace, stable.metadata.name)
        await autoscalers.set_enabled(self.client, key, "apps/v1", "Deployment", enabled=enabled)


def _in_place(release: BatchRelease) -> bool:
    return release.plan.rolling_style == wire.BLUE_GREEN


def _let_loose(stable: Deployment, token: str) -> JsonObject:
    in_place = wire.ORIGINAL_DEPLOYMENT_STRATEGY in stable.metadata.annotations
    return deployments.restore_in_place(stable, token) if in_place else deployments.released(token)


def _replicas(deployment: Deployment) -> int:
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def _observed(deployment: Deployment) -> bool:
    return deployment.status.observed_generation >= deployment.metadata.generation


def _hash(replica_set: ReplicaSet) -> str:
    return replica_set.metadata.labels.get(wire.TEMPLATE_HASH, "")


def _owned(canary: Deployment, release: BatchRelease | None) -> bool:
    owner = canary.metadata.controller
    return release is not None and owner is not None and owner.uid == release.metadata.uid


def _owner(replica_set: ReplicaSet) -> str:
    owner = replica_set.metadata.controller
    return owner.name if owner is not None else ""


def _batch_of(pod: Pod, release_id: str) -> int | None:
    text = pod.metadata.labels.get(wire.BATCH_ID, "")
    return int(text) if pod.metadata.labels.get(wire.ROLLOUT_ID) == release_id and text.isdigit() else None


def _not_promoted(stable: Deployment) -> str:
    status, replicas = stable.status, _replicas(stable)
    name = stable.metadata.name
    if not _observed(stable):
        return f"{name} has not been looked at by its controller yet"
    if status.replicas != status.updated_replicas or status.updated_replicas < replicas:
        return f"{name}: {status.updated_replicas} of {status.replicas} pods have the new version"
    if status.available_replicas + deployments.unavailable(stable) < replicas:
        return f"{name}: {status.available_replicas}/{replicas} pods available at the new version"
    return ""
