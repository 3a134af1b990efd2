"""How containers are ended: a hook, a polite signal, and the other one when their time is over."""

import asyncio
import signal

from kohort.node import lifecycle_hooks
from kohort.node.pod_record import HeldPod, containers_of
from kohort.objects.node_pods import NodeContainer

LEAST_GRACE = 2.0
"""What is left after a hook that took all the time there was."""
ROUNDING = 0.5
"""Two deadlines that are closer are one."""
LEAST_WAIT = 0.001
"""Less is a matter of rounding."""


class Ending:
    def __init__(self, held: HeldPod) -> None:
        self._held = held
        self.task: asyncio.Task[None] | None = None
        """Ends the whole pod, once that has begun."""
        self._deadline = 0.0
        self._sooner = asyncio.Event()

    @property
    def over(self) -> bool:
        return self.task is not None and self.task.done()

    def begin(self, grace: float) -> None:
        """End the pod; it is looked at again when that is done."""
        if self.task is None:
            for container in containers_of(self._held.pod):
                if self._held.runs[container.name].running:
                    self._held.event("Normal", "Killing", f"Stopping container {container.name}")
            self.task = self._held.spawn(self._end_all(grace))
            self.task.add_done_callback(lambda _: self._held.wake())

    def hurry(self, seconds: float) -> None:
        """All of it must be over in so many seconds; a longer time than was said before is not heard."""
        limit = asyncio.get_running_loop().time() + seconds
        if self._deadline == 0.0 or limit < self._deadline - ROUNDING:
            self._deadline = limit
            self._sooner.set()

    async def kill(self, container: NodeContainer, grace: float) -> None:
        """End one container."""
        held, run = self._held, self._held.runs[container.name]
        instance = run.instance
        if instance is None or not run.running or run.stopping:
            return
        run.stopping = True
        try:
            if (probing := held.probing.pop(container.name, None)) is not None:
                probing.stop()
            loop = asyncio.get_running_loop()
            deadline, least = loop.time() + grace, 0.0
            if await self._before_the_end(container, deadline):
                least = loop.time() + LEAST_GRACE
            if grace > 0:
                await held.node.runtime.signal(instance.id, stop_signal(container))
                gone = held.exits.setdefault(instance.id, asyncio.Event())
                await self._wait(asyncio.ensure_future(gone.wait()), max(deadline, least), least)
            if not held.exits.setdefault(instance.id, asyncio.Event()).is_set():
                await held.node.runtime.signal(instance.id, signal.SIGKILL)
                await held.exits[instance.id].wait()
        finally:
            run.stopping = False

    async def _before_the_end(self, container: NodeContainer, deadline: float) -> bool:
        """Run the hook, if there is one and time for it; whether the container may have a little more time for it."""
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is None or deadline <= asyncio.get_running_loop().time():
            return False
        held = self._held
        running = asyncio.ensure_future(
            lifecycle_hooks.run(hook, container, held.address, held.executor(container.name))
        )
        try:
            if not await self._wait(running, deadline):
                held.event("Warning", "FailedPreStopHook", "PreStopHook failed: it took longer than there is time")
            else:
                running.result()
        except lifecycle_hooks.HookFailed as problem:
            held.event("Warning", "FailedPreStopHook", f"PreStopHook failed: {problem}")
        return not self._hurried(deadline)

    def _hurried(self, deadline: float) -> bool:
        """Whether the pod must end sooner than that."""
        return self._deadline != 0.0 and self._deadline < deadline - ROUNDING

    async def _wait(
        self, work: "asyncio.Future[None] | asyncio.Task[bool]", deadline: float, least: float = 0.0
    ) -> bool:
        """Whether something was done before the deadline, or the pod's if that becomes the earlier one, but not before
        `least`. What was not is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while not work.done():
                left = (min(deadline, max(self._deadline, least)) if self._deadline else deadline) - loop.time()
                if left < LEAST_WAIT:
                    return False
                sooner = asyncio.ensure_future(self._sooner.wait())
                await asyncio.wait((work, sooner), timeout=left, return_when=asyncio.FIRST_COMPLETED)
                sooner.cancel()
                self._sooner.clear()
            return True
        finally:
            work.cancel()

    async def _end_all(self, grace: float) -> None:
        """All containers together, then sidecars in reverse order."""
        start = asyncio.get_running_loop().time()
        pod = self._held.pod
        sidecars = [each for each in pod.spec.init_containers if each.sidecar]
        names = {each.name for each in sidecars}
        await asyncio.gather(*(self.kill(each, grace) for each in containers_of(pod) if each.name not in names))
        for each in reversed(sidecars):
            left = max(grace - (asyncio.get_running_loop().time() - start), min(grace, LEAST_GRACE))
            await self.kill(each, left)


def stop_signal(container: NodeContainer) -> int:
    name = container.lifecycle.stop_signal if container.lifecycle is not None else ""
    return int(getattr(signal, name, signal.SIGTERM)) if name else signal.SIGTERM
