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
from typing import Final, Protocol

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
from kohort.cluster.gateway.backends import Address, Dial
from kohort.cluster.gateway.certificates import Certificates
from kohort.cluster.gateway.client_request import ClientRequest, RefusedRequest, answer_headers, is_bodiless
from kohort.cluster.gateway.direct_exchange import DirectAnswers, DirectExchange
from kohort.cluster.gateway.forwarded_headers import Network
from kohort.cluster.gateway.http1_connection import Http1Connection, SimpleHead
from kohort.cluster.gateway.listening_port import ConnectionLimit, ListeningPort
from kohort.cluster.gateway.metrics import CLIENT_GONE, CUT_OFF, Observation, RequestMetrics
from kohort.cluster.gateway.path_changes import Redirect, location
from kohort.cluster.gateway.request_plan import RequestPlan, plan_request
from kohort.cluster.gateway.request_target import Target
from kohort.cluster.gateway.request_turn import BackendTurn, RedirectTurn, RefusedTurn, RequestTurn
from kohort.cluster.gateway.route_table import Backend, Route, RouteTable
from kohort.kube.log import Log
from kohort.kube.resources import Key
from kohort.kube.tasks import cancel_all

_log = Log(module="kohort.cluster.gateway")

ATTEMPTS: Final = 3
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


class Endpoints(Protocol):
    """Where the pods of Services are."""

    def of(self, key: Key, port: int | str) -> list[Address] | None:
        """The address whose turn it is, then the others. None if there is no such Service or port."""


class Proxy:
    def __init__(
        self,
        backends: Endpoints,
        *,
        dial: Dial | None = None,
        metrics: RequestMetrics,
        settings: Settings = DEFAULT_SETTINGS,
    ) -> None:
        self._settings = settings
        self._limit = ConnectionLimit(settings.connections_per_client, settings.trusted_proxies)
        self.certificates = Certificates()
        """For the shared port with TLS."""
        self._plain = ListeningPort(self, self._limit)
        self._tls = ListeningPort(self, self._limit, self.certificates)
        self._more: set[ListeningPort] = set()
        self._backends = backends
        self._dial = dial
        self._metrics = metrics
        self._pool = BackendPool()
        self._answers = DirectAnswers()
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
        one = ListeningPort(self, self._limit, Certificates() if secure else None)
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
        self._answers.turn()
        for port in self._ports():
            port.known_heads.turn()
            port.close_idle(loop.time() - IDLE_SECONDS)
            if port.ended:
                self._more.discard(port)
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)

    # One request

    def plan(self, request: ClientRequest, port: ListeningPort) -> RequestPlan | RefusedRequest:
        settings = self._settings
        return plan_request(request, port.routes, settings.trusted_proxies, merge_slashes=settings.merge_slashes)

    def begin(self, client: Http1Connection, head: SimpleHead, body: bytes | None) -> DirectExchange | RequestTurn:
        """Send a request whose body is here, if a connection to its backend is idle; otherwise a task has to."""
        turn = self._take_turn(head.plan)
        if body is None or not isinstance(turn, BackendTurn):
            return turn
        address = turn.addresses[0]
        connection = self._pool.idle(address)
        if connection is None:
            return turn
        turn.observation.attempt(address.pod)
        exchange = DirectExchange(client, turn, connection, self._pool, self._answers, keep_alive=head.keep_alive)
        sent = turn.plan.head_for(turn.backend, len(body))
        connection.send(sent + body if body else sent)
        connection.expect(turn.plan.timeout, exchange)
        return exchange

    async def serve(self, request: ClientRequest, port: ListeningPort, turn: RequestTurn | None = None) -> None:
        """`turn` is given if the request took it already."""
        if turn is None:
            turn = self._take_turn(self.plan(request, port))
        status = CLIENT_GONE
        try:
            try:
                status = await self._forward(request, port, turn)
            except RefusedRequest as refused:
                await request.refuse(refused)
                status = refused.status
        finally:
            turn.observation.end(status)

    def _take_turn(self, plan: RequestPlan | RefusedRequest) -> RequestTurn:
        """Each request takes one turn between the backends of its route, however it ends."""
        observation = Observation(self._metrics)
        if isinstance(plan, RefusedRequest):
            return RefusedTurn(plan, observation)
        route = plan.route
        if route.redirect is not None:
            return RedirectTurn(route.redirect, plan.target, observation)
        backend = route.choose(plan.facts)
        if backend is None:
            return RefusedTurn(RefusedRequest(500, f"route {route.name} has no backend with a weight"), observation)
        observation.service = service = Key(backend.namespace, backend.service)
        addresses = self._addresses(route, backend, service)
        if isinstance(addresses, RefusedRequest):
            return RefusedTurn(addresses, observation)
        return BackendTurn(plan, backend, addresses, observation)

    async def _forward(self, request: ClientRequest, port: ListeningPort, turn: RequestTurn) -> int:
        """Returns the status that is counted."""
        if isinstance(turn, RefusedTurn):
            raise turn.refused
        if isinstance(turn, RedirectTurn):
            return await _redirect(request, turn.redirect, turn.target, port.port)
        if isinstance(request, AiohttpRequest) and request.is_websocket:
            address = turn.addresses[0]
            turn.observation.attempt(address.pod)
            url = f"http://{_host(address)}{turn.plan.forwarded}"
            there = await self._websockets.connect(url, turn.plan.headers_for(turn.backend), address)
            if there is not None:
                await tunnel(request, there)
                return 101
        exchange = _Exchange(self._pool, request, turn)
        try:
            head = await exchange.ask()
            return await _pass_on(request, exchange, head, turn)
        finally:
            await exchange.close()

    def _addresses(self, route: Route, backend: Backend, service: Key) -> list[Address] | RefusedRequest:
        if backend.problem:
            return RefusedRequest(500, f"route {route.name}: {backend.problem}")
        found = self._backends.of(service, backend.port)
        if not found:
            where = f"Service {backend.namespace}/{backend.service}"
            if found is None:
                text = f"there is no {where} with port {backend.port} (route {route.name})"
                return RefusedRequest(backend.missing_status, text)
            return RefusedRequest(503, f"{where} has no ready endpoint (route {route.name})")
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


