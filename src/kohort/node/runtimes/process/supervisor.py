"""The parent process of all containers of one node: starts them, writes their logs, records how they end.

Run as `python -m kohort.node.runtimes.process.supervisor STATE_DIRECTORY`. It listens on a socket and ends by itself
when nothing runs and no agent has been connected for a while. It imports few modules, to use little memory.
"""

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

import msgspec

from kohort.kube.private_files import make_private_directory, private_directory, write_private
from kohort.node.runtimes.interface import (
    CANNOT_RUN,
    CLOSE,
    ERROR,
    LOST_CODE,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    CannotRun,
    CannotStart,
    Instance,
    Launch,
)
from kohort.node.runtimes.log_files import stamp
from kohort.node.runtimes.process import process_launch, process_marks
from kohort.node.runtimes.process.supervised_process import SupervisedProcess
from kohort.node.runtimes.process.supervisor_protocol import (
    CONTROL,
    LONGEST,
    MARKERS,
    SupervisorReply,
    SupervisorRequest,
    frame,
    listening_socket,
    peer_uid,
    read,
)

IDLE_SECONDS: Final = 20.0
STARTER_ENDED: Final = "the process supervisor that had started the container was not running"
STOP_SECONDS: Final = 8.0
"""How long containers may take to be gone when everything is stopped."""
STOP_POLL_SECONDS: Final = 0.01


class StoredInstance(msgspec.Struct):
    """What is on disk of an instance."""

    launch: Launch
    instance: Instance


