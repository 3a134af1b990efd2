"""Runs one pod: brings what runs on this machine to what the pod's spec says, and reports it.

`sync` is called whenever something may have changed, and does everything that is possible without waiting for
containers to end. Stopping containers, hooks and probes are tasks of their own, which have the pod synced again when
they are done.

| part                                  | in                                      |
|---------------------------------------|-----------------------------------------|
| address, network, cgroup, volumes     | `pod_sandbox.PodSandbox`                |
| starting containers, hooks, probes    | `container_starter.ContainerStarter`    |
| admission and decisions about resizes | `resize.queue.ResizeQueue`              |
| allocated resources, to the cgroups   | `resize.pod_resize.PodResize`           |
| stopping containers                   | `container_stopper.ContainerStopper`    |
| devices of plugins                    | `devices.interface.Devices`             |
| the pod's status                      | `pod_status_reporter.PodStatusReporter` |
| what all of these know                | `pod_record.PodRecord`                  |
"""

import asyncio
import contextlib

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.resources import PODS
from kohort.kube.tasks import cancel_all
from kohort.node import container_order
from kohort.node.admission_checks import NO_EXACT_GROUPS, needs_exact_groups
from kohort.node.container_starter import ERROR_SECONDS, ContainerStarter
from kohort.node.container_stopper import ContainerStopper
from kohort.node.devices.interface import Devices
from kohort.node.pod_hostname import InvalidContainer
from kohort.node.pod_record import PodRecord, resizable_of
from kohort.node.pod_sandbox import PodSandbox
from kohort.node.pod_status import EVICTED
from kohort.node.pod_status_reporter import PodStatusReporter
from kohort.node.resize.pod_resize import PodResize
from kohort.node.resize.queue import ResizeQueue
from kohort.node.runtimes.interface import CannotStart, ContainerKey, Instance, Runtime
from kohort.node.security_context import forbidden_sysctls
from kohort.node.stop_grace import StopReason
from kohort.node.volumes import REFRESH_SECONDS, MountProblem
from kohort.objects.counted_nouns import how_often
from kohort.objects.node_pods import NodePod
from kohort.rules.pod_admission import Rejection, RejectionReason
from kohort.rules.pod_status import FINISHED_PHASES
from kohort.rules.restart_backoff import RestartBackoff

MOUNT_SECONDS = 5.0


