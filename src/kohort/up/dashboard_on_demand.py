"""`/dashboard` of a cluster: a link to its dashboard, which starts when a link is asked for the first time.

`kubectl get --raw /dashboard` prints the link. Only who may get this path of the API server gets one, which is the
administrator; sessions act as the administrator, too. The dashboard listens on a loopback port of its own without TLS,
because browsers do not trust the certificate of the cluster. A cluster whose dashboard is not used pays nothing for it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from kohort.kube.client import Client
from kohort.kube.http import Request, Response, Transport
from kohort.kube.tasks import cancel_all

if TYPE_CHECKING:
    from kohort.dashboard.commands import Commands
    from kohort.dashboard.running import RunningDashboard

PATH: Final = "/dashboard"
HOST: Final = "127.0.0.1"


class DashboardOnDemand:
    def __init__(self, transport: Transport, commands: "Callable[[], Commands]", allow_actions: bool) -> None:
        self._transport = transport
        self._commands = commands
        self._allow_actions = allow_actions
        self._starting: asyncio.Future[RunningDashboard] | None = None
        self._task: asyncio.Task[None] | None = None

    async def answer(self, request: Request) -> Response:
        """A link that opens one session."""
        if self._task is None or self._task.done():
            self._starting = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._starting), name="dashboard")
        assert self._starting is not None
        running = await asyncio.shield(self._starting)
        text = f"http://{HOST}:{running.port}{running.link()}\n"
        return Response(200, {"content-type": "text/plain; charset=utf-8"}, text.encode())

    async def _run(self, started: "asyncio.Future[RunningDashboard]") -> None:
        from kohort.dashboard.running import running
        from kohort.dashboard.server import DashboardSettings

        client = Client(self._transport, field_manager="kohort-dashboard", user_agent="kohort-dashboard")
        settings = DashboardSettings(allow_actions=self._allow_actions)
        try:
            async with running(client, (HOST, 0), settings, self._commands()) as found:
                started.set_result(found)
                await asyncio.Event().wait()
        except Exception as problem:
            if started.done():
                raise
            started.set_exception(problem)

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """The dashboard ends with the body, if it was started."""
        try:
            yield
        finally:
            if self._task is not None:
                await cancel_all(self._task)
