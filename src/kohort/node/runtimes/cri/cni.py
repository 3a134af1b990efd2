"""The network of sandboxes: the runtime calls a CNI plugin, and the plugin asks the agent.

    runtime ──▶ BIN/kohort (a script of 40 lines) ──unix socket──▶ agent: address, veth pair, routes

The interface of runtimes has no field for a network namespace that is there already: the runtime makes one and calls a
plugin with its path. The agent does with it what it does with the namespaces of processes, so addresses, services,
names and host ports are the same for both. Runtimes also call a plugin `loopback`; where that is not installed, the
script takes its place.

| call                     | the agent                                                                               |
|--------------------------|-----------------------------------------------------------------------------------------|
| ADD                      | connects the namespace with the address of the pod, and answers with it                  |
| DEL                      | forgets the namespace; unknown ones, and a second call, are no failure                   |
| STATUS, GC               | answers that all is well                                                                 |
| CHECK                    | is not asked: CRI-O calls it for every pod when it starts, and must not wait for an agent |

While no agent runs, no sandbox is started. A DEL then fails after 5 seconds with the code for "try again later"; the
next agent stops the sandbox again.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Final, Protocol

import msgspec

from kohort.kube.log import Log
from kohort.kube.private_files import write_durably
from kohort.node.pod_network_namespaces import GATEWAY

PLUGIN: Final = "kohort"
LOOPBACK: Final = "loopback"
CONFIGURATION: Final = "10-kohort.conflist"
VERSION: Final = "0.4.0"
SOCKETS: Final = Path("/run/kohort")
TRY_LATER: Final = 11
FAILED: Final = 999
_log = Log(part="node")

SCRIPT: Final = '''#!{python} -IS
"""Passes calls of a container runtime on to the node agent of kohort."""

import json, os, socket, sys, time

SOCKET = {socket!r}
VERSIONS = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]


def answer(document, code=0):
    sys.stdout.write(json.dumps(document) if document else "")
    sys.exit(code)


def asked(request):
    deadline = time.monotonic() + 5
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(60)
        try:
            connection.connect(SOCKET)
            connection.sendall(json.dumps(request).encode() + b"\\n")
            data = b""
            while chunk := connection.recv(65536):
                data += chunk
            return json.loads(data)
        except (OSError, ValueError) as problem:
            if time.monotonic() > deadline:
                return {{"code": 11, "msg": "the node agent does not answer", "details": str(problem)}}
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


class SandboxNetworks(Protocol):
    """What the agent does with network namespaces that a runtime has made. All raise OSError."""

    def connect(self, uid: str, namespace: str) -> str:
        """The address of the pod, once the namespace is connected."""
        ...

    def disconnect(self, uid: str, namespace: str) -> None: ...
    def raise_loopback(self, namespace: str) -> None: ...


class Call(msgspec.Struct, frozen=True):
    """One call of the plugin."""

    command: str
    plugin: str = PLUGIN
    container: str = msgspec.field(default="", name="CNI_CONTAINERID")
    namespace: str = msgspec.field(default="", name="CNI_NETNS")
    interface: str = msgspec.field(default="", name="CNI_IFNAME")
    arguments: str = msgspec.field(default="", name="CNI_ARGS")

    @property
    def pod_uid(self) -> str:
        pairs = (each.partition("=") for each in self.arguments.split(";"))
        return next((value for name, _, value in pairs if name == "K8S_POD_UID"), "")


class CniServer:
    def __init__(self, socket: Path, networks: SandboxNetworks) -> None:
        self.socket = socket
        self._networks = networks
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        os.makedirs(self.socket.parent, exist_ok=True)
        self._listener = await asyncio.start_unix_server(self._accepted, str(self.socket))
        os.chmod(self.socket, 0o600)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            with contextlib.suppress(OSError):
                os.unlink(self.socket)
        self._listener = None

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            line = await reader.readuntil(b"\n")
            writer.write(json.dumps(await self._answer(line)).encode())
            await writer.drain()
        writer.close()

    async def _answer(self, line: bytes) -> dict[str, object]:
        try:
            call = msgspec.json.decode(line, type=Call)
            return await asyncio.to_thread(self.answer, call)
        except (msgspec.MsgspecError, OSError) as problem:
            _log.warning("the network of a sandbox could not be changed", problem=str(problem))
            return {"code": FAILED, "msg": str(problem), "details": ""}

    def answer(self, call: Call) -> dict[str, object]:
        """Raises OSError."""
        if call.plugin == LOOPBACK:
            if call.command == "ADD":
                self._networks.raise_loopback(call.namespace)
            return {"interfaces": [], "ips": []}
        if call.command == "ADD":
            return added(call, self._networks.connect(call.pod_uid, call.namespace))
        if call.command == "DEL" and call.namespace:
            self._networks.disconnect(call.pod_uid, call.namespace)
        return {}


def added(call: Call, address: str) -> dict[str, object]:
    """The answer to ADD."""
    return {
        "interfaces": [{"name": call.interface, "sandbox": call.namespace}],
        "ips": [{"version": "4", "address": f"{address}/32", "gateway": GATEWAY, "interface": 0}],
        "routes": [{"dst": "0.0.0.0/0", "gw": GATEWAY}],
        "dns": {},
    }


def socket_of(directory: Path) -> Path:
    """Where the agent with this directory is asked. Paths of sockets must be short, which directories need not be."""
    return SOCKETS / f"cni-{hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16]}.sock"


def other_network(configurations: Path) -> str:
    """The file of another network that the runtime would use; empty if there is none."""
    try:
        files = sorted(path for path in configurations.iterdir() if path.suffix in (".conf", ".conflist", ".json"))
    except OSError:
        return ""
    return next((str(path) for path in files if path.name != CONFIGURATION), "")


def install(binaries: Path, configurations: Path, socket: Path) -> None:
    """Have the runtime ask the agent for networks. Raises OSError."""
    binaries.mkdir(parents=True, exist_ok=True)
    configurations.mkdir(parents=True, exist_ok=True)
    script = SCRIPT.format(python=sys.executable, socket=str(socket)).encode()
    write_durably(binaries / PLUGIN, script, 0o755)
    loopback = binaries / LOOPBACK
    if not loopback.exists() or _is_script(loopback):
        write_durably(loopback, script, 0o755)
    network = {"cniVersion": VERSION, "name": PLUGIN, "plugins": [{"type": PLUGIN}]}
    write_durably(configurations / CONFIGURATION, f"{json.dumps(network, indent=2)}\n".encode(), 0o644)


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!" and b"kohort" in file.read(1000)
