"""Whether the server behind an APIService can be asked, as far as the objects of the cluster say.

| found | reason |
|---|---|
| no such Service | ServiceNotFound |
| a ClusterIP Service without that port | ServicePortError |
| no EndpointSlice of the Service | EndpointsNotFound |
| no ready address behind the port | MissingEndpoints |
| discovery does not answer (asked by `registry`) | FailedDiscoveryCheck |
| none of these | Passed |
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from kohort.objects.json_types import JsonObject

AVAILABLE = "Available"


class Reason(StrEnum):
    PASSED = "Passed"
    SERVICE_NOT_FOUND = "ServiceNotFound"
    SERVICE_PORT_ERROR = "ServicePortError"
    ENDPOINTS_NOT_FOUND = "EndpointsNotFound"
    MISSING_ENDPOINTS = "MissingEndpoints"
    FAILED_DISCOVERY_CHECK = "FailedDiscoveryCheck"


class Availability(msgspec.Struct, frozen=True):
    reason: Reason
    message: str

    @property
    def is_available(self) -> bool:
        return self.reason is Reason.PASSED


PASSED = Availability(Reason.PASSED, "all checks passed")


class ServiceReference(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f'service/{self.name} in "{self.namespace}"'


def judge_service(
    wanted: ServiceReference, service: JsonObject | None, slices: Sequence[JsonObject]
) -> Availability | None:
    """Why the server cannot be reached; None when only a request can show it. `slices` are those of the Service."""
    if service is None:
        return Availability(Reason.SERVICE_NOT_FOUND, f"{wanted} is not present")
    spec = service.get("spec") or {}
    if (spec.get("type") or "ClusterIP") != "ClusterIP":
        return None
    port = next((one for one in spec.get("ports") or () if one.get("port") == wanted.port), None)
    if port is None:
        return Availability(Reason.SERVICE_PORT_ERROR, f"{wanted} is not listening on port {wanted.port}")
    if not slices:
        return Availability(Reason.ENDPOINTS_NOT_FOUND, f"cannot find endpointslices for {wanted}")
    name = port.get("name") or ""
    if not any(_leads_somewhere(one, name) for one in slices):
        words = f'endpointslices for {wanted} have no addresses with port name "{name}"'
        return Availability(Reason.MISSING_ENDPOINTS, words)
    return None


def _leads_somewhere(endpoint_slice: JsonObject, port: str) -> bool:
    has_port = any((one.get("name") or "") == port for one in endpoint_slice.get("ports") or ())
    return has_port and any(
        (endpoint.get("conditions") or {}).get("ready") is not False and endpoint.get("addresses")
        for endpoint in endpoint_slice.get("endpoints") or ()
    )


def with_condition(conditions: Sequence[JsonObject], found: Availability, now: str) -> list[JsonObject]:
    """The conditions of an APIService after a check; those of other types stay, as does the time of no change."""
    status = "True" if found.is_available else "False"
    fresh: JsonObject = {
        "type": AVAILABLE,
        "status": status,
        "lastTransitionTime": now,
        "reason": str(found.reason),
        "message": found.message,
    }
    known = next((one for one in conditions if one.get("type") == AVAILABLE), None)
    if known is None:
        return [*conditions, fresh]
    if known.get("status") == status:
        fresh["lastTransitionTime"] = known.get("lastTransitionTime") or now
    return [fresh if one is known else one for one in conditions]
