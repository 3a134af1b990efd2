"""Creates what the group of a leader lacks: its own Service, the objects of its gang, the StatefulSet of its workers.

All of it is made by the template of the revision that the leader carries, which need not be the newest one.
"""

from typing import Final

import msgspec

from kohort.groups import child_objects, messages, revisions, tpu_environment
from kohort.groups.caches import GroupCache
from kohort.groups.gang import Gangs
from kohort.groups.group_members import is_controlled_by, key_of
from kohort.groups.group_problems import GroupProblems, WorkersRefused
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.pod_observer import PodObserver
from kohort.groups.pod_plan import CreateWorkers, DoNothing, ReportNameTaken, plan_workers
from kohort.groups.waiting_reason import REFUSALS
from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, ApiError
from kohort.kube.events import EventRecorder, reference_to
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, SERVICES, STATEFUL_SETS
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Node, Pod
from kohort.rules import group_labels

_NAME_TAKEN: Final = 15.0
"""Seconds after which a name that was taken is tried again."""
_REVISION_MISSING: Final = 1.0
"""Seconds after which a leader is looked at again whose revision does not exist, or is not in the cache yet."""


class GroupCompletion:
    def __init__(
        self,
        client: Client,
        cache: GroupCache,
        observer: PodObserver,
        problems: GroupProblems,
        recorder: EventRecorder,
        gangs: Gangs | None,
    ) -> None:
        self._client = client
        self._cache = cache
        self._observer = observer
        self._problems = problems
        self._recorder = recorder
        self._gangs = gangs

    async def complete(self, group_set: LeaderWorkerSet, leader: Pod) -> Requeue | None:
        known = self._cache.revisions_of(group_set)
        revision = revisions.by_key(known, leader.metadata.labels.get(group_labels.REVISION, ""))
        if revision is None:
            return Requeue(after=_REVISION_MISSING)
        then = revision.applied_to(group_set)
        if then.subdomain_policy == group_labels.UNIQUE:
            await self._ensure_service(then, leader)
        waits = [await self._gangs.ensure(then, revision, leader) if self._gangs is not None else 0.0]
        waits.append(await self._ensure_workers(group_set, then, leader))
        soonest = min((wait for wait in waits if wait), default=0.0)
        return Requeue(after=soonest) if soonest else None

    async def _ensure_service(self, then: LeaderWorkerSet, leader: Pod) -> None:
        existing = self._cache.services.get(key_of(leader))
        if existing is not None and is_controlled_by(existing.metadata, leader):
            return
        try:
            await self._client.create(SERVICES, child_objects.replica_service(then, leader.metadata))
        except AlreadyExists:
            # The Service of the previous leader is being deleted; this pod is reconciled again when it is gone.
            return

    async def _ensure_workers(self, group_set: LeaderWorkerSet, then: LeaderWorkerSet, leader: Pod) -> float:
        """Returns in how many seconds to try again, 0 for never."""
        match plan_workers(self._observer.observe_workers(group_set, then, leader)):
            case DoNothing():
                return 0.0
            case ReportNameTaken(owner):
                taken = messages.worker_set_name_taken(leader.metadata.name, owner)
                self._warn(group_set, leader, messages.workers_failed(leader.metadata.name, taken))
                return 0.0
            case CreateWorkers():
                return await self._create_workers(group_set, then, leader)

    async def _create_workers(self, group_set: LeaderWorkerSet, then: LeaderWorkerSet, leader: Pod) -> float:
        name, topology = leader.metadata.name, group_set.exclusive_topology
        try:
            value = await self._topology_value(leader.spec.node_name, topology) if topology else ""
        except LookupError as problem:
            self._warn(group_set, leader, messages.workers_failed(name, str(problem)))
            raise
        has_tpus = tpu_environment.pod_requests_tpus(_spec(leader))
        body = child_objects.worker_stateful_set(then, leader.metadata, leader_has_tpus=has_tpus, topology_value=value)
        try:
            await self._client.create(STATEFUL_SETS, body, type=GroupStatefulSet)
        except AlreadyExists:
            # Ours, which the cache does not show yet; or one without our label, whose deletion is not watched.
            return _NAME_TAKEN
        except ApiError as problem:
            self._warn(group_set, leader, messages.workers_failed(name, str(problem)))
            if isinstance(problem, REFUSALS):
                self._problems.set_workers_refused(key_of(leader), WorkersRefused(problem.message))
            raise
        self._problems.clear_workers_refused(key_of(leader))
        self._recorder.normal(
            LEADER_WORKER_SETS,
            group_set,
            "GroupsProgressing",
            messages.created_workers(name),
            action="Create",
            related=reference_to(PODS, leader),
        )
        return 0.0

    def report_missing_start_ordinals(self, group_set: LeaderWorkerSet, pod: Pod) -> None:
        self._warn(group_set, pod, messages.missing_start_ordinals(pod.metadata.name))

    def _warn(self, group_set: LeaderWorkerSet, leader: Pod, text: str) -> None:
        self._recorder.warning(
            LEADER_WORKER_SETS, group_set, "FailedCreate", text, action="Create", related=reference_to(PODS, leader)
        )

    async def _topology_value(self, node: str, topology: str) -> str:
        found: Node = await self._client.get(NODES, node, type=Node)
        value = found.metadata.labels.get(topology)
        if value is None:
            raise LookupError(f"node {node} has no label {topology}, which the set's exclusive topology needs")
        return value


def _spec(pod: Pod) -> dict[str, object]:
    spec: dict[str, object] = msgspec.to_builtins(pod.spec)
    return spec
