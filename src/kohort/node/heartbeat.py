"""The node object and its lease: made once, kept fresh, changed when something changes."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

import msgspec

from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.errors import AlreadyExists, ApiError, NotFound
from kohort.kube.log import Log
from kohort.kube.resources import LEASES, NODES
from kohort.node import machine_info
from kohort.node.single_agent_lock import AGENT, NAMESPACE, RENEWAL_SECONDS
from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject

STATUS_SECONDS = 300.0
LEAVING_SECONDS = 2.0
NEWS = {
    ("Ready", "True"): "NodeReady",
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
        name: str,
        identity: str,
        labels: Mapping[str, str],
        status: Callable[[], JsonObject],
        conditions: Callable[[str], list[JsonObject]],
        tell: Callable[[Node, str, str], None],
    ) -> None:
        """`identity` tells this agent from others (see incumbency). `tell` writes an event about the node: its reason
        and what it says."""
        self._client = client
        self._name = name
        self._identity = identity
        self._labels = labels
        self._status = status
        self._conditions = conditions
        self._tell = tell
        self._uid = ""
        self._reported = 0.0
        self._version = 1
        """What there is to report, counted; changes while a report is under way are not lost."""
        self._said = 0
        self._changed = asyncio.Event()
        self.registered = asyncio.Event()

    def changed(self) -> None:
        """Something that the node reports is different now."""
        self._version += 1
        self._changed.set()

    async def run(self) -> None:
        while True:
            try:
                await self._beat()
            except (ApiError, OSError) as problem:
                _log.warning("the node could not report", node=self._name, problem=str(problem))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), RENEWAL_SECONDS if self.registered.is_set() else 1.0)
            self._changed.clear()

    async def _beat(self) -> None:
        now = asyncio.get_running_loop().time()
        version = self._version
        if self._said != version or now - self._reported >= STATUS_SECONDS or await self._overwritten():
            await self._report()
            self._reported, self._said = now, version
        await self._renew()
        self.registered.set()

    async def _overwritten(self) -> bool:
        """Whether others have written where the API server looks for this agent. Other addresses may be theirs."""
        node: JsonObject | None = await self._client.find(NODES, self._name)
        if node is None:
            return False
        own, found = self._status(), node.get("status") or {}
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
        conditions = self._conditions(clock.timestamp())
        for condition in conditions:
            before = known.get(condition["type"])
            if before is not None and before.status == condition["status"] and before.last_transition_time:
                condition["lastTransitionTime"] = before.last_transition_time
        status = {**self._status(), "conditions": conditions}
        await self._client.patch(
            NODES, self._name, "", {"status": status}, PatchType.STRATEGIC, "status", type=msgspec.Raw
        )
        for condition in conditions:
            before = known.get(condition["type"])
            news = NEWS.get((condition["type"], condition["status"]))
            if news and (before is None or before.status != condition["status"]):
                self._tell(node, news, f"Node {self._name} status is now: {news}")

    async def leave(self) -> None:
        """Let the next agent have the node at once. Nobody waits for an API server that is gone."""
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
            document = machine_info.lease_document(self._name, self._uid, stamp)
            document["metadata"]["annotations"] = {AGENT: self._identity}
            with contextlib.suppress(AlreadyExists, NotFound):
                await self._client.create(LEASES, document, NAMESPACE)

    async def _annotate(self, identity: str, more: JsonObject) -> None:
        patch = {"metadata": {"annotations": {AGENT: identity}}, **more}
        await self._client.patch(LEASES, self._name, NAMESPACE, patch, type=msgspec.Raw)
