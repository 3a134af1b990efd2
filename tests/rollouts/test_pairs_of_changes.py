"""Two changes by users during one release, in every pair and, in turn, with every kind, style and way to drain.

What one change does alone is tested elsewhere. Here it meets another one that was made a moment before. In the end
everything that was taken away is there again, every step is approved, and the version that was asked for last serves
alone, in as many replicas as were asked for last.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from tests.rollouts.drained_pods import BusyServers, busy_for, cluster_with
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3
from tests.rollouts.test_draining_matrix import RELEASES, Story, begun, is_settled, plan
from tests.rollouts.test_replaced_workloads import workload

from kohort.kube.errors import Conflict, ServiceUnavailable
from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, PODS, ROLLOUTS, Resource
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster

PAUSES = (0.0, 1.0, 6.0, 20.0)
"""Seconds between the changes, in turn."""


class Users:
    def __init__(self, cluster: Cluster, story: Story, resource: Resource, style: str) -> None:
        self.cluster, self.story, self.resource, self.style = cluster, story, resource, style
        self.wanted = V2
        self.replicas = 2 if resource is LEADER_WORKER_SETS else 5

    async def do(self, name: str) -> None:
        """A change that is refused for now, such as another template during a promotion, is not made."""
        change: Callable[[], Awaitable[None]] = getattr(self, name)
        try:
            await change()
        except (Conflict, ServiceUnavailable):
            return

    async def restore(self, name: str) -> None:
        """Take back what would keep the release from its end."""
        match name:
            case "pause":
                await self._edit_rollout({"strategy": {"paused": False}})
            case "disable":
                await self._edit_rollout({"disabled": False})
            case "third_version" if self.resource is DEPLOYMENTS and self.style == "blue-green":
                # Two versions are in the one Deployment: it must go back to the first before it gets a third.
                await self.undo()
            case "delete_rollout" if self.rollout is None or "deletionTimestamp" in self.rollout["metadata"]:
                await self.cluster.until(lambda: self.rollout is None, 300)
                document = plan(self.style)
                if self.resource is not LEADER_WORKER_SETS:
                    ref = {"apiVersion": "apps/v1", "kind": self.resource.kind, "name": NAME}
                    document["spec"]["workloadRef"] = ref
                await self.cluster.client.create(ROLLOUTS, document, NAMESPACE)

    async def end(self) -> None:
        for _ in range(90):
            if self.story.phase == "Healthy" and is_settled(self.cluster, self.wanted, self.replicas):
                return
            if self.story.phase == "Progressing" and self.rollout_status.get("currentStepState") == "StepPaused":
                await self.story.approve()
            await asyncio.sleep(10.0)
        raise AssertionError(f"not settled at {self.replicas} of {self.wanted}: {self.rollout_status}")

    @property
    def rollout(self) -> JsonObject | None:
        return self.cluster.find(ROLLOUTS, NAME, NAMESPACE)

    @property
    def rollout_status(self) -> JsonObject:
        found: JsonObject = (self.rollout or {}).get("status") or {}
        return found

    async def _edit_rollout(self, spec: JsonObject) -> None:
        if self.rollout is not None:
            await self.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"spec": spec})

    async def _scale(self, replicas: int) -> None:
        await self.cluster.client.patch(self.resource, NAME, NAMESPACE, {"spec": {"replicas": replicas}})
        self.replicas = replicas

    # Changes

    async def third_version(self) -> None:
        await self.story.change(V3)
        self.wanted = V3

    async def undo(self) -> None:
        await self.story.change(V1)
        self.wanted = V1

    async def scale_up(self) -> None:
        await self._scale(self.replicas + 2)

    async def scale_down(self) -> None:
        await self._scale(self.replicas - 1)

    async def pause(self) -> None:
        await self._edit_rollout({"strategy": {"paused": True}})

    async def disable(self) -> None:
        await self._edit_rollout({"disabled": True})

    async def delete_rollout(self) -> None:
        await self.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)

    async def replace_workload(self) -> None:
        await self.cluster.client.delete(self.resource, NAME, NAMESPACE)
        await self.cluster.until(lambda: self.cluster.find(self.resource, NAME, NAMESPACE) is None, 60)
        made = workload(self.resource, self.wanted)
        made["spec"]["replicas"] = self.replicas
        await self.cluster.client.create(self.resource, made, NAMESPACE)

    async def approve(self) -> None:
        if self.rollout_status.get("currentStepState") == "StepPaused":
            await self.story.approve()

    async def restart_operator(self) -> None:
        operator = self.cluster.parts["operator"]
        await operator.stop()
        await asyncio.sleep(3.0)
        await operator.restart(operator.faults)

    async def delete_pod(self) -> None:
        name = max(pod["metadata"]["name"] for pod in self.cluster.objects(PODS, NAMESPACE))
        await self.cluster.client.delete(PODS, name, NAMESPACE)


CHANGES = (
    *("third_version", "undo", "scale_up", "scale_down", "pause", "disable", "delete_rollout", "replace_workload"),
    *("approve", "restart_operator", "delete_pod"),
)
CASES = [
    (*RELEASES[number % len(RELEASES)], PAUSES[number % len(PAUSES)], pair if number % 2 else pair[::-1])
    for number, pair in enumerate(itertools.combinations(CHANGES, 2))
]


@pytest.mark.parametrize(
    ("resource", "style", "seconds", "pair"),
    CASES,
    ids=[f"{pair[0]}, {pair[1]} of {resource.kind} {style}" for resource, style, _, pair in CASES],
)
async def test_a_release_ends_well(resource: Resource, style: str, seconds: float, pair: tuple[str, str]) -> None:
    servers = BusyServers()
    async with cluster_with(servers) as cluster:
        await asyncio.sleep(1.0)
        story = await begun(cluster, resource, style)
        users = Users(cluster, story, resource, style)
        servers.in_flight = busy_for(5.0)
        await story.change(V2)
        await asyncio.sleep(3.0 + seconds)
        for change in pair:
            await users.do(change)
            await asyncio.sleep(seconds)
        for change in pair:
            await users.restore(change)
        await users.end()
