"""The two ways to reach an API server: over HTTPS, or by a direct call within the process.

Both take the same `Request` and give the same bytes, so nothing above can tell them apart.
"""

import asyncio
import socket
import ssl
import tempfile
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

import msgspec

from kohort.kube.credentials import Certificate, Credentials
from kohort.kube.errors import Unreachable
from kohort.kube.http import Request, Response, Stream

if TYPE_CHECKING:
    import aiohttp
    import yarl

_ANSWER_SECONDS = 70.0
"""API servers end a request after 60 s with an error; no answer beyond that means a dead connection."""

_REQUESTS_AT_ONCE = 64

Handle = Callable[[Request], Awaitable[Response]]


class InProcessTransport:
    """Calls `handle` directly.

    Every call yields to the event loop once before it reaches the server: a caller that never waits would otherwise
    keep all other tasks from running, which a network never does.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0)
        response = await self._handle(request)
        if isinstance(response.body, bytes):
            return response
        chunks = [chunk async for chunk in response.body]
        return Response(response.status, response.headers, b"".join(chunks))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        await asyncio.sleep(0)
        response = await self._handle(request)
        stream = _Frames(response)
        try:
            yield stream
        finally:
            await stream.close()

    async def close(self) -> None:
        """Nothing is held open."""


class _Frames:
    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _only(self._body) if isinstance(self._body, bytes) else aiter(self._body)

    async def close(self) -> None:
        end = getattr(self._body, "aclose", None)
        if end is not None:
            await end()


async def _only(body: bytes) -> AsyncIterator[bytes]:
    yield body


class Connection(msgspec.Struct, frozen=True):
    """Where an API server is and how to trust it."""

    server: str
    """`https://host:port`, possibly with a path prefix; plain `http://` works too."""
    ca: bytes = b""
    """PEM; empty for the system's authorities."""
    insecure: bool = False
    server_name: str = ""
    """Expected name in the server's certificate, when it is not the host of `server`."""
    proxy: str = ""
    namespace: str = "default"
    """What a command uses when it is given none."""


class HttpsTransport:
    """Connections to one server. Sends what `credentials` say, and asks them again once after a 401.

    Requests share a bounded pool: a burst of a thousand must not open a thousand connections. Streams have an
    unbounded pool, because each of them keeps its connection and none may wait for another to end.
    """

    def __init__(self, connection: Connection, credentials: Credentials | None = None) -> None:
        self.connection = connection
        self.credentials = credentials if credentials is not None else Credentials()
        self._pools: _Pools | None = None
        self._proxy = connection.proxy or _proxy_from_environment(connection.server)

    async def send(self, request: Request) -> Response:
        response = await self._exchange(request)
        if response.status == 401 and self.credentials.reject():
            return await self._exchange(request)
        return response

    async def _exchange(self, request: Request) -> Response:
        import aiohttp

        try:
            timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS, sock_connect=10)
            pools = await self._open()
            async with await self._request(pools.requests, request, timeout) as got:
                return Response(got.status, _lower(got.headers), await got.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise self._unreachable(request, problem) from problem

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        import aiohttp

        endless = aiohttp.ClientTimeout(total=None, sock_connect=10)
        try:
            got = await self._request((await self._open()).streams, request, endless)
            if got.status == 401 and self.credentials.reject():
                got.close()
                got = await self._request((await self._open()).streams, request, endless)
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise self._unreachable(request, problem) from problem
        try:
            yield _Body(got, lambda problem: self._unreachable(request, problem))
        finally:
            # Not release(): an unfinished watch must not wait for its rest, nor go back into the pool.
            got.close()

    async def close(self) -> None:
        pools, self._pools = self._pools, None
        if pools is not None:
            await pools.close()

    async def _request(
        self, session: "aiohttp.ClientSession", request: Request, timeout: "aiohttp.ClientTimeout"
    ) -> "aiohttp.ClientResponse":
        return await session.request(
            request.method,
            self._url(request),
            headers=[*request.headers.items(), *await self.credentials.headers()],
            data=request.body or None,
            timeout=timeout,
            proxy=self._proxy or None,
            server_hostname=self.connection.server_name or None,
            allow_redirects=False,
        )

    def _url(self, request: Request) -> "yarl.URL":
        import yarl

        url = yarl.URL(self.connection.server)
        path = url.path.rstrip("/") + request.path
        return url.with_path(path).with_query(request.query) if request.query else url.with_path(path)

    async def _open(self) -> "_Pools":
        """A changed client certificate needs new connections: they are what is authenticated, not requests."""
        certificate = await self.credentials.certificate()
        outdated = self._pools
        if outdated is not None and outdated.certificate == certificate:
            return outdated
        self._pools = pools = _Pools(self.connection, certificate)
        if outdated is not None:
            await outdated.close()
        return pools

    def _unreachable(self, request: Request, problem: Exception) -> Unreachable:
        import aiohttp

        reason = str(problem) or type(problem).__name__
        text = f"{request.method} {self.connection.server}{request.path}: {reason}"
        unconnected = isinstance(problem, aiohttp.ClientConnectorError) and not isinstance(
            problem, aiohttp.ClientSSLError
        )
        return Unreachable(text, self.connection.server if unconnected else "")


class _Pools:
    def __init__(self, connection: Connection, certificate: Certificate | None) -> None:
        self.certificate = certificate
        secure = connection.server.startswith("https:")
        tls: ssl.SSLContext | Literal[False] = ssl_context(connection, certificate) if secure else False
        self.requests = _session(tls, limit=_REQUESTS_AT_ONCE)
        self.streams = _session(tls, limit=0)

    async def close(self) -> None:
        await self.requests.close()
        await self.streams.close()


def _session(tls: ssl.SSLContext | Literal[False], limit: int) -> "aiohttp.ClientSession":
    import aiohttp

    connector = aiohttp.TCPConnector(limit=limit, keepalive_timeout=60, ssl=tls, socket_factory=_keepalive_socket)
    return aiohttp.ClientSession(connector=connector, skip_auto_headers=("User-Agent", "Content-Type"))


class _Body:
    def __init__(self, got: "aiohttp.ClientResponse", unreachable: Callable[[Exception], Unreachable]) -> None:
        self.status = got.status
        self.headers = _lower(got.headers)
        self._got = got
        self._unreachable = unreachable

    async def __aiter__(self) -> AsyncIterator[bytes]:
        import aiohttp

        try:
            async for chunk in self._got.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise self._unreachable(problem) from problem


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _proxy_from_environment(server: str) -> str:
    address = urllib.parse.urlsplit(server)
    host = address.hostname or ""
    if host == "localhost" or host.startswith("127.") or host == "::1" or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get(address.scheme, "")


def ssl_context(connection: Connection, certificate: Certificate | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=connection.ca.decode() if connection.ca else None)
    # Python 3.13 refuses certificates without an authority key identifier; many clusters have such a CA.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load(context, certificate)
    return context


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    """OpenSSL's interface takes the pair from a file only; it exists for a moment, readable by us alone."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate.chain + b"\n" + certificate.key)
        file.flush()
        context.load_cert_chain(file.name)


def _keepalive_socket(address: "aiohttp.AddrInfoType") -> socket.socket:
    """A watch may be silent for minutes; only TCP keep-alive probes tell a quiet server from a dead connection."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
