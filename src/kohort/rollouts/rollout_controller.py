"""Reconciles Rollouts: observes the cluster, decides, acts, writes the status."""

from collections.abc import Mapping

import msgspec

from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.manager import Manager
from kohort.kube.merge_patch import locked, merge_patch
from kohort.kube.resources import (
    BATCH_RELEASES,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    ROLLOUTS,
    STATEFUL_SETS,
    TRAFFIC_ROUTINGS,
    Key,
)
from kohort.objects.apps import Deployment, ReplicaSet, StatefulSet
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject
from kohort.rollouts import messages, rollout_phases
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, ProblemReason, Waiting
from kohort.rollouts.analysis_control.judgements import judgement_of, rollouts_of_analysis, rollouts_of_run
from kohort.rollouts.analysis_control.notifications import Notifier
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.feature_gates import Features, keeps_hold
from kohort.rollouts.go_hashes import hash_of, release_plan_hash
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.metrics import RolloutMetrics
from kohort.rollouts.release_actions import (
    Action,
    AdoptHeldWorkload,
    DeleteRelease,
    GrowToFullCapacity,
    JoinTrafficRouting,
    LeaveHeld,
    ReleaseAction,
    ReleaseHold,
    RestoreCanary,
    ResumeRelease,
    ShrinkToBatch,
    WithdrawCanary,
    WorkloadAction,
    WriteRelease,
)
from kohort.rollouts.release_events import recorder
from kohort.rollouts.release_forecast import GroupPlanner
from kohort.rollouts.release_forecast_reader import needs_forecast, release_forecast
from kohort.rollouts.release_state import Observation, ReleaseDecision, State, stored_state, workload_of_release
from kohort.rollouts.rollout_types import BatchRelease, ReleasePlan, ReleaseProgress, Rollout, WorkloadRef
from kohort.rollouts.traffic import actions as traffic_actions
from kohort.rollouts.traffic.model import RouteRef, Selectors, Traffic, TrafficRequest, TrafficStep
from kohort.rollouts.traffic.trafficrouting_types import TrafficRouting
from kohort.rollouts.workloads.model import Controls, WorkloadOperations
from kohort.rules import group_labels, rollout_labels

_AT_ONCE = 0.01
_ACTIONS_PER_PASS = 20
"""More than any release needs; a bug must not turn into an endless loop."""


