"""Deletes pods that do not tolerate a NoExecute taint of their node, and pods whose node is gone."""

import asyncio
from collections.abc import Iterable
from typing import Final

from kohort.cluster.workloads.nodes import plan as node_plan
from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import NODES, PODS, Key
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import condition_is
from kohort.rules import pod_disruption

_QUARANTINE: Final = 40.0
"""How long a node must be missing before its pods are deleted: it may just be registering again."""
_KEPT_FINISHED: Final = 12500
OUT_OF_SERVICE: Final = f"{node_plan.PREFIX}out-of-service"
"""A user declares that the node is off: terminating pods there will never be reported as ended."""


def register(manager: Manager) -> None:
    TaintEviction(manager)
    PodGarbageCollector(manager)


class TaintEviction:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("taint-eviction-controller")
        self.nodes = manager.informer(NODES, Node)
        self.pods = manager.informer(PODS, Pod, indexes={"node": by_node})
        self._since: dict[tuple[str, str], float] = {}
        controller = manager.controller("taint-eviction", self.reconcile, workers=2, max_delay=30)
        controller.watches(self.pods, when=_placed)
        controller.watches(self.nodes, self._pods_of, when=_taints_changed)

    def _pods_of(self, node: Node) -> Iterable[Key]:
        return [
            Key(pod.metadata.namespace, pod.metadata.name) for pod in self.pods.by_index("node", node.metadata.name)
        ]

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self.pods.get(key)
        if pod is None or pod.metadata.deleting or not pod.spec.node_name:
            self._forget(pod)
            return None
        node = self.nodes.get(Key("", pod.spec.node_name))
        stay = node_plan.seconds_to_stay(pod, node.spec.taints) if node else None
        if stay is None:
            self._forget(pod)
            return None
        now = asyncio.get_running_loop().time()
        since = self._since.setdefault((pod.metadata.uid, pod.spec.node_name), now)
        if now - since < stay:
            return Requeue(after=stay - (now - since))
        await self._evict(pod)
        return None

    def _forget(self, pod: Pod | None) -> None:
        if pod is not None:
            self._since.pop((pod.metadata.uid, pod.spec.node_name), None)

    async def _evict(self, pod: Pod) -> None:
        message = "Taint manager: deleting due to NoExecute taint"
        try:
            await write_disruption_condition(self.client, pod, pod_disruption.TAINT_MANAGER, message)
            await self.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        text = f"Marking for deletion Pod {pod.metadata.namespace}/{pod.metadata.name}"
        self.recorder.normal(PODS, pod, "TaintManagerEviction", text)


class PodGarbageCollector:
    """Deletes pods that no node agent will end: on missing nodes, terminating without a node or on a node that is out
    of service; and the oldest finished pods beyond a limit."""

    def __init__(self, manager: Manager, *, period: float = 20.0) -> None:
        self.client = manager.client
        self.nodes = manager.informer(NODES, Node)
        self.pods = manager.informer(PODS, Pod, indexes={"node": by_node})
        self._period = period
        self._missing: dict[str, float] = {}
        manager.background("pod-collection", self._run)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period)
            await self.collect()

    async def collect(self) -> None:
        lost = await self._lost_nodes()
        for pod in self.pods.list():
            if pod.spec.node_name in lost:
                await self._fail_and_delete(pod, disrupted="PodGC: node no longer exists")
            elif pod.metadata.deleting and not self._is_served(pod):
                await self._fail_and_delete(pod)
        finished = sorted(
            (pod for pod in self.pods.list() if pod.finished), key=lambda pod: pod.metadata.creation_timestamp or ""
        )
        for pod in finished[: max(0, len(finished) - _KEPT_FINISHED)]:
            await self._remove(pod)

    async def _lost_nodes(self) -> set[str]:
        now = asyncio.get_running_loop().time()
        used = {pod.spec.node_name for pod in self.pods.list() if pod.spec.node_name}
        missing = {name for name in used if Key("", name) not in self.nodes}
        self._missing = {name: self._missing.get(name, now) for name in missing}
        ripe = [name for name, since in self._missing.items() if now - since >= _QUARANTINE]
        return {name for name in ripe if await self.client.find(NODES, name) is None}

    def _is_served(self, pod: Pod) -> bool:
        """Whether the node of the pod can still end it."""
        node = self.nodes.get(Key("", pod.spec.node_name)) if pod.spec.node_name else None
        if node is None:
            return bool(pod.spec.node_name)
        ready = condition_is(node.status.conditions, "Ready")
        return ready or not any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)

    async def _fail_and_delete(self, pod: Pod, disrupted: str = "") -> None:
        """No node agent will report the end of this pod: mark it failed and delete it."""
        try:
            if not pod.finished:
                await self._fail(pod, disrupted)
            await self._remove(pod)
        except (NotFound, Conflict):
            return

    async def _fail(self, pod: Pod, disrupted: str) -> None:
        if disrupted:
            await write_disruption_condition(self.client, pod, pod_disruption.POD_GC, disrupted, failed=True)
        else:
            body = {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed"}}
            await self.client.patch(PODS, pod.metadata.name, pod.metadata.namespace, body, subresource="status")

    async def _remove(self, pod: Pod) -> None:
        try:
            await self.client.delete(
                PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_seconds=0
            )
        except (NotFound, Conflict):
            return


async def write_disruption_condition(
    client: Client, pod: Pod, reason: str, message: str, *, failed: bool = False
) -> None:
    """Write the condition DisruptionTarget, before the pod is deleted."""
    condition = {
        "type": pod_disruption.DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": clock.timestamp(),
    }
    status: JsonObject = {"conditions": [condition]}
    if failed:
        status["phase"] = "Failed"
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    await client.patch(PODS, pod.metadata.name, pod.metadata.namespace, body, PatchType.STRATEGIC, "status")


def by_node(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _placed(old: Pod | None, new: Pod | None) -> bool:
    """A pod arrived on a node, or its tolerations changed."""
    if new is None or not new.spec.node_name:
        return False
    return old is None or (old.spec.node_name, old.spec.tolerations) != (new.spec.node_name, new.spec.tolerations)


def _taints_changed(old: Node | None, new: Node | None) -> bool:
    return (old.spec.taints if old else ()) != (new.spec.taints if new else ())
