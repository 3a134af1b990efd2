"""Sizes the ReplicaSets of Deployments that are in partition style (`workloads/partitioned_deployment.py`).

Like the controller of Deployments it is level-based: every pass looks at what the ReplicaSets have and makes the next
step that the limits allow (`workloads/partition_sizes.py`). It acts on what the annotation says, whichever part of a
release wrote it. Where the Rollout drains, pods of a ReplicaSet that shrinks are drained first (`deployment_draining`).
"""

import msgspec

from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, Conflict, NotFound
from kohort.kube.manager import Manager
from kohort.kube.merge_patch import locked
from kohort.kube.resources import DEPLOYMENTS, REPLICA_SETS, Key
from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.json_types import JsonObject
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.deployment_draining import DeploymentDraining
from kohort.rollouts.release_events import recorder
from kohort.rollouts.traffic.withdrawal import PodWithdrawal
from kohort.rollouts.workloads import deployment_hold, partitioned_deployment
from kohort.rollouts.workloads.draining_rounds import bounded_sizes
from kohort.rollouts.workloads.partition_sizes import PartitionedSizes, SetSize, next_sizes, scaled_sizes
from kohort.rollouts.workloads.partitioned_deployment import PartitionStatus, PartitionStrategy
from kohort.rules import rollout_labels


class PartitionController:
    def __init__(self, manager: Manager, cache: RolloutCache, withdrawal: PodWithdrawal) -> None:
        self.client: Client = manager.client
        self.cache = cache
        self.draining = DeploymentDraining(manager.client, cache, withdrawal, recorder(manager))
        self.controller = manager.controller("advanced-deployment-controller", self.reconcile, workers=3, max_delay=30)
        self.controller.watches(cache.deployments)
        self.controller.watches(cache.replica_sets, _owner)

    async def reconcile(self, key: Key) -> Requeue | None:
        deployment = self.cache.deployments.get(key)
        if deployment is None:
            await self.draining.forget(key)
            return None
        if deployment.metadata.deleting or not partitioned_deployment.is_partitioned(deployment):
            await self.draining.end(deployment)
            return None
        strategy = partitioned_deployment.read_strategy(deployment)
        known = self.cache.replica_sets_of(deployment.metadata.uid)
        if strategy is None or any(one.status.observed_generation < one.metadata.generation for one in known):
            return None  # What there is now is not known yet; an event follows.
        new = deployment_hold.with_template(known, deployment.spec.template)
        expected = partitioned_deployment.expected_new(strategy, deployment.spec.replicas or 0)
        if new is None and not strategy.paused and (expected > 0 or not deployment_hold.active(known)):
            await self._create(deployment, strategy, known)
            return None
        old = _by_rank(deployment, [one for one in known if one is not new])
        look_again = await self._resize(deployment, strategy, new, old)
        ready = new.status.ready_replicas if new is not None else 0
        body = partitioned_deployment.status_patch(deployment, PartitionStatus(ready, expected))
        if body is not None:
            await self._patch_deployment(deployment, body)
        return Requeue(after=look_again) if look_again is not None else None

    async def _create(self, deployment: Deployment, strategy: PartitionStrategy, known: list[ReplicaSet]) -> None:
        metadata = deployment.metadata
        whole: JsonObject | None = await self.client.find(DEPLOYMENTS, metadata.name, metadata.namespace)
        if whole is None or whole["metadata"]["uid"] != metadata.uid:
            return
        made = partitioned_deployment.new_replica_set(deployment, strategy, whole["spec"], known)
        try:
            await self.client.create(REPLICA_SETS, made)
        except AlreadyExists:
            return

    async def _resize(
        self, deployment: Deployment, strategy: PartitionStrategy, new: ReplicaSet | None, old: list[ReplicaSet]
    ) -> float | None:
        """Seconds until it is looked at again, where pods are drained. A Deployment that was scaled is not waited
        for: the user has said how many pods there are."""
        sizes, present = _sizes(deployment, strategy, new, old), [_size(one) for one in old]
        scaled = partitioned_deployment.is_scaled(deployment, [*old, *([new] if new is not None else [])])
        allowed = await self.draining.least_sizes(deployment, [(new, sizes.new), *zip(old, sizes.old, strict=True)])
        if self.cache.deployments.get(Key(deployment.metadata.namespace, deployment.metadata.name)) != deployment:
            return allowed.look_again  # It has changed while pods were looked at; an event brings us back.
        if not scaled:
            surge, _ = partitioned_deployment.limits(strategy, deployment.spec.replicas or 0)
            limit = (deployment.spec.replicas or 0) + surge
            sizes = bounded_sizes(sizes, _size(new), present, allowed.least, limit)
        drain = allowed.drains and sum(map(bool, (sizes.new, *sizes.old))) > 1
        for one, size in _in_order(new, old, sizes):
            noted = partitioned_deployment.noted_size(deployment, size, others_drain=drain)
            unsaid = allowed.drains and size and not partitioned_deployment.is_noted(one, noted)
            if one.spec.replicas != size or (scaled and one.spec.replicas) or unsaid:
                body = partitioned_deployment.scale_patch(deployment, strategy, size, noted)
                await self._scale(one, body)
        return allowed.look_again

    async def _scale(self, replica_set: ReplicaSet, body: JsonObject) -> None:
        metadata = replica_set.metadata
        body["metadata"]["resourceVersion"] = metadata.resource_version
        try:
            await self.client.patch(REPLICA_SETS, metadata.name, metadata.namespace, body)
        except (NotFound, Conflict):
            return  # The cache is behind; the event that it waits for brings us back.

    async def _patch_deployment(self, deployment: Deployment, body: JsonObject) -> None:
        """Not if it has changed since: its release may be over, and then nothing of it must be left."""
        metadata = deployment.metadata
        try:
            await self.client.patch(
                DEPLOYMENTS, metadata.name, metadata.namespace, locked(body, metadata.resource_version)
            )
        except (NotFound, Conflict):
            return


