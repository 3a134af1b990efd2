"""An API server that takes its time."""

import asyncio

from tests.cluster.apiserver.caller import AllowAll

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request, Response


class Waiting(ApiServer):
    """Processes a write only when the test says so."""

    def __init__(self) -> None:
        super().__init__(open_store(None), Catalog(builtin_kinds()), AllowAll())
        self.arrived, self.released, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(self, request: Request, user: User) -> Response:
        if request.method != "POST":
            return await super().handle(request, user)
        self.arrived.set()
        try:
            await self.released.wait()
            return await super().handle(request, user)
        finally:
            self.over.set()
