"""Stops containers: the preStop hook, the stop signal, and SIGKILL at the end of the grace period."""

import asyncio

from kohort.node import lifecycle_hooks
from kohort.node.container_exec import executor
from kohort.node.pod_record import PodRecord, containers_of
from kohort.node.runtimes.interface import Runtime
from kohort.node.stop_grace import ProbeFailed, StopReason, limits_pod, stop_grace
from kohort.node.stop_signal import signal_number, stop_signal_name
from kohort.objects.node_pods import NodeContainer

LEAST_GRACE = 2.0
"""What is left after a hook that took the whole grace period."""
SAME_DEADLINE = 0.5
"""Deadlines that are closer together count as the same."""
LEAST_WAIT = 0.001
"""Shorter waits come from rounding."""


class ContainerStopper:
    def __init__(self, record: PodRecord, runtime: Runtime) -> None:
        self._record = record
        self._runtime = runtime
        self.task: asyncio.Task[None] | None = None
        """Stops the whole pod, once that has begun."""
        self._deadline = 0.0
        self._sooner = asyncio.Event()

    @property
    def stopped(self) -> bool:
        """All containers of the pod have been stopped."""
        return self.task is not None and self.task.done()

    def begin(self, reason: StopReason) -> None:
        """Stop the pod; it is reconciled again when that is done."""
        grace = stop_grace(self._record.pod, reason)
        if limits_pod(reason):
            self._limit(grace)
        if self.task is None:
            self._record.stopping = True
            for container in containers_of(self._record.pod):
                if self._record.runs[container.name].running:
                    self._record.event("Normal", "Killing", f"Stopping container {container.name}")
            self.task = self._record.spawn(self._stop_all(grace))
            self.task.add_done_callback(lambda _: self._record.wake())

    def _limit(self, seconds: float) -> None:
        """All containers must have ended in so many seconds. A later deadline than the present one changes nothing."""
        deadline = asyncio.get_running_loop().time() + seconds
        if self._deadline == 0.0 or deadline < self._deadline - SAME_DEADLINE:
            self._deadline = deadline
            self._sooner.set()

    async def stop(self, container: NodeContainer, reason: StopReason | ProbeFailed) -> None:
        """Stop one container."""
        await self._stop(container, stop_grace(self._record.pod, reason))

    async def _stop(self, container: NodeContainer, grace: float) -> None:
        record, run = self._record, self._record.runs[container.name]
        instance = run.instance
        if instance is None or not run.running or run.stopping:
            return
        run.stopping = True
        try:
            if (probes := record.probes.pop(container.name, None)) is not None:
                probes.stop()
            loop = asyncio.get_running_loop()
            deadline, least = loop.time() + grace, 0.0
            if await self._run_pre_stop(container, deadline):
                least = loop.time() + LEAST_GRACE
            number = signal_number(stop_signal_name(container, instance.stop_signal))
            await self._stop_instance(instance.id, number, max(deadline, least), least)
            await record.exits.setdefault(instance.id, asyncio.Event()).wait()
        finally:
            run.stopping = False

    async def _stop_instance(self, id: str, number: int, deadline: float, least: float) -> None:
        """Have the runtime stop an instance until the deadline, or until the pod's if that becomes the earlier one."""
        loop = asyncio.get_running_loop()
        until = self._sooner_of(deadline, least)
        stopping = asyncio.ensure_future(self._runtime.stop(id, max(until - loop.time(), 0.0), number))
        try:
            while not stopping.done():
                sooner = asyncio.ensure_future(self._sooner.wait())
                limit = self._sooner_of(deadline, least)
                left = limit - loop.time() if limit < until else None
                if left is not None and left < LEAST_WAIT:
                    sooner.cancel()
                    await self._runtime.stop(id, 0.0)
                    break
                await asyncio.wait((stopping, sooner), timeout=left, return_when=asyncio.FIRST_COMPLETED)
                sooner.cancel()
                self._sooner.clear()
            await stopping
        finally:
            stopping.cancel()

    def _sooner_of(self, deadline: float, least: float) -> float:
        """The deadline, or the pod's if that is earlier, but not before `least`."""
        return min(deadline, max(self._deadline, least)) if self._deadline else deadline

    async def _run_pre_stop(self, container: NodeContainer, deadline: float) -> bool:
        """Run the hook, if there is one and time for it; whether the container gets a minimum of time after it."""
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is None or deadline <= asyncio.get_running_loop().time():
            return False
        record = self._record
        running = asyncio.ensure_future(
            lifecycle_hooks.run(hook, container, record.address, executor(record, self._runtime, container.name))
        )
        try:
            if not await self._wait(running, deadline):
                message = "PreStopHook failed: it did not end within the grace period"
                record.event("Warning", "FailedPreStopHook", message)
            else:
                running.result()
        except lifecycle_hooks.HookFailed as problem:
            record.event("Warning", "FailedPreStopHook", f"PreStopHook failed: {problem}")
        return not self._must_end_before(deadline)

    def _must_end_before(self, deadline: float) -> bool:
        return self._deadline != 0.0 and self._deadline < deadline - SAME_DEADLINE

    async def _wait(self, work: "asyncio.Future[None]", deadline: float) -> bool:
        """Whether `work` was done before the deadline, or before the pod's if that becomes the earlier one. Unfinished
        work is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while not work.done():
                left = self._sooner_of(deadline, 0.0) - loop.time()
                if left < LEAST_WAIT:
                    return False
                sooner = asyncio.ensure_future(self._sooner.wait())
                await asyncio.wait((work, sooner), timeout=left, return_when=asyncio.FIRST_COMPLETED)
                sooner.cancel()
                self._sooner.clear()
            return True
        finally:
            work.cancel()

    async def _stop_all(self, grace: float) -> None:
        """All containers together, then sidecars in reverse order."""
        start = asyncio.get_running_loop().time()
        pod = self._record.pod
        sidecars = [each for each in pod.spec.init_containers if each.sidecar]
        names = {each.name for each in sidecars}
        await asyncio.gather(*(self._stop(each, grace) for each in containers_of(pod) if each.name not in names))
        for each in reversed(sidecars):
            left = max(grace - (asyncio.get_running_loop().time() - start), min(grace, LEAST_GRACE))
            await self._stop(each, left)