class Supervisor:
    def __init__(self, state: Path) -> None:
        self._state = state
        self._containers: dict[str, SupervisedProcess] = {}
        self._by_pid: dict[int, SupervisedProcess] = {}
        self._watchers: set[asyncio.StreamWriter] = set()
        self._connections = 0
        self._leaving = asyncio.Event()
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        process_launch.become_subreaper()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        loop.add_signal_handler(signal.SIGTERM, self._leaving.set)
        self._adopt()
        private_directory(self._state, MARKERS)
        server = await asyncio.start_unix_server(self._serve, sock=listening_socket(self._state))
        while not self._leaving.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), IDLE_SECONDS)
            if not self._connections and not self._by_pid:
                break
        if self._stopping:
            await self._end_all()
        server.close()

    # Requests

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer_uid(writer.get_extra_info("socket")) not in (os.geteuid(), 0):
            writer.close()
            return
        self._connections += 1
        try:
            while (message := await read(reader)) is not None:
                ask = msgspec.json.decode(message[1], type=SupervisorRequest)
                if ask.what in ("execute", "attach"):
                    await self._session(ask, reader, writer)
                    return
                if ask.what == "watch":
                    self._watchers.add(writer)
                    continue
                writer.write(frame(CONTROL, msgspec.json.encode(self._answer(ask))))
                await writer.drain()
        except (ConnectionError, msgspec.MsgspecError):
            pass
        finally:
            self._connections -= 1
            self._watchers.discard(writer)
            writer.close()

    def _answer(self, ask: SupervisorRequest) -> SupervisorReply:
        match ask.what:
            case "list":
                return SupervisorReply(
                    instances=tuple(each.instance for each in self._containers.values() if each.instance)
                )
            case "launch":
                assert ask.launch is not None
                return self._launch(ask.launch)
            case "signal":
                self._signal(ask.id, ask.number)
            case "remove":
                self._containers.pop(ask.id, None)
                for suffix in (".json", ".stdout", ".stderr"):
                    with contextlib.suppress(FileNotFoundError):
                        self._file(ask.id, suffix).unlink()
            case "stop":
                self._stopping = True
                self._leaving.set()
        return SupervisorReply()

    def _launch(self, launch: Launch) -> SupervisorReply:
        known = self._containers.get(launch.id)
        if known is not None and known.instance is not None:
            return SupervisorReply(instances=(known.instance,))
        try:
            supervised = SupervisedProcess(launch)
        except OSError as problem:
            return SupervisorReply(f"cannot write the log of a container: {problem}")
        try:
            instance = self._start(supervised)
        except CannotRun as problem:
            now = stamp()[:19] + "Z"
            instance = supervised.instance = Instance(launch.id, 0, 0, now, now, CANNOT_RUN, problem=str(problem))
        except (CannotStart, OSError) as problem:
            return SupervisorReply(str(problem))
        self._containers[launch.id] = supervised
        self._keep(supervised)
        return SupervisorReply(instances=(instance,))

    def _start(self, supervised: SupervisedProcess, within: Instance | None = None) -> Instance:
        """Start a process, `within` a container if there is one. A container writes to named pipes that it holds open
        itself."""
        launch = supervised.launch
        container = launch.id if within is None else within.id
        given: list[int] = []
        try:
            if launch.tty:
                ours, theirs = pty.openpty()
                given = [theirs]
                stdin = stdout = stderr = theirs
                supervised.input = ours
                supervised.follow(ours, STDOUT)
            else:
                stdin = os.open(os.devnull, os.O_RDONLY)
                if launch.stdin:
                    os.close(stdin)
                    stdin, supervised.input = os.pipe()
                stdout = self._output(supervised, STDOUT)
                stderr = self._output(supervised, STDERR)
                given = [stdin, stdout, stderr]
            env = process_marks.marked(launch.env, process_marks.mark(self._state, container))
            marked = msgspec.structs.replace(launch, env=env)
            pid, notes = process_launch.spawn(marked, stdin, stdout, stderr, within.pid if within is not None else 0)
        except (CannotStart, OSError):
            for source in list(supervised.sources):
                supervised.unfollow(source)
            raise
        finally:
            for descriptor in given:
                os.close(descriptor)
        birth = process_launch.birth(pid) or 0
        supervised.instance = Instance(
            launch.id, pid, birth, stamp()[:19] + "Z", notes=notes, stop_signal=launch.stop_signal
        )
        self._by_pid[pid] = supervised
        return supervised.instance

    def _output(self, supervised: SupervisedProcess, channel: int) -> int:
        if not supervised.launch.log:
            ours, theirs = os.pipe()
            supervised.follow(ours, channel)
            return theirs
        path = self._file(supervised.launch.id, ".stdout" if channel == STDOUT else ".stderr")
        make_private_directory(path.parent)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        os.mkfifo(path, 0o600)
        supervised.follow(os.open(path, os.O_RDONLY | os.O_NONBLOCK), channel)
        return os.open(path, os.O_RDWR)

    def _signal(self, id: str, number: int) -> None:
        supervised = self._containers.get(id)
        instance = supervised.instance if supervised is not None else None
        if supervised is None or instance is None or not instance.running:
            return
        if process_launch.birth(instance.pid) != instance.birth:
            return
        below = process_marks.descendants(instance.pid) if number == signal.SIGKILL else ()
        with contextlib.suppress(ProcessLookupError):
            os.kill(instance.pid, number)
        if number == signal.SIGKILL:
            self._kill_all(supervised.launch, instance)
        for pid in below:
            process_marks.kill(pid)

    def _kill_all(self, launch: Launch, instance: Instance) -> None:
        """Everything in the cgroup and in the group of a process; that of another with its number is spared."""
        if launch.cgroup:
            with contextlib.suppress(OSError):
                Path(launch.cgroup, "cgroup.kill").write_text("1")
        if process_launch.birth(instance.pid) in (None, instance.birth):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(instance.pid, signal.SIGKILL)

    # Sessions

    async def _session(
        self, ask: SupervisorRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        supervised = self._session_process(ask, writer)
        if supervised is None:
            return
        supervised.listeners.add(writer)
        started = ask.what == "execute"
        try:
            while (message := await read(reader)) is not None:
                await self._hear(supervised, *message)
        finally:
            supervised.listeners.discard(writer)
            if supervised.launch.stdin_once:
                supervised.close_input()
            if started and supervised.instance is not None and supervised.instance.running:
                self._kill_all(msgspec.structs.replace(supervised.launch, cgroup=""), supervised.instance)

    def _session_process(self, ask: SupervisorRequest, writer: asyncio.StreamWriter) -> SupervisedProcess | None:
        problem = ""
        supervised = self._containers.get(ask.id)
        if supervised is None or supervised.instance is None or not supervised.instance.running:
            problem = f"container {ask.id} does not run"
        elif ask.what == "execute":
            assert ask.launch is not None
            within = supervised.instance
            supervised = SupervisedProcess(ask.launch)
            supervised.listeners.add(writer)
            try:
                self._start(supervised, within)
            except CannotStart as refused:
                problem = str(refused)
        writer.write(frame(CONTROL, msgspec.json.encode(SupervisorReply(problem))))
        return None if problem else supervised

    async def _hear(self, supervised: SupervisedProcess, channel: int, data: bytes) -> None:
        if channel == STDIN and supervised.input is not None:
            await asyncio.to_thread(_write_all, supervised.input, data)
        elif channel == CLOSE and (supervised.launch.stdin_once or not supervised.launch.log):
            supervised.close_input()  # a container's input stays open for the next client, unless stdinOnce is set
        elif channel == RESIZE and supervised.launch.tty and supervised.input is not None:
            size = msgspec.json.decode(data, type=dict[str, int])
            packed = struct.pack("HHHH", size.get("Height", 24), size.get("Width", 80), 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(supervised.input, termios.TIOCSWINSZ, packed)

    # Ends

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            supervised = self._by_pid.pop(pid, None)
            if supervised is not None:
                code = os.waitstatus_to_exitcode(status)
                self._later(self._ended(supervised, code if code >= 0 else 128 - code))

    async def _ended(self, supervised: SupervisedProcess, code: int, *, lost_reason: str = "") -> None:
        """Record and report an end, also when the disk is full or descriptors have run out."""
        instance = supervised.instance
        assert instance is not None
        with contextlib.suppress(OSError):
            await self._end_rest(supervised.launch, instance)
        with contextlib.suppress(OSError):
            await supervised.drain()
        out_of_memory = code == 128 + signal.SIGKILL and _oom_kills(supervised.launch.cgroup) > 0
        supervised.instance = msgspec.structs.replace(
            instance,
            exit_code=code,
            ended=stamp()[:19] + "Z",
            oom_killed=out_of_memory,
            lost=bool(lost_reason),
            lost_reason=lost_reason,
        )
        supervised.send(ERROR, str(code).encode())
        for listener in supervised.listeners:
            with contextlib.suppress(ConnectionError):
                await listener.drain()
        if supervised.launch.id in self._containers:
            with contextlib.suppress(OSError):
                self._keep(supervised)
            for watcher in self._watchers:
                watcher.write(frame(CONTROL, msgspec.json.encode(SupervisorReply(instances=(supervised.instance,)))))

    async def _end_rest(self, launch: Launch, instance: Instance) -> None:
        """Kill what a container that has ended has left. Raises OSError."""
        if launch.log:
            self._kill_all(launch, instance)
            if not launch.cgroup:
                await asyncio.to_thread(process_marks.end_marked, process_marks.mark(self._state, launch.id))

    async def _end_all(self) -> None:
        """Nothing of a container is left after this."""
        for id in self._containers:
            self._signal(id, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                while self._running() or self._tasks:  # noqa: ASYNC110 (they end one by one)
                    await asyncio.sleep(STOP_POLL_SECONDS)

    def _running(self) -> bool:
        return any(each.instance is not None and each.instance.running for each in self._containers.values())

    # What is on disk

    def _file(self, id: str, suffix: str) -> Path:
        return self._state / "instances" / f"{id}{suffix}"

    def _keep(self, supervised: SupervisedProcess) -> None:
        assert supervised.instance is not None
        path = self._file(supervised.launch.id, ".json")
        make_private_directory(path.parent)
        write_private(path, msgspec.json.encode(StoredInstance(supervised.launch, supervised.instance)))

    def _adopt(self) -> None:
        """Take over what an earlier supervisor has started."""
        for path in (self._state / "instances").glob("*.json"):
            try:
                kept = msgspec.json.decode(path.read_bytes(), type=StoredInstance)
            except (OSError, msgspec.MsgspecError):
                continue
            supervised = SupervisedProcess(kept.launch)
            supervised.instance = kept.instance
            self._containers[kept.launch.id] = supervised
            if not kept.instance.running:
                continue
            if process_launch.birth(kept.instance.pid) != kept.instance.birth:
                self._later(self._ended(supervised, LOST_CODE, lost_reason=STARTER_ENDED))
                continue
            for suffix, channel in ((".stdout", STDOUT), (".stderr", STDERR)):
                with contextlib.suppress(OSError):
                    supervised.follow(os.open(self._file(kept.launch.id, suffix), os.O_RDONLY | os.O_NONBLOCK), channel)
            self._by_pid[kept.instance.pid] = supervised
            handle = os.pidfd_open(kept.instance.pid)
            asyncio.get_running_loop().add_reader(handle, self._foreign_end, handle, supervised)

    def _foreign_end(self, handle: int, supervised: SupervisedProcess) -> None:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)
        assert supervised.instance is not None
        if self._by_pid.pop(supervised.instance.pid, None) is not None:
            self._later(self._ended(supervised, LOST_CODE, lost_reason=STARTER_ENDED))

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    with contextlib.suppress(OSError):
        while view:
            try:
                view = view[os.write(descriptor, view[:LONGEST]) :]
            except BlockingIOError:
                os.set_blocking(descriptor, True)


def _oom_kills(cgroup: str) -> int:
    if not cgroup:
        return 0
    with contextlib.suppress(OSError):
        for line in Path(cgroup, "memory.events").read_text().splitlines():
            key, _, count = line.partition(" ")
            if key == "oom_kill":
                return int(count)
    return 0


def main() -> None:
    asyncio.run(Supervisor(Path(sys.argv[1])).run())


if __name__ == "__main__":
    main()
