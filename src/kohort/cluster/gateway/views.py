"""Typed views of GatewayClasses, Gateways and HTTPRoutes."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

import msgspec

from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta, Selector
from kohort.objects.view import View

GROUP = "gateway.networking.k8s.io"
GATEWAY_CLASSES = Resource(GROUP, "v1", "gatewayclasses", "GatewayClass", namespaced=False)
CONTROLLER = "kohort.dev/gateway"
GATEWAYS = Resource(GROUP, "v1", "gateways", "Gateway")
REFERENCE_GRANTS = Resource(GROUP, "v1", "referencegrants", "ReferenceGrant")
REFERENCE_GRANTS_V1BETA1 = Resource(GROUP, "v1beta1", "referencegrants", "ReferenceGrant")


class HeaderValue(View, frozen=True):
    name: str = ""
    value: str = ""


class HeaderFilter(View, frozen=True):
    set: tuple[HeaderValue, ...] = ()
    add: tuple[HeaderValue, ...] = ()
    remove: tuple[str, ...] = ()


class PathModifier(View, frozen=True):
    type: str = ""
    replace_full_path: str | None = None
    replace_prefix_match: str | None = None


class RedirectFilter(View, frozen=True):
    scheme: str = ""
    hostname: str = ""
    path: PathModifier | None = None
    port: int = 0
    status_code: int = 302


class RewriteFilter(View, frozen=True):
    hostname: str = ""
    path: PathModifier | None = None


class Filter(View, frozen=True):
    type: str = ""
    request_header_modifier: HeaderFilter | None = None
    response_header_modifier: HeaderFilter | None = None
    request_redirect: RedirectFilter | None = None
    url_rewrite: RewriteFilter | None = None

    @property
    def served(self) -> bool:
        return self.changes_headers or self.request_redirect is not None or self.url_rewrite is not None

    @property
    def changes_headers(self) -> bool:
        return self.request_header_modifier is not None or self.response_header_modifier is not None


class BackendRef(View, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = "Service"
    namespace: str | None = None
    port: int | None = None
    weight: int = 1
    filters: tuple[Filter, ...] = ()


class ValueMatch(View, frozen=True):
    name: str = ""
    value: str = ""
    type: str = "Exact"


class PathMatch(View, frozen=True):
    type: str = "PathPrefix"
    value: str = "/"


class RouteMatch(View, frozen=True):
    path: PathMatch = PathMatch()
    method: str = ""
    headers: tuple[ValueMatch, ...] = ()
    query_params: tuple[ValueMatch, ...] = ()


class RouteTimeouts(View, frozen=True):
    request: str = ""
    backend_request: str = ""


class RouteRule(View, frozen=True):
    matches: tuple[RouteMatch, ...] = ()
    filters: tuple[Filter, ...] = ()
    backend_refs: tuple[BackendRef, ...] = ()
    timeouts: RouteTimeouts = RouteTimeouts()


class ParentRef(View, frozen=True):
    name: str = ""
    group: str = GROUP
    kind: str = "Gateway"
    namespace: str | None = None
    section_name: str = ""
    port: int | None = None


class HTTPRouteSpec(View, frozen=True):
    parent_refs: tuple[ParentRef, ...] = ()
    hostnames: tuple[str, ...] = ()
    rules: tuple[RouteRule, ...] = ()


class HTTPRoute(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: HTTPRouteSpec = HTTPRouteSpec()
    status: JsonObject = {}


class RouteNamespaces(View, frozen=True):
    from_: str = msgspec.field(default="Same", name="from")
    selector: Selector | None = None


class RouteKind(View, frozen=True):
    kind: str = ""
    group: str = GROUP


class AllowedRoutes(View, frozen=True):
    namespaces: RouteNamespaces = RouteNamespaces()
    kinds: tuple[RouteKind, ...] = ()


class CertificateRef(View, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = "Secret"
    namespace: str | None = None


class ListenerTls(View, frozen=True):
    mode: str = "Terminate"
    certificate_refs: tuple[CertificateRef, ...] = ()


class Listener(View, frozen=True):
    name: str = ""
    hostname: str = ""
    port: int = 0
    protocol: str = "HTTP"
    tls: ListenerTls = ListenerTls()
    allowed_routes: AllowedRoutes = AllowedRoutes()

    @property
    def secure(self) -> bool:
        return self.protocol == "HTTPS"

    @property
    def certificates(self) -> tuple[CertificateRef, ...]:
        """The certificates that it presents to clients."""
        return self.tls.certificate_refs if self.secure and self.tls.mode == "Terminate" else ()


class GatewaySpec(View, frozen=True):
    gateway_class_name: str = ""
    listeners: tuple[Listener, ...] = ()


class Gateway(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: GatewaySpec = GatewaySpec()
    status: JsonObject = {}


class GatewayClassSpec(View, frozen=True):
    controller_name: str = ""


class GatewayClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: GatewayClassSpec = GatewayClassSpec()
    status: JsonObject = {}


class GrantFrom(View, frozen=True):
    group: str = ""
    kind: str = ""
    namespace: str = ""


class GrantTo(View, frozen=True):
    group: str = ""
    kind: str = ""
    name: str | None = None


class ReferenceGrantSpec(View, frozen=True):
    from_: tuple[GrantFrom, ...] = msgspec.field(default=(), name="from")
    to: tuple[GrantTo, ...] = ()


class ReferenceGrant(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReferenceGrantSpec = ReferenceGrantSpec()
