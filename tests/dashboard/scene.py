"""A cluster with sets in every state, and a dashboard on it, in real time: browsers have no other."""

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec
from aiohttp import ClientSession, CookieJar
from tests.builders import LeaderWorkerSet, deployment, lws, service, stateful_set
from tests.installed import installed

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.dashboard.running import RunningDashboard, running
from kohort.dashboard.server import DashboardSettings
from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.resources import (
    ANALYSIS_RUNS,
    INGRESSES,
    LEADER_WORKER_SETS,
    NAMESPACES,
    PODS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Key,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

GPU = "nvidia.com/gpu"
CAPACITY = {"cpu": "64", "memory": "512Gi", GPU: "8"}
TOPOLOGY = {"topology.kubernetes.io/zone": 2, "example.com/rack": 4}
SIMULATED = "simulation.kohort.dev/"
NAMES = ("inference", "training")


def new_cluster(nodes: int = 16, **settings: Json) -> Cluster:
    return Cluster(
        parts=("workloads", "scheduler", "operator"),
        nodes=nodes,
        node_settings={"capacity": CAPACITY, "topology": TOPOLOGY, **settings},
        contents=installed("workloads"),
    )


def model_set(
    name: str,
    namespace: str = "default",
    *,
    image: str = "",
    replicas: int = 2,
    size: int = 2,
    gpus: int = 2,
    **marks: str,
) -> LeaderWorkerSet:
    """A set of groups that ask for accelerators; `marks` say what the simulation does with its pods."""
    amounts = {"cpu": "2", "memory": "16Gi", GPU: str(gpus)}
    main = {
        "name": "server",
        "image": image or f"registry.example.com/{name}:1.4.0",
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": amounts, "limits": amounts},
    }
    annotations = {f"{SIMULATED}{key.replace('_', '-')}": value for key, value in marks.items()}
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": {"containers": [main]}}
    return (
        lws(name)
        .namespaced(namespace)
        .labels(app=name)
        .replicas(replicas)
        .size(size)
        .but("spec.leaderWorkerTemplate.workerTemplate", template)
    )


def image_change(image: str) -> list[JsonObject]:
    return [
        {
            "op": "replace",
            "path": "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image",
            "value": image,
        }
    ]


def rollout_of(
    name: str, namespace: str, steps: list[JsonObject], of: Resource = LEADER_WORKER_SETS, *, extra: bool = True
) -> JsonObject:
    """`of` is the kind that it releases; `extra` puts the new version into a workload of its own."""
    route = {"service": f"{name}-leader", "gracePeriodSeconds": 1, "ingress": {"name": name, "classType": "nginx"}}
    strategy = {"enableExtraWorkloadForCanary": extra, "steps": copy.deepcopy(steps), "trafficRoutings": [route]}
    ref = {"apiVersion": of.api_version, "kind": of.kind, "name": name}
    return {
        "apiVersion": "rollouts.kruise.io/v1beta1",
        "kind": "Rollout",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"workloadRef": ref, "strategy": {"canary": strategy}},
    }


STEPS: list[JsonObject] = [
    {"replicas": 1, "matches": [{"headers": [{"name": "x-tester", "value": "1"}]}], "pause": {}},
    {"replicas": "50%", "traffic": "20%", "pause": {"duration": 600}},
    {"replicas": "100%", "traffic": "100%"},
]


PARTITION_STEPS: list[JsonObject] = [*STEPS[:2], {"replicas": "100%"}]
"""In partition style, no step of more than 50 % has traffic."""


def ingress_of(name: str, namespace: str) -> JsonObject:
    backend = {"service": {"name": f"{name}-leader", "port": {"number": 80}}}
    rule = {"host": f"{name}.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ingressClassName": "nginx", "rules": [rule]},
    }


async def patiently(attempt: Callable[[], Awaitable[object]]) -> None:
    """The API server and the webhooks that it calls share one process and real time: on a busy machine, the 5 seconds
    of a call pass. A user tries again."""
    async with asyncio.timeout(120):
        while True:
            with suppress(InternalError):
                await attempt()
                return


