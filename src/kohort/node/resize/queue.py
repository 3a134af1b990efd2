"""Goes through the resizes that wait, in their order, and decides each. No waiting inside: nothing comes between."""

from collections.abc import Callable, Mapping

from kohort.kube import clock
from kohort.kube.log import Log
from kohort.kube.resources import Key
from kohort.node.metrics import NodeMetrics
from kohort.node.pod_worker import PodWorker
from kohort.node.resize.allocation import Allocations
from kohort.rules import resize_conditions as conditions
from kohort.rules.allocated_resources import Desired, agrees
from kohort.rules.resize_decision import Accepted, Infeasible, NodeFacts, Reverted
from kohort.rules.resize_queue import Trigger, Waiting, in_order

_log = Log(part="node")


class Resizes:
    def __init__(
        self,
        allocations: Allocations,
        workers: Mapping[Key, PodWorker],
        facts: Callable[[], NodeFacts],
        metrics: NodeMetrics,
    ) -> None:
        self._allocations = allocations
        self._workers = workers
        self._facts = facts
        self._metrics = metrics
        self._judged: dict[str, int] = {}
        """The last generation that was judged, by UID."""

    def go_through(self, trigger: Trigger) -> None:
        """Judge everything that is not settled. Those whose standing has changed are looked at again."""
        waiting = {worker.uid: worker for worker in self._workers.values() if self._unsettled(worker, trigger)}
        entries = []
        for worker in waiting.values():
            allocated = self._allocations.allocated(worker.uid)
            if allocated is not None:
                pending = worker.resize.pending
                since = (pending.last_transition_time or "") if pending is not None else ""
                entries.append(Waiting(worker.pod, allocated, since))
        for entry in in_order(entries):
            self._judge(waiting[entry.pod.metadata.uid], trigger)
        self._metrics.count_conditions((worker.pod, worker.resize) for worker in self._workers.values())

    def forget(self, worker: PodWorker) -> None:
        self._judged.pop(worker.uid, None)
        self._metrics.observe_wait(worker.pod, worker.resize, "terminated")

    def _unsettled(self, worker: PodWorker, trigger: Trigger) -> bool:
        if not worker.admitted or worker.finished or worker.ending or worker.pod.metadata.deleting:
            return False
        pending = worker.resize.pending
        if self._judged.get(worker.uid) != worker.pod.metadata.generation:
            return True
        if pending is None:
            return False
        return pending.reason != "Infeasible" or trigger == "node_changed"

    def _judge(self, worker: PodWorker, trigger: Trigger) -> None:
        pod, before = worker.pod, worker.resize
        allocated = self._allocations.allocated(worker.uid)
        assert allocated is not None
        new = self._judged.get(worker.uid) != pod.metadata.generation
        if new and not agrees(Desired.of(pod.spec), allocated):
            self._metrics.count_request(pod, allocated)
        others = [each.pod for each in self._workers.values() if each is not worker and not each.finished]
        try:
            decision = self._allocations.judge(pod, others, self._facts())
        except OSError as problem:
            _log.error("a resize could not be recorded and stays as it is", pod=str(worker.key), problem=str(problem))
            return
        self._judged[worker.uid] = pod.metadata.generation
        now = clock.timestamp()
        match decision:
            case Reverted():
                self._metrics.observe_wait(pod, before, "reverted")
                worker.resize = worker.resize.without_pending()
            case Accepted():
                self._metrics.observe_wait(pod, before, "accepted")
                worker.note(*conditions.accepted(pod, now))
                if before.pending is not None and before.pending.reason == "Deferred":
                    self._metrics.deferred_accepted.labels(trigger).inc()
            case _:
                worker.note(*conditions.refused(worker.resize, decision, pod, now))
                if new and isinstance(decision, Infeasible):
                    self._metrics.infeasible.labels(decision.detail).inc()
        if worker.resize != before:
            worker.node.wake(worker.key, 0.0)
