"""What users and operators may choose: gates of the operator, annotations of a Rollout."""

import pytest
from tests.builders import deployment, service
from tests.rollouts.releases import (
    NAME,
    NAMESPACE,
    V1,
    V2,
    V3,
    Story,
    group_set,
    ingress,
    new_cluster,
    release_cluster,
    rollout,
)

from kohort.kube.resources import (
    DEPLOYMENTS,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    ROLLOUT_HISTORIES,
    ROLLOUTS,
    SERVICES,
)
from kohort.objects import feature_gates
from kohort.objects.json_types import JsonObject
from kohort.rollouts.feature_gates import Features, from_gates
from kohort.rules import group_labels, rollout_labels
from kohort.rules.rollout_labels import ROLLOUT_NAME
from kohort.testing import Cluster

KEEPS = Features(keep_workload_paused=True)
STEPS: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%", "pause": {}},
    {"replicas": 2, "traffic": "50%", "pause": {}},
]


def annotated(plan: JsonObject, **notes: str) -> JsonObject:
    plan["metadata"]["annotations"] = {f"rollouts.kruise.io/{key.replace('_', '-')}": v for key, v in notes.items()}
    return plan


# Gates


def test_gates_by_their_names() -> None:
    gates = feature_gates.parse(
        "RolloutHistory=false, KeepWorkloadPausedOnRolloutDeletion=true,AdvancedDeployment=true"
    )
    assert from_gates(gates, 3) == Features(history=False, history_limit=3, keep_workload_paused=True)
    with pytest.raises(ValueError, match="unknown feature gate 'Magic'; known are RolloutHistory"):
        from_gates({"Magic": True})
    with pytest.raises(ValueError, match="'A' is not of the form Name=true"):
        feature_gates.parse("A")


def is_left_held(story: Story) -> bool:
    """Held, at the old version, with nothing of a release but what gives the strategy back."""
    metadata = story.stable["metadata"]
    ours = {key for key in metadata.get("annotations", {}) if "rollouts.kruise.io" in key}
    return (
        ours == {rollout_labels.ORIGINAL_LWS_STRATEGY}
        and rollout_labels.STABLE_REVISION not in metadata["labels"]
        and story.rolling()["partition"] == 1_000_000
        and story.images() == {V1}
        and not story.canaries
        and story.weight() is None
        and group_labels.REVISION not in story.selector("llm-leader")
    )


async def test_row_37_a_deleted_rollout_can_leave_its_set_held_and_another_takes_it_up() -> None:
    async with release_cluster(features=KEEPS) as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=STEPS))
        await story.change(V2)
        await story.at(1)
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: not story.rollout and is_left_held(story))
        await cluster.settle(60)
        assert story.images() == {V1}
        await story.create(ROLLOUTS, rollout(steps=STEPS))
        await story.at(1)
        assert story.images() == {V1}
        assert story.events("TakenUp")
        await story.approve()
        await story.at(2)
        await story.approve()
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}


async def test_a_set_left_held_rolls_when_a_person_takes_the_hold_off() -> None:
    async with release_cluster(features=KEEPS) as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=STEPS))
        await story.change(V2)
        await story.at(1)
        await story.edit({"spec": {"disabled": True}})
        await story.until(lambda: story.phase == "Disabled" and is_left_held(story))
        free = {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": 0}}}}
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, free)
        await story.until(lambda: story.images() == {V2} and story.all_ready() and story.nothing_left())
        await story.change(V3)
        await story.until(lambda: story.images() == {V3})


async def test_a_deployment_is_left_paused_too() -> None:
    async with new_cluster(features=KEEPS) as cluster:
        plan = rollout(steps=STEPS)
        plan["spec"]["workloadRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
        await cluster.client.create(SERVICES, service("llm-leader").selecting({"app": NAME}).port(80), NAMESPACE)
        await cluster.client.create(INGRESSES, ingress(), NAMESPACE)
        subject = deployment(NAME).replicas(2).but("spec.template.spec.containers.0.image", V1)
        await cluster.client.create(DEPLOYMENTS, subject, NAMESPACE)
        await cluster.client.create(ROLLOUTS, plan, NAMESPACE)
        await cluster.until(lambda: _phase(cluster) == "Healthy")
        body = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": V2}]}}}}
        await cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, body)
        await cluster.until(lambda: len(cluster.objects(DEPLOYMENTS, NAMESPACE)) == 2)
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await cluster.until(lambda: cluster.find(ROLLOUTS, NAME, NAMESPACE) is None)
        await cluster.settle(30)
        (left,) = cluster.objects(DEPLOYMENTS, NAMESPACE)
        assert left["spec"]["paused"] is True
        assert not [key for key in left["metadata"].get("annotations", {}) if "rollouts.kruise.io" in key]
        assert {one["spec"]["containers"][0]["image"] for one in cluster.objects(PODS, NAMESPACE)} == {V1}


def _phase(cluster: Cluster) -> str:
    status = (cluster.find(ROLLOUTS, NAME, NAMESPACE) or {}).get("status") or {}
    return str(status.get("phase", ""))


async def test_patched_labels_enter_the_canary_service_by_the_gate() -> None:
    async with release_cluster(features=Features(append_pod_selector=True)) as (cluster, _):
        story = Story(cluster)
        labels = {"track": "canary", "app": "llm"}
        await story.begin(plan=rollout(steps=STEPS, patchPodTemplateMetadata={"labels": labels}))
        await story.change(V2)
        await story.at(1)
        assert story.selector("llm-leader-canary")["track"] == "canary"


