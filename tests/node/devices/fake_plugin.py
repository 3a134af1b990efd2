"""A device plugin as a vendor would write it: with grpcio, and with messages that Google's protobuf library encodes. So
neither our transport nor our codec is on its side."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STRING, BOOL, INT32, INT64 = 9, 8, 5, 3
SCHEMA: dict[str, list[tuple[str, int, int | str, bool]]] = {
    "Empty": [],
    "DevicePluginOptions": [
        ("pre_start_required", 1, BOOL, False),
        ("get_preferred_allocation_available", 2, BOOL, False),
    ],
    "RegisterRequest": [
        ("version", 1, STRING, False),
        ("endpoint", 2, STRING, False),
        ("resource_name", 3, STRING, False),
        ("options", 4, "DevicePluginOptions", False),
    ],
    "NUMANode": [("ID", 1, INT64, False)],
    "TopologyInfo": [("nodes", 1, "NUMANode", True)],
    "Device": [("ID", 1, STRING, False), ("health", 2, STRING, False), ("topology", 3, "TopologyInfo", False)],
    "ListAndWatchResponse": [("devices", 1, "Device", True)],
    "ContainerPreferredAllocationRequest": [
        ("available_deviceIDs", 1, STRING, True),
        ("must_include_deviceIDs", 2, STRING, True),
        ("allocation_size", 3, INT32, False),
    ],
    "PreferredAllocationRequest": [("container_requests", 1, "ContainerPreferredAllocationRequest", True)],
    "ContainerPreferredAllocationResponse": [("deviceIDs", 1, STRING, True)],
    "PreferredAllocationResponse": [("container_responses", 1, "ContainerPreferredAllocationResponse", True)],
    "ContainerAllocateRequest": [("devices_ids", 1, STRING, True)],
    "AllocateRequest": [("container_requests", 1, "ContainerAllocateRequest", True)],
    "Mount": [("container_path", 1, STRING, False), ("host_path", 2, STRING, False), ("read_only", 3, BOOL, False)],
    "DeviceSpec": [
        ("container_path", 1, STRING, False),
        ("host_path", 2, STRING, False),
        ("permissions", 3, STRING, False),
    ],
    "Entry": [("key", 1, STRING, False), ("value", 2, STRING, False)],
    "CDIDevice": [("name", 1, STRING, False)],
    # A map is a repeated message of keys and values on the wire.
    "ContainerAllocateResponse": [
        ("envs", 1, "Entry", True),
        ("mounts", 2, "Mount", True),
        ("devices", 3, "DeviceSpec", True),
        ("annotations", 4, "Entry", True),
        ("cdi_devices", 5, "CDIDevice", True),
    ],
    "AllocateResponse": [("container_responses", 1, "ContainerAllocateResponse", True)],
    "PreStartContainerRequest": [("devices_ids", 1, STRING, True)],
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="deviceplugin.proto", package="v1beta1", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for label, number, kind, repeated in fields:
            entry = message.field.add(name=label, number=number, label=3 if repeated else 1)
            if isinstance(kind, str):
                entry.type, entry.type_name = 11, f".v1beta1.{kind}"
            else:
                entry.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1beta1.{name}")) for name in SCHEMA}


PB = _messages()


@dataclass
class FakePlugin:
    """Devices of one kind. `device` is called by its vendor's name: gpu-0, gpu-1, ..."""

    folder: Path
    resource: str = "example.com/gpu"
    socket: str = "example-gpu.sock"
    pre_start: bool = False
    prefers: Sequence[str] = ()
    """What it answers when it is asked; nothing if it has no opinion."""
    cdi: bool = True
    """Whether it names its devices in the Container Device Interface, too."""
    refuses: str = ""
    """The error of every Allocate."""
    hangs: bool = False
    """It does not answer Allocate, ever."""
    allocated: list[tuple[str, ...]] = field(default_factory=list)
    prepared: list[tuple[str, ...]] = field(default_factory=list)
    asked: list[tuple[tuple[str, ...], tuple[str, ...], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._devices: list[Any] = []
        self._news: asyncio.Queue[Any] = asyncio.Queue()
        self._server: grpc.aio.Server | None = None

    def announce(self, *healthy: str, unhealthy: Sequence[str] = (), numa: dict[str, int] | None = None) -> None:
        def device(id: str, health: str) -> Any:
            nodes = [PB["NUMANode"](ID=numa[id])] if numa and id in numa else []
            return PB["Device"](ID=id, health=health, topology=PB["TopologyInfo"](nodes=nodes) if nodes else None)

        self._devices = [*(device(id, "Healthy") for id in healthy), *(device(id, "Unhealthy") for id in unhealthy)]
        self._news.put_nowait(None)

    async def start(self) -> None:
        self._server = grpc.aio.server()
        handlers = {
            "GetDevicePluginOptions": self._unary(self._options, "Empty"),
            "Allocate": self._unary(self._allocate, "AllocateRequest"),
            "GetPreferredAllocation": self._unary(self._prefer, "PreferredAllocationRequest"),
            "PreStartContainer": self._unary(self._prepare, "PreStartContainerRequest"),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._watch,
                request_deserializer=PB["Empty"].FromString,
                response_serializer=lambda message: message.SerializeToString(),
            ),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),))
        self._server.add_insecure_port(f"unix:{self.folder / self.socket}")
        await self._server.start()

    async def register(self, version: str = "v1beta1", endpoint: str | None = None) -> None:
        """Raises grpc.aio.AioRpcError if it is refused."""
        request = PB["RegisterRequest"](
            version=version,
            endpoint=self.socket if endpoint is None else endpoint,
            resource_name=self.resource,
            options=self._chosen(),
        )
        async with grpc.aio.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}") as channel:
            await channel.unary_unary("/v1beta1.Registration/Register")(request.SerializeToString())

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    def _unary(self, handle: Any, request: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=PB[request].FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _chosen(self) -> Any:
        return PB["DevicePluginOptions"](
            pre_start_required=self.pre_start, get_preferred_allocation_available=bool(self.prefers)
        )

    async def _options(self, request: Any, context: Any) -> Any:
        return self._chosen()

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        yield PB["ListAndWatchResponse"](devices=self._devices)
        while True:
            await self._news.get()
            yield PB["ListAndWatchResponse"](devices=self._devices)

    async def _prefer(self, request: Any, context: Any) -> Any:
        (one,) = request.container_requests
        self.asked.append((tuple(one.available_deviceIDs), tuple(one.must_include_deviceIDs), one.allocation_size))
        answer = PB["ContainerPreferredAllocationResponse"](deviceIDs=self.prefers)
        return PB["PreferredAllocationResponse"](container_responses=[answer])

    async def _allocate(self, request: Any, context: Any) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuses:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuses)
        (one,) = request.container_requests
        ids = tuple(one.devices_ids)
        self.allocated.append(ids)
        answer = PB["ContainerAllocateResponse"](
            envs=[PB["Entry"](key="EXAMPLE_VISIBLE_DEVICES", value=",".join(ids))],
            mounts=[PB["Mount"](container_path="/usr/lib/example", host_path=str(self.folder), read_only=True)],
            devices=[
                PB["DeviceSpec"](container_path=f"/dev/{id}", host_path="/dev/null", permissions="rw") for id in ids
            ],
            annotations=[PB["Entry"](key="example.com/devices", value=",".join(ids))],
            cdi_devices=[PB["CDIDevice"](name=f"{self.resource}={id}") for id in ids] if self.cdi else [],
        )
        return PB["AllocateResponse"](container_responses=[answer])

    async def _prepare(self, request: Any, context: Any) -> Any:
        self.prepared.append(tuple(request.devices_ids))
        return PB["Empty"]()
