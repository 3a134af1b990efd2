"""Metrics over HTTPS, for those who may read them.

Who asks is found out by the cluster itself: the bearer token is shown to the API server (TokenReview), which also says
whether that user may `get` the path `/metrics` (SubjectAccessReview). An answer is remembered for a minute, so that a
scrape costs no request; tokens are remembered by their hash only.
"""

import asyncio
import hashlib
import ssl
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from kohort.kube import errors
from kohort.kube.access_reviews import is_allowed, path_access
from kohort.kube.client import Client
from kohort.kube.log import Log
from kohort.kube.resources import TOKEN_REVIEWS
from kohort.manager.web_server import Address, listen
from kohort.objects.json_types import JsonObject

PATH: Final = "/metrics"
REMEMBER_SECONDS: Final = 60.0
_REMEMBERED: Final = 1024

_log = Log(module="kohort.manager.metrics")


class CachedAnswer(msgspec.Struct, frozen=True):
    status: int
    """200, 401 or 403."""
    until: float


class Gate:
    """Who may read the metrics."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[bytes, CachedAnswer] = {}

    async def admits(self, token: str) -> int:
        """The status to answer with."""
        if not token:
            return 401
        now = asyncio.get_running_loop().time()
        name = hashlib.sha256(token.encode()).digest()
        known = self._known.get(name)
        if known is not None and known.until > now:
            return known.status
        status = await self._ask(token)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[name] = CachedAnswer(status, now + REMEMBER_SECONDS)
        return status

    async def _ask(self, token: str) -> int:
        review: JsonObject = await self._client.create(TOKEN_REVIEWS, {"spec": {"token": token}})
        found = review.get("status") or {}
        if not found.get("authenticated"):
            return 401
        return 200 if await is_allowed(self._client, found["user"], path_access("get", PATH)) else 403


class MetricsServer:
    def __init__(self, address: Address, tls: ssl.SSLContext, gate: Gate, render: Callable[[], bytes]) -> None:
        self._address = address
        self._tls = tls
        self._gate = gate
        self._render = render
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        application = web.Application()
        application.router.add_get(PATH, self._answer)
        self._runner, port = await listen(application, self._address, self._tls)
        _log.info("serving metrics", port=port)
        return port

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            status = await self._gate.admits(token.strip() if scheme.lower() == "bearer" else "")
        except errors.ApiError as problem:
            _log.warning("failed to authorize a request for metrics", problem=problem.message)
            return web.Response(status=500, text="failed to ask the API server whether you may read the metrics\n")
        if status != 200:
            return web.Response(status=status, text="Unauthorized\n" if status == 401 else "Forbidden\n")
        return web.Response(body=self._render(), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"})
