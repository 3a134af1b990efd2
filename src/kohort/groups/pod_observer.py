"""Observes a pod and its group: from cached objects to the facts that `pod_plan` and `restart_decision` decide by."""

import asyncio

import msgspec

from kohort.groups import missed_webhook, restart_decision, revisions
from kohort.groups.caches import GroupCache
from kohort.groups.engine_recovery import EngineRecovery, is_down, recovery_of
from kohort.groups.group_members import GroupMembers, key_of
from kohort.groups.group_problems import GroupProblems
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.pod_plan import GroupPodObservation, WorkersObservation
from kohort.groups.previous_workers import predecessors
from kohort.groups.restart_budget import Delay, Exhausted, GroupHeld
from kohort.groups.restart_counts import expected_restarts, restart_count
from kohort.groups.restart_decision import (
    DelayRecreation,
    GroupFacts,
    KeepGroup,
    KeepReason,
    PodFacts,
    RecreateGroup,
    RestartBaselines,
    RestartDecision,
    decide_restart,
    restart_policy,
)
from kohort.groups.restart_records import decide_budget, restarts_of
from kohort.kube import clock
from kohort.kube.resources import Key
from kohort.objects.core import Pod
from kohort.rules import group_labels
from kohort.rules.group_identity import has_place_in_group, is_leader, parse_pod_name
from kohort.rules.group_state import group_size, pod_is_ready
from kohort.rules.pod_disruption import is_disrupted_by_control_plane
from kohort.rules.resource_edit import StatedAmounts, pod_spec_of, stated_amounts
from kohort.rules.restart_backoff import RestartBackoff


class PodObserver:
    def __init__(
        self,
        cache: GroupCache,
        members: GroupMembers,
        problems: GroupProblems,
        recreations: RestartBackoff[Key],
        replacements: RestartBackoff[Key],
    ) -> None:
        """`recreations` are those of groups, by leader; `replacements` those of pods that missed the webhook."""
        self._cache = cache
        self._members = members
        self._problems = problems
        self._recreations = recreations
        self._replacements = replacements
        self._baselines = RestartBaselines()

    def forget(self, key: Key) -> None:
        self._baselines.forget(key)

    def observe(self, group_set: LeaderWorkerSet, pod: Pod) -> GroupPodObservation:
        metadata = pod.metadata
        if missed_webhook.missed_webhook(pod):
            delay = self._replacements.pause(key_of(pod), asyncio.get_running_loop().time())
            return GroupPodObservation(metadata.deleting, missed_webhook=True, replacement_delay=delay)
        if group_labels.WORKER_INDEX not in metadata.labels:
            return GroupPodObservation(metadata.deleting)
        carries_leader_name = bool(metadata.annotations.get(group_labels.LEADER_NAME))
        if has_place_in_group(metadata.name, metadata.labels):
            restart = self._decide_restart(group_set, pod)
        elif is_leader(metadata.labels) and carries_leader_name:
            restart = KeepGroup(KeepReason.NO_PLACE_IN_GROUP)
        else:
            return GroupPodObservation(metadata.deleting)
        return GroupPodObservation(
            metadata.deleting, is_leader(metadata.labels), carries_leader_name=carries_leader_name, restart=restart
        )

    def observe_workers(self, group_set: LeaderWorkerSet, then: LeaderWorkerSet, leader: Pod) -> WorkersObservation:
        existing = self._cache.stateful_sets.get(key_of(leader))
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
            previous_workers=existing is None and bool(predecessors(self._members.of(leader))),
        )

    def stated_amounts(self, group_set: LeaderWorkerSet, pod: Pod) -> StatedAmounts:
        """What the template of the revision that a pod carries states for it."""
        carried = pod.metadata.labels.get(group_labels.REVISION, "")
        revision = revisions.by_key(self._cache.revisions_of(group_set), carried)
        if revision is None:
            return {}
        return stated_amounts(pod_spec_of(revision.template, "leader" if is_leader(pod.metadata.labels) else "worker"))

    def _decide_restart(self, group_set: LeaderWorkerSet, pod: Pod) -> RestartDecision:
        leader = self._members.leader_of(pod)
        group = self._group_facts(group_set, pod, leader)
        recovery = recovery_of(group_set.metadata.annotations, pod.metadata.annotations, clock.now())
        decision = decide_restart(self._pod_facts(pod, group.policy, leader, recovery), group)
        if leader is not None and not isinstance(decision, RecreateGroup | DelayRecreation):
            self._problems.clear_recreation_delayed(key_of(leader), pod.metadata.name)
        return decision

    def _group_facts(self, group_set: LeaderWorkerSet, pod: Pod, leader: Pod | None) -> GroupFacts:
        policy, now = restart_policy(group_set), asyncio.get_running_loop().time()
        # Only this policy asks about the other pods: a look at all of them for each costs the square of the size.
        members = self._members.of(pod) if policy == group_labels.RECREATE_WHEN_STARTED else []
        size = group_size(leader or pod, group_set.template.size)
        facts = GroupFacts(
            policy=policy,
            size=size,
            pods=[pod_facts(member) for member in members],
            leader=pod_facts(leader) if leader is not None else None,
            owned=leader is not None and self._members.is_owned(pod, leader) and _is_wanted(pod, size),
            recreations=self._recreations.times(key_of(leader)) if leader is not None else 0,
            delay=self._recreations.pause(key_of(leader), now) if leader is not None else 0.0,
        )
        if leader is not None and group_set.template.restart_budget is not None:
            facts = _with_budget(facts, group_set, leader)
        if (
            facts.policy == group_labels.RECREATE_WHEN_STARTED
            and leader is not None
            and restart_decision.has_started(facts)
            and self._baselines.of(key_of(leader), leader.metadata.uid) is None
        ):
            counts = {member.metadata.uid: restart_count(member) for member in members}
            self._baselines.set(key_of(leader), leader.metadata.uid, counts)
        return facts

    def _pod_facts(self, pod: Pod, policy: str, leader: Pod | None, recovery: EngineRecovery | None) -> PodFacts:
        facts = msgspec.structs.replace(pod_facts(pod), recovery=recovery, down=is_down(pod, expected_restarts(pod)))
        if policy != group_labels.RECREATE_WHEN_STARTED or leader is None:
            return facts
        uncounted = (self._baselines.of(key_of(leader), leader.metadata.uid) or {}).get(pod.metadata.uid, 0)
        return msgspec.structs.replace(facts, restarted=restart_count(pod) > uncounted)


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
        held=isinstance(decision, GroupHeld),
        exhausted=isinstance(decision, Exhausted),
    )
