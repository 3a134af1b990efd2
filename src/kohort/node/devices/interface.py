"""What the rest of the agent knows of devices, and a node that has none. Importing it costs nothing."""

from typing import Protocol

from kohort.node.devices.container_use import NO_DEVICES, DeviceUse
from kohort.objects.pods import Pod
from kohort.rules.pod_admission import Rejection


class DeviceProblem(Exception):
    """A container cannot start because a plugin has not prepared its devices."""


class Devices(Protocol):
    """What the rest of the agent knows of devices."""

    def capacity(self) -> dict[str, str]: ...
    def allocatable(self) -> dict[str, str]: ...
    async def admit(self, pod: Pod) -> Rejection | None: ...
    async def before_start(self, uid: str, container: str) -> None: ...
    def use(self, uid: str, container: str) -> DeviceUse: ...
    def release(self, uid: str) -> None: ...
    def forget(self, alive: set[str]) -> None: ...


class NoDevicePlugins:
    """A node without a folder for plugins."""

    def capacity(self) -> dict[str, str]:
        return {}

    def allocatable(self) -> dict[str, str]:
        return {}

    async def admit(self, pod: Pod) -> Rejection | None:
        return None

    async def before_start(self, uid: str, container: str) -> None:
        return None

    def use(self, uid: str, container: str) -> DeviceUse:
        return NO_DEVICES

    def release(self, uid: str) -> None:
        return None

    def forget(self, alive: set[str]) -> None:
        return None
