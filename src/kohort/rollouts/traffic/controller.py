"""Reconciles TrafficRoutings: routes that Rollouts share, changed without touching any Service."""

from collections.abc import Mapping

import msgspec

from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import NotFound
from kohort.kube.event_mapping import owner_reference
from kohort.kube.events import ObjectReference
from kohort.kube.informer import Informer
from kohort.kube.manager import Manager
from kohort.kube.merge_patch import locked
from kohort.kube.resources import TRAFFIC_ROUTINGS, Key
from kohort.objects.json_types import JsonObject
from kohort.objects.recorded_json import read_recorded
from kohort.rollouts import messages
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.release_events import recorder
from kohort.rollouts.traffic import actions, trafficrouting_phases
from kohort.rollouts.traffic.actions import RouteStep
from kohort.rollouts.traffic.model import Traffic, TrafficRequest, TrafficStep
from kohort.rollouts.traffic.trafficrouting_phases import TrafficRoutingDecision
from kohort.rollouts.traffic.trafficrouting_types import TrafficRouting, TrafficRoutingStatus
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import GRACE_TIMES


def traffic_request(routing: TrafficRouting) -> TrafficRequest:
    metadata, strategy = routing.metadata, routing.spec.strategy
    return TrafficRequest(
        namespace=metadata.namespace,
        owner=owner_reference(TRAFFIC_ROUTINGS, metadata.name, metadata.uid),
        refs=routing.spec.object_ref,
        step=TrafficStep(strategy.weight, strategy.matches, strategy.request_header_modifier),
        only_traffic=True,
        grace_times=_grace_times(metadata.annotations.get(GRACE_TIMES)),
    )


def _grace_times(text: str | None) -> dict[str, str]:
    """Without readable times a grace period begins anew, which is the safe side."""
    return read_recorded(text or "", dict[str, str]) or {}


class TrafficRoutingController:
    def __init__(self, manager: Manager, traffic: Traffic) -> None:
        self.client: Client = manager.client
        self.traffic = traffic
        self.recorder = recorder(manager)
        self.routings: Informer[TrafficRouting] = manager.informer(TRAFFIC_ROUTINGS, TrafficRouting)
        manager.controller("trafficrouting", self.reconcile, workers=3).watches(self.routings)

    async def reconcile(self, key: Key) -> Requeue | None:
        routing = self.routings.get(key)
        if routing is None:
            return None
        own = rollout_labels.TRAFFIC_ROUTING in routing.metadata.finalizers
        if routing.metadata.deleting and not own:
            return None
        if not own and not routing.metadata.deleting:
            await self._set_finalizer(routing, present=True)
            return None
        return await self._advance(routing)

    async def _advance(self, routing: TrafficRouting) -> Requeue | None:
        used = trafficrouting_phases.is_used(routing.metadata.finalizers)
        deleting, phase = routing.metadata.deleting, routing.status.phase
        action = trafficrouting_phases.decide(phase, used=used, deleting=deleting)
        request = traffic_request(routing)
        result = DONE if action is None else await actions.perform(self.traffic, action, request)
        self._emit(routing, result)
        following = trafficrouting_phases.decide_after(phase, result, used=used, deleting=deleting)
        if result.grace_times is not None and dict(result.grace_times) != dict(request.grace_times):
            await self._store_grace_times(routing, result.grace_times)
        await self._store_status(routing, following)
        if following.released:
            await self._set_finalizer(routing, present=False)
            return None
        # A stored time or a new phase comes back as an event. Nothing announces the end of a grace period, nor routes
        # that another client changes.
        match result:
            case Done():
                return Requeue(after=rollout_labels.LOOK_SECONDS) if isinstance(action, RouteStep) else None
            case Waiting(seconds=seconds):
                return Requeue(after=max(seconds, 0.01))
            case Problem():
                return Requeue(after=rollout_labels.RECHECK)

    def _emit(self, routing: TrafficRouting, result: ActionResult) -> None:
        events = result.events
        if isinstance(result, Problem):
            events = (*events, messages.traffic_routing_failed(result.text))
        metadata = routing.metadata
        about = ObjectReference(
            TRAFFIC_ROUTINGS.kind, TRAFFIC_ROUTINGS.api_version, metadata.name, metadata.namespace, metadata.uid
        )
        for event in events:
            self.recorder.event(about, "Warning" if event.warning else "Normal", event.reason, event.message)

    # Writing

    async def _set_finalizer(self, routing: TrafficRouting, *, present: bool) -> None:
        """Read anew and locked: a Rollout may be adding or removing its own at the same moment."""
        fresh = await self.client.find(TRAFFIC_ROUTINGS, routing.metadata.name, routing.metadata.namespace)
        if fresh is None:
            return
        names = fresh["metadata"].get("finalizers") or []
        others = [name for name in names if name != rollout_labels.TRAFFIC_ROUTING]
        patch: JsonObject = {
            "metadata": {"finalizers": [*others, rollout_labels.TRAFFIC_ROUTING] if present else others}
        }
        await self._patch(routing, locked(patch, fresh["metadata"]["resourceVersion"]))

    async def _store_grace_times(self, routing: TrafficRouting, times: Mapping[str, str]) -> None:
        text = msgspec.json.encode(dict(times)).decode() if times else None
        await self._patch(routing, {"metadata": {"annotations": {GRACE_TIMES: text}}})

    async def _store_status(self, routing: TrafficRouting, following: TrafficRoutingDecision) -> None:
        status = TrafficRoutingStatus(routing.metadata.generation, following.phase, following.message)
        if status != routing.status:
            await self._patch(routing, {"status": msgspec.to_builtins(status)}, "status")

    async def _patch(self, routing: TrafficRouting, body: JsonObject, subresource: str = "") -> None:
        metadata = routing.metadata
        try:
            await self.client.patch(TRAFFIC_ROUTINGS, metadata.name, metadata.namespace, body, subresource=subresource)
        except NotFound:
            return
