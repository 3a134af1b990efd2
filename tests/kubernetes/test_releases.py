"""Releases on real Kubernetes by an operator with exactly the rights that are installed: canary and blue-green, through
Ingress, HTTPRoute, Istio and a shared TrafficRouting, promoted and rolled back. Nothing is refused, and no right that
was granted goes unused without a reason."""

import asyncio
from pathlib import Path

import pytest
from tests.kubernetes.access import AccessLog, asked_by_the_server, installed_rights, streamed
from tests.kubernetes.controlplane import ControlPlane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words, simulated_nodes
from tests.kubernetes.releases import (
    DESTINATION_RULES,
    NAME,
    V1,
    V2,
    VIRTUAL_SERVICES,
    WEIGHT,
    Release,
    http_route,
    ingress,
    istio_definition,
    rollout,
    virtual_service,
)

from kohort.cluster.gateway.crd import definitions as gateway_definitions
from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    HTTP_ROUTES,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    REPLICA_SETS,
    ROLLOUT_HISTORIES,
    ROLLOUTS,
    SERVICES,
    TRAFFIC_ROUTINGS,
)
from kohort.objects.json_types import JsonObject
from kohort.objects.well_known_names import DELETION_COST, DESIRED_REPLICAS
from kohort.operator import wait_established
from kohort.rollouts.traffic.annotations import CONFIGURATION
from kohort.rollouts.workloads.draining_rounds import LOWEST_COST
from kohort.rules.rollout_labels import ROLLOUT_NAME

SYSTEM = "releases-system"
SCRIPTS = {"lua.traffic.routing.ingress.special": f'return {{["{WEIGHT}"] = obj.weight}}'}
INGRESS = {"ingress": {"name": NAME, "classType": "nginx"}}
ROUTE = {"gateway": {"httpRouteName": NAME}}
TESTERS = [{"headers": [{"name": "x-tester", "value": "1"}]}]
PAUSE: JsonObject = {"pause": {}}
KEPT = 10
"""Records of releases, of each Rollout."""


async def canary_through_ingress_and_route(client: Client) -> None:
    release = Release(client, "canary")
    steps: list[JsonObject] = [
        {"replicas": 1, "matches": TESTERS, **PAUSE},
        {"replicas": "50%", "traffic": "20%", **PAUSE},
    ]
    plan = rollout("LeaderWorkerSet", steps, {**INGRESS, **ROUTE})
    await release.begin(plan, (INGRESSES, ingress()), (HTTP_ROUTES, http_route()))
    await _remember_releases(client, "canary", KEPT)
    before = await client.get(HTTP_ROUTES, NAME, "canary")
    await release.change(V2)
    await release.approve(1)
    await release.at(2)
    assert await release.weight() == "20"
    assert await release.route_weights() == {NAME: 80, f"{NAME}-canary": 20}
    await release.approve(2)
    await release.healthy(V2)
    assert (await client.get(HTTP_ROUTES, NAME, "canary"))["spec"] == before["spec"]

    async def made_room() -> bool:
        """The oldest record did, for this release."""
        return await client.find(ROLLOUT_HISTORIES, "old-0", "canary") is None

    await release.until(made_room)


async def blue_green_with_an_autoscaler(client: Client) -> None:
    release = Release(client, "blue-green")
    steps: list[JsonObject] = [
        {"replicas": "100%", "traffic": "0%", **PAUSE},
        {"replicas": "100%", "traffic": "100%", **PAUSE},
    ]
    target = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": NAME}
    scaler: JsonObject = {
        "metadata": {"name": NAME},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3},
    }
    plan = rollout("LeaderWorkerSet", steps, ROUTE, blue_green=True)
    await release.begin(plan, (HTTP_ROUTES, http_route()), (HORIZONTAL_POD_AUTOSCALERS, scaler))
    await release.change(V2)
    await release.approve(1)
    await release.at(2)
    assert await release.route_weights() == {NAME: 0, f"{NAME}-canary": 100}
    assert len(await release.pods()) == 8
    held = await client.get(HORIZONTAL_POD_AUTOSCALERS, NAME, "blue-green")
    assert held["spec"]["scaleTargetRef"]["name"] != NAME
    await release.approve(2)
    await release.healthy(V2)
    freed = await client.get(HORIZONTAL_POD_AUTOSCALERS, NAME, "blue-green")
    assert freed["spec"]["scaleTargetRef"]["name"] == NAME


async def rolled_back(client: Client) -> None:
    release = Release(client, "rollback")
    steps: list[JsonObject] = [{"replicas": "50%", "traffic": "50%", **PAUSE}]
    await release.begin(rollout("LeaderWorkerSet", steps, INGRESS), (INGRESSES, ingress()))
    before = (await release.pods()).keys()
    await release.change(V2)
    await release.at(1)
    assert await release.weight() == "50"
    await release.change(V1)
    await release.healthy(V1)
    assert (await release.pods()).keys() == before


