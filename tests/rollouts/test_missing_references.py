"""A Rollout that names what is not there says so at once: in the answer to who wrote it, and in a condition."""

import copy
import re

import msgspec
import pytest
from tests.builders import deployment, service
from tests.rollouts.releases import (
    NAME,
    NAMESPACE,
    V1,
    V2,
    Story,
    group_set,
    ingress,
    midway,
    release_cluster,
    rollout,
)

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.kube.http import Request
from kohort.kube.resources import DEPLOYMENTS, INGRESSES, LEADER_WORKER_SETS, ROLLOUTS, SERVICES
from kohort.objects.json_types import JsonObject
from kohort.rollouts import validation
from kohort.rollouts.feature_gates import Features
from kohort.rules import group_labels, rollout_labels
from kohort.testing import Cluster

COLLECTION = f"/apis/rollouts.kruise.io/v1beta1/namespaces/{NAMESPACE}/rollouts"
MERGE = "application/merge-patch+json"


async def warned(cluster: Cluster, method: str, path: str, body: JsonObject | None = None) -> str:
    """The warnings of an answer, as kubectl would print them."""
    content = "application/json" if method == "POST" else MERGE
    headers = cluster.client.headers(content_type=content if body is not None else "")
    data = msgspec.json.encode(body) if body is not None else b""
    response = await cluster.server.handle(Request(method, path, (), headers, data), ADMIN)
    assert response.status < 300, response.body
    return response.headers.get("warning", "")


async def begin(story: Story, *, selector: JsonObject | None = None, routed: bool = True) -> None:
    if selector is not None:
        await story.create(SERVICES, service("llm-leader").selecting(selector).port(80, target=8080))
    if routed:
        await story.create(INGRESSES, ingress())
    await story.create(LEADER_WORKER_SETS, group_set())
    await story.until(story.all_ready)


LEADERS = {"app": "llm", group_labels.WORKER_INDEX: "0"}
WRONG: dict[str, tuple[JsonObject | None, bool, str, str]] = {
    "no Service": (None, True, "RefNotFound", "Service default/llm-leader .* does not exist"),
    "no Ingress": (LEADERS, False, "RefNotFound", "Ingress default/llm .* does not exist"),
    "neither": (None, False, "RefNotFound", "Service .* does not exist.*; Ingress .* does not exist"),
    "selects nothing": ({"app": "other"}, True, "ServiceSelectsNoPods", "asks for app=other, .* have app=llm"),
    "selects workers": ({"app": "llm", group_labels.WORKER_INDEX: "1"}, True, "ServiceSelectsNoPods", "leader"),
}


@pytest.mark.parametrize(("selector", "routed", "reason", "text"), WRONG.values(), ids=list(WRONG))
async def test_what_is_wrong_is_said_at_once_and_taken_back_when_it_is_mended(
    selector: JsonObject | None, routed: bool, reason: str, text: str
) -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await begin(story, selector=selector, routed=routed)
        assert re.search(text, await warned(cluster, "POST", COLLECTION, rollout()))
        await story.until(lambda: story.condition("ResolvedRefs") is not None, 20)
        condition = story.condition("ResolvedRefs") or {}
        assert (condition["status"], condition["reason"]) == ("False", reason)
        assert re.search(text, condition["message"])
        assert story.phase == "Healthy"
        assert re.search(text, story.rollout["status"]["message"])
        assert len(story.events("UnresolvedRefs")) == 1
        stable = service("llm-leader").selecting(LEADERS).port(80, target=8080)
        await story.create(SERVICES, stable)
        await cluster.client.patch(SERVICES, "llm-leader", NAMESPACE, {"spec": {"selector": LEADERS}})
        await story.create(INGRESSES, ingress())
        await story.until(lambda: (story.condition("ResolvedRefs") or {})["status"] == "True", 60)
        assert "does not" not in story.rollout["status"]["message"]


