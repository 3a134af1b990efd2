"""Real processes of this machine, through the supervisor."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from kohort.node.runtimes.interface import ERROR, RESIZE, STDERR, STDIN, STDOUT, CannotStart, Instance, Launch, Mount
from kohort.node.runtimes.process import process_launch
from kohort.node.runtimes.process import runtime as process_runtime
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.node.runtimes.process.supervisor_protocol import SupervisorReply, SupervisorRequest

ENV = {"PATH": os.environ["PATH"]}


class Ends:
    """Waits for instances to end, as the agent does."""

    def __init__(self, runtime: ProcessRuntime) -> None:
        self._queue: asyncio.Queue[Instance] = asyncio.Queue()
        runtime.on_exit(self._queue.put_nowait)

    async def next(self) -> Instance:
        async with asyncio.timeout(120):
            return await self._queue.get()


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    found = ProcessRuntime(tmp_path)
    yield found
    await found.close(stop=True)


def shell(tmp_path: Path, script: str, id: str = "c1", **more: object) -> Launch:
    return Launch(id, ("/bin/sh", "-c", script), ENV, log=str(tmp_path / "log"), **more)  # type: ignore[arg-type]


def lines(tmp_path: Path) -> list[str]:
    path = tmp_path / "log"
    return [line.split(" ", 1)[1] for line in path.read_text().splitlines()] if path.exists() else []


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def until(holds: Callable[[], bool]) -> None:
    """The kernel tells nobody, so look again until it is so."""
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_output_and_exit_code_are_kept(runtime: ProcessRuntime, tmp_path: Path) -> None:
    ends = Ends(runtime)
    started = await runtime.start(shell(tmp_path, "echo out; echo err >&2; printf rest; exit 7"))
    assert started.running and started.pid > 0
    ended = await ends.next()
    assert (ended.exit_code, ended.pid, ended.oom_killed) == (7, started.pid, False)
    assert sorted(lines(tmp_path)) == ["stderr F err", "stdout F out", "stdout P rest"]


class LateAnswers(ProcessRuntime):
    """Answers to requests of one kind come only after the end of an instance was read from the other connection."""

    def __init__(self, state: Path, what: str) -> None:
        super().__init__(state)
        self._what = what
        self._end_read = asyncio.Event()

    async def _ask(self, ask: SupervisorRequest) -> SupervisorReply:
        answer = await super()._ask(ask)
        if ask.what == self._what:
            async with asyncio.timeout(120):
                await self._end_read.wait()
        return answer

    def _learn(self, instance: Instance) -> None:
        super()._learn(instance)
        if not instance.running:
            self._end_read.set()


async def test_an_end_before_the_answer_of_the_launch_is_reported(tmp_path: Path) -> None:
    runtime = LateAnswers(tmp_path, "launch")
    ends = Ends(runtime)
    try:
        started = await runtime.start(shell(tmp_path, "exit 4"))
        assert started.running, "the end is reported as every other one"
        assert (await ends.next()).exit_code == 4
        async with asyncio.timeout(60):
            await runtime.stop("c1", 30.0)
    finally:
        await runtime.close(stop=True)


async def test_an_end_before_the_list_of_another_agent_is_reported(tmp_path: Path) -> None:
    first, runtime = ProcessRuntime(tmp_path), LateAnswers(tmp_path, "list")
    await first.start(shell(tmp_path, f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 4"))
    await first.close(stop=False)
    ends = Ends(runtime)
    try:
        listing = asyncio.create_task(runtime.instances())
        while not runtime._running:  # noqa: ASYNC110 (the other connection has its own list)
            await asyncio.sleep(0.01)
        (tmp_path / "go").touch()
        assert (await listing)["c1"].exit_code == 4, "though it ran when the list was made"
        assert (await ends.next()).exit_code == 4
        async with asyncio.timeout(60):
            await runtime.stop("c1", 30.0)
    finally:
        await runtime.close(stop=True)


class DeafRuntime(ProcessRuntime):
    """Reports of the supervisor do not arrive."""

    async def _watch(self) -> None:
        await asyncio.Event().wait()


async def test_an_end_whose_report_was_lost_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_runtime, "RELIST_SECONDS", 0.1)
    runtime = DeafRuntime(tmp_path)
    ends = Ends(runtime)
    try:
        await runtime.start(shell(tmp_path, "exit 4"))
        assert (await ends.next()).exit_code == 4
    finally:
        await runtime.close(stop=True)


async def test_an_instance_that_the_supervisor_does_not_know_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_runtime, "RELIST_SECONDS", 0.1)
    runtime = ProcessRuntime(tmp_path)
    ends = Ends(runtime)
    try:
        started = await runtime.start(shell(tmp_path, "exec sleep 60"))
        other = ProcessRuntime(tmp_path)
        await other.remove("c1")
        await other.close(stop=False)
        end = await ends.next()
        assert (end.id, end.exit_code, end.lost) == ("c1", 137, True)
        os.kill(started.pid, signal.SIGKILL)
    finally:
        await runtime.close(stop=True)


async def test_an_end_that_cannot_be_written_down_is_reported(runtime: ProcessRuntime, tmp_path: Path) -> None:
    ends = Ends(runtime)
    await runtime.start(shell(tmp_path, f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 4"))
    record = tmp_path / "instances" / "c1.json"
    record.unlink()
    record.mkdir()
    (tmp_path / "go").touch()
    assert (await ends.next()).exit_code == 4


async def test_a_program_that_is_not_there_is_named(runtime: ProcessRuntime, tmp_path: Path) -> None:
    found = await runtime.start(Launch("c1", ("/no/such/program",), ENV, log=str(tmp_path / "log")))
    assert "executable file not found" in found.problem
    (tmp_path / "program").write_text("no program")
    none = await runtime.start(Launch("c2", (str(tmp_path / "program"),), ENV, log=str(tmp_path / "log")))
    assert none.problem == f'exec: "{tmp_path}/program": Permission denied'


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"directory": "/no/such/dir"}, "working directory /no/such/dir: No such file or directory"),
        ({"directory": "/dev/null"}, "working directory /dev/null: Not a directory"),
        ({"mounts": (Mount("/", "/dev/null/x"),)}, "mount /dev/null/x: Not a directory"),
        ({"env": {"A": "a\0b"}}, "embedded null byte"),
        ({"log": "/dev/null/x/log"}, "cannot write the log of a container: [Errno 20] Not a directory: '/dev/null/x'"),
        ({"id": "x" * 300}, "File name too long"),
    ],
)
async def test_what_could_not_be_prepared_is_named(
    runtime: ProcessRuntime, tmp_path: Path, more: dict[str, object], words: str
) -> None:
    launch = msgspec.structs.replace(shell(tmp_path, "true"), **more)
    with pytest.raises(CannotStart, match=re.escape(words)):
        await runtime.start(launch)
    assert (await runtime.start(shell(tmp_path, "true", "c2"))).pid, "and others are started as ever"


async def test_starting_twice_starts_once(runtime: ProcessRuntime, tmp_path: Path) -> None:
    launch = shell(tmp_path, "exec sleep 60")
    assert (await runtime.start(launch)).pid == (await runtime.start(launch)).pid


async def test_a_kill_reaches_everything_that_was_started(runtime: ProcessRuntime, tmp_path: Path) -> None:
    ends = Ends(runtime)
    await runtime.start(shell(tmp_path, "sleep 61 & echo $!; wait"))
    await until(lambda: bool(lines(tmp_path)))
    child = int(lines(tmp_path)[0].split()[-1])
    await runtime.signal("c1", signal.SIGKILL)
    assert (await ends.next()).exit_code == 137
    await until(lambda: not Path(f"/proc/{child}").exists())


AWAY = "setsid sh -c 'echo $$; exec sleep 62' & "
"""A session of its own, that of a daemon: no group of the container has it."""
DAEMON = "setsid sleep 62 >/dev/null 2>&1 & echo $!"


async def away(tmp_path: Path, count: int = 1) -> list[int]:
    """The pids that such daemons have said."""
    await until(lambda: len(lines(tmp_path)) >= count)
    return [int(line.split()[-1]) for line in lines(tmp_path)[:count]]


def alive(pid: int) -> bool:
    return process_launch.birth(pid) is not None


async def test_daemons_end_with_their_container_before_that_is_told(runtime: ProcessRuntime, tmp_path: Path) -> None:
    ends = Ends(runtime)
    await runtime.start(shell(tmp_path, AWAY + f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 4"))
    (daemon,) = await away(tmp_path)
    assert alive(daemon)
    (tmp_path / "go").touch()
    assert (await ends.next()).exit_code == 4
    assert not alive(daemon), "the next start may want its port"


async def test_a_kill_and_a_stop_reach_daemons(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path)
    ends = Ends(runtime)
    await runtime.start(shell(tmp_path, AWAY + "wait", "c1"))
    (first,) = await away(tmp_path)
    await runtime.signal("c1", signal.SIGKILL)
    await ends.next()
    assert not alive(first)
    await runtime.start(shell(tmp_path, AWAY + "wait", "c2"))
    _, second = await away(tmp_path, 2)
    await runtime.close(stop=True)
    assert not alive(second)


async def test_daemons_of_executed_commands_end_with_the_container_and_others_do_not(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    ends = Ends(runtime)
    for id in ("c1", "c2"):
        await runtime.start(shell(tmp_path, "exec sleep 60", id))
    pids = {}
    for id in ("c1", "c2"):
        session = await runtime.execute(id, Launch("e", ("/bin/sh", "-c", DAEMON), ENV))
        pids[id] = int((await collected(session))[STDOUT])
    assert alive(pids["c1"]) and alive(pids["c2"]), "as in Kubernetes, they outlive the command"
    await runtime.signal("c1", signal.SIGKILL)
    await ends.next()
    assert (alive(pids["c1"]), alive(pids["c2"])) == (False, True)


async def test_daemons_are_found_by_the_next_supervisor(tmp_path: Path) -> None:
    first = ProcessRuntime(tmp_path)
    started = await first.start(shell(tmp_path, AWAY + "wait"))
    (daemon,) = await away(tmp_path)
    os.kill(parent_of(started.pid), signal.SIGKILL)
    os.kill(started.pid, signal.SIGKILL)
    await first.close(stop=False)
    second = ProcessRuntime(tmp_path)
    await second.instances()
    await until(lambda: not alive(daemon))
    await second.close(stop=True)


async def test_another_agent_finds_the_same_processes(runtime: ProcessRuntime, tmp_path: Path) -> None:
    started = await runtime.start(shell(tmp_path, "exec sleep 60"))
    other = ProcessRuntime(tmp_path)
    assert await other.instances() == {"c1": started}
    await other.close(stop=False)
    assert (await runtime.instances())["c1"].running


async def test_processes_outlive_their_supervisor_and_keep_talking(tmp_path: Path) -> None:
    first = ProcessRuntime(tmp_path)
    gate = tmp_path / "gate"
    script = f"echo before; while [ ! -e {gate} ]; do sleep 0.05; done; echo after; sleep 60"
    started = await first.start(shell(tmp_path, script))
    supervisor = parent_of(started.pid)
    await until(lambda: bool(lines(tmp_path)))
    os.kill(supervisor, signal.SIGKILL)
    await first.close(stop=False)
    second = ProcessRuntime(tmp_path)
    assert await second.instances() == {"c1": started}
    gate.touch()
    await until(lambda: len(lines(tmp_path)) == 2)
    assert lines(tmp_path) == ["stdout F before", "stdout F after"]
    ends = Ends(second)
    await second.signal("c1", signal.SIGKILL)
    ended = await ends.next()
    assert ended.lost and ended.exit_code == 137
    await second.close(stop=True)


async def test_what_ended_while_no_supervisor_was_there_is_told_by_the_next(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path)
    ends = Ends(runtime)
    started = await runtime.start(shell(tmp_path, "exec sleep 60"))
    os.kill(parent_of(started.pid), signal.SIGKILL)
    os.kill(started.pid, signal.SIGKILL)
    ended = await ends.next()
    assert (ended.id, ended.lost, ended.exit_code) == ("c1", True, 137)
    assert ended.lost_reason == "the process supervisor that had started the container was not running"
    await runtime.close(stop=True)


async def collected(session: object) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async with asyncio.timeout(120):
        while (message := await session.read()) is not None:  # type: ignore[attr-defined]
            found[message[0]] = found.get(message[0], b"") + message[1]
            if message[0] == ERROR:
                break
    await session.close()  # type: ignore[attr-defined]
    return found


async def test_commands_run_beside_a_container_with_streams_of_their_own(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    await runtime.start(shell(tmp_path, "exec sleep 60"))
    session = await runtime.execute("c1", Launch("e1", ("/bin/sh", "-c", "cat; echo no >&2; exit 3"), ENV, stdin=True))
    await session.write(STDIN, b"hello")
    await session.write(255, b"\x00")
    assert await collected(session) == {STDOUT: b"hello", STDERR: b"no\n", ERROR: b"3"}


async def test_a_terminal_has_the_size_of_the_users(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await runtime.start(shell(tmp_path, "exec sleep 60"))
    session = await runtime.execute(
        "c1", Launch("e1", ("/bin/sh", "-c", "read x; stty size"), ENV, stdin=True, tty=True)
    )
    await session.write(RESIZE, b'{"Width":123,"Height":45}')
    await session.write(STDIN, b"go\n")
    assert b"45 123" in (await collected(session))[STDOUT]


async def test_executing_where_nothing_runs_is_refused(runtime: ProcessRuntime) -> None:
    with pytest.raises(CannotStart, match="does not run"):
        await runtime.execute("c9", Launch("e1", ("true",), ENV))


async def test_attaching_shows_what_is_written_from_then_on(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await runtime.start(shell(tmp_path, "read line; echo got $line", stdin=True, stdin_once=True))
    session = await runtime.attach("c1")
    await session.write(STDIN, b"this\n")
    assert await collected(session) == {STDOUT: b"got this\n", ERROR: b"0"}
