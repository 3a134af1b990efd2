"""The reverse proxy.

A request is routed once, when its head has arrived, and stays with its backend to the end: a change of routes or
endpoints never touches what is in flight. Bodies are passed on in both directions as they come, so a stream of tokens
arrives token by token, and a long answer takes no memory here.

| what happened                                     | answer | again?                                            |
|---------------------------------------------------|--------|---------------------------------------------------|
| the target or the Host header is not valid        | 400    |                                                   |
| no route                                          | 404    |                                                   |
| the host belongs to another listener (TLS)        | 421    |                                                   |
| the route cannot be served as written             | 500    |                                                   |
| no Service, or no endpoint that takes requests    | 503    |                                                   |
| no connection to an endpoint                      | 502    | the next endpoint, up to 3: nothing was sent yet  |
| no connection in time                             | 504    | likewise                                          |
| connection lost before an answer                  | 502    | once, if the request may be repeated              |
| no answer in time                                 | 504    | no                                                |
| connection lost within an answer                  | cut    | no: the client must not take it for complete      |
| the client went away                              |        | the backend's connection is closed                |
"""

import asyncio
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from multidict import CIMultiDict

from kohort.cluster.gateway.aiohttp_connection import AiohttpRequest, WebSocketClient, tunnel
from kohort.cluster.gateway.backend_client import (
    AnswerHead,
    AnswerTimeout,
    BackendConnection,
    BackendError,
    BackendPool,
    BadAnswer,
    CannotConnect,
    ConnectionLost,
    ConnectTimeout,
    request_head,
)
from kohort.cluster.gateway.backends import Address, Backends, Dial
from kohort.cluster.gateway.certificates import Certificates
from kohort.cluster.gateway.client_request import ClientRequest, RefusedRequest, change_headers
from kohort.cluster.gateway.forwarded_headers import Client, Network, end_to_end, request_headers
from kohort.cluster.gateway.http1_connection import Http1Connection
from kohort.cluster.gateway.listening_port import ConnectionLimit, ListeningPort
from kohort.cluster.gateway.metrics import CLIENT_GONE, CUT_OFF, PodSeries, RequestMetrics
from kohort.cluster.gateway.path_changes import Redirect, changed_target, location
from kohort.cluster.gateway.request_target import BadTarget, Target, read_target
from kohort.cluster.gateway.route_table import Backend, Facts, MisdirectedRequest, Route, RouteTable
from kohort.kube.log import Log
from kohort.kube.resources import Key
from kohort.kube.tasks import cancel_all

_log = Log(module="kohort.cluster.gateway")

ATTEMPTS: Final = 3
READ_SECONDS: Final = 600.0
"""Between two parts of an answer; models think long."""
IDLE_SECONDS: Final = 75.0
"""After which a connection without a request is closed, or one whose request does not arrive."""
_SWEEP_SECONDS: Final = 5.0
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Settings(msgspec.Struct, frozen=True):
    trusted_proxies: tuple[Network, ...] = ()
    """Clients that are believed what they say about the clients before them."""
    merge_slashes: bool = True
    connections_per_client: int = 2048
    """From one address that is not a trusted proxy."""


DEFAULT_SETTINGS: Final = Settings()


class Observation:
    """The figures of one request."""

    __slots__ = ("_first", "_loop", "_metrics", "_series", "_start", "service")

    def __init__(self, metrics: RequestMetrics) -> None:
        self.service = Key("", "")
        self._metrics = metrics
        self._series: PodSeries | None = None
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._first = 0.0

    def attempt(self, pod: str) -> None:
        """The request is with this pod from now on."""
        if self._series is not None:
            self._metrics.ended(self._series)
        self._series = self._metrics.began(self.service, pod)

    def first_byte(self) -> None:
        if not self._first:
            self._first = self._loop.time()

    def end(self, status: int) -> None:
        now = self._loop.time()
        if self._series is None:
            self._metrics.of(self.service, "").count(status)
            return
        self._series.count(status)
        self._series.total.observe(now - self._start)
        if status != CLIENT_GONE or self._first:
            self._series.first_byte.observe((self._first or now) - self._start)
        self._metrics.ended(self._series)