async def deployment_through_istio(client: Client) -> None:
    release = Release(client, "istio", "Deployment")
    kinds = (VIRTUAL_SERVICES, DESTINATION_RULES)
    refs = [{"apiVersion": one.api_version, "kind": one.kind, "name": NAME} for one in kinds]
    subsets: JsonObject = {"metadata": {"name": NAME}, "spec": {"host": NAME}}
    steps: list[JsonObject] = [{"replicas": 1, "traffic": "30%", **PAUSE}]
    plan = rollout("Deployment", steps, {"customNetworkRefs": refs})
    await release.begin(plan, (VIRTUAL_SERVICES, virtual_service()), (DESTINATION_RULES, subsets))
    await release.change(V2)
    await release.at(1)
    (rule,) = (await client.get(VIRTUAL_SERVICES, NAME, "istio"))["spec"]["http"]
    assert [one["weight"] for one in rule["route"]] == [70, 30]
    assert "subsets" in (await client.get(DESTINATION_RULES, NAME, "istio"))["spec"]
    await release.approve(1)
    await release.healthy(V2)
    assert (await client.get(VIRTUAL_SERVICES, NAME, "istio"))["spec"] == virtual_service()["spec"]


async def deployment_blue_green(client: Client) -> None:
    release = Release(client, "swapped", "Deployment")
    steps: list[JsonObject] = [{"replicas": "100%", "traffic": "100%", **PAUSE}]
    plan = rollout("Deployment", steps, INGRESS, blue_green=True)
    await release.begin(plan, (INGRESSES, ingress()))
    await release.change(V2)
    await release.at(1)
    assert len(await release.pods()) == 6
    await release.approve(1)
    await release.healthy(V2)


