"""Rows of the upstream test plan that are not told elsewhere: plans, ids, scaling and routes of other kinds."""

import asyncio
from collections import Counter

import pytest
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, Story, group_set, release_cluster, rollout
from tests.rollouts.routes import DESTINATION_RULES, NGINX, VIRTUAL_SERVICES

from kohort.kube.errors import ApiError
from kohort.kube.resources import (
    CONFIG_MAPS,
    HTTP_ROUTES,
    INGRESSES,
    LEADER_WORKER_SETS,
    ROLLOUTS,
    TRAFFIC_ROUTINGS,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels, rollout_labels

ISTIO = "networking.istio.io/v1"


def shares(*percents: int) -> list[JsonObject]:
    return [{"replicas": f"{one}%", "traffic": f"{one}%", "pause": {}} for one in percents]


def routed(plan: JsonObject, **ref: Json) -> JsonObject:
    (strategy,) = plan["spec"]["strategy"].values()
    strategy["trafficRoutings"] = [{"service": "llm-leader", "gracePeriodSeconds": 1, **ref}]
    return plan


async def test_row_04_the_number_of_steps_is_fixed_while_progressing() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=shares(20, 40, 60)))
        await story.change(V2)
        await story.at(1)
        with pytest.raises(ApiError, match="Amount of Rollout steps are immutable"):
            await story.edit({"spec": {"strategy": {"canary": {"steps": shares(20)}}}})


async def test_row_08_blue_green_scales_both_sets() -> None:
    async with release_cluster(nodes=24) as (cluster, _):
        story = Story(cluster)
        steps: list[JsonObject] = [{"replicas": "50%", "traffic": "0%", "pause": {}}, {"replicas": "100%", "pause": {}}]
        await story.begin(group_set(replicas=5, size=1), rollout(blue_green=True, steps=steps))
        await story.change(V2)
        await story.at(1)
        for total, new in ((6, 3), (7, 4), (8, 4), (4, 4)):
            await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": total}})
            await story.until(lambda new=new: story.canary["spec"]["replicas"] == new and story.all_ready())  # type: ignore[misc]
            await story.at(1)
        assert story.images() == {V1}
        await story.change(V1)
        await story.healthy(V1)


async def test_row_28_another_plan_is_taken_up_at_the_step_that_fits() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(group_set(replicas=5, size=1), rollout(steps=shares(20, 60, 90)))
        await story.change(V2)
        await story.at(1)
        await story.edit({"spec": {"strategy": {"canary": {"steps": shares(60, 80, 90)}}}})
        await story.until(lambda: story.canary["spec"]["replicas"] == 3)
        await story.at(1)
        assert story.weight() == "60"


async def test_row_29_row_30_groups_carry_the_batch_that_brought_them() -> None:
    async with release_cluster(nodes=24) as (cluster, _):
        story = Story(cluster)
        await story.begin(group_set(replicas=5, size=2), rollout(steps=shares(20, 40, 100), routed=False))
        await cluster.client.patch(
            LEADER_WORKER_SETS, NAME, NAMESPACE, {"metadata": {"labels": {rollout_labels.ROLLOUT_ID: "1"}}}
        )
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.at(2)
        assert batches(story, "1") == {"1": 2, "2": 2}, "one group of two pods each"
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": 10}})
        await story.until(lambda: batches(story, "1") == {"1": 4, "2": 4})


def batches(story: Story, release: str) -> dict[str, int]:
    pods = story.pods(story.canary["metadata"]["name"])
    labels = [one["metadata"]["labels"] for one in pods]
    return dict(
        Counter(one[rollout_labels.BATCH_ID] for one in labels if one.get(rollout_labels.ROLLOUT_ID) == release)
    )


async def test_row_32_another_id_alone_relabels_what_is_released() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=shares(50, 100)))
        named = {"metadata": {"labels": {rollout_labels.ROLLOUT_ID: "1"}}}
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, named)
        await story.change(V2)
        await story.at(1)
        assert batches(story, "1") == {"1": 2}
        named["metadata"]["labels"][rollout_labels.ROLLOUT_ID] = "2"
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, named)
        await story.until(lambda: batches(story, "2") == {"1": 2})
        assert (story.progress["observedRolloutID"], story.step) == ("2", 1)


