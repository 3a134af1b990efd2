"""The HTTPS server: TLS and HTTP/1.1 in front of the API server, without rules of Kubernetes.

A request is translated into `kohort.kube.http.Request` and its answer back. Connections begin in
`simple_connection.py`, which reads simple requests; a connection that sends any other is handed over to
`aiohttp_fallback.py`. Both get their answers here.
"""

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from kohort.cluster.apiserver.http.body_budget import ReadDeadlines
from kohort.cluster.apiserver.http.listener import Listener
from kohort.cluster.apiserver.http.node_client import HttpsNodeClient
from kohort.cluster.apiserver.http.request_target import split_target
from kohort.cluster.apiserver.http.request_turns import FairHandler
from kohort.cluster.apiserver.http.response_writer import ResponseWriter
from kohort.cluster.apiserver.http.simple_connection import Authenticate, Certificate, Connection
from kohort.cluster.apiserver.http.simple_request import SimpleRequest
from kohort.cluster.apiserver.http.stream_pacing import StreamRounds
from kohort.cluster.apiserver.http.tls import TlsProtocolFactory
from kohort.cluster.apiserver.server import ApiServer, failure_response
from kohort.kube import errors
from kohort.kube.http import Request, Response
from kohort.kube.log import Log

if TYPE_CHECKING:
    from kohort.cluster.apiserver.http.aiohttp_fallback import AiohttpFallback

GZIP_FROM: Final = 128 * 1024
GZIP_ELSEWHERE: Final = 1024 * 1024
"""Bytes from which on compressing takes so long that it is done in another thread."""
IDLE_SECONDS: Final = 180.0
"""After which a connection without a request is closed."""
IDLE_LOOK: Final = 30.0
LAST_ANSWERS: Final = 2.0
"""Seconds that running requests have when the server stops."""


class HttpsServer:
    """A listening API server. `port` is known once it is started."""

    def __init__(
        self,
        server: ApiServer,
        authenticate: Authenticate,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        nodes: HttpsNodeClient | None = None,
        deadlines: ReadDeadlines | None = None,
    ) -> None:
        """`nodes` is where exec, attach and port-forward lead."""
        self._server = server
        self._turns = FairHandler(server.handle)
        self._authenticate = authenticate
        self._host = host
        self._tls = tls
        self._nodes = nodes
        self._deadlines = deadlines or ReadDeadlines()
        self._listening: Listener | None = None
        self._fallback: AiohttpFallback | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._streams: set[asyncio.Task[None]] = set()
        self._rounds = StreamRounds()
        self._log = Log(part="front")
        self.connections: set[Connection] = set()
        self.port = port

    async def start(self) -> None:
        loop = asyncio.get_running_loop()

        def connection() -> Connection:
            return Connection(self, self._any_request, self._log)

        protocol = TlsProtocolFactory(self._tls, connection) if self._tls is not None else connection
        self._listening = Listener(protocol, self._log)
        self.port = await self._listening.open(self._host, self.port)
        self._idle_timer = loop.call_later(IDLE_LOOK, self._close_idle, loop)

    async def stop(self) -> None:
        """End all streams cleanly, let running requests finish, close."""
        if self._listening is None:
            return
        self._listening.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for stream in list(self._streams):
            stream.cancel()
        tasks = [one.task for one in self.connections if one.task is not None]
        for connection in list(self.connections):
            connection.close()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LAST_ANSWERS)
            for task in late:
                task.cancel()
        if self._fallback is not None:
            await self._fallback.protocols.shutdown(LAST_ANSWERS)

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        before = loop.time() - IDLE_SECONDS
        for connection in [one for one in self.connections if one.task is None and one.idle_since < before]:
            connection.close()
        self._idle_timer = loop.call_later(IDLE_LOOK, self._close_idle, loop)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def serve(self, simple: SimpleRequest, writer: ResponseWriter, certificate: Certificate | None) -> None:
        """Answer a simple request."""
        request = Request(simple.method, "/", (), simple.headers)
        try:
            path, query = split_target(simple.target)
            request = Request(simple.method, path, query, simple.headers, simple.body)
            user = self._authenticate(simple.headers, certificate)
            response = await self._turns.handle(request, user)
        except errors.ApiError as error:
            response = failure_response(request, error)
        await self._send(writer, request, response)

    def _any_request(self) -> asyncio.Protocol:
        """What reads requests that are not simple."""
        if self._fallback is None:
            from kohort.cluster.apiserver.http.aiohttp_fallback import AiohttpFallback

            self._fallback = AiohttpFallback(
                self._server, self._turns, self._authenticate, self._send, self._nodes, IDLE_SECONDS, self._deadlines
            )
        return self._fallback.protocol()

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _send(self, writer: ResponseWriter, request: Request, response: Response) -> None:
        body, headers = response.body, response.headers
        if not isinstance(body, bytes):
            await self._stream(writer, request, response, body)
            return
        if len(body) > GZIP_FROM and "gzip" in request.headers.get("accept-encoding", ""):
            if len(body) > GZIP_ELSEWHERE:
                body = await asyncio.get_running_loop().run_in_executor(None, gzip.compress, body, 1)
            else:
                body = gzip.compress(body, 1)
            headers = {**headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
        await writer.answer(response.status, headers, body)

    async def _stream(
        self, writer: ResponseWriter, request: Request, response: Response, frames: AsyncIterator[bytes]
    ) -> None:
        writer.begin(response.status, response.headers)
        pump = asyncio.ensure_future(writer.pump(frames, self._rounds))
        self._streams.add(pump)
        self._rounds.streams = len(self._streams)
        try:
            await pump
        except asyncio.CancelledError:
            if not pump.cancelled() or writer.closing:
                pump.cancel()
                raise
        except ConnectionError as problem:
            self._log.debug("stream dropped", path=request.path, problem=str(problem))
            raise
        finally:
            self._streams.discard(pump)
            self._rounds.streams = len(self._streams)
        with contextlib.suppress(ConnectionError):
            writer.end()
