"""Where a request goes: a table of routes, the most specific first.

| compared       | before                                                                    |
|----------------|---------------------------------------------------------------------------|
| host           | exact, then the longest wildcard, then any                                |
| path           | exact, then the longest prefix, then regular expressions (longest first)  |
| method         | named before any                                                          |
| headers        | more of them first                                                        |
| query          | more of them first                                                        |
| otherwise      | older object, then by name, then by place in the object                   |

This is the order that the Gateway API prescribes; for the few things that an Ingress can say it is nginx's as well.
Regular expressions are RE2: a pattern of a user can be wrong, but never slow.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, Protocol

import msgspec
import re2

from kohort.cluster.gateway.path_changes import Redirect, Rewrite

BATCH: Final = 20
"""Turns that are shuffled together."""

PathKind = Literal["Exact", "Prefix", "Regex"]
_PATH_ORDER: Final[Mapping[PathKind, int]] = {"Exact": 0, "Prefix": 1, "Regex": 2}


class Facts(msgspec.Struct, frozen=True):
    """A request, as far as routing needs it. Header names are lower case."""

    host: str
    path: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    cookies: Mapping[str, str] = {}
    secure: bool = False
    server_name: str = ""
    """The name that the client asked for when it opened its TLS connection."""


class Pattern:
    """A text to be equal to, or to match from beginning to end."""

    __slots__ = ("_compiled", "_text")

    def __init__(self, text: str, *, regular: bool = False) -> None:
        self._text = text
        self._compiled = compiled(text) if regular else None

    def matches(self, value: str | None) -> bool:
        if value is None:
            return False
        return value == self._text if self._compiled is None else self._compiled.fullmatch(value) is not None


class BadPattern(ValueError):
    pass


class Regex(Protocol):
    """A compiled pattern of RE2, whose cost grows with the length of the text alone."""

    def match(self, text: str, /) -> object | None: ...
    def fullmatch(self, text: str, /) -> object | None: ...


def compiled(text: str) -> Regex:
    options = re2.Options()
    options.log_errors = False
    try:
        found: Regex = re2.compile(text, options)
    except re2.error as problem:
        raise BadPattern(f"{text!r} is not a regular expression: {problem}") from None
    return found


class PathRule:
    __slots__ = ("_compiled", "_under", "kind", "value")

    def __init__(self, kind: PathKind, value: str) -> None:
        self.kind = kind
        self.value = value
        self._under = value.rstrip("/") + "/"
        self._compiled = compiled(value) if kind == "Regex" else None

    def matches(self, path: str) -> bool:
        """A prefix counts in whole elements: `/a` is a prefix of `/a/b`, not of `/ab`."""
        if self.kind == "Exact":
            return path == self.value
        if self.kind == "Prefix":
            return path.startswith(self._under) or path == self._under[:-1]
        return self._compiled is not None and self._compiled.match(path) is not None

    @property
    def order(self) -> tuple[int, int]:
        return _PATH_ORDER[self.kind], -len(self.value)


class HeaderChange(msgspec.Struct, frozen=True):
    set: tuple[tuple[str, str], ...] = ()
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()


NO_CHANGE: Final = HeaderChange()


class Backend(msgspec.Struct, frozen=True):
    """A Service that requests go to. `problem` is why it cannot be one."""

    namespace: str
    service: str
    port: int | str
    weight: int = 1
    request: HeaderChange = NO_CHANGE
    response: HeaderChange = NO_CHANGE
    problem: str = ""
    missing_status: int = 503
    """The answer while there is no such Service."""


class Split:
    """Turns between backends by weight.

    Neither dice nor a fixed order: dice miss their share by some points even after a thousand requests, and a fixed
    order meets clients that have an order of their own (every fifth request of ten clients in turn is always the same
    client's). So turns are shuffled in small batches: each batch has exactly its shares, in a random order.
    """

    __slots__ = ("_credit", "_hand", "_total", "backends")

    def __init__(self, backends: Iterable[Backend]) -> None:
        self.backends = tuple(backend for backend in backends if backend.weight > 0)
        self._credit = [0] * len(self.backends)
        self._total = sum(backend.weight for backend in self.backends)
        self._hand: list[Backend] = []

    def next(self) -> Backend | None:
        if len(self.backends) < 2:
            return self.backends[0] if self.backends else None
        if not self._hand:
            self._hand = [self._fair() for _ in range(BATCH)]
            random.shuffle(self._hand)
        return self._hand.pop()

    def _fair(self) -> Backend:
        """Smooth weighted round-robin: each backend gains its weight, the one with the most is next and pays the sum of
        all weights, so no backend is ever ahead by more than one turn."""
        credit = self._credit
        for number, backend in enumerate(self.backends):
            credit[number] += backend.weight
        best = max(range(len(credit)), key=credit.__getitem__)
        credit[best] -= self._total
        return self.backends[best]


class Canary:
    """The nginx annotations of a canary Ingress, in their order: header, cookie, weight."""

    __slots__ = ("_by_weight", "_weighted", "backend", "cookie", "header", "header_value")

    def __init__(
        self,
        backend: Backend,
        stable: Backend,
        *,
        header: str = "",
        header_value: Pattern | None = None,
        cookie: str = "",
        weight: int = 0,
        total: int = 100,
    ) -> None:
        self.backend = backend
        self.header = header.lower()
        self.header_value = header_value
        self.cookie = cookie
        share = min(max(weight, 0), total)
        self._weighted = msgspec.structs.replace(backend, weight=share)
        self._by_weight = Split((msgspec.structs.replace(stable, weight=total - share), self._weighted))

    @property
    def backends(self) -> tuple[Backend, ...]:
        return self._by_weight.backends

    def choose(self, facts: Facts) -> Backend | None:
        """None: the stable one."""
        for said in (self._by_header(facts), _always(facts.cookies.get(self.cookie)) if self.cookie else None):
            if said is not None:
                return self.backend if said else None
        return self.backend if self._by_weight.next() is self._weighted else None

    def continue_turns(self, before: "Canary") -> None:
        if self._by_weight.backends == before._by_weight.backends:
            self._by_weight, self._weighted = before._by_weight, before._weighted

    def _by_header(self, facts: Facts) -> bool | None:
        if not self.header:
            return None
        value = facts.headers.get(self.header)
        if self.header_value is not None:
            return True if self.header_value.matches(value) else None
        return _always(value)


def _always(value: str | None) -> bool | None:
    return {"always": True, "never": False}.get(value or "")


class RequestMatch:
    """Which requests a route is for, apart from their host."""

    __slots__ = ("headers", "method", "order", "path", "query", "secure")

    def __init__(
        self,
        path: PathRule,
        *,
        method: str = "",
        headers: Mapping[str, Pattern] | None = None,
        query: Mapping[str, Pattern] | None = None,
        secure: bool | None = None,
    ) -> None:
        """`secure`: only over TLS, or only without; None is both."""
        self.path = path
        self.method = method
        self.headers = headers or {}
        self.query = query or {}
        self.secure = secure
        self.order = (*path.order, not method, -len(self.headers), -len(self.query))

    def matches(self, facts: Facts) -> bool:
        return (
            self.path.matches(facts.path)
            and (self.secure is None or self.secure == facts.secure)
            and (not self.method or self.method == facts.method)
            and all(pattern.matches(facts.headers.get(name)) for name, pattern in self.headers.items())
            and all(pattern.matches(facts.query.get(name)) for name, pattern in self.query.items())
        )


class RouteOrigin(msgspec.Struct, frozen=True):
    """The object that a route is made of."""

    name: str = ""
    """With its namespace."""
    created: str = ""
    place: int = 0
    """Of the route in the object."""

    @property
    def order(self) -> tuple[str, str, int]:
        return self.created, self.name, self.place


class Route:
    __slots__ = ("canary", "host", "match", "name", "order", "redirect", "rewrite", "split", "timeout")

    def __init__(
        self,
        match: RequestMatch,
        backends: "Iterable[Backend] | Split",
        origin: RouteOrigin,
        *,
        host: str = "",
        timeout: float | None = None,
        redirect: Redirect | None = None,
        rewrite: Rewrite | None = None,
    ) -> None:
        self.match = match
        self.host = host.lower()
        self.redirect = redirect
        self.rewrite = rewrite
        self.split = backends if isinstance(backends, Split) else Split(backends)
        self.canary: Canary | None = None
        self.name = origin.name
        self.timeout = timeout
        self.order = (*match.order, *origin.order)

    def weights(self) -> dict[str, int]:
        """Of the Services between which requests take turns."""
        backends = self.split.backends if self.canary is None else self.canary.backends
        return {backend.service: backend.weight for backend in backends}

    def backends(self) -> tuple[Backend, ...]:
        return self.split.backends if self.canary is None else (*self.split.backends, self.canary.backend)

    @property
    def uses_details(self) -> bool:
        """Whether more than host, path and method decides."""
        return bool(self.match.headers or self.match.query or self.canary is not None)

    def continue_turns(self, before: "Route") -> None:
        if self.split.backends == before.split.backends:
            self.split = before.split
        if self.canary is not None and before.canary is not None:
            self.canary.continue_turns(before.canary)

    def choose(self, facts: Facts) -> Backend | None:
        """The backend whose turn it is; None without any backend."""
        if self.canary is not None:
            chosen = self.canary.choose(facts)
            if chosen is not None:
                return chosen
        return self.split.next()


class MisdirectedRequest(Exception):
    """The host of a request belongs to another listener than the name that its connection was opened for."""


class RouteTable:
    def __init__(self, routes: Iterable[Route] = ()) -> None:
        self._exact: dict[str, list[Route]] = {}
        self._wild: dict[str, list[Route]] = {}
        self._any: list[Route] = []
        for route in sorted(routes, key=lambda route: route.order):
            self._bucket(route.host).append(route)
        self._suffixes = sorted(self._wild, key=len, reverse=True)
        self.uses_details = any(route.uses_details for route in self)
        """Whether a route looks at headers, the query or cookies: most do not, and reading them costs time."""

    def _bucket(self, host: str) -> list[Route]:
        if not host or host == "*":
            return self._any
        if host.startswith("*."):
            return self._wild.setdefault(host[1:], [])
        return self._exact.setdefault(host, [])

    def find(self, facts: Facts) -> Route | None:
        for bucket in self._candidates(facts.host):
            for route in bucket:
                if route.match.matches(facts):
                    return route
        return None

    def _candidates(self, host: str) -> Iterable[list[Route]]:
        if host in self._exact:
            yield self._exact[host]
        for suffix in self._suffixes:
            if host.endswith(suffix) and len(host) > len(suffix):
                yield self._wild[suffix]
        yield self._any

    def __iter__(self) -> Iterator[Route]:
        for bucket in (*self._exact.values(), *self._wild.values(), self._any):
            yield from bucket

    def continuing(self, before: "RouteTable") -> "RouteTable":
        """This table, with turns where the one before had them: shares must hold even if tables change often."""
        known = {(route.name, route.host, route.order): route for route in before}
        for route in self:
            old = known.get((route.name, route.host, route.order))
            if old is not None:
                route.continue_turns(old)
        return self

    def __len__(self) -> int:
        return len(self._any) + sum(map(len, (*self._exact.values(), *self._wild.values())))


class ListenerTables:
    """The tables of the listeners that share a port.

    A request belongs to the listener with the most specific hostname that fits, and meets only routes of that one. A
    client may use an open TLS connection for other hosts than it was opened for (HTTP/2); if such a host belongs to
    another listener, the request is refused, so that it is sent again on a connection of its own.
    """

    def __init__(self, tables: Mapping[str, RouteTable] | None = None) -> None:
        """By hostname of the listener, which may begin with `*.`; '' is any."""
        self._tables = {hostname.lower(): table for hostname, table in (tables or {}).items()}
        self._wild = sorted((name for name in self._tables if name.startswith("*.")), key=len, reverse=True)
        self.uses_details = any(table.uses_details for table in self._tables.values())

    def find(self, facts: Facts) -> Route | None:
        hostname = self._listener(facts.host)
        if facts.server_name and self._listener(facts.server_name) != hostname:
            raise MisdirectedRequest(f"host {facts.host!r} is not served on a connection for {facts.server_name!r}")
        return None if hostname is None else self._tables[hostname].find(facts)

    def _listener(self, host: str) -> str | None:
        if host in self._tables:
            return host
        for name in self._wild:
            if host.endswith(name[1:]) and len(host) >= len(name):
                return name
        return "" if "" in self._tables else None

    def continuing(self, before: "RouteTable | ListenerTables") -> "ListenerTables":
        if isinstance(before, ListenerTables):
            for hostname, table in self._tables.items():
                if (old := before._tables.get(hostname)) is not None:
                    table.continuing(old)
        return self
