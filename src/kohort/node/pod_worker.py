"""Runs one pod: brings what is on this machine to what its spec says, and reports what is.

`sync` is called whenever something may have changed and does whatever is possible without waiting for containers to
end; ending them, hooks and probes are tasks of their own that call for another look when they are through.

| what                                        | who                              |
|---------------------------------------------|----------------------------------|
| address, network, cgroup, volumes           | `sandbox.Sandbox`                |
| starting, hooks, probes                     | `containerstarts.ContainerStarts`|
| figures that were accepted, to the cgroups  | `pushing.Pushing`                |
| ending                                      | `ending.Ending`                  |
| the pod's status                            | `reporting.Reporting`            |
| what all of them know                       | `heldpod.HeldPod`                |
"""

import asyncio
import contextlib

from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.resources import PODS
from kohort.node import container_order
from kohort.node.container_spec import instance_id
from kohort.node.container_starter import ERROR_SECONDS, ContainerStarts
from kohort.node.container_stop import Ending
from kohort.node.node_context import Surroundings
from kohort.node.pod_record import HeldPod
from kohort.node.pod_sandbox import Sandbox
from kohort.node.pod_status import EVICTED
from kohort.node.resize.apply import Pushing
from kohort.node.runtimes.interface import Instance
from kohort.node.security_context import forbidden_sysctls
from kohort.node.status_reporter import Reporting
from kohort.node.volumes import REFRESH_SECONDS, MountProblem
from kohort.objects.node_pods import NodePod

MOUNT_SECONDS = 5.0
EVICTION_GRACE = 1.0
"""For pods that the node must get rid of: long enough for a hook that is quick."""


