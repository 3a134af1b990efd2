"""Sizes the ReplicaSets of Deployments that are in partition style (`workloads/partitioned_deployment.py`).

Like the controller of Deployments it is level-based: every pass looks at what the ReplicaSets have and makes the next
step that the limits allow (`workloads/partition_sizes.py`). It acts on what the annotation says, whichever part of a
release wrote it.
"""

from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, Conflict, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import DEPLOYMENTS, REPLICA_SETS, Key
from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.json_types import JsonObject
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.workloads import deployment_hold, partitioned_deployment
from kohort.rollouts.workloads.partition_sizes import PartitionedSizes, SetSize, next_sizes, scaled_sizes
from kohort.rollouts.workloads.partitioned_deployment import PartitionStatus, PartitionStrategy
from kohort.rules import rollout_labels


class PartitionController:
    def __init__(self, manager: Manager, cache: RolloutCache) -> None:
        self.client: Client = manager.client
        self.cache = cache
        self.controller = manager.controller("advanced-deployment-controller", self.reconcile, workers=3, max_delay=30)
        self.controller.watches(cache.deployments)
        self.controller.watches(cache.replica_sets, _owner)

    async def reconcile(self, key: Key) -> Requeue | None:
        deployment = self.cache.deployments.get(key)
        if deployment is None or deployment.metadata.deleting or not partitioned_deployment.is_partitioned(deployment):
            return None
        strategy = partitioned_deployment.read_strategy(deployment)
        known = self.cache.replica_sets_of(deployment.metadata.uid)
        if strategy is None or any(one.status.observed_generation < one.metadata.generation for one in known):
            return None  # What there is now is not known yet; an event follows.
        new = deployment_hold.with_template(known, deployment.spec.template)
        expected = partitioned_deployment.expected_new(strategy, deployment.spec.replicas or 0)
        if new is None and not strategy.paused and (expected > 0 or not deployment_hold.active(known)):
            await self._create(deployment, known)
            return None
        await self._resize(deployment, strategy, new, _by_rank(deployment, [one for one in known if one is not new]))
        ready = new.status.ready_replicas if new is not None else 0
        body = partitioned_deployment.status_patch(deployment, PartitionStatus(ready, expected))
        if body is not None:
            await self._patch_deployment(deployment, body)
        return None

    async def _create(self, deployment: Deployment, known: list[ReplicaSet]) -> None:
        metadata = deployment.metadata
        whole: JsonObject | None = await self.client.find(DEPLOYMENTS, metadata.name, metadata.namespace)
        if whole is None or whole["metadata"]["uid"] != metadata.uid:
            return
        made = partitioned_deployment.new_replica_set(deployment, whole["spec"], known)
        try:
            await self.client.create(REPLICA_SETS, made)
        except AlreadyExists:
            return

    async def _resize(
        self, deployment: Deployment, strategy: PartitionStrategy, new: ReplicaSet | None, old: list[ReplicaSet]
    ) -> None:
        sizes = _sizes(deployment, strategy, new, old)
        scaled = partitioned_deployment.is_scaled(deployment, [*old, *([new] if new is not None else [])])
        for one, size in (*zip(old, sizes.old, strict=True), (new, sizes.new)):
            if one is not None and (one.spec.replicas != size or (scaled and one.spec.replicas)):
                await self._scale(deployment, one, size)

    async def _scale(self, deployment: Deployment, replica_set: ReplicaSet, size: int) -> None:
        metadata = replica_set.metadata
        body = partitioned_deployment.scale_patch(deployment, size)
        body["metadata"]["resourceVersion"] = metadata.resource_version
        try:
            await self.client.patch(REPLICA_SETS, metadata.name, metadata.namespace, body)
        except (NotFound, Conflict):
            return  # The cache is behind; the event that it waits for brings us back.

    async def _patch_deployment(self, deployment: Deployment, body: JsonObject) -> None:
        metadata = deployment.metadata
        try:
            await self.client.patch(DEPLOYMENTS, metadata.name, metadata.namespace, body)
        except NotFound:
            return


def _sizes(
    deployment: Deployment, strategy: PartitionStrategy, new: ReplicaSet | None, old: list[ReplicaSet]
) -> PartitionedSizes:
    replicas, size = deployment.spec.replicas or 0, _size(new)
    expected = partitioned_deployment.expected_new(strategy, replicas)
    if partitioned_deployment.is_scaled(deployment, [*old, *([new] if new is not None else [])]):
        wanted = expected if isinstance(strategy.partition, str) else None
        sized_for = partitioned_deployment.sized_for(new) if new is not None else None
        return scaled_sizes(replicas, size.wanted, [one.spec.replicas or 0 for one in old], wanted, sized_for)
    if strategy.paused and size.wanted == 0 and not deployment_hold.active(old):
        return PartitionedSizes(0, tuple(0 for _ in old))
    surge, unavailable = partitioned_deployment.limits(strategy, replicas)
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


def _owner(replica_set: ReplicaSet) -> list[Key]:
    owner = replica_set.metadata.controller
    if owner is None or owner.kind != "Deployment":
        return []
    return [Key(replica_set.metadata.namespace, owner.name)]
