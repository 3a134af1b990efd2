"""What the gateway makes of the head of a request: the route that it takes, and what a backend gets of it. Pure.

A plan follows from the head, the client's connection, the routes and the settings alone, so it holds for every request
with the same bytes from the same client until routes change (`recent.py`). Whose turn it is among the backends of
the route is no part of it: that is decided for each request.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from multidict import CIMultiDict

from kohort.cluster.gateway.backend_client import request_head
from kohort.cluster.gateway.client_request import ClientRequest, RefusedRequest, change_headers
from kohort.cluster.gateway.forwarded_headers import Client, Network, request_headers
from kohort.cluster.gateway.path_changes import changed_target
from kohort.cluster.gateway.request_target import BadTarget, Target, read_target
from kohort.cluster.gateway.route_table import Backend, Facts, ListenerTables, MisdirectedRequest, Route, RouteTable

READ_SECONDS: Final = 600.0
"""Between two parts of an answer; models think long."""


class RequestPlan:
    __slots__ = ("_headers", "_heads", "facts", "forwarded", "method", "route", "target", "timeout")

    def __init__(self, method: str, target: Target, route: Route, facts: Facts, headers: CIMultiDict[str]) -> None:
        """`headers` are those of the client, as far as a backend gets them."""
        self.method = method
        self.target = target
        """As the client asked for it."""
        self.route = route
        self.facts = facts
        self.forwarded = target.forwarded
        """The path and query that a backend gets."""
        self.timeout = READ_SECONDS if route.timeout is None else route.timeout
        if (rewrite := route.rewrite) is not None:
            self.forwarded = changed_target(target, rewrite.path)
            if rewrite.host:
                headers["Host"] = rewrite.host
        if (length := headers.get("Content-Length", "")).startswith("0"):
            headers["Content-Length"] = length.lstrip("0") or "0"
        self._headers = headers
        self._heads: list[tuple[Backend, bytes]] = []

    def headers_for(self, backend: Backend) -> CIMultiDict[str]:
        headers = self._headers.copy()
        change_headers(headers, backend.request)
        return headers

    def head_for(self, backend: Backend, length: int) -> bytes:
        """The head that a backend gets, for a body of this length; the same for all requests of a plan."""
        for known, head in self._heads:
            if known is backend:
                return head
        headers = self.headers_for(backend)
        if "Content-Length" in headers:
            headers["Content-Length"] = str(length)
        head = request_head(self.method, self.forwarded, headers)
        self._heads.append((backend, head))
        return head


def plan_request(
    request: ClientRequest,
    routes: RouteTable | ListenerTables,
    trusted_proxies: Sequence[Network] = (),
    *,
    merge_slashes: bool = True,
) -> RequestPlan | RefusedRequest:
    target = read_target(request.target, request.hosts, old=request.old, merge_slashes=merge_slashes)
    if isinstance(target, BadTarget):
        return RefusedRequest(400, target.value, close=True)
    if routes.uses_details:
        facts = facts_of(request, target)
    else:
        facts = Facts(target.host, target.path, request.method, secure=request.secure, server_name=request.server_name)
    try:
        route = routes.find(facts)
    except MisdirectedRequest as problem:
        return RefusedRequest(421, str(problem))
    if route is None:
        return RefusedRequest(404, f"no Ingress or HTTPRoute has a rule for host {facts.host!r}, path {facts.path!r}")
    client = Client(request.remote, request.secure, target.authority)
    headers = request_headers(request.headers, client, trusted_proxies)
    return RequestPlan(request.method, target, route, facts, headers)


def facts_of(request: ClientRequest, target: Target) -> Facts:
    headers: dict[str, str] = {}
    for key, value in request.headers.items():
        lower = key.lower()
        headers[lower] = f"{headers[lower]},{value}" if lower in headers else value
    query: dict[str, str] = {}
    _, mark, text = request.target.partition("?")
    if mark:
        for key, value in parse_qsl(text, keep_blank_values=True):
            query.setdefault(key, value)
    cookies = _cookies(headers["cookie"]) if "cookie" in headers else {}
    return Facts(target.host, target.path, request.method, headers, query, cookies, request.secure, request.server_name)


def _cookies(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(";"))
    return {name.strip(): value.strip().strip('"') for name, mark, value in pairs if mark}
