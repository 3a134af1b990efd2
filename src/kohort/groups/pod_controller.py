"""The controller of pods: it observes a pod and its group, decides (`pod_plan`) and performs.

It recreates whole groups, replaces pods that missed the webhook, and creates what the group of every leader needs.
"""

import asyncio
from typing import Final

import msgspec

from kohort.groups import child_objects, messages, missed_webhook, restart_decision, revisions, tpu_environment
from kohort.groups.caches import BY_GROUP, GroupCache, by_group
from kohort.groups.gang import Gangs
from kohort.groups.group_problems import GroupProblems, RecreationDelayed, WorkersRefused
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.pod_plan import (
    CompleteGroup,
    CreateWorkers,
    DoNothing,
    PodAction,
    PodObservation,
    ReplacePod,
    ReportMissingStartOrdinals,
    ReportNameTaken,
    Wait,
    WorkersObservation,
    plan_pod,
    plan_workers,
)
from kohort.groups.previous_workers import leaders_behind, predecessors
from kohort.groups.restart_decision import (
    DelayRecreation,
    GroupFacts,
    PodFacts,
    RecreateGroup,
    RestartBaselines,
    RestartCause,
    RestartDecision,
    decide_restart,
)
from kohort.groups.waiting_reason import REFUSALS
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from kohort.kube.event_mapping import map_to_controller_owner
from kohort.kube.events import reference_to
from kohort.kube.manager import Manager
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, SERVICES, STATEFUL_SETS, Key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels
from kohort.rules.group_identity import group_index, is_leader, parse_pod_name
from kohort.rules.group_state import group_size
from kohort.rules.restart_backoff import RestartBackoff

