"""Deployments are released by the same machine: canary beside, blue-green inside one Deployment."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.builders import deployment, service
from tests.rollouts.releases import BLUE_GREEN_STEPS, NAMESPACE, V1, V2, ingress, release_cluster, rollout

from kohort.kube.resources import BATCH_RELEASES, DEPLOYMENTS, INGRESSES, PODS, REPLICA_SETS, ROLLOUTS, SERVICES
from kohort.objects.jsontypes import JsonObject
from kohort.rollouts import wire
from kohort.testing import Cluster

NAME = "llm"
STEPS: list[JsonObject] = [
    {"replicas": "20%", "traffic": "20%", "pause": {}},
    {"replicas": "60%", "traffic": "60%", "pause": {"duration": 5}},
]


class Story:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def begin(self, plan: JsonObject) -> None:
        client = self.cluster.client
        plan["spec"]["workloadRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
        await client.create(SERVICES, service("llm-leader").selecting({"app": NAME}).port(80), NAMESPACE)
        await client.create(INGRESSES, ingress(), NAMESPACE)
        subject = deployment(NAME).replicas(5).but("spec.template.spec.containers.0.image", V1)
        await client.create(DEPLOYMENTS, subject, NAMESPACE)
        await client.create(ROLLOUTS, plan, NAMESPACE)
        await self.until(lambda: self.phase == "Healthy" and self.ready())

    async def change(self, image: str) -> None:
        container = {"name": "main", "image": image}
        body = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await self.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, body)

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
    def state(self) -> str:
        return str(self.rollout["status"].get("currentStepState", ""))

    @property
    def stable(self) -> JsonObject:
        found = self.cluster.find(DEPLOYMENTS, NAME, NAMESPACE)
        assert found is not None
        return found

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
            or wire.STABLE_REVISION in self.stable["metadata"]["labels"]
            or self.stable["spec"].get("paused")
            or len(self.cluster.objects(DEPLOYMENTS, NAMESPACE)) > 1
            or self.cluster.objects(BATCH_RELEASES, NAMESPACE)
            or self.cluster.find(SERVICES, "llm-leader-canary", NAMESPACE)
            or self.cluster.find(INGRESSES, "llm-canary", NAMESPACE)
            or wire.TEMPLATE_HASH in selector
        )


@asynccontextmanager
async def story() -> AsyncIterator[Story]:
    async with release_cluster() as (cluster, _):
        yield Story(cluster)


async def test_row_39_a_canary_beside_the_deployment() -> None:
    async with story() as told:
        await told.begin(rollout(steps=STEPS))
        await told.change(V2)
        assert told.stable["spec"]["paused"] is True
        await told.at(1)
        assert told.pods() == [V1] * 5 + [V2]
        await told.approve()
        await told.at(2)
        assert told.pods() == [V1] * 5 + [V2] * 3
        await told.healthy(V2)


async def test_row_40_a_canary_rolled_back_leaves_every_stable_pod_alone() -> None:
    async with story() as told:
        await told.begin(rollout(steps=STEPS))
        before = {one["metadata"]["name"] for one in told.cluster.objects(PODS, NAMESPACE)}
        await told.change(V2)
        await told.at(1)
        await told.change(V1)
        await told.healthy(V1)
        assert {one["metadata"]["name"] for one in told.cluster.objects(PODS, NAMESPACE)} == before


async def test_row_05_blue_green_inside_one_deployment() -> None:
    async with story() as told:
        await told.begin(rollout(blue_green=True, steps=BLUE_GREEN_STEPS))
        settings = told.stable["spec"]["strategy"]
        await told.change(V2)
        await told.at(1)
        assert told.pods() == [V1] * 5 + [V2] * 3
        assert told.stable["spec"]["minReadySeconds"] == 2147483646
        await told.approve()
        await told.at(2)
        assert told.pods() == [V1] * 5 + [V2] * 5
        await told.approve()
        await told.at(3)
        await told.approve()
        await told.healthy(V2)
        assert told.stable["spec"]["strategy"] == settings
        assert told.stable["spec"].get("minReadySeconds", 0) == 0


async def test_row_06_blue_green_rolled_back_inside_one_deployment() -> None:
    async with story() as told:
        await told.begin(rollout(blue_green=True, steps=BLUE_GREEN_STEPS))
        await told.change(V2)
        await told.at(1)
        await told.approve()
        await told.at(2)
        await told.change(V1)
        await told.healthy(V1)
        sets = [one for one in told.cluster.objects(REPLICA_SETS, NAMESPACE) if one["spec"]["replicas"]]
        assert len(sets) == 1


async def test_row_08_blue_green_inside_one_deployment_follows_its_size() -> None:
    async with story() as told:
        await told.begin(rollout(blue_green=True, steps=BLUE_GREEN_STEPS))
        await told.change(V2)
        await told.at(1)
        for total, new in ((6, 3), (7, 4), (4, 2)):
            await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": total}})
            await told.until(lambda total=total, new=new: told.pods() == [V1] * total + [V2] * new)  # type: ignore[misc]
