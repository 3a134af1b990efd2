"""A cluster of controllers only: the test plays scheduler and node, so every state in between can be looked at.

The scenes were played in the same way on Kubernetes 1.36; what they expect is what was seen there.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kohort.kube import clock
from kohort.kube.client import PatchType
from kohort.kube.resources import EVENTS, NODES, PODS, Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

NS = "default"
NODE = "puppet"


class Puppet:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self._addresses = 0

    async def create(self, resource: Resource, name: str, **fields: Json) -> JsonObject:
        metadata = {"name": name, "namespace": NS, **fields.pop("metadata", {})}
        made: JsonObject = await self.client.create(resource, {"metadata": metadata, **fields})
        return made

    async def patch(self, resource: Resource, name: str, body: JsonObject) -> None:
        await self.client.patch(resource, name, NS, body, PatchType.STRATEGIC)

    async def settle(self) -> None:
        """Only a moment: the node has no heartbeat, and must not be missed."""
        await self.cluster.settle(quiet=1.5)

    def get(self, resource: Resource, name: str) -> JsonObject:
        found = self.cluster.find(resource, name, NS)
        assert found is not None, f"{resource.plural} {name}"
        return found

    def status(self, resource: Resource, name: str) -> JsonObject:
        status: JsonObject = self.get(resource, name).get("status") or {}
        return status

    def names(self, resource: Resource) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.cluster.objects(resource, NS))

    def events(self, kind: str) -> set[tuple[str, str, str]]:
        return {
            (one["type"], one["reason"], one["message"])
            for one in self.cluster.objects(EVENTS, NS)
            if one["involvedObject"]["kind"] == kind
        }

    async def run(self, *pods: str, ready: bool = True, phase: str = "Running", exit_code: int | None = None) -> None:
        """Bind these pods and report what a node would."""
        for name in pods:
            if not self.get(PODS, name)["spec"].get("nodeName"):
                target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
                body = {"metadata": {"name": name}, "target": target}
                await self.client.create(PODS, body, NS, subresource="binding", name=name)
            self._addresses += 1
            body = {"status": self._report(ready, phase, exit_code)}
            await self.client.patch(PODS, name, NS, body, subresource="status")
        await self.settle()

    def _report(self, ready: bool, phase: str, exit_code: int | None) -> JsonObject:
        state = "True" if ready and phase == "Running" else "False"
        address = f"10.1.0.{self._addresses}"
        status: JsonObject = {
            "phase": phase,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": state, "lastTransitionTime": clock.timestamp()}],
        }
        if exit_code is not None:
            ended = {"exitCode": exit_code, "finishedAt": clock.timestamp(), "startedAt": clock.timestamp()}
            container = {"name": "main", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}
            status["containerStatuses"] = [{**container, "state": {"terminated": ended}}]
        return status

    async def delete(self, resource: Resource, name: str, *, grace: int | None = None) -> None:
        await self.client.delete(resource, name, NS, grace_seconds=grace, propagation="Background")
        await self.settle()


@asynccontextmanager
async def puppet() -> AsyncIterator[Puppet]:
    async with Cluster(parts=("workloads",)) as cluster:
        node = {"metadata": {"name": NODE, "labels": {"topology.kubernetes.io/zone": "z1"}}}
        await cluster.client.create(NODES, node)
        await cluster.settle()
        yield Puppet(cluster)


def template(labels: dict[str, str], image: str = "img:1", **spec: Json) -> JsonObject:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}], **spec}}
