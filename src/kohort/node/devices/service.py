"""Device plugins of a node, from the start of the agent to its end."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from kohort.kube.manager import Manager
from kohort.kube.resources import Key
from kohort.node.checkpoint import WriteObserver
from kohort.node.devices.allocations import DeviceAllocations
from kohort.node.devices.pod_resources import PodResources
from kohort.node.devices.registry import PluginRegistry

POD_RESOURCES: Final = "pod-resources"
"""The folder beside that of the plugins, as of a kubelet."""


def serve_plugins(
    manager: Manager,
    directory: Path,
    records: Path,
    changed: Callable[[], None],
    observer: WriteObserver,
    is_gone: Callable[[Key, str], bool],
) -> DeviceAllocations:
    """`directory` is where plugins have their sockets; `changed` is called when the capacity of the node may be
    another; `is_gone` says whether the API does not have the pod with this UID any more. The manager does not start if
    the folder is served by another agent or a kubelet."""
    registry = PluginRegistry(directory, records, changed)
    allocations = DeviceAllocations(registry, records, observer, is_gone=is_gone)
    listed = PodResources(allocations, registry)

    async def start() -> None:
        await registry.start()
        await listed.start(directory.parent / POD_RESOURCES)

    async def close() -> None:
        await listed.close()
        await registry.close()

    manager.prepare(start)
    manager.clean_up(close)
    return allocations
