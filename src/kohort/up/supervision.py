"""Keeping the parts of a cluster alive.

Every part has a manager and a client of its own; what they keep of the cluster in memory they share. One that fails is
started again after a pause, without the others noticing: it comes back like any controller does, from what the API
server holds. Only one that fails before it was ever ready ends the start.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from kohort.kube.caches import Caches
from kohort.kube.client import Client
from kohort.kube.http import Transport
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.tasks import cancel_all
from kohort.up.failures import CannotStart
from kohort.up.parts import Settled

READY_SECONDS = 60.0
RESTART_SECONDS = 5.0
STOP_SECONDS = 15.0

_log = Log(part="up")


class Part:
    def __init__(
        self,
        name: str,
        transport: Transport,
        register: Callable[[Manager], Settled | None],
        caches: Caches | None = None,
    ) -> None:
        self.name = name
        self._transport = transport
        self._caches = caches
        self._register = register
        self._manager: Manager | None = None
        self._stopping = False
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Run until stopped, starting again after every failure."""
        while not self._stopping:
            try:
                await self._run_once()
            except Exception:
                if not self.ready.is_set():
                    raise
                _log.exception("part failed, starting it again", name=self.name, seconds=RESTART_SECONDS)
                await asyncio.sleep(RESTART_SECONDS)

    def metrics(self) -> bytes:
        """What it counts, in the text format of Prometheus."""
        return self._manager.metrics.render() if self._manager is not None else b""

    def stop(self) -> None:
        self._stopping = True
        if self._manager is not None:
            self._manager.stop()

    async def _run_once(self) -> None:
        client = Client(self._transport, user_agent=f"kohort-{self.name}")
        self._manager = Manager(client, name=self.name, caches=self._caches)
        settled = self._register(self._manager)
        announcing = asyncio.create_task(self._announce(self._manager, settled), name=f"{self.name}-ready")
        try:
            await self._manager.run()
        finally:
            await cancel_all(announcing)

    async def _announce(self, manager: Manager, settled: Settled | None) -> None:
        await manager.wait_ready()
        if settled is not None:
            await settled()
        self.ready.set()


@contextlib.asynccontextmanager
async def running(parts: Sequence[Part]) -> AsyncIterator[None]:
    """The body begins when all parts are ready; afterwards they are stopped, the last one first."""
    tasks = {part: asyncio.create_task(part.run(), name=part.name) for part in parts}
    try:
        await _all_ready(tasks)
        yield
    finally:
        for part, task in reversed(tasks.items()):
            part.stop()
            if part.ready.is_set():
                await asyncio.wait((task,), timeout=STOP_SECONDS)
        await cancel_all(*tasks.values())


async def _all_ready(tasks: Mapping[Part, "asyncio.Task[None]"]) -> None:
    waiting = {part: asyncio.create_task(part.ready.wait()) for part in tasks}
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    try:
        for part, task in tasks.items():
            left = deadline - asyncio.get_running_loop().time()
            await asyncio.wait((waiting[part], task), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and (problem := task.exception()) is not None:
                raise CannotStart(f"the part {part.name} failed: {_words(problem)}") from problem
            if not part.ready.is_set():
                raise CannotStart(f"the part {part.name} is not ready after {READY_SECONDS:g} s")
    finally:
        await cancel_all(*waiting.values())


def _words(problem: BaseException) -> str:
    """What went wrong, without the groups of tasks in which it did."""
    if isinstance(problem, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(_words(each) for each in problem.exceptions))
    return str(problem) or type(problem).__name__
