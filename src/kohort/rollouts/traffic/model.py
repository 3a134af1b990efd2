"""Requests to change traffic, and the interface that carries them out.

The decisions about a release know steps, revisions and phases; this side knows Services, Ingresses, HTTPRoutes and
custom network objects. Between them stands `Traffic`: one operation per thing that a step or a finalising step wants.
An operation looks at the cluster, does at most what is still missing, and returns an `ActionResult`. Operations are
idempotent: after a crash at any point, calling again continues.

**Grace periods survive a restart.** Proxies need time to see a change. The time of a change is therefore not kept in
memory but in the *grace times*: a map from a kind of change to a time stamp that the caller stores in the status of its
object. The time is stored *before* the change is made, since a crash in between would otherwise lose the grace period:

| change still needed | stored time             | pace                                                          |
|---------------------|-------------------------|---------------------------------------------------------------|
| yes                 | none, or not fresh      | `RECORD_TIME`: return the time to store, change nothing       |
| yes                 | fresh                   | `CHANGE`: make it, store the time again, wait for the grace period |
| no                  | younger than the grace  | `WAIT` for the rest                                           |
| no                  | older, or none          | `FINISHED`, the time is dropped                               |

With a grace period of 0 no time is stored: `CHANGE`, then `FINISHED`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, Protocol

import msgspec
from msgspec import field

from kohort.objects.json_types import JsonObject
from kohort.objects.view import View
from kohort.rollouts.action_result import ActionResult
from kohort.rollouts.reference_problems import Reference, RefField, RefList

DEFAULT_GRACE: Final = 3
FRESH_SECONDS: Final = 5.0
"""A time is stored before its change and may be as old as one slow round trip; an older one is stored anew."""
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

# Steps


class HeaderMatch(View, frozen=True):
    name: str
    value: str = ""
    type: str = "Exact"


class QueryParamMatch(View, frozen=True):
    name: str
    value: str = ""
    type: str = "Exact"


class PathMatch(View, frozen=True):
    type: str = "PathPrefix"
    value: str = "/"


class Match(View, frozen=True):
    """All parts must hold; of several matches, any."""

    path: PathMatch | None = None
    headers: tuple[HeaderMatch, ...] = ()
    query_params: tuple[QueryParamMatch, ...] = ()


class Header(View, frozen=True):
    name: str
    value: str = ""


class HeaderModifier(View, frozen=True):
    set: tuple[Header, ...] = ()
    add: tuple[Header, ...] = ()
    remove: tuple[str, ...] = ()


class TrafficStep(msgspec.Struct, frozen=True):
    """What one step wants of traffic. `weight` is the canary's percentage, None when the step names none."""

    weight: int | None = None
    matches: tuple[Match, ...] = ()
    header_modifier: HeaderModifier | None = None

    @property
    def routes(self) -> bool:
        return self.weight is not None or bool(self.matches)

    @property
    def serves_canary(self) -> bool:
        """Whether requests go to the canary."""
        return bool(self.weight or self.matches)


# References: one element of trafficRoutings


class IngressRef(View, frozen=True):
    name: str = ""
    class_type: str = "nginx"


class GatewayRef(View, frozen=True):
    http_route_name: str | None = field(default=None, name="httpRouteName")