def _sizes(
    deployment: Deployment, strategy: PartitionStrategy, new: ReplicaSet | None, old: list[ReplicaSet]
) -> PartitionedSizes:
    replicas, size = deployment.spec.replicas or 0, _size(new)
    expected = partitioned_deployment.expected_new(strategy, replicas)
    surge, unavailable = partitioned_deployment.limits(strategy, replicas)
    if partitioned_deployment.is_scaled(deployment, [*old, *([new] if new is not None else [])]):
        wanted = expected if isinstance(strategy.partition, str) else None
        return scaled_sizes(
            replicas, surge, _scaled_size(deployment, new), [_scaled_size(deployment, one) for one in old], wanted
        )
    if strategy.paused and size.wanted == 0 and not deployment_hold.active(old):
        return PartitionedSizes(0, tuple(0 for _ in old))
    return next_sizes(
        replicas,
        # While it is paused no pod gets the new version, but old ones that are too many and not available go.
        size.wanted if strategy.paused else expected,
        size,
        [_size(one) for one in old],
        surge=surge,
        unavailable=unavailable,
        exact=isinstance(strategy.partition, str) and not strategy.paused,
    )


def _in_order(new: ReplicaSet | None, old: list[ReplicaSet], sizes: PartitionedSizes) -> list[tuple[ReplicaSet, int]]:
    """Those that shrink come first, unless the new one has no pods yet: a single ReplicaSet with too few is filled up
    by the controller of Deployments."""
    others = list(zip(old, sizes.old, strict=True))
    if new is None:
        return others
    return [*others, (new, sizes.new)] if new.spec.replicas else [(new, sizes.new), *others]


def _by_rank(deployment: Deployment, old: list[ReplicaSet]) -> list[ReplicaSet]:
    """Which pods go first: those of versions that a newer release has superseded; the Service leads to stable ones."""
    stable = deployment.metadata.labels.get(rollout_labels.STABLE_REVISION, "")
    return sorted(old, key=lambda one: one.metadata.labels.get(rollout_labels.TEMPLATE_HASH, "") == stable)


def _size(replica_set: ReplicaSet | None) -> SetSize:
    if replica_set is None:
        return SetSize(0, 0)
    wanted = replica_set.spec.replicas or 0
    # Its status may still count pods that it is about to delete.
    return SetSize(wanted, min(wanted, replica_set.status.available_replicas))


def _scaled_size(deployment: Deployment, replica_set: ReplicaSet | None) -> SetSize:
    before = partitioned_deployment.most_before(deployment, replica_set) if replica_set is not None else None
    return msgspec.structs.replace(_size(replica_set), most_before=before)


def _owner(replica_set: ReplicaSet) -> list[Key]:
    owner = replica_set.metadata.controller
    if owner is None or owner.kind != "Deployment":
        return []
    return [Key(replica_set.metadata.namespace, owner.name)]
