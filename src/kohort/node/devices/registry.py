"""The socket where device plugins register, and what all of them offer together.

| what happens                   | capacity of the node       | allocatable      |
|--------------------------------|----------------------------|------------------|
| a plugin announces devices     | all of them                | the healthy ones |
| its connection is lost         | as before                  | 0                |
| it registers again             | what it announces now      | the healthy ones |
| it stays away for five minutes | 0                          | 0                |
| the agent was restarted        | 0 until it registers again | 0                |

Plugins see that the agent was restarted because its socket is new, and register again.
"""

import asyncio
import contextlib
import socket as sockets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kohort.kube.log import Log
from kohort.kube.tasks import cancel_all
from kohort.node.checkpoint import Checkpoint
from kohort.node.devices.messages import (
    API_VERSION,
    OPTIONS,
    REGISTER,
    REGISTRATION_SOCKET,
    Device,
    Empty,
    PluginOptions,
    RegisterRequest,
)
from kohort.node.devices.plugin import CALL_SECONDS, Plugin
from kohort.node.grpc.client import channel
from kohort.node.grpc.server import Server
from kohort.node.grpc.status import Code, RpcError
from kohort.node.single_agent_lock import NodeTaken
from kohort.rules.extended_resources import is_extended

ABSENT_SECONDS: Final = 300.0
"""For which the capacity of a lost plugin stays, for one that is only restarted."""
_log = Log(part="node")


class RegistrationTaken(NodeTaken):
    """Another agent or kubelet serves the folder of the device plugins."""


class KnownResource(msgspec.Struct, frozen=True):
    """A resource that a plugin has registered, now or before a restart."""

    name: str


class PluginRegistry:
    def __init__(self, directory: Path, records: Path, changed: Callable[[], None]) -> None:
        """`directory` is where plugins have their sockets; `changed` is called when capacity may be another."""
        self._directory = directory
        self._known: Checkpoint[KnownResource] = Checkpoint(records / "device-plugins.json", KnownResource)
        self._changed = changed
        self._plugins: dict[str, Plugin] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._server = Server()
        self._server.unary(REGISTER, self._register)

    async def start(self) -> None:
        """Raises RegistrationTaken, OSError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        socket = self._directory / REGISTRATION_SOCKET
        if _is_served(socket):
            raise RegistrationTaken(
                f"{socket} is served by another program, such as a kubelet; stop it, or name another folder"
            )
        for path in self._directory.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        await self._server.listen(socket)

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await self._server.close()
        await cancel_all(*self._connecting)
        for plugin in self._plugins.values():
            await plugin.close()

    def manages(self, resource: str) -> bool:
        return resource in self._known.known()

    def plugin(self, resource: str) -> Plugin | None:
        """One that can be called."""
        found = self._plugins.get(resource)
        return found if found is not None and found.connected else None

    def capacity(self) -> dict[str, str]:
        return {name: str(len(self._devices(name))) for name in self._known.known()}

    def allocatable(self) -> dict[str, str]:
        return {name: str(len(self.healthy(name))) for name in self._known.known()}

    def healthy(self, resource: str) -> list[Device]:
        plugin = self._plugins.get(resource)
        return plugin.healthy() if plugin is not None else []

    def device(self, resource: str, id: str) -> Device | None:
        return self._devices(resource).get(id)

    def _devices(self, resource: str) -> dict[str, Device]:
        plugin = self._plugins.get(resource)
        return plugin.devices if plugin is not None else {}

    async def _register(self, request: RegisterRequest) -> Empty:
        name, endpoint = request.resource_name, request.endpoint
        if request.version != API_VERSION:
            problem = f"the API version {request.version!r} is not supported; supported is {API_VERSION}"
            raise RpcError(Code.INVALID_ARGUMENT, problem)
        if not is_extended(name):
            problem = f"the resource name {name!r} is not that of an extended resource, such as example.com/gpu"
            raise RpcError(Code.INVALID_ARGUMENT, problem)
        if not endpoint or "/" in endpoint or endpoint in (".", "..", REGISTRATION_SOCKET):
            problem = f"the endpoint {endpoint!r} is not the name of a socket in the folder of the device plugins"
            raise RpcError(Code.INVALID_ARGUMENT, problem)
        self._known.put(name, KnownResource(name))
        # The plugin may serve its socket only after this call has returned.
        task = asyncio.create_task(self._connect(name, self._directory / endpoint, request.options))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return Empty()

    async def _connect(self, resource: str, socket: Path, options: PluginOptions | None) -> None:
        try:
            async with channel(socket) as asked:
                options = await asked.call(OPTIONS, Empty(), timeout=CALL_SECONDS)
        except RpcError as problem:
            if problem.code != Code.UNIMPLEMENTED:
                _log.warning("a device plugin cannot be reached", resource=resource, problem=str(problem))
                return
        plugin = Plugin(resource, socket, options or PluginOptions(), self._plugin_changed)
        before, self._plugins[resource] = self._plugins.get(resource), plugin
        if before is not None:
            await before.close()
        if (timer := self._timers.pop(resource, None)) is not None:
            timer.cancel()
        _log.info("a device plugin has registered", resource=resource, socket=socket.name)
        plugin.start()

    def _plugin_changed(self, plugin: Plugin) -> None:
        if self._plugins.get(plugin.resource) is not plugin:
            return
        if not plugin.connected:
            loop = asyncio.get_running_loop()
            self._timers[plugin.resource] = loop.call_later(ABSENT_SECONDS, self._give_up, plugin)
        self._changed()

    def _give_up(self, plugin: Plugin) -> None:
        if self._plugins.get(plugin.resource) is plugin:
            plugin.devices = {}
            self._changed()


def _is_served(socket: Path) -> bool:
    with sockets.socket(sockets.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.connect(str(socket))
        return True
    return False
