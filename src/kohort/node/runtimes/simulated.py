"""A runtime without processes: containers start, and end when a test ends them or the agent stops them.

For tests of the agent, and for `kohort node --runtime simulated`.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from itertools import count

import msgspec

from kohort.kube import clock
from kohort.node.runtimes.interface import (
    CANNOT_RUN,
    ERROR,
    Instance,
    Launch,
    Session,
    output_of,
    parse_container_key,
)
from kohort.node.runtimes.without_sandboxes import RuntimeWithoutSandboxes


class SimulatedSession:
    def __init__(self, output: list[tuple[int, bytes]]) -> None:
        self._output = output

    async def read(self) -> tuple[int, bytes] | None:
        return self._output.pop(0) if self._output else None

    async def write(self, channel: int, data: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


class SimulatedRuntime(RuntimeWithoutSandboxes):
    name = "simulated"
    version = ""

    def __init__(self) -> None:
        super().__init__()
        self.launches: dict[str, Launch] = {}
        self.signals: list[tuple[str, int]] = []
        self.ignoring: set[str] = set()
        """Names of containers that ignore the stop signal."""
        self.broken: dict[str, str] = {}
        """Programs that cannot be run, and why."""
        self.answers: Callable[[Launch], int] = lambda launch: 0
        """The exit code of a command that is executed in a container."""
        self._instances: dict[str, Instance] = {}
        self._pids = count(1000)
        self._ended: dict[str, asyncio.Event] = {}
        self._on_sandbox_lost: list[Callable[[str], None]] = []

    def on_sandbox_lost(self, callback: Callable[[str], None]) -> None:
        self._on_sandbox_lost.append(callback)

    def lose_sandbox(self, uid: str) -> None:
        """End what the containers of a pod share, and them with it."""
        for callback in self._on_sandbox_lost:
            callback(uid)
        for id in self.running():
            if parse_container_key(id).pod_uid == uid:
                self.end(id, 137)

    async def instances(self) -> dict[str, Instance]:
        return dict(self._instances)

    async def start(self, launch: Launch) -> Instance:
        pid = next(self._pids)
        instance = Instance(launch.id, pid, pid, clock.timestamp(), stop_signal=launch.stop_signal)
        if problem := self.broken.get(launch.command[0]):
            instance = msgspec.structs.replace(instance, ended=instance.started, exit_code=CANNOT_RUN, problem=problem)
        self.launches[launch.id] = launch
        self._instances[launch.id] = instance
        return instance

    def end(self, id: str, code: int = 0, *, oom_killed: bool = False) -> None:
        """End an instance, as if by itself."""
        instance = self._instances.get(id)
        if instance is None:
            self._ended.setdefault(id, asyncio.Event()).set()
        elif instance.running:
            self._instances[id] = msgspec.structs.replace(
                instance, exit_code=code, ended=clock.timestamp(), oom_killed=oom_killed
            )
            self._ended.setdefault(id, asyncio.Event()).set()
            for callback in self._callbacks:
                callback(self._instances[id])

    def running(self) -> list[str]:
        return [id for id, each in self._instances.items() if each.running]

    async def stop(self, id: str, grace: float, number: int = signal.SIGTERM) -> None:
        if grace > 0:
            self._signal(id, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.setdefault(id, asyncio.Event()).wait(), grace)
        if id in self.running():
            self._signal(id, signal.SIGKILL)

    def _signal(self, id: str, number: int) -> None:
        self.signals.append((id, number))
        if number == signal.SIGKILL or not self._ignores_signals(id):
            self.end(id, 128 + number)

    async def remove(self, id: str) -> None:
        self._instances.pop(id, None)

    async def execute(self, within: str, launch: Launch) -> Session:
        return SimulatedSession([(ERROR, str(self.answers(launch)).encode())])

    async def run_command(self, within: str, launch: Launch) -> tuple[int, bytes]:
        return await output_of(await self.execute(within, launch))

    async def attach(self, id: str) -> Session:
        return SimulatedSession([])

    async def close(self, *, stop: bool) -> None:
        if stop:
            for id in self.running():
                self.end(id, 137)

    def memory_in_use(self, instance: Instance) -> int:
        return 0

    def cpu_seconds(self, instance: Instance) -> float:
        return 0.0

    def _ignores_signals(self, id: str) -> bool:
        return any(name in id for name in self.ignoring)
