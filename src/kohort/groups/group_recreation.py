"""Recreates groups: deletes their leader, within the budget of restarts, and records what explains it.

`restart_decision` decides when; here it is performed, for pods that restart or are deleted and for those of lost nodes.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from kohort.groups import failure_evidence, failure_slots, messages
from kohort.groups.engine_recovery import is_down
from kohort.groups.failure_evidence import GroupFailure
from kohort.groups.failure_recorder import FailureRecorder
from kohort.groups.failure_slots import FailureSlots
from kohort.groups.group_members import GroupMembers, key_of
from kohort.groups.group_problems import GroupProblems
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.node_loss import NodeLoss, NodeLost, NodeReports, decide_node_loss
from kohort.groups.restart_budget import Delay, Exhausted, GroupHeld
from kohort.groups.restart_counts import expected_restarts, restart_count
from kohort.groups.restart_decision import (
    DelayRecreation,
    GroupBeingRecreated,
    HoldGroup,
    RecreateGroup,
    RestartCause,
    RestartDecision,
    restart_policy,
)
from kohort.groups.restart_records import GroupRestartRecords, due_restart, records_due_restarts, revision_of
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import ApiError, Conflict, NotFound
from kohort.kube.events import EventRecorder, reference_to
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, Key
from kohort.objects.core import Node, Pod
from kohort.rules import group_labels, recorded_restarts
from kohort.rules.group_identity import group_index, has_place_in_group
from kohort.rules.group_state import pod_is_ready
from kohort.rules.recorded_restarts import DueRestart, FailedContainer
from kohort.rules.restart_backoff import RestartBackoff

_SAME_MOMENT: Final = 2.0
"""Seconds by which two computed ends of the same back-off may differ."""


class GroupRecreation:
    def __init__(
        self,
        client: Client,
        members: GroupMembers,
        problems: GroupProblems,
        metrics: GroupMetrics,
        recorder: EventRecorder,
        recreations: RestartBackoff[Key],
    ) -> None:
        """`recreations` has when groups were recreated, by leader."""
        self._client = client
        self._members = members
        self._problems = problems
        self._metrics = metrics
        self._recorder = recorder
        self._recreations = recreations
        self._records = GroupRestartRecords(client)
        self._failures = FailureRecorder(client, recorder)
        self._slots = FailureSlots()
        self._recreating: set[str] = set()
        """Uids of leaders whose group is being recreated: several pods of it may fail at the same moment."""

    async def recreate(self, group_set: LeaderWorkerSet, pod: Pod, cause: RestartCause, counts: bool) -> Requeue | None:
        leader = self._members.leader_of(pod)
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
        key, now = key_of(leader), asyncio.get_running_loop().time()
        self._problems.clear_recreation_delayed(key)
        self._recreations.forget_old(now)
        self._recreations.done(key, now)

    async def _delete_leader(self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod, cause: RestartCause) -> None:
        metadata = leader.metadata
        try:
            await self._client.delete(
                PODS, metadata.name, metadata.namespace, propagation="Foreground", uid=metadata.uid
            )
        except (NotFound, Conflict):
            return
        key = Key(metadata.namespace, group_set.metadata.name)
        self._metrics.count_restart(key, group_index(metadata.labels) or 0, cause)
        index = metadata.labels.get(group_labels.GROUP_INDEX, "")
        text = messages.recreating_group(pod.metadata.name, metadata.name, index)
        self._recorder.normal(
            LEADER_WORKER_SETS, group_set, "RecreateGroup", text, action="Delete", related=reference_to(PODS, leader)
        )

    async def delay(self, group_set: LeaderWorkerSet, pod: Pod, seconds: float, recreations: int) -> Requeue:
        """Report that the failure of a pod recreates its group later."""
        with self._slots.take(pod.metadata.namespace) as has_slot:
            if not has_slot:
                return Requeue(after=min(seconds, failure_slots.WAIT))
            await self._report_delay(group_set, pod, seconds, recreations)
        return Requeue(after=seconds)

    async def _report_delay(self, group_set: LeaderWorkerSet, pod: Pod, seconds: float, recreations: int) -> None:
        leader = self._members.leader_of(pod)
        if leader is None:
            return
        known = due_restart(group_set, leader)
        at = clock.now() + timedelta(seconds=seconds)
        if known is not None and abs(recorded_restarts.age(known.at, at)) < _SAME_MOMENT:
            due = known
        else:
            failed = failed_container(pod)
            due = DueRestart(leader.metadata.uid, clock.format_time(at), recreations, failed)
        self._problems.set_recreation_delayed(key_of(leader), due)
        if due is known:
            return
        if group_set.template.restart_budget is not None:
            # Not only when the group is recreated: a roll or a user may delete its pods before.
            await self._record_failure(group_set, leader, RestartCause.POD_RESTARTED)
        if records_due_restarts(group_set):
            await self._records.note_due(group_set, leader, due)

    async def forget_due_restart(self, group_set: LeaderWorkerSet, pod: Pod, decision: RestartDecision | None) -> None:
        """The pod whose failure was to restart its group is no reason any more."""
        leader = self._members.leader_of(pod)
        if leader is None or isinstance(
            decision, RecreateGroup | DelayRecreation | HoldGroup | GroupBeingRecreated | None
        ):
            return
        due = due_restart(group_set, leader)
        if due is not None and due.failed.pod == pod.metadata.name:
            await self._records.clear_due(group_set, leader)

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
                case GroupHeld():
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
        members = self._members.of(leader)
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
        pods = [one for one in self._members.by_name(leader) if _has_failed(one) or one.metadata.name in (lost or {})]
        await self._failures.record(group_set, failure, pods, lost or {})

    def _report_exhaustion(
        self, group_set: LeaderWorkerSet, leader: Pod, failed: FailedContainer, restarts: int
    ) -> None:
        self._problems.clear_recreation_delayed(key_of(leader))
        budget = group_set.template.restart_budget
        index = group_index(leader.metadata.labels) or 0
        text = messages.group_exhausted(
            group_set.metadata.name, index, failed, restarts, budget.window_seconds if budget else 0
        )
        self._recorder.warning(
            LEADER_WORKER_SETS, group_set, "GroupExhausted", text, action="Hold", related=reference_to(PODS, leader)
        )

    # Lost nodes

    async def _node_of(self, pod: Pod) -> Node | None:
        return await self._client.find(NODES, pod.spec.node_name, type=Node) if pod.spec.node_name else None

    async def node_loss(self, group_set: LeaderWorkerSet, pod: Pod) -> NodeLoss:
        """Asked only about pods that are not ready, of sets that allow to delete them by force."""
        budget = group_set.template.restart_budget
        if budget is None or not budget.force_delete_on_node_loss or not pod.spec.node_name or pod_is_ready(pod):
            return NodeReports()
        if not has_place_in_group(pod.metadata.name, pod.metadata.labels):
            return NodeReports()
        node = await self._node_of(pod)
        return decide_node_loss(node, budget.node_loss_seconds, clock.now()) if node is not None else NodeReports()

    async def give_up_pod(self, group_set: LeaderWorkerSet, pod: Pod, loss: NodeLost) -> Requeue | None:
        with self._slots.take(pod.metadata.namespace) as has_slot:
            if not has_slot:
                return Requeue(after=failure_slots.WAIT)
            await self._delete_lost_pod(group_set, pod, loss)
        return None

    async def _delete_lost_pod(self, group_set: LeaderWorkerSet, pod: Pod, loss: NodeLost) -> None:
        """Recreate the group of a pod on a lost node, and delete the pod without waiting for its node."""
        leader = self._members.leader_of(pod)
        recreates = restart_policy(group_set) in (group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED)
        if recreates and leader is not None and not leader.metadata.deleting and self._members.is_member(pod, leader):
            note = messages.node_was_lost(pod.spec.node_name, loss.since)
            members = self._members.by_name(leader)
            lost = {one.metadata.name: note for one in members if one.spec.node_name == pod.spec.node_name}
            await self._record_failure(group_set, leader, RestartCause.NODE_LOST, lost=lost)
            await self._delete_leader(group_set, pod, leader, RestartCause.NODE_LOST)
        metadata = pod.metadata
        try:
            await self._client.delete(PODS, metadata.name, metadata.namespace, grace_seconds=0, uid=metadata.uid)
        except (NotFound, Conflict):
            return
        text = messages.pod_given_up(metadata.name, pod.spec.node_name, loss.since)
        self._recorder.warning(
            LEADER_WORKER_SETS, group_set, "NodeLost", text, action="Delete", related=reference_to(PODS, pod)
        )


def _has_failed(pod: Pod) -> bool:
    """Whether a pod explains why its group failed: a container has failed, or the pod is being deleted."""
    ended = bool(restart_count(pod)) or is_down(pod, expected_restarts(pod))
    return ended or pod.metadata.deleting or pod.status.phase == "Failed"


def failed_container(pod: Pod) -> FailedContainer:
    """The first container of a pod that ended before its restart."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        end = status.last_state.terminated or status.state.terminated
        if end is not None and (status.restart_count or end.exit_code):
            return FailedContainer(pod.metadata.name, status.name, end.exit_code, end.reason)
    return FailedContainer(pod.metadata.name)
