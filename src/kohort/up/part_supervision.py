"""Keeping the parts of a cluster alive.

Every part has its own manager and client; the parts share their caches of the cluster. A part that fails is started
again after a pause (`restart_policy.part_pause`) while the others go on; like any controller it continues from what
the API server holds. A part that returns without being asked to stop has failed as well. A part that fails before it
was ready for the first time ends the start.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.http import Transport
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.shared_stores import SharedStores
from kohort.kube.tasks import cancel_all
from kohort.up import restart_policy
from kohort.up.parts import Settled
from kohort.up.startup_errors import CannotStart
from kohort.up.status_records import PartRecord

READY_SECONDS = 60.0
STOP_SECONDS = 15.0
_REMEMBERED = 20
"""Failures of a part that its pause depends on; more make no difference."""

_log = Log(part="up")


class PartState(Enum):
    STARTING = "Starting"
    READY = "Ready"
    BACK_OFF = "BackOff"
    STOPPED = "Stopped"


class EndedUnexpectedly(Exception):
    def __str__(self) -> str:
        return "it ended without being asked to"


class Part:
    def __init__(
        self,
        name: str,
        transport: Transport,
        register: Callable[[Manager], Settled | None],
        caches: SharedStores | None = None,
    ) -> None:
        self.name = name
        self._transport = transport
        self._caches = caches
        self._register = register
        self._manager: Manager | None = None
        self._stopping = asyncio.Event()
        self._failures: list[float] = []
        self._record = PartRecord(name, PartState.STARTING.value, clock.timestamp())
        self.ready = asyncio.Event()
        """It was ready once."""
        self.changed: Callable[[], None] = lambda: None
        """Called when `record` has changed."""
        self.failed: Callable[[str], None] = lambda message: None
        """Called with what happened and what follows, when it is started again."""

    async def run(self) -> None:
        """Run until stopped, starting again after every failure."""
        while not self._stopping.is_set():
            self._enter(PartState.STARTING)
            try:
                await self._run_once()
                if not self._stopping.is_set():
                    raise EndedUnexpectedly
            except Exception as problem:
                if not self.ready.is_set():
                    raise
                await self._back_off(problem)
            except asyncio.CancelledError as problem:
                task = asyncio.current_task()
                if self._stopping.is_set() or not self.ready.is_set() or (task is not None and task.cancelling()):
                    raise
                await self._back_off(problem)  # A task within the part was cancelled, not the part itself.
        self._enter(PartState.STOPPED)

    async def _back_off(self, problem: BaseException) -> None:
        """Report the failure, and wait until the next start, or the stop."""
        self._failures = [*self._failures[-_REMEMBERED:], asyncio.get_running_loop().time()]
        pause = restart_policy.part_pause(self._failures)
        reason = f"{type(_first(problem)).__name__}: {_words(problem)}"
        _log.error("part failed, starting it again", name=self.name, reason=reason, seconds=pause, exc_info=True)
        self._record.restarts += 1
        self._record.reason, self._record.failed_at = reason, clock.timestamp()
        self._record.retry_at = clock.format_time(clock.now() + timedelta(seconds=pause))
        self._enter(PartState.BACK_OFF)
        self.failed(f"part {self.name} failed: {reason}; starting it again in {pause:g} s")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause)
        self._record.retry_at = ""

    def _enter(self, state: PartState) -> None:
        self._record.state, self._record.since = state.value, clock.timestamp()
        self.changed()

    @property
    def record(self) -> PartRecord:
        return self._record

    def metrics(self) -> bytes:
        """What it counts, in the text format of Prometheus."""
        return self._manager.metrics.render() if self._manager is not None else b""

    def stop(self) -> None:
        self._stopping.set()
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
        self._enter(PartState.READY)


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


def _first(problem: BaseException) -> BaseException:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


def _words(problem: BaseException) -> str:
    """What went wrong, without the groups of tasks in which it did."""
    if isinstance(problem, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(_words(each) for each in problem.exceptions))
    return str(problem) or type(problem).__name__
