"""Decides which pods the node admits and which resizes it accepts: patch -> DECIDE -> allocate -> actuate -> report.

All waiting resizes of the node are decided together, in the order of `kohort.rules.resize_queue`. Nothing is awaited in
between, so no two decisions can count the same room twice.
"""

import asyncio

from kohort.kube import clock
from kohort.kube.log import Log
from kohort.node.metrics import NodeMetrics
from kohort.node.node_state import NodeState
from kohort.node.pod_record import PodRecord
from kohort.node.pod_registry import PodRegistry
from kohort.node.resize.allocation import Allocations
from kohort.objects.node_pods import NodePod
from kohort.resources.effective import DEFERRED
from kohort.rules import resize_conditions as conditions
from kohort.rules.allocated_resources import Desired, agrees
from kohort.rules.pod_admission import Rejection
from kohort.rules.resize_decision import Accepted, Infeasible, ResizeDecision, Reverted
from kohort.rules.resize_queue import Trigger, is_due, next_retry

_log = Log(part="node")


class ResizeQueue:
    def __init__(self, allocations: Allocations, pods: PodRegistry, node: NodeState, metrics: NodeMetrics) -> None:
        self._allocations = allocations
        self._pods = pods
        self._node = node
        self._metrics = metrics
        self._decided: dict[str, int] = {}
        """The last generation that was decided, by UID."""
        self._last_pass: float | None = None
        """When resizes were decided last."""

    def admit(self, pod: NodePod) -> Rejection | None:
        """Allocate what a new pod requests, or say why the node rejects it."""
        rejection = self._allocations.admit(pod, self._pods.others(pod.metadata.uid), self._node.facts())
        if rejection is None:
            self._metrics.count_admission(pod)
        return rejection

    def decide(self, trigger: Trigger) -> None:
        """Decide all resizes that wait. Pods whose resize changes are reconciled again."""
        self._last_pass = asyncio.get_running_loop().time()
        waiting = {each.uid: each for each in self._pods.records() if self._waits(each, trigger)}
        for record in waiting.values():
            self._count_request(record)
        since = {uid: _since(record) for uid, record in waiting.items()}
        try:
            for uid, decision in self._allocations.decide_and_allocate(
                since, self._pods.others(""), self._node.facts()
            ):
                self._report(waiting[uid], decision, trigger)
        except OSError as problem:
            _log.error("failed to record a resize; it is decided again later", problem=str(problem))
        self._metrics.count_conditions((each.pod, each.resize) for each in self._pods.records())

    async def retry(self) -> None:
        """Decide again what waits when no trigger has come for some time. Runs as long as the agent."""
        now = asyncio.get_running_loop().time
        started = now()
        while True:
            due = next_retry(started, self._last_pass)
            await asyncio.sleep(due - now())
            if next_retry(started, self._last_pass) == due:  # no pass was made meanwhile
                self.decide("periodic_retry")

    def forget(self, record: PodRecord) -> None:
        """The pod is gone."""
        self._decided.pop(record.uid, None)
        self._metrics.observe_wait(record.pod, record.resize, "terminated")

    def _waits(self, record: PodRecord, trigger: Trigger) -> bool:
        if not record.resizable or self._allocations.allocated(record.uid) is None:
            return False
        return is_due(record.resize.pending, trigger, new=self._is_new(record))

    def _is_new(self, record: PodRecord) -> bool:
        """The pod's present generation was not decided yet."""
        return self._decided.get(record.uid) != record.pod.metadata.generation

    def _count_request(self, record: PodRecord) -> None:
        allocated = self._allocations.allocated(record.uid)
        assert allocated is not None
        if self._is_new(record) and not agrees(Desired.of(record.pod.spec), allocated):
            self._metrics.count_request(record.pod, allocated)

    def _report(self, record: PodRecord, decision: ResizeDecision, trigger: Trigger) -> None:
        """Conditions, events and metrics."""
        pod, before, new = record.pod, record.resize, self._is_new(record)
        self._decided[record.uid] = pod.metadata.generation
        now = clock.timestamp()
        match decision:
            case Reverted():
                self._metrics.observe_wait(pod, before, "reverted")
                record.resize = record.resize.without_pending()
            case Accepted():
                self._metrics.observe_wait(pod, before, "accepted")
                record.set_resize(*conditions.accepted(pod, now))
                if before.pending is not None and before.pending.reason == DEFERRED:
                    self._metrics.deferred_accepted.labels(trigger).inc()
            case _:
                record.set_resize(*conditions.refused(record.resize, decision, pod, now))
                if new and isinstance(decision, Infeasible):
                    self._metrics.infeasible.labels(decision.detail).inc()
        if record.resize != before:
            record.wake()


def _since(record: PodRecord) -> str:
    """When the resize was first refused; empty if it was not."""
    pending = record.resize.pending
    return (pending.last_transition_time or "") if pending is not None else ""
