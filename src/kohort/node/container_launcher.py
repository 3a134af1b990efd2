"""Has the runtime start a container, with everything that must be there before: image, cgroup, devices, mounts."""

import asyncio
import contextlib
import os
import shutil

import msgspec

from kohort.node.cgroups import Cgroups
from kohort.node.devices.interface import Devices
from kohort.node.image_config import Image
from kohort.node.launch_builder import LaunchBuilder, SandboxPaths
from kohort.node.pod_files import PodFiles
from kohort.node.pod_record import PodRecord, container_of
from kohort.node.resize.allocation import Allocations
from kohort.node.resource_views import figures_of
from kohort.node.runtimes.interface import ContainerKey, ImageRequest, ImageSource, Instance, Launch, Runtime
from kohort.node.sub_paths import bind_sub_paths, unbind
from kohort.node.volumes import MountProblem
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.resources import container_cgroup
from kohort.resources.cgroups import container_memory_files


class ContainerLauncher:
    """One for all pods of the node."""

    def __init__(
        self,
        runtime: Runtime,
        images: ImageSource,
        builder: LaunchBuilder,
        devices: Devices,
        allocations: Allocations,
        cgroups: Cgroups | None,
        files: PodFiles,
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._builder = builder
        self._devices = devices
        self._allocations = allocations
        self._cgroups = cgroups
        self._files = files

    async def launch(
        self, record: PodRecord, allocated: NodePod, container: NodeContainer, attempt: int
    ) -> tuple[Launch, Instance]:
        """Raises what says why it could not be started: ConfigProblem, MountProblem, DeviceProblem, NoImage,
        ImageBeingPulled, InvalidContainer, CannotCreate, CannotStart, OSError."""
        image = await self._images.ensure(_image_request(record, container, attempt))
        if self._cgroups is not None and not self._runtime.makes_cgroups:
            self._cgroups.create_container(allocated, container_of(allocated, container.name))
        sandbox = self._sandbox_paths(record, allocated, container.name, record.volumes or {})
        launch = await self._builder.build(allocated, container, attempt, sandbox, image)
        await self._devices.before_start(record.uid, container.name)
        self._record_actuated(record.uid, allocated, container.name)
        return launch, await self._start_with_sub_paths(launch, record.uid, container.name)

    async def _start_with_sub_paths(self, launch: Launch, uid: str, name: str) -> Instance:
        """A container runtime is given mounts of parts of volumes, and has its own of them when it has started the
        container. If it fails they stay: a call that was lost may still be carried out. Raises OSError."""
        if self._runtime.images is None:
            return await self._runtime.start(launch)
        place = self._files.sub_paths(uid, name)
        try:
            bound = await asyncio.to_thread(bind_sub_paths, launch, place)
        except OSError as problem:
            raise MountProblem(f'failed to prepare subPath for container "{name}": {problem}') from problem
        instance = await self._runtime.start(bound)
        await asyncio.to_thread(unbind, place)
        return instance

    def _sandbox_paths(self, record: PodRecord, allocated: NodePod, name: str, volumes: dict[str, str]) -> SandboxPaths:
        """Either the agent makes the container's cgroup, or the runtime, which is told what it should hold."""
        cgroups, devices = self._cgroups, self._devices.use(record.uid, name)
        if cgroups is None:
            return SandboxPaths(record.address, record.netns, volumes, "", devices=devices)
        if not self._runtime.makes_cgroups:
            cgroup = str(cgroups.container_of(allocated, name))
            return SandboxPaths(record.address, record.netns, volumes, cgroup, devices=devices)
        values = container_cgroup(allocated, container_of(allocated, name), cgroups.settings)
        files = container_memory_files(cgroups.settings)
        grouped = {"memory.oom.group": files["memory.oom.group"]}  # swap is limited with the memory itself
        return SandboxPaths(record.address, record.netns, volumes, "", values, grouped, devices)

    def _record_actuated(self, uid: str, allocated: NodePod, name: str) -> None:
        """Before the start: an agent that takes over after a crash must not restart the container for a resize with
        which it has started."""
        figures = figures_of(allocated).containers.get(name)
        if figures is None:
            return
        actuated = self._allocations.actuated(uid)
        assert actuated is not None
        started = msgspec.structs.replace(
            actuated.with_container(name, figures), restarting=actuated.restarting - {name}
        )
        self._allocations.record_actuated(uid, started)

    # Containers of an earlier agent

    def take_over(self, uid: str, name: str) -> None:
        """Remove what an agent that has ended while it started this container may have left. Raises OSError."""
        unbind(self._files.sub_paths(uid, name))

    async def rebuild(
        self, record: PodRecord, container: NodeContainer, attempt: int, volumes: dict[str, str]
    ) -> Launch:
        """What an earlier agent has launched this container with. Raises like `launch`."""
        allocated, image = record.allocated(), await self._rebuilt_image(record, container, attempt)
        sandbox = self._sandbox_paths(record, allocated, container.name, volumes)
        return await self._builder.build(allocated, container, attempt, sandbox, image)

    async def _rebuilt_image(self, record: PodRecord, container: NodeContainer, attempt: int) -> Image:
        """A runtime with images of its own needs to know nothing of them to run a command in a container."""
        if self._runtime.images is not None:
            return Image(reference=container.image)
        return await self._images.ensure(_image_request(record, container, attempt))

    # Containers that have ended

    async def remove_older_attempts(self, uid: str, name: str, attempt: int) -> None:
        """Keep only the attempt before the present one, without the files that it has written."""
        if attempt >= 1:
            await asyncio.to_thread(shutil.rmtree, self._files.layer(uid, name, attempt - 1), True)
        if attempt >= 2:
            old = ContainerKey(uid, name, attempt - 2)
            await self._runtime.remove(str(old))
            for path in (self._files.log(*old), self._files.termination_message(*old)):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _image_request(record: PodRecord, container: NodeContainer, attempt: int) -> ImageRequest:
    return ImageRequest(record.pod, container, attempt, record.event, record.wake)
