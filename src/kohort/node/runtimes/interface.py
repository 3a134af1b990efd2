"""What the agent asks of a container runtime. `process` and `simulated` implement it; a CRI runtime would be a third.

The agent makes all decisions; a runtime carries them out, and its own records are the only record of what runs. So an
agent can be killed at any moment: the next one asks the runtime for its containers, which are named by pod, container
and attempt (`ContainerKey`). Paths in `Launch` that only some runtimes need (`root`, `layer`, `netns`) may be empty.

| the agent                              | calls                              | CRI                                   |
|----------------------------------------|------------------------------------|---------------------------------------|
| starts a container                     | `start`                            | CreateContainer, StartContainer       |
| stops one, with a grace period         | `stop`                             | StopContainer                         |
| finds those of an earlier agent        | `instances`                        | ListContainers, ContainerStatus       |
| removes one that has ended             | `remove`                           | RemoveContainer                       |
| runs commands, attaches clients        | `execute`, `attach`                | Exec, Attach                          |
| looks for pods that use much memory    | `memory_in_use`                    | ListContainerStats                    |
| reconciles a pod whose container ended | `on_exit`                          | GetContainerEvents                    |
"""

import contextlib
import signal
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
    """The file for its output; empty for a command whose output goes to a session."""
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
    """How it ended is unknown: the runtime was not running."""
    notes: tuple[str, ...] = ()
    """Parts of the launch that this machine does not permit; it was started without them."""
    problem: str = ""
    """Why its program could not be run."""

    @property
    def running(self) -> bool:
        return self.exit_code is None


CANNOT_RUN = 128
"""The exit code of an instance whose program could not be run."""


class CannotStart(Exception):
    """A process could not be started; the message says why."""


class CannotRun(CannotStart):
    """Everything was prepared, but the program does not exist or cannot be executed."""


class Session(Protocol):
    """The streams of one process: its output is read as (channel, bytes), its end as (ERROR, exit code as text)."""

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
    """What `containerID` in the status of pods begins with."""

    def on_exit(self, callback: "Callable[[Instance], None]") -> None:
        """Have `callback` called for every instance that ends."""
        ...

    async def instances(self) -> dict[str, Instance]:
        """All instances that were started and not removed, also those that an earlier agent has started."""
        ...

    async def start(self, launch: Launch) -> Instance:
        """An instance whose program cannot be run has ended, with a `problem`. Raises CannotStart for any other
        reason."""
        ...

    async def stop(self, id: str, grace: float, number: int = signal.SIGTERM) -> None:
        """Ask an instance to end with a signal, and kill it with everything that it has started after `grace` seconds;
        at once if that is 0. Returns when it has ended; an unknown or ended one is not an error. A second call with a
        shorter grace takes effect while the first one waits."""
        ...

    async def remove(self, id: str) -> None:
        """Forget an instance that has ended; an unknown one is not an error."""
        ...

    async def execute(self, within: str, launch: Launch) -> Session:
        """Run a command where instance `within` runs (see `command_in`). Raises CannotStart."""
        ...

    async def attach(self, id: str) -> Session:
        """Connect to the standard streams of an instance. Raises CannotStart."""
        ...

    def memory_in_use(self, instance: Instance) -> int:
        """Bytes that an instance and everything that it has started have in memory, where no cgroup counts them."""
        ...

    async def close(self, *, stop: bool) -> None:
        """Disconnect; `stop` ends all instances."""
        ...
