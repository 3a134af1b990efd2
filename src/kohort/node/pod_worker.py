"""Runs one pod: brings what runs on this machine to what the pod's spec says, and reports it.

`sync` is called whenever something may have changed, and does everything that is possible without waiting for
containers to end. Stopping containers, hooks and probes are tasks of their own, which have the pod synced again when
they are done.

| part                                  | in                                      |
|---------------------------------------|-----------------------------------------|
| address, network, cgroup, volumes     | `pod_sandbox.PodSandbox`                |
| starting containers, hooks, probes    | `container_starter.ContainerStarter`    |
| admission, with devices of plugins    | `pod_admission.PodAdmission`            |
| decisions about resizes               | `resize.resize_and_admission`           |
| allocated resources, to the cgroups   | `resize.pod_resize.PodResize`           |
| stopping containers                   | `container_stopper.ContainerStopper`    |
| the pod's status                      | `pod_status_reporter.PodStatusReporter` |
| what all of these know                | `pod_record.PodRecord`                  |
"""

import asyncio

from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.node import container_order
from kohort.node.container_starter import ERROR_SECONDS, ContainerStarter
from kohort.node.container_stopper import ContainerStopper
from kohort.node.pod_admission import Admission, PodAdmission
from kohort.node.pod_hostname import InvalidContainer
from kohort.node.pod_record import PodRecord, resizable_of
from kohort.node.pod_sandbox import PodSandbox
from kohort.node.pod_status import EVICTED
from kohort.node.pod_status_reporter import PodStatusReporter
from kohort.node.resize.pod_resize import PodResize
from kohort.node.resize.resize_and_admission import ResizeQueue
from kohort.node.runtimes.interface import CannotStart, Instance, parse_container_key
from kohort.node.stop_grace import StopReason
from kohort.node.volumes import REFRESH_SECONDS, MountProblem
from kohort.objects.node_pods import NodePod
from kohort.objects.pods import FINISHED_PHASES
from kohort.rules.pod_admission import Rejection

MOUNT_SECONDS = 5.0


