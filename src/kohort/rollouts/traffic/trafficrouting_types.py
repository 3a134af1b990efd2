"""Typed views of TrafficRoutings."""

from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View
from kohort.rollouts.traffic.model import HeaderModifier, Match, RouteRef
from kohort.rules import rollout_labels


class TrafficRoutingStrategy(View, frozen=True):
    weight: int | None = None
    matches: tuple[Match, ...] = ()
    request_header_modifier: HeaderModifier | None = None


class TrafficRoutingSpec(View, frozen=True):
    object_ref: tuple[RouteRef, ...] = ()
    strategy: TrafficRoutingStrategy = TrafficRoutingStrategy()


class TrafficRoutingStatus(View, frozen=True):
    observed_generation: int = 0
    phase: str = ""
    message: str = ""


class TrafficRouting(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: TrafficRoutingSpec = TrafficRoutingSpec()
    status: TrafficRoutingStatus = TrafficRoutingStatus()

    def is_ending(self) -> bool:
        """Its routes are being restored, so that no Rollout can begin to use it."""
        return self.metadata.deleting or self.status.phase in ("Finalizing", "Terminating")

    def is_used_by(self, rollout: str) -> bool:
        return rollout_labels.PROGRESSING_FINALIZER + rollout in self.metadata.finalizers