class PodWorker(HeldPod):
    def __init__(self, node: Surroundings, pod: NodePod, instances: dict[str, Instance]) -> None:
        super().__init__(node, pod, instances)
        self.admitted = False
        self.refused = False
        self.finished = False
        self.evicted = ""
        """Why the node ends it."""
        self._ending = Ending(self)
        self._sandbox = Sandbox(self)
        self._starts = ContainerStarts(self, self._sandbox, self._ending)
        self._pushing = Pushing(self, self._ending)
        self._reporting = Reporting(self)

    @property
    def ending(self) -> bool:
        """The whole pod is being ended."""
        return self._ending.task is not None

    # What happened

    def exited(self, instance: Instance) -> None:
        """A container has ended."""
        self.spawn(self._record_end(instance))

    async def _record_end(self, instance: Instance) -> None:
        """Its message is read first: the status that reports the end carries it."""
        for run in self.runs.values():
            if run.instance is not None and run.instance.id == instance.id:
                if (probing := self.probing.pop(run.name, None)) is not None:
                    probing.stop()
                message = await self._reporting.termination_message(self.container(run.name), instance)
                run.instance, run.message = instance, message
                run.ready = run.started = False
        self.exits.setdefault(instance.id, asyncio.Event()).set()
        self.wake()

    def evict(self, message: str) -> None:
        """End the pod for a reason of the node's."""
        if not self.evicted:
            self.evicted = message
            self.wake()

    def take_over(self) -> None:
        """Look after containers that an earlier agent has started."""
        self._starts.take_over()

    def refresh_volumes(self) -> None:
        self._sandbox.refresh_volumes()

    def refresh_names(self) -> None:
        self._sandbox.refresh_names()

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
        self.seen(pod)
        if pod.metadata.deleting:
            return await self._delete(pod)
        if self.refused or self.finished:
            return await self._reporting.catch_up()
        if not self.admitted and not await self._admit(pod):
            return None
        overdue = self._overdue()
        if self.evicted:
            return await self._fail(EVICTED, self.evicted)
        if overdue:
            return await self._fail("DeadlineExceeded", overdue)
        resize_before = self.resize
        self.node.judge()
        if self.resize is not resize_before and self.resize.progress is not None:
            await self._reporting.report()
        if self.ending or container_order.phase(pod.spec, self.runs, self.restarting()) in ("Succeeded", "Failed"):
            return await self._finish()
        return await self._bring_about(self.allocated())

    async def _bring_about(self, allocated: NodePod) -> Requeue | None:
        """Everything that can be done now for what is allocated."""
        now = asyncio.get_running_loop().time()
        try:
            await self._sandbox.prepare(allocated, now)
        except MountProblem as problem:
            self.event("Warning", "FailedMount", str(problem))
            await self._reporting.report()
            return Requeue(after=MOUNT_SECONDS)
        if not await self._pushing.push(allocated):
            await self._reporting.report()
            return Requeue(after=ERROR_SECONDS)
        wait = await self._start_what_is_due(allocated, now)
        await self._reporting.report()
        waits = [] if wait is None else [wait]
        if self.pod.spec.volumes:
            waits.append(REFRESH_SECONDS)
        if self.pod.spec.active_deadline_seconds is not None:
            waits.append(max(self._age_limit() - clock.seconds(), 0.0))
        return Requeue(after=max(min(waits), 0.01)) if waits else None

    async def _start_what_is_due(self, allocated: NodePod, now: float) -> float | None:
        """Seconds until something more is due."""
        steps = container_order.next_steps(self.pod.spec, self.runs, now, self.restarting())
        self._starts.lament(now)
        for container in steps.starts:
            await self._starts.start(allocated, container, now)
        if steps.starts and steps.wait is None:
            return container_order.next_steps(self.pod.spec, self.runs, now, self.restarting()).wait
        return steps.wait

    async def _admit(self, pod: NodePod) -> bool:
        if forbidden := forbidden_sysctls(pod):
            return await self._refuse("SysctlForbidden", f'forbidden sysctl: "{forbidden[0]}" not allowlisted')
        refusal = self.node.allocations.admit(pod, self.node.others(self.uid), self.node.facts())
        if refusal is not None:
            return await self._refuse(refusal.reason, refusal.message)
        self.admitted = True
        if self.unenforced:
            fields = ", ".join(self.unenforced)
            self.event("Warning", "SecurityContextNotEnforced", f"this node does not enforce: {fields}")
        self.node.admitted(pod)
        self._pushing.begin()
        return True

    async def _refuse(self, reason: str, message: str) -> bool:
        self.refused = True
        await self._reporting.refuse(reason, message)
        return False

    def _overdue(self) -> str:
        if self.pod.spec.active_deadline_seconds is None or clock.seconds() < self._age_limit():
            return ""
        return "Pod was active on the node longer than the specified deadline"

    def _age_limit(self) -> float:
        return clock.parse_time(self.started_at).timestamp() + (self.pod.spec.active_deadline_seconds or 0)

    # Ending

    async def _delete(self, pod: NodePod) -> Requeue | None:
        seconds = pod.metadata.deletion_grace_period_seconds
        grace = self.grace if seconds is None else float(seconds)  # the timestamp knows whole seconds only
        self._ending.hurry(grace)
        self._ending.begin(grace)
        if not self._ending.over:
            await self._reporting.report(stopping=True)
            return None
        if not (self.finished or self.refused or pod.finished):
            await self._reporting.report(phase=self._final_phase(), stopping=True)
        await self.clean_up()
        with contextlib.suppress(NotFound, Conflict):
            await self.node.client.delete(PODS, self.key.name, self.key.namespace, grace_seconds=0, uid=self.uid)
        return None

    def _final_phase(self) -> str:
        mains = [self.runs[each.name] for each in self.pod.spec.containers or ()]
        good = all(run.ended and run.exit_code == 0 for run in mains)
        return "Succeeded" if good and mains else "Failed"

    async def _fail(self, reason: str, message: str) -> Requeue | None:
        if not self.ending:
            self.event("Warning" if reason == EVICTED else "Normal", reason, message)
        self._ending.begin(EVICTION_GRACE if reason == EVICTED else self.grace)
        if not self._ending.over:
            return None
        self.resize = self.resize.cleared()
        await self._reporting.report(phase="Failed", reason=reason, message=message)
        await self._release()
        return None

    async def _finish(self) -> Requeue | None:
        """All that counts has ended: sidecars follow."""
        self._ending.begin(self.grace)
        if not self._ending.over:
            await self._reporting.report(phase="Running")
            return None
        self.resize = self.resize.cleared()
        await self._reporting.report()
        await self._release()
        return None

    async def _release(self) -> None:
        self.finished = True
        await self._sandbox.release()
        self.node.freed("pod_terminated")

    async def clean_up(self) -> None:
        """Nothing is left of the pod on this machine."""
        self.cancel_tasks(except_for=self._ending.task)
        for run in self.runs.values():
            for attempt in (run.attempt - 1, run.attempt):
                if attempt >= 0:
                    await self.node.runtime.remove(instance_id(self.uid, run.name, attempt))
        await self._sandbox.remove()
        self.finished = True

    async def abandon(self) -> None:
        """The pod has vanished from the API: end it all the same."""
        self._ending.hurry(0.0)
        self._ending.begin(0.0)
        assert self._ending.task is not None
        await self._ending.task
        await self.clean_up()
