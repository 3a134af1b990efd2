"""What the stories of releases have in common: a cluster, a set behind a Service and an Ingress, and its Rollout."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from tests.builders import lws, service
from tests.installed import installed
from tests.rollouts.monitor import GRACE, Monitor
from tests.rollouts.routes import DESTINATION_RULES, free_definition

from kohort import operator
from kohort.kube.errors import AlreadyExists, ApiError
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    BATCH_RELEASES,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    INGRESSES,
    LEADER_WORKER_SETS,
    NODES,
    PODS,
    ROLLOUTS,
    SERVICES,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.feature_gates import Features
from kohort.rules import group_labels, rollout_labels
from kohort.testing import Cluster

NAMESPACE = "default"
NAME = "llm"
V1, V2, V3 = "model:1", "model:2", "model:3"
ROUTED = [{"service": "llm-leader", "gracePeriodSeconds": 3, "ingress": {"name": "llm", "classType": "nginx"}}]
CANARY_STEPS: list[JsonObject] = [
    {"replicas": 1, "matches": [{"headers": [{"name": "x-tester", "value": "1"}]}], "pause": {}},
    {"replicas": "50%", "traffic": "20%", "pause": {"duration": 60}},
    {"replicas": "100%", "traffic": "100%"},
]
BLUE_GREEN_STEPS: list[JsonObject] = [
    {"replicas": "50%", "traffic": "0%", "pause": {}},
    {"replicas": "100%", "traffic": "50%", "pause": {}},
    {"replicas": "100%", "traffic": "100%", "pause": {}},
]


def new_cluster(nodes: int = 12, features: Features | None = None) -> Cluster:
    """Pods take their time to start, as models do."""

    def plug(manager: Manager) -> None:
        operator.register(manager, features=features or Features())

    return Cluster(
        parts=("workloads", "scheduler"),
        nodes=nodes,
        node_settings={"start_latency": 2.0},
        extra={"operator": plug},
        contents=installed("workloads"),
    )


@asynccontextmanager
async def release_cluster(
    nodes: int = 12, features: Features | None = None, *, routes: tuple[Resource, ...] = (), grace: float = GRACE
) -> AsyncIterator[tuple[Cluster, Monitor]]:
    """A cluster and the monitor on it. `routes` are kinds of routes that it knows besides Ingresses."""
    async with new_cluster(nodes, features) as cluster:
        for resource in routes:
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, free_definition(resource))
        await asyncio.sleep(1.0)
        monitor = Monitor(routes=[one for one in routes if one is not DESTINATION_RULES], grace=grace)
        async with monitor.watching(cluster):
            yield cluster, monitor
        monitor.check()


@asynccontextmanager
async def midway(plan: JsonObject | None = None) -> AsyncIterator["Story"]:
    """A release of the second version that has come to its first pause."""
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=plan)
        await story.change(V2)
        await story.at(1)
        yield story


def group_set(image: str = V1, replicas: int = 2, size: int = 2) -> JsonObject:
    template = {"metadata": {"labels": {"app": "llm"}}, "spec": _pod(image)}
    return lws(NAME).replicas(replicas).size(size).but("spec.leaderWorkerTemplate.workerTemplate", template)


def _pod(image: str) -> JsonObject:
    return {"containers": [{"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]}


def rollout(
    *, blue_green: bool = False, steps: list[JsonObject] | None = None, routed: bool = True, **more: Json
) -> JsonObject:
    strategy: JsonObject = {"steps": copy.deepcopy(steps or (BLUE_GREEN_STEPS if blue_green else CANARY_STEPS)), **more}
    if routed:
        strategy["trafficRoutings"] = copy.deepcopy(ROUTED)
    if not blue_green:
        strategy["enableExtraWorkloadForCanary"] = True
    ref = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": NAME}
    return {
        "apiVersion": "rollouts.kruise.io/v1beta1",
        "kind": "Rollout",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"workloadRef": ref, "strategy": {"blueGreen" if blue_green else "canary": strategy}},
    }


def ingress() -> JsonObject:
    backend = {"service": {"name": "llm-leader", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "llm", "namespace": NAMESPACE},
        "spec": {"rules": [{"host": "llm.example", "http": {"paths": paths}}]},
    }


class Story:
    """The words in which a release is told."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def begin(self, subject: JsonObject | None = None, plan: JsonObject | None = None) -> None:
        """A set that serves at version 1, and a Rollout that guards it."""
        leader = service("llm-leader").selecting({"app": "llm", group_labels.WORKER_INDEX: "0"}).port(80, target=8080)
        await self.create(SERVICES, leader)
        await self.create(INGRESSES, ingress())
        await self.create(LEADER_WORKER_SETS, subject or group_set())
        await self.create(ROLLOUTS, plan or rollout())
        await self.until(lambda: self.phase == "Healthy" and self.all_ready())

    async def create(self, resource: Resource, document: JsonObject) -> None:
        """As a user does, who tries again when the webhook is away for a moment; in the version that it says."""
        version = document.get("apiVersion", resource.api_version).rpartition("/")[2]
        resource = msgspec.structs.replace(resource, version=version)
        for _ in range(10):
            try:
                await self.client.create(resource, document, NAMESPACE)
                return
            except AlreadyExists:
                return
            except ApiError:
                await asyncio.sleep(1.0)
        raise AssertionError(f"{resource.plural} could not be created")

    async def change(self, image: str, **spec: Json) -> None:
        """What a user does to release: another template."""
        template = {"workerTemplate": {"spec": _pod(image)}}
        body = {"spec": {"leaderWorkerTemplate": template, **spec}}
        await self.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)

    async def approve(self) -> None:
        await self.status(currentStepState="StepReady")

    async def jump(self, step: int) -> None:
        await self.status(nextStepIndex=step)

    async def status(self, **fields: Json) -> None:
        name = "blueGreenStatus" if "blueGreen" in self.rollout["spec"]["strategy"] else "canaryStatus"
        await self.client.patch(ROLLOUTS, NAME, NAMESPACE, {"status": {name: fields}}, subresource="status")

    async def edit(self, body: JsonObject) -> None:
        await self.client.patch(ROLLOUTS, NAME, NAMESPACE, body)

    async def at(self, step: int, state: str = "StepPaused", timeout: float = 600.0) -> None:
        try:
            await self.until(lambda: (self.step, self.state) == (step, state), timeout)
        except AssertionError as problem:
            raise AssertionError(f"not at step {step} {state}: {self.told()}") from problem

    async def healthy(self, image: str, timeout: float = 600.0) -> None:
        try:
            await self.until(lambda: self.phase == "Healthy" and self.images() == {image} and self.all_ready(), timeout)
            await self.until(self.nothing_left)
        except AssertionError as problem:
            raise AssertionError(f"not healthy at {image}: {self.told()}") from problem

    async def until(self, condition: Callable[[], bool], timeout: float = 600.0) -> None:
        await self.cluster.until(condition, timeout)

    async def cordon(self, closed: bool = True) -> None:
        """Nothing more fits into the cluster."""
        for node in self.cluster.objects(NODES):
            body = {"spec": {"unschedulable": closed or None}}
            await self.client.patch(NODES, node["metadata"]["name"], "", body)

    # Looking

    @property
    def rollout(self) -> JsonObject:
        return self.cluster.find(ROLLOUTS, NAME, NAMESPACE) or {}

    @property
    def stable(self) -> JsonObject:
        return self.cluster.find(LEADER_WORKER_SETS, NAME, NAMESPACE) or {}

    @property
    def phase(self) -> str:
        return str((self.rollout.get("status") or {}).get("phase", ""))

    @property
    def progress(self) -> JsonObject:
        status = self.rollout.get("status") or {}
        found: JsonObject = status.get("canaryStatus") or status.get("blueGreenStatus") or {}
        return found

    @property
    def step(self) -> int:
        return int(self.progress.get("currentStepIndex", 0))

    @property
    def state(self) -> str:
        return str(self.progress.get("currentStepState", ""))

    @property
    def canaries(self) -> list[JsonObject]:
        return [
            one
            for one in self.cluster.objects(LEADER_WORKER_SETS, NAMESPACE)
            if rollout_labels.CANARY_SET in (one["metadata"].get("labels") or {})
        ]

    @property
    def canary(self) -> JsonObject:
        live = [one for one in self.canaries if "deletionTimestamp" not in one["metadata"]]
        assert len(live) == 1, [one["metadata"]["name"] for one in self.canaries]
        return live[0]

    def pods(self, name: str = NAME) -> list[JsonObject]:
        return [
            one
            for one in self.cluster.objects(PODS, NAMESPACE)
            if one["metadata"].get("labels", {}).get(group_labels.NAME) == name
        ]

    def images(self) -> set[str]:
        """Of all pods that belong to the stable set."""
        return {one["spec"]["containers"][0]["image"] for one in self.pods()}

    def all_ready(self) -> bool:
        status, replicas = self.stable.get("status") or {}, self.stable["spec"]["replicas"]
        observed = status.get("observedGeneration") == self.stable["metadata"]["generation"]
        return bool(observed and status.get("readyReplicas", 0) == status.get("replicas", 0) == replicas)

    def nothing_left(self) -> bool:
        """Everything that a release makes is gone, everything that it changes is as before."""
        metadata = self.stable["metadata"]
        ours = [key for key in metadata.get("annotations", {}) if "rollouts.kruise.io" in key]
        labels = [
            key for key in metadata["labels"] if "rollouts.kruise.io" in key and key != rollout_labels.WORKLOAD_TYPE
        ]
        return not (
            ours
            or labels
            or self.canaries
            or self.cluster.objects(BATCH_RELEASES, NAMESPACE)
            or self.cluster.find(SERVICES, "llm-leader-canary", NAMESPACE)
            or self.cluster.find(INGRESSES, "llm-canary", NAMESPACE)
            or group_labels.REVISION in self.selector("llm-leader")
        )

    def selector(self, name: str) -> JsonObject:
        found = self.cluster.find(SERVICES, name, NAMESPACE)
        assert found is not None, f"no Service {name}"
        selector: JsonObject = found["spec"]["selector"]
        return selector

    def weight(self) -> str | None:
        found = self.cluster.find(INGRESSES, "llm-canary", NAMESPACE)
        if found is None:
            return None
        weight: str | None = found["metadata"]["annotations"].get("nginx.ingress.kubernetes.io/canary-weight")
        return weight

    def condition(self, type: str) -> JsonObject | None:
        conditions = (self.rollout.get("status") or {}).get("conditions") or []
        return next((one for one in conditions if one["type"] == type), None)

    def rolling(self) -> JsonObject:
        found: JsonObject = self.stable["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
        return found

    def events(self, reason: str) -> list[str]:
        return [one["message"] for one in self.cluster.objects(EVENTS, NAMESPACE) if one["reason"] == reason]

    def told(self) -> str:
        """For the message of a failed test."""
        release = self.cluster.find(BATCH_RELEASES, NAME, NAMESPACE) or {}
        status = self.stable.get("status")
        return (
            f"{self.rollout.get('status')} / {release.get('spec')} {release.get('status')} / {status} {self.images()}"
        )
