"""Messages and methods of the device plugin API, version v1beta1."""

from typing import Annotated, Final

import msgspec

from kohort.node.grpc.codec import Message
from kohort.node.grpc.status import Method

API_VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
REGISTRATION_SOCKET: Final = "kubelet.sock"


class Empty(Message, frozen=True):
    pass


class PluginOptions(Message, frozen=True):
    pre_start_required: Annotated[bool, 1] = False
    preferred_allocation_available: Annotated[bool, 2] = False


class RegisterRequest(Message, frozen=True):
    version: Annotated[str, 1] = ""
    endpoint: Annotated[str, 2] = ""
    resource_name: Annotated[str, 3] = ""
    options: Annotated[PluginOptions | None, 4] = None


class NumaNode(Message, frozen=True):
    id: Annotated[int, 1] = 0


class Topology(Message, frozen=True):
    nodes: Annotated[tuple[NumaNode, ...], 1] = ()


class Device(Message, frozen=True):
    id: Annotated[str, 1] = ""
    health: Annotated[str, 2] = ""
    topology: Annotated[Topology | None, 3] = None

    @property
    def healthy(self) -> bool:
        return self.health == HEALTHY

    @property
    def numa_nodes(self) -> frozenset[int]:
        return frozenset(each.id for each in self.topology.nodes) if self.topology is not None else frozenset()


class DeviceList(Message, frozen=True):
    """Always all devices of the plugin."""

    devices: Annotated[tuple[Device, ...], 1] = ()


class ContainerPreference(Message, frozen=True):
    available: Annotated[tuple[str, ...], 1] = ()
    must_include: Annotated[tuple[str, ...], 2] = ()
    size: Annotated[int, 3] = 0


class PreferenceRequest(Message, frozen=True):
    containers: Annotated[tuple[ContainerPreference, ...], 1] = ()


class PreferredDevices(Message, frozen=True):
    ids: Annotated[tuple[str, ...], 1] = ()


class PreferenceAnswer(Message, frozen=True):
    containers: Annotated[tuple[PreferredDevices, ...], 1] = ()


class ContainerDevices(Message, frozen=True):
    ids: Annotated[tuple[str, ...], 1] = ()


class AllocateRequest(Message, frozen=True):
    containers: Annotated[tuple[ContainerDevices, ...], 1] = ()


class PluginMount(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    read_only: Annotated[bool, 3] = False


class PluginDevice(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    permissions: Annotated[str, 3] = ""


class CdiDevice(Message, frozen=True):
    name: Annotated[str, 1] = ""


class ContainerAllocation(Message, frozen=True):
    """What a container needs to use its devices."""

    envs: Annotated[dict[str, str], 1] = msgspec.field(default_factory=dict)
    mounts: Annotated[tuple[PluginMount, ...], 2] = ()
    devices: Annotated[tuple[PluginDevice, ...], 3] = ()
    annotations: Annotated[dict[str, str], 4] = msgspec.field(default_factory=dict)
    cdi_devices: Annotated[tuple[CdiDevice, ...], 5] = ()


class AllocateAnswer(Message, frozen=True):
    containers: Annotated[tuple[ContainerAllocation, ...], 1] = ()


class PreStartRequest(Message, frozen=True):
    ids: Annotated[tuple[str, ...], 1] = ()


REGISTER: Final = Method("/v1beta1.Registration/Register", RegisterRequest, Empty)
OPTIONS: Final = Method("/v1beta1.DevicePlugin/GetDevicePluginOptions", Empty, PluginOptions)
LIST_AND_WATCH: Final = Method("/v1beta1.DevicePlugin/ListAndWatch", Empty, DeviceList)
PREFERRED: Final = Method("/v1beta1.DevicePlugin/GetPreferredAllocation", PreferenceRequest, PreferenceAnswer)
ALLOCATE: Final = Method("/v1beta1.DevicePlugin/Allocate", AllocateRequest, AllocateAnswer)
PRE_START: Final = Method("/v1beta1.DevicePlugin/PreStartContainer", PreStartRequest, Empty)
