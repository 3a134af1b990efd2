"""Starts the containers of a pod, and runs their postStart hooks and probes."""

import asyncio
import contextlib
import os
import shutil

import msgspec

from kohort.node import container_order, lifecycle_hooks
from kohort.node.cgroups import Cgroups
from kohort.node.container_environment import ConfigProblem
from kohort.node.container_exec import executor
from kohort.node.container_order import ContainerRun
from kohort.node.container_stopper import ContainerStopper
from kohort.node.devices.interface import DeviceProblem, Devices
from kohort.node.image_config import Image
from kohort.node.images import NoImage
from kohort.node.launch_builder import LaunchBuilder, SandboxPaths
from kohort.node.pod_files import PodFiles
from kohort.node.pod_hostname import InvalidContainer
from kohort.node.pod_record import PodRecord, container_of, containers_of
from kohort.node.pod_sandbox import PodSandbox
from kohort.node.probes import ProbeFailure, ProbeRunner
from kohort.node.resize.allocation import Allocations
from kohort.node.resource_views import figures_of
from kohort.node.runtimes.interface import (
    CannotCreate,
    CannotStart,
    ContainerKey,
    ImageBeingPulled,
    ImageRequest,
    ImageSource,
    Instance,
    Launch,
    Runtime,
)
from kohort.node.stop_grace import ProbeFailed, StopReason
from kohort.node.sub_paths import bind_sub_paths, unbind
from kohort.node.volumes import MountProblem
from kohort.objects.container_reasons import (
    CREATE_CONTAINER_CONFIG_ERROR,
    CREATE_CONTAINER_ERROR,
    ERR_IMAGE_NEVER_PULL,
    FAILED_PULLS,
    IMAGE_PULL_BACK_OFF,
    RUN_CONTAINER_ERROR,
)
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.resources import container_cgroup
from kohort.resources.cgroups import container_memory_files

ERROR_SECONDS = 10.0


