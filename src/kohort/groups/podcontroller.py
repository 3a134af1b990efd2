"""The reconciler of pods: workers, per-replica Services and pod groups of each leader, and restarts of whole groups."""

import contextlib

import msgspec

from kohort.groups import objects, restarts, revisions, tpu, wire
from kohort.groups.api import LeaderWorkerSet
from kohort.groups.gang import GangProvider
from kohort.groups.identity import parse_pod_name
from kohort.groups.metrics import GroupMetrics
from kohort.groups.observation import size_of
from kohort.groups.restarts import GroupFacts, PodFacts
from kohort.groups.views import BY_GROUP, GroupCache, GroupService, GroupStatefulSet, by_group
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from kohort.kube.manager import Manager
from kohort.kube.owners import map_to_controller_owner
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, SERVICES, STATEFUL_SETS, Key
from kohort.objects.core import Pod

_NEEDS_START_ORDINALS = (
    "leader pod {} carries the annotation " + wire.LEADER_NAME + ", which only workers have; worker StatefulSets need "
    "start ordinals: Kubernetes 1.27, or 1.26 with the feature gate StatefulSetStartOrdinal"
)


class PodController:
    def __init__(
        self, manager: Manager, cache: GroupCache, metrics: GroupMetrics, gang: GangProvider | None = None
    ) -> None:
        self.client = manager.client
        self.cache = cache
        self.metrics = metrics
        self.gang = gang
        self.recorder = manager.recorder("leaderworkerset")
        self._gangs: set[str] = set()
        controller = manager.controller("pod", self.reconcile, workers=8, max_delay=30)
        controller.watches(cache.pods)
        controller.watches(cache.stateful_sets, map_to_controller_owner("Pod", ""))
        controller.watches(cache.services, map_to_controller_owner("Pod", ""), when=lambda _, new: new is None)

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self.cache.pods.get(key)
        if pod is None:
            return None
        labels = pod.metadata.labels
        group_set = self.cache.sets.get(Key(key.namespace, labels.get(wire.NAME, "")))
        if group_set is None or wire.WORKER_INDEX not in labels:
            return None
        if await self._restart_group(group_set, pod):
            return None
        if labels[wire.WORKER_INDEX] != wire.LEADER or pod.metadata.deleting:
            return None
        if wire.LEADER_NAME in pod.metadata.annotations:
            text = _NEEDS_START_ORDINALS.format(pod.metadata.name)
            self.recorder.warning(LEADER_WORKER_SETS, group_set, "FailedCreate", text)
            return None
        return await self._complete_group(group_set, pod)

    # Restarts

    async def _restart_group(self, group_set: LeaderWorkerSet, pod: Pod) -> bool:
        """Delete the leader when the state of `pod` demands it. True when the group is on its way out."""
        leader = self._leader_of(pod)
        members = [member for value in by_group(pod) for member in self.cache.pods.by_index(BY_GROUP, value)]
        facts = GroupFacts(
            policy=restart_policy(group_set),
            size=size_of(leader or pod, group_set.template.size),
            pods=[pod_facts(member) for member in members],
            leader=pod_facts(leader) if leader is not None else None,
            belongs=leader is not None and self._belongs(pod, leader),
        )
        verdict = restarts.judge(pod_facts(pod), facts)
        if verdict.answer == "recreate" and leader is not None:
            await self._delete_leader(group_set, pod, leader)
        return verdict.answer != "nothing"

    def _leader_of(self, pod: Pod) -> Pod | None:
        if pod.metadata.labels.get(wire.WORKER_INDEX) == wire.LEADER:
            return pod
        parsed = parse_pod_name(pod.metadata.name)
        return self.cache.pods.get(Key(pod.metadata.namespace, parsed.parent)) if parsed else None

    def _belongs(self, pod: Pod, leader: Pod) -> bool:
        """Whether a worker is owned, through the StatefulSet that exists now, by the leader that exists now."""
        owner = pod.metadata.controller
        if owner is None:
            return False
        if owner.kind == "Pod":
            return owner.uid == leader.metadata.uid
        workers = self.cache.stateful_sets.get(Key(pod.metadata.namespace, owner.name))
        if workers is None or workers.metadata.uid != owner.uid or workers.metadata.controller is None:
            return False
        return workers.metadata.controller.uid == leader.metadata.uid

    async def _delete_leader(self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod) -> None:
        metadata = leader.metadata
        try:
            await self.client.delete(
                PODS, metadata.name, metadata.namespace, propagation="Foreground", uid=metadata.uid
            )
        except (NotFound, Conflict):
            return
        reason = "deleted" if pod.metadata.deleting else "restarted"
        self.metrics.restarts.labels(metadata.namespace, group_set.metadata.name, reason).inc()
        index = metadata.labels.get(wire.GROUP_INDEX, "")
        text = f"Worker pod {pod.metadata.name} failed, deleted leader pod {metadata.name} to recreate group {index}"
        self.recorder.normal(LEADER_WORKER_SETS, group_set, "RecreateGroup", text)

    # What a leader needs

    async def _complete_group(self, group_set: LeaderWorkerSet, leader: Pod) -> Requeue | None:
        known = self.cache.revisions_of(group_set)
        revision = revisions.by_key(known, leader.metadata.labels.get(wire.REVISION, ""))
        if revision is None:
            return Requeue(after=1.0)
        then = revision.applied_to(group_set)
        if then.subdomain_policy == wire.UNIQUE:
            await self._ensure_service(then, leader)
        if self.gang is not None:
            await self._ensure_pod_group(self.gang, then, leader)
        if then.template.size == 1:
            return None
        if group_set.startup_policy == wire.LEADER_READY and not leader.ready:
            return None
        return await self._ensure_workers(group_set, then, leader)

    async def _ensure_service(self, then: LeaderWorkerSet, leader: Pod) -> None:
        existing = self.cache.services.get(Key(leader.metadata.namespace, leader.metadata.name))
        if existing is not None and _is_of(existing, leader):
            return
        try:
            await self.client.create(SERVICES, objects.replica_service(then, leader.metadata))
        except AlreadyExists:
            # The Service of the previous leader is being collected; its end wakes this pod again.
            return

    async def _ensure_pod_group(self, gang: GangProvider, then: LeaderWorkerSet, leader: Pod) -> None:
        body = gang.pod_group(then, leader.metadata)
        known = f"{leader.metadata.uid}/{body['metadata']['name']}"
        if known in self._gangs:
            return
        with contextlib.suppress(AlreadyExists):
            await self.client.create(gang.resource, body)
        self._gangs.add(known)

    async def _ensure_workers(self, group_set: LeaderWorkerSet, then: LeaderWorkerSet, leader: Pod) -> Requeue | None:
        key = Key(leader.metadata.namespace, leader.metadata.name)
        if key in self.cache.stateful_sets:
            # One that belongs to the previous leader is on its way out; its end wakes this pod again.
            return None
        topology = group_set.exclusive_topology
        value = ""
        if topology:
            if not leader.spec.node_name:
                return None
            value = await self._topology_value(leader.spec.node_name, topology)
        has_tpus = tpu.pod_requests_tpus(_spec(leader))
        body = objects.worker_stateful_set(then, leader.metadata, leader_has_tpus=has_tpus, topology_value=value)
        name = leader.metadata.name
        try:
            await self.client.create(STATEFUL_SETS, body, type=GroupStatefulSet)
        except AlreadyExists:
            return None
        except ApiError as problem:
            text = f"Failed to create worker statefulset for leader pod {name}: {problem}"
            self.recorder.warning(LEADER_WORKER_SETS, group_set, "FailedCreate", text)
            raise
        text = f"Created worker statefulset for leader pod {name}"
        self.recorder.normal(LEADER_WORKER_SETS, group_set, "GroupsProgressing", text)
        return None

    async def _topology_value(self, node: str, topology: str) -> str:
        found = await self.client.get(NODES, node)
        labels = found["metadata"].get("labels") or {}
        if topology not in labels:
            raise LookupError(f"node {node} has no label {topology}, which the set's exclusive topology needs")
        value: str = labels[topology]
        return value


def restart_policy(group_set: LeaderWorkerSet) -> str:
    """The policy, with the annotation that preceded the value RecreateGroupAfterStart."""
    policy = group_set.template.restart_policy
    if policy == wire.RECREATE_ON_RESTART and wire.RECREATE_AFTER_START in group_set.metadata.annotations:
        return wire.RECREATE_WHEN_STARTED
    return policy


def pod_facts(pod: Pod) -> PodFacts:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return PodFacts(
        name=pod.metadata.name,
        phase=pod.status.phase,
        restarted=any(one.restart_count > 0 for one in statuses),
        deleting=pod.metadata.deleting,
        leader=pod.metadata.labels.get(wire.WORKER_INDEX) == wire.LEADER,
        revision=pod.metadata.labels.get(wire.REVISION, ""),
    )


def _is_of(service: GroupService, leader: Pod) -> bool:
    owner = service.metadata.controller
    return owner is not None and owner.uid == leader.metadata.uid


def _spec(pod: Pod) -> dict[str, object]:
    spec: dict[str, object] = msgspec.to_builtins(pod.spec)
    return spec
