"""Calls to webhooks.

A webhook is reached at a URL, or through a Service, whose name its certificate must carry. Services of parts that run
in this process are registered as local and get the same bytes without a socket. Connections are kept open; a changed
`caBundle` closes those that were trusted because of the old one.
"""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kohort.cluster.apiserver.http.dialing import dial_problem
from kohort.objects.jsontypes import JsonObject

if TYPE_CHECKING:
    import aiohttp

ResolveService = Callable[[str, str, int], tuple[str, int]]
"""Namespace, name and port of a Service to an address that answers for it; LookupError when there is none."""

LocalHandler = Callable[[str, bytes], Awaitable[bytes]]
"""Path and body of a request to the body of the answer. An OSError says that there is none."""

MAX_ANSWER: Final = 16 * 1024 * 1024


class CallFailed(OSError):
    """The webhook could not be asked."""


class WebhookClient:
    def __init__(self, resolve_service: ResolveService) -> None:
        self._resolve = resolve_service
        self._local: dict[tuple[str, str], LocalHandler] = {}
        self._sessions: dict[str, tuple[str, aiohttp.ClientSession]] = {}

    def register_local(self, namespace: str, service: str, handler: LocalHandler) -> None:
        """Have calls to a Service answered by `handler` instead of the network."""
        self._local[namespace, service] = handler

    def forget_local(self, namespace: str, service: str) -> None:
        self._local.pop((namespace, service), None)

    async def close(self) -> None:
        sessions = [session for _, session in self._sessions.values()]
        self._sessions.clear()
        for session in sessions:
            await session.close()

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
        session = await self._session(server_name or urlsplit(url).netloc, ca_bundle)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if server_name:
            headers["host"] = server_name
        try:
            async with session.post(
                f"{url}?{query}", data=body, headers=headers, server_hostname=server_name or None, allow_redirects=False
            ) as response:
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

    async def _session(self, target: str, ca_bundle: str) -> "aiohttp.ClientSession":
        import aiohttp

        known = self._sessions.get(target)
        if known is not None and known[0] == ca_bundle:
            return known[1]
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=_trust(ca_bundle), limit=64, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=True,
        )
        self._sessions[target] = (ca_bundle, session)
        if known is not None:
            await known[1].close()
        return session


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
