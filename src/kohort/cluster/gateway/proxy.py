"""The reverse proxy.

A request is routed once, when its head has arrived, and stays with its backend to the end: a change of routes or
endpoints never touches what is in flight. Bodies are passed on in both directions as they come, so a stream of tokens
arrives token by token, and a long answer takes no memory here.

| what happened                                     | answer | again?                                            |
|---------------------------------------------------|--------|---------------------------------------------------|
| the target or the Host header is not valid        | 400    |                                                   |
| no route                                          | 404    |                                                   |
| the route cannot be served as written             | 500    |                                                   |
| no Service, or no endpoint that takes requests    | 503    |                                                   |
| no connection to an endpoint                      | 502    | the next endpoint, up to 3: nothing was sent yet  |
| no connection in time                             | 504    | likewise                                          |
| connection lost before an answer                  | 502    | once, if the request may be repeated              |
| no answer in time                                 | 504    | no                                                |
| connection lost within an answer                  | cut    | no: the client must not take it for complete      |
| the client went away                              |        | the backend's connection is closed                |

Idle connections to backends are kept for a few seconds only, shorter than common servers keep theirs (5 s): a request
on a connection that the server is just closing would be lost, and one that is not idempotent could not be repeated.
"""

import asyncio
import contextlib
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from aiohttp import (
    ClientConnectionError,
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ClientWebSocketResponse,
    ConnectionTimeoutError,
    DummyCookieJar,
    HttpVersion11,
    ServerDisconnectedError,
    ServerTimeoutError,
    TCPConnector,
    WSMsgType,
    WSServerHandshakeError,
    web,
)
from multidict import CIMultiDict
from yarl import URL

from kohort.cluster.gateway.backends import Address, Backends, Dial
from kohort.cluster.gateway.certificates import Certificates
from kohort.cluster.gateway.forwarded_headers import Client, Network, end_to_end, request_headers
from kohort.cluster.gateway.metrics import CLIENT_GONE, CUT_OFF, PodSeries, RequestMetrics
from kohort.cluster.gateway.request_target import BadTarget, Target, read_target
from kohort.cluster.gateway.route_table import Backend, Facts, HeaderChange, Route, RouteTable
from kohort.kube.log import Log
from kohort.kube.resources import Key
from kohort.kube.tasks import cancel_all

_log = Log(module="kohort.cluster.gateway")

ATTEMPTS: Final = 3
CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 600.0
"""Between two parts of an answer; models think long."""
KEPT_SECONDS: Final = 4.0
_WEBSOCKET_OWN: Final = frozenset({"sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions"})
_SERVER: Final = {"Server": "kohort"}
_PROTOCOL: Final = "Sec-WebSocket-Protocol"
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Settings(msgspec.Struct, frozen=True):
    trusted_proxies: tuple[Network, ...] = ()
    """Clients that are believed what they say about the clients before them."""
    merge_slashes: bool = True


DEFAULT_SETTINGS: Final = Settings()


class Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Observation:
    """The figures of one request."""

    __slots__ = ("_first", "_metrics", "_series", "_start", "service", "status")

    def __init__(self, metrics: RequestMetrics) -> None:
        self.service = Key("", "")
        self.status = 0
        """What is counted instead of the status that the client saw; 0: that one."""
        self._metrics = metrics
        self._series: PodSeries | None = None
        self._start = asyncio.get_running_loop().time()
        self._first = 0.0

    def attempt(self, pod: str) -> None:
        """The request is with this pod from now on."""
        if self._series is not None:
            self._metrics.ended(self._series)
        self._series = self._metrics.began(self.service, pod)

    def first_byte(self) -> None:
        if not self._first:
            self._first = asyncio.get_running_loop().time()

    def end(self, status: int) -> None:
        now = asyncio.get_running_loop().time()
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
        self.table = RouteTable()
        """Where requests go from now on; replaced as a whole."""
        self.port = 0
        self.tls_port = 0
        """0 while nothing is served with TLS."""
        self.certificates = Certificates()
        self._backends = backends
        self._dial = dial
        self._metrics = metrics
        self._runner: web.ServerRunner | None = None
        self._session: ClientSession | None = None

    async def open(self, host: str, port: int) -> None:
        connector = TCPConnector(limit=0, keepalive_timeout=KEPT_SECONDS)
        self._session = ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=5.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def open_tls(self, host: str, port: int) -> None:
        """Beside the other port; which certificates are shown is said any time."""
        assert self._runner is not None
        known = {address[1] for address in self._runner.addresses}
        await web.TCPSite(self._runner, host, port, ssl_context=self.certificates.context).start()
        self.tls_port = next(address[1] for address in self._runner.addresses if address[1] not in known)

    async def close(self) -> None:
        """No new requests; those in flight have five seconds to end."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    # One request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        target = read_target(
            request.raw_path,
            request.headers.getall("Host", []),
            old=request.version < HttpVersion11,
            merge_slashes=self._settings.merge_slashes,
        )
        if isinstance(target, BadTarget):
            return web.Response(status=400, text=f"{target.value}\n", headers={**_SERVER, "Connection": "close"})
        observation = Observation(self._metrics)
        status = CLIENT_GONE
        try:
            response = await self._answer(request, target, observation)
            status = observation.status or response.status
            return response
        except ConnectionError:
            return web.Response(status=CLIENT_GONE)
        finally:
            observation.end(status)

    async def _answer(self, request: web.BaseRequest, target: Target, observation: "Observation") -> web.StreamResponse:
        facts = facts_of(request, target)
        route = self.table.find(facts)
        backend = None if route is None else route.choose(facts)
        try:
            if route is None:
                raise Refusal(404, f"no Ingress or HTTPRoute has a rule for host {facts.host!r}, path {facts.path!r}")
            if backend is None:
                raise Refusal(503, f"route {route.name} has no backend with a weight")
            observation.service = Key(backend.namespace, backend.service)
            return await self._forward(request, target, route, backend, observation)
        except Refusal as refusal:
            return web.Response(status=refusal.status, text=f"{refusal.text}\n", headers=_SERVER)

    async def _forward(
        self, request: web.BaseRequest, target: Target, route: Route, backend: Backend, observation: "Observation"
    ) -> web.StreamResponse:
        client = Client(request.remote or "", request.secure, target.authority)
        headers = request_headers(request.headers, client, self._settings.trusted_proxies)
        changed(headers, backend.request)
        targets = self._targets(route, backend)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            there = await self._connect(target, targets, headers, observation)
            if there is not None:
                return await _tunnel(request, there)
        answer = await self._ask(request, target, route, targets, headers, observation)
        try:
            return await _pass_on(request, answer, backend.response, observation)
        finally:
            answer.release()

    def _targets(self, route: Route, backend: Backend) -> list[Address]:
        if backend.problem:
            raise Refusal(500, f"route {route.name}: {backend.problem}")
        found = self._backends.of(Key(backend.namespace, backend.service), backend.port)
        where = f"Service {backend.namespace}/{backend.service}"
        if found is None:
            raise Refusal(503, f"there is no {where} with port {backend.port} (route {route.name})")
        if not found:
            raise Refusal(503, f"{where} has no ready endpoint (route {route.name})")
        if self._dial is None:
            return found[:ATTEMPTS]
        return [Address(*self._dial(each.host, each.port), each.pod) for each in found[:ATTEMPTS]]

    async def _ask(
        self,
        request: web.BaseRequest,
        target: Target,
        route: Route,
        addresses: list[Address],
        headers: CIMultiDict[str],
        observation: "Observation",
    ) -> ClientResponse:
        """The head of the answer of the first endpoint that gives one."""
        assert self._session is not None
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        timeout = _timeout(route)
        refusal = Refusal(502, "no endpoint")
        repeatable = request.method in _REPEATABLE and not request.body_exists
        for number, address in enumerate(addresses):
            observation.attempt(address.pod)
            try:
                return await self._session.request(
                    request.method,
                    _url(address, target),
                    headers=headers,
                    data=request.content if request.body_exists else None,
                    allow_redirects=False,
                    timeout=timeout,
                )
            except ConnectionTimeoutError:
                refusal = Refusal(504, f"no connection to {_text(address)} within {CONNECT_SECONDS:g} s")
            except ClientConnectorError as problem:
                refusal = Refusal(502, f"no connection to {_text(address)}: {problem.os_error}")
            except ServerTimeoutError:
                raise Refusal(504, f"no answer from {_text(address)} in time (route {route.name})") from None
            except TimeoutError:
                raise Refusal(504, f"no answer from {_text(address)} in time (route {route.name})") from None
            except (ServerDisconnectedError, ClientConnectionError) as problem:
                refusal = Refusal(502, f"connection to {_text(address)} lost before an answer: {problem}")
                if not repeatable or number > 0:
                    break
            except ClientError as problem:
                raise Refusal(502, f"{_text(address)} gave no proper answer: {problem}") from None
        raise refusal

    # WebSockets

    async def _connect(
        self, target: Target, addresses: list[Address], headers: CIMultiDict[str], observation: "Observation"
    ) -> ClientWebSocketResponse | None:
        """None if the backend does not want a WebSocket here; then it is asked as for any page."""
        assert self._session is not None
        own = CIMultiDict(headers)
        offered = [name.strip() for line in own.popall(_PROTOCOL, []) for name in line.split(",")]
        for name in _WEBSOCKET_OWN:
            own.popall(name, None)
        refusal = Refusal(502, "no endpoint")
        for address in addresses:
            observation.attempt(address.pod)
            try:
                return await self._session.ws_connect(
                    _url(address, target),
                    headers=own,
                    protocols=offered,
                    autoping=False,
                    autoclose=False,
                    max_msg_size=0,
                )
            except WSServerHandshakeError:
                return None
            except ConnectionTimeoutError:
                refusal = Refusal(504, f"no connection to {_text(address)} within {CONNECT_SECONDS:g} s")
            except ClientError as problem:
                refusal = Refusal(502, f"no connection to {_text(address)}: {problem}")
        raise refusal


# Heads


def facts_of(request: web.BaseRequest, target: Target) -> Facts:
    headers: dict[str, str] = {}
    for key, value in request.headers.items():
        lower = key.lower()
        headers[lower] = f"{headers[lower]},{value}" if lower in headers else value
    query: dict[str, str] = {}
    if request.query_string:
        for key, value in parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True):
            query.setdefault(key, value)
    cookies = request.cookies if "cookie" in headers else {}
    return Facts(target.host, target.path, request.method, headers, query, cookies, request.secure)


def changed(headers: CIMultiDict[str], change: HeaderChange) -> None:
    for name in change.remove:
        headers.popall(name, None)
    for name, value in change.set:
        headers[name] = value
    for name, value in change.add:
        headers.add(name, value)


def _url(address: Address, target: Target) -> URL:
    name = f"[{address.host}]" if ":" in address.host else address.host
    return URL(f"http://{name}:{address.port}{target.forwarded}", encoded=True)


def _text(address: Address) -> str:
    return f"{address.host}:{address.port}"


def _timeout(route: Route) -> ClientTimeout:
    read = route.timeout if route.timeout is not None else READ_SECONDS
    return ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=read)


# Bodies


async def _pass_on(
    request: web.BaseRequest, answer: ClientResponse, change: HeaderChange, observation: Observation
) -> web.StreamResponse:
    headers = end_to_end(answer.headers)
    headers.setdefault("Server", "kohort")
    changed(headers, change)
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    try:
        await response.prepare(request)
        async for part in answer.content.iter_any():
            observation.first_byte()
            await response.write(part)
        await response.write_eof()
    except (ClientError, TimeoutError) as problem:
        _log.debug("answer of a backend was cut off", problem=str(problem))
        observation.status = CUT_OFF
        _cut(request)
    return response


def _cut(request: web.BaseRequest) -> None:
    """End the connection without the end of the body."""
    if request.transport is not None:
        request.transport.abort()


async def _tunnel(request: web.BaseRequest, there: ClientWebSocketResponse) -> web.StreamResponse:
    """Messages in both directions, until one side closes."""
    protocols = [there.protocol] if there.protocol else ()
    here = web.WebSocketResponse(protocols=protocols, autoping=False, max_msg_size=0, compress=False)
    try:
        await here.prepare(request)
        pumps = [asyncio.ensure_future(_pump(here, there)), asyncio.ensure_future(_pump(there, here))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(*pumps)
    finally:
        await there.close()
        await here.close()
    return here


async def _pump(
    source: web.WebSocketResponse | ClientWebSocketResponse, sink: web.WebSocketResponse | ClientWebSocketResponse
) -> None:
    while True:
        message = await source.receive()
        if message.type == WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type == WSMsgType.BINARY:
            await sink.send_bytes(message.data)
        elif message.type == WSMsgType.PING:
            await sink.ping(message.data)
        elif message.type == WSMsgType.PONG:
            await sink.pong(message.data)
        else:
            with contextlib.suppress(ConnectionError, ClientError):
                code = message.data if message.type == WSMsgType.CLOSE and message.data else 1000
                await sink.close(code=code, message=(message.extra or "").encode())
            return
