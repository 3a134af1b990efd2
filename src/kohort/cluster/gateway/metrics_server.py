"""The metrics of the gateway over plain HTTP, on its own port beside the requests it serves.

Other parts find the address in the ConfigMap `kohort-gateway` of the namespace `kohort-system`, key `metricsAddress`:
`http://127.0.0.1:PORT/metrics`. It listens where the gateway does, on loopback by default, and answers without a token:
what it shows is how often which pods were requested.
"""

import contextlib
from collections.abc import Callable
from typing import Final

from aiohttp import web

from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists
from kohort.kube.resources import CONFIG_MAPS, NAMESPACES
from kohort.rules.gateway_metrics import ADDRESS_KEY, CONFIG_MAP, NAMESPACE

PATH: Final = "/metrics"
FIELD_MANAGER: Final = "kohort-gateway"
_CONTENT: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


class MetricsServer:
    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._runner: web.ServerRunner | None = None
        self.address = ""

    async def open(self, host: str) -> None:
        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None), handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, 0).start()
        name = f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{self._runner.addresses[0][1]}{PATH}"

    async def publish(self, client: Client) -> None:
        """Write the address where other parts look for it."""
        if await client.find(NAMESPACES, NAMESPACE) is None:
            with contextlib.suppress(AlreadyExists):
                await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": {ADDRESS_KEY: self.address},
        }
        await client.apply(CONFIG_MAPS, body, field_manager=FIELD_MANAGER, force=True)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path != PATH:
            return web.Response(status=404, text=f"metrics are at {PATH}\n")
        return web.Response(body=self._render(), headers=_CONTENT)
