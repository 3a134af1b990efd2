"""Routes from HTTPRoutes that are attached to a Gateway.

A route attaches to listeners, and what it refers to is resolved on its own: a route with a backend that is not there is
accepted, and requests that meet it are answered with 500.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec

from kohort.cluster.gateway.gateway_listeners import NO_LABELS, admits, refusal, takes_routes
from kohort.cluster.gateway.path_changes import PathChange, Redirect, Rewrite
from kohort.cluster.gateway.reference_grants import Referrer, is_permitted
from kohort.cluster.gateway.route_table import (
    Backend,
    BadPattern,
    HeaderChange,
    PathKind,
    PathRule,
    Pattern,
    RequestMatch,
    Route,
    RouteOrigin,
    Split,
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
    PathMatch,
    PathModifier,
    ReferenceGrant,
    RouteMatch,
    RouteRule,
    ValueMatch,
)
from kohort.kube.resources import Key

_PATHS: Final[dict[str, PathKind]] = {"Exact": "Exact", "PathPrefix": "Prefix", "RegularExpression": "Regex"}
_DURATION: Final = re.compile(r"(\d+)(h|ms|m|s)")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_ANYWHERE: Final = ("",)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_HOSTNAME: Final = re.compile(r"[A-Za-z0-9._-]*")


class AttachedListener(msgspec.Struct, frozen=True):
    gateway: Key
    listener: Listener
    hosts: tuple[str, ...]
    """For which hosts: those that both the route and the listener name."""


class Attachment(msgspec.Struct, frozen=True):
    """Whether a route is attached to one of its parents. `reason` is a reason of the condition Accepted."""

    parent: ParentRef
    accepted: bool
    reason: str
    message: str
    listeners: tuple[AttachedListener, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(host for one in self.listeners for host in one.hosts))


def attachments(
    route: HTTPRoute, gateways: Mapping[Key, Gateway], labels: Mapping[str, Mapping[str, str]] = NO_LABELS
) -> list[Attachment]:
    """`labels` are those of all namespaces."""
    return [_attachment(route, parent, gateways, labels) for parent in route.spec.parent_refs if _is_gateway(parent)]


def _is_gateway(parent: ParentRef) -> bool:
    return parent.kind == "Gateway" and parent.group == GROUP


def _attachment(
    route: HTTPRoute, parent: ParentRef, gateways: Mapping[Key, Gateway], labels: Mapping[str, Mapping[str, str]]
) -> Attachment:
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
    allowed = [one for one in named if takes_routes(one) and admits(one, key.namespace, own, labels)]
    if not allowed:
        text = f"no listener of Gateway {key} takes HTTPRoutes of namespace {own}; see its allowedRoutes"
        return Attachment(parent, False, "NotAllowedByListeners", text)
    served = [one for one in allowed if refusal(gateway, one) is None]
    found = [AttachedListener(key, one, _hosts(route.spec.hostnames, one)) for one in served]
    found = [one for one in found if one.hosts]
    if not found:
        return Attachment(parent, False, "NoMatchingListenerHostname", "no listener has a hostname of this route")
    return Attachment(parent, True, "Accepted", "the route is served", tuple(found))


def _hosts(hostnames: tuple[str, ...], listener: Listener) -> tuple[str, ...]:
    found = (_intersection(host.lower(), listener.hostname.lower()) for host in hostnames or _ANYWHERE)
    return tuple(dict.fromkeys(host for host in found if host is not None))


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


class RouteTables(msgspec.Struct):
    """Routes of HTTPRoutes: those for the port that all Gateways share, and those of each listener."""

    shared: list[Route] = []
    by_listener: dict[tuple[Key, str], list[Route]] = {}
    """By Gateway and name of the listener."""
    problems: list[str] = []
    """What is wrong with rules that cannot be served."""


def routes_of(
    routes: Iterable[HTTPRoute],
    gateways: Mapping[Key, Gateway],
    labels: Mapping[str, Mapping[str, str]] = NO_LABELS,
    grants: tuple[ReferenceGrant, ...] = (),
) -> RouteTables:
    tables = RouteTables()
    for route in routes:
        listeners = [each for one in attachments(route, gateways, labels) for each in one.listeners]
        if not listeners:
            continue
        hosts = tuple(dict.fromkeys(host for one in listeners for host in one.hosts))
        kinds = {one.listener.secure for one in listeners}
        secure = kinds.pop() if len(kinds) == 1 else None
        for number, rule in enumerate(route.spec.rules):
            try:
                made = _Rule(route, rule, number, grants)
                tables.shared += made.routes(hosts, secure)
                for one in listeners:
                    place = (one.gateway, one.listener.name)
                    tables.by_listener.setdefault(place, []).extend(made.routes(one.hosts, None))
            except BadPattern as problem:
                metadata = route.metadata
                text = f"HTTPRoute {metadata.namespace}/{metadata.name}: spec.rules[{number}]: {problem}"
                tables.problems.append(text)
    return tables


class _Rule:
    """A rule, and the turns of its backends: the weights are of all its requests together, wherever they come in."""

    def __init__(self, route: HTTPRoute, rule: RouteRule, number: int, grants: tuple[ReferenceGrant, ...]) -> None:
        self._route = route
        self._rule = rule
        self._number = number
        self._split = Split(_backend(route, rule, ref, grants) for ref in rule.backend_refs)
        self._timeout = _timeout(rule)

    def routes(self, hosts: Iterable[str], secure: bool | None) -> list[Route]:
        metadata = self._route.metadata
        name = f"{metadata.namespace}/{metadata.name}"
        return [
            Route(
                _request_match(match, secure),
                self._split,
                RouteOrigin(name, metadata.creation_timestamp or "", self._number * 100 + place),
                host=host,
                timeout=self._timeout,
                redirect=_redirect(self._rule, match.path),
                rewrite=_rewrite(self._rule, match.path),
            )
            for place, match in enumerate(self._rule.matches or (RouteMatch(),))
            for host in hosts
        ]


def _request_match(match: RouteMatch, secure: bool | None) -> RequestMatch:
    return RequestMatch(
        PathRule(_PATHS.get(match.path.type, "Prefix"), match.path.value),
        method=match.method,
        headers=_patterns(match.headers, fold=True),
        query=_patterns(match.query_params, fold=False),
        secure=secure,
    )


def _timeout(rule: RouteRule) -> float | None:
    """The shorter of the two: for the whole request, and for a request to a backend."""
    found = (duration(rule.timeouts.request), duration(rule.timeouts.backend_request))
    return min((one for one in found if one is not None), default=None)


def _redirect(rule: RouteRule, path: PathMatch) -> Redirect | None:
    for one in rule.filters:
        if (found := one.request_redirect) is not None:
            _check_hostname(found.hostname)
            return Redirect(found.status_code, found.scheme, found.hostname, found.port, _path_change(found.path, path))
    return None


def _rewrite(rule: RouteRule, path: PathMatch) -> Rewrite | None:
    for one in rule.filters:
        if (found := one.url_rewrite) is not None:
            _check_hostname(found.hostname)
            return Rewrite(found.hostname, _path_change(found.path, path))
    return None


def _check_hostname(text: str) -> None:
    """It becomes part of a header."""
    if _HOSTNAME.fullmatch(text) is None:
        raise BadPattern(f"{text!r} is not a hostname")


def _path_change(modifier: PathModifier | None, path: PathMatch) -> PathChange | None:
    if modifier is None:
        return None
    if modifier.type == "ReplaceFullPath":
        return PathChange(full=modifier.replace_full_path or "/")
    return PathChange(prefix=modifier.replace_prefix_match or "/", matched=path.value)


def _patterns(matches: Iterable[ValueMatch], *, fold: bool) -> dict[str, Pattern]:
    """Of several with one name the first counts, as the Gateway API says."""
    result: dict[str, Pattern] = {}
    for match in matches:
        name = match.name.lower() if fold else match.name
        result.setdefault(name, Pattern(match.value, regular=match.type == "RegularExpression"))
    return result


class Unresolved(Enum):
    """Reasons of the condition ResolvedRefs of a route, as the Gateway API names them."""

    KIND = "InvalidKind"
    NOT_PERMITTED = "RefNotPermitted"
    NOT_FOUND = "BackendNotFound"


class UnresolvedRef(msgspec.Struct, frozen=True):
    reason: Unresolved
    message: str


def _invalid(route: HTTPRoute, ref: BackendRef, grants: Iterable[ReferenceGrant]) -> UnresolvedRef | None:
    """What is wrong with a reference as such, whatever exists."""
    own = route.metadata.namespace
    if ref.kind != "Service" or ref.group:
        return UnresolvedRef(Unresolved.KIND, f"backendRef {ref.name} is a {ref.kind}; only Services are served")
    target = Key(ref.namespace or own, ref.name)
    if not is_permitted(Referrer("HTTPRoute", own), "Service", target, grants):
        text = f"backendRef {ref.name} is in namespace {target.namespace}, which has no ReferenceGrant for it"
        return UnresolvedRef(Unresolved.NOT_PERMITTED, text)
    return None


def unresolved(
    route: HTTPRoute, grants: Iterable[ReferenceGrant], ports_of: Callable[[Key], tuple[int, ...] | None]
) -> UnresolvedRef | None:
    """The first reference of a route that leads nowhere; `ports_of` says which ports a Service has, if it exists."""
    known = tuple(grants)
    for ref in (ref for rule in route.spec.rules for ref in rule.backend_refs):
        if (found := _invalid(route, ref, known)) is not None:
            return found
        key = Key(ref.namespace or route.metadata.namespace, ref.name)
        ports = ports_of(key)
        if ports is None:
            return UnresolvedRef(Unresolved.NOT_FOUND, f"backendRef {ref.name}: there is no Service {key}")
        if ref.port not in ports:
            text = f"backendRef {ref.name}: Service {key} has no port {ref.port}; it has {', '.join(map(str, ports))}"
            return UnresolvedRef(Unresolved.NOT_FOUND, text)
    return None


def _backend(route: HTTPRoute, rule: RouteRule, ref: BackendRef, grants: Iterable[ReferenceGrant]) -> Backend:
    invalid = _invalid(route, ref, grants)
    problem = "" if invalid is None else invalid.message
    if invalid is None and ref.port is None:
        problem = f"backendRef {ref.name} has no port"
    for one in rule.filters:
        if not one.served:
            problem = f"filter {one.type} is not served"
    for one in ref.filters:
        if not one.changes_headers:
            problem = f"filter {one.type} of a backendRef is not served"
    for one in (*rule.filters, *ref.filters):
        if (wrong := _wrong_header(one)) is not None:
            problem = f"filter {one.type} has a header that is not valid: {wrong!r}"
    return Backend(
        ref.namespace or route.metadata.namespace,
        ref.name,
        ref.port or 0,
        ref.weight,
        request=_change(rule.filters, ref.filters, response=False),
        response=_change(rule.filters, ref.filters, response=True),
        problem=problem,
        missing_status=500,
    )


def _wrong_header(one: Filter) -> str | None:
    """A name or value that would not be one header line: definitions allow any text."""
    for change in (one.request_header_modifier, one.response_header_modifier):
        for header in () if change is None else (*change.set, *change.add):
            if _NAME.fullmatch(header.name) is None:
                return header.name
            if _VALUE.fullmatch(header.value) is None:
                return header.value
    return None


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
