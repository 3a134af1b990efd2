"""Brings one pod to the resources that are allocated to it, and keeps its conditions true meanwhile:
patch -> decide -> allocate -> ACTUATE -> report."""

import asyncio

from kohort.kube import clock
from kohort.node.container_stopper import ContainerStopper
from kohort.node.metrics import NodeMetrics
from kohort.node.node_state import NodeState
from kohort.node.pod_record import PodRecord
from kohort.node.resize.actuation import ActuationFailed, Actuator
from kohort.node.resize.allocation import Allocations
from kohort.node.resize.plan import in_progress
from kohort.node.resize.resize_and_admission import ResizeQueue
from kohort.node.resource_views import Figures, figures_of
from kohort.node.stop_grace import StopReason
from kohort.objects.node_pods import NodePod
from kohort.objects.pods import Pod
from kohort.resources import CPU, MEMORY
from kohort.rules import resize_conditions as conditions
from kohort.rules.resize_decision import Infeasible, NotSupported


class PodResize:
    def __init__(
        self,
        record: PodRecord,
        stopper: ContainerStopper,
        allocations: Allocations,
        actuator: Actuator,
        queue: ResizeQueue,
        node: NodeState,
        metrics: NodeMetrics,
    ) -> None:
        self._record = record
        self._stopper = stopper
        self._allocations = allocations
        self._actuator = actuator
        self._queue = queue
        self._node = node
        self._metrics = metrics

    def begin(self) -> None:
        """The pod was just admitted: what was actuated is what an earlier agent has recorded, else what the kernel
        holds."""
        uid = self._record.uid
        if self._allocations.actuated(uid) is None:
            self._allocations.record_actuated(uid, self._actuator.first_record(self._record.allocated()))

    async def actuate(self, allocated: NodePod) -> bool:
        """Actuate what is allocated; whether that succeeded. An interrupted resize of pod-level resources stays as it
        is on a node that cannot resize those any more."""
        record = self._record
        before = self._allocations.actuated(record.uid)
        assert before is not None
        target = figures_of(allocated)
        if not in_progress(target, before, record.running()):
            record.set_resize(*conditions.completed(record.resize, record.pod))
            return True
        if not self._node.gates.pod_level_resize and pod_level_differs(allocated, before.pod, target.pod):
            idle = conditions.ResizeState(record.resize.pending)
            decision = Infeasible(NotSupported.POD_LEVEL_GATE_OFF)
            record.set_resize(*conditions.refused(idle, decision, record.pod, clock.timestamp()))
            return True
        record.resize = conditions.progressing(record.resize, record.pod.metadata.generation, clock.timestamp())
        if not await self._attempt(allocated):
            return False
        record.set_resize(*conditions.completed(record.resize, record.pod))
        if _frees_room(before.pod, target.pod):
            self._queue.decide("pod_resized")
        return True

    async def _attempt(self, allocated: NodePod) -> bool:
        record, loop = self._record, asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._actuator.actuate(allocated, record.running(), self._stop)
        except ActuationFailed as problem:
            self._metrics.observe_attempt(loop.time() - began, False)
            record.set_resize(*conditions.failed(record.resize, str(problem), record.pod, clock.timestamp()))
            return False
        self._metrics.observe_attempt(loop.time() - began, True)
        return True

    async def _stop(self, name: str) -> None:
        self._record.event("Normal", "Killing", f"Container {name} resize requires restart")
        await self._stopper.stop(self._record.container(name), StopReason.RESIZE)


def pod_level_differs(allocated: Pod, before: Figures, after: Figures) -> bool:
    """Whether resources that are set for the pod as a whole differ from what was actuated."""
    block = allocated.spec.resources
    return block is not None and any(
        not before.same(name, after) for name in (CPU, MEMORY) if name in block.requests or name in block.limits
    )


def _frees_room(before: Figures, after: Figures) -> bool:
    return any((after.request(name) or 0) < (before.request(name) or 0) for name in (CPU, MEMORY))
