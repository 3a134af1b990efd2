"""Fetches metrics and posts notifications over HTTP, within bounds.

The addresses come from users of a cluster, and the operator has rights that they lack. So a request never follows a
redirect, takes no proxy from the environment, reads a bounded answer in a bounded time, sends a token only to the
address it was given for, and is not made to a loopback address, nor to a link-local one or another one where clouds
serve credentials. A name is resolved once, and the connection goes to the address that was checked.

| address | pods | Prometheus, notifications | the embedded gateway |
|---|---|---|---|
| of a pod (`rules.pod_addresses`) | yes | yes | yes |
| loopback | only those of pods | only with the feature gate `AnalysisOfLoopback` | yes |
| link-local, multicast, unspecified, metadata of a cloud | no | no | no |
| IPv6 that carries IPv4 (mapped, NAT64, 6to4, Teredo) | mapped: as the one inside | as the one inside | the same |
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from kohort.rules.pod_addresses import can_be_of_pod

if TYPE_CHECKING:
    import aiohttp

MAX_ANSWER: Final = 1 << 20
TIMEOUT_SECONDS: Final = 2.0
_NAT64: Final = IPv6Network("64:ff9b::/96")
_CLOUD_METADATA: Final = frozenset(map(ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200")))
"""Of AWS, Google and Alibaba: those that are not link-local."""


class FetchError(Exception):
    """Says what was requested, and why there is no answer."""


class FetchTimeout(FetchError):
    """Something is there that does not answer in time."""


class FetchRequest(msgspec.Struct, frozen=True):
    url: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    """With a body the request is a POST."""
    certificate_authority: str = ""
    """PEM; without it the authorities of the system are trusted."""
    server_name: str = ""
    verifies: bool = True
    pod: bool = False
    """The address is that of a pod."""
    trusted: bool = False
    """The address was written by a part of kohort."""
    seconds: float = TIMEOUT_SECONDS


class Fetch(Protocol):
    async def __call__(self, request: FetchRequest) -> bytes: ...


def refusal(address: str, *, pod: bool = False, loopback: bool = False) -> str:
    """Why no request is made to an address; empty where it may be made.

    >>> refusal("10.0.0.7"), refusal("169.254.169.254")
    ('', '169.254.169.254 is a link-local address')
    """
    if pod:
        return "" if can_be_of_pod(address) else f"{address or 'nothing'} is not the address of a pod"
    try:
        found = _address_inside(ip_address(address.split("%")[0]))
    except ValueError:
        return f"{address!r} is not an address"
    if found.is_link_local:
        return f"{address} is a link-local address"
    if found in _CLOUD_METADATA:
        return f"{address} is where a cloud serves credentials"
    if found.is_multicast or found.is_unspecified:
        return f"{address} is not the address of one machine"
    if found.is_loopback and not loopback and not can_be_of_pod(str(found)):
        return f"{address} is a loopback address; the feature gate AnalysisOfLoopback allows those"
    return ""


def _address_inside(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Where packets to an address end, if it only carries another one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo is not None else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


class HttpFetch:
    """`Fetch` by aiohttp. Its sessions are kept for as long as the operator runs."""

    def __init__(self, *, loopback: bool = False) -> None:
        self._loopback = loopback
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def __call__(self, request: FetchRequest) -> bytes:
        host = urlsplit(request.url).hostname or ""
        if _is_literal(host):
            refused = refusal(host, pod=request.pod, loopback=self._loopback or request.trusted)
            if refused:
                raise FetchError(f"{request.url}: {refused}")
        import aiohttp

        try:
            async with asyncio.timeout(request.seconds):
                return await self._exchange(request)
        except aiohttp.ConnectionTimeoutError:
            raise FetchError(f"{request.url}: no connection within {request.seconds / 2:g} s") from None
        except TimeoutError:
            raise FetchTimeout(f"{request.url}: no answer within {request.seconds:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            cause = problem.os_error if isinstance(problem, aiohttp.ClientConnectorError) else problem
            raise FetchError(f"{request.url}: {_first_line(cause)}") from None

    async def _exchange(self, request: FetchRequest) -> bytes:
        import aiohttp

        session = self._session(loopback=self._loopback or request.trusted)
        method = "POST" if request.body else "GET"
        async with session.request(
            method,
            request.url,
            headers={"Accept-Encoding": "identity", **request.headers},
            data=request.body or None,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=request.seconds / 2),
            ssl=_tls(request),
            server_hostname=request.server_name or None,
        ) as answer:
            if not 200 <= answer.status < 300:
                raise FetchError(f"{request.url}: HTTP {answer.status}")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise FetchError(f"{request.url}: the answer is compressed, although that was not asked for")
            found = await answer.content.read(MAX_ANSWER + 1)
            while len(found) <= MAX_ANSWER and (more_bytes := await answer.content.read(MAX_ANSWER + 1)):
                found += more_bytes
            if len(found) > MAX_ANSWER:
                raise FetchError(f"{request.url}: the answer is longer than {MAX_ANSWER} bytes")
            return found

    def _session(self, *, loopback: bool) -> "aiohttp.ClientSession":
        import aiohttp

        if loopback not in self._sessions:
            resolver = _checked_resolver(lambda one: refusal(one, loopback=loopback))
            connector = aiohttp.TCPConnector(resolver=resolver, limit=64, force_close=True)
            self._sessions[loopback] = aiohttp.ClientSession(
                connector=connector, trust_env=False, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._sessions[loopback]

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()


def _is_literal(host: str) -> bool:
    try:
        ip_address(host.split("%")[0])
    except ValueError:
        return False
    return True


def _checked_resolver(refuse: Callable[[str], str]) -> "aiohttp.abc.AbstractResolver":
    """Resolves names, and fails on addresses that requests are not made to: what was checked is what is connected."""
    import socket

    from aiohttp.abc import AbstractResolver, ResolveResult
    from aiohttp.resolver import ThreadedResolver

    class Checked(AbstractResolver):
        def __init__(self) -> None:
            self._inner = ThreadedResolver()

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            found = await self._inner.resolve(host, port, family)
            for one in found:
                if text := refuse(one["host"]):
                    raise OSError(f"{host} leads to {text}")
            return found

        async def close(self) -> None:
            await self._inner.close()

    return Checked()


def _tls(request: FetchRequest) -> "ssl.SSLContext | bool":
    if not request.url.startswith("https:"):
        return True
    if not request.verifies:
        return False
    if request.certificate_authority:
        return ssl.create_default_context(cadata=request.certificate_authority)
    return True


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0][:300] or type(problem).__name__
