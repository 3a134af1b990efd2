"""Where webhooks are served when nobody installed them: on an address of this machine, for an API server beside us."""

from typing import TYPE_CHECKING, Protocol

from kohort.admission.configurations import Address
from kohort.admission.reviews import Endpoints

if TYPE_CHECKING:
    from kohort.admission.server import WebhookServer


class WebhookHost(Protocol):
    """Makes endpoints reachable for the API server."""

    async def open(self, endpoints: Endpoints) -> Address: ...

    async def close(self) -> None: ...


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