def _host(address: Address) -> str:
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"


class _Exchange:
    """A request on its way to a backend, and the connection that carries it."""

    def __init__(self, pool: BackendPool, request: ClientRequest, turn: BackendTurn) -> None:
        self._pool = pool
        self._request = request
        self._turn = turn
        self._body = request.ready_body()
        """The whole body, if it is here; otherwise it is sent as it comes."""
        self._sending: asyncio.Task[None] | None = None
        self._framed = False
        self.connection = turn.sent
        if self._body is not None:
            self._head = turn.plan.head_for(turn.backend, len(self._body))
        else:
            headers = turn.plan.headers_for(turn.backend)
            self._framed = "Content-Length" not in headers
            if self._framed:
                headers["Transfer-Encoding"] = "chunked"
            self._head = request_head(turn.plan.method, turn.plan.forwarded, headers)

    async def ask(self) -> AnswerHead:
        """The head of the answer of the first endpoint that gives one."""
        repeatable = self._request.method in _REPEATABLE and not self._request.has_body
        route = self._turn.plan.route
        refused = RefusedRequest(502, "no endpoint")
        for number, address in enumerate(self._turn.addresses):
            sent = self._turn.sent if number == 0 else None
            if sent is None:
                self._turn.observation.attempt(address.pod)
            where = _host(address)
            try:
                return await self._ask_one(address, sent, repeatable=repeatable)
            except ConnectTimeout as problem:
                refused = RefusedRequest(504, f"no connection to {where}: {problem}")
            except CannotConnect as problem:
                refused = RefusedRequest(502, f"no connection to {where}: {problem}")
            except AnswerTimeout:
                raise RefusedRequest(504, f"no answer from {where} in time (route {route.name})") from None
            except BadAnswer as problem:
                raise RefusedRequest(502, f"{where} gave no proper answer: {problem}") from None
            except ConnectionLost as problem:
                refused = RefusedRequest(502, f"connection to {where} lost before an answer: {problem}")
                if not repeatable or number > 0:
                    break
        raise refused

    async def _ask_one(self, address: Address, sent: BackendConnection | None, *, repeatable: bool) -> AnswerHead:
        kept = sent if sent is not None else self._pool.idle(address)
        connection = kept if kept is not None else await self._pool.connect(address)
        try:
            if sent is not None:
                return await sent.head(self._request.method)
            return await self._send(connection)
        except ConnectionLost:
            await self.close()
            if kept is None or not repeatable:
                raise
        # The server closed a connection that was idle just as the request went out.
        return await self._send(await self._pool.connect(address))

    async def _send(self, connection: BackendConnection) -> AnswerHead:
        self.connection = connection
        connection.send(self._head + self._body if self._body else self._head)
        if self._body is None:
            self._sending = asyncio.ensure_future(self._send_body(connection))
        connection.expect(self._turn.plan.timeout)
        return await connection.head(self._request.method)

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


async def _pass_on(request: ClientRequest, exchange: _Exchange, head: AnswerHead, turn: BackendTurn) -> int:
    connection = exchange.connection
    assert connection is not None
    headers = answer_headers(head.headers, turn.backend.response)
    bodiless = is_bodiless(request.method, head.status)
    await request.begin(head.status, head.reason, headers, bodiless=bodiless)
    try:
        while True:
            part = connection.read_now()
            if part is None:
                request.flush()
                part = await connection.read()
            if not part:
                break
            turn.observation.first_byte()
            await request.write(part)
    except BackendError as problem:
        _log.debug("answer of a backend was cut off", problem=str(problem))
        request.cut()
        return CUT_OFF
    await request.end()
    return head.status
