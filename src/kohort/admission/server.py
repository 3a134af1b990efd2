"""The webhook server: HTTPS, one POST per review."""

import asyncio
import ssl
import tempfile
from pathlib import Path

import msgspec
from aiohttp import web

from kohort.admission.certificate_bundle import Bundle
from kohort.admission.metrics import WebhookMetrics
from kohort.admission.reviews import Endpoints, review
from kohort.admission.webhook_configurations import TIMEOUT_SECONDS
from kohort.kube.log import Log

_log = Log(logger="kohort.admission")
_MAX_BODY = 8 * 1024 * 1024


class WebhookServer:
    def __init__(
        self,
        endpoints: Endpoints,
        bundle: Bundle,
        *,
        host: str | None = None,
        port: int = 9443,
        tls: ssl.SSLContext | None = None,
        metrics: WebhookMetrics | None = None,
    ) -> None:
        """Without `host` it listens everywhere. `tls` is a context of the caller's making, without certificate."""
        self._endpoints = endpoints
        self._host, self._port = host, port
        self._tls = tls if tls is not None else _context()
        self._metrics = metrics
        self.use(bundle)
        self._runner: web.AppRunner | None = None

    def use(self, bundle: Bundle) -> None:
        """Serve with another certificate from the next connection on; those that are open stay."""
        try:
            load(self._tls, bundle)
        except (OSError, ValueError):
            if self._metrics is not None:
                self._metrics.certificate_failed()
            raise
        if self._metrics is not None:
            self._metrics.certificate_used()

    async def start(self) -> int:
        """Listen; returns the port."""
        application = web.Application(client_max_size=_MAX_BODY)
        application.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=TIMEOUT_SECONDS
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls, backlog=1024)
        await site.start()
        self._port = int(self._runner.addresses[0][1])
        return self._port

    async def stop(self) -> None:
        """Answer what is being answered, then close."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        if self._metrics is None or request.path not in self._endpoints:
            return await self._review(request)
        clock = asyncio.get_running_loop().time
        begun, code = clock(), 499  # the caller has gone, unless it gets an answer
        self._metrics.began(request.path)
        try:
            answer = await self._review(request)
            code = answer.status
        finally:
            self._metrics.answered(request.path, code, clock() - begun)
        return answer

    async def _review(self, request: web.Request) -> web.Response:
        if request.path not in self._endpoints:
            return web.Response(status=404, text=f"no webhook at {request.path}\n")
        try:
            answer = await review(self._endpoints, request.path, await request.read())
        except ValueError as problem:
            return web.Response(status=400, text=f"{problem}\n")
        except Exception:
            _log.exception("review failed", path=request.path)
            return web.Response(status=500, text="the review failed; the operator's log says why\n")
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def load(tls: ssl.SSLContext, bundle: Bundle) -> None:
    """Put a certificate into a context; OpenSSL's interface takes it from files only."""
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate.write_bytes(bundle.certificate)
        key.touch(mode=0o600)
        key.write_bytes(bundle.key)
        tls.load_cert_chain(certificate, key)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
