"""Which container runtime runs on this machine, and whether the node agent can use it.

| `--runtime` | what runs containers                                                                              |
|-------------|---------------------------------------------------------------------------------------------------|
| `auto`      | a container runtime at one of the usual sockets, if it can be used; otherwise processes           |
| `cri`       | the container runtime at `--runtime-endpoint`, or at a usual socket; if it cannot be used, refuse  |
| `process`   | processes of this machine                                                                         |

A node's directory stays with what has run its pods under `auto`: they would be lost otherwise. With any of the other
two, a start is refused while pods of a killed agent run elsewhere: each of them would run twice.
"""

import os
import stat
from pathlib import Path
from typing import Final, Literal

import msgspec

from kohort.kube.private_files import write_private
from kohort.node.grpc.status import Code, RpcError
from kohort.node.runtimes.cri import cni_installation, crio_settings
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient, Unsupported
from kohort.node.runtimes.cri.cni_installation import CniAgent, running_agents
from kohort.node.runtimes.cri.configuration import NODE_LABEL, POD_NAME, POD_NAMESPACE, POD_UID, directory_mark
from kohort.node.runtimes.interface import RUNTIME_RECORD
from kohort.node.runtimes.process.leftover_processes import living_containers
from kohort.objects.counted_nouns import agreeing, counted

SOCKETS: Final = (Path("/run/containerd/containerd.sock"), Path("/run/crio/crio.sock"))
PROCESSES: Final = "runtime"
"""Where the runtime of processes keeps its records, in the directory of a node."""
SECONDS: Final = 10.0
API_VERSION: Final = "v1"
CNI_BINARIES, CNI_CONFIGURATIONS = Path("/opt/cni/bin"), Path("/etc/cni/net.d")
"""Where runtimes look that do not say where."""
Wanted = Literal["auto", "cri", "process"]


class CannotUseRuntime(Exception):
    """A container runtime cannot run the pods of this node; the message says why and what to do."""


class RuntimeFacts(msgspec.Struct, frozen=True):
    """A container runtime that can be used."""

    socket: Path
    name: str
    version: str
    cni_binaries: Path = CNI_BINARIES
    cni_configurations: Path = CNI_CONFIGURATIONS
    gives_exact_groups: bool = False
    """It has the feature `supplemental_groups_policy`."""
    sandbox_image: str = ""
    """If it says so."""

    @property
    def other_network(self) -> str:
        """The file of a network that is not ours; pods use the network of the machine then."""
        return cni_installation.other_network(self.cni_configurations)

    @property
    def announcement(self) -> str:
        where = f"containers run in {self.name} {self.version} at unix://{self.socket}"
        return f"{where}; {shared_network(other)}" if (other := self.other_network) else where

    def cni_agent(self, directory: Path) -> CniAgent:
        """The agent of a node's directory."""
        return CniAgent(
            str(directory.resolve()), str(self.socket), str(self.cni_binaries), str(self.cni_configurations)
        )


def shared_network(file: str) -> str:
    return (
        f"pods share the network of this machine, because the container runtime has another network in {file}; remove "
        "that file and start again for pods with networks of their own"
    )


class Choice(msgspec.Struct, frozen=True):
    """What runs the containers of a node; None for processes. `note` is for people."""

    runtime: RuntimeFacts | None = None
    note: str = ""


def parse_endpoint(text: str) -> Path:
    """The path in `unix:///run/containerd/containerd.sock`. Raises CannotUseRuntime."""
    path = text.removeprefix("unix://")
    if not path.startswith("/") or "://" in path:
        raise CannotUseRuntime(f"--runtime-endpoint: {text!r} is not a unix socket; write unix:///PATH")
    return Path(path)


async def choose(wanted: Wanted, endpoint: str, directory: Path, *, share: bool = False) -> Choice:
    """`directory` is that of the node. With `share`, pods of other agents may be in the runtime. Raises
    CannotUseRuntime."""
    choice = await _first_usable(wanted, endpoint, directory, share=share)
    await _check_left_pods(directory, choice.runtime)
    return choice


async def _first_usable(wanted: Wanted, endpoint: str, directory: Path, *, share: bool) -> Choice:
    if wanted == "process":
        return Choice()
    if not endpoint and wanted == "auto":
        if (before := recorded(directory)) is not None:
            wanted, endpoint = "cri", before.socket
        elif _ran_processes(directory):
            return Choice()
    if endpoint:
        candidates = [parse_endpoint(endpoint)]
    else:
        candidates = [path for path in SOCKETS if _is_socket(path)]
    if not candidates and wanted == "cri":
        places = ", ".join(str(path) for path in SOCKETS)
        raise CannotUseRuntime(f"no container runtime was found at {places}; name its socket with --runtime-endpoint")
    problems = []
    for path in candidates:
        try:
            facts = await examine(path, directory, share=share)
        except CannotUseRuntime as problem:
            problems.append(str(problem))
            continue
        return Choice(facts, f"{facts.announcement}; --runtime process runs them as processes of this machine")
    if problems and (wanted == "cri" or endpoint):
        raise CannotUseRuntime("; ".join(problems))
    note = f"containers run as processes of this machine: {'; '.join(problems)}" if problems else ""
    return Choice(None, note)