class PodWorker:
    def __init__(
        self,
        record: PodRecord,
        sandbox: PodSandbox,
        starter: ContainerStarter,
        stopper: ContainerStopper,
        resizes: ResizeQueue,
        resize: PodResize,
        reporter: PodStatusReporter,
        runtime: Runtime,
        client: Client,
        devices: Devices,
    ) -> None:
        self.record = record
        self.sandbox = sandbox
        self._starter = starter
        self._stopper = stopper
        self._resizes = resizes
        self._resize = resize
        self._reporter = reporter
        self._runtime = runtime
        self._client = client
        self._devices = devices
        self._giving_devices: asyncio.Task[Rejection | None] | None = None
        self._sandbox_ends: RestartBackoff[str] = RestartBackoff()
        self._sandbox_is_lost = False
        self._reported_sandbox_ends = 0

    def container_exited(self, instance: Instance) -> None:
        self.record.spawn(self._record_exit(instance))

    async def _record_exit(self, instance: Instance) -> None:
        """Its termination message is read first: the status that reports the end contains it."""
        record = self.record
        for run in record.runs.values():
            if run.instance is not None and run.instance.id == instance.id:
                if (probes := record.probes.pop(run.name, None)) is not None:
                    probes.stop()
                run.ended_at = asyncio.get_running_loop().time()
                message = await self._reporter.termination_message(record.container(run.name), instance)
                run.instance, run.termination_message = instance, message
                run.ready = run.started = False
        record.exits.setdefault(instance.id, asyncio.Event()).set()
        record.wake()

    def sandbox_lost(self) -> None:
        """What the containers share has ended: all of them start again, init containers included."""
        record = self.record
        if record.stopping or record.finished:
            return
        record.event("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
        for run in record.runs.values():
            run.outdated = True
        self._sandbox_is_lost = True
        record.spawn(self._stop_lost_sandbox())

    def _restarts_all(self) -> bool:
        """Whether all containers are being stopped because the end of one of them restarts all."""
        record = self.record
        if record.stopping or record.restarting_all:
            return record.restarting_all
        source = container_order.restarts_all(record.pod.spec, record.runs)
        if source is None:
            return False
        message = f"Container {source.name} exited with code {source.exit_code}, all containers will be restarted"
        record.event("Normal", "Killing", message)
        record.restarting_all = True
        record.spawn(self._stop_to_restart_all())
        return True

    async def _stop_to_restart_all(self) -> None:
        record, containers = self.record, resizable_of(self.record.pod)
        try:
            await asyncio.gather(*(self._stopper.stop(each, StopReason.ALL_RESTART) for each in containers))
            for each in resizable_of(record.pod):
                run = record.runs[each.name]
                run.restarts_with_all = run.attempt >= 0
        finally:
            record.restarting_all = False
            record.wake()

    async def _stop_lost_sandbox(self) -> None:
        await self._runtime.stop_pod(self.record.uid)
        self.record.wake()

    def take_over(self) -> None:
        """Take over containers that an earlier agent has started. Raises OSError."""
        self._starter.take_over()

    async def sync(self, pod: NodePod) -> Requeue | None:
        record = self.record
        record.update(pod)
        if pod.metadata.deleting:
            return await self._delete(pod)
        if record.rejected or record.finished:
            return await self._reporter.retry()
        if not record.admitted and not await self._admit(pod):
            return None
        if record.evicted:
            return await self._fail(EVICTED, record.evicted)
        if self._deadline_exceeded():
            return await self._fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        resize_before = record.resize
        self._resizes.decide("pod_updated")
        if record.resize is not resize_before and record.resize.progress is not None:
            await self._reporter.report()
        if self._restarts_all():
            await self._reporter.report()
            return None
        phase = container_order.phase(pod.spec, record.runs, record.restarting())
        if record.stopping or phase in FINISHED_PHASES:
            return await self._finish()
        return await self._run(record.allocated())

    async def _run(self, allocated: NodePod) -> Requeue | None:
        """Bring the sandbox, the resources and the containers to what is allocated."""
        now = asyncio.get_running_loop().time()
        if problem := self._runtime_problem():
            if not self._runtime.problem:
                self.record.event("Warning", "NetworkNotReady", f"network is not ready: {problem}")
            await self._reporter.report()
            return Requeue(after=ERROR_SECONDS)
        if pause := self._pause_before_sandbox(now):
            await self._reporter.report()
            return Requeue(after=pause)
        try:
            await self.sandbox.prepare(allocated, now)
        except MountProblem as problem:
            self.record.event("Warning", "FailedMount", str(problem))
            await self._reporter.report()
            return Requeue(after=MOUNT_SECONDS)
        except (CannotStart, InvalidContainer) as problem:
            self.record.event("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {problem}")
            await self._reporter.report()
            return Requeue(after=ERROR_SECONDS)
        if not await self._resize.actuate(allocated):
            await self._reporter.report()
            return Requeue(after=ERROR_SECONDS)
        wait = await self._start_due_containers(allocated)
        await self._reporter.report()
        waits = [] if wait is None else [wait]
        if self.record.pod.spec.volumes:
            waits.append(REFRESH_SECONDS)
        if self.record.pod.spec.active_deadline_seconds is not None:
            waits.append(max(self._active_deadline() - clock.seconds(), 0.0))
        return Requeue(after=max(min(waits), 0.01)) if waits else None

    def _pause_before_sandbox(self, now: float) -> float:
        """Seconds until a sandbox that has ended by itself may be made again."""
        if not self._sandbox_is_lost:
            return 0.0
        record = self.record
        if pause := self._sandbox_ends.pause(record.uid, now):
            times = self._sandbox_ends.times(record.uid) + 1
            if times != self._reported_sandbox_ends:
                self._reported_sandbox_ends = times
                record.event("Warning", "BackOff", sandbox_backoff_message(times, self._runtime.sandbox_image))
            return pause
        self._sandbox_ends.done(record.uid, now)
        self._sandbox_is_lost = False
        return 0.0

    def _runtime_problem(self) -> str:
        """Why nothing can be started now. What runs is left alone."""
        network = "" if self.record.pod.spec.host_network else self._runtime.network_problem
        return self._runtime.problem or network

    async def _start_due_containers(self, allocated: NodePod) -> float | None:
        """Seconds until another start is due. By the time it is now: a resize may have stopped containers meanwhile."""
        record, now = self.record, asyncio.get_running_loop().time()
        starts = container_order.next_starts(allocated.spec, record.runs, now, record.restarting())
        self._starter.emit_backoff_events(now)
        for container in starts.starts:
            await self._starter.start(allocated, container, now)
        if starts.starts and starts.wait is None:
            return container_order.next_starts(allocated.spec, record.runs, now, record.restarting()).wait
        return starts.wait

    async def _admit(self, pod: NodePod) -> bool:
        record = self.record
        if forbidden := forbidden_sysctls(pod):
            return await self._reject(RejectionReason.SYSCTL, f'forbidden sysctl: "{forbidden[0]}" not allowlisted')
        if needs_exact_groups(pod) and not self._runtime.gives_exact_groups:
            return await self._reject(NO_EXACT_GROUPS.reason, NO_EXACT_GROUPS.message)
        # Devices first: a pod that a device plugin refuses must not leave resources allocated.
        giving = await self._begin_giving_devices(pod)
        if not giving.done():
            return False
        self._giving_devices = None
        rejection = giving.result() or self._resizes.admit(pod)
        if rejection is not None:
            self._give_devices_back()
            return await self._reject(rejection.reason, rejection.message)
        record.admitted = True
        if record.unenforced:
            fields = ", ".join(record.unenforced)
            record.event("Warning", "SecurityContextNotEnforced", f"this node does not enforce: {fields}")
        self._resize.begin()
        return True

    async def _begin_giving_devices(self, pod: NodePod) -> "asyncio.Task[Rejection | None]":
        """A plugin may not answer for long: the pod is reconciled again when it has, and can be deleted before."""
        if self._giving_devices is None:
            self._giving_devices = asyncio.create_task(self._devices.admit(pod), name=f"devices-{self.record.key}")
            await asyncio.sleep(0)  # without a call to a plugin, it is done after this
            if not self._giving_devices.done():
                self._giving_devices.add_done_callback(lambda _: self.record.wake())
        return self._giving_devices

    async def _reject(self, reason: str, message: str) -> bool:
        self.record.rejected = True
        await self._reporter.reject(reason, message)
        return False

    def _deadline_exceeded(self) -> bool:
        return self.record.pod.spec.active_deadline_seconds is not None and clock.seconds() >= self._active_deadline()

    def _active_deadline(self) -> float:
        started = clock.parse_time(self.record.started_at).timestamp()
        return started + (self.record.pod.spec.active_deadline_seconds or 0)

    # The end of a pod

    async def _delete(self, pod: NodePod) -> Requeue | None:
        await self._stop_giving_devices()
        record = self.record
        self._stopper.begin(StopReason.DELETED)
        if not self._stopper.stopped:
            await self._reporter.report(stopping=True)
            return None
        self._give_devices_back()
        if not (record.finished or record.rejected or pod.finished):
            await self._reporter.report(phase=self._final_phase(), stopping=True)
        await self.clean_up()
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(PODS, record.key.name, record.key.namespace, grace_seconds=0, uid=record.uid)
        return None

    def _final_phase(self) -> str:
        mains = [self.record.runs[each.name] for each in self.record.pod.spec.containers or ()]
        succeeded = all(run.ended and run.exit_code == 0 for run in mains)
        return "Succeeded" if succeeded and mains else "Failed"

    async def _fail(self, reason: str, message: str) -> Requeue | None:
        record = self.record
        if not record.stopping:
            record.event("Warning" if reason == EVICTED else "Normal", reason, message)
        self._stopper.begin(StopReason.EVICTED if reason == EVICTED else StopReason.POD_ENDS)
        if not self._stopper.stopped:
            return None
        self._give_devices_back()
        record.resize = record.resize.cleared()
        await self._reporter.report(phase="Failed", reason=reason, message=message)
        await self._release()
        if reason == EVICTED:
            await self._remove_containers()
        return None

    async def _finish(self) -> Requeue | None:
        """All main containers have ended: stop the sidecars."""
        self._stopper.begin(StopReason.POD_ENDS)
        if not self._stopper.stopped:
            await self._reporter.report(phase="Running")
            return None
        self._give_devices_back()
        self.record.resize = self.record.resize.cleared()
        await self._reporter.report()
        await self._release()
        return None

    async def _stop_giving_devices(self) -> None:
        giving, self._giving_devices = self._giving_devices, None
        if giving is not None:
            await cancel_all(giving)

    def _give_devices_back(self) -> None:
        """Before the API says that the pod has ended: the scheduler may bind another one that needs them at once."""
        self._devices.release(self.record.uid)

    async def _release(self) -> None:
        self.record.finished = True
        await self.sandbox.release()
        self._resizes.decide("pod_terminated")

    async def clean_up(self) -> None:
        """Remove everything of the pod from this machine."""
        self.record.cancel_tasks(except_for=self._stopper.task)
        await self._remove_containers()
        await self.sandbox.remove()
        self._give_devices_back()
        self.record.finished = True

    async def _remove_containers(self) -> None:
        """With what they have written to their root file systems: an eviction has to free that, too."""
        for run in self.record.runs.values():
            for attempt in (run.attempt - 1, run.attempt):
                if attempt >= 0:
                    await self._runtime.remove(str(ContainerKey(self.record.uid, run.name, attempt)))

    async def abandon(self) -> None:
        """The pod has vanished from the API: stop and remove it at once."""
        await self._stop_giving_devices()
        self._stopper.begin(StopReason.VANISHED)
        assert self._stopper.task is not None
        await self._stopper.task
        await self.clean_up()


def sandbox_backoff_message(times: int, image: str) -> str:
    message = f"Back-off restarting the sandbox of the pod, which has ended {how_often(times)} by itself"
    if not image:
        return message
    return f"{message}; see the sandbox image {image} in the configuration of the container runtime: it must not exit"
