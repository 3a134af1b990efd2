"""The controller of pods: it observes a pod and its group, decides (`pod_plan`) and performs.

It recreates whole groups, replaces pods that missed the webhook, and creates what the group of every leader needs.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from kohort.groups import (
    child_objects,
    failure_evidence,
    failure_slots,
    messages,
    missed_webhook,
    restart_decision,
    revisions,
    tpu_environment,
)
from kohort.groups.caches import BY_GROUP, GroupCache, by_group
from kohort.groups.engine_recovery import AwaitRecovery, BeginRecovery, EngineRecovery, GiveUpRestart, recovery_of
from kohort.groups.failed_pod_backoff import is_held, seconds_left
from kohort.groups.failure_evidence import GroupFailure
from kohort.groups.failure_recorder import FailureRecorder
from kohort.groups.failure_slots import FailureSlots
from kohort.groups.gang import Gangs
from kohort.groups.group_problems import GroupProblems, WorkersRefused
from kohort.groups.group_restarts import (
    GroupRestartRecords,
    decide_budget,
    due_restart,
    records_due_restarts,
    restarts_of,
    revision_of,
)
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.node_loss import NodeLoss, NodeLost, NodeMayReturn, NodeReports, decide_node_loss
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
from kohort.groups.resize.expected_restarts import ResizesByOthers
from kohort.groups.restart_budget import Delay, Exhausted, Held
from kohort.groups.restart_counts import expected_restarts, restart_count
from kohort.groups.restart_decision import (
    DelayRecreation,
    GroupBeingRecreated,
    GroupFacts,
    HoldGroup,
    KeepGroup,
    KeepReason,
    PodFacts,
    RecreateGroup,
    RestartBaselines,
    RestartCause,
    RestartDecision,
    decide_restart,
    restart_policy,
)
from kohort.groups.waiting_reason import REFUSALS, WaitingReason
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from kohort.kube.event_mapping import map_to_controller_owner
from kohort.kube.events import reference_to
from kohort.kube.manager import Manager
from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, SERVICES, STATEFUL_SETS, Key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels, recorded_restarts
from kohort.rules.group_identity import group_index, has_place_in_group, is_leader, parse_pod_name
from kohort.rules.group_state import group_size, pod_is_ready
from kohort.rules.pod_disruption import is_disrupted_by_control_plane
from kohort.rules.recorded_restarts import DueRestart, FailedContainer
from kohort.rules.resource_edit import StatedAmounts, pod_spec_of, stated_amounts
from kohort.rules.restart_backoff import RestartBackoff

_NAME_TAKEN: Final = 15.0
"""Seconds after which a name that was taken is tried again."""
_RECOVERY_LOOK: Final = 1.0
"""Seconds between two looks at a leader whose engine recovers: it may fail, too."""
_GATE_LOOK: Final = 1.0
"""Seconds between two looks at a pod that waits behind a scheduling gate."""
_SAME_MOMENT: Final = 2.0
"""Seconds by which two computed ends of the same back-off may differ."""


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
        self._records = GroupRestartRecords(manager.client)
        self._failures = FailureRecorder(manager.client, self.recorder)
        self._recreating: set[str] = set()
        """Uids of leaders whose group is being recreated: several pods of it may fail at the same moment."""
        self._slots = FailureSlots()
        self._resizes_by_others = ResizesByOthers()
        cache.pods.on_change(self._resizes_by_others.saw)
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
        if self._resizes_by_others.is_unexamined(pod):
            self._resizes_by_others.examine(pod, self._stated_amounts(group_set, pod))
        await self._resizes_by_others.write(self.client, pod)
        pod = self._resizes_by_others.noted(pod)
        if is_held(pod) and not pod.metadata.deleting and seconds_left(pod) <= 0:
            await self._remove_gate(pod)
        loss = await self._node_loss(group_set, pod)
        if isinstance(loss, NodeLost):
            with self._slots.take(key.namespace) as has_slot:
                if not has_slot:
                    return Requeue(after=failure_slots.WAIT)
                await self._give_up_pod(group_set, pod, loss)
                return None
        observed = self._observe(group_set, pod)
        await self._forget_due_restart(group_set, pod, observed.restart)
        done = await self._perform(plan_pod(observed), group_set, pod)
        if isinstance(loss, NodeMayReturn) and (done is None or loss.seconds < done.after):
            done = Requeue(after=loss.seconds)
        if is_held(pod) and not pod.metadata.deleting:
            left = max(seconds_left(pod), _GATE_LOOK)
            return done if done is not None and done.after < left else Requeue(after=left)
        return done

    async def _remove_gate(self, pod: Pod) -> None:
        """Of a pod that was held because others before it had failed."""
        metadata = pod.metadata
        gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != group_labels.HELD_GATE]
        patch: list[JsonObject] = [
            {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
            {"op": "replace", "path": "/spec/schedulingGates", "value": gates},
        ]
        with contextlib.suppress(NotFound, Conflict, Invalid):  # gone, or without gates: the next look tells
            await self.client.patch(PODS, metadata.name, metadata.namespace, patch, PatchType.JSON)

    # Observing

    def _stated_amounts(self, group_set: LeaderWorkerSet, pod: Pod) -> StatedAmounts:
        """What the template of the revision that a pod carries states for it."""
        carried = pod.metadata.labels.get(group_labels.REVISION, "")
        revision = revisions.by_key(self.cache.revisions_of(group_set), carried)
        if revision is None:
            return {}
        return stated_amounts(pod_spec_of(revision.template, "leader" if is_leader(pod.metadata.labels) else "worker"))

    def _observe(self, group_set: LeaderWorkerSet, pod: Pod) -> PodObservation:
        metadata = pod.metadata
        if missed_webhook.missed_webhook(pod):
            delay = self._replacements.pause(_key(pod), asyncio.get_running_loop().time())
            return PodObservation(metadata.deleting, missed_webhook=True, replacement_delay=delay)
        if group_labels.WORKER_INDEX not in metadata.labels:
            return PodObservation(metadata.deleting)
        carries_leader_name = bool(metadata.annotations.get(group_labels.LEADER_NAME))
        if has_place_in_group(metadata.name, metadata.labels):
            restart = self._decide_restart(group_set, pod)
        elif is_leader(metadata.labels) and carries_leader_name:
            restart = KeepGroup(KeepReason.NO_PLACE_IN_GROUP)
        else:
            return PodObservation(metadata.deleting)
        return PodObservation(
            metadata.deleting, is_leader(metadata.labels), carries_leader_name=carries_leader_name, restart=restart
        )

    def _decide_restart(self, group_set: LeaderWorkerSet, pod: Pod) -> RestartDecision:
        leader = self._leader_of(pod)
        group = self._group_facts(group_set, pod, leader)
        recovery = recovery_of(group_set.metadata.annotations, pod.metadata.annotations, clock.now())
        decision = decide_restart(self._pod_facts(pod, group.policy, leader, recovery), group)
        if leader is not None and not isinstance(decision, RecreateGroup | DelayRecreation):
            self.problems.clear_recreation_delayed(_key(leader), pod.metadata.name)
        return decision

    def _group_facts(self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod | None) -> GroupFacts:
        policy, now = restart_policy(group_set), asyncio.get_running_loop().time()
        # Only this policy asks about the other pods: a look at all of them for each costs the square of the size.
        members = self._members(pod) if policy == group_labels.RECREATE_WHEN_STARTED else []
        size = group_size(leader or pod, group_set.template.size)
        facts = GroupFacts(
            policy=policy,
            size=size,
            pods=[pod_facts(member) for member in members],
            leader=pod_facts(leader) if leader is not None else None,
            owned=leader is not None and self._is_owned(pod, leader) and _is_wanted(pod, size),
            recreations=self._recreations.times(_key(leader)) if leader is not None else 0,
            delay=self._recreations.pause(_key(leader), now) if leader is not None else 0.0,
        )
        if leader is not None and group_set.template.restart_budget is not None:
            facts = _with_budget(facts, group_set, leader)
        if (
            facts.policy == group_labels.RECREATE_WHEN_STARTED
            and leader is not None
            and restart_decision.has_started(facts)
            and self._baselines.of(_key(leader), leader.metadata.uid) is None
        ):
            counts = {member.metadata.uid: restart_count(member) for member in members}
            self._baselines.set(_key(leader), leader.metadata.uid, counts)
        return facts

    def _pod_facts(self, pod: Pod, policy: str, leader: Pod | None, recovery: EngineRecovery | None) -> PodFacts:
        facts = msgspec.structs.replace(pod_facts(pod), recovery=recovery)
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
            case RecreateGroup(cause, counts):
                return await self._recreate_group(group_set, pod, cause, counts)
            case HoldGroup(cause):
                return await self._recreate_group(group_set, pod, cause, counts=True)
            case BeginRecovery(seconds):
                until = clock.now() + timedelta(seconds=seconds)
                await self._annotate(pod, {group_labels.RECOVERY_UNTIL: until.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})
                return Requeue(after=_RECOVERY_LOOK)
            case AwaitRecovery(seconds):
                return Requeue(after=min(seconds, _RECOVERY_LOOK))
            case GiveUpRestart():
                await self._give_up_restart(group_set, pod)
                return None
            case DelayRecreation(seconds, recreations):
                with self._slots.take(pod.metadata.namespace) as has_slot:
                    if not has_slot:
                        return Requeue(after=min(seconds, failure_slots.WAIT))
                    await self._report_delay(group_set, pod, seconds, recreations)
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
        reason, replaced = WaitingReason.WEBHOOK_MISSED, reference_to(PODS, pod)
        self.recorder.warning(LEADER_WORKER_SETS, group_set, reason, text, action="Delete", related=replaced)
        self.metrics.missed.labels(key.namespace, group_set.metadata.name).inc()

    async def _recreate_group(
        self, group_set: LeaderWorkerSet, pod: Pod, cause: RestartCause, counts: bool
    ) -> Requeue | None:
        leader = self._leader_of(pod)
        if leader is None or leader.metadata.uid in self._recreating:
            return None
        self._recreating.add(leader.metadata.uid)
        try:
            if group_set.template.restart_budget is not None:
                return await self._recreate_within_budget(group_set, pod, leader, cause, counts)
            await self._delete_leader(group_set, pod, leader, cause)
            self._was_recreated(leader)
            return None
        finally:
            self._recreating.discard(leader.metadata.uid)

    async def _recreate_within_budget(
        self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod, cause: RestartCause, counts: bool
    ) -> Requeue | None:
        with self._slots.take(pod.metadata.namespace) as has_slot:
            if not has_slot and cause is not RestartCause.POD_DELETED:
                return Requeue(after=failure_slots.WAIT)
            wait = await self._spend_budget(group_set, pod, leader, cause, counts, evidence=has_slot)
            if wait is not None:
                return Requeue(after=wait) if wait else None
            await self._delete_leader(group_set, pod, leader, cause)
        self._was_recreated(leader)
        return None

    def _was_recreated(self, leader: Pod) -> None:
        key, now = _key(leader), asyncio.get_running_loop().time()
        self.problems.clear_recreation_delayed(key)
        self._recreations.forget_old(now)
        self._recreations.done(key, now)

    # The engine's own recovery

    async def _give_up_restart(self, group_set: LeaderWorkerSet, pod: Pod) -> None:
        """The engine has recovered: what restarted does not count any more."""
        statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        known = expected_restarts(pod)
        counts = known | {
            status.name: max(status.restart_count, known.get(status.name, 0))
            for status in statuses
            if status.restart_count
        }
        text = msgspec.json.encode(counts, order="sorted").decode()
        await self._annotate(pod, {group_labels.EXPECTED_RESTARTS: text, group_labels.RECOVERY_UNTIL: None})
        self.recorder.normal(
            LEADER_WORKER_SETS,
            group_set,
            "EngineRecovered",
            messages.engine_recovered(pod.metadata.name),
            action="Keep",
            related=reference_to(PODS, pod),
        )

    async def _annotate(self, pod: Pod, annotations: dict[str, str | None]) -> None:
        """The pod that was read; another one of that name is left alone."""
        metadata = pod.metadata
        body = {"metadata": {"uid": metadata.uid, "annotations": annotations}}
        with contextlib.suppress(NotFound, Conflict):
            await self.client.patch(PODS, metadata.name, metadata.namespace, body)

    # The budget of restarts

    async def _spend_budget(
        self,
        group_set: LeaderWorkerSet,
        pod: Pod,
        leader: Pod,
        cause: RestartCause,
        counts: bool,
        *,
        evidence: bool,
    ) -> float | None:
        """Record the restart and what explains it. None if the group is to be recreated now; otherwise in how many
        seconds to look again, 0 for never. Without `evidence`, there is no time to read what explains it: a pod that is
        deleted does not exist any more a moment later."""
        failed, deleting = failed_container(pod), cause is RestartCause.POD_DELETED
        if deleting and counts and await self._is_drained(pod):
            counts = False
        if counts:
            try:
                decision = await self._records.spend(group_set, leader, failed, at_once=deleting)
            except ApiError:
                if not deleting:
                    raise
                decision = None  # the pod is gone a moment later: the group is recreated, whatever was recorded
            match decision:
                case Held():
                    return 0.0
                case Delay(seconds, in_a_row):
                    await self._report_delay(group_set, pod, seconds, in_a_row)
                    return seconds
                case Exhausted(restarts):
                    if evidence:
                        await self._record_failure(group_set, leader, cause, held=True)
                    self._report_exhaustion(group_set, leader, failed, restarts)
                    return 0.0
        if evidence and (counts or self._has_failed_containers(leader)):
            await self._record_failure(group_set, leader, cause)
        return None

    def _has_failed_containers(self, leader: Pod) -> bool:
        """A disruption of a healthy group is no failure: it would only replace what was kept of real ones."""
        members = self._members(leader)
        return any(failure_evidence.failed_containers(one, expected_restarts(one)) for one in members)

    async def _is_drained(self, pod: Pod) -> bool:
        """Whether a pod is deleted from a node that takes no new ones: tools may drain without evictions."""
        node = await self._node_of(pod)
        return node is not None and node.spec.unschedulable

    async def _record_failure(
        self,
        group_set: LeaderWorkerSet,
        leader: Pod,
        cause: RestartCause,
        *,
        held: bool = False,
        lost: Mapping[str, str] | None = None,
    ) -> None:
        """`lost` has what is to be said about pods on a lost node, by their name."""
        metadata = leader.metadata
        failure = GroupFailure(
            group=group_index(metadata.labels) or 0,
            at=clock.timestamp(),
            reason=cause.value,
            leader=metadata.uid,
            revision=revision_of(leader),
            held=held,
        )
        pods = [one for one in self._sorted_members(leader) if _has_failed(one) or one.metadata.name in (lost or {})]
        await self._failures.record(group_set, failure, pods, lost or {})

    def _sorted_members(self, leader: Pod) -> list[Pod]:
        return sorted(self._members(leader), key=lambda member: member.metadata.name)

    def _report_exhaustion(
        self, group_set: LeaderWorkerSet, leader: Pod, failed: FailedContainer, restarts: int
    ) -> None:
        self.problems.clear_recreation_delayed(_key(leader))
        budget = group_set.template.restart_budget
        index = group_index(leader.metadata.labels) or 0
        text = messages.group_exhausted(
            group_set.metadata.name, index, failed, restarts, budget.window_seconds if budget else 0
        )
        self.recorder.warning(
            LEADER_WORKER_SETS, group_set, "GroupExhausted", text, action="Hold", related=reference_to(PODS, leader)
        )

    # Lost nodes

    async def _node_of(self, pod: Pod) -> Node | None:
        return await self.client.find(NODES, pod.spec.node_name, type=Node) if pod.spec.node_name else None

    async def _node_loss(self, group_set: LeaderWorkerSet, pod: Pod) -> NodeLoss:
        """Asked only about pods that are not ready, of sets that allow to delete them by force."""
        budget = group_set.template.restart_budget
        if budget is None or not budget.force_delete_on_node_loss or not pod.spec.node_name or pod_is_ready(pod):
            return NodeReports()
        if not has_place_in_group(pod.metadata.name, pod.metadata.labels):
            return NodeReports()
        node = await self._node_of(pod)
        return decide_node_loss(node, budget.node_loss_seconds, clock.now()) if node is not None else NodeReports()

    async def _give_up_pod(self, group_set: LeaderWorkerSet, pod: Pod, loss: NodeLost) -> None:
        """Recreate the group of a pod on a lost node, and delete the pod without waiting for its node."""
        leader = self._leader_of(pod)
        recreates = restart_policy(group_set) in (group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED)
        if recreates and leader is not None and not leader.metadata.deleting and self._is_member(pod, leader):
            note = messages.node_was_lost(pod.spec.node_name, loss.since)
            members = self._sorted_members(leader)
            lost = {one.metadata.name: note for one in members if one.spec.node_name == pod.spec.node_name}
            await self._record_failure(group_set, leader, RestartCause.NODE_LOST, lost=lost)
            await self._delete_leader(group_set, pod, leader, RestartCause.NODE_LOST)
        metadata = pod.metadata
        try:
            await self.client.delete(PODS, metadata.name, metadata.namespace, grace_seconds=0, uid=metadata.uid)
        except (NotFound, Conflict):
            return
        text = messages.pod_given_up(metadata.name, pod.spec.node_name, loss.since)
        self.recorder.warning(
            LEADER_WORKER_SETS, group_set, "NodeLost", text, action="Delete", related=reference_to(PODS, pod)
        )

    def _is_member(self, pod: Pod, leader: Pod) -> bool:
        return pod.metadata.uid == leader.metadata.uid or self._is_owned(pod, leader)

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

    async def _report_delay(self, group_set: LeaderWorkerSet, pod: Pod, seconds: float, recreations: int) -> None:
        leader = self._leader_of(pod)
        if leader is None:
            return
        known = due_restart(group_set, leader)
        at = clock.now() + timedelta(seconds=seconds)
        if known is not None and abs(recorded_restarts.age(known.at, at)) < _SAME_MOMENT:
            due = known
        else:
            failed = failed_container(pod)
            due = DueRestart(leader.metadata.uid, clock.format_time(at), recreations, failed)
        self.problems.set_recreation_delayed(_key(leader), due)
        if due is not known and records_due_restarts(group_set):
            await self._records.note_due(group_set, leader, due)

    async def _forget_due_restart(self, group_set: LeaderWorkerSet, pod: Pod, decision: RestartDecision | None) -> None:
        """The pod whose failure was to restart its group is no reason any more."""
        leader = self._leader_of(pod)
        if leader is None or isinstance(
            decision, RecreateGroup | DelayRecreation | HoldGroup | GroupBeingRecreated | None
        ):
            return
        due = due_restart(group_set, leader)
        if due is not None and due.failed.pod == pod.metadata.name:
            await self._records.clear_due(group_set, leader)

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


def pod_facts(pod: Pod) -> PodFacts:
    return PodFacts(
        phase=pod.status.phase,
        restarted=restart_count(pod) > 0,
        deleting=pod.metadata.deleting,
        disrupted=is_disrupted_by_control_plane(pod),
        leader=is_leader(pod.metadata.labels),
        ready=pod_is_ready(pod),
        revision=pod.metadata.labels.get(group_labels.REVISION, ""),
    )


def _is_wanted(worker: Pod, size: int) -> bool:
    """A StatefulSet adopts pods without an owner that have its labels, and deletes those that it has no number for."""
    parsed = parse_pod_name(worker.metadata.name)
    return parsed is not None and parsed.ordinal < size


def _has_failed(pod: Pod) -> bool:
    """Whether a pod explains why its group failed: a container has failed, or the pod is being deleted."""
    return bool(restart_count(pod)) or pod.metadata.deleting or pod.status.phase == "Failed"


def _with_budget(facts: GroupFacts, group_set: LeaderWorkerSet, leader: Pod) -> GroupFacts:
    """The facts of a group by the budget of its set, which is recorded, instead of by what this process remembers."""
    recreations, delay = restarts_of(group_set, leader).in_a_row, 0.0
    decision = decide_budget(group_set, leader)
    if isinstance(decision, Delay):
        recreations, delay = decision.in_a_row, decision.seconds
    return msgspec.structs.replace(
        facts,
        recreations=recreations,
        delay=delay,
        held=isinstance(decision, Held),
        exhausted=isinstance(decision, Exhausted),
    )


def failed_container(pod: Pod) -> FailedContainer:
    """The first container of a pod that ended before its restart."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        end = status.last_state.terminated or status.state.terminated
        if end is not None and (status.restart_count or end.exit_code):
            return FailedContainer(pod.metadata.name, status.name, end.exit_code, end.reason)
    return FailedContainer(pod.metadata.name)


def _key(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.name)


def _is_controlled_by(metadata: ObjectMeta, leader: Pod) -> bool:
    owner = metadata.controller
    return owner is not None and owner.uid == leader.metadata.uid


def _spec(pod: Pod) -> dict[str, object]:
    spec: dict[str, object] = msgspec.to_builtins(pod.spec)
    return spec
