"""The probes of one container while it runs."""

import asyncio
import contextlib
import random
from collections.abc import Callable

from kohort.node.container_order import Run
from kohort.node.probes import Counter, Execute, Failure, ask
from kohort.objects.node_pods import NodeContainer, Probe

Unhealthy = Callable[[NodeContainer, str, str, bool, int | None], None]


class Probing:
    def __init__(
        self,
        container: NodeContainer,
        run: Run,
        address: str,
        execute: Execute,
        unhealthy: Unhealthy,
        changed: Callable[[], None],
    ) -> None:
        self._container = container
        self._run = run
        self._address = address
        self._execute = execute
        self._unhealthy = unhealthy
        self._changed = changed
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self) -> None:
        """Ask until stopped."""
        container, run = self._container, self._run
        startup = container.startup_probe if not run.started else None
        if startup is not None and not await self._until_started(startup):
            return
        run.started = True
        if container.readiness_probe is None:
            run.ready = True
        self._changed()
        loops = []
        if container.liveness_probe is not None:
            loops.append(self._liveness(container.liveness_probe))
        if container.readiness_probe is not None:
            loops.append(self._readiness(container.readiness_probe))
        await asyncio.gather(*loops)

    async def _until_started(self, probe: Probe) -> bool:
        counter = Counter(probe.success_threshold or 1, probe.failure_threshold or 3)
        await self._pause(probe.initial_delay_seconds)
        while not self._stopped.is_set():
            verdict = counter.add(await self._answer(probe, "Startup", counter))
            if verdict:
                return True
            if verdict is False:
                self._stopped.set()
                return False
            await self._pause(probe.period_seconds or 10)
        return False

    async def _liveness(self, probe: Probe) -> None:
        counter = Counter(1, probe.failure_threshold or 3)
        await self._pause(probe.initial_delay_seconds or random.uniform(0, min(probe.period_seconds or 10, 1)))
        while not self._stopped.is_set():
            if counter.add(await self._answer(probe, "Liveness", counter)) is False:
                self._stopped.set()
                return
            await self._pause(probe.period_seconds or 10)

    async def _readiness(self, probe: Probe) -> None:
        counter = Counter(probe.success_threshold or 1, probe.failure_threshold or 3)
        await self._pause(probe.initial_delay_seconds)
        while not self._stopped.is_set():
            verdict = counter.add(await self._answer(probe, "Readiness", counter))
            if verdict is not None and verdict != self._run.ready:
                self._run.ready = verdict
                self._changed()
            await self._pause(probe.period_seconds or 10)

    async def _answer(self, probe: Probe, kind: str, counter: Counter) -> bool:
        try:
            await ask(probe, self._container, self._address, self._execute)
        except Failure as problem:
            if self._stopped.is_set():
                return True
            row = counter.row + 1 if counter.last is False else 1
            fatal = kind != "Readiness" and row >= counter.failures_allowed
            self._unhealthy(self._container, kind, str(problem), fatal, probe.termination_grace_period_seconds)
            return False
        return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)
