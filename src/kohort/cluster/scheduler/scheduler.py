"""The scheduler's loop and its event handlers.

Handlers keep the cluster state and the queue current. One loop takes the next pod, decides, and starts a task that
writes the decision, so that the next decision does not wait for the write. A pod counts on its node from the moment of
the decision.

The loop takes a pod when one of its slots for writes is free, so decisions never run far ahead of the writes: else the
binding of a pod whose turn it is would wait behind the reports of thousands of pods that were rejected before it.

A decision and its changes in memory (assume the pod on its node, or mark it unschedulable) happen without an await in
between. So no event can be missed between "no node takes the pod" and "requeue the pod when something changes".
"""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

import msgspec

from kohort.cluster.scheduler import requeue_hints
from kohort.cluster.scheduler.api_writes import ApiWriter, VolumesNotBound
from kohort.cluster.scheduler.decision import NodeChooser, Placement, Unschedulable
from kohort.cluster.scheduler.messages import unschedulable_message
from kohort.cluster.scheduler.metrics import SchedulerMetrics
from kohort.cluster.scheduler.preemption import Eviction, NoEviction, NoEvictionReason, find_eviction
from kohort.cluster.scheduler.queue import QueuedPod, SchedulingQueue
from kohort.kube import clock, errors
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.objects.core import Namespace, Node
from kohort.objects.pods import Pod
from kohort.objects.policy import PodDisruptionBudget
from kohort.objects.storage import StorageClass
from kohort.objects.volumes import PersistentVolume, PersistentVolumeClaim
from kohort.resources import resize_deferred
from kohort.resources.effective import pending_resize
from kohort.rules.pod_scheduling import UNSCHEDULABLE
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters.volumes import claims_of
from kohort.rules.scheduling.pod_and_node_info import PodInfo
from kohort.rules.scheduling.resource_request import ResourceUse
from kohort.rules.scheduling.volume_binding import VolumePlan

_log = Log(module="kohort.cluster.scheduler")

DEFAULT_NAME: Final = "default-scheduler"
SWEEP: Final = 30.0
TICK: Final = 0.001
"""QueuedPod less than this is not waiting: rounding could make it forever."""
SCHEDULER_ERROR: Final = "SchedulerError"


class SchedulerSettings(msgspec.Struct, frozen=True):
    name: str = DEFAULT_NAME
    concurrent_writes: int = 64
    deferred_growth_seconds: float | None = None
    """How long a resize that a node has deferred reserves resources there; None for as long as the spec asks for it."""
    random_source: random.Random | None = None


