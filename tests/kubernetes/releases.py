"""Releases on a real cluster, told as in `tests/rollouts/releases.py`; here a story can only look again."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from tests.builders import deployment, lws, service

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import (
    BATCH_RELEASES,
    DEPLOYMENTS,
    HTTP_ROUTES,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    ROLLOUTS,
    SERVICES,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels, rollout_labels

PATIENCE = 120.0
NAME = "llm"
V1, V2 = "model:1", "model:2"
VIRTUAL_SERVICES = Resource("networking.istio.io", "v1", "virtualservices", "VirtualService")
DESTINATION_RULES = Resource("networking.istio.io", "v1", "destinationrules", "DestinationRule")
WEIGHT = "nginx.ingress.kubernetes.io/canary-weight"
GRACE = 1


def istio_definition(resource: Resource) -> JsonObject:
    """Enough of Istio for its objects to be stored."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [version],
        },
    }


def pod(image: str) -> JsonObject:
    return {"containers": [{"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]}


def rollout(kind: str, steps: list[JsonObject], route: JsonObject, *, blue_green: bool = False) -> JsonObject:
    """`route` is the provider of traffic, or the reference to a TrafficRouting."""
    strategy: JsonObject = {"steps": steps}
    if "trafficRoutingRef" in route:
        strategy |= route
    else:
        strategy["trafficRoutings"] = [{"service": NAME, "gracePeriodSeconds": GRACE, **route}]
    if not blue_green:
        strategy["enableExtraWorkloadForCanary"] = True
    group = "apps/v1" if kind == "Deployment" else "leaderworkerset.x-k8s.io/v1"
    ref = {"apiVersion": group, "kind": kind, "name": NAME}
    return {
        "metadata": {"name": NAME},
        "spec": {"workloadRef": ref, "strategy": {"blueGreen" if blue_green else "canary": strategy}},
    }


def ingress() -> JsonObject:
    backend = {"service": {"name": NAME, "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    return {"metadata": {"name": NAME}, "spec": {"rules": [{"host": "llm.example", "http": {"paths": paths}}]}}


def http_route() -> JsonObject:
    return {"metadata": {"name": NAME}, "spec": {"rules": [{"backendRefs": [{"name": NAME, "port": 80}]}]}}


def virtual_service() -> JsonObject:
    route = [{"destination": {"host": NAME}}]
    return {"metadata": {"name": NAME}, "spec": {"hosts": [NAME], "http": [{"route": route}]}}


class Release:
    """One workload with everything around it, in a namespace of its own."""

    def __init__(self, client: Client, namespace: str, kind: str = "LeaderWorkerSet") -> None:
        self.client = client
        self.namespace = namespace
        self.workloads = DEPLOYMENTS if kind == "Deployment" else LEADER_WORKER_SETS
        self.kind = kind

    async def begin(self, plan: JsonObject, *around: tuple[Resource, JsonObject]) -> None:
        selector = {"app": NAME} if self.kind == "Deployment" else {"app": NAME, group_labels.WORKER_INDEX: "0"}
        stable = service(NAME).selecting(selector).port(80, target=8080)
        for resource, obj in ((SERVICES, stable.namespaced(self.namespace)), *around):
            await self.client.create(resource, obj, self.namespace)
        await self.client.create(self.workloads, self._workload(), self.namespace)
        await self.client.create(ROLLOUTS, plan, self.namespace)
        await self.until(self._is_quiet, V1)

    async def noticed(self) -> None:
        """The released manager is asked only about changes of workloads that it has labelled, some time after it has
        called the Rollout healthy."""
        await self.until(partial(is_labelled, self.client, self.workloads, self.namespace))

    async def change(self, image: str) -> None:
        template = {"spec": pod(image)}
        inner = {"template": template} if self.kind == "Deployment" else _groups(template)
        await self.client.patch(self.workloads, NAME, self.namespace, {"spec": inner})

    async def approve(self, step: int) -> None:
        """When it has come to `step`, let it go on. The released manager may overwrite an approval with a status that
        it read before; then it is told again."""
        await self.at(step)
        await self.until(self._goes_on, step)

    async def _goes_on(self, step: int) -> bool:
        plan, progress = await self._state()
        state = progress.get("currentStepState")
        if progress.get("currentStepIndex") != step or state in (rollout_labels.READY, rollout_labels.COMPLETED):
            return True
        if state != rollout_labels.PAUSED:
            return False  # it sets its routes anew, and pauses again
        field = "blueGreenStatus" if "blueGreen" in plan["spec"]["strategy"] else "canaryStatus"
        version = {"resourceVersion": plan["metadata"]["resourceVersion"]}
        body = {"metadata": version, "status": {field: {"currentStepState": rollout_labels.READY}}}
        await self.client.patch(ROLLOUTS, NAME, self.namespace, body, subresource="status")
        await asyncio.sleep(0.5)
        return False

    async def at(self, step: int) -> None:
        async def there() -> bool:
            _, progress = await self._state()
            return (progress.get("currentStepIndex"), progress.get("currentStepState")) == (step, rollout_labels.PAUSED)

        await self.until(there)

    async def healthy(self, image: str) -> None:
        """The release is over, and has left nothing behind."""
        await self.until(self._is_quiet, image)

    async def weight(self) -> str | None:
        """Of the Ingress for the new version."""
        found = await self.client.find(INGRESSES, f"{NAME}-canary", self.namespace)
        return None if found is None else found["metadata"]["annotations"].get(WEIGHT)

    async def route_weights(self) -> dict[str, int]:
        rules = (await self.client.get(HTTP_ROUTES, NAME, self.namespace))["spec"]["rules"]
        return {one["name"]: one.get("weight", 1) for one in rules[-1]["backendRefs"]}

    async def pods(self) -> dict[str, JsonObject]:
        found = (await self.client.list(PODS, self.namespace)).items
        return {one["metadata"]["uid"]: one for one in found if "deletionTimestamp" not in one["metadata"]}

    async def until(self, condition: Callable[..., Awaitable[bool]], *given: Json) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not await _answered(condition(*given)):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            plan, _ = await self._state()
            releases = [one.get("status") for one in (await self.client.list(BATCH_RELEASES, self.namespace)).items]
            raise AssertionError(f"{self.namespace}: {condition} {given}: {plan.get('status')} {releases}") from None

    async def _state(self) -> tuple[JsonObject, JsonObject]:
        plan = await self.client.get(ROLLOUTS, NAME, self.namespace)
        status = plan.get("status") or {}
        return plan, status.get("canaryStatus") or status.get("blueGreenStatus") or {}

    async def _is_quiet(self, image: str) -> bool:
        plan, progress = await self._state()
        workload = await self.client.get(self.workloads, NAME, self.namespace)
        status, metadata = workload.get("status") or {}, workload["metadata"]
        images = {one["spec"]["containers"][0]["image"] for one in (await self.pods()).values()}
        done = (plan.get("status") or {}).get("phase") == rollout_labels.HEALTHY
        return (
            done
            and progress.get("currentStepState", rollout_labels.COMPLETED) == rollout_labels.COMPLETED
            and images == {image}
            and status.get("observedGeneration") == metadata["generation"]
            and status.get("readyReplicas") == status.get("updatedReplicas") == workload["spec"]["replicas"]
            and len((await self.client.list(self.workloads, self.namespace)).items) == 1
            and not (await self.client.list(BATCH_RELEASES, self.namespace)).items
            and await self.client.find(SERVICES, f"{NAME}-canary", self.namespace) is None
            and await self.weight() is None
        )

    def _workload(self) -> JsonObject:
        if self.kind == "Deployment":
            return deployment(NAME).namespaced(self.namespace).replicas(3).but("spec.template.spec", pod(V1))
        template = {"metadata": {"labels": {"app": NAME}}, "spec": pod(V1)}
        return lws(NAME, self.namespace).replicas(2).size(2).but("spec.leaderWorkerTemplate.workerTemplate", template)


def _groups(template: JsonObject) -> JsonObject:
    return {"leaderWorkerTemplate": {"workerTemplate": template}}


async def is_labelled(client: Client, workloads: Resource, namespace: str) -> bool:
    found = await client.get(workloads, NAME, namespace)
    return rollout_labels.WORKLOAD_TYPE in (found["metadata"].get("labels") or {})


async def _answered(question: Awaitable[bool]) -> bool:
    """What is away for a moment, or in the middle of a change, is looked at again."""
    try:
        return await question
    except ApiError:
        return False
