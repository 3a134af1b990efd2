"""Node health: watches leases, sets conditions to Unknown when renewals stop, keeps taints current.

Silence is measured on this process's own clock, from the moment it first saw a lease value. So a control plane that was
itself stopped or suspended never concludes that all its nodes are dead.
"""

import asyncio
from typing import Final

import msgspec

from kohort.cluster.workloads.nodes import plan as node_plan
from kohort.kube import clock
from kohort.kube.client import PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import LEASES, NODES, PODS, Key
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject, find_condition
from kohort.objects.well_known_names import NODE_LEASES

GRACE: Final = 50.0
REGISTRATION: Final = 1.0
"""Seconds in which a new node reports its conditions; until then it keeps the taint it was registered with."""
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def register(manager: Manager) -> None:
    NodeLifecycle(manager)


class NodeLifecycle:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("node-controller")
        self.nodes = manager.informer(NODES, Node)
        self.pods = manager.informer(PODS, Pod)
        self.leases = manager.informer(LEASES, PartialObject, namespace=NODE_LEASES, metadata_only=True)
        self._heard: dict[str, tuple[object, float]] = {}
        self.controller = manager.controller("node-lifecycle", self.reconcile, workers=2, max_delay=30)
        self.controller.watches(self.nodes)

    async def reconcile(self, key: Key) -> Requeue | None:
        node = self.nodes.get(key)
        if node is None:
            self._heard.pop(key.name, None)
            return None
        silent = self._silence(node)
        if not node.status.conditions and silent < REGISTRATION:
            return Requeue(after=REGISTRATION)
        if silent > GRACE and _some_known(node):
            await self._declare_unknown(node)
        else:
            await self._adjust_taints(node)
            ready = find_condition(node.status.conditions, "Ready")
            if ready is not None and ready.status == "Unknown":
                await self._mark_pods_unready(node)
        return Requeue(after=max(1.0, GRACE - silent + 0.1)) if silent <= GRACE else None

    def _silence(self, node: Node) -> float:
        """Seconds since this process last saw the node's lease or its reported conditions change."""
        lease = self.leases.get(Key(NODE_LEASES, node.metadata.name))
        beats = tuple(one.last_heartbeat_time for one in node.status.conditions)
        value = (lease.metadata.resource_version if lease else "", beats)
        now = asyncio.get_running_loop().time()
        known = self._heard.get(node.metadata.name)
        if known is None or known[0] != value:
            self._heard[node.metadata.name] = (value, now)
            return 0.0
        return now - known[1]

    async def _declare_unknown(self, node: Node) -> None:
        now = clock.timestamp()
        entries: list[JsonObject] = []
        for type in _REPORTED:
            old = find_condition(node.status.conditions, type)
            if old is not None and old.status == "Unknown":
                continue
            entries.append(
                {
                    "type": type,
                    "status": "Unknown",
                    "reason": "NodeStatusUnknown" if old else "NodeStatusNeverUpdated",
                    "message": "Kubelet stopped posting node status." if old else "Kubelet never posted node status.",
                    "lastHeartbeatTime": (old.last_heartbeat_time if old else node.metadata.creation_timestamp) or now,
                    "lastTransitionTime": now,
                }
            )
        if entries:
            body = {"status": {"conditions": entries}}
            await self.client.patch(NODES, node.metadata.name, "", body, PatchType.STRATEGIC, "status")
            self.recorder.warning(NODES, node, "NodeNotReady", f"Node {node.metadata.name} status is now: NodeNotReady")

    async def _adjust_taints(self, node: Node) -> None:
        wanted = node_plan.wanted_taints(node, clock.timestamp())
        if wanted is None:
            return
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [msgspec.to_builtins(taint) for taint in wanted] or None},
        }
        try:
            await self.client.patch(NODES, node.metadata.name, "", body)
        except NotFound:
            return

    async def _mark_pods_unready(self, node: Node) -> None:
        """Pods of a node that does not report must not count as ready, and neither must those of a node that reports
        that it is not ready."""
        for pod in self.pods.list():
            if pod.spec.node_name != node.metadata.name or not pod.ready:
                continue
            entry = {"type": "Ready", "status": "False", "lastTransitionTime": clock.timestamp()}
            body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [entry]}}
            try:
                await self.client.patch(
                    PODS, pod.metadata.name, pod.metadata.namespace, body, PatchType.STRATEGIC, "status"
                )
            except (NotFound, Conflict):
                continue
            self.recorder.warning(PODS, pod, "NodeNotReady", "Node is not ready")


def _some_known(node: Node) -> bool:
    """Whether a condition of the node is not Unknown yet."""
    found = [find_condition(node.status.conditions, type) for type in _REPORTED]
    return any(one is None or one.status != "Unknown" for one in found)