class Proxy:
    def __init__(
        self,
        backends: Backends,
        *,
        dial: Dial | None = None,
        metrics: RequestMetrics,
        settings: Settings = DEFAULT_SETTINGS,
    ) -> None:
        self._settings = settings
        self._limit = ConnectionLimit(settings.connections_per_client, settings.trusted_proxies)
        self.certificates = Certificates()
        """For the shared port with TLS."""
        self._plain = ListeningPort(self.serve, self._limit)
        self._tls = ListeningPort(self.serve, self._limit, self.certificates)
        self._more: set[ListeningPort] = set()
        self._backends = backends
        self._dial = dial
        self._metrics = metrics
        self._pool = BackendPool()
        self._websockets = WebSocketClient()
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port that all objects share."""
        return self._plain.port

    @property
    def tls_port(self) -> int:
        """0 while nothing is served with TLS."""
        return self._tls.port

    @property
    def table(self) -> RouteTable:
        """Where requests to the shared ports go from now on; replaced as a whole."""
        assert isinstance(self._plain.routes, RouteTable)
        return self._plain.routes

    @table.setter
    def table(self, table: RouteTable) -> None:
        self._plain.routes = self._tls.routes = table

    @property
    def connections(self) -> set[Http1Connection]:
        return self._plain.connections

    async def open(self, host: str, port: int) -> None:
        await self._plain.open(host, port)
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    async def open_tls(self, host: str, port: int) -> None:
        """Beside the other port; which certificates are shown is said any time."""
        await self._tls.open(host, port)

    async def open_listener(self, host: str, port: int, *, secure: bool) -> ListeningPort:
        """A port of a Gateway of its own. Raises OSError."""
        one = ListeningPort(self.serve, self._limit, Certificates() if secure else None)
        await one.open(host, port)
        self._more.add(one)
        return one

    def close_listener(self, port: ListeningPort) -> None:
        """Requests in flight end as they would have otherwise."""
        port.stop_listening()

    async def close(self) -> None:
        """No new requests; those in flight have five seconds to end."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        await asyncio.gather(*(port.close() for port in self._ports()))
        self._more.clear()
        self._pool.close()
        await self._websockets.close()

    def _ports(self) -> list[ListeningPort]:
        return [self._plain, self._tls, *self._more]

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for port in self._ports():
            port.close_idle(loop.time() - IDLE_SECONDS)
            if port.ended:
                self._more.discard(port)
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)

    # One request

    async def serve(self, request: ClientRequest, port: ListeningPort) -> None:
        observation = Observation(self._metrics)
        status = CLIENT_GONE
        try:
            try:
                status = await self._forward(request, port, observation)
            except RefusedRequest as refused:
                await request.refuse(refused)
                status = refused.status
        finally:
            observation.end(status)

    async def _forward(self, request: ClientRequest, port: ListeningPort, observation: Observation) -> int:
        """Returns the status that is counted."""
        merge = self._settings.merge_slashes
        target = read_target(request.target, request.hosts, old=request.old, merge_slashes=merge)
        if isinstance(target, BadTarget):
            raise RefusedRequest(400, target.value, close=True)
        if port.routes.uses_details:
            facts = facts_of(request, target)
        else:
            facts = Facts(
                target.host, target.path, request.method, secure=request.secure, server_name=request.server_name
            )
        try:
            route = port.routes.find(facts)
        except MisdirectedRequest as problem:
            raise RefusedRequest(421, str(problem)) from None
        if route is None:
            text = f"no Ingress or HTTPRoute has a rule for host {facts.host!r}, path {facts.path!r}"
            raise RefusedRequest(404, text)
        if route.redirect is not None:
            return await _redirect(request, route.redirect, target, port.port)
        backend = route.choose(facts)
        if backend is None:
            raise RefusedRequest(500, f"route {route.name} has no backend with a weight")
        observation.service = Key(backend.namespace, backend.service)
        client = Client(request.remote, request.secure, target.authority)
        headers = request_headers(request.headers, client, self._settings.trusted_proxies)
        if (rewrite := route.rewrite) is not None:
            target = target._replace(forwarded=changed_target(target, rewrite.path))
            if rewrite.host:
                headers["Host"] = rewrite.host
        change_headers(headers, backend.request)
        addresses = self._addresses(route, backend)
        if isinstance(request, AiohttpRequest) and request.is_websocket:
            observation.attempt(addresses[0].pod)
            url = f"http://{_host(addresses[0])}{target.forwarded}"
            there = await self._websockets.connect(url, headers, addresses[0])
            if there is not None:
                await tunnel(request, there)
                return 101
        exchange = _Exchange(self._pool, request, target, route, headers)
        try:
            head = await exchange.ask(addresses, observation)
            return await _pass_on(request, exchange, head, backend, observation)
        finally:
            await exchange.close()

    def _addresses(self, route: Route, backend: Backend) -> list[Address]:
        if backend.problem:
            raise RefusedRequest(500, f"route {route.name}: {backend.problem}")
        found = self._backends.of(Key(backend.namespace, backend.service), backend.port)
        where = f"Service {backend.namespace}/{backend.service}"
        if found is None:
            raise RefusedRequest(
                backend.missing_status, f"there is no {where} with port {backend.port} (route {route.name})"
            )
        if not found:
            raise RefusedRequest(503, f"{where} has no ready endpoint (route {route.name})")
        if self._dial is None:
            return found[:ATTEMPTS]
        return [Address(*self._dial(each.host, each.port), each.pod) for each in found[:ATTEMPTS]]


