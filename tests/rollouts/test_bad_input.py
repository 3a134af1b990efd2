"""Bad input: refused, or told with object, field and remedy; and a workload is never left held without an owner."""

import pytest
from tests.builders import service
from tests.rollouts.releases import (
    NAME,
    NAMESPACE,
    V1,
    V2,
    Story,
    group_set,
    ingress,
    new_cluster,
    release_cluster,
    rollout,
)
from tests.rollouts.test_upstream_test_plan import http_route, routed

from kohort.kube.errors import ApiError
from kohort.kube.resources import (
    CONFIG_MAPS,
    HTTP_ROUTES,
    INGRESSES,
    LEADER_WORKER_SETS,
    ROLLOUTS,
    SERVICES,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels

STEP: list[JsonObject] = [{"replicas": 1, "traffic": "20%", "pause": {}}]
LEADERS = service("llm-leader").selecting({"app": "llm", group_labels.WORKER_INDEX: "0"}).port(80, target=8080)


def changed(**spec: Json) -> JsonObject:
    plan = rollout()
    plan["spec"] |= spec
    return plan


def partition() -> JsonObject:
    plan = rollout()
    del plan["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"]
    return plan


def steps(*given: JsonObject) -> JsonObject:
    return rollout(steps=[*given])


REFUSED: list[tuple[JsonObject, str]] = [
    (
        changed(workloadRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": ""}),
        r"WorkloadRef\.Name: Required",
    ),
    (
        changed(workloadRef={"apiVersion": "batch/v1", "kind": "Job", "name": "x"}),
        r"Spec\.ObjectRef\.WorkloadRef: .*kind is not supported",
    ),
    (steps({"replicas": "50%"}, {"replicas": "20%"}), r"Steps\[1\].*must be a non decreasing sequence"),
    (steps({"replicas": 1, "traffic": "120%"}), r'Steps\[0\]\.Traffic: Invalid value: "120%"'),
    (steps({"replicas": 0}), r"Steps\[0\]\.Replicas: Invalid value: 0"),
    (partition(), "set enableExtraWorkloadForCanary=true"),
]


async def test_refused_with_field_and_remedy() -> None:
    async with new_cluster() as cluster:
        for document, words in REFUSED:
            with pytest.raises(ApiError, match=words):
                await cluster.client.create(ROLLOUTS, document, NAMESPACE)


async def test_a_rollout_for_a_workload_that_is_not_there_waits_for_it() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.create(SERVICES, LEADERS)
        await story.create(INGRESSES, ingress())
        await story.create(ROLLOUTS, rollout(steps=STEP))
        await story.until(lambda: story.phase == "Initial")
        assert story.rollout["status"]["message"] == "Workload Not Found"
        await story.until(lambda: bool(story.events("WorkloadNotFound")))
        assert story.events("WorkloadNotFound") == [
            "spec.workloadRef: LeaderWorkerSet default/llm (leaderworkerset.x-k8s.io/v1) does not exist; create it or "
            "correct the reference"
        ]
        await story.create(LEADER_WORKER_SETS, group_set())
        await story.until(lambda: story.phase == "Healthy")


def without_service(plan: JsonObject) -> JsonObject:
    plan["spec"]["strategy"]["canary"]["trafficRoutings"][0]["service"] = "lost"
    return plan


def by_ingress(plan: JsonObject) -> JsonObject:
    return routed(plan, ingress={"name": "lost"})


def by_gateway(plan: JsonObject) -> JsonObject:
    return routed(plan, gateway={"httpRouteName": "lost"})


@pytest.mark.parametrize(
    ("resource", "plan", "field", "end"),
    [
        (SERVICES, without_service(rollout(steps=STEP)), "trafficRoutings[0].service", "repaired"),
        (INGRESSES, by_ingress(rollout(steps=STEP)), "trafficRoutings[0].ingress", "rolled back"),
        (HTTP_ROUTES, by_gateway(rollout(steps=STEP)), "trafficRoutings[0].gateway", "deleted"),
    ],
    ids=["service", "ingress", "http-route"],
)
async def test_a_missing_object_is_told_and_the_workload_has_a_way_out(
    resource: Resource, plan: JsonObject, field: str, end: str
) -> None:
    async with release_cluster(routes=(HTTP_ROUTES,)) as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=plan)
        await story.change(V2)
        await story.until(lambda: bool(story.events("InitializeFailed")))
        message = story.rollout["status"]["message"]
        assert f"{resource.kind} default/lost" in message and field in message and "create it" in message
        assert story.images() == {V1}
        if end == "repaired":
            made = {SERVICES: LEADERS, INGRESSES: ingress(), HTTP_ROUTES: http_route()}[resource]
            await story.create(resource, {**made, "metadata": {**made["metadata"], "name": "lost"}})
            if resource is SERVICES:
                rules = ingress()["spec"]["rules"]
                rules[0]["http"]["paths"][0]["backend"]["service"]["name"] = "lost"
                await cluster.client.patch(INGRESSES, "llm", NAMESPACE, {"spec": {"rules": rules}})
            await story.until(lambda: story.step == 1 and story.state not in ("", "BeforeStepUpgrade"))
        elif end == "rolled back":
            await story.change(V1)
            await story.healthy(V1)
        else:
            await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
            await story.until(lambda: not story.rollout and story.images() == {V2} and story.nothing_left())


@pytest.mark.parametrize(
    ("script", "why"),
    [("while true do end", "did not finish within 1 s"), ("local t = {} while true do t[#t + 1] = {} end", "memory")],
    ids=["loops", "grows"],
)
async def test_a_script_that_runs_wild_is_stopped_and_the_release_can_be_taken_back(script: str, why: str) -> None:
    async with release_cluster() as (cluster, _):
        metadata = {"name": "kruise-rollout-configuration", "namespace": "kruise-rollout"}
        data = {"lua.traffic.routing.ingress.nginx": script}
        await cluster.client.create(CONFIG_MAPS, {"metadata": metadata, "data": data})
        story = Story(cluster)
        await story.begin(plan=rollout(steps=STEP))
        await story.change(V2)
        await story.until(lambda: bool(story.events("RouteFailed")))
        message = story.rollout["status"]["message"]
        assert why in message and "lua.traffic.routing.ingress.nginx" in message and "correct it" in message
        await story.change(V1)
        await story.healthy(V1)
