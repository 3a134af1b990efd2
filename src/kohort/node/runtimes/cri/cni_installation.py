"""The CNI plugin and its configuration in the folders of a container runtime, and the agents that they are for.

Every agent whose pods get their network from kohort has an entry in `/run/kohort/cni`: its socket, and a file that says
which runtime and which folders it uses. The plugin asks all agents whose entry names its folder at once, since calls
name a pod and no agent; the agent of the pod answers. So any number of clusters may use a runtime, and may come and go
in any order. Agents of other runtimes are not asked: none of them can have the pod, and an answer of theirs must not
stand for that of an agent that does not run.

| what happens                            | entry of the agent | plugin and configuration                       |
|-----------------------------------------|--------------------|------------------------------------------------|
| an agent starts                         | written            | written                                        |
| it ends and leaves pods, or is killed   | stays              | stay                                           |
| it ends without pods, or `kohort down`  | removed            | removed, if no other entry names their folders |
| the directory of the agent was deleted  | removed            | as above                                       |

Files that were not written here are neither replaced nor removed.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import socket as sockets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from kohort.kube.private_files import write_durably

PLUGIN: Final = "kohort"
LOOPBACK: Final = "loopback"
CONFIGURATION: Final = "10-kohort.conflist"
VERSION: Final = "0.4.0"
AGENTS: Final = Path("/run/kohort/cni")
TRY_LATER: Final = 11
CONNECT_SECONDS: Final = 1.0
MARK: Final = "Passes calls of a container runtime on to the node agents of kohort."

SCRIPT: Final = '''#!{python} -IS
"""{mark}"""

import glob, json, os, selectors, socket, sys, time

AGENTS = {agents!r}
VERSIONS = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]


def answer(document, code=0):
    sys.stdout.write(json.dumps(document) if document else "")
    sys.exit(code)


def sockets_of_agents():
    """Of those whose runtime calls plugins in the folder of this one."""
    folder = os.path.realpath(os.path.dirname(sys.argv[0]))
    for path in sorted(glob.glob(AGENTS + "/*.json")):
        try:
            with open(path) as file:
                agent = json.load(file)
        except (OSError, ValueError):
            continue
        if os.path.realpath(agent["binaries"]) == folder:
            yield path[: -len("json")] + "sock"


def ask_all(request, patience):
    """The answer of the agent that the pod belongs to, if one has come, and whether any agent has answered."""
    waiting, begun, answered = selectors.DefaultSelector(), time.monotonic(), False
    for path in sockets_of_agents():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(1)
        try:
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\\n")
            waiting.register(connection, selectors.EVENT_READ, bytearray())
        except OSError:
            connection.close()
    while waiting.get_map():
        left = begun + (patience if answered else 60) - time.monotonic()
        ready = waiting.select(max(left, 0))
        if not ready:
            break
        for key, _ in ready:
            try:
                chunk = key.fileobj.recv(65536)
            except OSError:
                chunk = b""
            if chunk:
                key.data.extend(chunk)
                continue
            waiting.unregister(key.fileobj)
            if key.data:
                found, answered = json.loads(key.data), True
                if not found.get("unknown"):
                    return found, True
    return None, answered


def asked(request):
    deadline = time.monotonic() + 5
    adds = request["command"] == "ADD"
    while True:
        found, answered = ask_all(request, 60 if adds else 5)
        if found is not None:
            return found
        if answered and not adds:
            return {{}}
        if time.monotonic() > deadline:
            problem = "no node agent has this pod" if answered else "the node agent does not answer"
            return {{"code": {later}, "msg": problem, "details": request["CNI_ARGS"]}}
        time.sleep(0.1)


command = os.environ.get("CNI_COMMAND", "")
if command == "VERSION":
    answer({{"cniVersion": VERSIONS[-1], "supportedVersions": VERSIONS}})
if command == "CHECK":
    answer(None)
config = json.load(sys.stdin)
names = ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS")
request = {{name: os.environ.get(name, "") for name in names}}
request |= {{"command": command, "plugin": os.path.basename(sys.argv[0])}}
found = asked(request)
version = config.get("cniVersion", VERSIONS[0])
if "code" in found:
    answer({{"cniVersion": version, **found}}, 1)
answer({{"cniVersion": version, **found}} if command == "ADD" else None)
'''


class CniAgent(msgspec.Struct, frozen=True):
    """An agent that gives sandboxes of a container runtime their network."""

    directory: str
    """Of the node, an absolute path without links."""
    runtime: str
    """The socket of the container runtime."""
    binaries: str
    configurations: str

    @property
    def name(self) -> str:
        return hashlib.sha256(self.directory.encode()).hexdigest()[:16]

    def socket(self, agents: Path) -> Path:
        """Where the plugin asks it. Paths of sockets must be short, which directories need not be."""
        return agents / f"{self.name}.sock"

    def entry(self, agents: Path) -> Path:
        return agents / f"{self.name}.json"

    def answers(self, agents: Path) -> bool:
        with sockets.socket(sockets.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.settimeout(CONNECT_SECONDS)
            probe.connect(str(self.socket(agents)))
            return True
        return False


def install(agent: CniAgent, agents: Path = AGENTS) -> None:
    """Have the runtime ask this agent for networks. Raises OSError."""
    binaries, configurations = Path(agent.binaries), Path(agent.configurations)
    binaries.mkdir(parents=True, exist_ok=True)
    configurations.mkdir(parents=True, exist_ok=True)
    script = SCRIPT.format(python=sys.executable, agents=str(agents), mark=MARK, later=TRY_LATER).encode()
    with _locked(agents):
        write_durably(agent.entry(agents), msgspec.json.encode(agent), 0o644)
        write_durably(binaries / PLUGIN, script, 0o755)
        loopback = binaries / LOOPBACK
        if not loopback.exists() or _is_script(loopback):
            write_durably(loopback, script, 0o755)
        network = {"cniVersion": VERSION, "name": PLUGIN, "plugins": [{"type": PLUGIN}]}
        write_durably(configurations / CONFIGURATION, f"{json.dumps(network, indent=2)}\n".encode(), 0o644)


def uninstall(agent: CniAgent, agents: Path = AGENTS) -> None:
    """The agent has ended and has no sandboxes. Raises OSError."""
    with _locked(agents):
        _remove_entry(agent, agents)
        others = []
        for each in _entries(agents):
            if Path(each.directory).is_dir():
                others.append(each)
            else:
                _remove_entry(each, agents)
        if all(each.configurations != agent.configurations for each in others):
            _remove_if(Path(agent.configurations) / CONFIGURATION, _is_configuration)
        if all(each.binaries != agent.binaries for each in others):
            for name in (PLUGIN, LOOPBACK):
                _remove_if(Path(agent.binaries) / name, _is_script)


def running_agents(agents: Path = AGENTS) -> list[CniAgent]:
    """Those that answer now."""
    return [each for each in _entries(agents) if each.answers(agents)]


def other_network(configurations: Path, *, before_ours: bool = False) -> str:
    """The file of another network that the runtime would use; empty if there is none. With `before_ours`, only one that
    the runtime prefers to ours, as it takes the first one by name."""
    try:
        files = sorted(path for path in configurations.iterdir() if path.suffix in (".conf", ".conflist", ".json"))
    except OSError:
        return ""
    found = (path for path in files if path.name != CONFIGURATION)
    return next((str(path) for path in found if not before_ours or path.name < CONFIGURATION), "")


@contextlib.contextmanager
def _locked(agents: Path) -> Iterator[None]:
    """Agents of other clusters write in the same folders."""
    agents.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(agents / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _entries(agents: Path) -> list[CniAgent]:
    found = []
    for path in agents.glob("*.json"):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(path.read_bytes(), type=CniAgent))
    return found


def _remove_entry(agent: CniAgent, agents: Path) -> None:
    for path in (agent.entry(agents), agent.socket(agents)):
        path.unlink(missing_ok=True)


def _remove_if(path: Path, is_ours: Callable[[Path], bool]) -> None:
    with contextlib.suppress(FileNotFoundError):
        if is_ours(path):
            path.unlink()


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!" and MARK.encode() in file.read(1000)


def _is_configuration(path: Path) -> bool:
    try:
        found = json.loads(path.read_bytes())
        return [each["type"] for each in found["plugins"]] == [PLUGIN]
    except (ValueError, KeyError, TypeError):
        return False