async def test_histories_are_capped_or_not_kept_at_all() -> None:
    for features, kept in ((Features(history_limit=1), 1), (Features(history=False), 0)):
        async with release_cluster(features=features) as (cluster, _):
            story = Story(cluster)
            await story.begin(plan=rollout(steps=[{"replicas": 1, "pause": {"duration": 1}}], routed=False))
            for image in (V2, V3):
                await story.change(image)
                await story.healthy(image)
            await cluster.settle(10)
            assert len(cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)) == kept


async def test_of_records_of_the_same_second_the_present_release_is_kept() -> None:
    async with release_cluster(features=Features(history_limit=1)) as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=[{"replicas": 1, "pause": {"duration": 1}}], routed=False))
        labels = {ROLLOUT_NAME: story.rollout["metadata"]["name"]}
        old = {"metadata": {"name": "zz-old", "namespace": NAMESPACE, "labels": labels}, "spec": {}}
        await cluster.client.create(ROLLOUT_HISTORIES, old)
        await story.change(V2)
        await story.until(lambda: len(cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)) == 2)
        made = {one["metadata"]["creationTimestamp"] for one in cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)}
        assert len(made) == 1, "otherwise this shows nothing"
        await story.healthy(V2)
        await cluster.settle(10)
        (kept,) = cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)
        assert kept["metadata"]["name"] != "zz-old"


# Annotations


async def test_a_step_that_takes_too_long_is_told_with_the_pod_that_is_the_reason() -> None:
    async with release_cluster(nodes=4) as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=annotated(rollout(), step_ready_timeout_seconds="60"))
        await hungry(story, V2)
        await story.until(lambda: bool(story.events("StepWaiting")))
        waits = story.rollout["status"]["message"]
        assert waits.startswith("Rollout is in step(1/3), and upgrade workload to new version: 0/1 groups ready (")
        await story.until(lambda: bool(story.events("StepTimeout")))
        message = story.rollout["status"]["message"]
        assert message.startswith("step(1/3) not ready after 60s: 0/1 groups ready (")
        for text in (waits, message, story.events("StepWaiting")[0], story.events("StepTimeout")[0]):
            assert "is Pending: " in text and "Insufficient cpu" in text
        assert story.canary["spec"]["replicas"] == 1, "by default nothing is undone"
        await story.change(V1)
        await story.healthy(V1)


async def test_a_version_that_takes_too_long_can_be_taken_back_by_itself() -> None:
    async with release_cluster(nodes=4) as (cluster, _):
        story = Story(cluster)
        notes = {"step_ready_timeout_seconds": "30", "step_ready_timeout_action": "rollback"}
        await story.begin(group_set(size=1), plan=annotated(rollout(steps=STEPS), **notes))
        await story.change(V2)
        await story.at(1)
        await story.cordon()
        await story.approve()
        await story.at(2, "StepUpgrade")
        assert story.weight() == "20"
        await story.until(lambda: story.weight() is None)
        await story.until(lambda: story.canary["spec"]["replicas"] == 0)
        assert story.images() == {V1}
        assert "put the old template back" in story.events("Withdrawn")[0]
        await cluster.settle(60)
        assert (story.step, story.state, story.canary["spec"]["replicas"]) == (2, "StepUpgrade", 0)
        assert len(story.events("StepTimeout")) == 1
        message = story.rollout["status"]["message"]
        assert "not ready after 30s: 1/2 groups ready (" in message and "unschedulable" in message
        assert "withdrawn: requests go to the stable version" in message
        await story.cordon(False)
        await story.edit({"metadata": {"annotations": {rollout_labels.STEP_TIMEOUT: "3600"}}})
        await story.at(2)
        assert story.weight() == "50"
        await story.approve()
        await story.healthy(V2)


async def hungry(story: Story, image: str) -> None:
    """A version that asks for more than any node has."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "4000"}}}
    template = {"workerTemplate": {"spec": {"containers": [container]}}}
    body = {"spec": {"leaderWorkerTemplate": template}}
    await story.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)


async def test_a_jump_back_gives_groups_back_where_that_is_wanted() -> None:
    steps: list[JsonObject] = [
        {"replicas": f"{share}%", "traffic": f"{share}%", "pause": {}} for share in (25, 50, 75, 100)
    ]
    async with release_cluster(nodes=24) as (cluster, monitor):
        story = Story(cluster)
        await story.begin(group_set(replicas=4, size=1), annotated(rollout(steps=steps), scale_down_on_jump="true"))
        await story.change(V2)
        await story.at(1)
        await story.jump(3)
        await story.at(3)
        assert story.canary["spec"]["replicas"] == 3
        await story.jump(1)
        await story.until(lambda: story.canary["spec"]["replicas"] == 1)
        assert story.weight() == "25"
        assert monitor.weight_age() >= 3.0, "traffic had left for the grace period"
        await story.at(1)
        await story.jump(3)
        await story.at(3)
        assert (story.canary["spec"]["replicas"], story.weight()) == (3, "75")
        await story.jump(2)
        await story.until(lambda: story.canary["spec"]["replicas"] == 2)
        assert monitor.weight_age() >= 3.0, "the permission of the jump before did not count"
        await story.jump(4)
        await story.healthy(V2)
