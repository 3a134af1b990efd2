"""Runs the pods of simulated nodes: advances the lifecycle of a pod and writes its status."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network

import msgspec

from kohort.cluster.simulation.addresses import AddressPool
from kohort.cluster.simulation.annotations import SimulatedBehavior, readable_behavior
from kohort.cluster.simulation.node_controller import SimulatedNodes
from kohort.cluster.simulation.pod_lifecycle import PodLifecycle, SimulatedTime
from kohort.cluster.simulation.pod_status import Addresses, pod_status
from kohort.cluster.simulation.resizing import Outcome, Resize, annotated_decision
from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.informer import Informer
from kohort.kube.object_identity import key_of
from kohort.kube.resources import PODS, Key
from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import FINISHED_PHASES, Pod
from kohort.objects.volumes import ResourceList
from kohort.resources import SPEC, Amounts, requests
from kohort.resources.amounts import amounts_of
from kohort.rules.pod_admission import AdmittedPods, Rejection, room_rejection
from kohort.rules.pod_status import reported_conditions, says_ready, status_patch
from kohort.rules.resize_conditions import Note
from kohort.rules.resize_decision import Accepted, NodeFacts, ResizeDecision, Reverted
from kohort.rules.resize_queue import RETRY_SECONDS, Trigger, WaitingResize, decide_in_order, is_due

BY_NODE = "simulated-node"


class SimulatedPod(msgspec.Struct):
    """One pod on a simulated node."""

    lifecycle: PodLifecycle
    resize: Resize
    node: str
    reported: JsonObject
    """The status that was written last."""
    address: str = ""
    removed: bool = False
    """Its object was deleted; the cache may still show it."""

    @property
    def changeable(self) -> bool:
        """Whether its resizes are decided: not when it terminates or has ended."""
        lifecycle = self.lifecycle
        return lifecycle.rejection is None and lifecycle.stopping is None and lifecycle.phase not in FINISHED_PHASES


class SimulatedPods:
    def __init__(
        self,
        client: Client,
        pods: Informer[Pod],
        nodes: SimulatedNodes,
        recorder: EventRecorder,
        start_latency: float,
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._recorder = recorder
        self._start_latency = start_latency
        self._pods_by_key: dict[Key, SimulatedPod] = {}
        self._addresses = AddressPool()
        self._admitted: dict[str, AdmittedPods] = {}
        """By node."""
        self._waiting: dict[str, set[Key]] = {}
        """Pods that ask for something else than they were given, by node."""
        self._allocatable: dict[str, ResourceList] = {}
        """What nodes had when resizes were decided there last."""
        self.enqueue: Callable[[Key], None] = lambda _: None
        """Has a pod looked at again; set by the controller that runs this."""

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.get(key)
        if pod is None or (key in self._pods_by_key and self._pods_by_key[key].lifecycle.uid != pod.metadata.uid):
            self._release(key)
            self._wake_waiting(key)
        node = self._nodes.alive(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None:
            return None
        if pod.finished and not pod.metadata.deleting:
            self._release(key)
            self._decide_resizes(node)
            return None
        return await self._live(key, pod, node)

    async def _live(self, key: Key, pod: Pod, node: Node) -> Requeue | None:
        at = SimulatedTime(asyncio.get_running_loop().time(), clock.timestamp())
        behavior = self._behavior(pod, node)
        simulated = self._simulated_pod(key, pod, node, behavior, at)
        if pod.metadata.deleting:
            simulated.lifecycle.stop(behavior, float(pod.metadata.deletion_grace_period_seconds or 0), at)
        wait = simulated.lifecycle.advance(behavior, pod.spec.restart_policy, at)
        if simulated.lifecycle.stopped or simulated.lifecycle.phase in FINISHED_PHASES:
            self._admitted_on(node).drop(pod.metadata.uid)
        simulated.lifecycle.start_ephemeral(pod.spec.ephemeral_containers, at)
        resize_wait = self._resize(key, simulated, pod, node, behavior, at)
        await self._report(key, simulated, pod, node, behavior, at)
        if simulated.lifecycle.stopped:
            if not simulated.removed:
                await self._remove(key, pod)
                simulated.removed = True
            return None
        waits = [each for each in (wait, resize_wait) if each is not None]
        return Requeue(after=max(min(waits), 0.001)) if waits else None

    def _simulated_pod(
        self, key: Key, pod: Pod, node: Node, behavior: SimulatedBehavior, at: SimulatedTime
    ) -> SimulatedPod:
        simulated = self._pods_by_key.get(key)
        if simulated is None:
            known = pod.status.start_time is not None
            lifecycle = PodLifecycle.recover(pod, behavior, at) if known else PodLifecycle.accept(pod, behavior, at)
            resize = Resize.recover(pod) if known else Resize.none(pod)
            admitted = self._admitted_on(node)
            if not known and lifecycle.rejection is None:
                lifecycle.rejection = self._out_of_room(pod, node)
            if lifecycle.rejection is None:
                admitted.put(pod.metadata.uid, _allocated_requests(resize, pod))
            simulated = self._pods_by_key[key] = SimulatedPod(
                lifecycle, resize, pod.spec.node_name, reported_conditions(pod)
            )
            if (rejection := lifecycle.rejection) is not None:
                self._recorder.warning(PODS, pod, rejection.reason, rejection.message)
        return simulated

    def _out_of_room(self, pod: Pod, node: Node) -> Rejection | None:
        """Why the node does not take a pod. Pods that are gone or have ended may still be counted, if their turn to be
        looked at comes later: they are dropped before a pod is rejected."""
        admitted, wanted, allocatable = (
            self._admitted_on(node),
            requests(pod, SPEC),
            amounts_of(node.status.allocatable),
        )
        if room_rejection(wanted, len(admitted), admitted.used, allocatable) is None:
            return None
        bound = self._pods.by_index(BY_NODE, node.metadata.name)
        admitted.keep({each.metadata.uid for each in bound if not each.finished})
        return room_rejection(wanted, len(admitted), admitted.used, allocatable)

    def _admitted_on(self, node: Node) -> AdmittedPods:
        """At first those that an earlier process has admitted."""
        found = self._admitted.get(node.metadata.name)
        if found is None:
            found = self._admitted[node.metadata.name] = AdmittedPods()
            for pod in self._pods.by_index(BY_NODE, node.metadata.name):
                if pod.status.start_time is not None and not pod.finished:
                    found.put(pod.metadata.uid, _allocated_requests(Resize.recover(pod), pod))
        return found

    def _behavior(self, pod: Pod, node: Node) -> SimulatedBehavior:
        behavior, problems = readable_behavior(pod.metadata.annotations, node.metadata.annotations, self._start_latency)
        for problem in problems:
            if problem.annotation in pod.metadata.annotations:
                self._recorder.warning(PODS, pod, "BadSimulationOrder", str(problem))
        return behavior.with_images(each.image for each in (*pod.spec.init_containers, *pod.spec.main_containers))

    def _resize(
        self, key: Key, simulated: SimulatedPod, pod: Pod, node: Node, behavior: SimulatedBehavior, at: SimulatedTime
    ) -> float | None:
        if simulated.changeable and simulated.resize.waits(pod):
            self._waiting.setdefault(simulated.node, set()).add(key)
        else:
            self._settled(key, simulated)
            if simulated.resize.state.pending is not None:
                simulated.resize.state = simulated.resize.state.without_pending()
        self._decide_resizes(node, key)
        outcome = simulated.resize.carry_out(pod, behavior, at) if simulated.changeable else Outcome()
        for name in outcome.restarts:
            simulated.lifecycle.restart(name, at)
        self._record(pod, outcome.notes)
        if outcome.wait is None and simulated.resize.deferred:
            return RETRY_SECONDS  # after this pass
        return outcome.wait

    def _decide_resizes(self, node: Node, reconciled: Key | None = None) -> None:
        """Decide all resizes that are due on a node, in their order. Nothing else happens in between. What `reconciled`
        asks for may be new: its spec or an annotation may have changed."""
        waiting = self._waiting.get(node.metadata.name)
        trigger = self._trigger(node)
        if not waiting:
            return
        at = SimulatedTime(asyncio.get_running_loop().time(), clock.timestamp())
        open: list[WaitingResize] = []
        settled: list[Pod] = []
        for pod in self._pods.by_index(BY_NODE, node.metadata.name):
            key = key_of(pod)
            simulated = self._pods_by_key.get(key)
            if simulated is None or simulated.lifecycle.uid != pod.metadata.uid:
                settled += [] if pod.finished else [pod]
                continue
            if pod.finished or simulated.lifecycle.stopped or simulated.lifecycle.phase in FINISHED_PHASES:
                continue
            new = key == reconciled or simulated.resize.is_new(pod)
            due = key in waiting and is_due(simulated.resize.state.pending, trigger, new=new)
            decided = due and not pod.metadata.deleting
            refusal = annotated_decision(self._behavior(pod, node)) if decided else None
            if refusal is not None:
                self._apply_decision(key, simulated, pod, node, refusal, at)
            if decided and refusal is None:
                since = simulated.resize.state.pending.last_transition_time if simulated.resize.state.pending else None
                open.append(WaitingResize(pod, simulated.resize.allocated, since or ""))
            else:
                settled.append(simulated.resize.allocated.applied_to(pod))
        facts = NodeFacts(amounts_of(node.status.allocatable))
        for entry, decision in decide_in_order(open, settled, facts):
            key = key_of(entry.pod)
            self._apply_decision(key, self._pods_by_key[key], entry.pod, node, decision, at)

    def _trigger(self, node: Node) -> Trigger:
        before = self._allocatable.get(node.metadata.name)
        self._allocatable[node.metadata.name] = node.status.allocatable
        return "pod_updated" if before == node.status.allocatable else "node_changed"

    def _apply_decision(
        self, key: Key, simulated: SimulatedPod, pod: Pod, node: Node, decision: ResizeDecision, at: SimulatedTime
    ) -> None:
        before = simulated.resize.state
        self._record(pod, simulated.resize.take(decision, pod, self._behavior(pod, node), at))
        if isinstance(decision, Accepted):
            self._admitted_on(node).put(pod.metadata.uid, _allocated_requests(simulated.resize, pod))
        if isinstance(decision, Accepted | Reverted):
            self._settled(key, simulated)
        if simulated.resize.state != before:
            self.enqueue(key)

    def _wake_waiting(self, gone: Key) -> None:
        """A pod left its node: resizes that wait there may fit now."""
        simulated = self._pods_by_key.pop(gone, None)
        if simulated is not None:
            self._settled(gone, simulated)
            if (admitted := self._admitted.get(simulated.node)) is not None:
                admitted.drop(simulated.lifecycle.uid)
            for key in self._waiting.get(simulated.node, ()):
                self.enqueue(key)

    def _settled(self, key: Key, simulated: SimulatedPod) -> None:
        if (waiting := self._waiting.get(simulated.node)) is not None:
            waiting.discard(key)
            if not waiting:
                del self._waiting[simulated.node]

    def _record(self, pod: Pod, notes: Iterable[Note]) -> None:
        for note in notes:
            write = self._recorder.warning if note.type == "Warning" else self._recorder.normal
            write(PODS, pod, note.reason, note.message)

    async def _report(
        self, key: Key, simulated: SimulatedPod, pod: Pod, node: Node, behavior: SimulatedBehavior, at: SimulatedTime
    ) -> None:
        host = node.address("InternalIP")
        address = host if pod.spec.host_network else self._address(pod, node)
        status = pod_status(
            pod, simulated.lifecycle, simulated.resize, behavior, Addresses(host, address), at, simulated.reported
        )
        if status == simulated.reported:
            if not _was_marked_unready(pod, node, status):
                return
            simulated.reported = reported_conditions(pod)
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status_patch(simulated.reported, status)}
        with contextlib.suppress(NotFound):
            await self._client.patch(
                PODS, key.name, key.namespace, patch, PatchType.STRATEGIC, "status", type=msgspec.Raw
            )
        simulated.reported = status
        simulated.resize.reported = simulated.resize.state.progress is not None

    def _address(self, pod: Pod, node: Node) -> str:
        return self._addresses.take(pod.metadata.uid, self._network(node), pod.status.pod_ip)

    def _network(self, node: Node) -> IPv4Network:
        return self._nodes.pod_network(node)

    async def _remove(self, key: Key, pod: Pod) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(PODS, key.name, key.namespace, grace_seconds=0, uid=pod.metadata.uid)

    def _release(self, key: Key) -> None:
        if key in self._pods_by_key:
            self._addresses.release(self._pods_by_key[key].lifecycle.uid)


def _allocated_requests(resize: Resize, pod: Pod) -> Amounts:
    return requests(resize.allocated.applied_to(pod), SPEC)


def _was_marked_unready(pod: Pod, node: Node, status: JsonObject) -> bool:
    """Whether the pod is ready, but another part wrote that it is not: the node lifecycle controller does so while a
    node is silent. As long as the node does not count as ready, it would write it again."""
    return says_ready(status) and not pod.ready and node.ready


def matters(old: Pod | None, new: Pod | None) -> bool:
    """Whether a change can change the behavior of a pod. Most changes are our own status writes."""
    if new is not None and not new.spec.node_name:
        return old is not None and bool(old.spec.node_name)
    if old is None or new is None:
        return True
    return (
        old.metadata.annotations != new.metadata.annotations
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.uid != new.metadata.uid
        or old.spec != new.spec
        or (old.ready and not new.ready)
        or (bool(new.spec.readiness_gates) and old.status.conditions != new.status.conditions)
    )
