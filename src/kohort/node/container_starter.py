"""Starts the containers of a pod, and runs their postStart hooks and probes."""

import asyncio
import contextlib

from kohort.node import container_order, lifecycle_hooks
from kohort.node.container_environment import ConfigProblem
from kohort.node.container_exec import executor
from kohort.node.container_launcher import ContainerLauncher
from kohort.node.container_order import ContainerRun
from kohort.node.container_stopper import ContainerStopper
from kohort.node.devices.interface import DeviceProblem
from kohort.node.pod_hostname import InvalidContainer
from kohort.node.pod_record import PodRecord, containers_of
from kohort.node.pod_sandbox import PodSandbox
from kohort.node.probes import ProbeFailure, ProbeRunner
from kohort.node.runtimes.interface import (
    CannotCreate,
    CannotStart,
    ContainerKey,
    ImageBeingPulled,
    Instance,
    Launch,
    NoImage,
    Runtime,
)
from kohort.node.stop_grace import ProbeFailed, StopReason
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

ERROR_SECONDS = 10.0


class ContainerStarter:
    def __init__(
        self,
        record: PodRecord,
        sandbox: PodSandbox,
        stopper: ContainerStopper,
        launcher: ContainerLauncher,
        runtime: Runtime,
    ) -> None:
        self._record = record
        self._sandbox = sandbox
        self._stopper = stopper
        self._launcher = launcher
        self._runtime = runtime

    async def start(self, allocated: NodePod, container: NodeContainer, now: float) -> None:
        """Start a container, or record why it cannot be started."""
        record, run = self._record, self._record.runs[container.name]
        attempt = run.attempt + 1
        try:
            launch, instance = await self._launcher.launch(record, allocated, container, attempt)
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
        await self._launcher.remove_older_attempts(record.uid, run.name, attempt)
        run.begin(instance, attempt, now)
        record.launches[container.name] = launch
        record.exits.setdefault(instance.id, asyncio.Event())
        if self._runtime.images is None:
            record.event("Normal", "Pulled", f'Container image "{container.image}" already present on machine')
        record.event("Normal", "Created", f"Container created: {container.name}")
        if instance.problem:
            return self._failed_at_start(run, instance)
        record.event("Normal", "Started", f"Container started: {container.name}")
        for note in instance.notes:
            record.event("Warning", "ContainerNotIsolated", f"Container {container.name}: {note}")
        self._run_hook_and_probes(container, run)

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

    async def remove_all(self) -> None:
        """Remove the containers, with what they have written to their root file systems: an eviction has to free that,
        too."""
        for run in self._record.runs.values():
            for attempt in (run.attempt - 1, run.attempt):
                if attempt >= 0:
                    await self._runtime.remove(str(ContainerKey(self._record.uid, run.name, attempt)))

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
            self._launcher.take_over(record.uid, container.name)
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
            record.launches[container.name] = await self._launcher.rebuild(record, container, run.attempt, volumes)

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
