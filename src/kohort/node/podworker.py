"""Runs one pod: brings what is on this machine to what its spec says, and reports what is.

`sync` is called whenever something may have changed and does whatever is possible without waiting for containers to
end; ending them, hooks and probes are tasks of their own that call for another look when they are through.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

import msgspec

from kohort.kube import clock
from kohort.kube.client import PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.log import Log
from kohort.kube.resources import PODS, Key
from kohort.node import hooks, lifecycle
from kohort.node.actuation import ActuationFailed, actuated_from_cgroups
from kohort.node.environment import ConfigProblem
from kohort.node.images import NoImage
from kohort.node.lifecycle import Run
from kohort.node.probes import output_of
from kohort.node.probing import Probing
from kohort.node.resize import conditions
from kohort.node.resize.conditions import Note, ResizeState
from kohort.node.resize.plan import changes, in_progress
from kohort.node.runtimes.interface import CannotStart, Instance, Launch
from kohort.node.starting import (
    InvalidContainer,
    execution_of,
    facts_of,
    instance_id,
    launch_of,
    log_path,
    pod_directory,
    write_pod_hosts,
)
from kohort.node.statuses import Report, pod_status, refused_status, said_before, status_patch
from kohort.node.surroundings import Surroundings
from kohort.node.views import Actuated, Applied, Figures, figures_of
from kohort.node.volumes import REFRESH_SECONDS, MountProblem
from kohort.objects.jsontypes import JsonObject
from kohort.objects.nodepods import NodeContainer, NodePod
from kohort.resources import container_cgroup, pod_cgroup, stored_qos_class

ERROR_SECONDS = 10.0
MOUNT_SECONDS = 5.0
LEAST_GRACE = 2.0
_log = Log(part="node")


class PodWorker:
    def __init__(self, node: Surroundings, pod: NodePod, instances: dict[str, Instance]) -> None:
        self.node = node
        self.pod = pod
        self.uid = pod.metadata.uid
        self.key = Key(pod.metadata.namespace, pod.metadata.name)
        self.runs = {each.name: _recovered(pod, each, instances) for each in _containers(pod)}
        self.launches: dict[str, Launch] = {}
        self.resize = ResizeState.recovered(pod)
        self.admitted = False
        self.refused = False
        self.address = ""
        self.netns = ""
        self.places: dict[str, str] | None = None
        self.mounted_at = 0.0
        self.evicted: tuple[str, str] | None = None
        self.ended: asyncio.Task[None] | None = None
        self.finished = False
        self._deadline = 0.0
        self._sooner = asyncio.Event()
        self._said: JsonObject = said_before(pod)
        self._exits: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._probing: dict[str, Probing] = {}
        self._problem = ""
        self._started = pod.status.start_time or clock.timestamp()

    # What happened

    def exited(self, instance: Instance) -> None:
        """A container has ended."""
        for run in self.runs.values():
            if run.instance is not None and run.instance.id == instance.id:
                run.instance = instance
                run.ready = run.started = False
                run.message = self._last_words(run)
                if (probing := self._probing.pop(run.name, None)) is not None:
                    probing.stop()
        self._exits.setdefault(instance.id, asyncio.Event()).set()
        self.node.wake(self.key, 0.0)

    def evict(self, reason: str, message: str) -> None:
        """End the pod for a reason of the node's."""
        if self.evicted is None:
            self.evicted = (reason, message)
            self.node.wake(self.key, 0.0)

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A port of the pod: at its own address, or where programs listen that know only localhost. Raises OSError."""
        try:
            return await asyncio.open_connection(self.address, port)
        except OSError:
            if self.netns and self.node.namespaces is not None:
                return await self.node.namespaces.connect(self.uid, "127.0.0.1", port)
            if self.address == "127.0.0.1":
                raise
            return await asyncio.open_connection("127.0.0.1", port)

    # Looking

    async def sync(self, pod: NodePod) -> Requeue | None:
        self.pod = pod
        now = asyncio.get_running_loop().time()
        if pod.metadata.deleting:
            return await self._delete(pod)
        if self.refused or self.finished:
            return None
        if not self.admitted and not await self._admit(pod):
            return None
        overdue = self._overdue()
        if overdue or self.evicted is not None:
            return await self._fail(*(self.evicted or ("DeadlineExceeded", overdue)))
        accepted_before = self.resize
        self.node.judge()
        allocated = self.allocated()
        if self.resize is not accepted_before and self.resize.progress is not None:
            await self.report()
        try:
            await self._sandbox(allocated, now)
        except MountProblem as problem:
            self._event("Warning", "FailedMount", str(problem))
            await self.report()
            return Requeue(after=MOUNT_SECONDS)
        wait = [REFRESH_SECONDS] if pod.spec.volumes else []
        if not await self._actuate(allocated):
            await self.report()
            return Requeue(after=ERROR_SECONDS)
        steps = lifecycle.next_steps(pod.spec, self.runs, now, self._restarting())
        for container in steps.starts:
            await self._start(allocated, container, now)
        if steps.starts and steps.wait is None:
            again = lifecycle.next_steps(pod.spec, self.runs, now, self._restarting())
            steps.wait = again.wait
        if steps.wait is not None:
            wait.append(steps.wait)
        if lifecycle.phase(pod.spec, self.runs, self._restarting()) in ("Succeeded", "Failed"):
            return await self._finish()
        await self.report()
        if pod.spec.active_deadline_seconds is not None:
            wait.append(max(self._age_limit() - clock.seconds(), 0.0))
        return Requeue(after=max(min(wait), 0.01)) if wait else None

    def allocated(self) -> NodePod:
        found = self.node.allocations.as_allocated(self.pod)
        assert isinstance(found, NodePod)
        return found

    async def _admit(self, pod: NodePod) -> bool:
        refusal = self.node.allocations.admit(pod, self.node.others(self.uid), self.node.facts())
        if refusal is not None:
            self.refused = True
            self._event("Warning", refusal.reason, refusal.message)
            await self._write(refused_status(pod, refusal.reason, refusal.message, clock.timestamp()))
            return False
        self.admitted = True
        if self.node.allocations.actuated(self.uid) is None:
            self.node.allocations.record_actuated(self.uid, self._first_actuated())
        return True

    def _first_actuated(self) -> Actuated:
        allocated = self.allocated()
        if self.node.cgroups is not None:
            return actuated_from_cgroups(self.node.cgroups, allocated)
        figures = figures_of(allocated)
        return Actuated(figures.pod, figures.containers)

    def _overdue(self) -> str:
        if self.pod.spec.active_deadline_seconds is None or clock.seconds() < self._age_limit():
            return ""
        return "Pod was active on the node longer than the specified deadline"

    def _age_limit(self) -> float:
        return clock.parse_time(self._started).timestamp() + (self.pod.spec.active_deadline_seconds or 0)

    # Surroundings of the containers

    async def _sandbox(self, allocated: NodePod, now: float) -> None:
        """Address, cgroup, volumes. Raises MountProblem."""
        if not self.address:
            own = self.pod.status.pod_ip
            self.address = self.node.host if self.pod.spec.host_network else self.node.addresses.take(self.uid, own)
        await self._network()
        if self.node.cgroups is not None:
            path = self._cgroup()
            if not path.is_dir():
                self.node.cgroups.create(path, pod_cgroup(allocated, self.node.settings), inner=True)
        if self.places is None or now - self.mounted_at >= REFRESH_SECONDS:
            facts = facts_of(self.node, self.pod, self.address)
            directory = pod_directory(self.node, self.uid) / "volumes"
            self.places = await self.node.volumes.prepare(allocated, directory, facts)
            self.mounted_at = now

    async def _network(self) -> None:
        """A network of its own, if pods have one here. Raises MountProblem, for it is tried again like a mount."""
        if self.node.namespaces is None or self.pod.spec.host_network:
            return
        host, port = self.node.api_server
        relay = (host, int(port)) if host.startswith("127.") else None
        try:
            self.netns = await self.node.namespaces.ensure(self.uid, self.address, relay)
        except OSError as problem:
            raise MountProblem(f"failed to set up the network of the pod: {problem}") from problem

    def refresh_volumes(self) -> None:
        """The pod's labels or annotations have changed: files made of them follow at once."""
        self.mounted_at = 0.0

    def refresh_hosts(self) -> None:
        if self.address and not self.pod.spec.host_network and self.launches:
            write_pod_hosts(self.node, self.pod, self.address)

    def _cgroup(self) -> Path:
        assert self.node.cgroups is not None
        return self.node.cgroups.pod(self.uid, stored_qos_class(self.pod))

    # Resize

    def running(self) -> list[str]:
        return [name for name, run in self.runs.items() if run.running]

    async def _actuate(self, allocated: NodePod) -> bool:
        """Push what was accepted; whether it worked."""
        actuated = self.node.allocations.actuated(self.uid)
        assert actuated is not None
        target = figures_of(allocated)
        if not in_progress(target, actuated, self.running()):
            self._note(*conditions.completed(self.resize, self.pod))
            return True
        self.resize = conditions.progressing(self.resize, self.pod.metadata.generation, clock.timestamp())
        before, began = actuated, asyncio.get_running_loop().time()
        try:
            if self.node.actuator is not None:
                await self.node.actuator.actuate(allocated, self.running(), self._stop_for_resize)
            else:
                await self._pretend(allocated, actuated)
        except ActuationFailed as problem:
            self.node.actuated(asyncio.get_running_loop().time() - began, False)
            self._note(*conditions.failed(self.resize, str(problem), self.pod, clock.timestamp()))
            return False
        self.node.actuated(asyncio.get_running_loop().time() - began, True)
        self._note(*conditions.completed(self.resize, self.pod))
        if _shrunk(before.pod, target.pod):
            self.node.freed("pod_resized")
        return True

    async def _pretend(self, allocated: NodePod, actuated: Actuated) -> None:
        """Without cgroups nothing can be limited, but containers that want a restart get it."""
        target = figures_of(allocated)
        for change in changes(allocated, target, actuated, self.running()):
            if change.restart:
                actuated = msgspec.structs.replace(actuated, restarting=actuated.restarting | {change.container.name})
                self.node.allocations.record_actuated(self.uid, actuated)
                await self._stop_for_resize(change.container.name)
        done = Actuated(target.pod, dict(target.containers), actuated.restarting)
        self.node.allocations.record_actuated(self.uid, done)

    async def _stop_for_resize(self, name: str) -> None:
        container = self._spec(name)
        words = f"Container {name} resize requires restart"
        self._event("Normal", "Killing", words)
        await self._kill(container, self._grace())

    def _restarting(self) -> frozenset[str]:
        actuated = self.node.allocations.actuated(self.uid)
        return actuated.restarting if actuated is not None else frozenset()

    def _note(self, state: ResizeState, notes: list[Note]) -> None:
        self.resize = state
        for note in notes:
            self._event(note.type, note.reason, note.message)

    note = _note

    # Starting

    async def _start(self, allocated: NodePod, container: NodeContainer, now: float) -> None:
        run = self.runs[container.name]
        attempt = run.attempt + 1
        cgroup = ""
        try:
            if self.node.cgroups is not None:
                place = self._cgroup() / container.name
                values = container_cgroup(allocated, container_of(allocated, container.name), self.node.settings)
                self.node.cgroups.create(place, values, inner=False)
                cgroup = str(place)
            places = self.places or {}
            launch = await launch_of(self.node, allocated, container, attempt, self.address, places, cgroup, self.netns)
            self._record_start(container.name, figures_of(allocated).containers[container.name])
            instance = await self.node.runtime.start(launch)
        except (ConfigProblem, MountProblem) as problem:
            return self._cannot_start(run, "CreateContainerConfigError", str(problem), now)
        except NoImage as problem:
            return self._cannot_start(
                run, "ErrImagePull" if run.strikes == 0 else "ImagePullBackOff", str(problem), now
            )
        except InvalidContainer as problem:
            return self._cannot_start(run, "CreateContainerError", str(problem), now)
        except (CannotStart, OSError) as problem:
            return self._cannot_start(run, "RunContainerError", str(problem), now)
        await self._forget_old(run, attempt)
        run.previous, run.instance = run.instance, instance
        run.attempt, run.begun, run.due, run.waiting, run.words = attempt, now, None, "", ""
        run.ready, run.started, run.hooked, run.message = False, False, True, ""
        self.launches[container.name] = launch
        self._exits[instance.id] = asyncio.Event()
        self._event("Normal", "Created", f"Container created: {container.name}")
        self._event("Normal", "Started", f"Container started: {container.name}")
        self._watch_over(container, run)

    def _record_start(self, name: str, figures: Figures) -> None:
        """Before it starts: whoever comes after a crash must not restart it for a resize that it has got already."""
        actuated = self.node.allocations.actuated(self.uid)
        assert actuated is not None
        fresh = actuated.with_container(name, figures)
        self.node.allocations.record_actuated(
            self.uid, msgspec.structs.replace(fresh, restarting=actuated.restarting - {name})
        )

    def _cannot_start(self, run: Run, reason: str, words: str, now: float) -> None:
        run.begun = now
        delay = lifecycle.delay_after(run, now) or ERROR_SECONDS
        if run.waiting != reason or run.words != words:
            self._event("Warning", "Failed", f"Error: {words}")
        run.waiting, run.words, run.due = reason, words, now + delay
        self.node.wake(self.key, delay)

    async def _forget_old(self, run: Run, attempt: int) -> None:
        """Only the last attempt before the present one is kept."""
        if attempt >= 2:
            await self.node.runtime.remove(instance_id(self.uid, run.name, attempt - 2))
            with contextlib.suppress(OSError):
                os.unlink(log_path(self.node, self.uid, run.name, attempt - 2))

    def watch_recovered(self) -> None:
        """Take up hooks and probes of containers that an earlier agent has started."""
        for container in _containers(self.pod):
            run = self.runs[container.name]
            if run.running and run.instance is not None:
                self._exits[run.instance.id] = asyncio.Event()
                self._spawn(self._rebuild_launch(container, run))
                self._watch_over(container, run, recovered=True)

    async def _rebuild_launch(self, container: NodeContainer, run: Run) -> None:
        """What exec and probes need to know of a container that somebody else has started."""
        with contextlib.suppress(ConfigProblem, NoImage, MountProblem, InvalidContainer, OSError):
            self.address = self.address or self.node.addresses.take(self.uid, self.pod.status.pod_ip)
            await self._network()
            directory = pod_directory(self.node, self.uid) / "volumes"
            facts = facts_of(self.node, self.pod, self.address)
            places = await self.node.volumes.prepare(self.pod, directory, facts)
            cgroup = str(self._cgroup() / container.name) if self.node.cgroups is not None else ""
            self.launches[container.name] = await launch_of(
                self.node, self.allocated(), container, run.attempt, self.address, places, cgroup, self.netns
            )

    # Hooks and probes

    def _watch_over(self, container: NodeContainer, run: Run, *, recovered: bool = False) -> None:
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is not None and not recovered:
            run.hooked = False
        probing = Probing(container, run, self.address, self._executor(container), self._unhealthy, self._changed)
        self._probing[container.name] = probing

        async def begin() -> None:
            if hook is not None and not recovered:
                try:
                    await hooks.run(hook, container, self.address, self._executor(container))
                except hooks.HookFailed as problem:
                    self._event("Warning", "FailedPostStartHook", f"PostStartHook failed: {problem}")
                    await self._kill(container, self._grace())
                    return
                run.hooked = True
            await probing.run()

        self._spawn(begin())

    def _executor(self, container: NodeContainer) -> Callable[[tuple[str, ...]], Awaitable[tuple[int, bytes]]]:
        async def execute(command: tuple[str, ...]) -> tuple[int, bytes]:
            run = self.runs[container.name]
            launch = self.launches.get(container.name)
            if run.instance is None or launch is None:
                return 126, b"the container does not run"
            try:
                session = await self.node.runtime.execute(
                    run.instance.id, execution_of(launch, f"{run.instance.id}_x", command, stdin=False, tty=False)
                )
            except CannotStart as problem:
                return 126, str(problem).encode()
            return await output_of(session)

        return execute

    def _changed(self) -> None:
        self.node.wake(self.key, 0.0)

    def _unhealthy(self, container: NodeContainer, kind: str, words: str, fatal: bool, grace: int | None) -> None:
        """A probe has failed; `fatal` when it was one time too many."""
        self._event("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {words}")
        if fatal:
            self._event(
                "Normal", "Killing", f"Container {container.name} failed {kind.lower()} probe, will be restarted"
            )
            self._spawn(self._kill(container, float(grace) if grace is not None else self._grace()))

    # Ending

    def _grace(self) -> float:
        grace = self.pod.spec.termination_grace_period_seconds
        return 30.0 if grace is None else float(grace)

    async def _kill(self, container: NodeContainer, grace: float) -> None:
        """End one container: hook, polite signal, and the other one when its time is over."""
        run = self.runs[container.name]
        instance = run.instance
        if instance is None or not run.running or run.stopping:
            return
        run.stopping = True
        try:
            if (probing := self._probing.pop(container.name, None)) is not None:
                probing.stop()
            deadline = asyncio.get_running_loop().time() + grace
            hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
            if hook is not None and grace > 0:
                try:
                    async with asyncio.timeout(grace):
                        await hooks.run(hook, container, self.address, self._executor(container))
                except (hooks.HookFailed, TimeoutError) as problem:
                    self._event("Warning", "FailedPreStopHook", f"PreStopHook failed: {problem}")
                deadline = max(deadline, asyncio.get_running_loop().time() + LEAST_GRACE)
            if grace > 0:
                await self.node.runtime.signal(instance.id, _stop_signal(container))
                await self._gone(instance.id, deadline)
            if not self._exits.setdefault(instance.id, asyncio.Event()).is_set():
                await self.node.runtime.signal(instance.id, signal.SIGKILL)
                await self._exits[instance.id].wait()
        finally:
            run.stopping = False

    async def _gone(self, id: str, deadline: float) -> None:
        """Wait for an end, until the deadline or the pod's, if that becomes the earlier one."""
        gone = self._exits.setdefault(id, asyncio.Event())
        loop = asyncio.get_running_loop()
        while not gone.is_set():
            limit = min(deadline, self._deadline) if self._deadline else deadline
            if loop.time() >= limit:
                return
            waits = [asyncio.ensure_future(gone.wait()), asyncio.ensure_future(self._sooner.wait())]
            await asyncio.wait(waits, timeout=limit - loop.time(), return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
            self._sooner.clear()

    async def _end_all(self, grace: float) -> None:
        """All containers together, then sidecars in reverse order."""
        start = asyncio.get_running_loop().time()
        sidecars = [each for each in self.pod.spec.init_containers if each.sidecar]
        others = [each for each in _containers(self.pod) if not (each.sidecar and each in sidecars)]
        await asyncio.gather(*(self._kill(each, grace) for each in others))
        for each in reversed(sidecars):
            left = max(grace - (asyncio.get_running_loop().time() - start), min(grace, LEAST_GRACE))
            await self._kill(each, left)

    def _begin_end(self, grace: float) -> None:
        if self.ended is None:
            for container in _containers(self.pod):
                if self.runs[container.name].running:
                    self._event("Normal", "Killing", f"Stopping container {container.name}")
            self.ended = self._spawn(self._end_all(grace))
            self.ended.add_done_callback(lambda _: self.node.wake(self.key, 0.0))

    async def _delete(self, pod: NodePod) -> Requeue | None:
        assert pod.metadata.deletion_timestamp is not None
        left = clock.parse_time(pod.metadata.deletion_timestamp).timestamp() - clock.seconds()
        if pod.metadata.deletion_grace_period_seconds == 0:
            left = 0.0
        limit = asyncio.get_running_loop().time() + max(left, 0.0)
        if self._deadline == 0.0 or limit < self._deadline - 0.5:
            self._deadline = limit
            self._sooner.set()
        self._begin_end(max(left, 0.0))
        assert self.ended is not None
        if not self.ended.done():
            await self.report(stopping=True)
            return None
        if not (self.finished or self.refused or pod.finished):
            await self.report(phase=self._final_phase(), stopping=True)
        await self.clean_up()
        with contextlib.suppress(NotFound, Conflict):
            await self.node.client.delete(PODS, self.key.name, self.key.namespace, grace_seconds=0, uid=self.uid)
        return None

    def _final_phase(self) -> str:
        mains = [self.runs[each.name] for each in self.pod.spec.containers or ()]
        good = all(run.ended and run.exit_code == 0 for run in mains)
        return "Succeeded" if good and mains else "Failed"

    async def _fail(self, reason: str, message: str) -> Requeue | None:
        self._begin_end(0.0 if reason == "Evicted" else self._grace())
        assert self.ended is not None
        if not self.ended.done():
            return None
        self.resize = self.resize.cleared()
        await self.report(phase="Failed", reason=reason, message=message)
        await self._release()
        return None

    async def _finish(self) -> Requeue | None:
        """All that counts has ended: sidecars follow."""
        self._begin_end(self._grace())
        assert self.ended is not None
        if not self.ended.done():
            await self.report(phase="Running")
            return None
        self.resize = self.resize.cleared()
        await self.report()
        await self._release()
        return None

    async def _release(self) -> None:
        """A pod that has ended holds nothing; logs and volumes stay until it is deleted."""
        self.finished = True
        if self.node.cgroups is not None:
            await asyncio.to_thread(self.node.cgroups.remove, self._cgroup())
        self._release_network()
        self.node.freed("pod_terminated")

    def _release_network(self) -> None:
        if self.node.namespaces is not None:
            self.node.namespaces.remove(self.uid)
        self.node.addresses.release(self.uid)

    async def clean_up(self) -> None:
        """Nothing is left of the pod on this machine."""
        for task in list(self._tasks):
            if task is not self.ended:
                task.cancel()
        for run in self.runs.values():
            for attempt in (run.attempt - 1, run.attempt):
                if attempt >= 0:
                    await self.node.runtime.remove(instance_id(self.uid, run.name, attempt))
        if self.node.cgroups is not None:
            await asyncio.to_thread(self.node.cgroups.remove, self._cgroup())
        self._release_network()
        await asyncio.to_thread(shutil.rmtree, pod_directory(self.node, self.uid), True)
        self.finished = True

    async def abandon(self) -> None:
        """The pod has vanished from the API: end it all the same."""
        self._deadline = asyncio.get_running_loop().time()
        self._sooner.set()
        self._begin_end(0.0)
        assert self.ended is not None
        await self.ended
        await self.clean_up()

    # Reporting

    async def report(self, *, phase: str = "", reason: str = "", message: str = "", stopping: bool = False) -> None:
        current = phase or lifecycle.phase(self.pod.spec, self.runs, self._restarting())
        report = Report(
            self.pod,
            self.allocated(),
            self.runs,
            current,
            clock.timestamp(),
            self._started,
            f"{self.node.runtime.name}://",
            self.node.host,
            self.address,
            sandbox=self.places is not None,
            actual=self.actual(),
            resize=self.resize,
            reason=reason,
            message=message,
            stopping=stopping,
        )
        await self._write(pod_status(report, self._said))

    def actual(self) -> Applied | None:
        """What the kernel holds; memory requests, which it does not know, as they were pushed."""
        actuated = self.node.allocations.actuated(self.uid)
        if actuated is None:
            return None
        if self.node.cgroups is None or not self._cgroup().is_dir():
            return actuated
        held = actuated_from_cgroups(self.node.cgroups, self.allocated())
        containers = {
            name: msgspec.structs.replace(figures, memory_request=actuated.containers.get(name, figures).memory_request)
            for name, figures in held.containers.items()
        }
        pod = msgspec.structs.replace(held.pod, memory_request=actuated.pod.memory_request)
        return Applied(pod, containers)

    async def _write(self, status: JsonObject) -> None:
        if status == self._said:
            return
        patch = {"metadata": {"uid": self.uid}, "status": status_patch(self._said, status)}
        with contextlib.suppress(NotFound):
            await self.node.client.patch(
                PODS, self.key.name, self.key.namespace, patch, PatchType.STRATEGIC, "status", type=msgspec.Raw
            )
        self._said = status

    def _last_words(self, run: Run) -> str:
        container = self._spec(run.name)
        if container.termination_message_policy != "FallbackToLogsOnError" or run.exit_code == 0:
            return ""
        with contextlib.suppress(OSError):
            lines = log_path(self.node, self.uid, run.name, run.attempt).read_text(errors="replace").splitlines()[-80:]
            return "\n".join(line.split(" ", 3)[-1] for line in lines)[-2048:]
        return ""

    def _spec(self, name: str) -> NodeContainer:
        return next(each for each in _containers(self.pod) if each.name == name)

    def _event(self, type: str, reason: str, message: str) -> None:
        write = self.node.recorder.warning if type == "Warning" else self.node.recorder.normal
        write(PODS, self.pod, reason, message)

    def _spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.create_task(work, name=f"pod-{self.key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_log_failure)
        return task


def container_of(pod: NodePod, name: str) -> NodeContainer:
    return next(each for each in _containers(pod) if each.name == name)


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("work for a pod failed", task=task.get_name(), problem=repr(problem))


def _containers(pod: NodePod) -> tuple[NodeContainer, ...]:
    return (*pod.spec.init_containers, *(pod.spec.containers or ()))


def _recovered(pod: NodePod, container: NodeContainer, instances: dict[str, Instance]) -> Run:
    """A container as an earlier agent has left it."""
    run = Run(container.name)
    attempts = {}
    for id, instance in instances.items():
        uid, name, attempt = id.split("_")
        if (uid, name) == (pod.metadata.uid, container.name):
            attempts[int(attempt)] = instance
    if not attempts:
        return run
    run.attempt = max(attempts)
    run.instance, run.previous = attempts[run.attempt], attempts.get(run.attempt - 1)
    run.strikes = run.attempt
    run.begun = asyncio.get_running_loop().time()
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if status.name == container.name and run.running:
            run.started, run.ready = bool(status.started), status.ready
    return run


def _stop_signal(container: NodeContainer) -> int:
    name = container.lifecycle.stop_signal if container.lifecycle is not None else ""
    return int(getattr(signal, name, signal.SIGTERM)) if name else signal.SIGTERM


def _shrunk(before: Figures, after: Figures) -> bool:
    return (after.cpu_request or 0) < (before.cpu_request or 0) or (after.memory_request or 0) < (
        before.memory_request or 0
    )