class PodWorker:
    def __init__(
        self,
        record: PodRecord,
        sandbox: PodSandbox,
        starter: ContainerStarter,
        stopper: ContainerStopper,
        admission: PodAdmission,
        resizes: ResizeQueue,
        resize: PodResize,
        reporter: PodStatusReporter,
    ) -> None:
        self.record = record
        self.sandbox = sandbox
        self._starter = starter
        self._stopper = stopper
        self._admission = admission
        self._resizes = resizes
        self._resize = resize
        self._reporter = reporter
        self._early_ends: dict[str, Instance] = {}
        """By container: an end that was reported before its start was recorded."""

    def container_exited(self, instance: Instance) -> None:
        self.record.spawn(self._record_exit(instance))

    async def _record_exit(self, instance: Instance) -> None:
        """Its termination message is read first: the status that reports the end contains it."""
        record = self.record
        runs = (each for each in record.runs.values() if each.instance is not None and each.instance.id == instance.id)
        if (run := next(runs, None)) is None:
            self._early_ends[parse_container_key(instance.id).container] = instance
            return
        if run.running:
            if (probes := record.probes.pop(run.name, None)) is not None:
                probes.stop()
            run.ended_at = asyncio.get_running_loop().time()
            message = await self._reporter.termination_message(record.container(run.name), instance)
            run.instance, run.termination_message = instance, message
            run.ready = run.started = False
        record.exits.setdefault(instance.id, asyncio.Event()).set()
        record.wake()

    async def _record_early_end(self, name: str) -> None:
        """A container may end before its start is recorded here."""
        end, instance = self._early_ends.get(name), self.record.runs[name].instance
        if end is not None and instance is not None and end.id == instance.id:
            del self._early_ends[name]
            await self._record_exit(end)

    def sandbox_lost(self) -> None:
        """What the containers share has ended: all of them start again, init containers included."""
        record = self.record
        if record.stopping or record.finished:
            return
        record.event("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
        for run in record.runs.values():
            run.outdated = True
        self.sandbox.begin_replacement()

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

    def take_over(self) -> None:
        """Take over containers that an earlier agent has started. Raises OSError."""
        self._starter.take_over()

    async def recall_termination_messages(self) -> None:
        """Of containers that have ended under an earlier agent."""
        for run in self.record.runs.values():
            container = self.record.container(run.name)
            if run.previous is not None:
                run.previous_message = await self._reporter.termination_message(container, run.previous)
            if run.instance is not None and run.ended:
                run.termination_message = await self._reporter.termination_message(container, run.instance)

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
        if self.sandbox.runtime_is_unready():
            await self._reporter.report()
            return Requeue(after=ERROR_SECONDS)
        if pause := self.sandbox.pause_after_loss(now):
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

    async def _start_due_containers(self, allocated: NodePod) -> float | None:
        """Seconds until another start is due. By the time it is now: a resize may have stopped containers meanwhile."""
        record, now = self.record, asyncio.get_running_loop().time()
        starts = container_order.next_starts(allocated.spec, record.runs, now, record.restarting())
        self._starter.emit_backoff_events(now)
        for container in starts.starts:
            await self._starter.start(allocated, container, now)
            await self._record_early_end(container.name)
        if starts.starts and starts.wait is None:
            return container_order.next_starts(allocated.spec, record.runs, now, record.restarting()).wait
        return starts.wait

    async def _admit(self, pod: NodePod) -> bool:
        record = self.record
        decision = await self._admission.decide(pod)
        if isinstance(decision, Rejection):
            record.rejected = True
            await self._reporter.reject(decision.reason, decision.message)
            return False
        if decision is Admission.WAITS_FOR_DEVICES:
            return False
        record.admitted = True
        if record.unenforced:
            fields = ", ".join(record.unenforced)
            record.event("Warning", "SecurityContextNotEnforced", f"this node does not enforce: {fields}")
        self._resize.begin()
        return True

    def _deadline_exceeded(self) -> bool:
        return self.record.pod.spec.active_deadline_seconds is not None and clock.seconds() >= self._active_deadline()

    def _active_deadline(self) -> float:
        started = clock.parse_time(self.record.started_at).timestamp()
        return started + (self.record.pod.spec.active_deadline_seconds or 0)

    # The end of a pod

    async def _delete(self, pod: NodePod) -> Requeue | None:
        await self._admission.cancel()
        record = self.record
        self._stopper.begin(StopReason.DELETED)
        if not self._stopper.stopped:
            await self._reporter.report(stopping=True)
            return None
        self._admission.release_devices()
        if not (record.finished or record.rejected or pod.finished):
            await self._reporter.report(phase=self._final_phase(), stopping=True)
        await self.clean_up()
        await self._reporter.confirm_deletion()
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
        self._admission.release_devices()
        record.resize = record.resize.cleared()
        await self._reporter.report(phase="Failed", reason=reason, message=message)
        await self._release()
        if reason == EVICTED:
            await self._starter.remove_all()
        return None

    async def _finish(self) -> Requeue | None:
        """All main containers have ended: stop the sidecars."""
        self._stopper.begin(StopReason.POD_ENDS)
        if not self._stopper.stopped:
            await self._reporter.report(phase="Running")
            return None
        self._admission.release_devices()
        self.record.resize = self.record.resize.cleared()
        await self._reporter.report()
        await self._release()
        return None

    async def _release(self) -> None:
        self.record.finished = True
        await self.sandbox.release()
        self._resizes.decide("pod_terminated")

    async def clean_up(self) -> None:
        """Remove everything of the pod from this machine."""
        self.record.cancel_tasks(except_for=self._stopper.task)
        await self._starter.remove_all()
        await self.sandbox.remove()
        self._admission.release_devices()
        self.record.finished = True

    async def abandon(self) -> None:
        """The pod has vanished from the API: stop and remove it at once."""
        await self._admission.cancel()
        self._stopper.begin(StopReason.VANISHED)
        assert self._stopper.task is not None
        await self._stopper.task
        await self.clean_up()
