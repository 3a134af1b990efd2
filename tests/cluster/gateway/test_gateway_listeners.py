"""Listeners of Gateways: which routes they take, what is wrong with them, and ports of their own."""

from ipaddress import ip_address

import pytest
from tests.cluster.gateway.plane import GATEWAY, Stage, backend, http_route, stage

from kohort.cluster.gateway import gateway_listeners, gateway_ports, httproutes
from kohort.cluster.gateway.route_table import (
    Backend,
    Facts,
    ListenerTables,
    MisdirectedRequest,
    PathRule,
    RequestMatch,
    Route,
    RouteOrigin,
)
from kohort.cluster.gateway.route_table import RouteTable as Table
from kohort.cluster.gateway.views import (
    GATEWAYS,
    REFERENCE_GRANTS,
    AllowedRoutes,
    BackendRef,
    CertificateRef,
    Gateway,
    GatewaySpec,
    GrantFrom,
    GrantTo,
    HTTPRoute,
    HTTPRouteSpec,
    Listener,
    ListenerTls,
    ReferenceGrant,
    ReferenceGrantSpec,
    RouteKind,
    RouteNamespaces,
    RouteRule,
)
from kohort.kube.resources import HTTP_ROUTES, NAMESPACES, SERVICES, Key
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta, Selector

PORT = 18080
"""Above 1023: opened without any right."""


def gateway(*listeners: Listener) -> Gateway:
    return Gateway(ObjectMeta(name="front", namespace="default"), GatewaySpec("any", listeners))


def refused(*listeners: Listener) -> str:
    found = gateway_listeners.refusal(gateway(*listeners), listeners[0])
    return "" if found is None else found.reason.value


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (refused(Listener("a", port=80)), ""),
        (refused(Listener("a", port=80, protocol="UDP")), "UnsupportedProtocol"),
        (refused(Listener("a", port=80), Listener("b", port=81)), ""),
        (refused(Listener("a", "x", 80), Listener("b", "y", 80)), ""),
        (refused(Listener("a", "x", 80), Listener("b", "X", 80)), "HostnameConflict"),
        (refused(Listener("a", port=80), Listener("b", port=80, protocol="HTTPS")), "ProtocolConflict"),
        (refused(Listener("a", port=80), Listener("b", port=80, protocol="UDP")), ""),
    ],
)
def test_listeners_that_take_no_routes(found: str, reason: str) -> None:
    assert found == reason


@pytest.mark.parametrize(
    ("allowed", "namespace", "expected"),
    [
        (RouteNamespaces("All"), "other", True),
        (RouteNamespaces("Same"), "other", False),
        (RouteNamespaces("Same"), "default", True),
        (RouteNamespaces("None"), "default", False),
        (RouteNamespaces("Selector", Selector({"team": "a"})), "other", True),
        (RouteNamespaces("Selector", Selector({"team": "b"})), "other", False),
        (RouteNamespaces("Selector"), "other", False),
    ],
)
def test_whose_routes_a_listener_takes(allowed: RouteNamespaces, namespace: str, expected: bool) -> None:
    listener = Listener("a", port=80, allowed_routes=AllowedRoutes(allowed))
    assert gateway_listeners.admits(listener, "default", namespace, {"other": {"team": "a"}}) is expected


def kinds(*names: str) -> Listener:
    return Listener("a", port=80, allowed_routes=AllowedRoutes(kinds=tuple(map(RouteKind, names))))


@pytest.mark.parametrize(
    ("listener", "takes", "reason"),
    [
        (kinds(), True, ""),
        (kinds("HTTPRoute"), True, ""),
        (kinds("TCPRoute"), False, "InvalidRouteKinds"),
        (kinds("TCPRoute", "HTTPRoute"), True, "InvalidRouteKinds"),
    ],
)
def test_kinds_of_routes_that_a_listener_names(listener: Listener, takes: bool, reason: str) -> None:
    found = gateway_listeners.unresolved(gateway(listener), listener, (), {})
    assert gateway_listeners.takes_routes(listener) is takes
    assert ("" if found is None else found.reason.value) == reason


def grant(origin: str = "default", kind: str = "Gateway", target: str = "Secret", name: str | None = None) -> object:
    spec = ReferenceGrantSpec((GrantFrom("gateway.networking.k8s.io", kind, origin),), (GrantTo("", target, name),))
    return ReferenceGrant(ObjectMeta(name="g", namespace="certs"), spec)


