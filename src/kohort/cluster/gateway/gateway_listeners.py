"""What each listener of a Gateway serves, and why it does not serve more. Pure.

| found                                                        | condition                                          |
|--------------------------------------------------------------|----------------------------------------------------|
| a protocol other than HTTP and HTTPS                         | Accepted: False, UnsupportedProtocol               |
| HTTP and HTTPS on one port                                   | Conflicted: True, ProtocolConflict                 |
| two listeners with one port and one hostname                 | Conflicted: True, HostnameConflict                 |
| allowedRoutes.kinds names a kind other than HTTPRoute        | ResolvedRefs: False, InvalidRouteKinds             |
| a certificate in another namespace without a ReferenceGrant  | ResolvedRefs: False, RefNotPermitted               |
| a certificate that is not there or not valid                 | ResolvedRefs: False, InvalidCertificateRef         |

Routes attach to a listener that is accepted, even while its references are not resolved.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

import msgspec

from kohort.cluster.gateway.reference_grants import Referrer, is_permitted
from kohort.cluster.gateway.views import GROUP, CertificateRef, Gateway, Listener, ReferenceGrant, RouteKind
from kohort.kube.resources import Key

PROTOCOLS: Final = ("HTTP", "HTTPS")
ROUTE_KIND: Final = "HTTPRoute"
NO_LABELS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({})


class ListenerReason(Enum):
    """Reasons of conditions, as the Gateway API names them."""

    UNSUPPORTED_PROTOCOL = "UnsupportedProtocol"
    PROTOCOL_CONFLICT = "ProtocolConflict"
    HOSTNAME_CONFLICT = "HostnameConflict"
    INVALID_ROUTE_KINDS = "InvalidRouteKinds"
    INVALID_CERTIFICATE = "InvalidCertificateRef"
    NOT_PERMITTED = "RefNotPermitted"


class ListenerProblem(msgspec.Struct, frozen=True):
    reason: ListenerReason
    message: str

    @property
    def is_conflict(self) -> bool:
        return self.reason in (ListenerReason.PROTOCOL_CONFLICT, ListenerReason.HOSTNAME_CONFLICT)


def refusal(gateway: Gateway, listener: Listener) -> ListenerProblem | None:
    """Why a listener takes no routes at all."""
    if listener.protocol not in PROTOCOLS:
        text = f"protocol {listener.protocol} is not served; use HTTP or HTTPS"
        return ListenerProblem(ListenerReason.UNSUPPORTED_PROTOCOL, text)
    for other in gateway.spec.listeners:
        if other.name == listener.name or other.port != listener.port or other.protocol not in PROTOCOLS:
            continue
        if other.protocol != listener.protocol:
            text = f"listener {other.name} has protocol {other.protocol} on the same port {other.port}"
            return ListenerProblem(ListenerReason.PROTOCOL_CONFLICT, text)
        if other.hostname.lower() == listener.hostname.lower():
            text = f"listener {other.name} has the same hostname on the same port {other.port}"
            return ListenerProblem(ListenerReason.HOSTNAME_CONFLICT, text)
    return None


def takes_routes(listener: Listener) -> bool:
    """Whether HTTPRoutes are among the kinds that it allows."""
    kinds = listener.allowed_routes.kinds
    return listener.protocol in PROTOCOLS and (not kinds or any(map(_is_route, kinds)))


def _is_route(kind: RouteKind) -> bool:
    return (kind.group, kind.kind) == (GROUP, ROUTE_KIND)


def admits(listener: Listener, own: str, namespace: str, labels: Mapping[str, Mapping[str, str]] = NO_LABELS) -> bool:
    """Whether a Gateway in the namespace `own` takes routes of `namespace`; `labels` are those of all namespaces."""
    allowed = listener.allowed_routes.namespaces
    match allowed.from_:
        case "All":
            return True
        case "Same":
            return own == namespace
        case "Selector" if allowed.selector is not None:
            return allowed.selector.compiled().matches(labels.get(namespace, {}))
    return False


def certificate_key(gateway: Gateway, ref: CertificateRef) -> Key:
    return Key(ref.namespace or gateway.metadata.namespace, ref.name)


def unresolved(
    gateway: Gateway, listener: Listener, grants: Iterable[ReferenceGrant], wrong: Mapping[Key, str]
) -> ListenerProblem | None:
    """What a listener refers to and cannot have; `wrong` says by Secret what is wrong with it."""
    strange = [one.kind for one in listener.allowed_routes.kinds if not _is_route(one)]
    if strange:
        text = f"allowedRoutes.kinds names {', '.join(strange)}; only HTTPRoute is served"
        return ListenerProblem(ListenerReason.INVALID_ROUTE_KINDS, text)
    if not listener.secure:
        return None
    if not listener.certificates:
        text = "tls.mode must be Terminate, and tls.certificateRefs name a Secret"
        return ListenerProblem(ListenerReason.INVALID_CERTIFICATE, text)
    for ref in listener.certificates:
        key = certificate_key(gateway, ref)
        if ref.kind != "Secret" or ref.group:
            text = f"certificateRef {ref.name} is a {ref.kind} of group {ref.group!r}; name a Secret"
            return ListenerProblem(ListenerReason.INVALID_CERTIFICATE, text)
        if not may_use(gateway, ref, grants):
            text = f"certificateRef {ref.name} is in namespace {key.namespace}, which has no ReferenceGrant for it"
            return ListenerProblem(ListenerReason.NOT_PERMITTED, text)
        if problem := wrong.get(key):
            return ListenerProblem(ListenerReason.INVALID_CERTIFICATE, problem)
    return None


def may_use(gateway: Gateway, ref: CertificateRef, grants: Iterable[ReferenceGrant]) -> bool:
    referrer = Referrer("Gateway", gateway.metadata.namespace)
    return is_permitted(referrer, "Secret", certificate_key(gateway, ref), grants)
