"""The reconciler of pods: restarts of whole groups, pods that missed the webhook, and what every leader needs."""

import asyncio
from typing import Final

import msgspec

from kohort.groups import child_objects, missed_webhook, restart_decision, revisions, tpu_environment
from kohort.groups.caches import BY_GROUP, Failure, GroupCache, by_group
from kohort.groups.gang import Gangs
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.previous_workers import leaders_behind, predecessors
from kohort.groups.restart_decision import Baselines, GroupFacts, PodFacts
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
from kohort.rules.group_identity import is_leader, parse_index, parse_pod_name
from kohort.rules.group_state import group_size
from kohort.rules.restart_backoff import RestartBackoff

_NAME_TAKEN: Final = 15.0
"""Seconds after which a name that was taken is tried again."""
_NEEDS_START_ORDINALS: Final = (
    "leader pod {} carries the annotation "
    + group_labels.LEADER_NAME
    + ", which only workers have; worker StatefulSets need "
    "start ordinals: Kubernetes 1.27, or 1.26 with the feature gate StatefulSetStartOrdinal"
)


class PodController:
    def __init__(self, manager: Manager, cache: GroupCache, metrics: GroupMetrics, gangs: Gangs | None = None) -> None:
        self.client = manager.client
        self.cache = cache
        self.metrics = metrics
        self.gangs = gangs
        self.recorder = manager.recorder("leaderworkerset")
        self._baselines = Baselines()
        self._recreations = RestartBackoff[Key]()
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
            self.cache.refused_workers.pop(key, None)
            self.cache.failing.pop(key, None)
            return None
        labels = pod.metadata.labels
        group_set = self.cache.sets.get(Key(key.namespace, labels.get(group_labels.NAME, "")))
        if group_set is None:
            return None
        if missed_webhook.missed_webhook(pod):
            return await self._replace(group_set, pod)
        if group_labels.WORKER_INDEX not in labels:
            return None
        going, wait = await self._restart_group(group_set, pod)
        if going:
            return None
        if wait:
            return Requeue(after=wait)
        if not is_leader(labels) or pod.metadata.deleting:
            return None
        if group_labels.LEADER_NAME in pod.metadata.annotations:
            self._warn(group_set, pod, _NEEDS_START_ORDINALS.format(pod.metadata.name))
            return None
        return await self._complete_group(group_set, pod)

    # Pods that missed the webhook

    async def _replace(self, group_set: LeaderWorkerSet, pod: Pod) -> Requeue | None:
        metadata = pod.metadata
        if metadata.deleting:
            return None
        key, now = Key(metadata.namespace, metadata.name), asyncio.get_running_loop().time()
        wait = self._replacements.pause(key, now)
        if wait:
            return Requeue(after=wait)
        try:
            whole = await self.client.get(PODS, key.name, key.namespace)
            await self.client.delete(PODS, key.name, key.namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            return None
        self._replacements.forget_old(now)
        self._replacements.done(key, now)
        text = (
            f"Pod {key.name} was created while the webhook was away and lacks "
            f"{missed_webhook.told(whole, key.namespace)}; "
            "deleted it, so that it is created anew"
        )
        self.recorder.warning(
            LEADER_WORKER_SETS, group_set, "WebhookMissed", text, action="Delete", related=reference_to(PODS, pod)
        )
        self.metrics.missed.labels(metadata.namespace, group_set.metadata.name).inc()
        return None

    # Restarts

    async def _restart_group(self, group_set: LeaderWorkerSet, pod: Pod) -> tuple[bool, float]:
        """Delete the leader when the state of `pod` demands it. True when the group is on its way out; else in how many
        seconds to ask again, if the group has been recreated too often to do it now."""
        leader = self._leader_of(pod)
        facts = self._group_facts(group_set, pod, leader)
        verdict = restart_decision.judge(self._facts(pod, facts.policy, leader), facts)
        if verdict.answer != "recreate" or leader is None:
            if leader is not None:
                self._forgive(leader, pod)
            return verdict.answer != "nothing", 0.0
        key, now = Key(leader.metadata.namespace, leader.metadata.name), asyncio.get_running_loop().time()
        pause = 0.0 if pod.metadata.deleting else self._recreations.pause(key, now)
        if pause:
            self.cache.failing[key] = Failure(pod.metadata.name, _failure(pod, self._recreations.times(key)))
            return False, pause
        await self._delete_leader(group_set, pod, leader)
        self.cache.failing.pop(key, None)
        self._recreations.forget_old(now)
        self._recreations.done(key, now)
        return True, 0.0

    def _forgive(self, leader: Pod, pod: Pod) -> None:
        """Nothing will be done for this pod: it is another one, or the policy has changed."""
        key = Key(leader.metadata.namespace, leader.metadata.name)
        known = self.cache.failing.get(key)
        if known is not None and known.pod == pod.metadata.name:
            del self.cache.failing[key]

    def _group_facts(self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod | None) -> GroupFacts:
        members = self._members(pod)
        facts = GroupFacts(
            policy=restart_policy(group_set),
            size=group_size(leader or pod, group_set.template.size),
            pods=[pod_facts(member) for member in members],
            leader=pod_facts(leader) if leader is not None else None,
            belongs=leader is not None and self._belongs(pod, leader),
        )
        if (
            facts.policy == group_labels.RECREATE_WHEN_STARTED
            and leader is not None
            and restart_decision.started(facts)
        ):
            key, uid = Key(leader.metadata.namespace, leader.metadata.name), leader.metadata.uid
            if self._baselines.of(key, uid) is None:
                self._baselines.set(key, uid, {member.metadata.uid: restart_count(member) for member in members})
        return facts

    def _members(self, pod: Pod) -> list[Pod]:
        return [member for value in by_group(pod) for member in self.cache.pods.by_index(BY_GROUP, value)]

    def _facts(self, pod: Pod, policy: str, leader: Pod | None) -> PodFacts:
        facts = pod_facts(pod)
        if policy != group_labels.RECREATE_WHEN_STARTED or leader is None:
            return facts
        key = Key(leader.metadata.namespace, leader.metadata.name)
        forgiven = (self._baselines.of(key, leader.metadata.uid) or {}).get(pod.metadata.uid, 0)
        return msgspec.structs.replace(facts, restarted=restart_count(pod) > forgiven)

    def _leader_of(self, pod: Pod) -> Pod | None:
        if is_leader(pod.metadata.labels):
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
        return workers is not None and workers.metadata.uid == owner.uid and _is_of(workers.metadata, leader)

    async def _delete_leader(self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod) -> None:
        metadata = leader.metadata
        try:
            await self.client.delete(
                PODS, metadata.name, metadata.namespace, propagation="Foreground", uid=metadata.uid
            )
        except (NotFound, Conflict):
            return
        reason = "deleted" if pod.metadata.deleting else "restarted"
        index = metadata.labels.get(group_labels.GROUP_INDEX, "")
        key = Key(metadata.namespace, group_set.metadata.name)
        self.metrics.count_restart(key, parse_index(index) or 0, reason)
        text = f"Worker pod {pod.metadata.name} failed, deleted leader pod {metadata.name} to recreate group {index}"
        self.recorder.normal(
            LEADER_WORKER_SETS, group_set, "RecreateGroup", text, action="Delete", related=reference_to(PODS, leader)
        )

    # What a leader needs

    async def _complete_group(self, group_set: LeaderWorkerSet, leader: Pod) -> Requeue | None:
        known = self.cache.revisions_of(group_set)
        revision = revisions.by_key(known, leader.metadata.labels.get(group_labels.REVISION, ""))
        if revision is None:
            return Requeue(after=1.0)
        then = revision.applied_to(group_set)
        if then.subdomain_policy == group_labels.UNIQUE:
            await self._ensure_service(then, leader)
        again = [await self.gangs.ensure(then, revision, leader) if self.gangs is not None else 0.0]
        waits = group_set.startup_policy == group_labels.LEADER_READY and not leader.ready
        if then.template.size > 1 and not waits:
            again.append(await self._ensure_workers(group_set, then, leader))
        soonest = min((wait for wait in again if wait), default=0.0)
        return Requeue(after=soonest) if soonest else None

    async def _ensure_service(self, then: LeaderWorkerSet, leader: Pod) -> None:
        existing = self.cache.services.get(Key(leader.metadata.namespace, leader.metadata.name))
        if existing is not None and _is_of(existing.metadata, leader):
            return
        try:
            await self.client.create(SERVICES, child_objects.replica_service(then, leader.metadata))
        except AlreadyExists:
            # The Service of the previous leader is being collected; its end wakes this pod again.
            return

    async def _ensure_workers(self, group_set: LeaderWorkerSet, then: LeaderWorkerSet, leader: Pod) -> float:
        """Returns in how many seconds to try again, 0 for never."""
        name = leader.metadata.name
        existing = self.cache.stateful_sets.get(Key(leader.metadata.namespace, name))
        if existing is not None:
            # One that belongs to the previous leader is on its way out; its end wakes this pod again.
            self._tell_taken(group_set, leader, existing)
            return 0.0
        if predecessors(self._members(leader)):
            return 0.0
        topology = group_set.exclusive_topology
        value = ""
        if topology:
            if not leader.spec.node_name:
                return 0.0
            try:
                value = await self._topology_value(leader.spec.node_name, topology)
            except LookupError as problem:
                self._warn(group_set, leader, f"Failed to create worker statefulset for leader pod {name}: {problem}")
                raise
        has_tpus = tpu_environment.pod_requests_tpus(_spec(leader))
        body = child_objects.worker_stateful_set(then, leader.metadata, leader_has_tpus=has_tpus, topology_value=value)
        try:
            await self.client.create(STATEFUL_SETS, body, type=GroupStatefulSet)
        except AlreadyExists:
            # Ours, which the cache does not show yet; or somebody else's without our label, whose end nobody tells us.
            return _NAME_TAKEN
        except ApiError as problem:
            self._warn(group_set, leader, f"Failed to create worker statefulset for leader pod {name}: {problem}")
            if isinstance(problem, REFUSALS):
                self.cache.refused_workers[Key(leader.metadata.namespace, name)] = problem.message
            raise
        self.cache.refused_workers.pop(Key(leader.metadata.namespace, name), None)
        text = f"Created worker statefulset for leader pod {name}"
        self.recorder.normal(
            LEADER_WORKER_SETS,
            group_set,
            "GroupsProgressing",
            text,
            action="Create",
            related=reference_to(PODS, leader),
        )
        return 0.0

    def _tell_taken(self, group_set: LeaderWorkerSet, leader: Pod, existing: GroupStatefulSet) -> None:
        """A StatefulSet that no leader pod owns belongs to another set, whose name is that of our leader."""
        owner = existing.metadata.controller
        if owner is None or owner.kind != "Pod":
            holder = f"{owner.kind} {owner.name}" if owner is not None else "nobody"
            name = leader.metadata.name
            text = f"a StatefulSet {name} exists and belongs to {holder}"
            self._warn(group_set, leader, f"Failed to create worker statefulset for leader pod {name}: {text}")

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
    return sum(one.restart_count for one in (*pod.status.init_container_statuses, *pod.status.container_statuses))


def _failure(pod: Pod, times: int) -> str:
    """Why a group is to be recreated again."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ends = [
        f": container {one.name} ended with code {end.exit_code}"
        for one in statuses
        if one.restart_count and (end := one.last_state.terminated) is not None
    ]
    often = "once" if times == 1 else f"{times} times"
    return (
        f"pod {pod.metadata.name} restarted{''.join(ends[:1])}; the group was recreated {often} for such reasons, "
        "and waits longer each time"
    )


def pod_facts(pod: Pod) -> PodFacts:
    return PodFacts(
        name=pod.metadata.name,
        phase=pod.status.phase,
        restarted=restart_count(pod) > 0,
        deleting=pod.metadata.deleting,
        leader=is_leader(pod.metadata.labels),
        revision=pod.metadata.labels.get(group_labels.REVISION, ""),
    )


def _is_of(metadata: ObjectMeta, leader: Pod) -> bool:
    owner = metadata.controller
    return owner is not None and owner.uid == leader.metadata.uid


def _spec(pod: Pod) -> dict[str, object]:
    spec: dict[str, object] = msgspec.to_builtins(pod.spec)
    return spec
