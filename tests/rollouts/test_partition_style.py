"""Partition style: so many pods of one Deployment or StatefulSet have the new version as the step says.

What both kinds promise is tested for both; what only one of them has follows in a section of its own.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.builders import lws
from tests.rollouts.deployments import NAME, Story, story
from tests.rollouts.releases import NAMESPACE, V1, V2, V3, release_cluster, rollout

from kohort.kube.errors import Invalid
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
from kohort.rollouts.feature_gates import Features
from kohort.rollouts.workloads.stateful_set_hold import HELD_PODS_PARTITION
from kohort.rules import rollout_labels

STEPS: list[JsonObject] = [
    {"replicas": "20%", "traffic": "20%", "pause": {}},
    {"replicas": 3, "traffic": "60%", "pause": {}},
    {"replicas": "100%", "pause": {}},
]
NEVER_READY = {"simulation.kohort.dev/never-ready": "true"}
KINDS = pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS], ids=lambda one: one.plural)


def plan(steps: list[JsonObject] | None = None, **annotations: str) -> JsonObject:
    document = rollout(steps=STEPS if steps is None else steps)
    document["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
    if annotations:
        names = {name.replace("_", "-"): value for name, value in annotations.items()}
        document["metadata"]["annotations"] = {f"rollouts.kruise.io/{name}": value for name, value in names.items()}
    return document


@asynccontextmanager
async def released(document: JsonObject, resource: Resource = STATEFUL_SETS) -> AsyncIterator[Story]:
    async with story(resource) as told:
        await told.begin(document)
        yield told


def counted(told: Story) -> Counter[str]:
    return Counter(told.pods())


def versions(told: Story) -> list[str]:
    """Of a StatefulSet, by ordinal; of a Deployment, the old ones first."""
    pods = told.cluster.objects(PODS, NAMESPACE)
    if told.resource == DEPLOYMENTS:
        return sorted(map(_image, pods))
    return [_image(one) for one in sorted(pods, key=lambda one: int(one["metadata"]["name"].split("-")[-1]))]


def progress(told: Story) -> JsonObject:
    found: JsonObject = told.rollout["status"]["canaryStatus"]
    return found


def succeeded(told: Story) -> str:
    found = [one["status"] for one in told.rollout["status"]["conditions"] if one["type"] == "Succeeded"]
    return "".join(found)


def selected(told: Story, service: str) -> str | None:
    """The revision that a Service selects."""
    found = told.cluster.find(SERVICES, service, NAMESPACE)
    assert found is not None
    revision: str | None = found["spec"]["selector"].get(told.revision_key)
    return revision


async def at_second_step(told: Story) -> None:
    await told.change(V2)
    await told.at(1)
    await told.approve()
    await told.at(2)


async def jump(told: Story, step: int) -> None:
    body = {"status": {"canaryStatus": {"nextStepIndex": step}}}
    await told.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, body, subresource="status")


def _image(pod: JsonObject) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _has_ready(told: Story, count: int) -> bool:
    return bool(told.rollout["status"]["canaryStatus"].get("canaryReadyReplicas", 0) == count)


# Both kinds


@pytest.mark.parametrize("limit", [50, 60])
async def test_the_operator_limits_the_share_of_new_pods_at_which_requests_are_divided(limit: int) -> None:
    """In both versions of the API."""
    allowed, refused = (
        plan([{"replicas": f"{share}%", "traffic": "20%"}, {"replicas": "100%"}]) for share in (limit, limit + 1)
    )
    older: JsonObject = {
        "metadata": {"name": "older", "annotations": {rollout_labels.ROLLING_STYLE: "partition"}},
        "spec": {
            "objectRef": {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "older"}},
            "strategy": {"canary": {"steps": [{"weight": limit + 1}]}},
        },
    }
    alpha = Resource("rollouts.kruise.io", "v1alpha1", "rollouts", "Rollout")
    async with release_cluster(features=Features(partition_percent_limit=limit)) as (cluster, _):
        for one in (allowed, refused):
            one["spec"]["workloadRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
        with pytest.raises(Invalid, match=f"partition-percent-limit if traffic specified: at most {limit}%"):
            await cluster.client.create(ROLLOUTS, refused, NAMESPACE)
        with pytest.raises(Invalid, match="partition-percent-limit"):
            await cluster.client.create(alpha, older, NAMESPACE)
        await cluster.client.create(ROLLOUTS, allowed, NAMESPACE)


@KINDS
async def test_each_step_gives_so_many_pods_the_new_version(resource: Resource) -> None:
    async with released(plan(), resource) as told:
        before = progress(told)["stableRevision"]
        await told.change(V2)
        await told.at(1)
        assert versions(told) == [V1, V1, V1, V1, V2]
        assert len(told.cluster.objects(resource, NAMESPACE)) == 1, "there is no second workload"
        after = progress(told)["podTemplateHash"]
        assert progress(told)["stableRevision"] == before != after
        assert (selected(told, "llm-leader"), selected(told, "llm-leader-canary")) == (before, after)
        assert told.cluster.find(INGRESSES, "llm-canary", NAMESPACE) is not None
        await told.approve()
        await told.at(2)
        assert versions(told) == [V1, V1, V2, V2, V2]
        batches = [one["metadata"]["labels"].get(rollout_labels.BATCH_ID) for one in told.cluster.objects(PODS)]
        assert Counter(batches) == {None: 2, "1": 1, "2": 2}
        await told.approve()
        await told.healthy(V2)
        assert succeeded(told) == "True"


@KINDS
@pytest.mark.parametrize("step", [1, 2])
async def test_a_rollback_from_every_step_brings_the_old_version_back(resource: Resource, step: int) -> None:
    async with released(plan(), resource) as told:
        await told.change(V2)
        await told.at(1)
        if step == 2:
            await told.approve()
            await told.at(2)
        old = {one["metadata"]["uid"] for one in told.cluster.objects(PODS, NAMESPACE) if _image(one) == V1}
        await told.change(V1)
        await told.healthy(V1)
        kept = {one["metadata"]["uid"] for one in told.cluster.objects(PODS, NAMESPACE)}
        assert old <= kept, "pods of the old version live on"
        assert succeeded(told) == "False"


@KINDS
async def test_a_rollback_after_every_pod_was_replaced(resource: Resource) -> None:
    async with released(plan([{"replicas": 2, "pause": {}}, {"replicas": 5, "pause": {}}]), resource) as told:
        await at_second_step(told)
        assert counted(told) == {V2: 5}
        await told.change(V1)
        await told.healthy(V1)
        assert succeeded(told) == "False"


@KINDS
async def test_another_version_begins_again_at_the_first_step(resource: Resource) -> None:
    async with released(plan(), resource) as told:
        await at_second_step(told)
        before = progress(told)["stableRevision"]
        await told.change(V3)
        await told.until(lambda: counted(told)[V3] == 1 and told.state == "StepPaused")
        await told.at(1)
        assert counted(told)[V3] == 1 and counted(told).total() == 5
        assert progress(told)["stableRevision"] == before
        await told.approve()
        await told.at(2)
        assert counted(told)[V3] == 3
        await told.approve()
        await told.healthy(V3)


@KINDS
async def test_a_third_version_after_every_pod_was_replaced_keeps_the_service_served(resource: Resource) -> None:
    steps: list[JsonObject] = [
        {"replicas": 2, "traffic": "40%", "pause": {}},
        {"replicas": 5, "traffic": "90%", "pause": {}},
    ]
    async with released(plan(steps), resource) as told:
        await at_second_step(told)
        assert counted(told) == {V2: 5}
        await told.change(V3)
        await told.until(lambda: counted(told)[V3] == 2)
        await told.at(1)
        assert versions(told) == [V2, V2, V2, V3, V3]
        pods = [one for one in told.cluster.objects(PODS, NAMESPACE) if _image(one) == V2]
        assert {one["metadata"]["labels"][told.revision_key] for one in pods} == {selected(told, "llm-leader")}
        await told.approve()
        await told.at(2)
        await told.approve()
        await told.healthy(V3)


@KINDS
async def test_a_jump_back_takes_no_version_away_unless_the_user_says_so(resource: Resource) -> None:
    async with released(plan(), resource) as told:
        await at_second_step(told)
        await jump(told, 1)
        await told.at(1)
        assert versions(told) == [V1, V1, V2, V2, V2]
        annotations = {rollout_labels.SCALE_DOWN_ON_JUMP: "true"}
        await told.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"metadata": {"annotations": annotations}})
        await jump(told, 1)
        await told.until(lambda: versions(told) == [V1, V1, V1, V1, V2])
        await told.at(1)


@KINDS
async def test_jumps_between_steps_with_and_without_traffic(resource: Resource) -> None:
    """Steps 1 to 4, then 3, then 3 with traffic, then 2, 1 and 5: as in the suite of Kruise Rollouts."""
    steps: list[JsonObject] = [
        {"replicas": "20%", "traffic": "20%", "pause": {}},
        {"replicas": "40%", "pause": {}},
        {"replicas": "60%", "pause": {}},
        {"replicas": "80%", "pause": {}},
        {"replicas": "100%", "pause": {}},
    ]

    def routed() -> bool:
        return told.cluster.find(INGRESSES, "llm-canary", NAMESPACE) is not None

    def pinned() -> bool:
        return selected(told, "llm-leader") is not None

    async with released(plan(steps), resource) as told:
        await told.change(V2)
        for step in range(1, 5):
            await told.at(step)
            assert counted(told)[V2] == step
            assert (routed(), pinned()) == (step == 1, step == 1)
            if step < 4:
                await told.approve()
        await jump(told, 3)
        await told.at(3)
        assert counted(told)[V2] == 4 and not routed()
        steps[2] = {"replicas": 3, "traffic": "60%", "pause": {}}
        await told.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"spec": {"strategy": {"canary": {"steps": steps}}}})
        await told.until(lambda: told.state == "StepPaused" and routed() and pinned())
        await told.at(3)
        await jump(told, 2)
        await told.at(2)
        assert (routed(), pinned(), counted(told)[V2]) == (False, False, 4)
        await jump(told, 1)
        await told.at(1)
        assert (routed(), pinned(), counted(told)[V2]) == (True, True, 4)
        await jump(told, 5)
        await told.healthy(V2)


@KINDS
@pytest.mark.parametrize("end", ["disabled", "deleted"])
async def test_a_release_that_is_given_up_goes_on_natively(resource: Resource, end: str) -> None:
    async with released(plan(), resource) as told:
        await told.change(V2)
        await told.at(1)
        if end == "deleted":
            await told.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        else:
            await told.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"spec": {"disabled": True}})
        await told.until(lambda: told.images() == {V2} and told.ready())
        await told.until(told.nothing_left)


@KINDS
async def test_the_operator_killed_at_every_place_comes_to_the_same_end(resource: Resource) -> None:
    steps: list[JsonObject] = [{"replicas": 2, "traffic": "40%", "pause": {"duration": 3}}, {"replicas": "100%"}]
    async with released(plan(steps), resource) as told:
        await told.change(V2)
        seen = set()
        while not (told.phase == "Healthy" and told.images() == {V2}):
            place = (told.phase, told.state, told.finalising, *sorted(counted(told).items()))
            if place not in seen:
                seen.add(place)
                await told.cluster.parts["operator"].crash()
                await told.cluster.parts["operator"].restart()
            await asyncio.sleep(0.05)
        assert len(seen) > 6
        await told.healthy(V2)


# Deployments


async def test_a_deployment_that_grows_keeps_its_share() -> None:
    async with released(plan([{"replicas": "50%", "pause": {}}, {"replicas": "100%"}]), DEPLOYMENTS) as told:
        await told.change(V2)
        await told.at(1)
        assert counted(told) == {V1: 2, V2: 3}
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": 8}})
        await told.until(lambda: counted(told) == {V1: 4, V2: 4})


async def test_limits_of_the_rolling_update_hold_on_the_way() -> None:
    async with released(plan([{"replicas": 4, "pause": {}}, {"replicas": "100%"}]), DEPLOYMENTS) as told:
        rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"strategy": rolling}})
        await told.cluster.settle(quiet=5)
        await told.change(V2)
        most, least = 5, 5
        while told.state != "StepPaused":
            pods = [one for one in told.cluster.objects(PODS, NAMESPACE) if "deletionTimestamp" not in one["metadata"]]
            ready = [one for one in pods if _is_ready(one)]
            most, least = max(most, len(pods)), min(least, len(ready))
            await asyncio.sleep(0.05)
        assert (most, least) == (6, 5)
        assert counted(told) == {V1: 1, V2: 4}
        await told.approve()
        await told.healthy(V2)
        assert told.stable["spec"]["strategy"]["rollingUpdate"] == rolling["rollingUpdate"]


async def test_a_user_who_applies_a_deployment_again_changes_nothing() -> None:
    async with released(plan(), DEPLOYMENTS) as told:
        await told.change(V2)
        await told.at(1)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"paused": False, "strategy": strategy}})
        await told.cluster.settle(quiet=10)
        assert counted(told) == {V1: 4, V2: 1}
        assert told.stable["spec"]["strategy"] == {"type": "Recreate"}
        await told.approve()
        await told.at(2)
        await told.approve()
        await told.healthy(V2)
        assert told.stable["spec"]["strategy"] == strategy


async def test_a_version_that_never_becomes_ready_replaces_no_more_than_its_step() -> None:
    async with released(plan([{"replicas": 2, "pause": {}}, {"replicas": "100%"}]), DEPLOYMENTS) as told:
        container = {"name": "main", "image": V2, "env": [{"name": "x", "value": "y"}]}
        annotations = {"simulation.kohort.dev/never-ready": "true"}
        template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"template": template}})
        await told.cluster.settle(quiet=30)
        assert counted(told)[V1] >= 4, "25 % of 5 pods may be unavailable: one"


async def test_one_pod_at_a_time_without_surge_even_if_a_status_counts_pods_that_are_going() -> None:
    async with released(plan([{"replicas": 4, "pause": {}}, {"replicas": "100%"}]), DEPLOYMENTS) as told:
        body: JsonObject = {
            "spec": {"minReadySeconds": 10, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}
        }
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, body)
        await told.cluster.settle(quiet=30)
        await told.change(V2)
        least = 5
        while told.state != "StepPaused":
            least = min(least, int(told.stable["status"].get("availableReplicas", 0)))
            await asyncio.sleep(0.05)
        assert least == 4
        assert counted(told) == {V1: 1, V2: 4}


async def test_the_status_follows_a_deployment_that_is_scaled_up_and_down() -> None:
    steps: list[JsonObject] = [{"replicas": "20%", "pause": {}}, {"replicas": "60%", "pause": {}}, {"replicas": "100%"}]
    async with released(plan(steps), DEPLOYMENTS) as told:
        await told.change(V2)
        await told.at(1)
        for replicas, new in ((10, 2), (5, 1)):
            await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": replicas}})
            await told.until(partial(_has_ready, told, new))
            assert counted(told) == {V1: replicas - new, V2: new}
        await told.approve()
        await told.at(2)
        assert counted(told) == {V1: 2, V2: 3}


async def test_a_deployment_that_is_scaled_keeps_the_proportion_of_its_versions_whoever_looks_first() -> None:
    """With a number as partition. The controller of Deployments looks before the operator does."""
    async with released(plan([{"replicas": 2, "pause": {}}, {"replicas": "100%"}]), DEPLOYMENTS) as told:
        await told.change(V2)
        await told.at(1)
        held = told.cluster.faults("operator").hold(DEPLOYMENTS)
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": 10}})
        await told.until(
            lambda: told.stable["status"].get("observedGeneration") == told.stable["metadata"]["generation"]
        )
        told.cluster.faults("operator").release(held)
        await told.until(lambda: counted(told) == {V1: 6, V2: 4})


async def test_a_deployment_that_is_scaled_a_little_keeps_the_pods_of_its_step() -> None:
    async with released(plan([{"replicas": 1, "pause": {}}, {"replicas": "100%"}]), DEPLOYMENTS) as told:
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": 4}})
        await told.cluster.settle(quiet=10)
        await told.change(V2)
        await told.at(1)
        for replicas in (6, 4, 5):
            await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": replicas}})
            await told.cluster.settle(quiet=10)
            assert counted(told) == {V1: replicas - 1, V2: 1}
        assert told.state == "StepPaused"
        await told.approve()
        await told.until(lambda: told.phase == "Healthy" and counted(told) == {V2: 5})


async def test_a_deployment_is_held_during_the_steps_and_its_strategy_comes_back() -> None:
    async with released(plan(), DEPLOYMENTS) as told:
        await told.change(V2)
        await told.at(1)
        assert told.stable["spec"]["paused"] and told.stable["spec"]["strategy"] == {"type": "Recreate"}
        await told.approve()
        await told.at(2)
        await told.approve()
        await told.healthy(V2)
        assert told.stable["spec"]["strategy"]["type"] == "RollingUpdate"
        assert rollout_labels.PARTITION_CONTROLLED not in told.stable["metadata"]["labels"]


# StatefulSets


async def test_the_first_edit_is_held_in_the_same_write() -> None:
    async with released(plan()) as told:
        await told.change(V2)
        assert told.partition == HELD_PODS_PARTITION
        assert rollout_labels.IN_PROGRESSING in told.stable["metadata"]["annotations"]
        await told.at(1)
        assert told.partition == 4
        assert progress(told)["canaryRevision"] == told.stable["status"]["updateRevision"]


async def test_a_rollback_does_not_wait_for_pods_that_never_become_ready() -> None:
    async with released(plan()) as told:
        container = {"name": "main", "image": V2}
        template = {"metadata": {"annotations": NEVER_READY}, "spec": {"containers": [container]}}
        await told.edit({"spec": {"template": template}})
        await told.cluster.settle(quiet=30)
        assert versions(told) == [V1, V1, V1, V1, V2]
        assert "0/1 pods ready" in told.message and "llm-4" in told.message
        old = {"metadata": {"annotations": None}, "spec": {"containers": [{"name": "main", "image": V1}]}}
        await told.edit({"spec": {"template": old}})
        await told.healthy(V1)


@pytest.mark.parametrize("by", ["scale", "edit"])
async def test_a_set_that_is_scaled_keeps_its_share(by: str) -> None:
    async with released(plan([{"replicas": "40%", "pause": {}}, {"replicas": "100%"}])) as told:
        await told.change(V2)
        await told.at(1)
        for replicas, new in ((10, 4), (5, 2), (8, 4)):
            body = {"spec": {"replicas": replicas}}
            if by == "scale":
                await told.cluster.client.patch(STATEFUL_SETS, NAME, NAMESPACE, body, subresource="scale")
            else:
                await told.edit(body)
            wanted = [V1] * (replicas - new) + [V2] * new
            await told.until(lambda wanted=wanted: versions(told) == wanted)  # type: ignore[misc]
        await told.approve()
        await told.until(lambda: told.phase == "Healthy" and counted(told) == {V2: 8})


async def test_a_version_that_is_not_ready_in_time_is_withdrawn() -> None:
    document = plan(step_ready_timeout_seconds="30", step_ready_timeout_action="rollback")
    async with released(document) as told:
        container = {"name": "main", "image": V2}
        template = {"metadata": {"annotations": NEVER_READY}, "spec": {"containers": [container]}}
        await told.edit({"spec": {"template": template}})
        await told.until(lambda: counted(told)[V2] == 1)
        await told.until(lambda: versions(told) == [V1] * 5)
        assert told.partition == HELD_PODS_PARTITION


async def test_a_user_who_applies_a_stateful_set_again_changes_nothing() -> None:
    async with released(plan()) as told:
        await told.change(V2)
        await told.at(1)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        await told.edit({"metadata": {"labels": {"team": "a"}}, "spec": {"updateStrategy": strategy}})
        await told.cluster.settle(quiet=10)
        assert versions(told) == [V1, V1, V1, V1, V2]
        assert told.partition == 4


@pytest.mark.parametrize("ending", ["promoted", "rolled back"])
async def test_the_partition_of_the_user_comes_back(ending: str) -> None:
    async with released(plan()) as told:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 4}}
        await told.edit({"spec": {"updateStrategy": strategy}})
        await told.change(V2)
        await told.at(1)
        await told.approve()
        await told.at(2)
        assert versions(told) == [V1, V1, V2, V2, V2]
        if ending == "promoted":
            await told.approve()
        else:
            await told.change(V1)
        wanted = V2 if ending == "promoted" else V1
        await told.until(lambda: told.phase == "Healthy" and told.images() == {wanted} and told.partition == 4)
        assert not [name for name in told.stable["metadata"].get("annotations", {}) if "rollouts.kruise.io" in name]


async def test_a_release_that_is_given_up_can_leave_the_set_held() -> None:
    document = plan()
    document["metadata"].setdefault("annotations", {})[rollout_labels.KEEP_HELD] = "true"
    async with released(document) as told:
        await told.change(V2)
        await told.at(1)
        await told.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await told.until(lambda: told.cluster.find(ROLLOUTS, NAME, NAMESPACE) is None)
        assert told.partition == HELD_PODS_PARTITION
        assert rollout_labels.IN_PROGRESSING not in told.stable["metadata"]["annotations"]
        await told.cluster.settle(quiet=10)
        assert counted(told)[V1] >= 4
        await told.edit({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        await told.until(lambda: counted(told) == {V2: 5})
        assert rollout_labels.ORIGINAL_STATEFUL_SET_STRATEGY not in told.stable["metadata"].get("annotations", {})


async def test_another_template_is_refused_while_every_pod_gets_the_new_version_and_the_old_one_is_not() -> None:
    async with released(plan([{"replicas": 1, "pause": {}}])) as told:
        await told.change(V2)
        await told.at(1)
        await told.approve()
        await told.until(lambda: counted(told)[V2] == 2)
        with pytest.raises(Exception, match="is being promoted"):
            await told.change(V3)
        await told.change(V1)
        await told.until(lambda: told.phase == "Healthy" and told.images() == {V1})


async def test_a_hold_that_was_lost_past_the_webhook_comes_back() -> None:
    async with released(plan()) as told:
        await told.change(V2)
        await told.at(1)
        token = {rollout_labels.HOLD_RELEASE: told.rollout["metadata"]["uid"]}
        lost = {"metadata": {"annotations": token}, "spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        await told.edit(lost)
        await told.until(lambda: told.partition == 4)
        await told.cluster.settle(quiet=30)
        assert versions(told)[:3] == [V1, V1, V1], "at most the pod that its controller had begun with"


async def test_a_stateful_set_of_a_leader_worker_set_is_not_released_by_itself() -> None:
    async with story(STATEFUL_SETS) as told:
        await told.cluster.client.create(LEADER_WORKER_SETS, lws(NAME).replicas(1).size(2), NAMESPACE)
        await told.cluster.settle(quiet=5)
        document = plan()
        document["spec"]["workloadRef"] = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME}
        with pytest.raises(Invalid, match="is part of LeaderWorkerSet llm: name the LeaderWorkerSet"):
            await told.cluster.client.create(ROLLOUTS, document, NAMESPACE)
