"""The lifecycle of sets that the benches run each operator through.

Sets of groups are created until all are ready, get a new image, lose some or all of their groups, and are deleted.
Writes are those that the API server counted, of all clients, without events and leases.
"""

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from bench.servers import cpu_seconds

from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.resources import LEADER_WORKER_SETS, NAMESPACES, PODS, STATEFUL_SETS, Resource
from kohort.objects.json_types import JsonObject
from kohort.rules.simulation_labels import PREFIX

PATIENCE = 3600.0
LOOK_SECONDS = 0.2
ENDING = "1s"
"""How long a pod takes to end: a real one is never gone at once, and its name is taken until then."""
PHASES = ("create", "roll", "scale down", "delete")
_COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of what."""

    sets: int
    groups: int
    """Of each set."""
    size: int
    """Pods of a group."""
    left: int
    """Groups of each set that stay when it is scaled down."""
    cpu: str = "10m"

    @property
    def all_groups(self) -> int:
        return self.sets * self.groups


@dataclass
class Figures:
    """What one operator needed."""

    seconds: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)
    """Per group."""
    cpu: dict[str, float] = field(default_factory=dict)
    plane: dict[str, float] = field(default_factory=dict)
    """Processor time of the control plane: unlike time on the wall, it does not depend on who else is busy."""
    memory: float = 0.0
    """Peak, megabytes."""


class GroupLifecycle:
    def __init__(self, client: Client, namespace: str, shape: Shape) -> None:
        self._client = client
        self._namespace = namespace
        self._shape = shape

    def phases(self) -> dict[str, Callable[[], Awaitable[None]]]:
        steps = (self._create, self._roll, self._scale_down, self._delete)
        return dict(zip(PHASES, steps, strict=True))

    async def ready_to_start(self) -> None:
        """Webhooks are asked and answer, and a group has come and gone: a start is measured elsewhere."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if await self._webhooks_answer():
                    break
                await asyncio.sleep(LOOK_SECONDS)
        first = self._set(0, "one:1")
        first["spec"]["replicas"] = 1
        await self._client.create(LEADER_WORKER_SETS, first)
        await self._settled(1, sets=1)
        await self._client.delete(LEADER_WORKER_SETS, "set-0", self._namespace, propagation="Foreground")
        await self._nothing_left()

    async def _webhooks_answer(self) -> bool:
        """While the webhooks are not called, a set is created without what only they fill in."""
        try:
            found = await self._client.create(LEADER_WORKER_SETS, self._set(0, "one:1"), dry_run=True)
        except InternalError:
            return False
        return "networkConfig" in found["spec"]

    def _set(self, number: int, image: str) -> JsonObject:
        container = {"name": "server", "image": image, "resources": {"requests": {"cpu": self._shape.cpu}}}
        annotations = {f"{PREFIX}termination-latency": ENDING}
        template = {
            "metadata": {"annotations": annotations},
            "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
        }
        return {
            "metadata": {"name": f"set-{number}", "namespace": self._namespace},
            "spec": {
                "replicas": self._shape.groups,
                "leaderWorkerTemplate": {"size": self._shape.size, "workerTemplate": template},
            },
        }

    async def _create(self) -> None:
        for number in range(self._shape.sets):
            await self._client.create(LEADER_WORKER_SETS, self._set(number, "one:1"))
        await self._settled(self._shape.groups)

    async def _roll(self) -> None:
        spec = self._set(0, "one:2")["spec"]
        await self._patch({"spec": {"leaderWorkerTemplate": spec["leaderWorkerTemplate"]}})
        await self._settled(self._shape.groups)

    async def _scale_down(self) -> None:
        await self._patch({"spec": {"replicas": self._shape.left}})
        await self._settled(self._shape.left)
        await self._until(PODS, self._shape.sets * self._shape.left * self._shape.size)

    async def _delete(self) -> None:
        for number in range(self._shape.sets):
            await self._client.delete(LEADER_WORKER_SETS, f"set-{number}", self._namespace, propagation="Foreground")
        await self._nothing_left()

    async def _nothing_left(self) -> None:
        for resource in (PODS, STATEFUL_SETS, LEADER_WORKER_SETS):
            await self._until(resource, 0)

    async def _patch(self, body: JsonObject) -> None:
        for number in range(self._shape.sets):
            await self._client.patch(LEADER_WORKER_SETS, f"set-{number}", self._namespace, body)

    async def _settled(self, replicas: int, sets: int = 0) -> None:
        wanted = sets or self._shape.sets
        async with asyncio.timeout(PATIENCE):
            while True:
                found = (await self._client.list(LEADER_WORKER_SETS, self._namespace)).items
                if len(found) == wanted and all(is_settled(one, replicas) for one in found):
                    return
                await asyncio.sleep(LOOK_SECONDS)

    async def _until(self, resource: Resource, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                if await self._count(resource) == count:
                    return
                await asyncio.sleep(LOOK_SECONDS)

    async def _count(self, resource: Resource) -> int:
        """How many there are, without listing them all: thousands of pods, five times a second, would be felt."""
        answer = await self._client.raw("GET", resource.path(self._namespace), (("limit", "1"),))
        page: JsonObject = msgspec.json.decode(answer)
        return len(page["items"]) + (page["metadata"].get("remainingItemCount") or 0)


def is_settled(group_set: JsonObject, replicas: int) -> bool:
    status = group_set.get("status") or {}
    counters = [status.get(name) or 0 for name in ("replicas", "readyReplicas", "updatedReplicas")]
    return counters == [replicas] * 3 and status.get("observedGeneration") == group_set["metadata"]["generation"]


async def writes(client: Client) -> float:
    """What the API server has written for all clients."""
    text = (await client.raw("GET", "/metrics", accept="text/plain")).decode()
    total = 0.0
    for labels, value in _COUNTED.findall(text):
        found = dict(_LABEL.findall(labels))
        if found["verb"] in _WRITES and found["resource"] not in ("events", "leases") and not found.get("dry_run"):
            total += float(value)
    return total


def peak_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no memory figure for process {pid}")


async def run_lifecycle(client: Client, namespace: str, shape: Shape, pid: int, plane: Sequence[int] = ()) -> Figures:
    """`pid` is the operator, `plane` the processes of the control plane, if they are others."""
    figures = Figures()
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    lifecycle = GroupLifecycle(client, namespace, shape)
    await lifecycle.ready_to_start()
    for name, phase in lifecycle.phases().items():
        before, cpu, begun = await writes(client), cpu_seconds(pid), time.perf_counter()
        spent = sum(map(cpu_seconds, plane))
        await phase()
        figures.seconds[name] = time.perf_counter() - begun
        figures.cpu[name] = cpu_seconds(pid) - cpu
        figures.plane[name] = sum(map(cpu_seconds, plane)) - spent
        figures.writes[name] = (await writes(client) - before) / shape.all_groups
        print(f"{namespace}: {name} took {figures.seconds[name]:.1f} s", file=sys.stderr, flush=True)
    figures.memory = peak_megabytes(pid)
    return figures
