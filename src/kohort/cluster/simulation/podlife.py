"""Runs the pods of simulated nodes: looks at a pod, lets its machine advance, reports what changed."""

import asyncio
import contextlib
from ipaddress import IPv4Network

import msgspec

from kohort.cluster.simulation import room
from kohort.cluster.simulation.addresses import AddressBook
from kohort.cluster.simulation.machine import Machine, Moment
from kohort.cluster.simulation.nodelife import SimulatedNodes
from kohort.cluster.simulation.orders import Orders, understood
from kohort.cluster.simulation.resizing import Refusal, Resize
from kohort.cluster.simulation.statuses import Addresses, pod_status, refusal, said_before, status_patch
from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.informer import Informer
from kohort.kube.resources import PODS, Key
from kohort.objects.core import Node
from kohort.objects.jsontypes import JsonObject
from kohort.objects.pods import Pod

BY_NODE = "simulated-node"


class Life(msgspec.Struct):
    """One pod on a simulated node."""

    machine: Machine
    resize: Resize
    said: JsonObject
    """The status that was written last."""
    address: str = ""
    removed: bool = False
    """Its object was deleted; the cache may not show that yet."""


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

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.get(key)
        if pod is None or (key in self._lives and self._lives[key].machine.uid != pod.metadata.uid):
            self._forget(key)
        node = self._nodes.alive(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None:
            return None
        if pod.finished and not pod.metadata.deleting:
            self._release(key)
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
        resize_wait = self._resize(life, pod, node, orders, at)
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
            life = self._lives[key] = Life(machine, resize, said_before(pod))
            if machine.refused:
                self._recorder.warning(PODS, pod, *refusal(machine.refused))
        return life

    def _orders(self, pod: Pod, node: Node) -> Orders:
        orders, problems = understood(pod.metadata.annotations, node.metadata.annotations, self._start_latency)
        for problem in problems:
            if problem.annotation in pod.metadata.annotations:
                self._recorder.warning(PODS, pod, "BadSimulationOrder", str(problem))
        return orders

    def _resize(self, life: Life, pod: Pod, node: Node, orders: Orders, at: Moment) -> float | None:
        if not life.machine.begun or life.machine.stopping is not None:
            life.resize = Resize.none(pod) if not life.machine.begun else life.resize
            return None

        def judged(wanted: Pod) -> Refusal | None:
            others = [each for each in self._pods.by_index(BY_NODE, node.metadata.name) if not each.finished]
            return room.refusal(wanted, (each for each in others if each is not pod), node.status.allocatable)

        outcome = life.resize.look(pod, orders, judged, at)
        for name in outcome.restarts:
            life.machine.restart(name, at)
        for note in outcome.notes:
            write = self._recorder.warning if note.warning else self._recorder.normal
            write(PODS, pod, note.reason, note.message)
        return outcome.wait

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
        life.resize.reported = life.resize.progress is not None

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

    def _forget(self, key: Key) -> None:
        self._release(key)
        self._lives.pop(key, None)


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