class NetworkRef(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class RouteRef(View, frozen=True):
    """Which Service, and which objects route to it. Any combination of the three; all are driven."""

    service: str = ""
    grace_period_seconds: int = DEFAULT_GRACE
    ingress: IngressRef | None = None
    gateway: GatewayRef | None = None
    custom_network_refs: tuple[NetworkRef, ...] = ()
    drain_timeout_seconds: int = 0
    """How long requests in flight are waited for, before pods that served are deleted."""


def routing_grace(refs: tuple[RouteRef, ...]) -> int:
    """Seconds between changes while a step routes: no route may be changed without a pause."""
    return max((ref.grace_period_seconds if ref.grace_period_seconds > 0 else DEFAULT_GRACE for ref in refs), default=0)


def finalising_grace(refs: tuple[RouteRef, ...]) -> int:
    """Seconds between changes while a release ends: zero is the user's word for not waiting."""
    return max(
        (ref.grace_period_seconds if ref.grace_period_seconds >= 0 else DEFAULT_GRACE for ref in refs), default=0
    )


# Requests


class ServingPods(msgspec.Struct, frozen=True):
    """The pods of a workload that requests should reach: of groups, their leaders."""

    workload: str
    """Kind and name, for messages."""
    labels: Mapping[str, str]
    """What they all carry, by the workload's template."""
    other_keys: frozenset[str] = frozenset()
    """Keys that they carry with values of their own."""
    identity: Mapping[str, str] = NOTHING
    """By which such a pod is known, whatever else has been put on it."""


class Selectors(msgspec.Struct, frozen=True):
    """How pods of the two versions are told apart by a Service.

    `pinned` are selector keys of the canary Service that are asserted on every pass besides the revision; for groups
    they say "leaders of the canary set". `patched` are labels of patchPodTemplateMetadata: they replace keys that the
    stable selector has; otherwise they are added only where that was asked for.
    """

    revision_key: str
    stable_revision: str = ""
    canary_revision: str = ""
    pinned: Mapping[str, str] = NOTHING
    patched: Mapping[str, str] = NOTHING
    appends: bool = False
    """Whether patched labels are added where the stable selector lacks their keys."""


class TrafficRequest(msgspec.Struct, frozen=True):
    """Everything that an operation on traffic needs to know; nothing is remembered between two of them."""

    namespace: str
    owner: JsonObject
    """The object that routes: apiVersion, kind, name and uid, as an owner reference (controller=true). New objects
    belong to it, events are about it."""
    refs: tuple[RouteRef, ...]
    step: TrafficStep = TrafficStep()
    selectors: Selectors = Selectors("")
    generates_canary_service: bool = True
    """False with disableGenerateCanaryService: routes tell subsets of the stable Service apart."""
    only_traffic: bool = False
    """A TrafficRouting object: no Service is created or changed."""
    serving: ServingPods | None = None
    """The pods that the stable Service should select, where the workload exists."""
    since: datetime | None = None
    """Since when the step is as it is (the sub-status' lastUpdateTime): routing begins a grace period later."""
    grace_times: Mapping[str, str] = NOTHING
    """When which change was last made, as stored."""

    @property
    def ref_list(self) -> RefList:
        """Where the object that routes has its references."""
        return RefList.OF_TRAFFIC_ROUTING if self.only_traffic else RefList.OF_ROLLOUT

    def reference(self, kind: str, name: str, field: RefField) -> Reference:
        return Reference(kind, self.namespace, name, self.ref_list, field)

    def canary_service(self, ref: RouteRef) -> str:
        shared = self.only_traffic or not self.generates_canary_service
        return ref.service if shared else f"{ref.service}-canary"


# Operations


class Traffic(Protocol):
    """Every operation may be called with no refs: nothing to do, `Done`."""

    async def check(self, request: TrafficRequest) -> ActionResult:
        """Whether the Service and every object that `refs` names exist and can be used. Changes nothing. A `Problem`
        names all that are missing. Warnings (a Service that also selects workers, a port that no leader has) are
        events."""
        ...

    async def pin_stable(self, request: TrafficRequest) -> ActionResult:
        """Let the stable Service select `revision_key: stable_revision` only, and record in its annotation
        `rollouts.kruise.io/added-selector` what was added. Waits for the grace period after a change."""
        ...

    async def route(self, request: TrafficRequest) -> ActionResult:
        """Route as the step says: not before `since` plus grace; canary Service with the selector that `selectors`
        says; pin; then the providers. `Done` only when a whole call changed nothing. A weight above 0 or a match is
        set only while the canary Service has a ready endpoint. A step that routes nothing is `Done`."""
        ...

    async def find_drift(self, request: TrafficRequest) -> str:
        """What other clients have changed since `route` was done, as what would have to be written; empty when nothing.
        While the canary has no ready endpoint, nothing is missing: it would not be routed to now."""
        ...

    async def route_all_to_new(self, request: TrafficRequest) -> ActionResult:
        """Route everything to the canary Service: no matches, weight 100. Waits for the grace period after a change,
        then for requests that are in flight to stable pods. An object that no longer exists is not an obstacle."""
        ...

    async def route_all_to_stable(self, request: TrafficRequest) -> ActionResult:
        """Put the routes back as they were before the release, byte for byte: delete the canary Ingress, restore the
        HTTPRoute and custom objects. Waits for the grace period after a change, then for requests that are in flight to
        canary pods. An object that no longer exists is not an obstacle."""
        ...

    async def unpin_stable(self, request: TrafficRequest) -> ActionResult:
        """Remove the pin from the stable Service, even where `selectors` is empty because the workload is gone: the
        Service's annotation says what was added. Waits for the grace period after a change."""
        ...

    async def remove_canary_service(self, request: TrafficRequest) -> ActionResult:
        """Delete the canary Service. Waits for the grace period after a change."""
        ...


# Pace


class Pace(Enum):
    """What may happen now, by the table at the head of this module."""

    RECORD_TIME = auto()
    CHANGE = auto()
    WAIT = auto()
    FINISHED = auto()


def pace(*, needed: bool, changed_at: str | None, now: datetime, grace: float) -> tuple[Pace, float]:
    """What may happen now, and how many seconds to wait."""
    if grace <= 0:
        return (Pace.CHANGE if needed else Pace.FINISHED), 0.0
    age = None if changed_at is None else (now - datetime.fromisoformat(changed_at)).total_seconds()
    if needed:
        # A time in the future is a clock that was set back; it must not stop the change for ever.
        fresh = age is not None and abs(age) <= FRESH_SECONDS
        return (Pace.CHANGE if fresh else Pace.RECORD_TIME), 0.0
    if age is None or age >= grace:
        return Pace.FINISHED, 0.0
    return Pace.WAIT, min(grace - age, grace)
