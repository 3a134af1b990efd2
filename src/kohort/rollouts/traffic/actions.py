"""What a release wants done to Services and routes, as values."""

import msgspec

from kohort.rollouts.action_result import ActionResult
from kohort.rollouts.traffic.model import Traffic, TrafficRequest


class CheckReferences(msgspec.Struct, frozen=True):
    """See that the Services and routes that are named exist and can be used."""


class PinStableService(msgspec.Struct, frozen=True):
    """Let the stable Service select the stable revision only."""


class RouteStep(msgspec.Struct, frozen=True):
    """Route as the current step says."""


class RouteAllToNew(msgspec.Struct, frozen=True):
    """Send every request to the new version."""


class RouteAllToStable(msgspec.Struct, frozen=True):
    """Put the routes back as they were before the release."""


class UnpinStableService(msgspec.Struct, frozen=True):
    """Put the selector of the stable Service back."""


class RemoveCanaryService(msgspec.Struct, frozen=True):
    """Delete the Service of the canary."""


TrafficAction = (
    CheckReferences
    | PinStableService
    | RouteStep
    | RouteAllToNew
    | RouteAllToStable
    | UnpinStableService
    | RemoveCanaryService
)


async def perform(traffic: Traffic, action: TrafficAction, request: TrafficRequest) -> ActionResult:
    match action:
        case CheckReferences():
            return await traffic.check(request)
        case PinStableService():
            return await traffic.pin_stable(request)
        case RouteStep():
            return await traffic.route(request)
        case RouteAllToNew():
            return await traffic.route_all_to_new(request)
        case RouteAllToStable():
            return await traffic.route_all_to_stable(request)
        case UnpinStableService():
            return await traffic.unpin_stable(request)
        case RemoveCanaryService():
            return await traffic.remove_canary_service(request)
