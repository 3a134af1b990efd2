"""Brings what was accepted to the cgroups of one pod, and keeps its conditions true meanwhile."""

import asyncio

import msgspec

from kohort.kube import clock
from kohort.node.container_stop import Ending
from kohort.node.pod_record import HeldPod
from kohort.node.resize.actuation import ActuationFailed, actuated_from_cgroups
from kohort.node.resize.plan import changes, in_progress
from kohort.node.views import Actuated, Figures, figures_of
from kohort.objects.node_pods import NodePod
from kohort.objects.pods import Pod
from kohort.resources import CPU, MEMORY
from kohort.rules import resize_conditions as conditions
from kohort.rules.resize_decision import Infeasible, NotSupported


class Pushing:
    def __init__(self, held: HeldPod, ending: Ending) -> None:
        self._held = held
        self._ending = ending

    def begin(self) -> None:
        """What was pushed for a pod that was just taken in: as the record says, else as the kernel does."""
        held = self._held
        if held.node.allocations.actuated(held.uid) is not None:
            return
        allocated = held.allocated()
        figures = figures_of(allocated)
        first = Actuated(figures.pod, figures.containers)
        if held.node.cgroups is not None:
            first = actuated_from_cgroups(held.node.cgroups, allocated)
        held.node.allocations.record_actuated(held.uid, first)

    async def push(self, allocated: NodePod) -> bool:
        """Push what was accepted; whether it worked. Where pods cannot be resized any more, one whose resize was cut
        short stays as it is."""
        held, clock_of_loop = self._held, asyncio.get_running_loop().time
        before = held.node.allocations.actuated(held.uid)
        assert before is not None
        target = figures_of(allocated)
        if not in_progress(target, before, held.running()):
            held.note(*conditions.completed(held.resize, held.pod))
            return True
        if not held.node.facts().gates.pod_level_resize and level_differs(allocated, before.pod, target.pod):
            idle = conditions.ResizeState(held.resize.pending)
            held.note(
                *conditions.refused(idle, Infeasible(NotSupported.POD_LEVEL_GATE_OFF), held.pod, clock.timestamp())
            )
            return True
        held.resize = conditions.progressing(held.resize, held.pod.metadata.generation, clock.timestamp())
        began = clock_of_loop()
        try:
            if held.node.actuator is not None:
                await held.node.actuator.actuate(allocated, held.running(), self._stop)
            else:
                await self._pretend(allocated, before)
        except ActuationFailed as problem:
            held.node.actuated(clock_of_loop() - began, False)
            held.note(*conditions.failed(held.resize, str(problem), held.pod, clock.timestamp()))
            return False
        held.node.actuated(clock_of_loop() - began, True)
        held.note(*conditions.completed(held.resize, held.pod))
        if _shrunk(before.pod, target.pod):
            held.node.freed("pod_resized")
        return True

    async def _pretend(self, allocated: NodePod, actuated: Actuated) -> None:
        """Without cgroups nothing can be limited, but containers that want a restart get it."""
        held, target = self._held, figures_of(allocated)
        for change in changes(allocated, target, actuated, held.running()):
            if change.restart:
                actuated = msgspec.structs.replace(actuated, restarting=actuated.restarting | {change.container.name})
                held.node.allocations.record_actuated(held.uid, actuated)
                await self._stop(change.container.name)
        done = Actuated(target.pod, dict(target.containers), actuated.restarting)
        held.node.allocations.record_actuated(held.uid, done)

    async def _stop(self, name: str) -> None:
        self._held.event("Normal", "Killing", f"Container {name} resize requires restart")
        await self._ending.kill(self._held.container(name), self._held.grace)


def level_differs(allocated: Pod, before: Figures, after: Figures) -> bool:
    """Whether figures that the pod sets for itself are others than what was pushed."""
    block = allocated.spec.resources
    return block is not None and any(
        not before.same(name, after) for name in (CPU, MEMORY) if name in block.requests or name in block.limits
    )


def _shrunk(before: Figures, after: Figures) -> bool:
    return (after.cpu_request or 0) < (before.cpu_request or 0) or (after.memory_request or 0) < (
        before.memory_request or 0
    )
