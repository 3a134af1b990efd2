"""The process runtime: finds the supervisor of this node's containers, or starts it, and sends it requests.

Answers come on one connection and ends of instances on another, so an end may come before the answer of the launch, or
before a list that was made earlier. An end is final whichever comes first: `_learn` reports it once, and nothing that
comes later makes the instance run again. In case a report of the supervisor is lost, its list is read from time to
time.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.kube.private_files import open_private, private_directory
from kohort.node.pressure import process_cpu_seconds, resident_bytes
from kohort.node.runtimes.interface import (
    CannotStart,
    Instance,
    Launch,
    Session,
    as_lost,
    as_started,
    output_of,
)
from kohort.node.runtimes.process import process_marks
from kohort.node.runtimes.process.supervisor_protocol import (
    CONTROL,
    MARKERS,
    Connection,
    SupervisorReply,
    SupervisorRequest,
    WrongPeer,
    connect,
    frame,
    read,
)
from kohort.node.runtimes.without_sandboxes import RuntimeWithoutSandboxes
from kohort.rules.python_command import python_command

START_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 0.2
RELIST_SECONDS: Final = 10.0
NOT_KNOWN: Final = "the process supervisor does not have the container any more"


class SupervisedSession:
    def __init__(self, connection: Connection) -> None:
        self._reader, self._writer = connection

    async def read(self) -> tuple[int, bytes] | None:
        return await read(self._reader)

    async def write(self, channel: int, data: bytes) -> None:
        self._writer.write(frame(channel, data))
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()


class ProcessRuntime(RuntimeWithoutSandboxes):
    """Pods need no preparation: each process is started in the namespaces and the cgroup that the agent has made."""

    name = "process"
    version = ""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self._state = state
        self._running: dict[str, Instance] = {}
        """Instances whose end was not reported to the callbacks yet."""
        self._over: dict[str, Instance] = {}
        """Instances whose end was reported, until they are removed."""
        self._ended: dict[str, asyncio.Event] = {}
        """Set when an instance ends that a call of `stop` waits for."""
        self._connection: Connection | None = None
        self._asking = asyncio.Lock()
        self._connecting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._relisting: asyncio.Task[None] | None = None

    async def instances(self) -> dict[str, Instance]:
        """Instances of the supervisor. If there never was one, it is not started for this."""
        if self._connection is None and not (self._state / "instances").is_dir():
            return {}
        return await self._relist()

    async def _relist(self) -> dict[str, Instance]:
        """Learn what the supervisor knows, and that it does not know an instance any more."""
        before = list(self._running)
        answer = await self._ask(SupervisorRequest("list"))
        for each in answer.instances:
            self._learn(each)
        listed = {each.id for each in answer.instances}
        for id in before:
            if id in self._running and id not in listed:
                self._learn(as_lost(self._running[id], clock.timestamp(), NOT_KNOWN))
        return {each.id: self._over.get(each.id, each) for each in answer.instances}

    async def start(self, launch: Launch) -> Instance:
        answer = await self._ask(SupervisorRequest("launch", launch=launch))
        if answer.problem:
            raise CannotStart(answer.problem)
        instance = answer.instances[0]
        if instance.problem:
            self._over[instance.id] = instance  # it ended with its launch: no end follows
            return instance
        self._learn(instance)
        return as_started(instance)

    async def stop(self, id: str, grace: float, number: int = signal.SIGTERM) -> None:
        if grace > 0:
            await self.signal(id, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._until_ended(id), grace)
        if id in self._running:
            await self.signal(id, signal.SIGKILL)
            await self._until_ended(id)

    async def _until_ended(self, id: str) -> None:
        while id in self._running:
            await self._ended.setdefault(id, asyncio.Event()).wait()

    async def signal(self, id: str, number: int) -> None:
        """Send a signal to the process itself; SIGKILL to everything that it has started."""
        await self._ask(SupervisorRequest("signal", id, number=number))

    def memory_in_use(self, instance: Instance) -> int:
        return resident_bytes([instance.pid, *process_marks.descendants(instance.pid)]) if instance.pid > 0 else 0

    def cpu_seconds(self, instance: Instance) -> float:
        if instance.pid <= 0:
            return 0.0
        return process_cpu_seconds([instance.pid, *process_marks.descendants(instance.pid)])

    async def remove(self, id: str) -> None:
        await self._ask(SupervisorRequest("remove", id))
        self._over.pop(id, None)

    async def execute(self, within: str, launch: Launch) -> Session:
        return await self._session(SupervisorRequest("execute", within, launch))

    async def run_command(self, within: str, launch: Launch) -> tuple[int, bytes]:
        return await output_of(await self.execute(within, launch))

    async def attach(self, id: str) -> Session:
        return await self._session(SupervisorRequest("attach", id))

    async def close(self, *, stop: bool) -> None:
        self._running.clear()
        for task in (self._watching, self._relisting):
            if task is not None:
                task.cancel()
        if self._connection is None:
            return
        if stop:
            for id, instance in (await self.instances()).items():
                if instance.running:
                    await self.signal(id, signal.SIGKILL)
            with contextlib.suppress(ConnectionError, TimeoutError):
                await self._ask(SupervisorRequest("stop"))
                async with asyncio.timeout(START_SECONDS):
                    await self._connection[0].read()  # until it has gone, and everything with it
        if self._connection is not None:
            self._connection[1].close()
        self._connection = None

    async def _session(self, ask: SupervisorRequest) -> Session:
        await self._connected()
        reader, writer = await connect(self._state)
        writer.write(frame(CONTROL, msgspec.json.encode(ask)))
        message = await read(reader)
        answer = SupervisorReply("the supervisor has gone") if message is None else _decoded(message[1])
        if answer.problem:
            writer.close()
            raise CannotStart(answer.problem)
        return SupervisedSession((reader, writer))

    async def _ask(self, ask: SupervisorRequest) -> SupervisorReply:
        async with self._asking:
            for _ in range(2):
                reader, writer = await self._connected()
                writer.write(frame(CONTROL, msgspec.json.encode(ask)))
                message = await read(reader)
                if message is not None:
                    return _decoded(message[1])
                self._connection = None
                if ask.what == "stop":
                    break
        raise ConnectionResetError("the supervisor of this node's processes has gone")

    async def _connected(self) -> Connection:
        """One at a time: two that find no supervisor would start two, and each would know only its own instances."""
        async with self._connecting:
            if self._connection is None:
                self._connection = await self._open()
                if self._watching is not None:
                    self._watching.cancel()
                self._watching = asyncio.create_task(self._watch(), name="node-exits")
            if self._relisting is None:
                self._relisting = asyncio.create_task(self._relist_again_and_again(), name="node-relist")
            return self._connection

    async def _open(self) -> Connection:
        try:
            return await connect(self._state)
        except WrongPeer as problem:
            raise CannotStart(str(problem)) from problem
        except OSError:  # it does not run yet, or no longer
            process = self._spawn()
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(OSError):
                    return await connect(self._state)
                if process.poll() is not None:
                    raise CannotStart(f"the supervisor of processes did not start; see {self._state}/supervisor.log")
                await asyncio.sleep(0.01)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        private_directory(self._state, MARKERS)
        with open(open_private(self._state / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as log:
            return subprocess.Popen(
                python_command("kohort.node.runtimes.process.supervisor", str(self._state)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    async def _watch(self) -> None:
        """Report instances that end. When the supervisor ends while instances run, its successor is started at once,
        and instances that have ended meanwhile are reported as well."""
        with contextlib.suppress(OSError):
            reader, writer = await connect(self._state)
            try:
                writer.write(frame(CONTROL, msgspec.json.encode(SupervisorRequest("watch"))))
                writer.write(frame(CONTROL, msgspec.json.encode(SupervisorRequest("list"))))
                while (message := await read(reader)) is not None:
                    for instance in _decoded(message[1]).instances:
                        self._learn(instance)
            finally:
                writer.close()
        self._connection = self._watching = None
        if self._running:
            await asyncio.sleep(AGAIN_SECONDS)
            with contextlib.suppress(OSError, CannotStart):
                await self._connected()

    async def _relist_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(RELIST_SECONDS)
            if self._running:
                with contextlib.suppress(OSError, CannotStart):
                    await self._relist()

    def _learn(self, instance: Instance) -> None:
        if instance.id in self._over:
            return
        if instance.running:
            self._running[instance.id] = instance
            return
        self._running.pop(instance.id, None)
        self._over[instance.id] = instance
        if (ended := self._ended.pop(instance.id, None)) is not None:
            ended.set()
        for callback in self._callbacks:
            callback(instance)


def _decoded(content: bytes) -> SupervisorReply:
    return msgspec.json.decode(content, type=SupervisorReply)
