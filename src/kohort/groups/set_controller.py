"""The reconciler of sets: revision, leader StatefulSet, shared Service, status, history."""

import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.groups import child_objects, revisions
from kohort.groups.caches import GroupCache, GroupService, owned_by, sets_of
from kohort.groups.headless_service import SharedServices
from kohort.groups.leader_template_revision import founding_revision, template_revision
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.observed_groups import group_states, leaders_blocking_update, wanted_placement
from kohort.groups.orphan_adoption import adopt
from kohort.groups.revisions import Revision
from kohort.groups.rolling_update import LeaderSet, RollPlan, RollView, plan_roll
from kohort.groups.status import is_available, tally
from kohort.groups.status_reporting import Facts, Reporter
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
from kohort.rules.group_state import GroupState, in_order, placement_of


class Applied(msgspec.Struct, frozen=True):
    """What was last applied to a leader StatefulSet, and what generation it then had."""

    uid: str
    """Of the set."""
    document: bytes
    generation: int


class SetController:
    def __init__(self, manager: Manager, cache: GroupCache, metrics: GroupMetrics) -> None:
        self.client = manager.client
        self.cache = cache
        self.recorder = manager.recorder("leaderworkerset")
        self.reporter = Reporter(manager.client, cache, metrics, self.recorder)
        self.services = SharedServices(manager.client, cache, self.recorder)
        self.worker_claims = WorkerClaims(manager.client, cache, self.recorder)
        self._applied: dict[Key, Applied] = {}
        self.controller = manager.controller("leaderworkerset", self.reconcile, workers=8, max_delay=30)
        self.controller.watches(cache.sets)
        self.controller.watches(cache.stateful_sets, sets_of)
        self.controller.watches(cache.services, sets_of, when=_service_changed)
        self.controller.watches(cache.pods, sets_of, when=_readiness_changed)

    async def reconcile(self, key: Key) -> Requeue | None:
        group_set = self.cache.sets.get(key)
        if group_set is None or group_set.metadata.deleting:
            self._forget(key)
            return None
        leaders = self.cache.stateful_sets.get(key)
        if leaders is not None and leaders.metadata.deleting:
            return Requeue(after=5.0)
        revision, changed = await self._revision(group_set, leaders)
        if leaders is not None and _placed_otherwise(group_set, leaders, revision):
            # Other placement rules are a roll of their own: groups that stand by the old ones are replaced.
            changed = True
        states = group_states(self.cache, group_set, revision.key)
        plan = plan_roll(_view(group_set, leaders, states, changed))
        leaders = await self._apply(group_set, leaders, revision, plan, changed)
        await self._unblock(group_set, revision, plan)
        found = tally(group_set.replicas, group_set.partition, states)
        facts = Facts(group_set, leaders, revision, states, found, roll_began=changed)
        await self.worker_claims.delete_surplus(group_set, leaders)
        if found.finished:
            await self._mark_served(group_set, revision)
        waits = [await self._services(facts)]
        self.reporter.measure(facts)
        waits.append(await self.reporter.write_status(facts))
        if found.finished:
            await self._forget_surplus(group_set, revision)
        soonest = min((wait for wait in waits if wait), default=0.0)
        return Requeue(after=soonest) if soonest else None

    def _forget(self, key: Key) -> None:
        self.worker_claims.forget(key)
        applied = self._applied.pop(key, None)
        self.reporter.forget(key, applied.uid if applied is not None else "")

    async def _services(self, facts: Facts) -> float:
        if facts.group_set.subdomain_policy == group_labels.SHARED:
            return await self.services.ensure(facts.group_set)
        if facts.tally.finished:
            await self.services.clean_up(facts.group_set)
        return 0.0

    # Revisions

    async def _revision(self, group_set: LeaderWorkerSet, leaders: GroupStatefulSet | None) -> tuple[Revision, bool]:
        """The revision that the set is at, and whether this pass began it."""
        known = self.cache.revisions_of(group_set)
        for orphan in (one.metadata for one in known if one.metadata.controller is None):
            await adopt(self.client, group_set, CONTROLLER_REVISIONS, orphan)
        key = leaders.metadata.labels.get(group_labels.REVISION, "") if leaders is not None else ""
        current = revisions.by_key(known, key)
        if current is not None and revisions.same(group_set, current):
            return current, False
        if current is None and leaders is not None and key:
            # A set that carries a key nobody knows was written by others: its key is kept, or every group would roll.
            current = await self._create_revision(group_set, known, "missing", key)
            return current, False
        existing = revisions.matching(group_set, known)
        if existing is not None and leaders is None:
            return existing, False
        if existing is not None:
            return await self._renumber(existing, known), True
        word = "updated" if leaders is not None else "new"
        return await self._create_revision(group_set, known, word), leaders is not None

    async def _create_revision(
        self, group_set: LeaderWorkerSet, known: list[Revision], word: str, key: str = ""
    ) -> Revision:
        body = revisions.build(group_set, known, key)
        try:
            made: JsonObject = await self.client.create(CONTROLLER_REVISIONS, revisions.as_written(body))
        except AlreadyExists:
            # Made by an earlier pass that the cache does not show yet.
            name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
            made = await self.client.get(CONTROLLER_REVISIONS, name, namespace)
        found = msgspec.convert(made, Revision)
        note, related = _REVISION_NOTES[word].format(found.key), reference_to(CONTROLLER_REVISIONS, found)
        self._event(group_set, "CreatingRevision", "Create", note, related)
        return found

    async def _renumber(self, revision: Revision, known: list[Revision]) -> Revision:
        """A template that was seen before becomes the newest one again."""
        newest = max(one.revision for one in known)
        if revision.revision == newest:
            return revision
        metadata = revision.metadata
        body = {"revision": newest + 1}
        await self.client.patch(CONTROLLER_REVISIONS, metadata.name, metadata.namespace, body)
        return msgspec.structs.replace(revision, revision=newest + 1)

    async def _mark_served(self, group_set: LeaderWorkerSet, revision: Revision) -> None:
        """Before the status says that the set is available: a set that was available when the operator first saw it
        keeps its revision as it is."""
        metadata = revision.metadata
        known = group_labels.SERVED_AT in metadata.annotations or is_available(group_set.status.conditions)
        if known or group_set.replicas == 0:
            return
        body = {"metadata": {"annotations": {group_labels.SERVED_AT: clock.timestamp()}}}
        with contextlib.suppress(NotFound):
            await self.client.patch(CONTROLLER_REVISIONS, metadata.name, metadata.namespace, body)

    async def _forget_surplus(self, group_set: LeaderWorkerSet, current: Revision) -> None:
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        used = {
            current.key,
            *(pod.metadata.labels.get(group_labels.REVISION, "") for pod in self.cache.leaders(key).values()),
        }
        known = self.cache.revisions_of(group_set)
        for one in revisions.surplus(known, used, revisions.history_limit(group_set)):
            try:
                await self.client.delete(CONTROLLER_REVISIONS, one.metadata.name, one.metadata.namespace)
            except NotFound:
                continue

    # The leader StatefulSet

    async def _apply(
        self,
        group_set: LeaderWorkerSet,
        leaders: GroupStatefulSet | None,
        revision: Revision,
        plan: RollPlan,
        changed: bool,
    ) -> GroupStatefulSet:
        """Apply the leader StatefulSet, unless that would change nothing."""
        claims = list(leaders.spec.volume_claim_templates) if leaders is not None else []
        existing = {"spec": {"volumeClaimTemplates": claims}} if claims else None
        founding = founding_revision(group_set, leaders, revision, self.cache.revisions_of(group_set), plan.replicas)
        then = group_set if founding is revision else founding.applied_to(group_set)
        body = child_objects.leader_stateful_set(then, founding.key, plan, existing)
        body["metadata"]["labels"][group_labels.REVISION] = revision.key
        document = msgspec.json.encode(body, order="sorted")
        key, uid = Key(group_set.metadata.namespace, group_set.metadata.name), group_set.metadata.uid
        if leaders is not None and self._applied.get(key) == Applied(uid, document, leaders.metadata.generation):
            return leaders
        try:
            made = await self.client.apply(
                STATEFUL_SETS, body, field_manager=group_labels.FIELD_MANAGER, force=True, type=GroupStatefulSet
            )
        except ApiError as problem:
            self._report_failure(group_set, leaders, await self._name_taken(group_set, leaders) or str(problem))
            await self.reporter.write_refusal(group_set, problem)
            raise
        found: GroupStatefulSet = made
        self._applied[key] = Applied(uid, document, found.metadata.generation)
        self._announce(group_set, leaders, revision, plan, changed)
        return found

    async def _unblock(self, group_set: LeaderWorkerSet, revision: Revision, plan: RollPlan) -> None:
        """Delete broken leaders that keep their StatefulSet from replacing them."""
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        for pod in leaders_blocking_update(self.cache.leaders(key), group_set, revision.key, plan.partition):
            metadata = pod.metadata
            try:
                await self.client.delete(PODS, metadata.name, metadata.namespace, uid=metadata.uid)
            except (NotFound, Conflict):
                continue
            text = f"Deleted leader pod {metadata.name}, which was not ready, to update its group"
            self._event(group_set, "GroupsUpdating", "Delete", text, reference_to(PODS, pod))

    def _announce(
        self,
        group_set: LeaderWorkerSet,
        before: GroupStatefulSet | None,
        revision: Revision,
        plan: RollPlan,
        changed: bool,
    ) -> None:
        name, related = group_set.metadata.name, reference_to(CONTROLLER_REVISIONS, revision)
        if before is None:
            self._event(group_set, "GroupsProgressing", "Create", f"Created leader statefulset {name}", related)
            return
        if plan.replicas < before.spec.replicas and before.spec.replicas > group_set.replicas:
            first, last = max(plan.replicas, group_set.replicas), before.spec.replicas - 1
            text = f"deleting surge replica {name}-{first}"
            if first != last:
                text = f"deleting surge replicas from {name}-{first} to {name}-{last}"
            self._event(group_set, "GroupsProgressing", "Delete", text)
        if not changed and plan.partition < before.partition:
            low, high = plan.partition, before.partition - 1
            text = f"Updating replica {low}" if low == high else f"Updating replicas {low} to {high} (inclusive)"
            self._event(group_set, "GroupsUpdating", "Update", text, related)

    async def _name_taken(self, group_set: LeaderWorkerSet, leaders: GroupStatefulSet | None) -> str:
        """Whose StatefulSet stands in the way. One without our label is not in the cache."""
        metadata = group_set.metadata
        found = [leaders] if leaders is not None else []
        if not found:
            selector = f"metadata.name={metadata.name}"  # the operator may list them, not get one
            with contextlib.suppress(ApiError):
                page = await self.client.list(
                    STATEFUL_SETS, metadata.namespace, field_selector=selector, type=GroupStatefulSet
                )
                found = list(page.items)
        foreign = any(not owned_by(one.metadata, group_set) for one in found)
        return f"a StatefulSet {metadata.name} exists and does not belong to this set" if foreign else ""

    def _report_failure(self, group_set: LeaderWorkerSet, leaders: GroupStatefulSet | None, problem: str) -> None:
        verb = "Create" if leaders is None else "Update"
        text = f"Failed to {verb.lower()} leader statefulset {group_set.metadata.name}: {problem}"
        self.recorder.warning(LEADER_WORKER_SETS, group_set, f"Failed{verb}", text, action=verb)

    def _event(
        self, group_set: LeaderWorkerSet, reason: str, action: str, note: str, related: ObjectReference | None = None
    ) -> None:
        self.recorder.normal(LEADER_WORKER_SETS, group_set, reason, note, action=action, related=related)


