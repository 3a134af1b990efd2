"""Calls to webhooks.

A webhook is reached at a URL, or through a Service, whose name its certificate must carry. Services of parts that run
in this process are registered as local and get the same bytes without a socket. Connections are kept open per target
and `caBundle`: a connection that was trusted because of one bundle never serves a call that names another. Two
configurations may name the same Service with different bundles at the same time, so a new bundle does not end the
connections of the old one; only the least recently used idle ones are closed once there are too many.
"""

import asyncio
import base64
import binascii
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kohort.cluster.apiserver.outgoing.connections import dial_problem
from kohort.objects.json_types import JsonObject

if TYPE_CHECKING:
    import aiohttp

ResolveService = Callable[[str, str, int], tuple[str, int]]
"""Namespace, name and port of a Service to an address that answers for it; LookupError when there is none."""

LocalHandler = Callable[[str, bytes], Awaitable[bytes]]
"""Path and body of a request to the body of the answer. An OSError says that there is none."""

MAX_ANSWER: Final = 16 * 1024 * 1024
MAX_SESSIONS: Final = 64
"""Targets and bundles whose connections are kept open when no call uses them."""


class CallFailed(OSError):
    """The webhook could not be asked."""


class WebhookClient:
    def __init__(self, resolve_service: ResolveService) -> None:
        self._resolve = resolve_service
        self._local: dict[tuple[str, str], LocalHandler] = {}
        self._sessions: dict[tuple[str, str], _Session] = {}
        """By target and `caBundle`, the most recently used last."""

    def register_local(self, namespace: str, service: str, handler: LocalHandler) -> None:
        """Have calls to a Service answered by `handler` instead of the network."""
        self._local[namespace, service] = handler

    def forget_local(self, namespace: str, service: str) -> None:
        self._local.pop((namespace, service), None)

    async def close(self) -> None:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.client.close()

    async def post(self, client_config: JsonObject, body: bytes, timeout: float) -> bytes:
        """The body of the webhook's answer. CallFailed says why there is none."""
        service = client_config.get("service")
        query = f"timeout={max(1, round(timeout))}s"
        try:
            async with asyncio.timeout(timeout):
                if service is not None:
                    return await self._post_to_service(service, client_config.get("caBundle") or "", query, body)
                url = client_config.get("url") or ""
                return await self._exchange(url, query, body, client_config.get("caBundle") or "")
        except TimeoutError:
            where = client_config.get("url") or _service_url(service or {})
            raise CallFailed(f'failed to call webhook: Post "{where}?{query}": context deadline exceeded') from None

    async def _post_to_service(self, service: JsonObject, ca_bundle: str, query: str, body: bytes) -> bytes:
        namespace, name = service.get("namespace") or "", service.get("name") or ""
        path = service.get("path") or "/"
        local = self._local.get((namespace, name))
        if local is not None:
            try:
                return await local(path, body)
            except OSError as problem:
                raise CallFailed(f"failed to call webhook: {problem}") from problem
        try:
            host, port = self._resolve(namespace, name, service.get("port") or 443)
        except LookupError as error:
            reason = error.args[0] if error.args else "no endpoints available"
            where = _service_url(service)
            raise CallFailed(f'failed to call webhook: Post "{where}?{query}": {reason}') from None
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        name_to_verify = f"{name}.{namespace}.svc"
        url = f"https://{address}{path if path.startswith('/') else '/' + path}"
        return await self._exchange(url, query, body, ca_bundle, name_to_verify, shown=_service_url(service))

    async def _exchange(
        self, url: str, query: str, body: bytes, ca_bundle: str, server_name: str = "", shown: str = ""
    ) -> bytes:
        import aiohttp

        shown = shown or url
        if urlsplit(url).scheme != "https":
            raise CallFailed("'https' is the only allowed URL scheme; desired format: https://host[/path]")
        headers = {"content-type": "application/json", "accept": "application/json"}
        if server_name:
            headers["host"] = server_name
        try:
            async with (
                self._session(server_name or urlsplit(url).netloc, ca_bundle) as session,
                session.post(
                    f"{url}?{query}",
                    data=body,
                    headers=headers,
                    server_hostname=server_name or None,
                    allow_redirects=False,
                ) as response,
            ):
                answer = await response.content.read(MAX_ANSWER + 1)
                while not response.content.at_eof() and len(answer) <= MAX_ANSWER:
                    answer += await response.content.read(MAX_ANSWER + 1 - len(answer))
        except aiohttp.ClientError as error:
            raise CallFailed(f'failed to call webhook: Post "{shown}?{query}": {_reason(error)}') from None
        if len(answer) > MAX_ANSWER:
            raise CallFailed("failed to call webhook: the answer is too large")
        if not 200 <= response.status < 300:
            raise CallFailed(f"failed to call webhook: {_refusal(response, answer)}")
        if not answer:
            found = f"status code: {response.status} and content type: {response.headers.get('content-type', '')}"
            raise CallFailed(f"failed to call webhook: 0-length response with {found}")
        return answer

    @contextlib.asynccontextmanager
    async def _session(self, target: str, ca_bundle: str) -> "AsyncIterator[aiohttp.ClientSession]":
        """The connections to a target that a bundle vouches for; they stay open at least as long as this context."""
        import aiohttp

        key = (target, ca_bundle)
        session = self._sessions.pop(key, None)
        if session is None:
            client = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=_trust(ca_bundle), limit=64, keepalive_timeout=30),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=True,
            )
            session = _Session(client)
        self._sessions[key] = session
        session.calls += 1
        try:
            await self._close_surplus()
            yield session.client
        finally:
            session.calls -= 1

    async def _close_surplus(self) -> None:
        surplus = max(0, len(self._sessions) - MAX_SESSIONS)
        idle = [key for key, session in self._sessions.items() if not session.calls]
        for session in [self._sessions.pop(key) for key in idle[:surplus]]:
            await session.client.close()


@dataclass(slots=True)
class _Session:
    client: "aiohttp.ClientSession"
    calls: int = 0
    """How many calls are using it now."""


def _service_url(service: JsonObject) -> str:
    path = service.get("path") or "/"
    port = service.get("port") or 443
    return f"https://{service.get('name')}.{service.get('namespace')}.svc:{port}{path}"


def _trust(ca_bundle: str) -> ssl.SSLContext:
    """Only the given authorities, or those of the machine when none are given."""
    if not ca_bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(ca_bundle, validate=True).decode())
    except (binascii.Error, ValueError, ssl.SSLError):
        reason = "unable to load root certificates: unable to parse bytes as PEM block"
        raise CallFailed(f"failed to call webhook: {reason}") from None


def _reason(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {_certificate_problem(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return dial_problem(error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _certificate_problem(error: Exception) -> str:
    code = getattr(error, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if code in _NOT_VALID_NOW:
        return "certificate has expired or is not yet valid"
    return str(getattr(error, "verify_message", "") or error)


_UNKNOWN_AUTHORITY: Final = (18, 19, 20, 21)
_NOT_VALID_NOW: Final = (9, 10)
"""Result codes of OpenSSL."""


def _refusal(response: "aiohttp.ClientResponse", answer: bytes) -> str:
    status = response.status
    readable = response.headers.get("content-type", "text/plain").startswith("text/")
    said = answer[:200].decode(errors="replace").strip() if readable else "unknown"
    texts = {
        404: "the server could not find the requested resource",
        500: f'an error on the server ("{said}") has prevented the request from succeeding',
        503: "the server is currently unable to handle the request",
    }
    return texts.get(status, f"the server responded with the status code {status} but did not return more information")
