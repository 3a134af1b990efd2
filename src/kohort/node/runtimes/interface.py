"""What the agent asks of whatever runs its containers. A CRI runtime would be another implementation."""

import contextlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels of an attached or executed process, numbered as on the wire of `kubectl exec`."""


class ContainerKey(NamedTuple):
    """One start of one container. The agent names containers by it, so that it recognises those of an earlier agent."""

    pod_uid: str
    container: str
    attempt: int
    """Counted from 0."""

    def __str__(self) -> str:
        return f"{self.pod_uid}_{self.container}_{self.attempt}"


def parse_container_key(id: str) -> ContainerKey:
    uid, container, attempt = id.split("_")
    return ContainerKey(uid, container, int(attempt))


class Mount(msgspec.Struct, frozen=True):
    source: str
    target: str
    read_only: bool = False
    optional: bool = False
    """The process starts without it if it cannot be made."""


class Launch(msgspec.Struct, frozen=True):
    """Everything needed to start one process."""

    id: str
    command: tuple[str, ...]
    env: dict[str, str] = {}
    directory: str = ""
    root: str = ""
    """A root directory; empty for the machine's own."""
    cgroup: str = ""
    log: str = ""
    """Where its output goes; empty for a process that somebody is attached to."""
    mounts: tuple[Mount, ...] = ()
    hostname: str = ""
    netns: str = ""
    """Path of a network namespace; empty for the machine's own."""
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    privileged: bool = False
    capabilities: tuple[int, ...] | None = None
    """By number: all that root may have in it; None for everything."""
    seccomp: bytes = b""
    """A filter for calls to the kernel; empty for none."""
    layer: str = ""
    """A directory for this start of a container alone: what it changes in its image is kept there."""
    own_processes: bool = False
    """It sees no process but its own."""
    own_ipc: bool = False
    unmasked_proc: bool = False
    sysctls: dict[str, str] = {}
    oom_score_adj: int | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class Instance(msgspec.Struct, frozen=True):
    """A process that was started, and how it ended."""

    id: str
    pid: int
    birth: int
    """Start time as the kernel counts it: with the pid, an identity that does not come back."""
    started: str
    ended: str = ""
    exit_code: int | None = None
    """None while it runs; 128 plus the signal for one that was killed."""
    oom_killed: bool = False
    lost: bool = False
    """Nobody was there to see how it ended."""
    notes: tuple[str, ...] = ()
    """What could not be done as asked, although it was started."""
    problem: str = ""
    """Why its program could not be run: it has ended before it began."""

    @property
    def running(self) -> bool:
        return self.exit_code is None


CANNOT_RUN = 128
"""The exit code of an instance whose program could not be run."""


class CannotStart(Exception):
    """A process could not be started; the message says why."""


class CannotRun(CannotStart):
    """All was prepared, but there is no such program, or it is none."""


class Session(Protocol):
    """Talks to one process: what it writes comes as (channel, bytes), its end as (ERROR, exit code as text)."""

    async def read(self) -> tuple[int, bytes] | None: ...
    async def write(self, channel: int, data: bytes) -> None: ...
    async def close(self) -> None: ...


def command_in(container: Launch, id: str, command: tuple[str, ...], *, stdin: bool, tty: bool) -> Launch:
    """A command that is to run inside a container, with its environment and rights."""
    return msgspec.structs.replace(
        container,
        id=id,
        command=command,
        env={**container.env, "TERM": "xterm"} if tty else container.env,
        log="",
        oom_score_adj=None,
        stdin=stdin,
        stdin_once=False,
        tty=tty,
    )


async def output_of(session: Session, limit: int = 10240) -> tuple[int, bytes]:
    """Read a session to its end: the exit code and the first bytes of its output."""
    output = b""
    try:
        while (message := await session.read()) is not None:
            channel, data = message
            if channel == ERROR:
                return int(data), output
            if len(output) < limit:
                output += data
    finally:
        with contextlib.suppress(OSError):
            await session.close()
    return 137, output


class Runtime(Protocol):
    name: str

    def on_exit(self, tell: "Callable[[Instance], None]") -> None:
        """Be told of every instance that ends."""
        ...

    async def instances(self) -> dict[str, Instance]:
        """All that were started and not removed, the ones of an earlier agent included."""
        ...

    async def start(self, launch: Launch) -> Instance:
        """One whose program cannot be run has ended, with a `problem`. Raises CannotStart for any other reason."""
        ...

    async def signal(self, id: str, number: int) -> None:
        """To the process itself; SIGKILL to everything that it has started."""
        ...

    async def remove(self, id: str) -> None:
        """Forget an instance that has ended."""
        ...

    async def execute(self, within: str, launch: Launch) -> Session:
        """Another process where instance `within` runs. Raises CannotStart."""
        ...

    async def attach(self, id: str) -> Session: ...

    async def close(self, *, stop: bool) -> None:
        """Let go; `stop` ends everything that runs."""
        ...