_REVISION_NOTES: Final = {
    "new": "Creating revision with key {} for a newly created LeaderWorkerSet",
    "missing": "Creating missing revision with key {} for existing LeaderWorkerSet",
    "updated": "Creating revision with key {} for updated LWS",
}


def _view(
    group_set: LeaderWorkerSet,
    leaders: GroupStatefulSet | None,
    states: Mapping[int, GroupState],
    changed: bool,
) -> RollView:
    current = None
    if leaders is not None:
        noted = parse_index(leaders.metadata.annotations.get(group_labels.REPLICAS))
        sized_for = group_set.replicas if noted is None else noted
        current = LeaderSet(leaders.spec.replicas, leaders.partition, sized_for)
    return RollView(
        replicas=group_set.replicas,
        partition=group_set.partition,
        surge=group_set.surge,
        unavailable=group_set.unavailable,
        leader_set=current,
        groups=in_order(states, current.replicas if current else 0),
        template_changed=changed,
    )


def _placed_otherwise(group_set: LeaderWorkerSet, leaders: GroupStatefulSet, revision: Revision) -> bool:
    """Asked of the template of this revision only: an older one may bring annotations of its own."""
    found = placement_of(leaders.spec.template.metadata.annotations)
    return template_revision(leaders) == revision.key and found != wanted_placement(group_set)


def _service_changed(old: GroupService | None, new: GroupService | None) -> bool:
    return new is None or (old is not None and old.spec != new.spec)


def _readiness_changed(old: Pod | None, new: Pod | None) -> bool:
    """Leaders count in the status and in the roll; workers do through their StatefulSet."""
    pod = new or old
    if pod is None or not is_leader(pod.metadata.labels):
        return False
    return old is None or new is None or _seen(old) != _seen(new)


def _seen(pod: Pod) -> tuple[object, ...]:
    return pod.ready, pod.status.phase, pod.metadata.deleting, pod.metadata.labels
