"""Keeping the parts of a cluster alive.

Every part has a manager and a client of its own. One that fails is started again after a pause, without the others
noticing: it comes back like any controller does, from what the API server holds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from kohort.kube.client import Client
from kohort.kube.http import Transport
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.tasks import cancel_all
from kohort.up.failures import CannotStart

READY_SECONDS = 60.0
RESTART_SECONDS = 5.0

_log = Log(part="up")


class Part:
    def __init__(self, name: str, transport: Transport, register: Callable[[Manager], None]) -> None:
        self.name = name
        self._transport = transport
        self._register = register
        self._manager: Manager | None = None
        self._stopping = False
        self.ready = asyncio.Event()
        self.problem = ""

    async def run(self) -> None:
        """Run until stopped, starting again after every failure."""
        while not self._stopping:
            self._manager = Manager(Client(self._transport, user_agent=f"kohort-{self.name}"), name=self.name)
            try:
                self._register(self._manager)
                await self._run_manager(self._manager)
            except Exception as problem:
                self.problem = str(problem) or type(problem).__name__
                _log.exception("part failed, starting it again", name=self.name, seconds=RESTART_SECONDS)
                await asyncio.sleep(RESTART_SECONDS)

    def stop(self) -> None:
        self._stopping = True
        if self._manager is not None:
            self._manager.stop()

    async def _run_manager(self, manager: Manager) -> None:
        async with asyncio.TaskGroup() as group:
            announcing = group.create_task(self._announce(manager))
            await manager.run()
            announcing.cancel()

    async def _announce(self, manager: Manager) -> None:
        await manager.wait_ready()
        self.ready.set()


@contextlib.asynccontextmanager
async def running(parts: Sequence[Part]) -> AsyncIterator[None]:
    """The body begins when all parts are ready; afterwards they are stopped, the last one first."""
    tasks = {part: asyncio.create_task(part.run(), name=part.name) for part in parts}
    try:
        await _all_ready(parts)
        yield
    finally:
        for part, task in reversed(tasks.items()):
            part.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await cancel_all(*tasks.values())


async def _all_ready(parts: Sequence[Part]) -> None:
    try:
        async with asyncio.timeout(READY_SECONDS):
            for part in parts:
                await part.ready.wait()
    except TimeoutError:
        late = [
            f"{part.name} ({part.problem})" if part.problem else part.name for part in parts if not part.ready.is_set()
        ]
        raise CannotStart(f"not ready after {READY_SECONDS:g} s: {', '.join(late)}") from None
