"""The reconciler of TrafficRouting objects: routes that Rollouts share, changed without touching any Service."""

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
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View
from kohort.rollouts.release_events import recorder
from kohort.rollouts.traffic import trafficrouting_phases
from kohort.rollouts.traffic.annotations import MARKS
from kohort.rollouts.traffic.model import Answer, Asking, HeaderModifier, Match, Note, RouteRef, Traffic, TrafficStep
from kohort.rules import rollout_labels


class Strategy(View, frozen=True):
    weight: int | None = None
    matches: tuple[Match, ...] = ()
    request_header_modifier: HeaderModifier | None = None


class Spec(View, frozen=True):
    object_ref: tuple[RouteRef, ...] = ()
    strategy: Strategy = Strategy()


class Status(View, frozen=True):
    observed_generation: int = 0
    phase: str = ""
    message: str = ""


class TrafficRouting(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()
    status: Status = Status()


def asking_of(routing: TrafficRouting) -> Asking:
    metadata, strategy = routing.metadata, routing.spec.strategy
    return Asking(
        namespace=metadata.namespace,
        owner=owner_reference(TRAFFIC_ROUTINGS, metadata.name, metadata.uid),
        refs=routing.spec.object_ref,
        step=TrafficStep(strategy.weight, strategy.matches, strategy.request_header_modifier),
        only_traffic=True,
        marks=_marks(metadata.annotations.get(MARKS)),
    )


def _marks(text: str | None) -> dict[str, str]:
    """Unreadable marks are none: a grace period begins anew, which is the safe side."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}


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
        action = trafficrouting_phases.action(phase, used=used, deleting=deleting)
        asking = asking_of(routing)
        answer = await self._perform(action, asking)
        self._tell(routing, answer)
        following = trafficrouting_phases.after(phase, answer, used=used, deleting=deleting)
        if dict(answer.marks) != dict(asking.marks):
            await self._store_marks(routing, answer)
        await self._store_status(routing, following)
        if following.released:
            await self._set_finalizer(routing, present=False)
            return None
        # With marks just stored, or a new phase, an event brings us back; a time that must pass does not, nor does
        # somebody else who changes the routes.
        if answer.done:
            return Requeue(after=rollout_labels.LOOK_SECONDS) if action == "route" else None
        return Requeue(after=max(answer.seconds, 0.01))

    async def _perform(self, action: trafficrouting_phases.Action, asking: Asking) -> Answer:
        if action == "check":
            return await self.traffic.check(asking)
        if action == "route":
            return await self.traffic.route(asking)
        if action == "restore":
            return await self.traffic.route_all_to_stable(asking)
        return Answer("done", marks=asking.marks)

    def _tell(self, routing: TrafficRouting, answer: Answer) -> None:
        notes = answer.notes
        if answer.state == "problem":
            notes = (*notes, Note("TrafficRoutingFailed", answer.text, warning=True))
        metadata = routing.metadata
        about = ObjectReference(
            TRAFFIC_ROUTINGS.kind, TRAFFIC_ROUTINGS.api_version, metadata.name, metadata.namespace, metadata.uid
        )
        for note in notes:
            self.recorder.event(about, "Warning" if note.warning else "Normal", note.reason, note.message)

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

    async def _store_marks(self, routing: TrafficRouting, answer: Answer) -> None:
        text = msgspec.json.encode(dict(answer.marks)).decode() if answer.marks else None
        await self._patch(routing, {"metadata": {"annotations": {MARKS: text}}})

    async def _store_status(self, routing: TrafficRouting, following: trafficrouting_phases.Next) -> None:
        status = Status(routing.metadata.generation, following.phase, following.message)
        if status != routing.status:
            await self._patch(routing, {"status": msgspec.to_builtins(status)}, "status")

    async def _patch(self, routing: TrafficRouting, body: JsonObject, subresource: str = "") -> None:
        metadata = routing.metadata
        try:
            await self.client.patch(TRAFFIC_ROUTINGS, metadata.name, metadata.namespace, body, subresource=subresource)
        except NotFound:
            return
