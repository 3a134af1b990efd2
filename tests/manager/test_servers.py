"""Health and metrics: who gets which answer."""

import ssl

import aiohttp
import pytest

from kohort.admission.certificates import issue
from kohort.admission.server import load
from kohort.kube.client import Client
from kohort.kube.http import Request, Response
from kohort.kube.transport import InProcessTransport
from kohort.manager.configuration import Tls
from kohort.manager.go_tls_settings import server_context
from kohort.manager.health import HealthServer
from kohort.manager.metrics_server import Gate, MetricsServer

LOOPBACK = ("127.0.0.1", 0)


async def test_readiness_says_what_is_missing_and_liveness_does_not_care() -> None:
    problems = {"caches": "being filled"}
    server = HealthServer(
        LOOPBACK, liveness="/healthz", readiness="/readyz", checks={"caches": lambda: problems.get("caches", "")}
    )
    port = await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            assert await _get(session, f"http://127.0.0.1:{port}/healthz") == (200, "ok")
            assert await _get(session, f"http://127.0.0.1:{port}/readyz") == (503, "[-] caches: being filled\n")
            problems.clear()
            assert await _get(session, f"http://127.0.0.1:{port}/readyz") == (200, "ok")
            assert (await _get(session, f"http://127.0.0.1:{port}/other"))[0] == 404
    finally:
        await server.stop()


class Reviewer:
    """An API server that knows one user, and counts how often it is asked."""

    def __init__(self, *, allowed: bool) -> None:
        self.allowed = allowed
        self.asked: list[str] = []

    async def handle(self, request: Request) -> Response:
        self.asked.append(request.path.rpartition("/")[2])
        if request.path.endswith("tokenreviews"):
            known = b'"good"' in request.body
            body = b'{"status":{"authenticated":%s,"user":{"username":"u"}}}' % (b"true" if known else b"false")
        else:
            body = b'{"status":{"allowed":%s}}' % (b"true" if self.allowed else b"false")
        return Response(201, {"content-type": "application/json"}, body)


@pytest.mark.parametrize(
    ("header", "allowed", "status"),
    [("", True, 401), ("Basic good", True, 401), ("Bearer bad", True, 401), ("Bearer good", False, 403)],
)
async def test_strangers_read_nothing(header: str, allowed: bool, status: int) -> None:
    reviewer = Reviewer(allowed=allowed)
    assert (await _scrape(reviewer, header))[0] == (status, "Unauthorized\n" if status == 401 else "Forbidden\n")


async def test_who_may_read_is_asked_once_a_minute() -> None:
    reviewer = Reviewer(allowed=True)
    answers = await _scrape(reviewer, "Bearer good", times=3)
    assert answers == [(200, "figures 1\n")] * 3
    assert reviewer.asked == ["tokenreviews", "subjectaccessreviews"]


async def test_old_protocols_are_refused() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(aiohttp.ClientConnectionError):
        await _scrape(Reviewer(allowed=True), "Bearer good", tls=context, settings=Tls(min_version="VersionTLS13"))


async def _scrape(
    reviewer: Reviewer,
    header: str,
    *,
    times: int = 1,
    tls: ssl.SSLContext | bool = False,
    settings: Tls | None = None,
) -> list[tuple[int, str]]:
    context = server_context(settings or Tls())
    load(context, issue(["127.0.0.1"]))
    gate = Gate(Client(InProcessTransport(reviewer.handle)))
    server = MetricsServer(LOOPBACK, context, gate, lambda: b"figures 1\n")
    port = await server.start()
    try:
        async with aiohttp.ClientSession(headers={"authorization": header}) as session:
            return [await _get(session, f"https://127.0.0.1:{port}/metrics", tls) for _ in range(times)]
    finally:
        await server.stop()


async def _get(session: aiohttp.ClientSession, url: str, tls: ssl.SSLContext | bool = False) -> tuple[int, str]:
    async with session.get(url, ssl=tls) as answer:
        return answer.status, await answer.text()