_NAME_TAKEN: Final = 15.0
"""Seconds after which a name that was taken is tried again."""


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
        self.gangs = gangs
        self.recorder = manager.recorder("leaderworkerset")
        self._baselines = RestartBaselines()
        self._recreations = RestartBackoff[Key]()
        """Of groups, by leader."""
        self._replacements = RestartBackoff[Key]()
        """Of pods that missed the webhook."""
        controller = manager.controller("pod", self.reconcile, workers=8, max_delay=30)
        controller.watches(cache.pods)
        controller.watches(cache.pods, leaders_behind, when=lambda _, new: new is None)
        controller.watches(cache.stateful_sets, map_to_controller_owner("Pod", ""))
        controller.watches(cache.services, map_to_controller_owner("Pod", ""), when=lambda _, new: new is None)

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self.cache.pods.get(key)
        if pod is None:
            self._baselines.forget(key)
            self.problems.forget(key)
            return None
        group_set = self.cache.sets.get(Key(key.namespace, pod.metadata.labels.get(group_labels.NAME, "")))
        if group_set is None:
            return None
        return await self._perform(plan_pod(self._observe(group_set, pod)), group_set, pod)

    # Observing

    def _observe(self, group_set: LeaderWorkerSet, pod: Pod) -> PodObservation:
        metadata = pod.metadata
        if missed_webhook.missed_webhook(pod):
            delay = self._replacements.pause(_key(pod), asyncio.get_running_loop().time())
            return PodObservation(metadata.deleting, missed_webhook=True, replacement_delay=delay)
        if group_labels.WORKER_INDEX not in metadata.labels:
            return PodObservation(metadata.deleting)
        return PodObservation(
            deleting=metadata.deleting,
            leader=is_leader(metadata.labels),
            carries_leader_name=group_labels.LEADER_NAME in metadata.annotations,
            restart=self._decide_restart(group_set, pod),
        )

    def _decide_restart(self, group_set: LeaderWorkerSet, pod: Pod) -> RestartDecision:
        leader = self._leader_of(pod)
        group = self._group_facts(group_set, pod, leader)
        decision = decide_restart(self._pod_facts(pod, group.policy, leader), group)
        if leader is not None and not isinstance(decision, RecreateGroup | DelayRecreation):
            self.problems.clear_recreation_delayed(_key(leader), pod.metadata.name)
        return decision

    def _group_facts(self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod | None) -> GroupFacts:
        members, now = self._members(pod), asyncio.get_running_loop().time()
        facts = GroupFacts(
            policy=restart_policy(group_set),
            size=group_size(leader or pod, group_set.template.size),
            pods=[pod_facts(member) for member in members],
            leader=pod_facts(leader) if leader is not None else None,
            owned=leader is not None and self._is_owned(pod, leader),
            recreations=self._recreations.times(_key(leader)) if leader is not None else 0,
            delay=self._recreations.pause(_key(leader), now) if leader is not None else 0.0,
        )
        if (
            facts.policy == group_labels.RECREATE_WHEN_STARTED
            and leader is not None
            and restart_decision.has_started(facts)
            and self._baselines.of(_key(leader), leader.metadata.uid) is None
        ):
            counts = {member.metadata.uid: restart_count(member) for member in members}
            self._baselines.set(_key(leader), leader.metadata.uid, counts)
        return facts

    def _pod_facts(self, pod: Pod, policy: str, leader: Pod | None) -> PodFacts:
        facts = pod_facts(pod)
        if policy != group_labels.RECREATE_WHEN_STARTED or leader is None:
            return facts
        uncounted = (self._baselines.of(_key(leader), leader.metadata.uid) or {}).get(pod.metadata.uid, 0)
        return msgspec.structs.replace(facts, restarted=restart_count(pod) > uncounted)

    def _members(self, pod: Pod) -> list[Pod]:
        return [member for value in by_group(pod) for member in self.cache.pods.by_index(BY_GROUP, value)]

    def _leader_of(self, pod: Pod) -> Pod | None:
        if is_leader(pod.metadata.labels):
            return pod
        parsed = parse_pod_name(pod.metadata.name)
        return self.cache.pods.get(Key(pod.metadata.namespace, parsed.parent)) if parsed else None

    def _is_owned(self, pod: Pod, leader: Pod) -> bool:
        """Whether a worker is owned, through the StatefulSet that exists now, by the leader that exists now."""
        owner = pod.metadata.controller
        if owner is None:
            return False
        if owner.kind == "Pod":
            return owner.uid == leader.metadata.uid
        workers = self.cache.stateful_sets.get(Key(pod.metadata.namespace, owner.name))
        return workers is not None and workers.metadata.uid == owner.uid and _is_controlled_by(workers.metadata, leader)

    def _observe_workers(self, group_set: LeaderWorkerSet, then: LeaderWorkerSet, leader: Pod) -> WorkersObservation:
        existing = self.cache.stateful_sets.get(_key(leader))
        owner = existing.metadata.controller if existing is not None else None
        return WorkersObservation(
            size=then.template.size,
            start_after_leader=group_set.startup_policy == group_labels.LEADER_READY,
            leader_ready=leader.ready,
            leader_has_node=bool(leader.spec.node_name),
            by_leaders_node=bool(group_set.exclusive_topology),
            exists=existing is not None,
            owned_by_pod=owner is not None and owner.kind == "Pod",
            owner=f"{owner.kind} {owner.name}" if owner is not None else "",
            previous_workers=existing is None and bool(predecessors(self._members(leader))),
        )

    # Performing

    async def _perform(self, action: PodAction, group_set: LeaderWorkerSet, pod: Pod) -> Requeue | None:
        match action:
            case DoNothing():
                return None
            case Wait(seconds):
                return Requeue(after=seconds)
            case ReplacePod():
                await self._replace(group_set, pod)
                return None
            case RecreateGroup(cause):
                await self._recreate_group(group_set, pod, cause)
                return None
            case DelayRecreation(seconds, recreations):
                self._report_delay(pod, recreations)
                return Requeue(after=seconds)
            case ReportMissingStartOrdinals():
                self._warn(group_set, pod, messages.missing_start_ordinals(pod.metadata.name))
                return None
            case CompleteGroup():
                return await self._complete_group(group_set, pod)

    async def _replace(self, group_set: LeaderWorkerSet, pod: Pod) -> None:
        key, now = _key(pod), asyncio.get_running_loop().time()
        try:
            whole = await self.client.get(PODS, key.name, key.namespace)
            await self.client.delete(PODS, key.name, key.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        self._replacements.forget_old(now)
        self._replacements.done(key, now)
        text = messages.replaced_pod_without_webhook(key.name, missed_webhook.what_is_missing(whole, key.namespace))
        self.recorder.warning(
            LEADER_WORKER_SETS, group_set, "WebhookMissed", text, action="Delete", related=reference_to(PODS, pod)
        )
        self.metrics.missed.labels(key.namespace, group_set.metadata.name).inc()

    async def _recreate_group(self, group_set: LeaderWorkerSet, pod: Pod, cause: RestartCause) -> None:
        leader = self._leader_of(pod)
        if leader is None:
            return
        await self._delete_leader(group_set, pod, leader, cause)
        key, now = _key(leader), asyncio.get_running_loop().time()
        self.problems.clear_recreation_delayed(key)
        self._recreations.forget_old(now)
        self._recreations.done(key, now)

    async def _delete_leader(self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod, cause: RestartCause) -> None:
        metadata = leader.metadata
        try:
            await self.client.delete(
                PODS, metadata.name, metadata.namespace, propagation="Foreground", uid=metadata.uid
            )
        except (NotFound, Conflict):
            return
        key = Key(metadata.namespace, group_set.metadata.name)
        self.metrics.count_restart(key, group_index(metadata.labels) or 0, cause)
        index = metadata.labels.get(group_labels.GROUP_INDEX, "")
        text = messages.recreating_group(pod.metadata.name, metadata.name, index)
        self.recorder.normal(
            LEADER_WORKER_SETS, group_set, "RecreateGroup", text, action="Delete", related=reference_to(PODS, leader)
        )

    def _report_delay(self, pod: Pod, recreations: int) -> None:
        leader = self._leader_of(pod)
        if leader is not None:
            self.problems.set_recreation_delayed(_key(leader), _delayed(pod, recreations))

    async def _complete_group(self, group_set: LeaderWorkerSet, leader: Pod) -> Requeue | None:
        known = self.cache.revisions_of(group_set)
        revision = revisions.by_key(known, leader.metadata.labels.get(group_labels.REVISION, ""))
        if revision is None:
            return Requeue(after=1.0)
        then = revision.applied_to(group_set)
        if then.subdomain_policy == group_labels.UNIQUE:
            await self._ensure_service(then, leader)
        waits = [await self.gangs.ensure(then, revision, leader) if self.gangs is not None else 0.0]
        waits.append(await self._ensure_workers(group_set, then, leader))
        soonest = min((wait for wait in waits if wait), default=0.0)
        return Requeue(after=soonest) if soonest else None

    async def _ensure_service(self, then: LeaderWorkerSet, leader: Pod) -> None:
        existing = self.cache.services.get(_key(leader))
        if existing is not None and _is_controlled_by(existing.metadata, leader):
            return
        try:
            await self.client.create(SERVICES, child_objects.replica_service(then, leader.metadata))
        except AlreadyExists:
            # The Service of the previous leader is being deleted; this pod is reconciled again when it is gone.
            return

    async def _ensure_workers(self, group_set: LeaderWorkerSet, then: LeaderWorkerSet, leader: Pod) -> float:
        """Returns in how many seconds to try again, 0 for never."""
        match plan_workers(self._observe_workers(group_set, then, leader)):
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
            await self.client.create(STATEFUL_SETS, body, type=GroupStatefulSet)
        except AlreadyExists:
            # Ours, which the cache does not show yet; or one without our label, whose deletion is not watched.
            return _NAME_TAKEN
        except ApiError as problem:
            self._warn(group_set, leader, messages.workers_failed(name, str(problem)))
            if isinstance(problem, REFUSALS):
                self.problems.set_workers_refused(_key(leader), WorkersRefused(problem.message))
            raise
        self.problems.clear_workers_refused(_key(leader))
        self.recorder.normal(
            LEADER_WORKER_SETS,
            group_set,
            "GroupsProgressing",
            messages.created_workers(name),
            action="Create",
            related=reference_to(PODS, leader),
        )
        return 0.0

    def _warn(self, group_set: LeaderWorkerSet, leader: Pod, text: str) -> None:
        self.recorder.warning(
            LEADER_WORKER_SETS, group_set, "FailedCreate", text, action="Create", related=reference_to(PODS, leader)
        )

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
    if (
        policy == group_labels.RECREATE_ON_RESTART
        and group_labels.RECREATE_AFTER_START in group_set.metadata.annotations
    ):
        return group_labels.RECREATE_WHEN_STARTED
    return policy


def restart_count(pod: Pod) -> int:
    """Restarts of containers, without those that were the expected effect of a resize."""
    expected = expected_restarts(pod)
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return sum(max(0, status.restart_count - expected.get(status.name, 0)) for status in statuses)


def expected_restarts(pod: Pod) -> dict[str, int]:
    """Restart counts by container, up to which the resize policies of the pod account for them."""
    text = pod.metadata.annotations.get(group_labels.EXPECTED_RESTARTS, "")
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, int])
    except msgspec.DecodeError:
        return {}


def pod_facts(pod: Pod) -> PodFacts:
    return PodFacts(
        phase=pod.status.phase,
        restarted=restart_count(pod) > 0,
        deleting=pod.metadata.deleting,
        leader=is_leader(pod.metadata.labels),
        revision=pod.metadata.labels.get(group_labels.REVISION, ""),
    )


def _delayed(pod: Pod, recreations: int) -> RecreationDelayed:
    """With the first container that ended before its restart."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        end = status.last_state.terminated
        if status.restart_count and end is not None:
            return RecreationDelayed(pod.metadata.name, recreations, status.name, end.exit_code)
    return RecreationDelayed(pod.metadata.name, recreations)


def _key(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.name)


def _is_controlled_by(metadata: ObjectMeta, leader: Pod) -> bool:
    owner = metadata.controller
    return owner is not None and owner.uid == leader.metadata.uid


def _spec(pod: Pod) -> dict[str, object]:
    spec: dict[str, object] = msgspec.to_builtins(pod.spec)
    return spec