class Scene:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def namespace(self, *names: str) -> None:
        for name in names:
            if self.cluster.find(NAMESPACES, name) is None:
                await self.client.create(NAMESPACES, {"metadata": {"name": name}})

    async def create(self, *sets: JsonObject) -> None:
        for one in sets:
            await patiently(partial(self.client.create, LEADER_WORKER_SETS, one))

    async def ready(self, name: str, namespace: str = "default") -> None:
        await self.until_set(name, namespace, lambda found: _is_available(found))

    async def rolled(self, name: str, namespace: str = "default") -> None:
        """All groups have the newest revision and are ready."""
        await self.until_set(name, namespace, _is_rolled)

    async def until_set(self, name: str, namespace: str, holds: Callable[[JsonObject], bool]) -> None:
        def condition() -> bool:
            found = self.cluster.find(LEADER_WORKER_SETS, name, namespace)
            return found is not None and holds(found)

        await self.cluster.until(condition, timeout=60)

    async def until_step(self, name: str, namespace: str, step: int, state: str) -> None:
        def condition() -> bool:
            status = (self.cluster.find(ROLLOUTS, name, namespace) or {}).get("status") or {}
            return (status.get("currentStepIndex"), status.get("currentStepState")) == (step, state)

        await self.cluster.until(condition, timeout=60)

    async def change_image(self, name: str, namespace: str, image: str) -> None:
        from kohort.kube.client import PatchType

        change = image_change(image)
        await patiently(partial(self.client.patch, LEADER_WORKER_SETS, name, namespace, change, PatchType.JSON))

    async def released(self, name: str, namespace: str, steps: list[JsonObject] = STEPS) -> None:
        """A set behind a Service and an Ingress, and its Rollout."""
        leaders = {group_labels.NAME: name, group_labels.WORKER_INDEX: "0"}
        front = service(f"{name}-leader").namespaced(namespace).but("spec.selector", leaders)
        await self.client.create(SERVICES, front.but("spec.ports", [{"port": 80, "targetPort": 8080}]))
        await self.client.create(INGRESSES, ingress_of(name, namespace))
        await patiently(partial(self.client.create, ROLLOUTS, rollout_of(name, namespace, steps)))

    async def released_workload(
        self, of: Resource, name: str, namespace: str = "default", *, image: str = "web:1", extra: bool = True
    ) -> None:
        """A Deployment or StatefulSet behind a Service and an Ingress, and its Rollout, at rest."""
        front = service(f"{name}-leader").namespaced(namespace).selecting({"app": name}).port(80, target=8080)
        await self.client.create(SERVICES, front)
        await self.client.create(INGRESSES, ingress_of(name, namespace))
        made = (stateful_set if of == STATEFUL_SETS else deployment)(name, namespace).replicas(4)
        made = made.labels(app=name).but("spec.template.spec.containers.0.image", image)
        await patiently(partial(self.client.create, of, made))
        steps = STEPS if extra and of != STATEFUL_SETS else PARTITION_STEPS
        rollout = rollout_of(name, namespace, steps, of, extra=extra)
        await patiently(partial(self.client.create, ROLLOUTS, rollout))

        def ready() -> bool:
            found = self.cluster.find(of, name, namespace) or {}
            return (found.get("status") or {}).get("readyReplicas") == 4 and self.phase_of(name, namespace) == "Healthy"

        await self.cluster.until(ready, timeout=60)

    async def release_image(self, of: Resource, name: str, image: str, namespace: str = "default") -> None:
        """Until the release waits at its first step."""
        body = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
        await patiently(partial(self.client.patch, of, name, namespace, body))
        await self.until_step(name, namespace, 1, "StepPaused")

    def phase_of(self, name: str, namespace: str) -> str:
        found = self.cluster.find(ROLLOUTS, name, namespace) or {}
        return str((found.get("status") or {}).get("phase", ""))

    async def judged(self, name: str, namespace: str, canary: list[float], stable: list[float]) -> None:
        """The record of an analysis of the current step, with these shares of bad samples."""
        rollout = self.cluster.find(ROLLOUTS, name, namespace) or {}
        status = rollout["status"]
        release = status["canaryStatus"].get("observedRolloutID", "")
        spec = {"rollout": name, "release": release, "step": status["currentStepIndex"], "analysis": "errors"}
        body: JsonObject = {"metadata": {"name": f"{name}-run", "namespace": namespace}, "spec": spec}
        await self.client.create(ANALYSIS_RUNS, body)
        windows = [
            {"until": 30.0 * number, "canaryBad": bad, "canaryTotal": 1.0, "stableBad": other, "stableTotal": 1.0}
            for number, (bad, other) in enumerate(zip(canary, stable, strict=True), 1)
        ]
        limits = {"limit": "maxDelta", "failAbove": 0.03}
        check = {**limits, "place": 0, "error": 0.01, "passBelow": 0.02, "expected": 0.01}
        result = {**limits, "verdict": "Running", "share": 0.02, "stableShare": 0.01, "lower": 0.002, "upper": 0.018}
        metric = {
            "name": "error-rate",
            "checks": [check],
            "results": [result],
            "windows": windows,
            "verdict": "Running",
            "canaryValue": canary[-1],
            "stableValue": stable[-1],
            "critical": True,
        }
        # With a verdict: a run of a Rollout that names no analysis is ended otherwise.
        found = {"phase": "Passed", "mode": "Enforce", "readings": len(canary), "elapsedSeconds": 300.0}
        status_body: JsonObject = {"status": {**found, "metrics": [metric]}}
        await self.client.patch(ANALYSIS_RUNS, f"{name}-run", namespace, status_body, subresource="status")

    def step_of(self, name: str, namespace: str) -> int:
        found = self.cluster.find(ROLLOUTS, name, namespace) or {}
        return int((found.get("status") or {}).get("currentStepIndex") or 0)

    def pods_of(self, name: str, namespace: str = "default") -> list[Key]:
        found = self.cluster.objects(PODS, namespace)
        names = [one["metadata"] for one in found if one["metadata"]["labels"].get(group_labels.NAME) == name]
        return sorted(Key(one["namespace"], one["name"]) for one in names)


