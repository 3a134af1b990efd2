"""A container runtime in the test process: it speaks the CRI over a socket, and its containers do what tests say.

It keeps the rules that a real one keeps: names are reserved by pod, container and attempt, stopping and removing can be
repeated, what does not exist is NOT_FOUND. `broken` makes the next calls of a method fail, before or after they had
their effect; the latter is a lost answer.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from kohort.node.grpc.codec import Message
from kohort.node.grpc.server import Server
from kohort.node.grpc.status import Code, Method, RpcError
from kohort.node.runtimes.cri import messages as cri

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)
Events = AsyncGenerator[cri.ContainerEventResponse, None]


class FakeContainer(msgspec.Struct):
    id: str
    sandbox: str
    config: cri.ContainerConfig
    state: int = cri.ContainerState.CREATED
    exit_code: int = 0
    reason: str = ""
    ended: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class FakeSandbox(msgspec.Struct):
    id: str
    config: cri.PodSandboxConfig
    state: int = cri.PodSandboxState.READY


class FakeRuntime:
    def __init__(self, socket: Path, *, events: bool = False) -> None:
        self.socket = socket
        self.name = "fake"
        self.version = "1.0"
        self.features = cri.RuntimeFeatures()
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.containers: dict[str, FakeContainer] = {}
        self.images: dict[str, cri.Image] = {}
        self.registry: dict[str, cri.Image] = {}
        """Images that can be pulled."""
        self.calls: list[str] = []
        self.updates: list[cri.UpdateContainerResourcesRequest] = []
        self.pulls: list[cri.PullImageRequest] = []
        self.broken: dict[str, RpcError] = {}
        """By method: the next call fails before it has an effect."""
        self.failing: dict[str, list[RpcError]] = {}
        """By method: the next calls fail, each with one of these."""
        self.lost_answers: set[str] = set()
        """Methods whose next call has its effect and fails."""
        self.cannot_run: dict[str, str] = {}
        """Programs that cannot be run, and why."""
        self.ignores_signals: set[str] = set()
        """Containers by name that only end when they are killed."""
        self.conditions: tuple[cri.RuntimeCondition, ...] = (
            cri.RuntimeCondition("RuntimeReady", True),
            cri.RuntimeCondition("NetworkReady", True),
        )
        self.info: dict[str, str] = {}
        self.container_info = '{"pid": 7}'
        self.image_id = ""
        self.events_are_off = False
        """Streams of events end at once, without an error."""
        self.event_streams = 0
        self.pull_times: dict[str, float] = {}
        """Of single images."""
        self.refused: set[str] = set()
        """Images that the registry gives to no one."""
        self.pull_time = 0.0
        self.has_events = events
        """From the next start on."""
        self._told: list[asyncio.Event] = []
        self._ids = count(1)
        self._server = Server()

    async def start(self) -> None:
        self._server = Server()
        self._serve(cri.VERSION, self._version)
        self._serve(cri.STATUS, self._status)
        self._serve(cri.RUN_POD_SANDBOX, self._run_pod_sandbox)
        self._serve(cri.STOP_POD_SANDBOX, self._stop_pod_sandbox)
        self._serve(cri.REMOVE_POD_SANDBOX, self._remove_pod_sandbox)
        self._serve(cri.LIST_POD_SANDBOX, self._list_pod_sandbox)
        self._serve(cri.CREATE_CONTAINER, self._create_container)
        self._serve(cri.START_CONTAINER, self._start_container)
        self._serve(cri.STOP_CONTAINER, self._stop_container)
        self._serve(cri.REMOVE_CONTAINER, self._remove_container)
        self._serve(cri.LIST_CONTAINERS, self._list_containers)
        self._serve(cri.CONTAINER_STATUS, self._container_status)
        self._serve(cri.UPDATE_CONTAINER, self._update_container)
        self._serve(cri.EXEC_SYNC, self._exec_sync)
        self._serve(cri.LIST_IMAGES, self._list_images)
        self._serve(cri.IMAGE_STATUS, self._image_status)
        self._serve(cri.PULL_IMAGE, self._pull_image)
        self._serve(cri.REMOVE_IMAGE, self._remove_image)
        self._serve(cri.IMAGE_FS_INFO, self._image_fs_info)
        if self.has_events:
            self._server.streaming(cri.CONTAINER_EVENTS, self._container_events)
        await self._server.listen(self.socket)

    async def stop(self) -> None:
        """As a crash: containers go on."""
        await self._server.close()

    def end(self, name: str, code: int = 0, reason: str = "") -> None:
        """A container ends by itself."""
        for each in self.containers.values():
            metadata = each.config.metadata
            if metadata is not None and metadata.name == name and each.state == cri.ContainerState.RUNNING:
                self._end(each, code, reason)

    def running(self) -> list[str]:
        found = [each for each in self.containers.values() if each.state == cri.ContainerState.RUNNING]
        return [f"{each.config.metadata.name}/{each.config.metadata.attempt}" for each in found if each.config.metadata]

    def _end(self, container: FakeContainer, code: int, reason: str = "") -> None:
        container.state, container.exit_code = cri.ContainerState.EXITED, code
        container.reason = reason or ("Error" if code else "Completed")
        container.ended.set()
        self._tell()

    def _tell(self) -> None:
        for each in self._told:
            each.set()

    def _serve(self, method: Method[Q, A], handle: Callable[[Q], Awaitable[A]]) -> None:
        async def call(request: Q) -> A:
            self.calls.append(method.name)
            if (problem := self.broken.pop(method.name, None)) is not None:
                raise problem
            if failing := self.failing.get(method.name):
                raise failing.pop()
            answer = await handle(request)
            if method.name in self.lost_answers:
                self.lost_answers.discard(method.name)
                raise RpcError(Code.UNAVAILABLE, "the answer was lost")
            return answer

        self._server.unary(method, call)

    # Handlers

    async def _version(self, request: cri.VersionRequest) -> cri.VersionResponse:
        return cri.VersionResponse("0.1.0", self.name, self.version, "v1")

    async def _status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        info = self.info if request.verbose else {}
        return cri.StatusResponse(cri.RuntimeStatus(self.conditions), info, features=self.features)

    async def _run_pod_sandbox(self, request: cri.RunPodSandboxRequest) -> cri.RunPodSandboxResponse:
        assert request.config is not None
        if any(each.config.metadata == request.config.metadata for each in self.sandboxes.values()):
            raise RpcError(Code.UNKNOWN, "failed to reserve sandbox name: name is reserved for another")
        sandbox = FakeSandbox(f"sandbox{next(self._ids)}", request.config)
        self.sandboxes[sandbox.id] = sandbox
        self._tell()
        return cri.RunPodSandboxResponse(sandbox.id)

    async def _stop_pod_sandbox(self, request: cri.StopPodSandboxRequest) -> cri.Empty:
        if (sandbox := self.sandboxes.get(request.pod_sandbox_id)) is not None:
            sandbox.state = cri.PodSandboxState.NOT_READY
            for each in self.containers.values():
                if each.sandbox == sandbox.id and each.state == cri.ContainerState.RUNNING:
                    self._end(each, 137)
        return cri.Empty()

    async def _remove_pod_sandbox(self, request: cri.RemovePodSandboxRequest) -> cri.Empty:
        self.sandboxes.pop(request.pod_sandbox_id, None)
        for id in [id for id, each in self.containers.items() if each.sandbox == request.pod_sandbox_id]:
            del self.containers[id]
        return cri.Empty()

    async def _list_pod_sandbox(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        wanted = request.filter.label_selector if request.filter is not None else {}
        found = [each for each in self.sandboxes.values() if wanted.items() <= each.config.labels.items()]
        return cri.ListPodSandboxResponse(
            tuple(
                cri.PodSandbox(each.id, each.config.metadata, each.state, labels=each.config.labels) for each in found
            )
        )

    async def _create_container(self, request: cri.CreateContainerRequest) -> cri.CreateContainerResponse:
        assert request.config is not None
        if request.pod_sandbox_id not in self.sandboxes:
            raise RpcError(Code.NOT_FOUND, "no such sandbox")
        for each in self.containers.values():
            same = each.sandbox == request.pod_sandbox_id and each.config.metadata == request.config.metadata
            if same:
                raise RpcError(Code.UNKNOWN, f'failed to reserve container name: name is reserved for "{each.id}"')
        container = FakeContainer(f"container{next(self._ids)}", request.pod_sandbox_id, request.config)
        self.containers[container.id] = container
        return cri.CreateContainerResponse(container.id)

    async def _start_container(self, request: cri.StartContainerRequest) -> cri.Empty:
        container = self._container(request.container_id)
        if container.state != cri.ContainerState.CREATED:
            raise RpcError(Code.UNKNOWN, "container is in another state than created")
        program = container.config.command[0] if container.config.command else ""
        if program in self.cannot_run:
            self._end(container, 128, "StartError")
            raise RpcError(Code.UNKNOWN, self.cannot_run[program])
        container.state = cri.ContainerState.RUNNING
        self._tell()
        return cri.Empty()

    async def _stop_container(self, request: cri.StopContainerRequest) -> cri.Empty:
        container = self._container(request.container_id)
        name = container.config.metadata.name if container.config.metadata is not None else ""
        if container.state == cri.ContainerState.RUNNING:
            if name not in self.ignores_signals and request.timeout > 0:
                self._end(container, 143)
            else:
                try:
                    await asyncio.wait_for(container.ended.wait(), request.timeout)
                except TimeoutError:
                    self._end(container, 137)
        return cri.Empty()

    async def _remove_container(self, request: cri.RemoveContainerRequest) -> cri.Empty:
        self.containers.pop(request.container_id, None)
        return cri.Empty()

    async def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        wanted = request.filter.label_selector if request.filter is not None else {}
        found = [each for each in self.containers.values() if wanted.items() <= each.config.labels.items()]
        return cri.ListContainersResponse(
            tuple(
                cri.Container(
                    each.id,
                    each.sandbox,
                    each.config.metadata,
                    state=each.state,
                    labels=each.config.labels,
                    annotations=each.config.annotations,
                )
                for each in found
            )
        )

    async def _container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        each = self._container(request.container_id)
        ended = each.state == cri.ContainerState.EXITED
        started = 0 if each.state == cri.ContainerState.CREATED else 10**18
        return cri.ContainerStatusResponse(
            cri.ContainerStatus(
                each.id,
                each.config.metadata,
                each.state,
                10**18,
                started,
                2 * 10**18 if ended else 0,
                each.exit_code,
                reason=each.reason,
                image_ref="registry/image@sha256:1",
                image_id=self.image_id,
                message=self.cannot_run.get(each.config.command[0], "") if each.config.command else "",
            ),
            {"info": self.container_info} if request.verbose else {},
        )

    async def _update_container(self, request: cri.UpdateContainerResourcesRequest) -> cri.Empty:
        self._container(request.container_id)
        self.updates.append(request)
        return cri.Empty()

    async def _exec_sync(self, request: cri.ExecSyncRequest) -> cri.ExecSyncResponse:
        self._container(request.container_id)
        if request.cmd[0] == "wait":
            await asyncio.sleep(1000)
        return cri.ExecSyncResponse(b"out", b"err", 3 if request.cmd[0] == "fail" else 0)

    async def _list_images(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        return cri.ListImagesResponse(tuple(self.images.values()))

    async def _image_status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        assert request.image is not None
        named = request.image.image
        found = next((each for name, each in self.images.items() if named in (name, each.id)), None)
        return cri.ImageStatusResponse(found)

    async def _pull_image(self, request: cri.PullImageRequest) -> cri.PullImageResponse:
        assert request.image is not None
        self.pulls.append(request)
        await asyncio.sleep(self.pull_times.get(request.image.image, self.pull_time))
        if request.image.image in self.refused:
            raise RpcError(Code.UNKNOWN, f"failed to resolve {request.image.image}: authorization failed")
        if (image := self.registry.get(request.image.image)) is None:
            raise RpcError(Code.NOT_FOUND, f"{request.image.image}: not found")
        self.images[request.image.image] = image
        return cri.PullImageResponse(image.id)

    async def _remove_image(self, request: cri.RemoveImageRequest) -> cri.Empty:
        id = request.image.image if request.image is not None else ""
        self.images = {name: image for name, image in self.images.items() if image.id != id}
        return cri.Empty()

    async def _image_fs_info(self, request: cri.Empty) -> cri.ImageFsInfoResponse:
        return cri.ImageFsInfoResponse()

    async def _container_events(self, request: cri.GetEventsRequest) -> Events:
        self.event_streams += 1
        if self.events_are_off:
            return
        happened = asyncio.Event()
        self._told.append(happened)
        try:
            while True:
                await happened.wait()
                happened.clear()
                yield cri.ContainerEventResponse()
        finally:
            self._told.remove(happened)

    def _container(self, id: str) -> FakeContainer:
        if (found := self.containers.get(id)) is None:
            raise RpcError(Code.NOT_FOUND, f"container {id} does not exist")
        return found


@contextlib.asynccontextmanager
async def beside_http(socket: Path, grpc: Path, answer: str) -> AsyncIterator[None]:
    """As CRI-O does: one socket for HTTP, which gives one answer, and for the calls of the interface."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begin = await reader.readexactly(3)
        if begin == b"GET":
            writer.write(answer.encode())
            writer.close()
            return
        inner_reader, inner_writer = await asyncio.open_unix_connection(str(grpc))
        inner_writer.write(begin)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_unix_server(accepted, str(socket))
    try:
        yield
    finally:
        server.close()