class RolloutController:
    def __init__(
        self,
        manager: Manager,
        cache: RolloutCache,
        controls: Controls,
        traffic: Traffic,
        metrics: RolloutMetrics,
        features: Features,
        plan_group: GroupPlanner,
        notifier: Notifier | None = None,
    ) -> None:
        self.client = manager.client
        self.notifier = notifier
        self.cache = cache
        self.controls = controls
        self.traffic = traffic
        self.metrics = metrics
        self.features = features
        self.plan_group = plan_group
        self.recorder = recorder(manager)
        self._checked: dict[Key, tuple[int, float]] = {}
        """Which generation of a Rollout had its references checked, and when."""
        self.controller = manager.controller("rollout-controller", self.reconcile, workers=3, max_delay=30)
        self.controller.watches(cache.rollouts)
        self.controller.watches(cache.releases, _same_name)
        self.controller.watches(cache.sets, self._for_set)
        self.controller.watches(cache.leader_sets, self._for_leader_set)
        self.controller.watches(cache.deployments, self._for_deployment)
        self.controller.watches(cache.replica_sets, self._for_replica_set)
        self.controller.watches(cache.stateful_sets, self._for_stateful_set)
        self.controller.watches(cache.runs, rollouts_of_run)
        self.controller.watches(cache.analyses, lambda one: rollouts_of_analysis(one, cache))

    async def reconcile(self, key: Key) -> Requeue | None:
        rollout = self.cache.rollouts.get(key)
        if rollout is None:
            self._checked.pop(key, None)
            return None
        if await self._finalizer(rollout):
            self.metrics.forget(rollout)
            return None
        control = self.controls.get(rollout.spec.workload_ref.group_kind)
        observation = self._observe(rollout, control)
        if control is not None and observation.workload is not None and not observation.workload.has_webhook_label:
            await control.add_webhook_label(Key(key.namespace, observation.workload.name))
        if await self._write_hash(rollout, observation.plan_hash):
            return None
        if rollout.traffic_routing and _is_ending(observation.state):
            await self._leave_traffic_routing(rollout)
        observation = await self._with_references(await self._with_drift(observation))
        observation = await self._with_forecast(observation)
        decision = await self._pass(observation, control)
        self._emit(rollout, decision)
        if decision.outcome is not None:
            self.metrics.count_outcome(rollout, decision.outcome)
        self._measure(observation, decision.state)
        written = await self._write(rollout, decision.state)
        # What was written comes back as an event.
        after = None if decision.requeue is None else max(decision.requeue, _AT_ONCE)
        if decision.requeue == 0 and written:
            after = None
        if _waits_with_routes(observation.with_state(decision.state)):
            after = min(after or rollout_labels.LOOK_SECONDS, rollout_labels.LOOK_SECONDS)
        elif _awaits_release(observation.with_state(decision.state)):
            after = min(after or rollout_labels.CHECK_SECONDS, rollout_labels.CHECK_SECONDS)
        return None if after is None else Requeue(after=after)

    async def _with_drift(self, observation: Observation) -> Observation:
        if not _waits_with_routes(observation):
            return observation
        drift = await self.traffic.find_drift(self._traffic_request(observation))
        return msgspec.structs.replace(observation, drift=drift)

    async def _with_references(self, observation: Observation) -> Observation:
        """Services and routes are not watched, so they are checked every so often."""
        metadata = observation.rollout.metadata
        key, now = Key(metadata.namespace, metadata.name), clock.seconds()
        generation, when = self._checked.get(key, (0, 0.0))
        if not _awaits_release(observation):
            self._checked.pop(key, None)
            return observation
        if generation == metadata.generation and now - when < rollout_labels.CHECK_SECONDS:
            return observation
        self._checked[key] = metadata.generation, now
        result = await self.traffic.check(self._traffic_request(observation))
        if isinstance(result, Done) and (name := observation.rollout.traffic_routing):
            routing = await self._traffic_routing(observation.rollout)
            result = result if routing is not None else _traffic_routing_missing(name)
        return msgspec.structs.replace(observation, references=result)

    async def _with_forecast(self, observation: Observation) -> Observation:
        if not needs_forecast(observation):
            return observation
        found = await release_forecast(observation, self.cache, self.client, self.plan_group)
        return msgspec.structs.replace(observation, forecast=found)

    async def _pass(self, observation: Observation, control: WorkloadOperations | None) -> ReleaseDecision:
        decision = rollout_phases.decide(observation)
        events = decision.events
        for _ in range(_ACTIONS_PER_PASS):
            if decision.action is None:
                break
            observation = observation.with_state(decision.state)
            result = await self._perform(observation, decision.action, control)
            decision = rollout_phases.decide_after(observation, decision.action, result)
            events += decision.events
        return msgspec.structs.replace(decision, events=events, action=None)

    def _observe(self, rollout: Rollout, control: WorkloadOperations | None) -> Observation:
        key = Key(rollout.metadata.namespace, rollout.metadata.name)
        release = self.cache.releases.get(key)
        state = stored_state(rollout)
        return Observation(
            rollout=rollout,
            state=state,
            now=clock.now(),
            workload=workload_of_release(state, control.observe(rollout)) if control is not None else None,
            release=release,
            release_hash=release_plan_hash(release.plan) if release is not None else "",
            plan_hash=hash_of(rollout.spec.strategy),
            canary_gone=control.canary_gone(rollout) if control is not None else True,
            keeps_hold=keeps_hold(rollout, self.features),
            judgement=judgement_of(rollout, self.cache),
        )

    # Acting

    async def _perform(
        self, observation: Observation, action: Action, control: WorkloadOperations | None
    ) -> ActionResult:
        match action:
            case JoinTrafficRouting():
                return await self._join_traffic_routing(observation.rollout)
            case ReleaseHold() | LeaveHeld() | AdoptHeldWorkload():
                return DONE if control is None else await _act_on_workload(observation.rollout, action, control)
            case (
                WriteRelease()
                | ResumeRelease()
                | GrowToFullCapacity()
                | ShrinkToBatch()
                | WithdrawCanary()
                | RestoreCanary()
                | DeleteRelease()
            ):
                await self._act_on_release(observation, action)
                return Done(changed=True)
            case _:
                return await traffic_actions.perform(self.traffic, action, self._traffic_request(observation))

    def _traffic_request(self, observation: Observation) -> TrafficRequest:
        return traffic_request(observation, appends=self.features.append_pod_selector)

    async def _act_on_release(self, observation: Observation, action: ReleaseAction) -> None:
        if isinstance(action, WriteRelease):
            await self._write_release(observation, action.plan)
            return
        release = observation.release
        if release is None:
            return
        match action:
            case DeleteRelease():
                await self._delete_release(release)
            case ResumeRelease(policy=policy):
                plan = {"batchPartition": None, "finalizingPolicy": policy}
                await self._patch_release(release, {"spec": {"releasePlan": plan}})
            case GrowToFullCapacity():
                await self._annotate_release(release, {rollout_labels.FULL_CAPACITY: "true"})
            case ShrinkToBatch():
                await self._annotate_release(release, {rollout_labels.SHRINK: str(release.plan.batch_partition)})
            case WithdrawCanary():
                await self._annotate_release(release, {rollout_labels.WITHDRAWN: "true"})
            case RestoreCanary():
                await self._annotate_release(release, {rollout_labels.WITHDRAWN: None})

    async def _write_release(self, observation: Observation, plan: ReleasePlan) -> None:
        rollout, release = observation.rollout, observation.release
        document = plan.document()
        if release is not None:
            change = merge_patch(release.plan.document(), document)
            if change is not None and not release.metadata.deleting:
                # The batch before was allowed to shrink; this one is not.
                shrinks = rollout_labels.SHRINK in release.metadata.annotations
                annotations = {rollout_labels.SHRINK: None} if shrinks else {}
                body = {"metadata": {"annotations": annotations}, "spec": {"releasePlan": change}}
                await self._patch_release(release, body)
            return
        created: JsonObject = {
            "apiVersion": rollout_labels.API_VERSION,
            "kind": "BatchRelease",
            "metadata": {
                "name": rollout.metadata.name,
                "namespace": rollout.metadata.namespace,
                "ownerReferences": [rollout.owner_reference()],
                "finalizers": [rollout_labels.RELEASE_FINALIZER],
            },
            "spec": {"workloadRef": msgspec.to_builtins(rollout.spec.workload_ref), "releasePlan": document},
        }
        try:
            await self.client.create(BATCH_RELEASES, created)
        except AlreadyExists:
            return

    async def _delete_release(self, release: BatchRelease) -> None:
        metadata = release.metadata
        try:
            await self.client.delete(BATCH_RELEASES, metadata.name, metadata.namespace, uid=metadata.uid)
        except NotFound:
            return

    async def _annotate_release(self, release: BatchRelease, annotations: Mapping[str, str | None]) -> None:
        await self._patch_release(release, {"metadata": {"annotations": dict(annotations)}})

    async def _patch_release(self, release: BatchRelease, body: JsonObject) -> None:
        metadata = release.metadata
        await self.client.patch(
            BATCH_RELEASES, metadata.name, metadata.namespace, locked(body, metadata.resource_version)
        )

    async def _join_traffic_routing(self, rollout: Rollout) -> ActionResult:
        """Several Rollouts may use one TrafficRouting; each that does has a finalizer of its own on it."""
        name, own = rollout.traffic_routing, rollout.metadata.name
        routing = await self._traffic_routing(rollout)
        if routing is None:
            return _traffic_routing_missing(name)
        if routing.is_used_by(own):
            return DONE
        if routing.is_ending():
            return Waiting(f"TrafficRouting {name} is {routing.status.phase or 'being deleted'}")
        await self._set_routing_finalizers(
            routing, [*routing.metadata.finalizers, rollout_labels.PROGRESSING_FINALIZER + own]
        )
        return Waiting(f"joining TrafficRouting {name}", _AT_ONCE)

    async def _leave_traffic_routing(self, rollout: Rollout) -> None:
        routing = await self._traffic_routing(rollout)
        if routing is None or not routing.is_used_by(rollout.metadata.name):
            return
        own = rollout_labels.PROGRESSING_FINALIZER + rollout.metadata.name
        await self._set_routing_finalizers(routing, [one for one in routing.metadata.finalizers if one != own])

    async def _traffic_routing(self, rollout: Rollout) -> TrafficRouting | None:
        found: TrafficRouting | None = await self.client.find(
            TRAFFIC_ROUTINGS, rollout.traffic_routing, rollout.metadata.namespace, type=TrafficRouting
        )
        return found

    async def _set_routing_finalizers(self, routing: TrafficRouting, finalizers: list[str]) -> None:
        metadata = routing.metadata
        body = locked({"metadata": {"finalizers": finalizers}}, metadata.resource_version)
        await self.client.patch(TRAFFIC_ROUTINGS, metadata.name, metadata.namespace, body)

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
            await self._leave_traffic_routing(rollout)
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

    # Reporting

    def _emit(self, rollout: Rollout, decision: ReleaseDecision) -> None:
        found = decision.state.condition(rollout_labels.ANALYSIS_CONDITION)
        for event in decision.events:
            self.metrics.count_event(rollout, event.reason)
            record = self.recorder.warning if event.warning else self.recorder.normal
            record(ROLLOUTS, rollout, event.reason, event.message)
            if self.notifier is not None:
                self.notifier.notify(rollout, event, found.message if found is not None else "")

    def _measure(self, observation: Observation, state: State) -> None:
        self.metrics.observe(observation.rollout, state, desired_replicas(observation, state), clock.seconds())

    # Which Rollouts an object concerns

    def _for_set(self, subject: GroupSet) -> list[Key]:
        metadata = subject.metadata
        return self._named_set(metadata.namespace, metadata.labels.get(rollout_labels.CANARY_SET, metadata.name))

    def _named_set(self, namespace: str, name: str) -> list[Key]:
        return self.cache.rollouts_of(namespace, WorkloadRef.to(LEADER_WORKER_SETS, name))

    def _for_leader_set(self, subject: PartialObject) -> list[Key]:
        metadata = subject.metadata
        name = metadata.labels.get(group_labels.NAME, "")
        found = self.cache.sets.get(Key(metadata.namespace, name))
        return self._for_set(found) if found is not None else self._named_set(metadata.namespace, name)

    def _for_deployment(self, subject: Deployment) -> list[Key]:
        name = subject.metadata.labels.get(rollout_labels.CANARY_DEPLOYMENT, subject.metadata.name)
        return self.cache.rollouts_of(subject.metadata.namespace, WorkloadRef.to(DEPLOYMENTS, name))

    def _for_replica_set(self, subject: ReplicaSet) -> list[Key]:
        owner = subject.metadata.controller
        if owner is None:
            return []
        found = self.cache.deployments.get(Key(subject.metadata.namespace, owner.name))
        return self._for_deployment(found) if found is not None else []

    def _for_stateful_set(self, subject: StatefulSet) -> list[Key]:
        metadata = subject.metadata
        return self.cache.rollouts_of(metadata.namespace, WorkloadRef.to(STATEFUL_SETS, metadata.name))