async def test_row_48_headers_and_cookies_then_a_weight() -> None:
    header = {"headers": [{"name": "user", "value": "demo"}]}
    cookie = {"headers": [{"name": "canary-by-cookie", "value": "demo"}]}
    steps = [{"replicas": 1, "matches": [header, cookie], "pause": {}}, {"replicas": 1, "traffic": "30%", "pause": {}}]
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=steps))
        await story.change(V2)
        await story.at(1)
        assert annotations(story, f"{NGINX}-by-") == {"cookie": "demo", "header": "user", "header-value": "demo"}
        await story.approve()
        await story.at(2)
        assert (annotations(story, f"{NGINX}-by-"), story.weight()) == ({}, "30")


def annotations(story: Story, prefix: str) -> dict[str, str]:
    found = story.cluster.find(INGRESSES, "llm-canary", NAMESPACE)
    assert found is not None
    return {key.removeprefix(prefix): text for key, text in found["metadata"]["annotations"].items() if prefix in key}


async def test_row_49_a_class_of_its_own_script() -> None:
    script = """
    local found = {}
    for _, match in ipairs(obj.matches or {}) do
      for _, header in ipairs(match.headers) do
        table.insert(found, { type = "Header", headerConfig = { key = header.name, values = { header.value } } })
      end
    end
    obj.annotations["alb.ingress.kubernetes.io/canary"] = "true"
    obj.annotations["alb.ingress.kubernetes.io/conditions." .. obj.canaryService] = json.encode(found)
    return obj.annotations
    """
    async with release_cluster() as (cluster, _):
        metadata = {"name": "kruise-rollout-configuration", "namespace": "kruise-rollout"}
        data = {"lua.traffic.routing.ingress.aliyun-alb": script}
        await cluster.client.create(CONFIG_MAPS, {"metadata": metadata, "data": data})
        story = Story(cluster)
        steps = [{"replicas": 1, "matches": [{"headers": [{"name": "user", "value": "demo"}]}], "pause": {}}]
        await story.begin(plan=routed(rollout(steps=steps), ingress={"name": "llm", "classType": "aliyun-alb"}))
        await story.change(V2)
        await story.at(1)
        found = annotations(story, "alb.ingress.kubernetes.io/")
        assert (
            found["conditions.llm-leader-canary"]
            == '[{"headerConfig":{"key":"user","values":["demo"]},"type":"Header"}]'
        )
        await story.change(V1)
        await story.healthy(V1)


# Routes of other kinds, through whole releases


def http_route() -> JsonObject:
    backend = {"group": "", "kind": "Service", "name": "llm-leader", "port": 80, "weight": 3}
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}], "backendRefs": [backend]}
    return {"metadata": {"name": "llm"}, "spec": {"hostnames": ["llm.example"], "rules": [rule]}}


def virtual_service() -> JsonObject:
    route = [{"destination": {"host": "llm-leader", "port": {"number": 80}}}]
    return {
        "metadata": {"name": "llm", "labels": {"team": "a"}},
        "spec": {"hosts": ["llm"], "http": [{"route": route}]},
    }


def destination_rule() -> JsonObject:
    subset = {"name": "base", "labels": {"tier": "gpu"}}
    return {"metadata": {"name": "llm"}, "spec": {"host": "llm-leader", "subsets": [subset]}}


def network(kind: str) -> JsonObject:
    return {"apiVersion": ISTIO, "kind": kind, "name": "llm"}


def content(story: Story, resource: Resource) -> JsonObject:
    found = story.cluster.find(resource, "llm", NAMESPACE)
    assert found is not None
    metadata = {key: found["metadata"].get(key) or {} for key in ("labels", "annotations")}
    return {"spec": found["spec"], **metadata}


async def test_row_52_http_route_weights_from_20_to_90_and_back() -> None:
    async with release_cluster(routes=(HTTP_ROUTES,)) as (cluster, _):
        story = Story(cluster)
        await cluster.client.create(HTTP_ROUTES, http_route(), NAMESPACE)
        before = content(story, HTTP_ROUTES)
        plan = routed(rollout(steps=shares(20, 50, 90)), gateway={"httpRouteName": "llm"})
        await story.begin(group_set(replicas=3, size=2), plan)
        await story.change(V2)
        for step, weights in ((1, [80, 20]), (2, [50, 50]), (3, [10, 90])):
            await story.at(step)
            (rule,) = content(story, HTTP_ROUTES)["spec"]["rules"]
            assert [one["weight"] for one in rule["backendRefs"]] == weights
            await story.approve()
        await story.healthy(V2)
        assert content(story, HTTP_ROUTES) == before


