"""The scheduler: events in, decisions out.

Handlers keep the cluster state and the queue current; one loop takes the next pod, decides, and hands the writing to
a task of its own so that the next decision need not wait for it. A pod counts on its node from the moment of the
decision.

A decision and what it leads to in memory (assume, park) happen without a pause in between, so no event can slip through
between "it does not fit" and "wake me when something changes".
"""

import asyncio
import random
from collections.abc import Coroutine
from time import perf_counter
from typing import Final

import msgspec

from kohort.cluster.scheduler import requeue_hints
from kohort.cluster.scheduler.api_writes import VolumesNotBound, Writer
from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.decision import Chooser, Misfit, Placement
from kohort.cluster.scheduler.filters.volumes import claims_of
from kohort.cluster.scheduler.metrics import Meters
from kohort.cluster.scheduler.pod_and_node_info import PodFacts
from kohort.cluster.scheduler.preemption import Eviction, make_room
from kohort.cluster.scheduler.queue import SchedulingQueue, Waiting
from kohort.cluster.scheduler.resource_request import Footprint
from kohort.cluster.scheduler.volume_binding import VolumePlan
from kohort.kube import clock, errors
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.objects.core import Namespace, Node
from kohort.objects.json_types import Json
from kohort.objects.meta import find_condition
from kohort.objects.pods import Pod
from kohort.objects.policy import PodDisruptionBudget
from kohort.objects.storage import StorageClass
from kohort.objects.volumes import PersistentVolume, PersistentVolumeClaim
from kohort.resources import resize_deferred
from kohort.resources.effective import RESIZE_PENDING

_log = Log(module="kohort.cluster.scheduler")

DEFAULT_NAME: Final = "default-scheduler"
SWEEP: Final = 30.0
TICK: Final = 0.001
"""Waiting less than this is not waiting: rounding could make it forever."""
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


class Settings(msgspec.Struct, frozen=True):
    name: str = DEFAULT_NAME
    concurrent_writes: int = 64
    deferred_growth_seconds: float | None = None
    """How long growth that a node has deferred reserves room there; None for as long as it is asked for."""
    chance: random.Random | None = None


