"""What plugins say about the devices of a container, as the launch of the container needs it."""

from collections.abc import Iterable
from typing import Final

import msgspec

from kohort.node.devices.messages import ContainerAllocation
from kohort.node.runtimes.interface import Device, Mount


class DeviceUse(msgspec.Struct, frozen=True):
    """What a container gets for all of its devices."""

    env: dict[str, str] = {}
    """Variables of the pod itself come before these, and these before those of the image."""
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    annotations: dict[str, str] = {}
    cdi_devices: tuple[str, ...] = ()

    def mounts_of_process(self, root: str) -> tuple[Mount, ...]:
        """For containers that are processes: device files are mounted like others, and those of the machine are there
        already if the container has no root of its own. There is no device cgroup and no CDI."""
        files = (Mount(each.source, each.target, optional=True) for each in self.devices)
        return tuple(each for each in (*self.mounts, *files) if root or each.source != each.target)


NO_DEVICES: Final = DeviceUse()


def merged(allocations: Iterable[ContainerAllocation]) -> DeviceUse:
    """Of all kinds of devices together. Two plugins may name the same file; it is mounted once."""
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, Device] = {}
    names: dict[str, None] = {}
    for one in allocations:
        env |= one.envs
        annotations |= one.annotations
        for mount in one.mounts:
            mounts.setdefault(mount.container_path, Mount(mount.host_path, mount.container_path, mount.read_only))
        for device in one.devices:
            found = Device(device.host_path, device.container_path, device.permissions or "rwm")
            devices.setdefault(device.container_path, found)
        names |= dict.fromkeys(each.name for each in one.cdi_devices)
    return DeviceUse(env, tuple(mounts.values()), tuple(devices.values()), annotations, tuple(names))