async def test_row_53_row_36_virtual_service_and_ingress_through_matches_and_weights() -> None:
    match = {
        "headers": [{"name": "user", "value": "demo", "type": "Exact"}],
        "queryParams": [{"name": "beta", "value": "1"}],
        "path": {"type": "PathPrefix", "value": "/v1"},
    }
    steps: list[JsonObject] = [{"replicas": 1, "matches": [match], "pause": {}}, *shares(50)]
    async with release_cluster(routes=(VIRTUAL_SERVICES,)) as (cluster, _):
        story = Story(cluster)
        await cluster.client.create(VIRTUAL_SERVICES, virtual_service(), NAMESPACE)
        before = content(story, VIRTUAL_SERVICES)
        ref = {"ingress": {"name": "llm"}, "customNetworkRefs": [network("VirtualService")]}
        await story.begin(plan=routed(rollout(steps=steps), **ref))
        await story.change(V2)
        await story.at(1)
        first, second = content(story, VIRTUAL_SERVICES)["spec"]["http"]
        assert first["match"] == [
            {"headers": {"user": {"exact": "demo"}}, "queryParams": {"beta": {"exact": "1"}}, "uri": {"prefix": "/v1"}}
        ]
        assert first["route"] == [{"destination": {"host": "llm-leader-canary", "port": {"number": 80}}}]
        assert second == before["spec"]["http"][0]
        assert annotations(story, f"{NGINX}-by-")["header"] == "user"
        await story.approve()
        await story.at(2)
        (rule,) = content(story, VIRTUAL_SERVICES)["spec"]["http"]
        assert [one["weight"] for one in rule["route"]] == [50, 50]
        assert story.weight() == "50"
        # Somebody else edits it meanwhile: beside the release, and inside the rule that it has divided.
        edit = {"metadata": {"labels": {"team": "b"}}, "spec": {"http": [{**rule, "timeout": "5s"}]}}
        await cluster.client.patch(VIRTUAL_SERVICES, "llm", NAMESPACE, edit)
        await story.approve()
        await story.healthy(V2)
        (own,) = before["spec"]["http"]
        edited = {"hosts": ["llm"], "http": [{**own, "timeout": "5s"}]}
        assert content(story, VIRTUAL_SERVICES) == {"spec": edited, "labels": {"team": "b"}, "annotations": {}}


async def test_row_54_a_traffic_routing_is_joined_and_left_by_a_release() -> None:
    async with release_cluster(routes=(VIRTUAL_SERVICES, DESTINATION_RULES)) as (cluster, _):
        story = Story(cluster)
        kinds = ((VIRTUAL_SERVICES, virtual_service()), (DESTINATION_RULES, destination_rule()))
        for resource, body in kinds:
            await cluster.client.create(resource, body, NAMESPACE)
        before = [content(story, resource) for resource, _ in kinds]
        ref = {"service": "llm-leader", "customNetworkRefs": [network("VirtualService"), network("DestinationRule")]}
        spec = {"objectRef": [ref], "strategy": {"weight": 20}}
        await cluster.client.create(TRAFFIC_ROUTINGS, {"metadata": {"name": "front"}, "spec": spec}, NAMESPACE)
        plan = rollout(steps=[{"replicas": 1, "pause": {}}], routed=False, trafficRoutingRef="front")
        await story.begin(plan=plan)
        await story.change(V2)
        await story.at(1)
        await story.until(lambda: "weight" in content(story, VIRTUAL_SERVICES)["spec"]["http"][0]["route"][0])
        route = content(story, VIRTUAL_SERVICES)["spec"]["http"][0]["route"]
        assert [(one["destination"].get("subset"), one["weight"]) for one in route] == [(None, 80), ("canary", 20)]
        names = [one["name"] for one in content(story, DESTINATION_RULES)["spec"]["subsets"]]
        assert names == ["base", "canary"]
        assert group_labels.REVISION not in story.selector("llm-leader"), "no Service is touched"
        await story.approve()
        await story.healthy(V2)
        await story.until(lambda: [content(story, resource) for resource, _ in kinds] == before)
        front = cluster.find(TRAFFIC_ROUTINGS, "front", NAMESPACE)
        assert front is not None
        assert front["metadata"]["finalizers"] == ["rollouts.kruise.io/trafficrouting"]
        await story.until(
            lambda: (cluster.find(TRAFFIC_ROUTINGS, "front", NAMESPACE) or {})["status"]["phase"] == "Healthy"
        )


async def test_row_56_two_rollouts_for_one_workload_are_refused_even_if_one_is_disabled() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.edit({"spec": {"disabled": True}})
        await asyncio.sleep(1)
        other = rollout()
        other["metadata"]["name"] = "other"
        with pytest.raises(ApiError, match=r"conflict with Rollout\(default/llm\)"):
            await cluster.client.create(ROLLOUTS, other, NAMESPACE)