class Scheduler:
    def __init__(self, manager: Manager, settings: Settings = Settings()) -> None:  # noqa: B008 (frozen)
        self.settings = settings
        self.cluster = ClusterState()
        self.queue = SchedulingQueue()
        self.meters = Meters(manager.metrics.registry, self.queue, settings.name)
        self._chooser = Chooser(settings.chance)
        self._writer = Writer(manager.client, manager.recorder(settings.name), self.cluster.storage, settings.name)
        self._work = asyncio.Event()
        self._slots = asyncio.Semaphore(settings.concurrent_writes)
        self._tasks: set[asyncio.Task[None]] = set()

    # The loop

    async def run(self) -> None:
        try:
            while True:
                entry = self.queue.pop(self._now())
                if entry is None:
                    await self._wait_for_work()
                    continue
                self._attempt(entry)
                await asyncio.sleep(0)
        finally:
            for task in [*self._tasks]:
                task.cancel()

    async def _wait_for_work(self) -> None:
        self._work.clear()
        due = self.queue.next_time()
        pause = SWEEP if due is None else min(max(due - self._now(), TICK), SWEEP)
        try:
            async with asyncio.timeout(pause):
                await self._work.wait()
        except TimeoutError:
            self._sweep()

    def _sweep(self) -> None:
        self.queue.wake_overdue(self._now())
        if self.settings.deferred_growth_seconds is not None:
            self._recount_deferred()

    def _attempt(self, entry: Waiting) -> None:
        """Decide about one pod, and let the writes that follow run beside the next decisions."""
        try:
            writing = self._decide(entry)
        except Exception:
            _log.exception("decision failed", pod=str(entry.facts.key))
            self.meters.attempt("error")
            self.queue.retry(entry, self._now())
            return
        task = asyncio.create_task(writing)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("scheduling failed", problem=repr(problem))

    # One pod

    def _decide(self, entry: Waiting) -> Coroutine[Json, Json, None]:
        """Decide now; what is returned writes it down."""
        pod = entry.facts
        begun = perf_counter()
        found = self._chooser.choose(pod, self.cluster)
        writing = self._refused(entry, found) if isinstance(found, Misfit) else self._accepted(entry, found)
        self.meters.decided(perf_counter() - begun)
        return writing

    def _accepted(self, entry: Waiting, placement: Placement) -> Coroutine[Json, Json, None]:
        pod, node = entry.facts, self.cluster.nodes[placement.node]
        plan = VolumePlan()
        if pod.claims:
            plan = self.cluster.storage.plan(claims_of(pod, self.cluster), node.name, node.labels) or plan
            self.cluster.storage.reserve(plan, node.name)
        self.cluster.drop_nomination(pod.uid)
        self.cluster.assume(pod, node.name)
        return self._bind(entry, node.name, plan)

    def _refused(self, entry: Waiting, misfit: Misfit) -> Coroutine[Json, Json, None]:
        pod = entry.facts
        room = make_room(pod, misfit, self.cluster)
        eviction = room if isinstance(room, Eviction) else None
        message = misfit.message("" if isinstance(room, Eviction) else room.message)
        if eviction is not None:
            self.cluster.nominate(pod, eviction.node)
        elif "terminating pod" not in message:
            self.cluster.drop_nomination(pod.uid)
        self.queue.park(entry, misfit.filters, self._now())
        self.meters.attempt("unschedulable")
        return self._report(entry, message, eviction)

    async def _bind(self, entry: Waiting, node_name: str, plan: VolumePlan) -> None:
        pod = entry.facts
        try:
            if not plan.nothing:
                await self._writer.bind_volumes(plan, node_name)
            async with self._slots:
                await self._writer.bind(pod, node_name)
        except asyncio.CancelledError:
            raise
        except Exception as problem:
            if await self._writer.acted_after_all(pod, problem):
                self._bound(entry, plan)
            else:
                await self._not_bound(entry, plan, problem)
        else:
            self._bound(entry, plan)

    def _bound(self, entry: Waiting, plan: VolumePlan) -> None:
        self.queue.remove(entry.facts.uid)
        self.cluster.storage.release(plan)
        self.meters.attempt("scheduled", entry.attempts)

    async def _not_bound(self, entry: Waiting, plan: VolumePlan, problem: Exception) -> None:
        pod = entry.facts
        self.cluster.storage.release(plan)
        if pod.uid in self.cluster.assumed:
            self.cluster.forget(pod.uid)
            self._wake(requeue_hints.pod_left(pod))
        self.meters.attempt("error")
        if isinstance(problem, errors.NotFound):
            self.queue.remove(pod.uid)
            return
        self.queue.retry(entry, self._now())
        self._work.set()
        if isinstance(problem, errors.Conflict):
            return
        if not isinstance(problem, errors.ApiError | VolumesNotBound):
            _log.error("binding failed", pod=str(pod.key), problem=repr(problem))
        text = str(problem)
        self._writer.complain(pod, text)
        await self._tell(pod, SCHEDULER_ERROR, text, None)

    async def _report(self, entry: Waiting, message: str, eviction: Eviction | None) -> None:
        pod = entry.facts
        if eviction is not None:
            await self._evict(pod, eviction)
        nominated = eviction.node if eviction is not None else self._kept_nomination(pod)
        news = (pod.pod.metadata.generation, message)
        if news != entry.reported or nominated != pod.pod.status.nominated_node_name:
            entry.reported = news
            self._writer.complain(pod, message)
            await self._tell(pod, UNSCHEDULABLE, message, nominated)

    def _kept_nomination(self, pod: PodFacts) -> str:
        return next((name for name, waiting in self.cluster.nominated.items() if pod.uid in waiting), "")

    async def _evict(self, pod: PodFacts, eviction: Eviction) -> None:
        waiting = self.cluster.nominated.get(eviction.node, {})
        for other in [other for other in waiting.values() if other.priority < pod.priority]:
            self.cluster.drop_nomination(other.uid)
            await self._quietly(self._writer.clear_nomination(other))
        for victim in eviction.victims:
            await self._quietly(self._writer.evict(victim, pod, eviction.node))
        self.meters.preempted(len(eviction.victims))

    async def _tell(self, pod: PodFacts, reason: str, message: str, nominated: str | None) -> None:
        await self._quietly(self._writer.report(pod, reason, message, nominated))

    async def _quietly(self, writing: Coroutine[Json, Json, None]) -> None:
        """A write whose failure changes nothing: the next attempt says it again."""
        try:
            async with self._slots:
                await writing
        except errors.ApiError as problem:
            _log.debug("could not write", problem=problem.message)

    # Events

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
            self._pod_waits(new)

    def _pod_gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.queue.remove(uid)
        self.cluster.drop_nomination(uid)
        left = self.cluster.take_pod(uid)
        if left is not None:
            self._wake(requeue_hints.pod_left(left))

    def _pod_on_node(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        before = self.cluster.held(uid)
        facts = PodFacts(pod, before=before, count_deferred=self._counts_deferred(pod))
        self.queue.remove(uid)
        self.cluster.drop_nomination(uid)
        if before is not None and facts.counts_like(before) and self.cluster.renew(facts, pod.spec.node_name):
            return
        self.cluster.put_pod(facts, pod.spec.node_name)
        if before is None or before.labels != facts.labels:
            self._wake(requeue_hints.pod_came(facts))
        if before is not None:
            self._wake(requeue_hints.pod_shrank(before, facts))
            if (before.alive and not facts.alive) or before.labels != facts.labels:
                self._wake(requeue_hints.pod_left(before))

    def _pod_waits(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if not self._ours(pod):
            self.queue.remove(uid)
            self.cluster.drop_nomination(uid)
            return
        facts = PodFacts(pod)
        entry = self.queue.get(uid)
        if entry is None:
            if uid in self.cluster.assumed:
                return
            self.queue.add(facts, self._now())
            self._work.set()
        else:
            helps = _may_fit_now(entry.facts, facts)
            self.queue.update(facts)
            if helps:
                self._wake(lambda other: other is entry)
        if pod.status.nominated_node_name and entry is None:
            self.cluster.nominate(facts, pod.status.nominated_node_name)

    def _ours(self, pod: Pod) -> bool:
        return (
            pod.spec.scheduler_name == self.settings.name
            and pod.metadata.deletion_timestamp is None
            and not pod.spec.scheduling_gates
        )

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self.cluster.take_node(old.metadata.name)
            self._wake(requeue_hints.node_went)
            return
        self.cluster.put_node(new)
        if old is None or requeue_hints.node_differs(old, new):
            self._wake(requeue_hints.node_came(self.cluster.nodes[new.metadata.name], self.cluster))

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
        self._wake(requeue_hints.storage_changed)

    def budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if new is not None:
            self.cluster.budgets[new.metadata.namespace, new.metadata.name] = new
        elif old is not None:
            self.cluster.budgets.pop((old.metadata.namespace, old.metadata.name), None)

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self.cluster.put_namespace(new.metadata.name, new.metadata.labels)
            if old is None or old.metadata.labels != new.metadata.labels:
                self._wake(requeue_hints.namespace_changed)
        elif old is not None:
            self.cluster.take_namespace(old.metadata.name)

    def _wake(self, hint: requeue_hints.Hint) -> None:
        if self.queue.wake(hint, self._now()):
            self._work.set()

    # Deferred growth that has waited too long

    def _counts_deferred(self, pod: Pod) -> bool:
        patience = self.settings.deferred_growth_seconds
        if patience is None or not resize_deferred(pod):
            return True
        pending = find_condition(pod.status.conditions, RESIZE_PENDING)
        since = None if pending is None else pending.last_transition_time
        return since is None or clock.seconds() - clock.parse_time(since).timestamp() < patience

    def _recount_deferred(self) -> None:
        for node in [*self.cluster.nodes.values()]:
            for facts in [*node.pods.values()]:
                if resize_deferred(facts.pod) and facts.uid not in self.cluster.assumed:
                    self._pod_on_node(facts.pod)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _may_fit_now(before: PodFacts, after: PodFacts) -> bool:
    """Whether a waiting pod was changed in a way that may let it in where it was refused."""
    old, new = before.pod, after.pod
    return (
        _less(after.asks, before.asks)
        or old.metadata.labels != new.metadata.labels
        or old.spec.tolerations != new.spec.tolerations
        or old.spec.node_selector != new.spec.node_selector
        or old.spec.affinity != new.spec.affinity
    )


def _less(now: Footprint, then: Footprint) -> bool:
    return now.shrank_since(then, then)