async def _act_on_workload(rollout: Rollout, action: WorkloadAction, control: WorkloadOperations) -> ActionResult:
    match action:
        case ReleaseHold():
            return await control.release_hold(rollout)
        case LeaveHeld():
            return await control.leave_held(rollout)
        case AdoptHeldWorkload():
            await control.adopt_held(rollout)
            return DONE


def traffic_request(observation: Observation, *, appends: bool = False) -> TrafficRequest:
    """What operations on traffic need to know of a Rollout."""
    rollout, workload, strategy = observation.rollout, observation.workload, observation.rollout.strategy
    progress = observation.state.progress or ReleaseProgress()
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
    return TrafficRequest(
        namespace=rollout.metadata.namespace,
        owner=rollout.owner_reference(),
        refs=strategy.traffic_routings if _drains(observation) else _without_draining(strategy.traffic_routings),
        step=observation.step.traffic_step if observation.steps else TrafficStep(),
        selectors=selectors,
        generates_canary_service=generates,
        serving=workload.serving if workload is not None else None,
        since=clock.parse_time(progress.last_update_time) if progress.last_update_time else None,
        grace_times=progress.grace_times,
    )


def _drains(observation: Observation) -> bool:
    """Whether requests in flight are waited for. In partition style only while the stable Service is pinned and the
    release goes back: pods of the new version get no more requests then, and are about to be replaced. Otherwise routes
    lead to pods that stay, and requests never cease to arrive."""
    if not observation.rollout.partitioned:
        return True
    state = observation.state
    ended = (rollout_labels.TO_NEW, rollout_labels.RESTORE_STABLE)
    if state.phase != rollout_labels.PROGRESSING or state.progress is None or observation.all_replaced:
        return False
    goes_on = state.reason == rollout_labels.FINALISING or state.progress.finalising_step in ended
    return observation.step.routes and not goes_on