async def _check_left_pods(directory: Path, chosen: RuntimeFacts | None) -> None:
    """Of a killed agent, in something else than what was chosen. Raises CannotUseRuntime."""
    end_them = "or end its pods first, with kohort down, or with kohort node --stop-pods"
    before = recorded(directory)
    elsewhere = before is not None and (chosen is None or not _is_same_file(chosen.socket, Path(before.socket)))
    if before is not None and elsewhere and (pods := await _ready_pods(before)):
        raise CannotUseRuntime(
            f"the runtime at {before.socket} still runs {_counted(pods)} of this node; use it again with "
            f"--runtime cri --runtime-endpoint unix://{before.socket}, {end_them}"
        )
    if chosen is not None and (processes := living_containers(directory / PROCESSES)):
        raise CannotUseRuntime(
            f"{counted(len(processes), 'container')} of this node still {agreeing(len(processes), 'runs', 'run')} as "
            f"{agreeing(len(processes), 'a process', 'processes')} of this machine; start with --runtime process, "
            f"{end_them}"
        )


async def _ready_pods(before: "RuntimeRecord") -> list[cri.PodSandbox]:
    """None if the runtime does not answer: a runtime that was removed has no pods."""
    client = CriClient(Path(before.socket))
    labels = {NODE_LABEL: before.owner}
    ready = cri.PodSandboxFilter(state=cri.PodSandboxStateValue(cri.PodSandboxState.READY), label_selector=labels)
    try:
        answer = await client.call(cri.LIST_POD_SANDBOX, cri.ListPodSandboxRequest(ready), timeout=SECONDS)
    except RpcError:
        return []
    finally:
        await client.close()
    return list(answer.items)


class RuntimeRecord(msgspec.Struct, frozen=True):
    """Kept in the directory of a node: where its pods are, for a start or an end without an agent."""

    socket: str
    owner: str
    cni_binaries: str = str(CNI_BINARIES)
    cni_configurations: str = str(CNI_CONFIGURATIONS)

    def cni_agent(self, directory: Path) -> CniAgent:
        return CniAgent(str(directory.resolve()), self.socket, self.cni_binaries, self.cni_configurations)


def record(directory: Path, facts: RuntimeFacts, owner: str) -> None:
    place = directory / RUNTIME_RECORD
    place.parent.mkdir(parents=True, exist_ok=True)
    found = RuntimeRecord(str(facts.socket), owner, str(facts.cni_binaries), str(facts.cni_configurations))
    write_private(place, msgspec.json.encode(found))


def recorded(directory: Path) -> RuntimeRecord | None:
    """The runtime that has run the pods of a node; None if none has."""
    try:
        return msgspec.json.decode((directory / RUNTIME_RECORD).read_bytes(), type=RuntimeRecord)
    except (OSError, msgspec.MsgspecError):
        return None


async def examine(socket: Path, directory: Path | None = None, *, share: bool = False) -> RuntimeFacts:
    """`directory` is that of the node, whose own pods do not count as those of others. Raises CannotUseRuntime."""
    client = CriClient(socket)
    try:
        version = await client.call(cri.VERSION, cri.VersionRequest("0.1.0"), timeout=SECONDS)
        if version.runtime_api_version != API_VERSION:
            found = version.runtime_api_version or "nothing"
            raise CannotUseRuntime(f"the runtime at {socket} speaks CRI version {found}; {API_VERSION} is needed")
        status = await client.call(cri.STATUS, cri.StatusRequest(True), timeout=SECONDS)
        config = _config(status.info)
        if version.runtime_name == crio_settings.NAME:
            config = _config_of_crio(await crio_settings.read(socket))
        await _check_driver(client, socket, config)
        if not share:
            await _check_alone(client, socket, directory)
    except RpcError as problem:
        raise CannotUseRuntime(_explained(socket, problem)) from problem
    finally:
        await client.close()
    return RuntimeFacts(
        socket,
        version.runtime_name,
        version.runtime_version,
        config.cni.binaries,
        Path(config.cni.conf_dir or CNI_CONFIGURATIONS),
        gives_exact_groups(status),
        config.sandbox_image,
    )


def gives_exact_groups(status: cri.StatusResponse) -> bool:
    return status.features is not None and status.features.supplemental_groups_policy


