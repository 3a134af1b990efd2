"""Routes from HTTPRoutes that are attached to a Gateway."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.cluster.gateway.route_table import (
    Backend,
    BadPattern,
    HeaderChange,
    PathKind,
    PathRule,
    Pattern,
    Route,
)
from kohort.cluster.gateway.views import (
    GROUP,
    BackendRef,
    Filter,
    Gateway,
    HeaderFilter,
    HTTPRoute,
    Listener,
    ParentRef,
    RouteMatch,
    RouteRule,
    ValueMatch,
)
from kohort.kube.resources import Key

_PATHS: Final[dict[str, PathKind]] = {"Exact": "Exact", "PathPrefix": "Prefix", "RegularExpression": "Regex"}
_DURATION: Final = re.compile(r"(\d+)(h|ms|m|s)")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_ANYWHERE: Final = ("",)


class Attachment(msgspec.Struct, frozen=True):
    """Whether a route is attached to one of its parents. `reason` is a reason of the condition Accepted."""

    parent: ParentRef
    accepted: bool
    reason: str
    message: str
    hosts: tuple[str, ...] = ()
    secure: frozenset[bool] = frozenset()
    """By what kinds of listeners: with TLS, without."""


def attachments(route: HTTPRoute, gateways: Mapping[Key, Gateway]) -> list[Attachment]:
    return [_attachment(route, parent, gateways) for parent in route.spec.parent_refs if _is_gateway(parent)]


def _is_gateway(parent: ParentRef) -> bool:
    return parent.kind == "Gateway" and parent.group == GROUP


def _attachment(route: HTTPRoute, parent: ParentRef, gateways: Mapping[Key, Gateway]) -> Attachment:
    own = route.metadata.namespace
    key = Key(parent.namespace or own, parent.name)
    gateway = gateways.get(key)
    if gateway is None:
        return Attachment(parent, False, "NoMatchingParent", f"there is no Gateway {key}; create it")
    named = [
        listener
        for listener in gateway.spec.listeners
        if (not parent.section_name or listener.name == parent.section_name)
        and (parent.port is None or listener.port == parent.port)
    ]
    if not named:
        return Attachment(parent, False, "NoMatchingParent", f"Gateway {key} has no such listener")
    allowed = [listener for listener in named if listener.open_to_all or key.namespace == own]
    if not allowed:
        text = f"Gateway {key} takes routes of its own namespace only; set allowedRoutes.namespaces.from: All"
        return Attachment(parent, False, "NotAllowedByListeners", text)
    served = [listener for listener in allowed if listener.protocol in ("HTTP", "HTTPS")]
    hosts = _hosts(route.spec.hostnames, served)
    if not hosts:
        return Attachment(parent, False, "NoMatchingListenerHostname", "no listener has a hostname of this route")
    return Attachment(parent, True, "Accepted", "the route is served", hosts, frozenset(one.secure for one in served))


def _hosts(hostnames: tuple[str, ...], listeners: Iterable[Listener]) -> tuple[str, ...]:
    """For which hosts: those that both the route and a listener name."""
    found: dict[str, None] = {}
    for listener in listeners:
        for host in hostnames or _ANYWHERE:
            common = _intersection(host.lower(), listener.hostname.lower())
            if common is not None:
                found[common] = None
    return tuple(found)


def _intersection(one: str, other: str) -> str | None:
    """The hosts that both stand for, as one of them; '' stands for all.

    >>> _intersection("*.example.com", "a.example.com"), _intersection("", "b"), _intersection("a", "b")
    ('a.example.com', 'b', None)
    """
    if one == other or not other:
        return one
    if not one:
        return other
    for wide, narrow in ((one, other), (other, one)):
        if wide.startswith("*.") and narrow.removeprefix("*").endswith(wide[1:]) and len(narrow) > len(wide[1:]):
            return narrow
    return None


def routes_of(routes: Iterable[HTTPRoute], gateways: Mapping[Key, Gateway]) -> tuple[list[Route], list[str]]:
    """The routes, and what is wrong with rules that cannot be served."""
    found: list[Route] = []
    problems: list[str] = []
    for route in routes:
        accepted = [one for one in attachments(route, gateways) if one.accepted]
        hosts = dict.fromkeys(host for one in accepted for host in one.hosts)
        kinds = frozenset(kind for one in accepted for kind in one.secure)
        if not hosts:
            continue
        for number, rule in enumerate(route.spec.rules):
            try:
                found += _routes(route, rule, number, tuple(hosts), next(iter(kinds)) if len(kinds) == 1 else None)
            except BadPattern as problem:
                metadata = route.metadata
                problems.append(f"HTTPRoute {metadata.namespace}/{metadata.name}: spec.rules[{number}]: {problem}")
    return found, problems


def _routes(route: HTTPRoute, rule: RouteRule, number: int, hosts: tuple[str, ...], secure: bool | None) -> list[Route]:
    metadata = route.metadata
    name = f"{metadata.namespace}/{metadata.name}"
    backends = [_backend(route, rule, ref) for ref in rule.backend_refs]
    result = [
        Route(
            PathRule(_PATHS.get(match.path.type, "Prefix"), match.path.value),
            backends,
            host=host,
            method=match.method,
            headers=_patterns(match.headers, fold=True),
            query=_patterns(match.query_params, fold=False),
            name=name,
            age=(metadata.creation_timestamp or "", name, number * 100 + place),
            timeout=duration(rule.timeouts.request),
            secure=secure,
        )
        for place, match in enumerate(rule.matches or (RouteMatch(),))
        for host in hosts
    ]
    return _sharing_turns(result)


def _sharing_turns(routes: list[Route]) -> list[Route]:
    """The weights of a rule are of all its requests together, whichever of its matches they met."""
    for route in routes[1:]:
        route.split = routes[0].split
    return routes


def _patterns(matches: Iterable[ValueMatch], *, fold: bool) -> dict[str, Pattern]:
    """Of several with one name the first counts, as the Gateway API says."""
    result: dict[str, Pattern] = {}
    for match in matches:
        name = match.name.lower() if fold else match.name
        result.setdefault(name, Pattern(match.value, regular=match.type == "RegularExpression"))
    return result


def _backend(route: HTTPRoute, rule: RouteRule, ref: BackendRef) -> Backend:
    own = route.metadata.namespace
    problem = ""
    if ref.kind != "Service" or ref.group:
        problem = f"backendRef {ref.name} is a {ref.kind}; only Services are served"
    elif ref.namespace is not None and ref.namespace != own:
        problem = f"backendRef {ref.name} is in another namespace; that is not served"
    elif ref.port is None:
        problem = f"backendRef {ref.name} has no port"
    for one in (*rule.filters, *ref.filters):
        if one.request_header_modifier is None and one.response_header_modifier is None:
            problem = f"filter {one.type} is not served"
    return Backend(
        own,
        ref.name,
        ref.port or 0,
        ref.weight,
        request=_change(rule.filters, ref.filters, response=False),
        response=_change(rule.filters, ref.filters, response=True),
        problem=problem,
    )


def _change(*levels: tuple[Filter, ...], response: bool) -> HeaderChange:
    """The filters of the rule, then those of the backend."""
    total = HeaderChange()
    for one in (one for filters in levels for one in filters):
        change = one.response_header_modifier if response else one.request_header_modifier
        if change is not None:
            total = HeaderChange(
                total.set + _pairs(change, "set"), total.add + _pairs(change, "add"), total.remove + change.remove
            )
    return total


def _pairs(change: HeaderFilter, which: str) -> tuple[tuple[str, str], ...]:
    return tuple((one.name, one.value) for one in (change.set if which == "set" else change.add))


def duration(text: str) -> float | None:
    """Seconds of a Gateway API duration; zero means no limit.

    >>> duration("1m30s"), duration("500ms"), duration("0s"), duration("")
    (90.0, 0.5, None, None)
    """
    total = sum(int(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
    return total or None
