"""The reconciler of sets: revision, leader StatefulSet, shared Service, status, history."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.groups import objects, revisions, wire
from kohort.groups.api import LeaderWorkerSet
from kohort.groups.explain import first_obstacle
from kohort.groups.metrics import GroupMetrics
from kohort.groups.observation import group_states, in_order
from kohort.groups.revisions import Revision
from kohort.groups.rolling import GroupState, LeaderSet, RollPlan, RollView, plan_roll
from kohort.groups.status import AVAILABLE, REASONS, Tally, next_conditions, tally
from kohort.groups.views import BY_SET, GroupCache, GroupStatefulSet, sets_of
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, ApiError, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, SERVICES, STATEFUL_SETS, Key
from kohort.objects.core import Pod
from kohort.objects.jsontypes import JsonObject

COALESCE: Final = 1.0
"""Seconds between two status writes that differ only in their counters, as long as those are still moving."""
_TICK: Final = 0.001
"""Less than this is no time to wait for: a timer may fire a hair early, and would then be set again and again."""


class Applied(msgspec.Struct, frozen=True):
    """What was last applied to a leader StatefulSet, and what generation it then had."""

    document: bytes
    generation: int


class SetController:
    def __init__(self, manager: Manager, cache: GroupCache, metrics: GroupMetrics) -> None:
        self.client = manager.client
        self.cache = cache
        self.metrics = metrics
        self._rolls: dict[str, float] = {}
        """By uid: when the roll that is under way began."""
        self._waiting: dict[str, float] = {}
        """By uid of a leader: when its group was first seen, until it is ready."""
        self.recorder = manager.recorder("leaderworkerset")
        self._applied: dict[str, Applied] = {}
        self._status_written: dict[str, float] = {}
        self.controller = manager.controller("leaderworkerset", self.reconcile, workers=8, max_delay=30)
        self.controller.watches(cache.sets)
        self.controller.watches(cache.stateful_sets, sets_of)
        self.controller.watches(cache.services, sets_of, when=lambda _, new: new is None)
        self.controller.watches(cache.pods, sets_of, when=_readiness_changed)

    async def reconcile(self, key: Key) -> Requeue | None:
        group_set = self.cache.sets.get(key)
        if group_set is None or group_set.metadata.deleting:
            self.metrics.forget(key)
            return None
        leaders = self.cache.stateful_sets.get(key)
        if leaders is not None and leaders.metadata.deleting:
            return Requeue(after=5.0)
        revision, changed = await self._revision(group_set, leaders)
        states = group_states(self.cache, key, revision.key, group_set.template.size)
        plan = plan_roll(_view(group_set, leaders, states, changed))
        leaders = await self._apply(group_set, leaders, revision, plan, changed)
        await self._ensure_service(group_set)
        result = tally(group_set.replicas, group_set.partition, states)
        self._measure(group_set, leaders, result, states, changed)
        wait = await self._write_status(group_set, leaders, revision, result)
        if result.finished:
            await self._forget_surplus(group_set, revision, states)
        return Requeue(after=wait) if wait else None

    def _measure(
        self,
        group_set: LeaderWorkerSet,
        leaders: GroupStatefulSet,
        found: Tally,
        states: Mapping[int, GroupState],
        changed: bool,
    ) -> None:
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        labels = (key.namespace, key.name)
        self.metrics.wanted.labels(*labels).set(group_set.replicas)
        self.metrics.existing.labels(*labels).set(leaders.status.replicas)
        self.metrics.ready.labels(*labels).set(found.ready)
        self.metrics.updated.labels(*labels).set(found.updated)
        self.metrics.partition.labels(*labels).set(leaders.partition)
        self.metrics.surge.labels(*labels).set(max(0, leaders.spec.replicas - group_set.replicas))
        now = asyncio.get_running_loop().time()
        uid = group_set.metadata.uid
        if changed:
            self.metrics.rolls.labels(*labels).inc()
            self._rolls.setdefault(uid, now)
        elif found.finished and uid in self._rolls:
            self.metrics.roll_seconds.labels(*labels).observe(now - self._rolls.pop(uid))
        for index, leader in self.cache.leaders(key).items():
            state = states.get(index)
            if state is not None and state.ready:
                since = self._waiting.pop(leader.metadata.uid, None)
                if since is not None:
                    self.metrics.ready_seconds.labels(*labels).observe(now - since)
            else:
                self._waiting.setdefault(leader.metadata.uid, now)

    # Revisions

    async def _revision(self, group_set: LeaderWorkerSet, leaders: GroupStatefulSet | None) -> tuple[Revision, bool]:
        """The revision that the set is at, and whether this pass began it."""
        known = self.cache.revisions_of(group_set)
        key = leaders.metadata.labels.get(wire.REVISION, "") if leaders is not None else ""
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
            made: JsonObject = await self.client.create(CONTROLLER_REVISIONS, body)
        except AlreadyExists:
            # Made by an earlier pass that the cache does not show yet.
            name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
            made = await self.client.get(CONTROLLER_REVISIONS, name, namespace)
        found = msgspec.convert(made, Revision)
        self._event(group_set, "CreatingRevision", _REVISION_NOTES[word].format(found.key))
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

    async def _forget_surplus(
        self, group_set: LeaderWorkerSet, current: Revision, states: Mapping[int, GroupState]
    ) -> None:
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        used = {current.key, *(pod.metadata.labels.get(wire.REVISION, "") for pod in self.cache.leaders(key).values())}
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
        body = objects.leader_stateful_set(group_set, revision.key, plan, existing)
        document = msgspec.json.encode(body, order="sorted")
        uid = group_set.metadata.uid
        if leaders is not None and self._is_applied(uid, document, leaders):
            return leaders
        try:
            made = await self.client.apply(
                STATEFUL_SETS, body, field_manager=wire.FIELD_MANAGER, force=True, type=GroupStatefulSet
            )
        except ApiError as problem:
            self._report_failure(group_set, leaders, problem)
            raise
        found: GroupStatefulSet = made
        self._applied[uid] = Applied(document, found.metadata.generation)
        self._announce(group_set, leaders, plan, changed)
        return found

    def _is_applied(self, uid: str, document: bytes, leaders: GroupStatefulSet) -> bool:
        known = self._applied.get(uid)
        return known is not None and known == Applied(document, leaders.metadata.generation)

    def _announce(
        self, group_set: LeaderWorkerSet, before: GroupStatefulSet | None, plan: RollPlan, changed: bool
    ) -> None:
        name = group_set.metadata.name
        if before is None:
            self._event(group_set, "GroupsProgressing", f"Created leader statefulset {name}")
            return
        if plan.replicas < before.spec.replicas and before.spec.replicas > group_set.replicas:
            first, last = max(plan.replicas, group_set.replicas), before.spec.replicas - 1
            text = f"deleting surge replica {name}-{first}"
            if first != last:
                text = f"deleting surge replicas from {name}-{first} to {name}-{last}"
            self._event(group_set, "GroupsProgressing", text)
        if not changed and plan.partition < before.partition:
            low, high = plan.partition, before.partition - 1
            text = f"Updating replica {low}" if low == high else f"Updating replicas {low} to {high} (inclusive)"
            self._event(group_set, "GroupsUpdating", text)

    def _report_failure(self, group_set: LeaderWorkerSet, leaders: GroupStatefulSet | None, problem: ApiError) -> None:
        verb, reason = ("create", "FailedCreate") if leaders is None else ("update", "FailedUpdate")
        text = f"Failed to {verb} leader statefulset {group_set.metadata.name}: {problem}"
        self.recorder.warning(LEADER_WORKER_SETS, group_set, reason, text)

    # Service and status

    async def _ensure_service(self, group_set: LeaderWorkerSet) -> None:
        if group_set.subdomain_policy != wire.SHARED:
            return
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        if key in self.cache.services:
            return
        try:
            await self.client.create(SERVICES, objects.shared_service(group_set))
        except AlreadyExists:
            return
        except ApiError as problem:
            text = f"Failed to create headless service for error: {problem}"
            self.recorder.warning(LEADER_WORKER_SETS, group_set, "FailedCreate", text)
            raise

    async def _write_status(
        self, group_set: LeaderWorkerSet, leaders: GroupStatefulSet, revision: Revision, found: Tally
    ) -> float:
        """Write what changed. Returns how long to wait when the write was put off to be merged with others."""
        before = group_set.status
        conditions = next_conditions(
            before.conditions, found.true_conditions, group_set.metadata.generation, clock.timestamp()
        )
        wanted = wanted_status(group_set, leaders, revision, found, conditions)
        current: JsonObject = msgspec.to_builtins(before) | {"conditions": list(before.conditions)}
        changes = {name: value for name, value in wanted.items() if current.get(name) != value}
        if not changes:
            return 0.0
        now = asyncio.get_running_loop().time()
        left = self._status_written.get(group_set.metadata.uid, now - COALESCE) + COALESCE - now
        if left > _TICK and "conditions" not in changes and not _at_rest(group_set, leaders, found):
            return left
        self._status_written[group_set.metadata.uid] = now
        metadata = group_set.metadata
        try:
            await self.client.patch(
                LEADER_WORKER_SETS, metadata.name, metadata.namespace, {"status": changes}, subresource="status"
            )
        except NotFound:
            return 0.0
        if "conditions" in changes:
            self._tell_conditions(group_set, found)
        return 0.0

    def _tell_conditions(self, group_set: LeaderWorkerSet, found: Tally) -> None:
        reason, message = REASONS[found.true_conditions[0]]
        note = f"{message}, with {found.ready} groups ready of total {group_set.replicas} groups"
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        obstacle = first_obstacle(self.cache.pods.by_index(BY_SET, str(key)))
        self._event(group_set, reason, f"{note}; {obstacle}" if obstacle else note)

    def _event(self, group_set: LeaderWorkerSet, reason: str, note: str) -> None:
        self.recorder.normal(LEADER_WORKER_SETS, group_set, reason, note)


def _at_rest(group_set: LeaderWorkerSet, leaders: GroupStatefulSet, found: Tally) -> bool:
    """Whether the counters have come to where they will stay: somebody may be waiting for them."""
    sizes = {group_set.replicas, leaders.spec.replicas, leaders.status.replicas}
    return len(sizes) == 1 and found.true_conditions == (AVAILABLE,)


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
        noted = leaders.metadata.annotations.get(wire.REPLICAS, "")
        sized_for = int(noted) if noted.isdigit() else group_set.replicas
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


def wanted_status(
    group_set: LeaderWorkerSet,
    leaders: GroupStatefulSet,
    revision: Revision,
    found: Tally,
    conditions: list[JsonObject],
) -> JsonObject:
    """The status to write; counters at zero are null, because the API leaves them out."""
    name = group_set.metadata.name
    stable = (
        revision.key if found.finished or not group_set.status.stable_revision else group_set.status.stable_revision
    )
    return {
        "replicas": leaders.status.replicas or None,
        "readyReplicas": found.ready or None,
        "updatedReplicas": found.updated or None,
        "updatedReadyReplicas": found.updated_ready or None,
        "stableRevision": stable,
        "updateRevision": revision.key,
        "hpaPodSelector": group_set.status.hpa_pod_selector or f"{wire.NAME}={name},{wire.WORKER_INDEX}=0",
        "observedGeneration": group_set.metadata.generation,
        "conditions": conditions,
    }


def _readiness_changed(old: Pod | None, new: Pod | None) -> bool:
    """Leaders count in the status and in the roll; workers do through their StatefulSet."""
    pod = new or old
    if pod is None or pod.metadata.labels.get(wire.WORKER_INDEX) != wire.LEADER:
        return False
    return old is None or new is None or _seen(old) != _seen(new)


def _seen(pod: Pod) -> tuple[object, ...]:
    return pod.ready, pod.status.phase, pod.metadata.deleting, pod.metadata.labels