def _is_rolled(found: JsonObject) -> bool:
    status, wanted = found.get("status") or {}, found["spec"]["replicas"]
    counts = (status.get("updatedReplicas"), status.get("readyReplicas"))
    return _is_available(found) and counts == (wanted, wanted)


def _is_available(found: JsonObject) -> bool:
    status = found.get("status") or {}
    seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
    return seen and any(
        one["type"] == "Available" and one["status"] == "True" for one in status.get("conditions") or ()
    )


@asynccontextmanager
async def scene(nodes: int = 16, **settings: Json) -> AsyncIterator[Scene]:
    async with new_cluster(nodes, **settings) as cluster:
        yield Scene(cluster)


@asynccontextmanager
async def dashboard(
    of: Scene, settings: DashboardSettings | None = None, client: Client | None = None
) -> AsyncIterator[RunningDashboard]:
    """A dashboard that acts as the administrator, or as `client`."""
    used = client or Client(of.cluster.transport(), field_manager="kohort-dashboard", user_agent="kohort-dashboard")
    async with running(
        used, ("127.0.0.1", 0), settings or DashboardSettings(), CliCommands(), namespace="default"
    ) as found:
        yield found


class Visit:
    """A script with a session: requests as a browser would make them, answers as they are."""

    def __init__(self, session: ClientSession, base: str) -> None:
        self.session = session
        self.base = base

    async def json(self, path: str, status: int = 200) -> Json:
        async with self.session.get(self.base + path, headers={"Accept": "application/json"}) as answer:
            assert answer.status == status, await answer.text()
            return msgspec.json.decode(await answer.read())

    async def until(self, path: str, holds: Callable[[Json], bool]) -> Json:
        """The page, once this holds: pages follow the cluster by watches, a little later. Looks again whenever the page
        is sent something."""
        live = f"{self.base}/dashboard/live?view={path}"
        async with asyncio.timeout(120), self.session.get(live) as answer:
            async for _ in answer.content:
                page = await self.json(path)
                if holds(page):
                    return page
        raise AssertionError(f"{path} is gone")

    async def text(self, path: str, status: int = 200) -> str:
        async with self.session.get(self.base + path, headers={"Accept": "text/html"}) as answer:
            assert answer.status == status, await answer.text()
            return await answer.text()


@asynccontextmanager
async def visit(of: RunningDashboard) -> AsyncIterator[Visit]:
    """Opens the one-time link."""
    base = f"http://127.0.0.1:{of.port}"
    jar = CookieJar(unsafe=True, treat_as_secure_origin=[base])
    async with ClientSession(cookie_jar=jar) as session:
        async with session.get(base + of.link()) as answer:
            assert answer.status == 200, await answer.text()
        yield Visit(session, base)