class Scheduler:
    def __init__(self, manager: Manager, settings: SchedulerSettings = SchedulerSettings()) -> None:  # noqa: B008 (frozen)
        self.settings = settings
        self.cluster = ClusterState()
        self.queue = SchedulingQueue()
        self.metrics = SchedulerMetrics(manager.metrics.registry, self.queue, settings.name)
        self._chooser = NodeChooser(settings.random_source)
        self._evicting: set[str] = set()
        """Pods, by uid, for which others are being evicted at this moment."""
        recorder = manager.recorder(settings.name, instance=f"{settings.name}-{socket.gethostname()}")
        self._writer = ApiWriter(manager.client, recorder, self.cluster.storage, settings.name)
        self._work_to_do = asyncio.Event()
        self._slots = asyncio.Semaphore(settings.concurrent_writes)
        self._tasks: set[asyncio.Task[None]] = set()

    # The loop

    async def run(self) -> None:
        try:
            while True:
                await self._slots.acquire()
                entry = self.queue.pop(self._now())
                if entry is None:
                    self._slots.release()
                    await self._wait_for_work()
                    continue
                self._attempt(entry)
                await asyncio.sleep(0)
        finally:
            for task in [*self._tasks]:
                task.cancel()

    async def _wait_for_work(self) -> None:
        self._work_to_do.clear()
        due = self.queue.next_time()
        pause = SWEEP if due is None else min(max(due - self._now(), TICK), SWEEP)
        try:
            async with asyncio.timeout(pause):
                await self._work_to_do.wait()
        except TimeoutError:
            self._sweep()

    def _sweep(self) -> None:
        self.queue.requeue_overdue(self._now())
        if self.settings.deferred_growth_seconds is not None:
            self._recount_deferred()

    def _attempt(self, entry: QueuedPod) -> None:
        """Decide about one pod; the writes that follow run in a task beside the next decisions. The task has the slot
        that the loop acquired."""
        try:
            writing = self._decide(entry)
        except Exception:
            _log.exception("scheduling decision failed", pod=str(entry.info.key))
            self.metrics.attempt("error")
            self.queue.retry(entry, self._now())
            self._slots.release()
            return
        task = asyncio.create_task(writing)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._slots.release()
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("scheduling failed", problem=repr(problem))

    # Deciding about one pod

    def _decide(self, entry: QueuedPod) -> Coroutine[object, None, None]:
        """Decide now; the coroutine that is returned writes the decision."""
        pod = entry.info
        begun = perf_counter()
        result = self._chooser.choose(pod, self.cluster)
        writing = self._reject(entry, result) if isinstance(result, Unschedulable) else self._accept(entry, result)
        self.metrics.decided(perf_counter() - begun)
        return writing

    def _accept(self, entry: QueuedPod, placement: Placement) -> Coroutine[object, None, None]:
        pod, node = entry.info, self.cluster.nodes[placement.node]
        plan = VolumePlan()
        if pod.claims:
            plan = self.cluster.storage.plan(claims_of(pod, self.cluster), node.name, node.labels) or plan
            self.cluster.storage.reserve(plan, node.name)
        nomination = self.cluster.drop_nomination(pod.uid)
        self.cluster.assume(pod, node.name)
        self._nomination_ended(nomination)
        return self._bind(entry, node.name, plan)

    def _reject(self, entry: QueuedPod, unschedulable: Unschedulable) -> Coroutine[object, None, None]:
        pod = entry.info
        if pod.uid in self._evicting:
            # The change that led to this attempt is one of its own: a victim that is about to leave.
            self.queue.mark_unschedulable(entry, unschedulable.filters, self._now())
            return _nothing()
        eviction: Eviction | None = None
        match find_eviction(pod, unschedulable, self.cluster):
            case Eviction() as eviction:
                message = unschedulable_message(unschedulable)
                self.cluster.nominate(pod, eviction.node)
                self._evicting.add(pod.uid)
            case NoEviction() as no_eviction:
                message = unschedulable_message(unschedulable, no_eviction)
                if no_eviction.reason is not NoEvictionReason.VICTIMS_TERMINATING:
                    self._nomination_ended(self.cluster.drop_nomination(pod.uid))
        self.queue.mark_unschedulable(entry, unschedulable.filters, self._now())
        self.metrics.attempt("unschedulable")
        return self._report(entry, message, eviction)

    async def _bind(self, entry: QueuedPod, node_name: str, plan: VolumePlan) -> None:
        pod = entry.info
        try:
            if not plan.empty:
                async with self._slot_for_others():
                    await self._writer.bind_volumes(plan, node_name)
            await self._writer.bind(pod, node_name)
        except asyncio.CancelledError:
            raise
        except Exception as problem:
            async with self._slot_for_others():
                was_bound = await self._writer.was_bound(pod, problem)
            if was_bound:
                self._bound(entry, plan)
            else:
                await self._not_bound(entry, node_name, plan, problem)
        else:
            self._bound(entry, plan)

    @asynccontextmanager
    async def _slot_for_others(self) -> AsyncIterator[None]:
        """For what may wait for minutes: other controllers, or an API server that is away."""
        self._slots.release()
        try:
            yield
        finally:
            await self._slots.acquire()

    def _bound(self, entry: QueuedPod, plan: VolumePlan) -> None:
        self.queue.remove(entry.info.uid)
        self.cluster.storage.release(plan)
        self.metrics.attempt("scheduled", entry.attempts)

    async def _not_bound(self, entry: QueuedPod, node_name: str, plan: VolumePlan, problem: Exception) -> None:
        pod = entry.info
        self.cluster.storage.release(plan)
        if pod.uid in self.cluster.assumed:
            self.cluster.forget(pod.uid)
            self._requeue(requeue_hints.pod_removed(pod, self.cluster.nodes.get(node_name)))
        self.metrics.attempt("error")
        if isinstance(problem, errors.NotFound):
            self.queue.remove(pod.uid)
            return
        self.queue.retry(entry, self._now())
        self._work_to_do.set()
        if isinstance(problem, errors.Conflict):
            return
        if not isinstance(problem, errors.ApiError | VolumesNotBound):
            _log.error("binding failed", pod=str(pod.key), problem=repr(problem))
        text = str(problem)
        self._writer.record_failure(pod, text)
        await self._write_condition(pod, SCHEDULER_ERROR, text, None)

    async def _report(self, entry: QueuedPod, message: str, eviction: Eviction | None) -> None:
        try:
            await self._write_report(entry, message, eviction)
        finally:
            if eviction is not None:
                self._evicting.discard(entry.info.uid)

    async def _write_report(self, entry: QueuedPod, message: str, eviction: Eviction | None) -> None:
        pod = entry.info
        if eviction is not None:
            await self._evict(pod, eviction)
        nominated = eviction.node if eviction is not None else self.cluster.nomination_of(pod.uid)
        report = (pod.pod.metadata.generation, message)
        if report != entry.reported or nominated != pod.pod.status.nominated_node_name:
            entry.reported = report
            self._writer.record_failure(pod, message)
            await self._write_condition(pod, UNSCHEDULABLE, message, nominated)

    async def _evict(self, pod: PodInfo, eviction: Eviction) -> None:
        waiting = self.cluster.nominated.get(eviction.node, {})
        for other in [other for other in waiting.values() if other.priority < pod.priority]:
            self.cluster.drop_nomination(other.uid)
            await self._write_or_log(self._writer.clear_nomination(other))
        for victim in eviction.victims:
            await self._write_or_log(self._writer.evict(victim, pod, eviction.node))
        self.metrics.preempted(len(eviction.victims))

    async def _write_condition(self, pod: PodInfo, reason: str, message: str, nominated: str | None) -> None:
        await self._write_or_log(self._writer.write_unscheduled(pod, reason, message, nominated))

    async def _write_or_log(self, writing: Coroutine[object, None, None]) -> None:
        """A write that may fail: the next attempt to place the pod repeats it."""
        try:
            await writing
        except errors.ApiError as problem:
            _log.debug("write failed", problem=problem.message)

    # Event handlers

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._pod_gone(old)
        if new is None:
            return
        if new.finished:
            self._pod_gone(new)
        elif new.spec.node_name:
            self._pod_on_node(new)
        else:
            self._pod_without_node(new)

    def _pod_gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.queue.remove(uid)
        self._nomination_ended(self.cluster.drop_nomination(uid))
        node_name = self.cluster.pods.get(uid, "")
        left = self.cluster.remove_pod(uid)
        if left is not None:
            self._requeue(requeue_hints.pod_removed(left, self.cluster.nodes.get(node_name)))

    def _pod_on_node(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        before = self.cluster.pod_on_node(uid)
        info = PodInfo(pod, before=before, count_deferred=self._counts_deferred(pod))
        self.queue.remove(uid)
        nomination = self.cluster.drop_nomination(uid)
        if before is not None and info.counts_like(before) and self.cluster.replace_equal(info, pod.spec.node_name):
            return
        self.cluster.add_pod(info, pod.spec.node_name)
        self._nomination_ended(nomination)
        if before is None or before.labels != info.labels:
            self._requeue(requeue_hints.pod_added(info, self.cluster))
        if before is not None:
            node = self.cluster.nodes[pod.spec.node_name]
            self._requeue(requeue_hints.pod_shrank(before, info, node))
            if (before.alive and not info.alive) or before.labels != info.labels:
                self._requeue(requeue_hints.pod_removed(before, node))

    def _pod_without_node(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if not self._is_responsible_for(pod):
            self.queue.remove(uid)
            self._nomination_ended(self.cluster.drop_nomination(uid))
            return
        entry = self.queue.get(uid)
        info = PodInfo(pod, before=None if entry is None else entry.info)
        if entry is None:
            if uid in self.cluster.assumed:
                return
            self.queue.add(info, self._now())
            self._work_to_do.set()
        else:
            helps = _may_fit_now(entry.info, info)
            self.queue.update(info)
            if helps:
                self._requeue(lambda other: other is entry)
        if pod.status.nominated_node_name and entry is None:
            self.cluster.nominate(info, pod.status.nominated_node_name)

    def _nomination_ended(self, nomination: tuple[PodInfo, str] | None) -> None:
        """The room that was kept for the pod is free, unless the pod has it now."""
        if nomination is not None:
            pod, node_name = nomination
            self._requeue(requeue_hints.pod_removed(pod, self.cluster.nodes.get(node_name)))

    def _is_responsible_for(self, pod: Pod) -> bool:
        return (
            pod.spec.scheduler_name == self.settings.name
            and pod.metadata.deletion_timestamp is None
            and not pod.spec.scheduling_gates
        )

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self.cluster.remove_node(old.metadata.name)
            self._requeue(requeue_hints.node_removed)
            return
        self.cluster.add_node(new)
        if old is None or requeue_hints.node_differs(old, new):
            self._requeue(requeue_hints.node_added(self.cluster.nodes[new.metadata.name], self.cluster))

    def claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        storage = self.cluster.storage
        if new is not None:
            storage.claims[new.metadata.namespace, new.metadata.name] = new
        elif old is not None:
            storage.claims.pop((old.metadata.namespace, old.metadata.name), None)
        self._storage_changed()

    def volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        storage = self.cluster.storage
        if new is not None:
            storage.volumes[new.metadata.name] = new
        elif old is not None:
            storage.volumes.pop(old.metadata.name, None)
        self._storage_changed()

    def class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        storage = self.cluster.storage
        if new is not None:
            storage.classes[new.metadata.name] = new
        elif old is not None:
            storage.classes.pop(old.metadata.name, None)
        self._storage_changed()

    def _storage_changed(self) -> None:
        self._writer.storage_changed()
        self._requeue(requeue_hints.storage_changed)

    def budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if new is not None:
            self.cluster.budgets[new.metadata.namespace, new.metadata.name] = new
        elif old is not None:
            self.cluster.budgets.pop((old.metadata.namespace, old.metadata.name), None)

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self.cluster.add_namespace(new.metadata.name, new.metadata.labels)
            if old is None or old.metadata.labels != new.metadata.labels:
                self._requeue(requeue_hints.namespace_changed)
        elif old is not None:
            self.cluster.remove_namespace(old.metadata.name)

    def _requeue(self, hint: requeue_hints.Hint) -> None:
        if self.queue.requeue(hint, self._now()):
            self._work_to_do.set()

    # Resizes that have been deferred for too long

    def _counts_deferred(self, pod: Pod) -> bool:
        patience = self.settings.deferred_growth_seconds
        if patience is None or not resize_deferred(pod):
            return True
        pending = pending_resize(pod)
        since = None if pending is None else pending.last_transition_time
        return since is None or clock.seconds() - clock.parse_time(since).timestamp() < patience

    def _recount_deferred(self) -> None:
        for node in [*self.cluster.nodes.values()]:
            for info in [*node.pods.values()]:
                if resize_deferred(info.pod) and info.uid not in self.cluster.assumed:
                    self._pod_on_node(info.pod)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _may_fit_now(before: PodInfo, after: PodInfo) -> bool:
    """Whether a pending pod was changed in a way that may let a node take it that rejected it before."""
    old, new = before.pod, after.pod
    return (
        _less(after.requested, before.requested)
        or old.metadata.labels != new.metadata.labels
        or old.spec.tolerations != new.spec.tolerations
        or old.spec.node_selector != new.spec.node_selector
        or old.spec.affinity != new.spec.affinity
    )


def _less(now: ResourceUse, then: ResourceUse) -> bool:
    return now.shrank_since(then, then)


async def _nothing() -> None:
    """There is nothing to write."""
