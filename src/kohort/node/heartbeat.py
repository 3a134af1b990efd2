"""Creates the node object and its lease, renews the lease, and writes the status of the node when it changes."""

import asyncio
import contextlib
from collections.abc import Mapping

import msgspec

from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.errors import AlreadyExists, ApiError, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.log import Log
from kohort.kube.resources import LEASES, NODES
from kohort.node import machine_info
from kohort.node.node_state import NodeState
from kohort.node.single_agent_lock import AGENT, NAMESPACE, RENEWAL_SECONDS
from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.rules.node_lease import lease_document

STATUS_SECONDS = 300.0
LEAVING_SECONDS = 2.0
NEWS = {
    ("Ready", "True"): "NodeReady",
    ("Ready", "False"): "NodeNotReady",
    ("MemoryPressure", "True"): "NodeHasInsufficientMemory",
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("DiskPressure", "True"): "NodeHasDiskPressure",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("PIDPressure", "True"): "NodeHasInsufficientPID",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
}
_log = Log(part="node")


class Heartbeat:
    def __init__(
        self,
        client: Client,
        node: NodeState,
        identity: str,
        labels: Mapping[str, str],
        recorder: EventRecorder,
    ) -> None:
        """`identity` distinguishes this agent from others (see `single_agent_lock`)."""
        self._client = client
        self._node = node
        self._name = node.machine.name
        self._identity = identity
        self._labels = labels
        self._recorder = recorder
        self._uid = ""
        self._reported_at = 0.0
        self._version = 1
        """Counts changes, so that those that happen during a report are not lost."""
        self._reported_version = 0
        self._changed = asyncio.Event()
        self.registered = asyncio.Event()

    def changed(self) -> None:
        """Something that the node reports has changed."""
        self._version += 1
        self._changed.set()

    async def run(self) -> None:
        while True:
            try:
                await self._beat()
            except (ApiError, OSError) as problem:
                _log.warning("failed to update node status or lease", node=self._name, problem=str(problem))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), RENEWAL_SECONDS if self.registered.is_set() else 1.0)
            self._changed.clear()

    async def _beat(self) -> None:
        now = asyncio.get_running_loop().time()
        version = self._version
        if self._reported_version != version or now - self._reported_at >= STATUS_SECONDS or await self._overwritten():
            await self._report()
            self._reported_at, self._reported_version = now, version
        await self._renew()
        self.registered.set()

    async def _overwritten(self) -> bool:
        """Whether others have written where the API server looks for this agent. Other addresses may be theirs."""
        node: JsonObject | None = await self._client.find(NODES, self._name)
        if node is None:
            return False
        own, found = self._node.status(), node.get("status") or {}
        addresses = found.get("addresses") or []
        missing = [each for each in own["addresses"] if each not in addresses]
        return bool(missing) or found.get("daemonEndpoints") != own["daemonEndpoints"]

    async def _report(self) -> None:
        node: Node | None = await self._client.find(NODES, self._name, type=Node)
        if node is None:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(NODES, machine_info.node_document(self._name, self._labels))
            node = await self._client.get(NODES, self._name, type=Node)
        self._uid = node.metadata.uid
        known = {each.type: each for each in node.status.conditions}
        conditions = self._node.conditions(clock.timestamp())
        for condition in conditions:
            before = known.get(condition["type"])
            if before is not None and before.status == condition["status"] and before.last_transition_time:
                condition["lastTransitionTime"] = before.last_transition_time
        status = {**self._node.status(), "conditions": conditions}
        await self._client.patch(
            NODES, self._name, "", {"status": status}, PatchType.STRATEGIC, "status", type=msgspec.Raw
        )
        for condition in conditions:
            before = known.get(condition["type"])
            news = NEWS.get((condition["type"], condition["status"]))
            if news and (before is None or before.status != condition["status"]):
                self._recorder.normal(NODES, node, news, f"Node {self._name} status is now: {news}")

    async def leave(self) -> None:
        """Let the next agent have the node at once. Gives up when the API server does not answer."""
        if not self.registered.is_set():
            return
        with contextlib.suppress(ApiError, OSError, TimeoutError):
            async with asyncio.timeout(LEAVING_SECONDS):
                await self._annotate("", {})

    async def _renew(self) -> None:
        stamp = clock.micro_timestamp()
        try:
            await self._annotate(self._identity, {"spec": {"renewTime": stamp}})
        except NotFound:
            document = lease_document(self._name, self._uid, stamp)
            document["metadata"]["annotations"] = {AGENT: self._identity}
            with contextlib.suppress(AlreadyExists, NotFound):
                await self._client.create(LEASES, document, NAMESPACE)

    async def _annotate(self, identity: str, more: JsonObject) -> None:
        patch = {"metadata": {"annotations": {AGENT: identity}}, **more}
        await self._client.patch(LEASES, self._name, NAMESPACE, patch, type=msgspec.Raw)
