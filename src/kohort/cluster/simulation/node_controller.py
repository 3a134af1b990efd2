"""Registers simulated nodes, renews their leases and reports their conditions.

An idle node costs one lease renewal at a time, so the more nodes there are, the later each renews: always well before
the node lifecycle controller considers it lost.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from functools import lru_cache
from ipaddress import IPv4Network
from itertools import islice

import msgspec

from kohort.cluster.simulation import node_template
from kohort.cluster.simulation.annotations import (
    InvalidAnnotation,
    annotated_capacity,
    is_lost,
    node_problems,
    unready_message,
)
from kohort.cluster.simulation.node_template import Fleet
from kohort.kube import clock
from kohort.kube.backoff import Backoff
from kohort.kube.client import Client, PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, ApiError, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.informer import Informer
from kohort.kube.resources import LEASES, NODES, Key
from kohort.objects import well_known_names
from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.rules.node_lease import lease_document
from kohort.rules.simulation_labels import SIMULATED

LEASE_NAMESPACE = well_known_names.NODE_LEASES
HEARTBEAT_SECONDS = 10.0
MANY_NODES = 200
STATUS_SECONDS = 300.0
AT_ONCE = 32


class SimulatedNodes:
    def __init__(
        self, client: Client, nodes: Informer[Node], fleet: Fleet, heartbeat: float, recorder: EventRecorder
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._recorder = recorder
        self._fleet = fleet
        self._heartbeat = heartbeat
        self._numbers: dict[str, int] = {name: index for index, name in enumerate(fleet.names())}
        self._reported: dict[str, tuple[str, float]] = {}
        """The reported readiness of a node, and when it was reported."""
        self._complaints: dict[str, list[str]] = {}
        """The reported problems with annotations of a node."""
        self._unregistered = set(fleet.names())
        self._fleet_is_there = asyncio.Event()
        self._complete = asyncio.Event()
        self._count_registered()

    def alive(self, name: str) -> Node | None:
        """The node, if it is simulated and not lost by annotation."""
        node = self._nodes.get(Key("", name))
        return node if node is not None and is_simulated(node) and not is_lost(node.metadata.annotations) else None

    def pod_network(self, node: Node) -> IPv4Network:
        if node.spec.pod_cidr:
            return _network(node.spec.pod_cidr)
        return node_template.pod_network(self._number(node.metadata.name))

    async def create_fleet(self) -> None:
        """Register the nodes of the fleet; existing ones change only where the fleet was given other settings."""
        await _some_at_once(self._ensure(index, name) for index, name in enumerate(self._fleet.names()))
        self._fleet_is_there.set()

    async def registered(self) -> None:
        """Wait until all nodes of the fleet have reported, except those that are lost by annotation."""
        await self._fleet_is_there.wait()
        await self._complete.wait()

    async def _ensure(self, index: int, name: str) -> None:
        """Retries while the server is starting or busy, like a kubelet."""
        backoff = Backoff()
        while True:
            try:
                node = self._nodes.get(Key("", name))
                if node is None:
                    await self._client.create(NODES, node_template.node_document(self._fleet, index))
                else:
                    await self._update(
                        node,
                        node_template.change_patches(
                            node.metadata.annotations, node_template.node_request(self._fleet, index)
                        ),
                    )
            except (AlreadyExists, NotFound):
                return
            except ApiError as problem:
                if 400 <= problem.code < 500 and problem.code != 429:
                    raise
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _update(self, node: Node, patches: tuple[JsonObject, JsonObject] | None) -> None:
        if patches is None:
            return
        name = node.metadata.name
        object_patch, status_patch = patches
        if status_patch["status"]:
            await self._client.patch(NODES, name, "", status_patch, subresource="status", type=msgspec.Raw)
        await self._client.patch(NODES, name, "", object_patch, type=msgspec.Raw)

    async def reconcile(self, key: Key) -> Requeue | None:
        node = self._nodes.get(key)
        if node is None:
            self._reported.pop(key.name, None)
            self._complaints.pop(key.name, None)
            return None
        if is_simulated(node):
            self._warn_of_annotations(node)
        if not is_simulated(node) or is_lost(node.metadata.annotations):
            self._count_registered(key.name)
            return None
        await self._report(node)
        await self._renew(node)
        return Requeue(after=self._pause())

    def _warn_of_annotations(self, node: Node) -> None:
        """Emit an event for annotations that cannot be read; once, not with every heartbeat."""
        complaints = [str(problem) for problem in node_problems(node.metadata.annotations)]
        for complaint in complaints:
            if complaint not in self._complaints.get(node.metadata.name, ()):
                self._recorder.warning(NODES, node, "BadSimulationOrder", complaint)
        self._complaints[node.metadata.name] = complaints

    async def _report(self, node: Node) -> None:
        name = node.metadata.name
        unready = unready_message(node.metadata.annotations)
        reported, when = self._reported.get(name, (None, 0.0))
        now = clock.seconds()
        if reported == unready and now - when < STATUS_SECONDS and not _was_given_up(node):
            return
        stamp = clock.timestamp()
        status: JsonObject = {"conditions": _dated(node, node_template.node_conditions(stamp, unready))}
        if not node.status.addresses:
            status |= node_template.node_status(
                name, self._capacity(node), node_template.host_address(self._number(name))
            )
        with contextlib.suppress(NotFound):
            await self._client.patch(
                NODES, name, "", {"status": status}, PatchType.STRATEGIC, "status", type=msgspec.Raw
            )
        self._reported[name] = (unready, now)
        self._count_registered(name)

    async def _renew(self, node: Node) -> None:
        name = node.metadata.name
        stamp = clock.micro_timestamp()
        try:
            await self._client.patch(LEASES, name, LEASE_NAMESPACE, {"spec": {"renewTime": stamp}}, type=msgspec.Raw)
        except NotFound:
            lease = lease_document(name, node.metadata.uid, stamp)
            with contextlib.suppress(AlreadyExists, NotFound):
                await self._client.create(LEASES, lease, LEASE_NAMESPACE)

    def _count_registered(self, name: str = "") -> None:
        self._unregistered.discard(name)
        if not self._unregistered:
            self._complete.set()

    def _pause(self) -> float:
        crowd = min(max(len(self._nodes) / MANY_NODES, 1.0), 2.0)
        return self._heartbeat * crowd

    def _number(self, name: str) -> int:
        """The number of a node in the address plan; nodes that users created come after the fleet."""
        return self._numbers.setdefault(name, len(self._numbers))

    def _capacity(self, node: Node) -> dict[str, str]:
        try:
            ordered = annotated_capacity(node.metadata.annotations)
        except InvalidAnnotation:
            ordered = {}
        if node.status.capacity and not ordered:
            return {name: str(amount) for name, amount in node.status.capacity.items()}
        return node_template.capacity_of(ordered)


async def _some_at_once(work: Iterable[Coroutine[None, None, None]]) -> None:
    waiting = iter(work)
    while batch := list(islice(waiting, AT_ONCE)):
        await asyncio.gather(*batch)


def is_simulated(node: Node) -> bool:
    return node.metadata.labels.get(SIMULATED) == "true"


def _was_given_up(node: Node) -> bool:
    """Whether the node lifecycle controller wrote that nothing is known of the node, which was silent for a while."""
    return any(each.type == "Ready" and each.status == "Unknown" for each in node.status.conditions)


def _dated(node: Node, conditions: list[JsonObject]) -> list[JsonObject]:
    """Conditions keep their time while their status stays."""
    before = {each.type: each for each in node.status.conditions}
    for condition in conditions:
        known = before.get(condition["type"])
        if known is not None and known.status == condition["status"] and known.last_transition_time:
            condition["lastTransitionTime"] = known.last_transition_time
    return conditions


def matters_to_pods(old: Node | None, new: Node | None) -> bool:
    """As `matters`; also a node that counts as ready again, or that has more or less for pods than before."""
    if old is None or new is None or matters(old, new):
        return True
    return (new.ready and not old.ready) or new.status.allocatable != old.status.allocatable


def matters(old: Node | None, new: Node | None) -> bool:
    """Whether annotations, labels or existence of a node changed: heartbeats are our own writes."""
    if old is None or new is None:
        return True
    return old.metadata.annotations != new.metadata.annotations or old.metadata.labels != new.metadata.labels


@lru_cache(maxsize=4096)
def _network(text: str) -> IPv4Network:
    """Cached: every pod needs the network of its node."""
    return IPv4Network(text)