@pytest.mark.parametrize(
    ("ref", "grants", "wrong", "reason"),
    [
        (CertificateRef("tls"), [], {}, ""),
        (CertificateRef("tls"), [], {Key("default", "tls"): "not there"}, "InvalidCertificateRef"),
        (CertificateRef("tls", kind="ConfigMap"), [], {}, "InvalidCertificateRef"),
        (CertificateRef("tls", namespace="certs"), [], {}, "RefNotPermitted"),
        (CertificateRef("tls", namespace="certs"), [grant()], {}, ""),
        (CertificateRef("tls", namespace="certs"), [grant(name="tls")], {}, ""),
        (CertificateRef("tls", namespace="certs"), [grant(name="other")], {}, "RefNotPermitted"),
        (CertificateRef("tls", namespace="certs"), [grant(origin="else")], {}, "RefNotPermitted"),
        (CertificateRef("tls", namespace="certs"), [grant(kind="HTTPRoute")], {}, "RefNotPermitted"),
        (CertificateRef("tls", namespace="certs"), [grant(target="Service")], {}, "RefNotPermitted"),
        (CertificateRef("tls", namespace="else"), [grant()], {}, "RefNotPermitted"),
    ],
)
def test_certificates_that_a_listener_refers_to(
    ref: CertificateRef, grants: list[ReferenceGrant], wrong: dict[Key, str], reason: str
) -> None:
    listener = Listener("a", port=443, protocol="HTTPS", tls=ListenerTls(certificate_refs=(ref,)))
    found = gateway_listeners.unresolved(gateway(listener), listener, grants, wrong)
    assert ("" if found is None else found.reason.value) == reason


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        (BackendRef("llm", port=80), ""),
        (BackendRef("llm", port=81), "BackendNotFound"),
        (BackendRef("other", port=80), "BackendNotFound"),
        (BackendRef("llm", kind="Pod", port=80), "InvalidKind"),
        (BackendRef("llm", namespace="certs", port=80), "RefNotPermitted"),
    ],
)
def test_backends_that_a_route_refers_to(ref: BackendRef, reason: str) -> None:
    spec = HTTPRouteSpec(rules=(RouteRule(backend_refs=(ref,)),))
    route = HTTPRoute(ObjectMeta(name="r", namespace="default"), spec)
    found = httproutes.unresolved(route, (), {Key("default", "llm"): (80,)}.get)
    assert ("" if found is None else found.reason.value) == reason


def table(name: str) -> Table:
    return Table([Route(RequestMatch(PathRule("Prefix", "/")), [Backend("default", name, 80)], RouteOrigin(name))])


@pytest.mark.parametrize(
    ("host", "server_name", "expected"),
    [
        ("a.example", "", "exact"),
        ("b.example", "", "wild"),
        ("x.b.example", "", "wild"),
        ("example", "", "any"),
        ("b.example", "c.example", "wild"),
        ("a.example", "b.example", "misdirected"),
        ("example", "other", "any"),
    ],
)
def test_a_request_belongs_to_the_most_specific_listener(host: str, server_name: str, expected: str) -> None:
    tables = ListenerTables({"": table("any"), "*.Example": table("wild"), "a.example": table("exact")})
    try:
        found = tables.find(Facts(host, "/", server_name=server_name))
        assert found is not None and found.name == expected
    except MisdirectedRequest:
        assert expected == "misdirected"


def test_a_host_of_no_listener_meets_no_route() -> None:
    assert ListenerTables({"a.example": table("exact")}).find(Facts("b.example", "/")) is None


def test_an_address_stays_and_others_depend_on_the_name() -> None:
    one, other = Key("default", "one"), Key("default", "other")
    assert next(gateway_ports.candidates(one, "127.8.0.5")) == "127.8.0.5"
    assert next(gateway_ports.candidates(one, "127.0.0.1")) == next(gateway_ports.candidates(one))
    assert next(gateway_ports.candidates(one)) != next(gateway_ports.candidates(other))
    found = list(gateway_ports.candidates(one))
    assert len({*found}) == len(found) and all(ip_address(each) in gateway_ports.ADDRESSES for each in found)


# In a cluster


