"""Where an operator that was not installed serves webhooks: for an API server on this machine or in this process."""

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from kohort.admission.reviews import Endpoints, review
from kohort.admission.webhook_configurations import Address
from kohort.kube.log import Log

if TYPE_CHECKING:
    from kohort.admission.metrics import WebhookMetrics
    from kohort.admission.server import WebhookServer


SERVICE: Final = ("kube-system", "kohort-operator")
"""What the configurations name when the API server is in this process. No such Service exists."""

_log = Log(logger="kohort.admission")


class WebhookHost(Protocol):
    """Makes endpoints reachable for the API server."""

    async def open(self, endpoints: Endpoints) -> Address: ...

    async def close(self) -> None: ...


class LocalServices(Protocol):
    """An API server in this process: it asks these Services by a call instead of a connection."""

    def register_local(self, namespace: str, service: str, handler: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        """`handler` gets path and body; an OSError of it is a webhook that cannot be reached."""
        ...

    def forget_local(self, namespace: str, service: str) -> None: ...


class InProcess:
    """No socket, no certificate, and an address that is the same at every start, so that what names it need not be
    written again. A busy process answers itself at once; over a socket it would have to wait for its own turn."""

    def __init__(self, services: LocalServices, metrics: "WebhookMetrics | None" = None) -> None:
        self._services = services
        self._metrics = metrics
        self._endpoints: Endpoints = {}

    async def open(self, endpoints: Endpoints) -> Address:
        self._endpoints = endpoints
        self._services.register_local(*SERVICE, self._answer)
        return Address(b"", service=SERVICE)

    async def close(self) -> None:
        self._services.forget_local(*SERVICE)

    async def _answer(self, path: str, body: bytes) -> bytes:
        if path not in self._endpoints:
            raise OSError(f"no webhook at {path}")
        begun = time.perf_counter()
        code = 200
        if self._metrics is not None:
            self._metrics.began(path)
        try:
            return msgspec.json.encode(await review(self._endpoints, path, body))
        except ValueError as problem:
            code = 400
            raise OSError(str(problem)) from problem
        except Exception as problem:
            code = 500
            _log.exception("review failed", path=path)
            raise OSError("the review failed; the operator's log says why") from problem
        finally:
            if self._metrics is not None:
                self._metrics.answered(path, code, time.perf_counter() - begun)


class Loopback:
    """An HTTPS server on loopback, with a certificate that lives as long as the process."""

    def __init__(self) -> None:
        self._server: WebhookServer | None = None

    async def open(self, endpoints: Endpoints) -> Address:
        # Importing a web server, and what makes certificates, takes long; only who opens it pays.
        from kohort.admission.certificates import issue
        from kohort.admission.server import WebhookServer

        bundle = issue(["127.0.0.1", "localhost"])
        self._server = WebhookServer(endpoints, bundle, host="127.0.0.1", port=0)
        port = await self._server.start()
        return Address(bundle.ca_certificate, url=f"https://127.0.0.1:{port}")

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop()
