"""The controller of sets: it observes a set and its groups, decides (`set_plan`) and performs.

It keeps revisions, the leader StatefulSet, the shared Service, the status and the history of a set.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from kohort.groups import child_objects, messages, revisions
from kohort.groups.caches import GroupCache, GroupService, LeaderBudget, owned_by, sets_of
from kohort.groups.disruption_budget import DisruptedBy, DisruptedGroup, valid_notes
from kohort.groups.group_members import GroupMembers
from kohort.groups.group_problems import GroupProblems
from kohort.groups.headless_service import SharedServices
from kohort.groups.leader_disruption_budget import LeaderBudgets
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.node_records import NodeRecords
from kohort.groups.observed_groups import group_is_ready_by_pods, group_states
from kohort.groups.orphan_adoption import adopt
from kohort.groups.resize.controller import GroupResizes, resize_changed
from kohort.groups.revisions import Revision
from kohort.groups.rolling_update import RollPlan
from kohort.groups.set_plan import (
    ApplyLeaderSet,
    CreateRevision,
    DeleteBlockingLeader,
    DeleteLeaderBudget,
    DeleteRevision,
    DeleteSharedService,
    DeleteSurplusClaims,
    EnsureSharedService,
    MarkRevisionServed,
    NoteRolledGroups,
    RecreateFailedGroup,
    RecreateIncompleteGroup,
    ReportStatus,
    ResizeGroups,
    RestoreRevision,
    SetAction,
    SetObservation,
    UseRevision,
    WriteLeaderBudget,
    plan_revision,
    plan_set,
)
from kohort.groups.status_reporting import SetReport, SetStatusReporter
from kohort.groups.worker_claims import WorkerClaims
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from kohort.kube.events import ObjectReference, reference_to
from kohort.kube.manager import Manager
from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS, Key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import is_leader, parse_index
from kohort.rules.scale_down import SPARE_SECONDS, kept_groups, seconds_to_drain

_CACHE_BEHIND: Final = 1.0
"""Seconds after which a set is looked at again whose leader StatefulSet is newer than its cache, if no event comes."""


class AppliedLeaderSet(msgspec.Struct, frozen=True):
    """What was last applied to a leader StatefulSet, and what generation it then had."""

    uid: str
    """Of the set."""
    document: bytes
    leader_set_uid: str
    generation: int

    def is_newer_than(self, cached: GroupStatefulSet) -> bool:
        """The cache does not have what was applied yet. A plan made from it could take the last step of a roll back,
        and the event of each such write would lead to another one."""
        return cached.metadata.uid == self.leader_set_uid and cached.metadata.generation < self.generation


class _ScaleDown(NamedTuple):
    """A scale down whose groups drain. Scaling down further begins a new one: its groups get the whole time."""

    wanted: int
    since: float


class SetController:
    def __init__(self, manager: Manager, cache: GroupCache, problems: GroupProblems, metrics: GroupMetrics) -> None:
        self.client = manager.client
        self.cache = cache
        self.recorder = manager.recorder("leaderworkerset")
        self.reporter = SetStatusReporter(manager.client, cache, problems, metrics, self.recorder)
        self.services = SharedServices(manager.client, cache, self.recorder)
        self.node_records = NodeRecords(manager.client, cache, self.recorder)
        self.leader_budgets = LeaderBudgets(manager.client, self.recorder)
        self.worker_claims = WorkerClaims(manager.client, cache, self.recorder)
        self.resizes = GroupResizes(manager.client, cache, self.recorder, metrics.resizes)
        self._members = GroupMembers(cache)
        self._applied: dict[Key, AppliedLeaderSet] = {}
        self._scale_downs: dict[Key, _ScaleDown] = {}
        """When this process first saw that groups of a set shall go and are drained."""
        self.controller = manager.controller("leaderworkerset", self.reconcile, workers=8, max_delay=30)
        self.controller.watches(cache.sets)
        self.controller.watches(cache.stateful_sets, sets_of)
        self.controller.watches(cache.revisions, sets_of, when=lambda _, new: new is None)
        self.controller.watches(cache.services, sets_of, when=_service_changed)
        self.controller.watches(cache.leader_budgets, sets_of, when=_budget_changed)
        self.controller.watches(cache.pods, sets_of, when=_leader_changed)
        self.controller.watches(cache.pods, sets_of, when=resize_changed)
        self.controller.watches(cache.pods, sets_of, when=_recovery_changed)

    async def reconcile(self, key: Key) -> Requeue | None:
        group_set = self.cache.sets.get(key)
        if group_set is None or group_set.metadata.deleting:
            self._forget(key)
            return None
        leader_set = self.cache.stateful_sets.get(key)
        if leader_set is not None and leader_set.metadata.deleting:
            return Requeue(after=5.0)
        if leader_set is not None and key in self._applied and self._applied[key].is_newer_than(leader_set):
            return Requeue(after=_CACHE_BEHIND)
        group_set = self._with_draining_groups(self._with_withdrawn_release(group_set), leader_set)
        revision, is_new = await self._ensure_revision(group_set, leader_set)
        leaders = self.cache.leaders(key)
        observed = SetObservation(
            group_set=group_set,
            leader_set=leader_set,
            leaders=leaders,
            revision=revision,
            revisions=self.cache.revisions_of(group_set),
            states=group_states(group_set, revision.key, leaders, self._finder_of_workers(key.namespace)),
            new_revision=is_new,
            leader_budget=self.cache.leader_budgets.get(key),
        )
        if group_set.status.disrupted_groups:
            observed = msgspec.structs.replace(observed, notes=self._valid_notes(group_set, leaders))
        observed = msgspec.structs.replace(observed, resize=self.resizes.plan(observed))
        waits = await self._perform(plan_set(observed), observed)
        await self.node_records.record(group_set, observed.states)
        if key in self._scale_downs:
            waits.append(SPARE_SECONDS)
        soonest = min((wait for wait in waits if wait), default=0.0)
        return Requeue(after=soonest) if soonest else None

    def _finder_of_workers(self, namespace: str) -> Callable[[str], GroupStatefulSet | None]:
        return lambda name: self.cache.stateful_sets.get(Key(namespace, name))

    def _valid_notes(self, group_set: LeaderWorkerSet, leaders: Mapping[int, Pod]) -> dict[int, DisruptedGroup]:
        def are_ready(index: int) -> bool:
            leader = leaders[index]
            return group_is_ready_by_pods(leader, self._members.of(leader), group_set.template.size)

        return valid_notes(group_set.status.disrupted_groups, leaders, are_ready, clock.now())

    def _with_withdrawn_release(self, group_set: LeaderWorkerSet) -> LeaderWorkerSet:
        """A set whose release was withdrawn is treated as if it still had the template of the revision before."""
        key = group_set.metadata.annotations.get(group_labels.RESOURCES_OF_REVISION, "")
        kept = revisions.by_key(self.cache.revisions_of(group_set), key) if key else None
        return kept.applied_to(group_set) if kept is not None else group_set

    def _with_draining_groups(self, group_set: LeaderWorkerSet, leader_set: GroupStatefulSet | None) -> LeaderWorkerSet:
        """Groups that a scale down removes stay until their requests in flight are answered."""
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        noted = leader_set.metadata.annotations.get(group_labels.REPLICAS) if leader_set is not None else None
        sized_for, wanted = parse_index(noted), group_set.replicas
        annotations = group_set.metadata.annotations
        if sized_for is None or wanted >= sized_for or not seconds_to_drain(annotations):
            self._scale_downs.pop(key, None)
            return group_set
        known = self._scale_downs.get(key)
        if known is None or known.wanted != wanted:
            known = self._scale_downs[key] = _ScaleDown(wanted, clock.seconds())
        kept = kept_groups(annotations, wanted, sized_for, clock.seconds() - known.since)
        return (
            group_set
            if kept == wanted
            else msgspec.structs.replace(group_set, spec={**group_set.spec, "replicas": kept})
        )

    def _forget(self, key: Key) -> None:
        self._scale_downs.pop(key, None)
        self.worker_claims.forget(key)
        self.resizes.forget(key)
        self.node_records.forget(key)
        applied = self._applied.pop(key, None)
        self.reporter.forget(key, applied.uid if applied is not None else "")

    async def _perform(self, actions: Iterable[SetAction], observed: SetObservation) -> list[float]:
        """Returns in how many seconds to look again, as each action asks for; 0 for never."""
        group_set, waits = observed.group_set, [0.0]
        applied = observed.leader_set or GroupStatefulSet()
        for action in actions:
            match action:
                case NoteRolledGroups(groups):
                    await self._note_rolled_groups(observed, groups)
                case WriteLeaderBudget(existing):
                    waits.append(await self.leader_budgets.write(group_set, existing))
                case DeleteLeaderBudget(existing):
                    await self.leader_budgets.delete(group_set, existing)
                case ApplyLeaderSet():
                    applied = await self._apply_leader_set(observed, action)
                case RecreateFailedGroup(pod):
                    await self._recreate_at_new_revision(group_set, pod, messages.recreating_failed_group)
                case RecreateIncompleteGroup(pod):
                    await self._recreate_at_new_revision(group_set, pod, messages.recreating_incomplete_group)
                case DeleteBlockingLeader(pod):
                    await self._delete_blocking_leader(group_set, pod)
                case ResizeGroups(plan):
                    waits.append(await self.resizes.perform(observed, plan, applied))
                case DeleteSurplusClaims():
                    await self.worker_claims.delete_surplus(group_set, applied)
                case MarkRevisionServed():
                    await self._mark_served(observed.revision)
                case EnsureSharedService():
                    waits.append(await self.services.ensure(group_set))
                case DeleteSharedService():
                    await self.services.clean_up(group_set)
                case ReportStatus():
                    report = SetReport(
                        group_set,
                        applied,
                        observed.revision,
                        observed.states,
                        observed.tally,
                        observed.roll_begins,
                        self.resizes.report(observed),
                        observed.notes,
                    )
                    self.reporter.measure(report)
                    waits.append(await self.reporter.write_status(report))
                case DeleteRevision(revision):
                    await self._delete_revision(revision)
        return waits

    async def _note_rolled_groups(self, observed: SetObservation, groups: Iterable[int]) -> None:
        """Raises Conflict if the set has changed since it was read, by an eviction for one."""
        notes = {
            str(index): {
                "leader": observed.leaders[index].metadata.uid,
                "at": clock.micro_timestamp(),
                "by": DisruptedBy.ROLL.value,
            }
            for index in groups
        }
        await self.client.patch_status(LEADER_WORKER_SETS, observed.group_set, {"disruptedGroups": notes}, locked=True)

    # Revisions

    async def _ensure_revision(
        self, group_set: LeaderWorkerSet, leader_set: GroupStatefulSet | None
    ) -> tuple[Revision, bool]:
        """The revision that the set is at, and whether a roll to it begins."""
        known = self.cache.revisions_of(group_set)
        for orphan in (revision.metadata for revision in known if revision.metadata.controller is None):
            await adopt(self.client, group_set, CONTROLLER_REVISIONS, orphan)
        match plan_revision(group_set, leader_set, known):
            case UseRevision(revision):
                return revision, False
            case RestoreRevision(revision, number):
                return await self._renumber(revision, number), True
            case CreateRevision(note, key):
                created = await self._create_revision(group_set, known, note, key)
                return created, note is messages.RevisionNote.UPDATED_SET

    async def _create_revision(
        self, group_set: LeaderWorkerSet, known: list[Revision], note: messages.RevisionNote, key: str
    ) -> Revision:
        body = revisions.build(group_set, known, key)
        try:
            made: JsonObject = await self.client.create(CONTROLLER_REVISIONS, revisions.as_written(body))
        except AlreadyExists:
            # Created by an earlier reconcile, and not in the cache yet.
            name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
            made = await self.client.get(CONTROLLER_REVISIONS, name, namespace)
        created = msgspec.convert(made, Revision)
        text, related = messages.creating_revision(note, created.key), reference_to(CONTROLLER_REVISIONS, created)
        self._event(group_set, "CreatingRevision", "Create", text, related)
        return created

    async def _renumber(self, revision: Revision, number: int) -> Revision:
        if revision.revision == number:
            return revision
        metadata = revision.metadata
        await self.client.patch(CONTROLLER_REVISIONS, metadata.name, metadata.namespace, {"revision": number})
        return msgspec.structs.replace(revision, revision=number)

    async def _mark_served(self, revision: Revision) -> None:
        metadata = revision.metadata
        body = {"metadata": {"annotations": {group_labels.SERVED_AT: clock.timestamp()}}}
        with contextlib.suppress(NotFound):
            await self.client.patch(CONTROLLER_REVISIONS, metadata.name, metadata.namespace, body)

    async def _delete_revision(self, revision: Revision) -> None:
        with contextlib.suppress(NotFound):
            await self.client.delete(CONTROLLER_REVISIONS, revision.metadata.name, revision.metadata.namespace)

    # The leader StatefulSet

    async def _apply_leader_set(self, observed: SetObservation, action: ApplyLeaderSet) -> GroupStatefulSet:
        """Apply the leader StatefulSet, unless that would change nothing."""
        group_set, before = observed.group_set, observed.leader_set
        body = _leader_set(observed, action)
        document, uid = msgspec.json.encode(body, order="sorted"), group_set.metadata.uid
        if before is not None:
            unchanged = AppliedLeaderSet(uid, document, before.metadata.uid, before.metadata.generation)
            if self._applied.get(observed.key) == unchanged:
                return before
        try:
            applied: GroupStatefulSet = await self.client.apply(
                STATEFUL_SETS, body, field_manager=group_labels.FIELD_MANAGER, force=True, type=GroupStatefulSet
            )
        except ApiError as problem:
            self._report_failure(group_set, before, await self._name_taken(group_set, before) or str(problem))
            await self.reporter.write_refusal(group_set, problem)
            raise
        metadata = applied.metadata
        self._applied[observed.key] = AppliedLeaderSet(uid, document, metadata.uid, metadata.generation)
        if not action.on_delete:
            self._emit_roll_events(observed, action.roll)
        return applied

    async def _delete_blocking_leader(self, group_set: LeaderWorkerSet, pod: Pod) -> None:
        """Delete a broken leader that keeps its StatefulSet from replacing it, unless it became ready meanwhile."""
        metadata = pod.metadata
        current = self.cache.pods.get(Key(metadata.namespace, metadata.name))
        if current is None or current.ready or current.metadata.uid != metadata.uid:
            return
        try:
            await self.client.delete(PODS, metadata.name, metadata.namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            return
        text = messages.deleted_blocking_leader(metadata.name)
        self._event(group_set, "GroupsUpdating", "Delete", text, reference_to(PODS, pod))

    async def _recreate_at_new_revision(
        self, group_set: LeaderWorkerSet, pod: Pod, note: Callable[[str, str], str]
    ) -> None:
        metadata = pod.metadata
        try:
            await self.client.delete(
                PODS, metadata.name, metadata.namespace, propagation="Foreground", uid=metadata.uid
            )
        except (NotFound, Conflict):
            return
        text = note(metadata.name, metadata.labels.get(group_labels.GROUP_INDEX, ""))
        self._event(group_set, "GroupsUpdating", "Delete", text, reference_to(PODS, pod))

    def _emit_roll_events(self, observed: SetObservation, roll: RollPlan) -> None:
        group_set, before = observed.group_set, observed.leader_set
        name, related = group_set.metadata.name, reference_to(CONTROLLER_REVISIONS, observed.revision)
        if before is None:
            self._event(group_set, "GroupsProgressing", "Create", messages.created_leader_set(name), related)
            return
        if roll.replicas < before.spec.replicas and before.spec.replicas > group_set.replicas:
            first, last = max(roll.replicas, group_set.replicas), before.spec.replicas - 1
            self._event(group_set, "GroupsProgressing", "Delete", messages.deleting_surge(name, first, last))
        if not observed.roll_begins and roll.partition < before.partition:
            text = messages.updating_replicas(roll.partition, before.partition - 1)
            self._event(group_set, "GroupsUpdating", "Update", text, related)

    async def _name_taken(self, group_set: LeaderWorkerSet, leader_set: GroupStatefulSet | None) -> str:
        """Which StatefulSet has the name of the leader StatefulSet. One without our label is not in the cache."""
        metadata = group_set.metadata
        existing = [leader_set] if leader_set is not None else []
        if not existing:
            selector = f"metadata.name={metadata.name}"  # the operator may list them, not get one
            with contextlib.suppress(ApiError):
                page = await self.client.list(
                    STATEFUL_SETS, metadata.namespace, field_selector=selector, type=GroupStatefulSet
                )
                existing = list(page.items)
        foreign = any(not owned_by(stateful_set.metadata, group_set) for stateful_set in existing)
        return messages.name_taken("StatefulSet", metadata.name) if foreign else ""

    def _report_failure(self, group_set: LeaderWorkerSet, before: GroupStatefulSet | None, problem: str) -> None:
        verb = "Create" if before is None else "Update"
        text = messages.leader_set_failed(verb, group_set.metadata.name, problem)
        self.recorder.warning(LEADER_WORKER_SETS, group_set, f"Failed{verb}", text, action=verb)

    def _event(
        self, group_set: LeaderWorkerSet, reason: str, action: str, note: str, related: ObjectReference | None = None
    ) -> None:
        self.recorder.normal(LEADER_WORKER_SETS, group_set, reason, note, action=action, related=related)


def _leader_set(observed: SetObservation, action: ApplyLeaderSet) -> JsonObject:
    group_set, before, template = observed.group_set, observed.leader_set, action.template
    claims = list(before.spec.volume_claim_templates) if before is not None else []
    existing = {"spec": {"volumeClaimTemplates": claims}} if claims else None
    then = group_set if template is observed.revision else template.applied_to(group_set)
    body = child_objects.leader_stateful_set(then, template.key, action.roll, existing, on_delete=action.on_delete)
    body["metadata"]["labels"][group_labels.REVISION] = observed.revision.key
    return body


def _service_changed(old: GroupService | None, new: GroupService | None) -> bool:
    return new is None or (old is not None and old.spec != new.spec)


def _budget_changed(old: LeaderBudget | None, new: LeaderBudget | None) -> bool:
    return new is None or (old is not None and old.spec != new.spec)


def _recovery_changed(old: Pod | None, new: Pod | None) -> bool:
    """Whether the time that the engine has to recover from the failure of a pod has begun or ended."""
    before, after = (pod.metadata.annotations if pod is not None else {} for pod in (old, new))
    return before.get(group_labels.RECOVERY_UNTIL) != after.get(group_labels.RECOVERY_UNTIL)


def _leader_changed(old: Pod | None, new: Pod | None) -> bool:
    """Leaders count in the status and in the roll; workers do through their StatefulSet."""
    pod = new or old
    if pod is None or not is_leader(pod.metadata.labels):
        return False
    return old is None or new is None or _counted(old) != _counted(new)


def _counted(pod: Pod) -> tuple[object, ...]:
    return pod.ready, pod.status.phase, pod.metadata.deleting, pod.metadata.labels
