"""The reconciler of Rollouts: observe, decide, act, write what is now the case."""

from collections.abc import Iterable, Mapping

import msgspec

from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.manager import Manager
from kohort.kube.merge_patch import locked, merge_patch
from kohort.kube.resources import BATCH_RELEASES, ROLLOUTS, TRAFFIC_ROUTINGS, Key
from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject
from kohort.rollouts import rollout_phases, step_arithmetic
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.feature_gates import Features, keeps_hold
from kohort.rollouts.go_hashes import hash_of, release_plan_hash
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.metrics import RolloutMetrics
from kohort.rollouts.release_events import recorder
from kohort.rollouts.release_state import Act, Move, State, World, stored
from kohort.rollouts.rollout_types import BatchRelease, Progress, Rollout, WorkloadRef
from kohort.rollouts.traffic.model import Answer, Asking, Note, Selectors, Traffic, TrafficStep
from kohort.rollouts.workloads.model import Control, Outcome
from kohort.rules import rollout_labels

_SOON = 0.01
_CHAIN = 20
"""Acts of one pass. More than any machine has; a bug must not turn into an endless loop."""


class RolloutController:
    def __init__(
        self,
        manager: Manager,
        cache: RolloutCache,
        controls: Mapping[str, Control],
        traffic: Traffic,
        metrics: RolloutMetrics,
        features: Features,
    ) -> None:
        self.client = manager.client
        self.cache = cache
        self.controls = controls
        self.traffic = traffic
        self.metrics = metrics
        self.features = features
        self.recorder = recorder(manager)
        self._checked: dict[Key, tuple[int, float]] = {}
        """Which generation of a Rollout had its references looked at, and when."""
        self.controller = manager.controller("rollout-controller", self.reconcile, workers=3, max_delay=30)
        self.controller.watches(cache.rollouts)
        self.controller.watches(cache.releases, _same_name)
        self.controller.watches(cache.sets, self._of_set)
        self.controller.watches(cache.leader_sets, self._of_leaders)
        self.controller.watches(cache.deployments, self._of_deployment)
        self.controller.watches(cache.replica_sets, self._of_replica_set)

    async def reconcile(self, key: Key) -> Requeue | None:
        rollout = self.cache.rollouts.get(key)
        if rollout is None:
            self._checked.pop(key, None)
            return None
        if await self._finalizer(rollout):
            self.metrics.forget(rollout)
            return None
        control = self.controls.get(rollout.spec.workload_ref.kind)
        world = self._world(rollout, control)
        if control is not None and world.workload is not None and not world.workload.guarded:
            await control.guard(Key(key.namespace, world.workload.name))
        if await self._write_hash(rollout, world.plan_hash):
            return None
        if rollout.traffic_routing and _is_ending(world.state):
            await self._join(world, {}, leave=True)
        world = await self._checked_refs(await self._looked_at_routes(world))
        move = await self._pass(world, control)
        self._tell(rollout, move.notes)
        if move.outcome:
            self.metrics.ended(rollout, move.outcome)
        self._measure(world, move.state)
        written = await self._write(rollout, move.state)
        # What was written comes back as an event.
        after = None if move.requeue is None else max(move.requeue, _SOON)
        if move.requeue == 0 and written:
            after = None
        if _rests_on_routes(world.at(move.state)):
            after = min(after or rollout_labels.LOOK_SECONDS, rollout_labels.LOOK_SECONDS)
        elif _awaits_release(world.at(move.state)):
            after = min(after or rollout_labels.CHECK_SECONDS, rollout_labels.CHECK_SECONDS)
        return None if after is None else Requeue(after=after)

    async def _looked_at_routes(self, world: World) -> World:
        if not _rests_on_routes(world):
            return world
        astray = await self.traffic.astray(asking(world, appends=self.features.append_pod_selector))
        return msgspec.structs.replace(world, astray=astray)

    async def _checked_refs(self, world: World) -> World:
        """Nothing tells of changes of Services and routes, so they are looked at now and then."""
        metadata = world.rollout.metadata
        key, now = Key(metadata.namespace, metadata.name), clock.seconds()
        generation, when = self._checked.get(key, (0, 0.0))
        if not _awaits_release(world):
            self._checked.pop(key, None)
            return world
        if generation == metadata.generation and now - when < rollout_labels.CHECK_SECONDS:
            return world
        self._checked[key] = metadata.generation, now
        answer = await self.traffic.check(asking(world, appends=self.features.append_pod_selector))
        if answer.done and (name := world.rollout.traffic_routing):
            found: JsonObject | None = await self.client.find(TRAFFIC_ROUTINGS, name, metadata.namespace)
            answer = answer if found is not None else _missing_routing(name)
        return msgspec.structs.replace(world, refs=answer)

    async def _pass(self, world: World, control: Control | None) -> Move:
        move = rollout_phases.decide(world)
        notes = move.notes
        for _ in range(_CHAIN):
            if move.act is None:
                break
            world = world.at(move.state)
            answer = await self._perform(world, move.act, control)
            move = rollout_phases.answered(world, move.act, answer)
            notes += move.notes
        return msgspec.structs.replace(move, notes=notes, act=None)

    def _world(self, rollout: Rollout, control: Control | None) -> World:
        key = Key(rollout.metadata.namespace, rollout.metadata.name)
        release = self.cache.releases.get(key)
        return World(
            rollout=rollout,
            state=stored(rollout),
            now=clock.now(),
            workload=control.view(rollout) if control is not None else None,
            release=release,
            release_hash=release_plan_hash(release.plan) if release is not None else "",
            plan_hash=hash_of(rollout.spec.strategy),
            canary_gone=control.canary_gone(rollout) if control is not None else True,
            keeps_hold=keeps_hold(rollout, self.features),
        )

    # Acting

    async def _perform(self, world: World, act: Act, control: Control | None) -> Answer:
        progress = world.state.progress
        marks = progress.grace_times if progress is not None else {}
        if act.kind in _TRAFFIC:
            operation = getattr(self.traffic, act.kind)
            answer: Answer = await operation(asking(world, appends=self.features.append_pod_selector))
            return answer
        if act.kind in ("join", "leave"):
            return await self._join(world, marks, leave=act.kind == "leave")
        if act.kind in ("unhold", "leave_held", "take_up"):
            outcome = await self._let_loose(world, act, control)
            return Answer(
                outcome.state,
                rollout_labels.RECHECK,
                outcome.text,
                marks,
                changed=not outcome.done,
                notes=outcome.notes,
            )
        await self._release(world, act)
        return Answer("done", marks=marks, changed=True)

    async def _let_loose(self, world: World, act: Act, control: Control | None) -> Outcome:
        if control is None:
            return Outcome("done")
        if act.kind == "unhold":
            return await control.resume(world.rollout)
        if act.kind == "leave_held":
            return await control.leave_held(world.rollout)
        await control.take_up(world.rollout)
        return Outcome("done")

    async def _release(self, world: World, act: Act) -> None:
        rollout, release = world.rollout, world.release
        name, namespace = rollout.metadata.name, rollout.metadata.namespace
        if act.kind == "write_release":
            await self._write_release(world, act)
        elif release is None:
            return
        elif act.kind == "delete_release":
            try:
                await self.client.delete(BATCH_RELEASES, name, namespace, uid=release.metadata.uid)
            except NotFound:
                return
        elif act.kind == "resume_release":
            plan = {"batchPartition": None, "finalizingPolicy": act.policy}
            await self._patch_release(release, {"spec": {"releasePlan": plan}})
        else:
            size = {
                "fill_release": {rollout_labels.FULL_CAPACITY: "true"},
                "shrink_release": {rollout_labels.SHRINK: str(release.plan.batch_partition)},
                "withdraw_release": {rollout_labels.WITHDRAWN: "true"},
                "renew_release": {rollout_labels.WITHDRAWN: None},
            }
            await self._patch_release(release, {"metadata": {"annotations": size[act.kind]}})

    async def _write_release(self, world: World, act: Act) -> None:
        assert act.plan is not None
        rollout, release = world.rollout, world.release
        document = act.plan.document()
        if release is not None:
            change = merge_patch(release.plan.document(), document)
            if change is not None and not release.metadata.deleting:
                # Another batch: what was allowed for the one before is not for this one.
                annotations = (
                    {rollout_labels.SHRINK: None} if rollout_labels.SHRINK in release.metadata.annotations else {}
                )
                body = {"metadata": {"annotations": annotations}, "spec": {"releasePlan": change}}
                await self._patch_release(release, body)
            return
        ref = rollout.spec.workload_ref
        made: JsonObject = {
            "apiVersion": rollout_labels.API_VERSION,
            "kind": "BatchRelease",
            "metadata": {
                "name": rollout.metadata.name,
                "namespace": rollout.metadata.namespace,
                "ownerReferences": [rollout.owner_reference()],
                "finalizers": [rollout_labels.RELEASE_FINALIZER],
            },
            "spec": {"workloadRef": msgspec.to_builtins(ref), "releasePlan": document},
        }
        try:
            await self.client.create(BATCH_RELEASES, made)
        except AlreadyExists:
            return

    async def _patch_release(self, release: BatchRelease, body: JsonObject) -> None:
        metadata = release.metadata
        await self.client.patch(
            BATCH_RELEASES, metadata.name, metadata.namespace, locked(body, metadata.resource_version)
        )

    async def _join(self, world: World, marks: Mapping[str, str], *, leave: bool) -> Answer:
        """Several Rollouts may use one TrafficRouting; each says so by a finalizer of its own."""
        rollout = world.rollout
        name, namespace = rollout.traffic_routing, rollout.metadata.namespace
        found: JsonObject | None = await self.client.find(TRAFFIC_ROUTINGS, name, namespace)
        if found is None:
            return Answer("done", marks=marks) if leave else _missing_routing(name)
        own = rollout_labels.PROGRESSING_FINALIZER + rollout.metadata.name
        finalizers: list[str] = found["metadata"].get("finalizers") or []
        if (own in finalizers) != leave:
            return Answer("done", marks=marks)
        phase = (found.get("status") or {}).get("phase", "")
        if not leave and (phase in ("Finalizing", "Terminating") or "deletionTimestamp" in found["metadata"]):
            return Answer("wait", rollout_labels.RECHECK, f"TrafficRouting {name} is {phase or 'being deleted'}", marks)
        wanted = [one for one in finalizers if one != own] if leave else [*finalizers, own]
        body = locked({"metadata": {"finalizers": wanted}}, found["metadata"]["resourceVersion"])
        await self.client.patch(TRAFFIC_ROUTINGS, name, namespace, body)
        return Answer("done", marks=marks) if leave else Answer("wait", _SOON, f"joining TrafficRouting {name}", marks)

    # The Rollout itself

    async def _finalizer(self, rollout: Rollout) -> bool:
        """Whether the Rollout needs nothing more than its finalizer put on or taken off."""
        metadata = rollout.metadata
        has = rollout_labels.ROLLOUT_FINALIZER in metadata.finalizers
        if not metadata.deleting:
            if has:
                return False
            await self._patch(
                rollout, {"metadata": {"finalizers": [*metadata.finalizers, rollout_labels.ROLLOUT_FINALIZER]}}
            )
            return True
        ended = rollout.status.condition(rollout_labels.TERMINATING)
        if not has:
            return True
        if ended is None or ended.reason != rollout_labels.COMPLETED:
            return False
        if rollout.traffic_routing:
            await self._join(self._world(rollout, None), {}, leave=True)
        rest = [name for name in metadata.finalizers if name != rollout_labels.ROLLOUT_FINALIZER]
        try:
            await self._patch(rollout, {"metadata": {"finalizers": rest}})
        except NotFound:
            return True
        return True

    async def _write_hash(self, rollout: Rollout, value: str) -> bool:
        if rollout.metadata.annotations.get(rollout_labels.PLAN_HASH) == value or rollout.metadata.deleting:
            return False
        await self._patch(rollout, {"metadata": {"annotations": {rollout_labels.PLAN_HASH: value}}})
        return True

    async def _patch(self, rollout: Rollout, body: JsonObject) -> None:
        metadata = rollout.metadata
        await self.client.patch(ROLLOUTS, metadata.name, metadata.namespace, locked(body, metadata.resource_version))

    async def _write(self, rollout: Rollout, state: State) -> bool:
        wanted = state.document(rollout.metadata.generation, blue_green=rollout.blue_green)
        change = merge_patch(_document(rollout), wanted)
        if change is None:
            return False
        return await self.client.patch_status(ROLLOUTS, rollout, change, locked=True) is not None

    # Telling

    def _tell(self, rollout: Rollout, notes: Iterable[Note]) -> None:
        for note in notes:
            self.metrics.noted(rollout, note.reason)
            record = self.recorder.warning if note.warning else self.recorder.normal
            record(ROLLOUTS, rollout, note.reason, note.message)

    def _measure(self, world: World, state: State) -> None:
        desired = 0
        if world.workload is not None and state.progress is not None and world.rollout.steps_known:
            place = min(max(state.progress.current_step_index, 1), len(world.steps)) - 1
            desired = step_arithmetic.planned(world.steps[place].replicas or 0, world.workload.replicas)
        self.metrics.observe(world.rollout, state, desired, clock.seconds())

    # Whose Rollout is it

    def _of_set(self, subject: GroupSet) -> list[Key]:
        metadata = subject.metadata
        return self._named_set(metadata.namespace, metadata.labels.get(rollout_labels.CANARY_SET, metadata.name))

    def _named_set(self, namespace: str, name: str) -> list[Key]:
        ref = WorkloadRef("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name)
        return self.cache.rollouts_of(namespace, ref)

    def _of_leaders(self, subject: PartialObject) -> list[Key]:
        metadata = subject.metadata
        name = metadata.labels.get(rollout_labels.GROUP_SET, "")
        found = self.cache.sets.get(Key(metadata.namespace, name))
        return self._of_set(found) if found is not None else self._named_set(metadata.namespace, name)

    def _of_deployment(self, subject: Deployment) -> list[Key]:
        name = subject.metadata.labels.get(rollout_labels.CANARY_DEPLOYMENT, subject.metadata.name)
        return self.cache.rollouts_of(subject.metadata.namespace, WorkloadRef("apps/v1", "Deployment", name))

    def _of_replica_set(self, subject: ReplicaSet) -> list[Key]:
        owner = subject.metadata.controller
        if owner is None:
            return []
        found = self.cache.deployments.get(Key(subject.metadata.namespace, owner.name))
        return self._of_deployment(found) if found is not None else []


_TRAFFIC = frozenset(
    {
        "check",
        "pin_stable",
        "route",
        "route_all_to_new",
        "route_all_to_stable",
        "restore_stable",
        "remove_canary_service",
    }
)


def asking(world: World, *, appends: bool = False) -> Asking:
    """The context of a question about traffic."""
    rollout, workload, strategy = world.rollout, world.workload, world.rollout.strategy
    progress = world.state.progress or Progress()
    patch = strategy.patch_pod_template_metadata
    generates = not strategy.disable_generate_canary_service
    selectors = Selectors(
        revision_key=progress.revision_key,
        stable_revision=progress.stable_revision,
        canary_revision=progress.pod_template_hash,
        pinned=workload.pinned if workload is not None else {},
        patched=patch.labels if patch is not None and generates else {},
        appends=appends,
    )
    return Asking(
        namespace=rollout.metadata.namespace,
        owner=rollout.owner_reference(),
        refs=strategy.traffic_routings,
        step=world.step.traffic_step if world.steps else TrafficStep(),
        selectors=selectors,
        generates_canary_service=generates,
        serving=workload.serving if workload is not None else None,
        since=clock.parse_time(progress.last_update_time) if progress.last_update_time else None,
        marks=progress.grace_times,
    )


def _rests_on_routes(world: World) -> bool:
    """A step that has routed and now waits, while others may change what it has made. A release that was taken over
    does not know yet what to look for."""
    state, rollout = world.state, world.rollout
    return (
        (state.phase, state.reason) == (rollout_labels.PROGRESSING, rollout_labels.IN_ROLLING)
        and world.workload is not None
        and world.progress.current_step_state == rollout_labels.PAUSED
        and bool(world.progress.revision_key)
        and bool(rollout.strategy.traffic_routings)
        and world.step.routes
    )


def _awaits_release(world: World) -> bool:
    """Nothing is released, and what the Rollout names will be needed."""
    rollout = world.rollout
    named = bool(rollout.strategy.traffic_routings or rollout.traffic_routing)
    return (
        named
        and world.state.phase == rollout_labels.HEALTHY
        and world.state.progress is not None
        and not rollout.spec.disabled
    )


def _missing_routing(name: str) -> Answer:
    text = f"TrafficRouting {name} does not exist: create it, or drop trafficRoutingRef"
    return Answer("problem", text=text, reason="RefNotFound")


def _is_ending(state: State) -> bool:
    """A release that ends first lets go of the TrafficRouting that it shares with others."""
    if state.phase in (rollout_labels.DISABLING, rollout_labels.TERMINATING):
        return True
    return state.phase == rollout_labels.PROGRESSING and state.reason in (
        rollout_labels.FINALISING,
        rollout_labels.CANCELLING,
    )


def _same_name(release: BatchRelease) -> list[Key]:
    return [Key(release.metadata.namespace, release.metadata.name)]


def _document(rollout: Rollout) -> JsonObject:
    """The status as it is stored."""
    document: JsonObject = msgspec.to_builtins(rollout.status)
    if not rollout.status.phase:
        return document
    return document | {
        "currentStepIndex": rollout.status.current_step_index,
        "currentStepState": rollout.status.current_step_state,
    }