def _without_draining(refs: tuple[RouteRef, ...]) -> tuple[RouteRef, ...]:
    return tuple(msgspec.structs.replace(ref, drain_timeout_seconds=0) for ref in refs)


def _waits_with_routes(observation: Observation) -> bool:
    """A step that has routed and now waits, while other clients may change the routes. A release that was taken over
    does not know yet what to compare with."""
    state = observation.state
    return (
        (state.phase, state.reason) == (rollout_labels.PROGRESSING, rollout_labels.IN_ROLLING)
        and observation.workload is not None
        and observation.progress.current_step_state == rollout_labels.PAUSED
        and bool(observation.progress.revision_key)
        and observation.routed
        and observation.step.routes
        and not observation.all_replaced
    )


def _awaits_release(observation: Observation) -> bool:
    """Nothing is released, and what the Rollout names will be needed."""
    rollout = observation.rollout
    named = bool(rollout.strategy.traffic_routings or rollout.traffic_routing)
    return (
        named
        and observation.state.phase == rollout_labels.HEALTHY
        and observation.state.progress is not None
        and not rollout.spec.disabled
    )


def _traffic_routing_missing(name: str) -> Problem:
    return Problem(messages.traffic_routing_missing(name), ProblemReason.REF_NOT_FOUND)


def _is_ending(state: State) -> bool:
    """A release that ends first leaves the TrafficRouting that it shares with others."""
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
    if rollout.status.conditions:
        document["conditions"] = [one.document() for one in rollout.status.conditions]
    if not rollout.status.phase:
        return document
    return document | {
        "currentStepIndex": rollout.status.current_step_index,
        "currentStepState": rollout.status.current_step_state,
    }


def desired_replicas(observation: Observation, state: State) -> int:
    """How many replicas should have the new version, at the step that a release has come to."""
    if state.progress is None or not observation.rollout.steps_known:
        return 0
    place = min(max(state.progress.current_step_index, 1), len(observation.steps)) - 1
    return observation.planned(observation.steps[place])
