"""Carries out resizes of groups: observes pods and records, asks `plan`, and writes what it says.

Called by the controller of sets in every pass. Nothing is kept in memory that an operator which was restarted would
miss: amounts follow from stored revisions, decisions from the records on leaders.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kohort.groups import messages, revisions
from kohort.groups.caches import BY_GROUP, GroupCache, by_group
from kohort.groups.leader_template_revision import template_revision
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.observed_groups import cannot_be_completed
from kohort.groups.resize import patches
from kohort.groups.resize.expected_restarts import annotation_patch, notes_after_resize
from kohort.groups.resize.group_view import GroupView, PodView, members_of_group, view_of_group, view_of_pod
from kohort.groups.resize.metrics import ResizeMetrics, ResizeOutcome, outcome_of
from kohort.groups.resize.plan import (
    AdoptGroup,
    CheckGroup,
    MarkGroup,
    ResizePlan,
    ResizePods,
    RevertPods,
    SetView,
    plan_group_resizes,
)
from kohort.groups.resize.preflight import PreflightFailure, failure_of_patch, reason_of, record_after_preflight
from kohort.groups.resize.preflight_requests import in_batches, patch_amounts, preflight_group
from kohort.groups.resize.record import Phase, ResizeRecord, read_record
from kohort.groups.resize.status import ResizeReport
from kohort.groups.set_plan import SetObservation
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Conflict, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import LEADER_WORKER_SETS, PODS, STATEFUL_SETS, Key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.rules import group_labels
from kohort.rules.group_state import has_revision
from kohort.rules.resize_conditions import ResizeState
from kohort.rules.resource_edit import (
    AmountChange,
    InPlaceEdit,
    RecreateEdit,
    RecreateReason,
    StatedAmounts,
    change_of_pod,
    classify_revision_edit,
    pod_spec_of,
    stated_amounts,
    with_amounts,
)
from kohort.rules.resource_update_policy import ResourceUpdatePolicy, deadline_seconds, resource_update_policy

_CHECK_AGAIN: Final = 15.0
"""Seconds until a group that failed its preflight for lack of quota is asked about again."""
_TRY_AGAIN: Final = 2.0
"""Seconds until a write that the server did not take is tried again."""
_NO_CHANGE: Final = AmountChange({}, {})
_KEPT: Final = 1000


class _PodViewed(NamedTuple):
    """The view of a pod, and what it was made from."""

    pod: Pod
    change: AmountChange
    view: PodView


class GroupResizes:
    def __init__(self, client: Client, cache: GroupCache, recorder: EventRecorder, metrics: ResizeMetrics) -> None:
        self._client = client
        self._metrics = metrics
        self._cache = cache
        self._recorder = recorder
        self._failures: dict[Key, PreflightFailure] = {}
        self._edits: dict[tuple[str, str, str], InPlaceEdit | RecreateEdit] = {}
        """By uid of the set, and the keys of two revisions: classifying large templates takes a millisecond."""
        self._at_rest: dict[tuple[str, str], tuple[AmountChange, AmountChange]] = {}
        """By uid of the set, and the key of a revision: what its leaders and workers have when nothing changes."""
        self._views: dict[Key, dict[int, list[_PodViewed]]] = {}
        """By set and group: without it, every event of a pod would cost a look at all pods of its set."""

    def forget(self, key: Key) -> None:
        self._failures.pop(key, None)
        self._views.pop(key, None)
        self._metrics.forget(key)

    def report(self, seen: SetObservation) -> ResizeReport:
        """What the status of the set says about its resizes."""
        return ResizeReport(seen.resize, self._failures.get(seen.key), deadline_seconds(seen.group_set.spec))

    # Observe and decide

    def plan(self, seen: SetObservation) -> ResizePlan:
        policy = resource_update_policy(seen.group_set.spec)
        leaders = self._cache.leaders(seen.key)
        records = {index: read_record(pod.metadata.annotations) for index, pod in leaders.items()}
        if policy is ResourceUpdatePolicy.RECREATE and not any(records.values()):
            self._views.pop(seen.key, None)
            carried = {index: pod.metadata.labels.get(group_labels.REVISION, "") for index, pod in leaders.items()}
            others = [index for index, revision in carried.items() if revision != seen.revision.key]
            held = sum(index < seen.group_set.partition for index in others)
            return ResizePlan(behind=len(others) - held, held_by_partition=held)
        view = SetView(
            revision=seen.revision.key,
            policy=policy,
            replicas=seen.group_set.replicas,
            partition=seen.group_set.partition,
            concurrency=seen.group_set.limits.resized_at_once,
            deadline_seconds=deadline_seconds(seen.group_set.spec),
            now=clock.seconds(),
            groups=[self._group_view(seen, index, leader, records[index]) for index, leader in leaders.items()],
        )
        known = self._views.get(seen.key, {})
        for index in [index for index in known if index not in leaders]:
            del known[index]
        return plan_group_resizes(view)

    def _pod_views(
        self, key: Key, index: int, members: Sequence[Pod], changes: Sequence[AmountChange]
    ) -> list[PodView]:
        """Pods that have not changed since the last look have the same view."""
        groups = self._views.setdefault(key, {})
        before = {one.pod.metadata.uid: one for one in groups.get(index, ())}
        viewed = []
        for pod, change in zip(members, changes, strict=True):
            known = before.get(pod.metadata.uid)
            if known is None or known.pod is not pod or known.change is not change:
                known = _PodViewed(pod, change, view_of_pod(pod, change, is_leader=pod is members[0]))
            viewed.append(known)
        groups[index] = viewed
        return [one.view for one in viewed]

    def _group_view(self, seen: SetObservation, index: int, leader: Pod, record: ResizeRecord | None) -> GroupView:
        carried = leader.metadata.labels.get(group_labels.REVISION, "")
        under_way = record is not None and record.under_way
        towards = record.revision if under_way and record is not None else seen.revision.key
        state = seen.states.get(index)
        if cannot_be_completed(leader, state, seen.revision.key, seen.revisions):
            edit: InPlaceEdit | RecreateEdit | None = RecreateEdit(RecreateReason.OTHER_FIELDS, changes_amounts=False)
        else:
            edit = self._edit(seen, carried, seen.revision.key)
        leader_change, worker_change = self._changes(seen, carried, towards)
        members = self._members(leader)
        changes = [leader_change, *([worker_change] * (len(members) - 1))]
        pods = self._pod_views(seen.key, index, members, changes)
        return view_of_group(
            index,
            members,
            pods,
            state,
            edit,
            revision=carried,
            default_size=seen.group_set.template.size,
            record=record,
        )

    def _edit(self, seen: SetObservation, carried: str, wanted: str) -> InPlaceEdit | RecreateEdit | None:
        if carried == wanted:
            return None
        cached = (seen.group_set.metadata.uid, carried, wanted)
        found = self._edits.get(cached)
        if found is None:
            before, after = (revisions.by_key(seen.revisions, key) for key in (carried, wanted))
            if wanted == seen.revision.key:
                after = seen.revision
            if before is None or after is None:
                return RecreateEdit(RecreateReason.OTHER_FIELDS, changes_amounts=False)
            found = classify_revision_edit(before.data["spec"], after.data["spec"])
            if len(self._edits) > _KEPT:
                self._edits.clear()
            self._edits[cached] = found
        return found

    def _changes(self, seen: SetObservation, carried: str, towards: str) -> tuple[AmountChange, AmountChange]:
        """What leaders and workers go through on the way from one revision to the other."""
        if carried == towards:
            return self._amounts_at_rest(seen, carried)
        edit = self._edit(seen, carried, towards)
        return (edit.leader, edit.worker) if isinstance(edit, InPlaceEdit) else (_NO_CHANGE, _NO_CHANGE)

    def _amounts_at_rest(self, seen: SetObservation, carried: str) -> tuple[AmountChange, AmountChange]:
        cached = (seen.group_set.metadata.uid, carried)
        found = self._at_rest.get(cached)
        if found is None:
            revision = seen.revision if carried == seen.revision.key else revisions.by_key(seen.revisions, carried)
            if revision is None:
                return _NO_CHANGE, _NO_CHANGE
            leader, worker = (stated_amounts(pod_spec_of(revision.template, role)) for role in ("leader", "worker"))
            found = AmountChange(leader, leader), AmountChange(worker, worker)
            if len(self._at_rest) > _KEPT:
                self._at_rest.clear()
            self._at_rest[cached] = found
        return found

    def _members(self, leader: Pod) -> list[Pod]:
        workers = self._cache.stateful_sets.get(Key(leader.metadata.namespace, leader.metadata.name))
        found = (pod for value in by_group(leader) for pod in self._cache.pods.by_index(BY_GROUP, value))
        return members_of_group(leader, workers, found)

    # Perform

    async def perform(self, seen: SetObservation, plan: ResizePlan, leaders: GroupStatefulSet) -> float:
        """Write what the plan says. Returns in how many seconds to look again, 0 for when something changes."""
        waits = [plan.look_again_after]
        self._metrics.saw(seen.key, plan.pods)
        if not any(isinstance(action, CheckGroup) for action in plan.actions):
            self._failures.pop(seen.key, None)
        for action in plan.actions:
            leader, planned = self._cache.leaders(seen.key).get(action.index), seen.leaders.get(action.index)
            if leader is None or planned is None or leader.metadata.uid != planned.metadata.uid:
                continue  # deleted or recreated since the plan was made
            match action:
                case CheckGroup():
                    waits.append(await self._check(seen, leader))
                case MarkGroup(record=record):
                    await self._mark(seen, leader, record)
                case ResizePods(pods=names):
                    waits.append(await self._resize(seen, leader, names))
                case RevertPods(pods=names):
                    waits.append(await self._revert(seen, leader, names))
                case AdoptGroup():
                    await self._adopt(seen, leader, leaders)
        await self._release_workers(seen)
        return min((wait for wait in waits if wait), default=0.0)

    async def _check(self, seen: SetObservation, leader: Pod) -> float:
        failure = await self._preflight(seen, leader)
        record = record_after_preflight(
            resource_update_policy(seen.group_set.spec), failure, seen.revision.key, clock.seconds()
        )
        if record is None and failure is not None:
            self._failures[seen.key] = failure
            return _CHECK_AGAIN
        self._failures.pop(seen.key, None)
        await self._mark(seen, leader, record)
        return 0.0

    async def _preflight(self, seen: SetObservation, leader: Pod) -> PreflightFailure | None:
        carried = leader.metadata.labels.get(group_labels.REVISION, "")
        leader_change, worker_change = self._changes(seen, carried, seen.revision.key)
        members = [
            (pod, change_of_pod(pod.spec, leader_change if pod is leader else worker_change))
            for pod in self._members(leader)
        ]
        return await preflight_group(self._client, seen.group_set, members)

    async def _resize(self, seen: SetObservation, leader: Pod, names: Sequence[str]) -> float:
        carried, record = (
            leader.metadata.labels.get(group_labels.REVISION, ""),
            read_record(leader.metadata.annotations),
        )
        leader_change, worker_change = self._changes(seen, carried, seen.revision.key)
        chosen = {pod.metadata.name: pod for pod in self._members(leader)}

        async def send(pod: Pod) -> PreflightFailure | float:
            change = change_of_pod(pod.spec, leader_change if pod is leader else worker_change)
            try:
                written = await self._expect_restarts(pod, change.after)
                await patch_amounts(self._client, written, change.after, locked=True)
            except (NotFound, Conflict):
                return _TRY_AGAIN
            except ApiError as problem:
                failure = failure_of_patch(pod, change.after, problem)
                if failure is None or record is None:
                    raise
                return failure
            return 0.0

        for some in _leader_alone([chosen[name] for name in names if name in chosen], leader):
            for result in await asyncio.gather(*map(send, some)):
                if isinstance(result, PreflightFailure) and record is not None:
                    message = f"{result.pod}: {result.detail}"
                    reverting = ResizeRecord(record.revision, Phase.REVERTING, record.since, reason_of(result), message)
                    await self._mark(seen, leader, reverting)
                    return 0.0
                if result == _TRY_AGAIN:
                    return _TRY_AGAIN
        return 0.0

    async def _revert(self, seen: SetObservation, leader: Pod, names: Sequence[str]) -> float:
        record = read_record(leader.metadata.annotations)
        if record is None:
            return 0.0
        carried = leader.metadata.labels.get(group_labels.REVISION, "")
        leader_change, worker_change = self._changes(seen, carried, record.revision)
        chosen = {pod.metadata.name: pod for pod in self._members(leader)}

        async def send(pod: Pod) -> float:
            change = change_of_pod(pod.spec, leader_change if pod is leader else worker_change)
            try:
                await self._expect_restarts(pod, change.before)
                await patch_amounts(self._client, pod, change.before)
            except ApiError:
                # The old amounts fitted before. Whatever stands in the way now, there is nothing better to ask for.
                return _TRY_AGAIN
            return 0.0

        present = [chosen[name] for name in names if name in chosen]
        waits = [wait for some in in_batches(present) for wait in await asyncio.gather(*map(send, some))]
        return max(waits, default=0.0)

    async def _expect_restarts(self, pod: Pod, amounts: StatedAmounts) -> Pod:
        """Note on the pod which restarts its own resize policy will cause, so that they do not recreate the group."""
        notes = notes_after_resize(pod, with_amounts(pod, amounts).spec)
        if not notes:
            return pod
        body = annotation_patch(pod, notes)
        written: Pod = await self._client.patch(PODS, pod.metadata.name, pod.metadata.namespace, body, type=Pod)
        return written

    async def _mark(self, seen: SetObservation, leader: Pod, record: ResizeRecord | None) -> None:
        metadata = leader.metadata
        body = patches.leader_record(record)
        body["metadata"]["uid"] = metadata.uid
        try:
            await self._client.patch(PODS, metadata.name, metadata.namespace, body)
        except (NotFound, Conflict):
            return
        before = read_record(metadata.annotations)
        outcome = outcome_of(before, record)
        if outcome is not None:
            began = before.since if before is not None and before.under_way else clock.seconds()
            self._metrics.count(seen.key, outcome, clock.seconds() - began)
        self._announce(seen.group_set, metadata.labels.get(group_labels.GROUP_INDEX, ""), record)

    def _announce(self, group_set: LeaderWorkerSet, index: str, record: ResizeRecord | None) -> None:
        if record is None:
            return
        text = messages.group_resize(index, record)
        write = self._recorder.normal if record.phase is Phase.RESIZING else self._recorder.warning
        write(LEADER_WORKER_SETS, group_set, f"Group{record.phase.value}", text, action="Update")

    # Adoption

    async def _adopt(self, seen: SetObservation, leader: Pod, leaders: GroupStatefulSet) -> None:
        """One step per pass; every step is repeated until the cache shows that it is done."""
        target = seen.revision.key
        if template_revision(leaders) != target or not leaders.observed or not leaders.status.update_revision:
            return
        members = self._members(leader)
        if len(members) > 1:
            workers = self._cache.stateful_sets.get(Key(leader.metadata.namespace, leader.metadata.name))
            if workers is None or not await self._adopt_workers(seen, workers, members[1:]):
                return
        body = patches.pod_labels(leaders.status.update_revision, target, drop_record=True)
        if await self._label(leader, body):
            record = read_record(leader.metadata.annotations)
            seconds = clock.seconds() - record.since if record is not None else 0.0
            self._metrics.count(seen.key, ResizeOutcome.ADOPTED, seconds)
            index = leader.metadata.labels.get(group_labels.GROUP_INDEX, "")
            text = messages.group_resized(index, target)
            self._recorder.normal(LEADER_WORKER_SETS, seen.group_set, "GroupResized", text, action="Update")

    async def _adopt_workers(self, seen: SetObservation, workers: GroupStatefulSet, pods: Sequence[Pod]) -> bool:
        target = seen.revision.key
        metadata = workers.metadata
        if template_revision(workers) != target:
            amounts = stated_amounts(pod_spec_of(seen.revision.template, "worker"))
            sidecars = frozenset(one.name for one in pods[0].spec.init_containers if one.sidecar)
            size = workers.spec.replicas + 1
            body = patches.worker_template(amounts, sidecars, target, size)
            await self._client.patch(STATEFUL_SETS, metadata.name, metadata.namespace, body, PatchType.STRATEGIC)
            return False
        update = workers.status.update_revision
        if not workers.observed or not update:
            return False
        body = patches.pod_labels(update, target)
        stale = [pod for pod in pods if pod.metadata.labels.get(patches.STATEFUL_SET_REVISION) != update]
        stale += [pod for pod in pods if pod not in stale and not has_revision(pod, target)]
        done = await asyncio.gather(*(self._label(pod, body) for pod in stale))
        return all(done)

    async def _label(self, pod: Pod, body: JsonObject) -> bool:
        metadata = pod.metadata
        guarded = {**body, "metadata": {**body["metadata"], "uid": metadata.uid}}
        try:
            await self._client.patch(PODS, metadata.name, metadata.namespace, guarded)
        except (NotFound, Conflict):
            return False
        return True

    async def _release_workers(self, seen: SetObservation) -> None:
        """Take the partition off worker StatefulSets whose pods all have the labels of their new template."""
        for leader in self._cache.leaders(seen.key).values():
            workers = self._cache.stateful_sets.get(Key(leader.metadata.namespace, leader.metadata.name))
            if workers is None or not workers.held_for_adoption or not workers.observed:
                continue
            status = workers.status
            if status.current_revision != status.update_revision or leader.metadata.annotations.get(
                group_labels.GROUP_RESIZE
            ):
                continue
            metadata = workers.metadata
            await self._client.patch(STATEFUL_SETS, metadata.name, metadata.namespace, patches.worker_release())


def _leader_alone(pods: Sequence[Pod], leader: Pod) -> Iterator[Sequence[Pod]]:
    """Pods that may be asked at the same time, in the order that the plan gave: the leader is before or after all
    workers."""
    workers = [pod for pod in pods if pod is not leader]
    batches: list[Sequence[Pod]] = list(in_batches(workers))
    if len(workers) < len(pods):
        batches.insert(0 if pods[0] is leader else len(batches), [leader])
    yield from batches


def resize_changed(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod has come further in a resize, or was resized by someone else."""
    if old is None or new is None:
        return False
    return old.metadata.generation != new.metadata.generation or _resize_state(old) != _resize_state(new)


def _resize_state(pod: Pod) -> tuple[object, ...]:
    allocated = [one.allocated_resources for one in pod.status.container_statuses]
    record = pod.metadata.annotations.get(group_labels.GROUP_RESIZE)
    return ResizeState.reported(pod), allocated, pod.status.allocated_resources, record
