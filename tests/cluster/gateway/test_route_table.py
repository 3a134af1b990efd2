"""The table of routes: which one a request meets, and whose turn it is."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.gateway import httproutes, ingresses
from kohort.cluster.gateway.route_table import (
    BATCH,
    Backend,
    BadPattern,
    Facts,
    PathKind,
    PathRule,
    Pattern,
    RequestMatch,
    Route,
    RouteOrigin,
    RouteTable,
    Split,
)
from kohort.cluster.gateway.views import Gateway, GatewaySpec, HTTPRoute, HTTPRouteSpec, Listener, ParentRef
from kohort.kube.resources import Key
from kohort.objects.meta import ObjectMeta
from kohort.objects.networking import (
    Ingress,
    IngressBackend,
    IngressHttp,
    IngressPath,
    IngressRule,
    IngressServiceBackend,
    IngressSpec,
    ServiceBackendPort,
)


def backend(name: str, weight: int = 1) -> Backend:
    return Backend("default", name, 80, weight)


def found(table: RouteTable, host: str, path: str = "/", **more: object) -> str:
    route = table.find(Facts(host, path, **more))  # type: ignore[arg-type]
    return "" if route is None else route.name


def route(name: str, kind: PathKind = "Prefix", path: str = "/", host: str = "", **more: object) -> Route:
    match = RequestMatch(PathRule(kind, path), **more)  # type: ignore[arg-type]
    return Route(match, [backend(name)], RouteOrigin(name), host=host)


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        (("Prefix", "/a"), "/a", True),
        (("Prefix", "/a"), "/a/b", True),
        (("Prefix", "/a"), "/ab", False),
        (("Prefix", "/a/"), "/a", True),
        (("Prefix", "/"), "/anything", True),
        (("Exact", "/a"), "/a", True),
        (("Exact", "/a"), "/a/", False),
        (("Regex", "/v[12]/.*"), "/v2/x", True),
        (("Regex", "/v[12]/.*"), "/v3/x", False),
    ],
)
def test_paths(rule: tuple[str, str], path: str, matches: bool) -> None:
    assert PathRule(*rule).matches(path) is matches  # type: ignore[arg-type]


def test_the_most_specific_route_wins_whatever_the_order_of_writing() -> None:
    routes = [
        route("any"),
        route("wild", host="*.example.com"),
        route("deep-wild", host="*.a.example.com"),
        route("host", host="www.example.com"),
        route("long", path="/v1/chat", host="www.example.com"),
        route("exact", "Exact", "/v1/chat", host="www.example.com"),
        route("method", path="/v1/chat", host="www.example.com", method="PUT"),
        route("header", path="/v1/chat", host="www.example.com", headers={"user": Pattern("demo")}),
        route("query", path="/v1/chat", host="www.example.com", query={"v": Pattern("2")}),
        route("regex", "Regex", "/.*", host="www.example.com"),
    ]
    for order in (routes, routes[::-1]):
        table = RouteTable(order)
        assert found(table, "nowhere") == "any"
        assert found(table, "x.example.com") == "wild"
        assert found(table, "x.a.example.com") == "deep-wild"
        assert found(table, "example.com") == "any", "a wildcard stands for at least one label"
        assert found(table, "www.example.com", "/v1") == "host"
        assert found(table, "www.example.com", "/v1/chat/x") == "long"
        assert found(table, "www.example.com", "/v1/chat") == "exact"
        assert found(table, "www.example.com", "/v1/chat/x", method="PUT") == "method"
        assert found(table, "www.example.com", "/v1/chat/x", headers={"user": "demo"}) == "header"
        assert found(table, "www.example.com", "/v1/chat/x", query={"v": "2"}) == "query"


def test_a_pattern_of_a_user_is_never_slow_and_a_wrong_one_is_named() -> None:
    start = time.process_time()
    assert not Pattern("(a+)+$", regular=True).matches("a" * 50_000 + "b")
    assert time.process_time() - start < 1.0
    with pytest.raises(BadPattern, match=r"'\(' is not a regular expression"):
        Pattern("(", regular=True)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=5), st.integers(1, 25).map(lambda batches: batches * BATCH))
def test_after_every_hand_each_backend_has_its_share(weights: list[int], requests: int) -> None:
    split = Split([backend(str(number), weight) for number, weight in enumerate(weights)])
    seen = [0] * len(weights)
    for _ in range(requests):
        chosen = split.next()
        if chosen is None:
            assert not any(weights)
            return
        seen[int(chosen.service)] += 1
    for weight, count in zip(weights, seen, strict=True):
        share = requests * weight / sum(weights)
        assert abs(count - share) <= len(weights)
        assert weight > 0 or count == 0


def test_clients_that_take_turns_all_get_the_same_share() -> None:
    split = Split([backend("stable", 80), backend("canary", 20)])
    turns = [split.next() for _ in range(10_000)]
    for client in range(10):
        own = [one.service for one in turns[client::10] if one is not None]
        assert abs(100 * own.count("canary") / len(own) - 20) < 5


def test_shares_hold_when_tables_change_all_the_time() -> None:
    table, seen = RouteTable(), {"a": 0, "b": 0}
    for _ in range(100):
        everything = RequestMatch(PathRule("Prefix", "/"))
        fresh = [Route(everything, [backend("a", 80), backend("b", 20)], RouteOrigin("r"))]
        table = RouteTable(fresh).continuing(table)
        one = table.find(Facts("h", "/"))
        assert one is not None
        chosen = one.choose(Facts("h", "/"))
        assert chosen is not None
        seen[chosen.service] += 1
    assert seen == {"a": 80, "b": 20}


# Ingresses


def ingress(name: str, service: str, path: str = "/", kind: str = "Prefix", **annotations: str) -> Ingress:
    target = IngressBackend(IngressServiceBackend(service, ServiceBackendPort(number=80)))
    rules = (IngressRule("h", IngressHttp((IngressPath(target, path, kind),))),)
    said = {"nginx.ingress.kubernetes.io/" + key.replace("_", "-"): value for key, value in annotations.items()}
    return Ingress(ObjectMeta(name=name, namespace="default", annotations=said), IngressSpec(rules=rules))


def services(*objects: Ingress, **facts: object) -> list[str]:
    routes, _ = ingresses.routes_of(objects)
    one = RouteTable(routes).find(Facts("h", "/", **facts))  # type: ignore[arg-type]
    assert one is not None
    chosen = [one.choose(Facts("h", "/", **facts)) for _ in range(BATCH)]  # type: ignore[arg-type]
    return [each.service for each in chosen if each is not None]


STABLE = ingress("llm", "stable")


def canary(**annotations: str) -> Ingress:
    return ingress("llm-canary", "canary", canary="true", **annotations)


@pytest.mark.parametrize(
    ("annotations", "facts", "canaries"),
    [
        ({}, {}, 0),
        ({"canary_weight": "30"}, {}, 6),
        ({"canary_weight": "100"}, {}, 20),
        ({"canary_weight": "5", "canary_weight_total": "10"}, {}, 10),
        ({"canary_weight": "nonsense"}, {}, 0),
        ({"canary_by_header": "User"}, {"headers": {"user": "always"}}, 20),
        ({"canary_by_header": "User", "canary_weight": "100"}, {"headers": {"user": "never"}}, 0),
        ({"canary_by_header": "User", "canary_weight": "100"}, {"headers": {"user": "else"}}, 20),
        ({"canary_by_header": "User", "canary_by_header_value": "x"}, {"headers": {"user": "x"}}, 20),
        ({"canary_by_header": "User", "canary_by_header_value": "x"}, {"headers": {"user": "always"}}, 0),
        ({"canary_by_header": "User", "canary_by_header_pattern": "x|y"}, {"headers": {"user": "y"}}, 20),
        ({"canary_by_cookie": "beta"}, {"cookies": {"beta": "always"}}, 20),
        ({"canary_by_cookie": "beta", "canary_weight": "100"}, {"cookies": {"beta": "never"}}, 0),
    ],
)
def test_canary_annotations(annotations: dict[str, str], facts: dict[str, object], canaries: int) -> None:
    assert services(STABLE, canary(**annotations), **facts).count("canary") == canaries


def test_a_canary_ingress_without_a_stable_one_serves_nothing() -> None:
    routes, _ = ingresses.routes_of([canary(canary_weight="100")])
    assert routes == []


def test_a_bad_pattern_is_told_and_the_stable_route_stays() -> None:
    routes, problems = ingresses.routes_of([STABLE, canary(canary_by_header="u", canary_by_header_pattern="(")])
    assert len(routes) == 1 and routes[0].canary is None
    assert "canary-by-header-pattern" in problems[0]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [([STABLE], False), ([STABLE, canary(canary_weight="0")], True), ([canary(canary_weight="5")], False)],
    ids=["without a canary", "with a canary", "a canary of nothing"],
)
def test_headers_are_read_only_if_a_route_may_look_at_them(objects: list[Ingress], expected: bool) -> None:
    assert RouteTable(ingresses.routes_of(objects)[0]).uses_details is expected


def test_headers_and_queries_of_a_match_are_looked_at() -> None:
    assert not RouteTable([route("a", method="GET")]).uses_details
    assert RouteTable([route("a"), route("b", headers={"x": Pattern("1")})]).uses_details
    assert RouteTable([route("a", query={"x": Pattern("1")})]).uses_details


# Attaching to Gateways

GATEWAY = Gateway(ObjectMeta(name="front", namespace="default"), GatewaySpec("any", (Listener("http", port=80),)))


def attached(hostnames: tuple[str, ...] = (), parent: ParentRef = ParentRef("front"), **gateway: object) -> str:  # noqa: B008
    listener = Listener("http", port=80, **gateway)  # type: ignore[arg-type]
    one = Gateway(ObjectMeta(name="front", namespace="default"), GatewaySpec("any", (listener,)))
    spec = HTTPRouteSpec((parent,), hostnames)
    route = HTTPRoute(ObjectMeta(name="r", namespace="default"), spec)
    (answer,) = httproutes.attachments(route, {Key("default", "front"): one})
    return ",".join(answer.hosts) or answer.reason if answer.accepted and any(answer.hosts) else answer.reason


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (attached(), "Accepted"),
        (attached(("a",)), "a"),
        (attached(("a.example.com", "b"), hostname="*.example.com"), "a.example.com"),
        (attached(("*.example.com",), hostname="a.example.com"), "a.example.com"),
        (attached((), hostname="a.example.com"), "a.example.com"),
        (attached(("b",), hostname="a"), "NoMatchingListenerHostname"),
        (attached((), ParentRef("nobody")), "NoMatchingParent"),
        (attached((), ParentRef("front", section_name="other")), "NoMatchingParent"),
        (attached((), ParentRef("front", port=81)), "NoMatchingParent"),
    ],
)
def test_how_a_route_hangs_on_a_gateway(answer: str, expected: str) -> None:
    assert answer == expected


def test_a_route_of_another_namespace_needs_leave() -> None:
    route = HTTPRoute(
        ObjectMeta(name="r", namespace="other"), HTTPRouteSpec((ParentRef("front", namespace="default"),))
    )
    (answer,) = httproutes.attachments(route, {Key("default", "front"): GATEWAY})
    assert answer.reason == "NotAllowedByListeners"
