"""Why an object that a Rollout or a TrafficRouting names cannot carry its traffic. `messages` has the words."""

from enum import StrEnum

import msgspec


class RefList(StrEnum):
    """The field with references to Services and routes."""

    OF_ROLLOUT = "trafficRoutings"
    OF_TRAFFIC_ROUTING = "objectRef"


class RefField(StrEnum):
    """The field of one reference that names an object."""

    SERVICE = "service"
    INGRESS = "ingress.name"
    HTTP_ROUTE = "gateway.httpRouteName"
    CUSTOM = "customNetworkRefs"


class Reference(msgspec.Struct, frozen=True):
    """An object that is named, and where. Validation allows one element in the list."""

    kind: str
    namespace: str
    name: str
    list: RefList
    field: RefField


class ServiceNotNamed(msgspec.Struct, frozen=True):
    list: RefList


class ObjectMissing(msgspec.Struct, frozen=True):
    reference: Reference


class KindNotServed(msgspec.Struct, frozen=True):
    reference: Reference
    api_version: str


class ScriptMissing(msgspec.Struct, frozen=True):
    reference: Reference
    place: str
    key: str


class HeadlessService(msgspec.Struct, frozen=True):
    reference: Reference


class NoSelector(msgspec.Struct, frozen=True):
    reference: Reference


class OwnedByGroupSet(msgspec.Struct, frozen=True):
    reference: Reference
    group_set: str


class NoBackend(msgspec.Struct, frozen=True):
    """A route without any rule for the Service."""

    reference: Reference
    service: str


class SelectsNoPod(msgspec.Struct, frozen=True):
    reference: Reference
    workload: str
    wanted: str
    """Labels that the selector asks for, and the pods do not have."""
    found: str
    """Labels of the pods."""


ReferenceProblem = (
    ServiceNotNamed
    | ObjectMissing
    | KindNotServed
    | ScriptMissing
    | HeadlessService
    | NoSelector
    | OwnedByGroupSet
    | NoBackend
    | SelectsNoPod
)
