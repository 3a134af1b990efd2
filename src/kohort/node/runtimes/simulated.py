"""A runtime without processes: containers start, and end when they are told to.

For tests of what is above it, and for nodes that should look busy: `kohort node --runtime simulated`.
"""

import signal
from collections.abc import Callable
from itertools import count

import msgspec

from kohort.kube import clock
from kohort.node.runtimes.interface import CANNOT_RUN, ERROR, Instance, Launch, Session


class SimulatedSession:
    def __init__(self, output: list[tuple[int, bytes]]) -> None:
        self._output = output

    async def read(self) -> tuple[int, bytes] | None:
        return self._output.pop(0) if self._output else None

    async def write(self, channel: int, data: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


class SimulatedRuntime:
    name = "simulated"

    def __init__(self) -> None:
        self.launches: dict[str, Launch] = {}
        self.signals: list[tuple[str, int]] = []
        self.deaf: set[str] = set()
        """Container names that do not end at SIGTERM."""
        self.broken: dict[str, str] = {}
        """Programs that cannot be run, and why."""
        self.answers: Callable[[Launch], int] = lambda launch: 0
        """The exit code of a command that is executed in a container."""
        self._instances: dict[str, Instance] = {}
        self._pids = count(1000)
        self._tell: list[Callable[[Instance], None]] = []

    def on_exit(self, tell: Callable[[Instance], None]) -> None:
        self._tell.append(tell)

    async def instances(self) -> dict[str, Instance]:
        return dict(self._instances)

    async def start(self, launch: Launch) -> Instance:
        pid = next(self._pids)
        instance = Instance(launch.id, pid, pid, clock.timestamp())
        if problem := self.broken.get(launch.command[0]):
            instance = msgspec.structs.replace(instance, ended=instance.started, exit_code=CANNOT_RUN, problem=problem)
        self.launches[launch.id] = launch
        self._instances[launch.id] = instance
        return instance

    def end(self, id: str, code: int = 0, *, oom_killed: bool = False) -> None:
        """Let an instance end by itself."""
        instance = self._instances[id]
        if instance.running:
            self._instances[id] = msgspec.structs.replace(
                instance, exit_code=code, ended=clock.timestamp(), oom_killed=oom_killed
            )
            for tell in self._tell:
                tell(self._instances[id])

    def running(self) -> list[str]:
        return [id for id, each in self._instances.items() if each.running]

    async def signal(self, id: str, number: int) -> None:
        self.signals.append((id, number))
        if id in self._instances and (number == signal.SIGKILL or not self._hard_of_hearing(id)):
            self.end(id, 128 + number)

    async def remove(self, id: str) -> None:
        self._instances.pop(id, None)

    async def execute(self, within: str, launch: Launch) -> Session:
        return SimulatedSession([(ERROR, str(self.answers(launch)).encode())])

    async def attach(self, id: str) -> Session:
        return SimulatedSession([])

    async def close(self, *, stop: bool) -> None:
        if stop:
            for id in self.running():
                self.end(id, 137)

    def _hard_of_hearing(self, id: str) -> bool:
        return any(name in id for name in self.deaf)