def front(*listeners: JsonObject, name: str = "front") -> JsonObject:
    spec = {"gatewayClassName": "kohort", "listeners": list(listeners)}
    return {**GATEWAY, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def http(name: str = "http", port: int = PORT, **more: object) -> JsonObject:
    return {"name": name, "port": port, "protocol": "HTTP", **more}


def status(scene: Stage, name: str = "front") -> JsonObject:
    return (scene.cluster.find(GATEWAYS, name, "default") or {}).get("status") or {}


async def address(scene: Stage, name: str = "front") -> str:
    def found() -> str:
        return str((status(scene, name).get("addresses") or [{"value": ""}])[0]["value"])

    await scene.cluster.until(lambda: found().startswith("127.") and found() != "127.0.0.1")
    return found()


async def asked(scene: Stage, url: str, **headers: str) -> tuple[int, str]:
    async with scene.http.get(url, headers=headers, allow_redirects=False) as answer:
        return answer.status, answer.headers.get("location", "") or await answer.text()


async def test_gateways_have_addresses_of_their_own_and_serve_their_own_routes() -> None:
    async with stage("stable", "other") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, front(http()))
        await client.create(GATEWAYS, front(http(), name="back"))
        await client.create(HTTP_ROUTES, http_route({"backendRefs": [backend("llm")]}))
        one, other = await address(scene), await address(scene, "back")
        assert one != other
        await scene.cluster.until(lambda: status(scene)["listeners"][0]["attachedRoutes"] == 1)
        assert await asked(scene, f"http://{one}:{PORT}/") == (200, "stable")
        assert (await asked(scene, f"http://{other}:{PORT}/"))[0] == 404
        # A listener more, and one less: ports follow.
        change = {"spec": {"listeners": [http(port=PORT + 1)]}}
        await client.patch(GATEWAYS, "front", "default", change)
        await scene.cluster.until(lambda: f"{one}:{PORT + 1}" in status(scene)["conditions"][0]["message"])
        assert await asked(scene, f"http://{one}:{PORT + 1}/") == (200, "stable")
        with pytest.raises(OSError):
            await asked(scene, f"http://{one}:{PORT}/")


async def test_redirects_and_rewrites() -> None:
    async with stage("stable") as scene:
        client = scene.cluster.client
        path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"}
        redirect = {"type": "RequestRedirect", "requestRedirect": {"hostname": "b.example", "path": path}}
        secure = {"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 301}}
        rewrite = {"type": "URLRewrite", "urlRewrite": {"hostname": "in.example", "path": path}}
        await client.create(GATEWAYS, front(http()))
        rules: list[JsonObject] = [
            {"matches": [{"path": {"value": "/old"}}], "filters": [redirect]},
            {"matches": [{"path": {"value": "/secure"}}], "filters": [secure]},
            {"matches": [{"path": {"value": "/v1"}}], "filters": [rewrite], "backendRefs": [backend("llm")]},
            {"matches": [{"path": {"value": "/nothing"}}]},
        ]
        await client.create(HTTP_ROUTES, http_route(*rules))
        base = f"http://{await address(scene)}:{PORT}"
        await scene.cluster.until(lambda: status(scene)["listeners"][0]["attachedRoutes"] == 1)
        assert await asked(scene, f"{base}/old/x?a=1") == (302, f"http://b.example:{PORT}/new/x?a=1")
        assert await asked(scene, f"{base}/secure", host="a.example") == (301, "https://a.example/secure")
        assert await asked(scene, f"{base}/v1/models?all") == (200, "stable")
        assert scene.servers["stable"].paths[-1] == "/new/models?all"
        assert (await asked(scene, f"{base}/nothing"))[0] == 500


async def test_a_backend_in_another_namespace_needs_a_grant() -> None:
    async with stage("stable") as scene:
        client = scene.cluster.client
        await client.create(NAMESPACES, {"metadata": {"name": "models"}})
        await client.create(
            SERVICES, {"metadata": {"name": "far"}, "spec": {"ports": [{"port": 80, "name": "http"}]}}, "models"
        )
        await client.create(GATEWAYS, front(http()))
        await client.create(HTTP_ROUTES, http_route({"backendRefs": [backend("far", namespace="models")]}))

        def reason() -> str:
            route = scene.cluster.find(HTTP_ROUTES, "llm", "default") or {}
            for parent in (route.get("status") or {}).get("parents") or ():
                return str(next(one["reason"] for one in parent["conditions"] if one["type"] == "ResolvedRefs"))
            return ""

        await scene.cluster.until(lambda: reason() == "RefNotPermitted")
        base = f"http://{await address(scene)}:{PORT}"
        assert (await asked(scene, base))[0] == 500
        spec = {
            "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "default"}],
            "to": [{"group": "", "kind": "Service"}],
        }
        await client.create(REFERENCE_GRANTS, {"metadata": {"name": "models"}, "spec": spec}, "models")
        await scene.cluster.until(lambda: reason() == "ResolvedRefs")
        assert (await asked(scene, base))[0] == 503, "it may go there, but there is no endpoint"
        await client.delete(SERVICES, "far", "models")
        await scene.cluster.until(lambda: reason() == "BackendNotFound")
        assert (await asked(scene, base))[0] == 500
