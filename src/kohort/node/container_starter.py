"""Starting the containers of a pod, and what accompanies them while they run: hooks and probes."""

import asyncio
import contextlib
import os
import shutil

import msgspec

from kohort.node import container_order, lifecycle_hooks
from kohort.node.container_environment import ConfigProblem
from kohort.node.container_order import Run
from kohort.node.container_spec import InvalidContainer, instance_id, launch_of, layer_path, log_path, message_path
from kohort.node.container_stop import Ending
from kohort.node.images import NoImage
from kohort.node.pod_record import HeldPod, container_of, containers_of
from kohort.node.pod_sandbox import Sandbox
from kohort.node.probe_runner import Probing
from kohort.node.runtimes.interface import CannotStart, Instance, Launch
from kohort.node.views import figures_of
from kohort.node.volumes import MountProblem
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.resources import container_cgroup

ERROR_SECONDS = 10.0


class ContainerStarts:
    def __init__(self, held: HeldPod, sandbox: Sandbox, ending: Ending) -> None:
        self._held = held
        self._sandbox = sandbox
        self._ending = ending

    async def start(self, allocated: NodePod, container: NodeContainer, now: float) -> None:
        """Start a container, or say why it waits."""
        held, run = self._held, self._held.runs[container.name]
        attempt = run.attempt + 1
        try:
            launch, instance = await self._launch(allocated, container, attempt)
        except (ConfigProblem, MountProblem) as problem:
            return self._cannot_start(run, "CreateContainerConfigError", str(problem), now)
        except NoImage as problem:
            return self._no_image(run, container, str(problem), now)
        except InvalidContainer as problem:
            return self._cannot_start(run, "CreateContainerError", str(problem), now)
        except (CannotStart, OSError) as problem:
            return self._cannot_start(run, "RunContainerError", str(problem), now)
        await self._forget_old(run, attempt)
        run.begin(instance, attempt, now)
        held.launches[container.name] = launch
        held.exits[instance.id] = asyncio.Event()
        held.event("Normal", "Pulled", f'Container image "{container.image}" already present on machine')
        held.event("Normal", "Created", f"Container created: {container.name}")
        if instance.problem:
            return self._could_not_run(run, instance)
        held.event("Normal", "Started", f"Container started: {container.name}")
        for note in instance.notes:
            held.event("Warning", "ContainerNotIsolated", f"Container {container.name}: {note}")
        self._watch_over(container, run)

    async def _launch(self, allocated: NodePod, container: NodeContainer, attempt: int) -> tuple[Launch, Instance]:
        held, name = self._held, container.name
        cgroup = ""
        if held.node.cgroups is not None:
            values = container_cgroup(allocated, container_of(allocated, name), held.node.settings)
            held.node.cgroups.create_container(held.cgroup / name, values, held.node.settings)
            cgroup = str(held.cgroup / name)
        launch = await launch_of(
            held.node, allocated, container, attempt, held.address, held.places or {}, cgroup, held.netns
        )
        self._record(allocated, name)
        return launch, await held.node.runtime.start(launch)

    def _record(self, allocated: NodePod, name: str) -> None:
        """Before it starts: whoever comes after a crash must not restart it for a resize that it has got already."""
        figures = figures_of(allocated).containers.get(name)
        if figures is None:
            return
        allocations = self._held.node.allocations
        actuated = allocations.actuated(self._held.uid)
        assert actuated is not None
        fresh = actuated.with_container(name, figures)
        left = actuated.restarting - {name}
        allocations.record_actuated(self._held.uid, msgspec.structs.replace(fresh, restarting=left))

    def lament(self, now: float) -> None:
        """Tell of containers that must wait before they start again."""
        pod = self._held.pod.metadata
        for run in self._held.runs.values():
            if run.due is not None and run.due > now and not run.waiting and run.lamented != run.attempt:
                run.lamented = run.attempt
                whose = f"{run.name} in pod {pod.name}_{pod.namespace}({pod.uid})"
                self._held.event("Warning", "BackOff", f"Back-off restarting failed container {whose}")

    def _could_not_run(self, run: Run, instance: Instance) -> None:
        """Its program is not there: it has ended, and the pod's policy says what follows."""
        run.message = instance.problem
        self._held.event("Warning", "Failed", f"Error: {instance.problem}")
        self._held.exits[instance.id].set()
        self._held.wake()

    def _no_image(self, run: Run, container: NodeContainer, words: str, now: float) -> None:
        held, image = self._held, container.image
        if container.image_pull_policy == "Never":
            words = f'Container image "{image}" is not present with pull policy of Never'
            return self._cannot_start(run, "ErrImageNeverPull", words, now, told="ErrImageNeverPull")
        if run.strikes == 0:
            held.event("Warning", "Failed", f'Failed to pull image "{image}": {words}')
            return self._cannot_start(run, "ErrImagePull", words, now, told="ErrImagePull")
        if run.waiting != "ImagePullBackOff":
            held.event("Normal", "BackOff", f'Back-off pulling image "{image}"')
        words = f'Back-off pulling image "{image}": ErrImagePull: {words}'
        return self._cannot_start(run, "ImagePullBackOff", words, now, told="ImagePullBackOff")

    def _cannot_start(self, run: Run, reason: str, words: str, now: float, *, told: str = "") -> None:
        run.begun = now
        delay = container_order.delay_after(run, now) or ERROR_SECONDS
        if run.waiting != reason or run.words != words:
            self._held.event("Warning", "Failed", f"Error: {told or words}")
        run.waiting, run.words, run.due = reason, words, now + delay
        self._held.wake(delay)

    async def _forget_old(self, run: Run, attempt: int) -> None:
        """Only the last attempt before the present one is kept, without the files that it has written."""
        node, uid = self._held.node, self._held.uid
        if attempt >= 1:
            await asyncio.to_thread(shutil.rmtree, layer_path(node, uid, run.name, attempt - 1), True)
        if attempt >= 2:
            await node.runtime.remove(instance_id(uid, run.name, attempt - 2))
            for path in (log_path(node, uid, run.name, attempt - 2), message_path(node, uid, run.name, attempt - 2)):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    # Of an earlier agent

    def take_over(self) -> None:
        """Take up hooks and probes of containers that an earlier agent has started. Raises OSError."""
        held = self._held
        running = [each for each in containers_of(held.pod) if held.runs[each.name].running]
        if running:
            self._sandbox.take_address()  # probes ask there
        for container in running:
            run = held.runs[container.name]
            assert run.instance is not None
            held.exits[run.instance.id] = asyncio.Event()
            self._watch_over(container, run, rebuilt=held.spawn(self._rebuild_launch(container, run)))

    async def _rebuild_launch(self, container: NodeContainer, run: Run) -> None:
        """What exec and probes need to know of a container that somebody else has started."""
        held = self._held
        with contextlib.suppress(ConfigProblem, NoImage, MountProblem, InvalidContainer, OSError):
            await self._sandbox.network()
            places = await self._sandbox.volumes(held.pod)
            cgroup = str(held.cgroup / container.name) if held.node.cgroups is not None else ""
            held.launches[container.name] = await launch_of(
                held.node, held.allocated(), container, run.attempt, held.address, places, cgroup, held.netns
            )

    # Hooks and probes

    def _watch_over(self, container: NodeContainer, run: Run, *, rebuilt: "asyncio.Task[None] | None" = None) -> None:
        """`rebuilt` is for a container that was there before: its hook has run, and commands in it wait for this."""
        held, recovered = self._held, rebuilt is not None
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is not None and not recovered:
            run.hooked = False
        execute = held.executor(container.name)
        probing = Probing(container, run, held.address, execute, self._unhealthy, held.wake)
        held.probing[container.name] = probing

        async def begin() -> None:
            if hook is not None and not recovered:
                try:
                    await lifecycle_hooks.run(hook, container, held.address, execute)
                except lifecycle_hooks.HookFailed as problem:
                    held.event("Warning", "FailedPostStartHook", f"PostStartHook failed: {problem}")
                    await self._ending.kill(container, held.grace)
                    return
                run.hooked = True
            if rebuilt is not None:
                await asyncio.wait((rebuilt,))
            await probing.run()

        held.spawn(begin())

    def _unhealthy(self, container: NodeContainer, kind: str, words: str, fatal: bool, grace: int | None) -> None:
        """A probe has failed; `fatal` when it was one time too many."""
        held = self._held
        held.event("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {words}")
        if fatal:
            words = f"Container {container.name} failed {kind.lower()} probe, will be restarted"
            held.event("Normal", "Killing", words)
            held.spawn(self._ending.kill(container, float(grace) if grace is not None else held.grace))
