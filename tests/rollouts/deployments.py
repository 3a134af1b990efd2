"""What the stories of released Deployments and StatefulSets have in common."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.builders import deployment, service, stateful_set
from tests.rollouts.releases import NAMESPACE, V1, ingress, release_cluster

from kohort.kube.resources import (
    BATCH_RELEASES,
    DEPLOYMENTS,
    INGRESSES,
    PODS,
    REPLICA_SETS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels
from kohort.testing import Cluster

NAME = "llm"
STEPS: list[JsonObject] = [
    {"replicas": "20%", "traffic": "20%", "pause": {}},
    {"replicas": "60%", "traffic": "60%", "pause": {"duration": 5}},
]


class Story:
    def __init__(self, cluster: Cluster, resource: Resource = DEPLOYMENTS) -> None:
        self.cluster = cluster
        self.resource = resource

    async def begin(self, plan: JsonObject) -> None:
        client = self.cluster.client
        plan["spec"]["workloadRef"] = {"apiVersion": "apps/v1", "kind": self.resource.kind, "name": NAME}
        await client.create(SERVICES, service("llm-leader").selecting({"app": NAME}).port(80), NAMESPACE)
        await client.create(INGRESSES, ingress(), NAMESPACE)
        made = stateful_set if self.resource == STATEFUL_SETS else deployment
        subject = made(NAME).replicas(5).but("spec.template.spec.containers.0.image", V1)
        await client.create(self.resource, subject, NAMESPACE)
        await client.create(ROLLOUTS, plan, NAMESPACE)
        await self.until(lambda: self.phase == "Healthy" and self.ready())

    async def change(self, image: str) -> None:
        container = {"name": "main", "image": image}
        await self.edit({"spec": {"template": {"spec": {"containers": [container]}}}})

    async def edit(self, body: JsonObject) -> None:
        await self.cluster.client.patch(self.resource, NAME, NAMESPACE, body)

    async def approve(self) -> None:
        key = "blueGreenStatus" if "blueGreen" in self.rollout["spec"]["strategy"] else "canaryStatus"
        body = {"status": {key: {"currentStepState": "StepReady"}}}
        await self.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, body, subresource="status")

    async def at(self, step: int) -> None:
        await self.until(lambda: (self.rollout["status"]["currentStepIndex"], self.state) == (step, "StepPaused"))

    async def healthy(self, image: str) -> None:
        await self.until(lambda: self.phase == "Healthy" and self.images() == {image} and self.ready())
        await self.until(self.nothing_left)

    async def until(self, condition: Callable[[], bool]) -> None:
        try:
            await self.cluster.until(condition, 600)
        except AssertionError as problem:
            releases = [one.get("status") for one in self.cluster.objects(BATCH_RELEASES, NAMESPACE)]
            raise AssertionError(f"{problem}: {self.rollout.get('status')} {releases}") from problem

    @property
    def rollout(self) -> JsonObject:
        return self.cluster.find(ROLLOUTS, NAME, NAMESPACE) or {"status": {}}

    @property
    def phase(self) -> str:
        return str((self.rollout.get("status") or {}).get("phase", ""))

    @property
    def message(self) -> str:
        return str((self.rollout.get("status") or {}).get("message", ""))

    @property
    def state(self) -> str:
        return str(self.rollout["status"].get("currentStepState", ""))

    @property
    def stable(self) -> JsonObject:
        found = self.cluster.find(self.resource, NAME, NAMESPACE)
        assert found is not None
        return found

    @property
    def partition(self) -> int:
        """Of a StatefulSet."""
        strategy = self.stable["spec"].get("updateStrategy") or {}
        return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)

    @property
    def revision_key(self) -> str:
        return rollout_labels.REVISION_HASH if self.resource == STATEFUL_SETS else rollout_labels.TEMPLATE_HASH

    @property
    def finalising(self) -> str:
        status = self.rollout["status"]
        return str((status.get("canaryStatus") or status.get("blueGreenStatus") or {}).get("finalisingStep", ""))

    def versions(self) -> list[str]:
        """Of which the Deployment itself has pods."""
        sets = self.cluster.objects(REPLICA_SETS, NAMESPACE)
        own = [one for one in sets if one["metadata"]["ownerReferences"][0]["name"] == NAME and one["spec"]["replicas"]]
        return [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in own]

    def pods(self) -> list[str]:
        """The images of all running pods, of both versions."""
        found = [one for one in self.cluster.objects(PODS, NAMESPACE) if "deletionTimestamp" not in one["metadata"]]
        return sorted(one["spec"]["containers"][0]["image"] for one in found)

    def images(self) -> set[str]:
        return set(self.pods())

    def ready(self) -> bool:
        status = self.stable.get("status") or {}
        observed = status.get("observedGeneration") == self.stable["metadata"]["generation"]
        return bool(observed and status.get("readyReplicas") == status.get("updatedReplicas") == 5)

    def nothing_left(self) -> bool:
        ours = [key for key in self.stable["metadata"].get("annotations", {}) if "rollouts.kruise.io" in key]
        selector = (self.cluster.find(SERVICES, "llm-leader", NAMESPACE) or {})["spec"]["selector"]
        return not (
            ours
            or rollout_labels.STABLE_REVISION in self.stable["metadata"].get("labels", {})
            or self.stable["spec"].get("paused")
            or self.partition
            or len(self.cluster.objects(DEPLOYMENTS, NAMESPACE)) > 1
            or self.cluster.objects(BATCH_RELEASES, NAMESPACE)
            or self.cluster.find(SERVICES, "llm-leader-canary", NAMESPACE)
            or self.cluster.find(INGRESSES, "llm-canary", NAMESPACE)
            or rollout_labels.TEMPLATE_HASH in selector
            or rollout_labels.REVISION_HASH in selector
        )


@asynccontextmanager
async def story(resource: Resource = DEPLOYMENTS) -> AsyncIterator[Story]:
    async with release_cluster() as (cluster, _):
        yield Story(cluster, resource)
