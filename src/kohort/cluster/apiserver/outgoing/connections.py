"""Connections from the API server to other servers: node agents, pods, and aggregated API servers.

aiohttp is loaded with the first of them: that takes as long as a fifth of the start.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from kohort.kube.http import Response

if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT: Final = 10.0
CALLERS_OWN: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that the caller sends or not: nothing is added in its name."""
_HOP_BY_HOP: Final = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding", "upgrade"})


def open_session() -> "aiohttp.ClientSession":
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
    return aiohttp.ClientSession(timeout=timeout, auto_decompress=False)


def passed_on(answer: "aiohttp.ClientResponse") -> Response:
    """The answer of another server for the caller, without headers that are about the connection to that server."""
    kept: dict[str, str] = {}
    for key, value in answer.headers.items():
        key = key.lower()
        if key not in _HOP_BY_HOP:
            kept[key] = f"{kept[key]}\n{value}" if key in kept else value
    if answer.method == "HEAD":
        answer.release()
        length = answer.headers.get("content-length")
        return Response(answer.status, {**kept, "content-length": length} if length else kept)
    return Response(answer.status, kept, chunks(answer))


async def chunks(answer: "aiohttp.ClientResponse") -> AsyncIterator[bytes]:
    import aiohttp

    try:
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            async for chunk in answer.content.iter_any():
                yield chunk
    finally:
        answer.close()


def connection_problem(problem: BaseException, host: str, port: int) -> str:
    """Why there was no answer, in the words of Kubernetes."""
    import aiohttp

    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {problem.certificate_error}"
    if isinstance(problem, aiohttp.ClientConnectorError):
        return dial_problem(problem)
    if isinstance(problem, TimeoutError):
        return f"dial tcp {host}:{port}: i/o timeout"
    return str(problem) or type(problem).__name__


def dial_problem(error: "aiohttp.ClientConnectorError") -> str:
    cause = error.os_error
    words = "connect: connection refused" if isinstance(cause, ConnectionRefusedError) else cause.strerror or cause
    return f"dial tcp {error.host}:{error.port}: {words}"