async def deployment_by_partition(client: Client) -> None:
    """The Deployment controller of Kubernetes leaves pods to the partition, and goes on with them at the end."""
    release = Release(client, "partition", "Deployment")
    steps: list[JsonObject] = [{"replicas": 1, "traffic": "30%", **PAUSE}, {"replicas": 2, "traffic": "60%", **PAUSE}]
    plan = rollout("Deployment", steps, INGRESS)
    plan["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
    await release.begin(plan, (INGRESSES, ingress()))
    before = (await client.get(DEPLOYMENTS, NAME, "partition"))["spec"]["strategy"]
    await release.change(V2)
    await release.at(1)
    assert await _images(release) == [V1, V1, V2]
    assert await release.weight() == "30"
    await release.change(V1)
    await release.healthy(V1)
    await release.change(V2)
    await release.approve(1)
    await release.at(2)
    assert await _images(release) == [V1, V2, V2]
    await release.approve(2)
    await release.healthy(V2)
    assert (await client.get(DEPLOYMENTS, NAME, "partition"))["spec"]["strategy"] == before


async def drained_deployment(client: Client) -> None:
    """The ReplicaSets of Kubernetes delete the pods that have left the Service, and its Deployment controller leaves
    the others alone, also when the new version is complete."""
    release = Release(client, "drained", "Deployment")
    routing = {**INGRESS, "drainTimeoutSeconds": 30}
    plan = rollout("Deployment", [{"replicas": 1, "traffic": "30%", **PAUSE}], routing)
    plan["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
    await release.begin(plan, (INGRESSES, ingress()))
    departures = asyncio.create_task(_costs_of_deleted_pods(client, "drained", 3))
    await release.change(V2)
    await release.approve(1)
    await release.healthy(V2)
    assert await departures == [LOWEST_COST] * 3
    stable = await client.get(SERVICES, NAME, "drained")
    assert stable["spec"]["selector"] == {"app": NAME}
    marks = [one["metadata"].get("annotations") or {} for one in (await release.pods()).values()]
    assert not any(DELETION_COST in one for one in marks)
    (current,) = [one for one in (await client.list(REPLICA_SETS, "drained")).items if one["spec"]["replicas"]]
    assert current["metadata"]["annotations"][DESIRED_REPLICAS] == "3"


async def _costs_of_deleted_pods(client: Client, namespace: str, count: int) -> list[str]:
    found: dict[str, str] = {}
    async for event in client.watch(PODS, namespace):
        metadata = event.object.get("metadata") or {}
        if "deletionTimestamp" in metadata:
            found.setdefault(metadata["uid"], (metadata.get("annotations") or {}).get(DELETION_COST, ""))
        if len(found) == count:
            break
    return list(found.values())


async def _images(release: Release) -> list[str]:
    return sorted(one["spec"]["containers"][0]["image"] for one in (await release.pods()).values())


async def shared_routing(client: Client) -> None:
    """A TrafficRouting that a Rollout joins and leaves; and the script of a user for an Ingress class of their own."""
    release = Release(client, "shared")
    ref = {"service": NAME, "gracePeriodSeconds": 1, "ingress": {"name": NAME, "classType": "special"}}
    routing: JsonObject = {"metadata": {"name": "routes"}, "spec": {"objectRef": [ref], "strategy": {"weight": 25}}}
    plan = rollout("LeaderWorkerSet", [{"replicas": 1, **PAUSE}], {"trafficRoutingRef": "routes"})
    await release.begin(plan, (INGRESSES, ingress()), (TRAFFIC_ROUTINGS, routing))
    await release.change(V2)
    await release.at(1)

    async def routed() -> bool:
        return await release.weight() == "25"

    await release.until(routed)
    await release.approve(1)
    await release.healthy(V2)
    await client.delete(TRAFFIC_ROUTINGS, "routes", "shared")

    async def gone() -> bool:
        return await client.find(TRAFFIC_ROUTINGS, "routes", "shared") is None

    await release.until(gone)


async def deleted_in_the_middle(client: Client) -> None:
    """A Rollout that is deleted during a release puts everything back first."""
    release = Release(client, "deleted")
    steps: list[JsonObject] = [{"replicas": 1, "traffic": "10%", **PAUSE}]
    await release.begin(rollout("LeaderWorkerSet", steps, INGRESS), (INGRESSES, ingress()))
    await release.change(V2)
    await release.at(1)
    await client.delete(ROLLOUTS, NAME, "deleted")

    async def gone() -> bool:
        rest = (await client.list(LEADER_WORKER_SETS, "deleted")).items
        return await client.find(ROLLOUTS, NAME, "deleted") is None and len(rest) == 1

    await release.until(gone)
    assert await release.weight() is None


STORIES = {
    "canary": canary_through_ingress_and_route,
    "blue-green": blue_green_with_an_autoscaler,
    "rollback": rolled_back,
    "istio": deployment_through_istio,
    "swapped": deployment_blue_green,
    "partition": deployment_by_partition,
    "drained": drained_deployment,
    "shared": shared_routing,
    "deleted": deleted_in_the_middle,
}


NOT_SEEN = {
    ("apps", "statefulsets", "get"): "only for the history of Rollouts of StatefulSets",
    ("kohort.dev", "analysisruns", "create"): "only for Rollouts that name a ReleaseAnalysis",
    ("kohort.dev", "analysisruns", "delete"): "as above, for the oldest of more than ten",
    ("kohort.dev", "analysisruns/status", "patch"): "as above",
    ("kohort.dev", "releaseanalyses/status", "patch"): "as above",
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
    ): "only for ReleaseAnalyses with Secrets: test_secret_access",
}
"""Rights that the stories here do not need, and what needs them."""


@pytest.mark.timeout(300)
async def test_releases_with_the_installed_rights(kubernetes: ControlPlane, tmp_path: Path) -> None:
    options = InstallOptions(namespace=SYSTEM, replicas=0)
    (port,) = free_ports(1)
    log = AccessLog(kubernetes.audit_log, SYSTEM)
    async with administrator(kubernetes, *STORIES) as client, simulated_nodes(kubernetes):
        await _define_networks(client)
        async with installed(kubernetes, client, options, port) as kubeconfig:
            await client.create(CONFIG_MAPS, {"metadata": {"name": CONFIGURATION}, "data": SCRIPTS}, SYSTEM)
            with operator(kubeconfig, tmp_path / "operator.log", *service_words(port, SYSTEM)) as process:
                await process.says("controllers started")
                async with asyncio.TaskGroup() as stories:
                    for story in STORIES.values():
                        stories.create_task(story(client))
                assert process.stop() == 0
        await _forget_networks(client)
    assert log.refused() == []
    # What the life of sets needs is shown in test_roles.
    granted = installed_rights(options)
    beyond = (
        granted - installed_rights(InstallOptions(rollouts=False)) - streamed(granted) - asked_by_the_server(granted)
    )
    assert sorted(beyond - log.used() - NOT_SEEN.keys()) == []


async def _remember_releases(client: Client, namespace: str, count: int) -> None:
    """As many records of earlier releases as are kept."""
    for number in range(count):
        metadata = {"name": f"old-{number}", "labels": {ROLLOUT_NAME: NAME}}
        await client.create(ROLLOUT_HISTORIES, {"metadata": metadata, "spec": {}}, namespace)


def _networks() -> list[JsonObject]:
    return [*gateway_definitions(), istio_definition(VIRTUAL_SERVICES), istio_definition(DESTINATION_RULES)]


async def _define_networks(client: Client) -> None:
    for definition in _networks():
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await wait_established(client, definition["metadata"]["name"])


async def _forget_networks(client: Client) -> None:
    for definition in _networks():
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