async def _redirect(request: ClientRequest, redirect: Redirect, target: Target, port: int) -> int:
    where = location(redirect, target, secure=request.secure, port=port)
    await request.begin(
        redirect.status, "", CIMultiDict({"Server": "kohort", "Location": where, "Content-Length": "0"}), bodiless=True
    )
    await request.end()
    return redirect.status


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


def _host(address: Address) -> str:
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"


class _Exchange:
    """A request on its way to a backend, and the connection that carries it."""

    def __init__(
        self, pool: BackendPool, request: ClientRequest, target: Target, route: Route, headers: CIMultiDict[str]
    ) -> None:
        self._pool = pool
        self._request = request
        self._route = route
        self._timeout = route.timeout if route.timeout is not None else READ_SECONDS
        self._target = target
        self._headers = headers
        self._body = request.ready_body()
        """The whole body, if it is here; otherwise it is sent as it comes."""
        self._sending: asyncio.Task[None] | None = None
        self._framed = False
        self.connection: BackendConnection | None = None
        if self._body is None:
            self._framed = "Content-Length" not in headers
            if self._framed:
                headers["Transfer-Encoding"] = "chunked"
        elif "Content-Length" in headers:
            headers["Content-Length"] = str(len(self._body))

    async def ask(self, addresses: list[Address], observation: Observation) -> AnswerHead:
        """The head of the answer of the first endpoint that gives one."""
        method = self._request.method
        repeatable = method in _REPEATABLE and not self._request.has_body
        refused = RefusedRequest(502, "no endpoint")
        for number, address in enumerate(addresses):
            observation.attempt(address.pod)
            where = _host(address)
            try:
                return await self._ask_one(address, repeatable=repeatable)
            except ConnectTimeout as problem:
                refused = RefusedRequest(504, f"no connection to {where}: {problem}")
            except CannotConnect as problem:
                refused = RefusedRequest(502, f"no connection to {where}: {problem}")
            except AnswerTimeout:
                raise RefusedRequest(504, f"no answer from {where} in time (route {self._route.name})") from None
            except BadAnswer as problem:
                raise RefusedRequest(502, f"{where} gave no proper answer: {problem}") from None
            except ConnectionLost as problem:
                refused = RefusedRequest(502, f"connection to {where} lost before an answer: {problem}")
                if not repeatable or number > 0:
                    break
        raise refused

    async def _ask_one(self, address: Address, *, repeatable: bool) -> AnswerHead:
        kept = self._pool.idle(address)
        connection = kept if kept is not None else await self._pool.connect(address)
        try:
            return await self._send(connection)
        except ConnectionLost:
            await self.close()
            if kept is None or not repeatable:
                raise
        # The server closed a connection that was idle just as the request went out.
        return await self._send(await self._pool.connect(address))

    async def _send(self, connection: BackendConnection) -> AnswerHead:
        self.connection = connection
        head = request_head(self._request.method, self._target.forwarded, self._headers)
        connection.send(head + self._body if self._body else head)
        if self._body is None:
            self._sending = asyncio.ensure_future(self._send_body(connection))
        return await connection.head(self._request.method, self._timeout)

    async def _send_body(self, connection: BackendConnection) -> None:
        """Until its end, or until the backend does not take any more: its answer says why."""
        try:
            while part := await self._request.read():
                await connection.send_part(b"%x\r\n%b\r\n" % (len(part), part) if self._framed else part)
            if self._framed:
                connection.send(b"0\r\n\r\n")
        except BackendError:
            return
        except ConnectionError:
            # Half a body must not look like a whole one.
            connection.close()

    async def close(self) -> None:
        sending, self._sending = self._sending, None
        unfinished = sending is not None and not sending.done()
        if sending is not None:
            await cancel_all(sending)
        connection, self.connection = self.connection, None
        if connection is not None:
            if unfinished:
                connection.close()
            self._pool.give_back(connection)


async def _pass_on(
    request: ClientRequest, exchange: _Exchange, head: AnswerHead, backend: Backend, observation: Observation
) -> int:
    connection = exchange.connection
    assert connection is not None
    headers = end_to_end(head.headers)
    headers.setdefault("Server", "kohort")
    change_headers(headers, backend.response)
    bodiless = request.method == "HEAD" or head.status in (204, 304)
    if "Transfer-Encoding" in head.headers:
        headers.popall("Content-Length", None)
    await request.begin(head.status, head.reason, headers, bodiless=bodiless)
    try:
        while True:
            part = connection.read_now()
            if part is None:
                request.flush()
                part = await connection.read()
            if not part:
                break
            observation.first_byte()
            await request.write(part)
    except BackendError as problem:
        _log.debug("answer of a backend was cut off", problem=str(problem))
        request.cut()
        return CUT_OFF
    await request.end()
    return head.status