class ContainerStarter:
    def __init__(
        self,
        record: PodRecord,
        sandbox: PodSandbox,
        stopper: ContainerStopper,
        runtime: Runtime,
        launches: LaunchBuilder,
        allocations: Allocations,
        cgroups: Cgroups | None,
        files: PodFiles,
        images: ImageSource,
        devices: Devices,
    ) -> None:
        self._record = record
        self._sandbox = sandbox
        self._stopper = stopper
        self._images = images
        self._devices = devices
        self._runtime = runtime
        self._launches = launches
        self._allocations = allocations
        self._cgroups = cgroups
        self._files = files

    async def start(self, allocated: NodePod, container: NodeContainer, now: float) -> None:
        """Start a container, or record why it cannot be started."""
        record, run = self._record, self._record.runs[container.name]
        attempt = run.attempt + 1
        try:
            launch, instance = await self._launch(allocated, container, attempt)
        except ImageBeingPulled:
            return
        except (ConfigProblem, MountProblem, DeviceProblem) as problem:
            return self._cannot_start(run, CREATE_CONTAINER_CONFIG_ERROR, str(problem), now)
        except NoImage as problem:
            return self._no_image(run, container, problem, now)
        except (InvalidContainer, CannotCreate) as problem:
            return self._cannot_start(run, CREATE_CONTAINER_ERROR, str(problem), now)
        except (CannotStart, OSError) as problem:
            return self._cannot_start(run, RUN_CONTAINER_ERROR, str(problem), now)
        await self._remove_old_attempts(run, attempt)
        run.begin(instance, attempt, now)
        record.launches[container.name] = launch
        record.exits[instance.id] = asyncio.Event()
        if self._runtime.images is None:
            record.event("Normal", "Pulled", f'Container image "{container.image}" already present on machine')
        record.event("Normal", "Created", f"Container created: {container.name}")
        if instance.problem:
            return self._failed_at_start(run, instance)
        record.event("Normal", "Started", f"Container started: {container.name}")
        for note in instance.notes:
            record.event("Warning", "ContainerNotIsolated", f"Container {container.name}: {note}")
        self._run_hook_and_probes(container, run)

    async def _launch(self, allocated: NodePod, container: NodeContainer, attempt: int) -> tuple[Launch, Instance]:
        image = await self._images.ensure(self._image_request(container, attempt))
        if self._cgroups is not None and not self._runtime.makes_cgroups:
            self._cgroups.create_container(allocated, container_of(allocated, container.name))
        sandbox = self._sandbox_paths(allocated, container.name, self._record.volumes or {})
        launch = await self._launches.build(allocated, container, attempt, sandbox, image)
        await self._devices.before_start(self._record.uid, container.name)
        self._record_actuated(allocated, container.name)
        return launch, await self._start_with_sub_paths(launch, container.name)

    async def _start_with_sub_paths(self, launch: Launch, name: str) -> Instance:
        """A container runtime is given mounts of parts of volumes, and has its own of them when it has started the
        container. If it fails they stay: a call that was lost may still be carried out. Raises OSError."""
        if self._runtime.images is None:
            return await self._runtime.start(launch)
        place = self._files.sub_paths(self._record.uid, name)
        try:
            bound = await asyncio.to_thread(bind_sub_paths, launch, place)
        except OSError as problem:
            raise MountProblem(f'failed to prepare subPath for container "{name}": {problem}') from problem
        instance = await self._runtime.start(bound)
        await asyncio.to_thread(unbind, place)
        return instance

    def _image_request(self, container: NodeContainer, attempt: int) -> ImageRequest:
        return ImageRequest(self._record.pod, container, attempt, self._record.event, self._record.wake)

    def _sandbox_paths(self, allocated: NodePod, name: str, volumes: dict[str, str]) -> SandboxPaths:
        """Either the agent makes the container's cgroup, or the runtime, which is told what it should hold."""
        record, cgroups = self._record, self._cgroups
        devices = self._devices.use(record.uid, name)
        if cgroups is None:
            return SandboxPaths(record.address, record.netns, volumes, "", devices=devices)
        if not self._runtime.makes_cgroups:
            cgroup = str(cgroups.container_of(allocated, name))
            return SandboxPaths(record.address, record.netns, volumes, cgroup, devices=devices)
        values = container_cgroup(allocated, container_of(allocated, name), cgroups.settings)
        files = container_memory_files(cgroups.settings)
        grouped = {"memory.oom.group": files["memory.oom.group"]}  # swap is limited with the memory itself
        return SandboxPaths(record.address, record.netns, volumes, "", values, grouped, devices)

    def _record_actuated(self, allocated: NodePod, name: str) -> None:
        """Before the start: an agent that takes over after a crash must not restart the container for a resize with
        which it has started."""
        figures = figures_of(allocated).containers.get(name)
        if figures is None:
            return
        actuated = self._allocations.actuated(self._record.uid)
        assert actuated is not None
        started = msgspec.structs.replace(
            actuated.with_container(name, figures), restarting=actuated.restarting - {name}
        )
        self._allocations.record_actuated(self._record.uid, started)

    def emit_backoff_events(self, now: float) -> None:
        """Write an event for each container that waits before it starts again, once for each attempt."""
        pod = self._record.pod.metadata
        for run in self._record.runs.values():
            waits = run.restart_due is not None and run.restart_due > now and not run.waiting_reason
            if waits and run.backoff_reported != run.attempt:
                run.backoff_reported = run.attempt
                whose = f"{run.name} in pod {pod.name}_{pod.namespace}({pod.uid})"
                self._record.event("Warning", "BackOff", f"Back-off restarting failed container {whose}")

    def _failed_at_start(self, run: ContainerRun, instance: Instance) -> None:
        """Its program could not be run: the container has ended, and the restart policy applies."""
        run.termination_message = instance.problem
        self._record.event("Warning", "Failed", f"Error: {instance.problem}")
        self._record.exits[instance.id].set()
        self._record.wake()

    def _no_image(self, run: ContainerRun, container: NodeContainer, problem: NoImage, now: float) -> None:
        record, image, message = self._record, container.image, str(problem)
        if problem.reason not in FAILED_PULLS:
            return self._cannot_start(run, problem.reason, message, now, event=problem.reason)
        if container.image_pull_policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            return self._cannot_start(run, ERR_IMAGE_NEVER_PULL, message, now, event=ERR_IMAGE_NEVER_PULL)
        if run.failures == 0:
            record.event("Warning", "Failed", f'Failed to pull image "{image}": {message}')
            return self._cannot_start(run, problem.reason, message, now, event=problem.reason)
        if run.waiting_reason != IMAGE_PULL_BACK_OFF:
            record.event("Normal", "BackOff", f'Back-off pulling image "{image}"')
        message = f'Back-off pulling image "{image}": {problem.reason}: {message}'
        return self._cannot_start(run, IMAGE_PULL_BACK_OFF, message, now, event=IMAGE_PULL_BACK_OFF)

    def _cannot_start(self, run: ContainerRun, reason: str, message: str, now: float, *, event: str = "") -> None:
        run.begun_at = now
        pause = container_order.pause_after_end(run, now) or ERROR_SECONDS
        if run.waiting_reason != reason or run.waiting_message != message:
            self._record.event("Warning", "Failed", f"Error: {event or message}")
        run.waiting_reason, run.waiting_message, run.restart_due = reason, message, now + pause
        self._record.wake(pause)

    async def _remove_old_attempts(self, run: ContainerRun, attempt: int) -> None:
        """Keep only the attempt before the present one, without the files that it has written."""
        uid = self._record.uid
        if attempt >= 1:
            await asyncio.to_thread(shutil.rmtree, self._files.layer(uid, run.name, attempt - 1), True)
        if attempt >= 2:
            old = ContainerKey(uid, run.name, attempt - 2)
            await self._runtime.remove(str(old))
            for path in (self._files.log(*old), self._files.termination_message(*old)):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    # Containers of an earlier agent

    def take_over(self) -> None:
        """Take up the probes of containers that an earlier agent has started. Raises OSError."""
        record = self._record
        running = [each for each in containers_of(record.pod) if record.runs[each.name].running]
        if running:
            self._sandbox.take_address()  # for probes
        for container in running:
            run = record.runs[container.name]
            assert run.instance is not None
            unbind(self._files.sub_paths(record.uid, container.name))
            record.exits[run.instance.id] = asyncio.Event()
            self._run_hook_and_probes(container, run, rebuilt=record.spawn(self._rebuild_launch(container, run)))

    async def _rebuild_launch(self, container: NodeContainer, run: ContainerRun) -> None:
        """What exec and probes need to know of a container that an earlier agent has started."""
        record = self._record
        if self._runtime.images is not None:
            # It knows the rights and the environment of its containers, whatever cannot be built again here.
            id = str(ContainerKey(record.uid, container.name, run.attempt))
            record.launches[container.name] = Launch(id, (), image=container.image)
        with contextlib.suppress(ConfigProblem, NoImage, MountProblem, InvalidContainer, OSError):
            await self._sandbox.set_up_network()
            volumes = await self._sandbox.prepare_volumes(record.pod)
            allocated, image = record.allocated(), await self._rebuilt_image(container, run)
            record.launches[container.name] = await self._launches.build(
                allocated, container, run.attempt, self._sandbox_paths(allocated, container.name, volumes), image
            )

    async def _rebuilt_image(self, container: NodeContainer, run: ContainerRun) -> Image:
        """A runtime with images of its own needs to know nothing of them to run a command in a container."""
        if self._runtime.images is not None:
            return Image(reference=container.image)
        return await self._images.ensure(self._image_request(container, run.attempt))

    # Hooks and probes

    def _run_hook_and_probes(
        self, container: NodeContainer, run: ContainerRun, *, rebuilt: "asyncio.Task[None] | None" = None
    ) -> None:
        """`rebuilt` is for a container of an earlier agent: its hook has run, and commands in it wait for this task."""
        record, recovered = self._record, rebuilt is not None
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is not None and not recovered:
            run.post_start_done = False
        execute = executor(record, self._runtime, container.name)
        probes = ProbeRunner(
            container,
            run,
            record.address,
            execute,
            self._probe_failed,
            record.wake,
            self._probe_warned,
            self._probe_errored,
        )
        record.probes[container.name] = probes

        async def begin() -> None:
            if hook is not None and not recovered:
                try:
                    await lifecycle_hooks.run(hook, container, record.address, execute)
                except lifecycle_hooks.HookFailed as problem:
                    record.event("Warning", "FailedPostStartHook", f"PostStartHook failed: {problem}")
                    record.event("Normal", "Killing", f"Container {container.name} failed its PostStartHook")
                    await self._stopper.stop(container, StopReason.HOOK_FAILED)
                    return
                run.post_start_done = True
            if rebuilt is not None:
                await asyncio.wait((rebuilt,))
            await probes.run()

        record.spawn(begin())

    def _probe_warned(self, kind: str, message: str) -> None:
        self._record.event("Warning", "ProbeWarning", f"{kind} probe warning: {message}")

    def _probe_errored(self, kind: str, message: str) -> None:
        self._record.event("Warning", "Unhealthy", f"{kind} probe errored and resulted in unknown state: {message}")

    def _probe_failed(self, failure: ProbeFailure) -> None:
        record, name = self._record, failure.container.name
        record.event("Warning", "Unhealthy", f"{failure.kind} probe failed: {failure.message}")
        if failure.restart:
            message = f"Container {name} failed {failure.kind.lower()} probe, will be restarted"
            record.event("Normal", "Killing", message)
            record.spawn(self._stopper.stop(failure.container, ProbeFailed(failure.grace)))
