"""HTTPS to aggregated API servers.

They are verified by the `caBundle` of their APIService and the name of their Service, and shown the client certificate
of the front proxy: the aggregated server believes its holder about who the caller is.
"""

import asyncio
import base64
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import msgspec

from kohort.cluster.apiserver.outgoing.connections import (
    CALLERS_OWN,
    CONNECT_TIMEOUT,
    connection_problem,
    open_session,
    passed_on,
)
from kohort.kube.http import Request, Response

if TYPE_CHECKING:
    import aiohttp

MAX_CONTEXTS: Final = 64

Headers = Sequence[tuple[str, str]]


class RemoteFailed(OSError):
    """The server could not be asked; says why."""


class RemoteAddress(msgspec.Struct, frozen=True):
    host: str
    port: int
    name: str
    """What its certificate must say."""
    ca_bundle: str = ""
    insecure: bool = False
    """Whether its certificate is not looked at."""


class RemoteServers:
    def __init__(self, certificate: str = "", key: str = "") -> None:
        """`certificate` and `key` are files with the identity of the front proxy."""
        self._certificate = certificate
        self._key = key
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def forget_certificates(self) -> None:
        """Show the client certificate that is in its file now to servers that are asked from now on."""
        self._contexts.clear()

    async def send(self, address: RemoteAddress, request: Request, headers: Headers) -> Response:
        """The answer of a server, as a stream. Raises RemoteFailed."""
        import aiohttp

        host = f"[{address.host}]" if ":" in address.host else address.host
        query = f"?{urlencode(request.query)}" if request.query else ""
        url = f"https://{host}:{address.port}{quote(request.path)}{query}"
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                answer = await self._connections().request(
                    request.method,
                    url,
                    headers=[*headers, ("host", address.name)],
                    data=request.body or None,
                    ssl=self._context(address),
                    server_hostname=None if address.insecure else address.name,
                    allow_redirects=False,
                    skip_auto_headers=CALLERS_OWN,
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise RemoteFailed(connection_problem(problem, address.host, address.port)) from None
        return passed_on(answer)

    def _connections(self) -> "aiohttp.ClientSession":
        if self._session is None:
            self._session = open_session()
        return self._session

    def _context(self, address: RemoteAddress) -> ssl.SSLContext:
        key = (address.ca_bundle, address.insecure)
        known = self._contexts.get(key)
        if known is not None:
            return known
        if len(self._contexts) >= MAX_CONTEXTS:
            self._contexts.pop(next(iter(self._contexts)))
        context = self._contexts[key] = _trust(address)
        if self._certificate:
            context.load_cert_chain(self._certificate, self._key or None)
        return context


def _trust(address: RemoteAddress) -> ssl.SSLContext:
    if address.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if not address.ca_bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(address.ca_bundle, validate=True).decode())
    except (ValueError, ssl.SSLError):
        raise RemoteFailed("the caBundle of the APIService is not a PEM certificate") from None
