"""Two Rollouts that drain, and one Service of both: each takes out, and puts back, its own pods only."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.builders import deployment, service, stateful_set
from tests.rollouts.drained_pods import BusyServers, Departures, cluster_with, drained
from tests.rollouts.releases import NAMESPACE, V1, V2, group_set, ingress

from kohort.kube.resources import (
    DEPLOYMENTS,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels
from kohort.testing import Cluster

STEPS: list[JsonObject] = [{"replicas": 1, "pause": {}}]
MADE = {DEPLOYMENTS: deployment, STATEFUL_SETS: stateful_set}


class TwoRollouts:
    """One is busy and waits for its requests, the other one goes on."""

    def __init__(self, cluster: Cluster, servers: BusyServers, departures: Departures) -> None:
        self.cluster, self.servers, self.departures = cluster, servers, departures

    async def begin(self, *workloads: tuple[str, Resource]) -> None:
        await self.cluster.client.create(SERVICES, service("llm-leader").selecting({"app": "llm"}).port(80), NAMESPACE)
        await self.cluster.client.create(INGRESSES, ingress(), NAMESPACE)
        for name, resource in workloads:
            await self.cluster.client.create(resource, workload(name, resource), NAMESPACE)
            plan = drained(STEPS, seconds=600)
            plan["metadata"]["name"] = name
            if resource is LEADER_WORKER_SETS:
                plan["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = True
            plan["spec"]["workloadRef"] |= {"apiVersion": resource.api_version, "kind": resource.kind, "name": name}
            await self.cluster.client.create(ROLLOUTS, plan, NAMESPACE)
        await self.until(lambda: all(self.phase(name) == "Healthy" for name, _ in workloads))
        await self.until(lambda: len(self.serving()) == 2 * len(workloads))

    async def change(self, name: str, resource: Resource, image: str) -> None:
        body = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
        await self.cluster.client.patch(resource, name, NAMESPACE, body)

    async def until(self, condition: Callable[[], bool]) -> None:
        try:
            await self.cluster.until(condition, 600)
        except AssertionError as problem:
            told = [one.get("status") for one in self.cluster.objects(ROLLOUTS, NAMESPACE)]
            raise AssertionError(f"{problem}: {told} {self.service}") from problem

    def phase(self, name: str) -> str:
        return str(((self.cluster.find(ROLLOUTS, name, NAMESPACE) or {}).get("status") or {}).get("phase", ""))

    @property
    def service(self) -> JsonObject:
        found = self.cluster.find(SERVICES, "llm-leader", NAMESPACE)
        assert found is not None
        return found

    def pods(self) -> list[JsonObject]:
        return [one for one in self.cluster.objects(PODS, NAMESPACE) if "deletionTimestamp" not in one["metadata"]]

    def serving(self) -> list[str]:
        selector = self.service["spec"]["selector"]
        return [one["metadata"]["name"] for one in self.pods() if selector.items() <= one["metadata"]["labels"].items()]

    def left(self, name: str) -> list[str]:
        """Pods of a workload that get no requests."""
        serving = self.serving()
        found = (one["metadata"]["name"] for one in self.pods())
        return sorted(pod for pod in found if pod.startswith(f"{name}-") and pod not in serving)

    def as_before(self) -> bool:
        labelled = any(rollout_labels.SERVES in one["metadata"]["labels"] for one in self.pods())
        annotated = rollout_labels.WITHDRAWN_PODS in (self.service["metadata"].get("annotations") or {})
        return self.service["spec"]["selector"] == {"app": "llm"} and not labelled and not annotated

    def images(self, name: str) -> list[str]:
        found = [one for one in self.pods() if one["metadata"]["name"].startswith(f"{name}-")]
        return [one["spec"]["containers"][0]["image"] for one in found]


def workload(name: str, resource: Resource) -> JsonObject:
    if resource is LEADER_WORKER_SETS:
        document = group_set(replicas=2, size=1)
        document["metadata"]["name"] = name
        return document
    made = MADE[resource](name).replicas(2).but("spec.template.spec.containers.0.image", V1)
    labels = {"app": "llm", "part": name}
    return made.but("spec.template.metadata.labels", labels).but("spec.selector.matchLabels", {"part": name})


@asynccontextmanager
async def two_rollouts(other: Resource) -> AsyncIterator[TwoRollouts]:
    """`first` is a Deployment whose pods have requests for as long as `busy` says."""
    servers = BusyServers()
    departures = Departures(servers)
    async with cluster_with(servers) as cluster:
        await asyncio.sleep(1.0)
        async with departures.watching(cluster):
            story = TwoRollouts(cluster, servers, departures)
            await story.begin(("first", DEPLOYMENTS), ("other", other))
            yield story
    assert not departures.undrained, "; ".join(departures.undrained)


def busy(pod: JsonObject) -> int:
    first = pod["metadata"]["name"].startswith("first-")
    return 2 if first and pod["spec"]["containers"][0]["image"] == V1 else 0


def idle(pod: JsonObject) -> int:
    del pod
    return 0


async def _goes_on(story: TwoRollouts, other: Resource) -> None:
    if other is LEADER_WORKER_SETS:
        await story.cluster.client.patch(other, "other", NAMESPACE, {"spec": {"replicas": 1}})
        await story.until(lambda: len(story.images("other")) == 1)
        return
    await story.change("other", other, V2)
    await story.until(lambda: sorted(story.images("other")) == [V1, V2] and not story.left("other"))


@pytest.mark.parametrize("other", [DEPLOYMENTS, STATEFUL_SETS, LEADER_WORKER_SETS], ids=lambda one: one.kind)
async def test_a_release_does_not_undo_the_withdrawal_of_another_one(other: Resource) -> None:
    async with two_rollouts(other) as story:
        story.servers.in_flight = busy
        await story.change("first", DEPLOYMENTS, V2)
        await story.until(lambda: bool(story.left("first")))
        leaving = story.left("first")
        await _goes_on(story, other)
        assert story.left("first") == leaving, "its requests last: it still leaves"
        assert story.images("first").count(V1) == 2
        story.servers.in_flight = idle
        await story.until(lambda: sorted(story.images("first")) == [V1, V2])
        await story.until(story.as_before)


@pytest.mark.parametrize("gone", ["first", "other"])
async def test_a_rollout_that_is_deleted_midway_puts_back_its_own_pods(gone: str) -> None:
    async with two_rollouts(STATEFUL_SETS) as story:
        story.servers.in_flight = lambda pod: 2 if pod["spec"]["containers"][0]["image"] == V1 else 0
        await story.change("first", DEPLOYMENTS, V2)
        await story.change("other", STATEFUL_SETS, V2)
        await story.until(lambda: bool(story.left("first") and story.left("other")))
        rest = "other" if gone == "first" else "first"
        leaving = story.left(rest)
        # What goes on by itself at once is not drained: nothing is in flight there.
        story.servers.in_flight = lambda pod: 2 if pod["metadata"]["name"] in leaving else 0
        await story.cluster.client.delete(ROLLOUTS, gone, NAMESPACE)
        await story.until(lambda: story.images(gone) == [V2, V2])
        await story.until(lambda: len(story.serving()) == 2 + 1)
        assert story.left(rest) == leaving
        story.servers.in_flight = idle
        await story.until(lambda: V2 in story.images(rest))
        await story.until(story.as_before)
        story.departures.undrained.clear()
