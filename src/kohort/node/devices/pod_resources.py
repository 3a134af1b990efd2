"""Tells monitoring programs which pod has which device: the PodResources API v1, as far as devices go.

Programs such as NVIDIA's exporter of metrics ask here to put names of pods on the figures of a device. Cpus and memory
of pods are not exclusive on this node, so they are not listed; neither are claims.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

from kohort.node.devices.allocations import DeviceAllocations, PodDevices
from kohort.node.devices.messages import Device, Empty, Topology
from kohort.node.devices.registry import PluginRegistry
from kohort.node.grpc.codec import Message
from kohort.node.grpc.server import Server
from kohort.node.grpc.status import Code, Method, RpcError

SOCKET: Final = "kubelet.sock"


class ListedDevices(Message, frozen=True):
    resource_name: Annotated[str, 1] = ""
    ids: Annotated[tuple[str, ...], 2] = ()
    topology: Annotated[Topology | None, 3] = None


class ListedContainer(Message, frozen=True):
    name: Annotated[str, 1] = ""
    devices: Annotated[tuple[ListedDevices, ...], 2] = ()


class ListedPod(Message, frozen=True):
    name: Annotated[str, 1] = ""
    namespace: Annotated[str, 2] = ""
    containers: Annotated[tuple[ListedContainer, ...], 3] = ()


class PodList(Message, frozen=True):
    pods: Annotated[tuple[ListedPod, ...], 1] = ()


class PodRequest(Message, frozen=True):
    name: Annotated[str, 1] = ""
    namespace: Annotated[str, 2] = ""


class PodAnswer(Message, frozen=True):
    pod: Annotated[ListedPod | None, 1] = None


class AllocatableAnswer(Message, frozen=True):
    devices: Annotated[tuple[ListedDevices, ...], 1] = ()


LIST: Final = Method("/v1.PodResourcesLister/List", Empty, PodList)
GET: Final = Method("/v1.PodResourcesLister/Get", PodRequest, PodAnswer)
ALLOCATABLE: Final = Method("/v1.PodResourcesLister/GetAllocatableResources", Empty, AllocatableAnswer)


class PodResources:
    def __init__(self, allocations: DeviceAllocations, registry: PluginRegistry) -> None:
        self._allocations = allocations
        self._registry = registry
        self._server = Server()
        self._server.unary(LIST, self._list)
        self._server.unary(GET, self._get)
        self._server.unary(ALLOCATABLE, self._allocatable)

    async def start(self, directory: Path) -> None:
        os.makedirs(directory, exist_ok=True)
        await self._server.listen(directory / SOCKET)

    async def close(self) -> None:
        await self._server.close()

    async def _list(self, request: Empty) -> PodList:
        return PodList(tuple(self._listed(each) for each in self._allocations.pods()))

    async def _get(self, request: PodRequest) -> PodAnswer:
        for pod in self._allocations.pods():
            if (pod.namespace, pod.name) == (request.namespace, request.name):
                return PodAnswer(self._listed(pod))
        raise RpcError(Code.NOT_FOUND, f"pod {request.namespace}/{request.name} has no devices of this node")

    async def _allocatable(self, request: Empty) -> AllocatableAnswer:
        resources = sorted(self._registry.allocatable())
        return AllocatableAnswer(
            tuple(_grouped(name, self._registry.healthy(name)) for name in resources if self._registry.healthy(name))
        )

    def _listed(self, pod: PodDevices) -> ListedPod:
        containers = tuple(
            ListedContainer(
                name, tuple(self._devices(resource, given.ids) for resource, given in sorted(resources.items()))
            )
            for name, resources in pod.containers.items()
        )
        return ListedPod(pod.name, pod.namespace, containers)

    def _devices(self, resource: str, ids: tuple[str, ...]) -> ListedDevices:
        known = [found for id in ids if (found := self._registry.device(resource, id)) is not None]
        return ListedDevices(resource, ids, _grouped(resource, known).topology)


def _grouped(resource: str, devices: Iterable[Device]) -> ListedDevices:
    found = list(devices)
    nodes = {each.id: each for device in found if device.topology is not None for each in device.topology.nodes}
    topology = Topology(tuple(nodes[id] for id in sorted(nodes))) if nodes else None
    return ListedDevices(resource, tuple(each.id for each in found), topology)