async def _check_driver(client: CriClient, socket: Path, config: "_Config") -> None:
    try:
        answer = await client.call(cri.RUNTIME_CONFIG, cri.Empty(), timeout=SECONDS)
        systemd = answer.linux is not None and answer.linux.cgroup_driver == cri.CgroupDriver.SYSTEMD
    except Unsupported:
        systemd = config.uses_systemd
    if systemd:
        raise CannotUseRuntime(
            f"the runtime at {socket} leaves cgroups to systemd, which this node does not support; set "
            "SystemdCgroup = false (containerd) or cgroup_manager = cgroupfs (CRI-O) and restart it"
        )


async def _check_alone(client: CriClient, socket: Path, directory: Path | None) -> None:
    """Two agents on one runtime, of which one is a kubelet, remove each other's pods. Two of kohort do not, but which
    pods are in a runtime should not come as a surprise."""
    ready = cri.PodSandboxFilter(state=cri.PodSandboxStateValue(cri.PodSandboxState.READY))
    answer = await client.call(cri.LIST_POD_SANDBOX, cri.ListPodSandboxRequest(ready), timeout=SECONDS)
    pods = [each for each in answer.items if POD_UID in each.labels]
    if foreign := [each for each in pods if NODE_LABEL not in each.labels]:
        raise CannotUseRuntime(
            f"the runtime at {socket} runs {_counted(foreign)} of another agent: a kubelet would "
            "remove the pods of this node; use a runtime of its own, or --share-runtime if no kubelet runs here"
        )
    what_to_do = "use a runtime of its own or --runtime process, or share it with --share-runtime"
    own = directory_mark(directory) if directory is not None else ""
    for agent in running_agents():
        if agent.runtime == str(socket) and directory_mark(Path(agent.directory)) != own:
            raise CannotUseRuntime(
                f"the runtime at {socket} is used by another kohort, whose node has the directory {agent.directory}; "
                f"{what_to_do}"
            )
    if others := [each for each in pods if not own or not each.labels.get(NODE_LABEL, "").endswith(f"-{own}")]:
        raise CannotUseRuntime(f"the runtime at {socket} runs {_counted(others)} of another kohort; {what_to_do}")


def _counted(pods: list[cri.PodSandbox]) -> str:
    names = sorted(f"{each.labels.get(POD_NAMESPACE)}/{each.labels.get(POD_NAME)}" for each in pods)
    return f"the pod {names[0]}" if len(names) == 1 else f"{len(names)} pods, such as {names[0]},"


def _explained(socket: Path, problem: RpcError) -> str:
    if problem.code == Code.UNIMPLEMENTED:
        return f"the runtime at {socket} does not offer the CRI; containerd has it unless disabled_plugins names cri"
    return f"the container runtime at {socket} cannot be used: {problem.detail}"


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode) and os.access(path, os.W_OK)
    except OSError:
        return False


def _is_same_file(one: Path, other: Path) -> bool:
    """Also by another path, such as `/var/run` for `/run`."""
    return one.resolve() == other.resolve()


def _ran_processes(directory: Path) -> bool:
    return (directory / PROCESSES / "instances").is_dir()


class _Cni(msgspec.Struct, frozen=True):
    bin_dir: str = msgspec.field(default="", name="binDir")
    bin_dirs: tuple[str, ...] = msgspec.field(default=(), name="binDirs")
    """Of versions since 2.1."""
    conf_dir: str = msgspec.field(default="", name="confDir")

    @property
    def binaries(self) -> Path:
        return Path(next((each for each in (*self.bin_dirs, self.bin_dir) if each), CNI_BINARIES))


class _OciRuntime(msgspec.Struct, frozen=True):
    options: dict[str, object] | None = None


class _Containerd(msgspec.Struct, frozen=True):
    default_runtime: str = msgspec.field(default="", name="defaultRuntimeName")
    runtimes: dict[str, _OciRuntime] = {}


class _Config(msgspec.Struct, frozen=True):
    """The part of containerd's configuration that it shows in its verbose status; that of CRI-O is put into it."""

    cni: _Cni = _Cni()
    containerd: _Containerd = _Containerd()
    crio_uses_systemd: bool = False
    sandbox_image: str = msgspec.field(default="", name="sandboxImage")

    @property
    def uses_systemd(self) -> bool:
        chosen = self.containerd.runtimes.get(self.containerd.default_runtime)
        return self.crio_uses_systemd or (chosen is not None and bool((chosen.options or {}).get("SystemdCgroup")))


def sandbox_image(info: "dict[str, str]") -> str:
    """The image of sandboxes, from the verbose status of a runtime that says it; newer ones pin it instead."""
    return _config(info).sandbox_image


def _config(info: "dict[str, str]") -> _Config:
    try:
        return msgspec.json.decode(info.get("config", "{}"), type=_Config)
    except msgspec.MsgspecError:
        return _Config()


def _config_of_crio(settings: crio_settings.Settings) -> _Config:
    cni = _Cni(bin_dirs=settings.network.plugin_dirs, conf_dir=settings.network.network_dir)
    return _Config(cni, crio_uses_systemd=settings.uses_systemd)
