"""Runs the pods of simulated nodes: looks at a pod, lets its machine advance, reports what changed."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network

import msgspec

from kohort.cluster.simulation.addresses import AddressBook
from kohort.cluster.simulation.annotations import Orders, understood
from kohort.cluster.simulation.node_controller import SimulatedNodes
from kohort.cluster.simulation.pod_lifecycle import Machine, Moment
from kohort.cluster.simulation.pod_status import Addresses, pod_status, refusal
from kohort.cluster.simulation.resizing import Outcome, Resize, ordered_refusal
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
from kohort.objects.pods import Pod
from kohort.resources.amounts import amounts_of
from kohort.rules.pod_status import FINISHED_PHASES, reported_conditions, status_patch
from kohort.rules.resize_conditions import Note
from kohort.rules.resize_decision import Accepted, NodeFacts, ResizeDecision, Reverted
from kohort.rules.resize_queue import Waiting, decide_in_order

BY_NODE = "simulated-node"

RETRY_SECONDS = 5.0
"""A resize that waits for room is decided again at least this often, whatever was missed."""


class Life(msgspec.Struct):
    """One pod on a simulated node."""

    machine: Machine
    resize: Resize
    node: str
    said: JsonObject
    """The status that was written last."""
    address: str = ""
    removed: bool = False
    """Its object was deleted; the cache may not show that yet."""

    @property
    def changeable(self) -> bool:
        """Whether resizes of it are decided: not once it ends or has ended."""
        machine = self.machine
        return not machine.refused and machine.stopping is None and machine.phase not in FINISHED_PHASES


class PodLife:
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
        self._lives: dict[Key, Life] = {}
        self._addresses = AddressBook()
        self._waiting: dict[str, set[Key]] = {}
        """Pods that ask for something else than they were given, by node."""
        self.wake: Callable[[Key], None] = lambda _: None
        """Has a pod looked at again; set by the controller that runs this."""

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.get(key)
        if pod is None or (key in self._lives and self._lives[key].machine.uid != pod.metadata.uid):
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
        at = Moment(asyncio.get_running_loop().time(), clock.timestamp())
        orders = self._orders(pod, node)
        life = self._life(key, pod, orders, at)
        if pod.metadata.deleting:
            life.machine.stop(orders, float(pod.metadata.deletion_grace_period_seconds or 0), at)
        wait = life.machine.advance(orders, pod.spec.restart_policy, at)
        life.machine.attend(pod.spec.ephemeral_containers, at)
        resize_wait = self._resize(key, life, pod, node, orders, at)
        await self._report(key, life, pod, node, orders, at)
        if life.machine.stopped:
            if not life.removed:
                await self._remove(key, pod)
                life.removed = True
            return None
        waits = [each for each in (wait, resize_wait) if each is not None]
        return Requeue(after=max(min(waits), 0.001)) if waits else None

    def _life(self, key: Key, pod: Pod, orders: Orders, at: Moment) -> Life:
        life = self._lives.get(key)
        if life is None:
            known = pod.status.start_time is not None
            machine = Machine.recover(pod, orders, at) if known else Machine.accept(pod, orders, at)
            resize = Resize.recover(pod) if known else Resize.none(pod)
            life = self._lives[key] = Life(machine, resize, pod.spec.node_name, reported_conditions(pod))
            if machine.refused:
                self._recorder.warning(PODS, pod, *refusal(machine.refused))
        return life

    def _orders(self, pod: Pod, node: Node) -> Orders:
        orders, problems = understood(pod.metadata.annotations, node.metadata.annotations, self._start_latency)
        for problem in problems:
            if problem.annotation in pod.metadata.annotations:
                self._recorder.warning(PODS, pod, "BadSimulationOrder", str(problem))
        return orders

    def _resize(self, key: Key, life: Life, pod: Pod, node: Node, orders: Orders, at: Moment) -> float | None:
        if life.changeable and life.resize.waits(pod):
            self._waiting.setdefault(life.node, set()).add(key)
        else:
            self._settled(key, life)
            if life.resize.state.pending is not None:
                life.resize.state = life.resize.state.without_pending()
        self._decide_resizes(node)
        outcome = life.resize.carry_out(pod, orders, at) if life.changeable else Outcome()
        for name in outcome.restarts:
            life.machine.restart(name, at)
        self._record(pod, outcome.notes)
        waits = key in self._waiting.get(life.node, ())
        return RETRY_SECONDS if outcome.wait is None and waits else outcome.wait

    def _decide_resizes(self, node: Node) -> None:
        """Decide all resizes that wait on a node, in their order. Nothing else happens in between."""
        waiting = self._waiting.get(node.metadata.name)
        if not waiting:
            return
        at = Moment(asyncio.get_running_loop().time(), clock.timestamp())
        open: list[Waiting] = []
        settled: list[Pod] = []
        for pod in self._pods.by_index(BY_NODE, node.metadata.name):
            key = key_of(pod)
            life = self._lives.get(key)
            if life is None or life.machine.uid != pod.metadata.uid:
                settled += [] if pod.finished else [pod]
                continue
            if pod.finished or life.machine.stopped or life.machine.phase in FINISHED_PHASES:
                continue
            decided = key in waiting and not pod.metadata.deleting
            refusal = ordered_refusal(self._orders(pod, node)) if decided else None
            if refusal is not None:
                self._take(key, life, pod, node, refusal, at)
            if decided and refusal is None:
                since = life.resize.state.pending.last_transition_time if life.resize.state.pending else None
                open.append(Waiting(pod, life.resize.allocated, since or ""))
            else:
                settled.append(life.resize.allocated.applied_to(pod))
        facts = NodeFacts(amounts_of(node.status.allocatable))
        for entry, decision in decide_in_order(open, settled, facts):
            key = key_of(entry.pod)
            self._take(key, self._lives[key], entry.pod, node, decision, at)

    def _take(self, key: Key, life: Life, pod: Pod, node: Node, decision: ResizeDecision, at: Moment) -> None:
        before = life.resize.state
        self._record(pod, life.resize.take(decision, pod, self._orders(pod, node), at))
        if isinstance(decision, Accepted | Reverted):
            self._settled(key, life)
        if life.resize.state != before:
            self.wake(key)

    def _wake_waiting(self, gone: Key) -> None:
        """A pod is gone from its node: those that wait there may have its room."""
        life = self._lives.pop(gone, None)
        if life is not None:
            self._settled(gone, life)
            for key in self._waiting.get(life.node, ()):
                self.wake(key)

    def _settled(self, key: Key, life: Life) -> None:
        if (waiting := self._waiting.get(life.node)) is not None:
            waiting.discard(key)
            if not waiting:
                del self._waiting[life.node]

    def _record(self, pod: Pod, notes: Iterable[Note]) -> None:
        for note in notes:
            write = self._recorder.warning if note.type == "Warning" else self._recorder.normal
            write(PODS, pod, note.reason, note.message)

    async def _report(self, key: Key, life: Life, pod: Pod, node: Node, orders: Orders, at: Moment) -> None:
        host = node.address("InternalIP")
        address = host if pod.spec.host_network else self._address(pod, node)
        status = pod_status(pod, life.machine, life.resize, orders, Addresses(host, address), at, life.said)
        if status == life.said:
            return
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status_patch(life.said, status)}
        with contextlib.suppress(NotFound):
            await self._client.patch(
                PODS, key.name, key.namespace, patch, PatchType.STRATEGIC, "status", type=msgspec.Raw
            )
        life.said = status
        life.resize.reported = life.resize.state.progress is not None

    def _address(self, pod: Pod, node: Node) -> str:
        return self._addresses.take(pod.metadata.uid, self._network(node), pod.status.pod_ip)

    def _network(self, node: Node) -> IPv4Network:
        return self._nodes.pod_network(node)

    async def _remove(self, key: Key, pod: Pod) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(PODS, key.name, key.namespace, grace_seconds=0, uid=pod.metadata.uid)

    def _release(self, key: Key) -> None:
        if key in self._lives:
            self._addresses.release(self._lives[key].machine.uid)


def matters(old: Pod | None, new: Pod | None) -> bool:
    """Whether a change can make a pod behave differently. Most changes are our own reports."""
    if new is not None and not new.spec.node_name:
        return old is not None and bool(old.spec.node_name)
    if old is None or new is None:
        return True
    return (
        old.metadata.annotations != new.metadata.annotations
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.uid != new.metadata.uid
        or old.spec != new.spec
        or (bool(new.spec.readiness_gates) and old.status.conditions != new.status.conditions)
    )
