"""What the agent asks of a container runtime. `process`, `cri` and `simulated` implement it.

The agent makes all decisions; a runtime carries them out, and its own records are the only record of what runs. So an
agent can be killed at any moment: the next one asks the runtime for its containers, which are named by pod, container
and attempt (`ContainerKey`). Fields of `Launch` that only some runtimes need may be empty.

| the agent                              | calls                              | CRI                                   |
|----------------------------------------|------------------------------------|---------------------------------------|
| prepares a pod, at every sync          | `prepare_pod`                      | RunPodSandbox                         |
| gets the image of a container          | `images.ensure`                    | ImageStatus, PullImage                |
| starts a container                     | `start`                            | CreateContainer, StartContainer       |
| stops one, with a grace period         | `stop`                             | StopContainer                         |
| changes the limits of a running one    | `resize`                           | UpdateContainerResources              |
| finds those of an earlier agent        | `instances`                        | ListContainers, ContainerStatus       |
| removes one that has ended             | `remove`                           | RemoveContainer                       |
| runs commands, attaches clients        | `execute`, `run_command`, `attach` | Exec, ExecSync, Attach                |
| looks for pods that use much memory    | `memory_in_use`                    | ListContainerStats                    |
| measures what containers use           | `cpu_seconds`, `memory_in_use`     | ListContainerStats                    |
| reconciles a pod whose container ended | `on_exit`                          | GetContainerEvents                    |
| has stopped a pod; removes it          | `stop_pod`, `remove_pod`           | StopPodSandbox, RemovePodSandbox      |
"""

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from kohort.node.image_config import Image
from kohort.objects.container_reasons import ERR_IMAGE_PULL
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.resources import CgroupValues

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels of an attached or executed process, numbered as on the wire of `kubectl exec`."""
RUNTIME_RECORD: Final = Path("records/runtime.json")
"""In the directory of a node whose pods a container runtime has run: which one."""


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
    propagation: str = ""
    """`HostToContainer` or `Bidirectional`; otherwise mounts made later are seen on one side only."""
    sub_path: str = ""
    """The part of the source that is mounted, opened without following links (`node.sub_paths`)."""


class Device(msgspec.Struct, frozen=True):
    """A device file that a container gets."""

    source: str
    target: str
    permissions: str = "rwm"


class ContainerSecurity(msgspec.Struct, frozen=True):
    """What a pod and a container say of user and rights, for runtimes that carry it out by themselves."""

    uid: int | None = None
    user_name: str = ""
    """The user that the image names, if it has no number and the pod names none."""
    gid: int | None = None
    groups: tuple[int, ...] = ()
    strict_groups: bool = False
    """Without the groups that the image gives the user."""
    privileged: bool = False
    read_only_root: bool = False
    no_new_privileges: bool = False
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    seccomp: str = "Unconfined"
    """`RuntimeDefault`, `Unconfined`, or the path of a profile on this machine."""
    apparmor: str = ""
    """`RuntimeDefault`, `Unconfined`, or the name of a profile that the kernel has; empty if the pod does not say."""
    selinux: dict[str, str] = {}
    unmasked_proc: bool = False


class PodSandboxSpec(msgspec.Struct, frozen=True):
    """What a runtime makes before the first container of a pod: namespaces that its containers share."""

    uid: str
    name: str
    namespace: str
    hostname: str = ""
    """Empty for the machine's own."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    log_directory: str = ""
    cgroup: str = ""
    """The pod's cgroup, which the agent has made; empty if this node has none."""
    sysctls: dict[str, str] = {}
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    shared_processes: bool = False
    privileged: bool = False
    """One of its containers is."""
    uid_of_user: int | None = None
    gid_of_user: int | None = None
    groups: tuple[int, ...] = ()
    handler: str = ""
    """From the pod's RuntimeClass; empty for the runtime's default."""
    own_users: bool = False
    """The pod asks for a user namespace."""


class Launch(msgspec.Struct, frozen=True):
    """Everything needed to start one process."""

    id: str
    command: tuple[str, ...]
    """Runtimes with images of their own take those of the image if this is empty."""
    env: dict[str, str] = {}
    args: tuple[str, ...] = ()
    """What follows the command, or the image's entry point; always empty for `process`."""
    directory: str = ""
    image: str = ""
    """What `images.ensure` has returned; for runtimes with images of their own."""
    image_name: str = ""
    """As the pod names it."""
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
    security: ContainerSecurity = ContainerSecurity()
    resources: CgroupValues | None = None
    """For runtimes that make the cgroup of a container themselves; None if nothing is limited."""
    cgroup_files: dict[str, str] = {}
    """Further files of that cgroup and their content."""
    stop_signal: str = ""
    """By name (`node.stop_signal`); empty for SIGTERM, or what the runtime reads in an image of its own."""
    shares_processes_of: str = ""
    """The name of a container whose processes this one sees."""
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    """Names in the Container Device Interface, such as `vendor.com/gpu=0`."""
    annotations: dict[str, str] = {}


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
    """How it ended is unknown."""
    lost_reason: str = ""
    """Why that is unknown, in words for the pod's status."""
    notes: tuple[str, ...] = ()
    """Parts of the launch that this machine does not permit; it was started without them."""
    problem: str = ""
    """Why its program could not be run."""
    runtime_id: str = ""
    """What the runtime calls it, if not as the agent does."""
    image_id: str = ""
    """The image that it was made of, as the runtime names it."""
    stop_signal: str = ""
    """That of its launch, for runtimes that are told which signal to send."""

    @property
    def running(self) -> bool:
        return self.exit_code is None


LOST_CODE: Final = 128 + signal.SIGKILL
"""The exit code of an instance whose end is not recorded."""


