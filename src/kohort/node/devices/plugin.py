"""One plugin that has registered: its devices as they change, and the calls that the node makes to it."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kohort.kube.log import Log
from kohort.kube.tasks import cancel_all
from kohort.node.devices.device_choice import is_valid
from kohort.node.devices.messages import (
    ALLOCATE,
    LIST_AND_WATCH,
    PRE_START,
    PREFERRED,
    AllocateRequest,
    ContainerAllocation,
    ContainerDevices,
    ContainerPreference,
    Device,
    Empty,
    PluginOptions,
    PreferenceRequest,
    PreStartRequest,
)
from kohort.node.grpc.client import Channel
from kohort.node.grpc.status import Code, RpcError

CALL_SECONDS: Final = 60.0
PRE_START_SECONDS: Final = 30.0
_log = Log(part="node")


class Plugin:
    """Watches its devices until the stream breaks. Then it counts as lost until it registers again, as another one."""

    def __init__(
        self, resource: str, socket: Path, options: PluginOptions, changed: Callable[["Plugin"], None]
    ) -> None:
        """`changed` is called when devices, their health or the connection have changed."""
        self.resource = resource
        self.options = options
        self.devices: dict[str, Device] = {}
        self.connected = True
        self._channel = Channel(socket)
        self._changed = changed
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        if self._watching is not None:
            await cancel_all(self._watching)
        await self._channel.close()

    def healthy(self) -> list[Device]:
        return [each for each in self.devices.values() if each.healthy] if self.connected else []

    async def _watch(self) -> None:
        reason = "it ended the stream"
        try:
            async with contextlib.aclosing(self._channel.stream(LIST_AND_WATCH, Empty())) as answers:
                async for answer in answers:
                    self.devices = {each.id: each for each in answer.devices}
                    self._changed(self)
        except RpcError as problem:
            reason = str(problem)
        self.connected = False
        _log.warning("lost a device plugin; its devices count as unhealthy", resource=self.resource, reason=reason)
        self._changed(self)

    async def preferred(self, available: list[str], must_include: list[str], wanted: int) -> tuple[str, ...] | None:
        """What the plugin would rather give; None if it has no opinion or its answer cannot be used."""
        if not self.options.preferred_allocation_available:
            return None
        request = ContainerPreference(tuple(available), tuple(must_include), wanted)
        try:
            answer = await self._channel.call(PREFERRED, PreferenceRequest((request,)), timeout=CALL_SECONDS)
        except RpcError as problem:
            _log.warning("a device plugin did not say what it prefers", resource=self.resource, problem=str(problem))
            return None
        ids = answer.containers[0].ids if len(answer.containers) == 1 else ()
        if is_valid(ids, wanted, available, must_include):
            return ids
        _log.warning("a device plugin prefers what it was not offered", resource=self.resource, ids=list(ids))
        return None

    async def allocate(self, ids: tuple[str, ...]) -> ContainerAllocation:
        """Raises RpcError."""
        request = AllocateRequest((ContainerDevices(ids),))
        answer = await self._channel.call(ALLOCATE, request, timeout=CALL_SECONDS)
        if len(answer.containers) != 1:
            raise RpcError(Code.INTERNAL, f"{len(answer.containers)} answers for one container", ALLOCATE.name)
        return answer.containers[0]

    async def pre_start(self, ids: tuple[str, ...]) -> None:
        """Raises RpcError."""
        if self.options.pre_start_required:
            await self._channel.call(PRE_START, PreStartRequest(ids), timeout=PRE_START_SECONDS)
