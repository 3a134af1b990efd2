"""Deployments under release: canary by a second Deployment, blue-green inside one."""

from kohort.kube.errors import AlreadyExists
from kohort.kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS, Key
from kohort.objects import int_or_string
from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import counted, counted_of
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import find_condition
from kohort.rollouts import messages, step_arithmetic
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.rollout_types import BatchRelease, Rollout
from kohort.rollouts.workloads import deployment_hold, partitioned_deployment, serving_pods
from kohort.rollouts.workloads.draining_rounds import round_of
from kohort.rollouts.workloads.model import ReleasedWorkload, ReplicaCounts
from kohort.rollouts.workloads.workload_control import (
    WorkloadControl,
    control_info,
    is_blue_green,
    is_owned_by,
    is_partition,
    release_id,
)
from kohort.rules import rollout_labels
from kohort.rules.pod_template import same_pod_template
from kohort.rules.release_hold import is_held_by_release


class DeploymentControl(WorkloadControl[Deployment]):
    resource = DEPLOYMENTS
    type_label = "deployment"
    unit = "pods"

    def find(self, key: Key) -> Deployment | None:
        return self.cache.deployments.get(key)

    def copies(self, key: Key) -> list[Deployment]:
        return self.cache.canary_deployments(key)

    def size(self, subject: Deployment) -> int:
        return 1 if subject.spec.replicas is None else subject.spec.replicas

    def is_seen_by_its_controller(self, subject: Deployment) -> bool:
        return subject.status.observed_generation >= subject.metadata.generation

    def version(self, subject: Deployment) -> str:
        return deployment_hold.revision_of(subject.spec.template)

    def has_release_marks(self, stable: Deployment) -> bool:
        return deployment_hold.has_release_marks(stable.metadata)

    def release_hold_patch(self, stable: Deployment, token: str) -> JsonObject:
        return deployment_hold.release_hold_patch(stable, token)

    def leave_held_patch(self, stable: Deployment, token: str) -> JsonObject:
        return deployment_hold.release_hold_patch(stable, token, paused=True)

    # Observing

    def observe(self, rollout: Rollout) -> ReleasedWorkload | None:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        stable = self.live(key)
        if stable is None:
            return None
        metadata = stable.metadata
        live = deployment_hold.active(self.cache.replica_sets_of(metadata.uid))
        in_progress = is_held_by_release(metadata.annotations)
        noted = metadata.labels.get(rollout_labels.STABLE_REVISION, "") if in_progress else ""
        stable_hash = noted or (_hash(live[0]) if live else "")
        if rollout.partitioned and noted and noted not in map(_hash, live) and not self._is_back(stable, noted):
            # A release that had replaced every pod was superseded: what serves now is the version in between.
            others = [one for one in live if not same_pod_template(one.spec.template, stable.spec.template)]
            stable_hash = _hash(others[0]) if others else noted
        release = self.cache.releases.get(Key(key.namespace, rollout.metadata.name))
        new_hash, canary_name, lost = self._new_version(stable, rollout, release)
        return ReleasedWorkload(
            name=key.name,
            generation=metadata.generation,
            revision_key=rollout_labels.TEMPLATE_HASH,
            uid=metadata.uid,
            consistent=self.is_seen_by_its_controller(stable) and bool(live or stable.spec.replicas == 0),
            replicas=self.size(stable),
            has_webhook_label=rollout_labels.WORKLOAD_TYPE in metadata.labels,
            in_progress=in_progress,
            in_rollback=in_progress and self._is_back(stable, stable_hash),
            stable_revision=stable_hash,
            canary_revision=self.version(stable),
            earlier_canary_revision=deployment_hold.earlier_revision_of(stable.spec.template),
            pod_template_hash=new_hash,
            released=self.released(release) if release is not None else "",
            rollout_id=release_id(stable),
            canary_name=canary_name,
            extra_workload=not rollout.shares_deployment,
            canary_lost=lost,
            serving=serving_pods.of_deployment(stable),
        )

    def _new_version(self, stable: Deployment, rollout: Rollout, release: BatchRelease | None) -> tuple[str, str, bool]:
        """The hash of its pods, the Deployment that was made for them, and whether a user has deleted that."""
        if rollout.shares_deployment:
            new = self._set_of(stable)
            return (_hash(new) if new is not None else ""), "", False
        key = Key(stable.metadata.namespace, stable.metadata.name)
        ours = [one for one in self.copies(key) if is_owned_by(one, release)]
        canary = next((one for one in ours if not one.metadata.deleting), None)
        if canary is None:
            return "", "", bool(ours)
        return self._newest_hash(canary), canary.metadata.name, False

    def _is_back(self, stable: Deployment, stable_hash: str) -> bool:
        """Whether the template is the one that stable pods have."""
        sets = self.cache.replica_sets_of(stable.metadata.uid)
        held = next((one for one in sets if stable_hash and _hash(one) == stable_hash), None)
        return held is not None and same_pod_template(held.spec.template, stable.spec.template)

    def released(self, release: BatchRelease) -> str:
        """Inside one Deployment: what runs besides the stable version."""
        stable = self.stable(release)
        if stable is None or self.has_copy(release):
            return super().released(release)
        held = stable.metadata.labels.get(rollout_labels.STABLE_REVISION, "")
        live = deployment_hold.active(self.cache.replica_sets_of(stable.metadata.uid))
        new = [one for one in live if _hash(one) != held]
        return deployment_hold.revision_of(new[-1].spec.template) if new else ""

    def has_copy(self, release: BatchRelease) -> bool:
        return not step_arithmetic.share_deployment(self.resource.group_kind, release.plan.rolling_style)

    def shrinks(self, release: BatchRelease) -> bool:
        """Never inside one blue-green Deployment: its controller does not shrink a new version whose surge becomes
        smaller."""
        return not is_blue_green(release) and super().shrinks(release)

    def counts(self, release: BatchRelease, desired: int) -> ReplicaCounts:
        if not self.has_copy(release):
            new = self._new_set(release)
            updated, ready = (new.status.replicas, new.status.ready_replicas) if new is not None else (0, 0)
            observed = new is not None and self.is_observed(release)
            failure = _failure(new)
        else:
            canary = self.canary(release)
            updated, ready = (canary.status.replicas, canary.status.available_replicas) if canary else (0, 0)
            observed = canary is not None and self.is_seen_by_its_controller(canary)
            failure = _failure(canary)
        texts = (f"{ready}/{desired} pods ready", failure, self._draining(release))
        return ReplicaCounts(updated, ready, observed=observed, text=", ".join(filter(None, texts)))

    def _draining(self, release: BatchRelease) -> str:
        stable = self.stable(release)
        found = round_of(stable.metadata.annotations) if stable is not None else None
        return messages.draining_pods(found.pods.values()) if found is not None else ""

    def canary_gone(self, rollout: Rollout) -> bool:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        if rollout.shares_deployment:
            return True
        progress = rollout.status.progress
        name = progress.canary_name if progress is not None else ""
        left = [one for one in self.cache.replica_sets.list(key.namespace) if _owner(one) == name]
        return not self.copies(key) and not (name and left)

    def _new_set(self, release: BatchRelease) -> ReplicaSet | None:
        stable = self.stable(release)
        return None if stable is None else self._set_of(stable)

    def _set_of(self, stable: Deployment) -> ReplicaSet | None:
        return deployment_hold.with_template(self.cache.replica_sets_of(stable.metadata.uid), stable.spec.template)

    def _newest_hash(self, canary: Deployment) -> str:
        sets = deployment_hold.active(self.cache.replica_sets_of(canary.metadata.uid))
        return _hash(sets[-1]) if sets else ""

    def canary(self, release: BatchRelease) -> Deployment | None:
        stable, patch = self.stable(release), release.plan.patch_pod_template_metadata
        if stable is None:
            return None
        wanted = deployment_hold.template_content(stable.spec.template, patch)
        for one in self.owned_copies(release):
            if not one.metadata.deleting and deployment_hold.template_content(one.spec.template, patch) == wanted:
                return one
        return None

    # Acting

    async def adopt_held(self, rollout: Rollout) -> None:
        """A Deployment that was left paused is an ordinary paused one: the next change of its template is held."""

    async def initialize(self, release: BatchRelease) -> ActionResult:
        stable = self.stable(release)
        if stable is None or not is_held_by_release(stable.metadata.annotations):
            return Waiting(f"Deployment {release.spec.workload_ref.name} is not held: nothing is released")
        info = control_info(release)
        if is_blue_green(release):
            return await self._hold_in_place(stable, info)
        if is_partition(release):
            return await self._hold_for_partition(stable, info)
        events = await self.ensure_hold(stable, release)
        if self.canary(release) is not None:
            return Done(events=events)
        whole: JsonObject = await self.client.get(DEPLOYMENTS, stable.metadata.name, stable.metadata.namespace)
        made = deployment_hold.canary_deployment(stable, whole["spec"], release, info)
        name = made["metadata"]["name"]
        try:
            await self.client.create(DEPLOYMENTS, made)
        except AlreadyExists:
            return Waiting(f"canary {name} is not observed yet", events=events)
        created = messages.canary_created(name, self.unit)
        return Waiting(f"canary {name} is not observed yet", events=(*events, created))

    def is_held(self, stable: Deployment) -> bool:
        if rollout_labels.PARTITION_STRATEGY in stable.metadata.annotations:
            return partitioned_deployment.is_partitioned(stable)
        in_place = rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY in stable.metadata.annotations
        return deployment_hold.held_in_place(stable) if in_place else stable.spec.paused

    def hold_again_patch(self, stable: Deployment) -> JsonObject:
        if rollout_labels.PARTITION_STRATEGY in stable.metadata.annotations:
            return partitioned_deployment.hold_again_patch()
        if rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY in stable.metadata.annotations:
            return deployment_hold.hold_in_place(
                stable, stable.metadata.annotations.get(rollout_labels.CONTROL_INFO, "")
            )
        return {"spec": {"paused": True}}

    async def _hold_in_place(self, stable: Deployment, info: str) -> ActionResult:
        await self.set_autoscalers(stable, enabled=False, blue_green=True)
        for one in deployment_hold.active(self.cache.replica_sets_of(stable.metadata.uid)):
            if one.spec.min_ready_seconds != deployment_hold.NEVER_AVAILABLE:
                body = {"spec": {"minReadySeconds": deployment_hold.NEVER_AVAILABLE}}
                await self.client.patch(REPLICA_SETS, one.metadata.name, one.metadata.namespace, body)
        if (
            deployment_hold.held_in_place(stable)
            and stable.metadata.annotations.get(rollout_labels.CONTROL_INFO) == info
        ):
            return DONE
        await self.patch(stable, deployment_hold.hold_in_place(stable, info))
        return Waiting(f"{stable.metadata.name} is prepared for both versions")

    async def _hold_for_partition(self, stable: Deployment, info: str) -> ActionResult:
        strategy = partitioned_deployment.read_strategy(stable)
        controlled = stable.metadata.annotations.get(rollout_labels.CONTROL_INFO) == info
        if (
            controlled
            and partitioned_deployment.is_partitioned(stable)
            and strategy is not None
            and not strategy.paused
        ):
            return DONE
        await self.patch(stable, partitioned_deployment.hold_patch(stable, info))
        return Waiting(f"{stable.metadata.name} is prepared for both versions")

    async def _move_partition(self, stable: Deployment, release: BatchRelease, desired: int) -> ActionResult:
        """It only grows, unless the new version is withdrawn, or the user wants fewer after a jump back."""
        strategy = partitioned_deployment.read_strategy(stable)
        if strategy is None:
            return await self.initialize(release)
        withdrawn = rollout_labels.WITHDRAWN in release.metadata.annotations
        shrinks = self.shrinks(release)
        reached = partitioned_deployment.expected_new(strategy, self.size(stable))
        if not strategy.paused and (reached == desired if shrinks else reached >= desired):
            left = self.counts(release, desired).updated - desired
            still = f"{stable.metadata.name}: {counted(left, 'pod')} still to go back"
            return Waiting(still) if shrinks and left > 0 else DONE
        wanted = 0 if withdrawn else release.plan.batches[release.status.canary_status.current_batch].canary_replicas
        await self.patch(stable, partitioned_deployment.partition_patch(strategy, wanted))
        return Waiting(f"{stable.metadata.name} gives {counted(desired, 'pod')} the new version")

    async def upgrade(self, release: BatchRelease, desired: int) -> ActionResult:
        stable = self.stable(release)
        if stable is None:
            return Waiting("the Deployment does not exist")
        if is_blue_green(release):
            return await self._grow_in_place(stable, release, desired)
        if is_partition(release):
            return await self._move_partition(stable, release, desired)
        canary = self.canary(release)
        return await self.initialize(release) if canary is None else await self.resize_copy(canary, desired, release)

    async def _grow_in_place(self, stable: Deployment, release: BatchRelease, desired: int) -> ActionResult:
        """By the surge, spelled as in the plan: a percentage then follows the size of the Deployment."""
        if not deployment_hold.held_in_place(stable):
            return Problem(f"Deployment {stable.metadata.name} lost its blue-green settings: roll back")
        rolling, replicas = stable.spec.strategy.rolling_update, self.size(stable)
        surge = rolling.max_surge if rolling is not None else None
        wanted = release.plan.batches[release.status.canary_status.current_batch].canary_replicas
        if not stable.spec.paused and surge is not None:
            enough = int_or_string.resolve(surge, replicas, round_up=True) >= desired
            if surge == wanted or (enough and surge != deployment_hold.HELD_SURGE):
                return DONE
        strategy = {"rollingUpdate": {"maxSurge": wanted, "maxUnavailable": 0}}
        await self.patch(stable, {"spec": {"paused": False, "strategy": strategy}})
        return Waiting(f"{stable.metadata.name} starts {counted(desired, 'pod')} of the new version")

    async def label_batches(self, release: BatchRelease, batch: int) -> None:
        value = self._new_hash(release)
        if not value or not release.plan.rollout_id:
            return
        listed = await self.client.list(
            PODS, release.metadata.namespace, type=Pod, label_selector=f"{rollout_labels.TEMPLATE_HASH}={value}"
        )
        pods = sorted(listed.items, key=lambda pod: pod.metadata.name)
        await self.label_pods_of_batches(release, pods, batch)

    def _new_hash(self, release: BatchRelease) -> str:
        if not self.has_copy(release):
            new = self._new_set(release)
            return _hash(new) if new is not None else ""
        canary = self.canary(release)
        return self._newest_hash(canary) if canary is not None else ""

    # Ending

    async def finalize_stable(self, stable: Deployment, release: BatchRelease) -> ActionResult:
        if release.plan.batch_partition is not None:
            return DONE if is_blue_green(release) else await self.detach_release(stable)
        if (rest := await self._drained_rest(stable, release)) is not None:
            return rest
        if self.has_release_marks(stable):
            await self.patch(stable, self.release_hold_patch(stable, release.metadata.uid))
            return Waiting(f"{stable.metadata.name} goes on by itself")
        await self.restore_after_hold(stable)
        if release.plan.finalizing_policy == rollout_labels.WAIT_RESUME and (text := self._not_promoted(stable)):
            return Waiting(text)
        await self.set_autoscalers(stable, enabled=True, blue_green=is_blue_green(release))
        return DONE

    async def _drained_rest(self, stable: Deployment, release: BatchRelease) -> ActionResult | None:
        """Pods of another version than the template's are replaced while they can still be drained: those that the
        last step left, or those of a version that is rolled back."""
        strategy, size = partitioned_deployment.read_strategy(stable), self.size(stable)
        if strategy is None or not partitioned_deployment.is_partitioned(stable) or not self.draining_routes(release):
            return None
        promoted = release.plan.finalizing_policy == rollout_labels.WAIT_RESUME and not strategy.paused
        if not promoted and not self._is_rolled_back(stable, release):
            return None
        if strategy.paused or partitioned_deployment.expected_new(strategy, size) < size:
            await self.patch(stable, partitioned_deployment.partition_patch(strategy, "100%"))
            return Waiting(f"{stable.metadata.name} gives {counted(size, 'pod')} its template")
        current = self._set_of(stable)
        others = [one for one in self.cache.replica_sets_of(stable.metadata.uid) if one is not current]
        left = sum(max(one.spec.replicas or 0, one.status.replicas) for one in others)
        if not left and (current is None or partitioned_deployment.is_noted(current, str(size))):
            return None
        text = f"{stable.metadata.name}: {counted(left, 'pod')} of another version left"
        return Waiting(", ".join(filter(None, (text, self._draining(release)))))

    def _is_rolled_back(self, stable: Deployment, release: BatchRelease) -> bool:
        held = stable.metadata.labels.get(rollout_labels.STABLE_REVISION, "")
        return not self.goes_on_at_once(release) and self._is_back(stable, held)

    async def restore_after_hold(self, stable: Deployment) -> None:
        """ReplicaSets whose pods we kept from being available get the patience of their Deployment back: old ones are
        never synchronised by their controller."""
        seconds = stable.spec.min_ready_seconds
        if seconds == deployment_hold.NEVER_AVAILABLE:
            return
        for one in self.cache.replica_sets_of(stable.metadata.uid):
            if one.spec.min_ready_seconds == deployment_hold.NEVER_AVAILABLE:
                body = {"spec": {"minReadySeconds": seconds}}
                await self.client.patch(REPLICA_SETS, one.metadata.name, one.metadata.namespace, body)

    def _not_promoted(self, stable: Deployment) -> str:
        status, replicas = stable.status, self.size(stable)
        name = stable.metadata.name
        if not self.is_seen_by_its_controller(stable):
            return f"{name} has not been looked at by its controller yet"
        if status.replicas != status.updated_replicas or status.updated_replicas < replicas:
            return f"{name}: {counted_of(status.updated_replicas, status.replicas, 'pod')} with the new version"
        if status.available_replicas + deployment_hold.unavailable(stable) < replicas:
            return f"{name}: {status.available_replicas}/{replicas} pods available at the new version"
        return ""


def _failure(subject: Deployment | ReplicaSet | None) -> str:
    """Why pods cannot even be made."""
    found = find_condition(subject.status.conditions, "ReplicaFailure") if subject is not None else None
    return found.message if found is not None and found.status == "True" else ""


def _hash(replica_set: ReplicaSet) -> str:
    return replica_set.metadata.labels.get(rollout_labels.TEMPLATE_HASH, "")


def _owner(replica_set: ReplicaSet) -> str:
    owner = replica_set.metadata.controller
    return owner.name if owner is not None else ""