def as_started(instance: Instance) -> Instance:
    """What `start` returns for an instance that has ended meanwhile: its end is reported as every other one."""
    return msgspec.structs.replace(instance, exit_code=None, ended="", oom_killed=False, lost=False, lost_reason="")


def as_lost(instance: Instance, now: str, reason: str) -> Instance:
    """An instance that is gone, without a record of its end."""
    return msgspec.structs.replace(instance, exit_code=LOST_CODE, ended=now, lost=True, lost_reason=reason)


CANNOT_RUN = 128
"""The exit code of an instance whose program could not be run."""


class CannotStart(Exception):
    """A process could not be started; the message says why."""


class CannotCreate(CannotStart):
    """A container could not even be made from its configuration."""


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
        args=(),
        env={**container.env, "TERM": "xterm"} if tty else container.env,
        log="",
        oom_score_adj=None,
        stdin=stdin,
        stdin_once=False,
        tty=tty,
    )


async def output_of(session: Session, limit: int = 10240) -> tuple[int, bytes]:
    """Read a session to its end: the exit code and the first bytes of its output. Raises OSError if it breaks off."""
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
    raise ConnectionResetError("the connection was lost while the command ran")


class ImageBeingPulled(Exception):
    """The image of a container is on its way; the pod is reconciled again when it is there, or has failed to come."""


class ImageRequest(msgspec.Struct, frozen=True):
    """A container that is about to start, and its pod."""

    pod: NodePod
    container: NodeContainer
    attempt: int
    event: Callable[[str, str, str], None]
    """Writes an event of the pod: type, reason, message."""
    wake: Callable[[], None]
    """Has the pod reconciled again."""


class NoImage(Exception):
    """This node does not have the image and cannot get it. `reason` is one that clients know; a back-off is up to the
    agent."""

    def __init__(self, message: str, reason: str = ERR_IMAGE_PULL) -> None:
        super().__init__(message)
        self.reason = reason


class ImageSource(Protocol):
    async def ensure(self, request: ImageRequest) -> Image:
        """The image for one start of a container. Raises NoImage, ImageBeingPulled, ConfigProblem."""
        ...


class Runtime(Protocol):
    name: str
    """What `containerID` in the status of pods begins with."""
    version: str
    """As the node reports it; empty for that of kohort."""
    images: ImageSource | None
    """None if images are directories of this node."""

    async def prepare_pod(self, pod: PodSandboxSpec) -> None:
        """Make what the containers of a pod share, if it is not there. Raises CannotStart."""
        ...

    async def stop_pod(self, uid: str) -> None:
        """End what is left of a pod whose containers have ended; the records of its containers stay."""
        ...

    async def remove_pod(self, uid: str) -> None:
        """Forget a pod and its containers; an unknown one is not an error."""
        ...

    async def pods(self) -> set[str]:
        """The UIDs of all pods that were prepared and not removed, also by an earlier agent."""
        ...

    def cgroup_name(self, pod_uid: str, container: str) -> str:
        """The directory below the pod's cgroup in which a container runs; empty if it is not known to run."""
        ...

    async def resize(self, pod_uid: str, container: str, values: CgroupValues) -> None:
        """Change the limits of a running container whose cgroup the runtime has made. Raises OSError."""
        ...

    async def resize_pod(self, uid: str, values: CgroupValues) -> None:
        """The agent is about to change the cgroup of a pod. Raises OSError if the runtime refuses."""
        ...

    @property
    def gives_exact_groups(self) -> bool:
        """Whether containers can have the groups that their pod names and no others (`Strict`)."""
        ...

    @property
    def sandbox_image(self) -> str:
        """The image of sandboxes; empty if there is none, or the runtime does not name it."""
        ...

    @property
    def makes_cgroups(self) -> bool:
        """Whether the runtime makes the cgroups of containers; otherwise the agent does."""
        ...

    @property
    def problem(self) -> str:
        """Why the node cannot run pods now; empty if it can."""
        ...

    @property
    def network_problem(self) -> str:
        """Why it cannot run pods with a network of their own; empty if it can."""
        ...

    def on_change(self, callback: "Callable[[], None]") -> None:
        """Have `callback` called when one of the problems changes."""
        ...

    def on_sandbox_lost(self, callback: "Callable[[str], None]") -> None:
        """Have `callback` called with the UID of a pod whose shared namespaces have ended unexpectedly."""
        ...

    def on_exit(self, callback: "Callable[[Instance], None]") -> None:
        """Have `callback` called once for every instance that ends. It may be called before `start` has returned, and
        is called for an instance that `start` has returned as a running one."""
        ...

    async def instances(self) -> dict[str, Instance]:
        """All instances that were started and not removed, also those that an earlier agent has started."""
        ...

    async def start(self, launch: Launch) -> Instance:
        """An instance whose program cannot be run has ended, with a `problem`. Raises CannotStart for any other
        reason."""
        ...

    async def layer_bytes(self) -> dict[str, int] | None:
        """What each running instance has written to its root file system. None if that is among the files of the pod,
        where the agent finds it. Raises OSError."""
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

    async def run_command(self, within: str, launch: Launch) -> tuple[int, bytes]:
        """Run a command as `execute` does, to its end: the exit code and the first bytes of its output. Raises
        CannotStart, OSError."""
        ...

    async def attach(self, id: str) -> Session:
        """Connect to the standard streams of an instance. Raises CannotStart."""
        ...

    def memory_in_use(self, instance: Instance) -> int:
        """Bytes that an instance and everything that it has started have in memory, where no cgroup counts them."""
        ...

    def cpu_seconds(self, instance: Instance) -> float:
        """What an instance and everything that it has started have spent on cpus, where no cgroup counts it."""
        ...

    async def close(self, *, stop: bool) -> None:
        """Disconnect; `stop` ends all instances."""
        ...