async def test_a_set_that_has_no_pods_yet_is_judged_by_its_template() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.create(INGRESSES, ingress())
        await story.create(SERVICES, service("llm-leader").selecting(LEADERS).port(80, target=8080))
        await story.create(LEADER_WORKER_SETS, group_set())
        assert await warned(cluster, "POST", COLLECTION, rollout()) == ""
        await story.until(lambda: (story.condition("ResolvedRefs") or {}).get("status") == "True", 60)
        assert not story.events("UnresolvedRefs")


async def test_a_deployment_behind_a_service_for_others_is_noticed() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await story.create(INGRESSES, ingress())
        await story.create(SERVICES, service("llm-leader").selecting({"app": "other"}).port(80))
        await story.create(DEPLOYMENTS, deployment(NAME).replicas(1))
        plan = rollout()
        plan["spec"]["workloadRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
        assert "selects no pod of Deployment llm" in await warned(cluster, "POST", COLLECTION, plan)


async def test_a_shared_route_that_does_not_exist_is_noticed() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await begin(story)
        await story.create(ROLLOUTS, rollout(routed=False, trafficRoutingRef="front"))
        await story.until(lambda: (story.condition("ResolvedRefs") or {}).get("reason") == "RefNotFound", 60)
        assert "TrafficRouting front does not exist" in story.rollout["status"]["message"]


def test_a_pause_that_is_ignored_is_said() -> None:
    def told(*steps: JsonObject, blue_green: bool = False) -> list[str]:
        plan = rollout(steps=[*steps], blue_green=blue_green)
        return [one for one in validation.warnings(validation.parse(plan), None) if "pause" in one]

    full: JsonObject = {"replicas": "100%", "traffic": "100%"}
    assert told({"replicas": 1}, {**full, "pause": {}}) == [
        'step 2: its pause is ignored: a last step with replicas "100%" is promoted as soon as it is ready; '
        "put the pause on the step before it"
    ]
    assert told({**full, "pause": {"duration": 60}})
    assert not told({"replicas": 1, "pause": {}}, full)
    assert not told({**full, "pause": {}}, full)
    assert not told({"replicas": 4, "pause": {}})
    assert not told({**full, "pause": {}}, blue_green=True)


async def test_deleting_and_disabling_midway_warn_of_what_follows() -> None:
    async with midway() as story:
        path = f"{COLLECTION}/{NAME}"
        disabled = {"spec": {"disabled": True}}
        text = await warned(story.cluster, "PATCH", path, disabled)
        assert "is disabled at step 1 of 3: the new version rolls out to all of LeaderWorkerSet llm" in text
        assert "KeepWorkloadPausedOnRolloutDeletion" in text
        assert "kohort release stop llm -n default --keep-stable;" in text
        await story.until(lambda: story.phase == "Disabled" and story.images() == {V2})
        assert await warned(story.cluster, "DELETE", path) == "", "nothing is released any more"


async def test_deleting_midway_warns() -> None:
    async with midway() as story:
        text = await warned(story.cluster, "DELETE", f"{COLLECTION}/{NAME}")
        assert "is deleted at step 1 of 3: the new version rolls out" in text
        assert "kohort release stop llm -n default --keep-stable --delete;" in text and "kohort abort llm" in text
        await story.until(lambda: not story.rollout and story.images() == {V2})


async def test_a_rollout_may_keep_its_workload_held() -> None:
    async with midway() as story:
        annotations = {"metadata": {"annotations": {rollout_labels.KEEP_HELD: "true"}}}
        await story.edit(annotations)
        text = await warned(story.cluster, "DELETE", f"{COLLECTION}/{NAME}")
        assert "stays held at its stable version" in text
        await story.until(lambda: not story.rollout)
        await story.cluster.settle(30)
        assert story.images() == {V1}
        assert story.rolling()["partition"] == 1_000_000
        await story.create(ROLLOUTS, rollout())
        await story.at(1)


async def test_the_feature_gate_changes_the_warning() -> None:
    async with release_cluster(features=Features(keep_workload_paused=True)) as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        plan = copy.deepcopy(story.rollout)
        assert "stays held" in await warned(cluster, "DELETE", f"{COLLECTION}/{plan['metadata']['name']}")
        await story.until(lambda: not story.rollout)
        assert story.images() == {V1}
