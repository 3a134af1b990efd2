"""The network of sandboxes: the runtime calls a CNI plugin, and the plugin asks the agents of this machine.

    runtime ──▶ BIN/kohort (a short script) ──unix sockets──▶ agent of the pod: address, veth pair, routes
                                                            └▶ other agents: not mine

The interface of runtimes has no field for a network namespace that is there already: the runtime makes one and calls a
plugin with its path. The agent does with it what it does with the namespaces of processes, so addresses, services,
names and host ports are the same for both. Runtimes also call a plugin `loopback`; where that is not installed, the
script takes its place. `cni_installation` has the script, and which agents it asks.

| call        | the agent of the pod                                                    | if no agent has the pod     |
|-------------|-------------------------------------------------------------------------|-----------------------------|
| ADD         | connects the namespace with the address of the pod, and answers with it | fails, after 5 seconds      |
| DEL         | forgets the namespace                                                   | all is well: it was removed |
| STATUS, GC  | all is well                                                             | all is well                 |
| loopback    | any agent switches it on                                                |                             |
| CHECK       | is not asked: CRI-O calls it for every pod when it starts, and must not wait for an agent |           |

While no agent runs, no sandbox is started. A DEL then fails after 5 seconds with the code for "try again later"; the
next agent stops the sandbox again.
"""

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Final, Protocol

import msgspec

from kohort.kube.log import Log
from kohort.node.pod_network_namespaces import GATEWAY
from kohort.node.runtimes.cri.cni_installation import (
    AGENTS,
    LOOPBACK,
    PLUGIN,
    CniAgent,
    install,
    other_network,
    uninstall,
)

FAILED: Final = 999
_log = Log(part="node")


class SandboxNetworks(Protocol):
    """What the agent does with network namespaces that a runtime has made. All raise OSError."""

    def has(self, uid: str) -> bool:
        """Whether the pod is one of this agent's."""
        ...

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
    def __init__(self, agent: CniAgent, networks: SandboxNetworks, agents: Path = AGENTS) -> None:
        self.socket = agent.socket(agents)
        self._agent = agent
        self._agents = agents
        self._networks = networks
        self._listener: asyncio.Server | None = None

    def install(self) -> None:
        """Have the runtime ask this agent. Raises OSError."""
        install(self._agent, self._agents)

    def uninstall(self) -> None:
        """No sandbox is left, and no agent will run. Raises OSError."""
        uninstall(self._agent, self._agents)

    @property
    def preferred_network(self) -> str:
        """The file of another network that the runtime has come to use instead of ours; empty if there is none."""
        return other_network(Path(self._agent.configurations), before_ours=True)

    async def start(self) -> None:
        """Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        os.makedirs(self.socket.parent, exist_ok=True)
        self._listener = await asyncio.start_unix_server(self._accepted, str(self.socket))
        os.chmod(self.socket, 0o600)

    async def close(self) -> None:
        """The socket stays with the entry of the agent: calls wait for the next one then."""
        if self._listener is not None:
            self._listener.close()
            if not self._agent.entry(self._agents).exists():
                self.socket.unlink(missing_ok=True)
        self._listener = None

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
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
        if not self._networks.has(call.pod_uid):
            return {"unknown": True}
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
