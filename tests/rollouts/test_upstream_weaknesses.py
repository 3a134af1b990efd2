"""What the original does badly, one test for each: `w07` is number 7 of the register. Some stand with their subject:

w03, w04, w05, w17, w21 in the stories; w02, w03, w09, w10, w15 with traffic; w20 with jumps; w11 with bad references.
"""

import asyncio

import msgspec
import pytest
from tests.rollouts.observations import observation, progress
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, group_set, release_cluster, rollout
from tests.rollouts.routes import VIRTUAL_SERVICES

from kohort.kube.resources import (
    BATCH_RELEASES,
    INGRESSES,
    LEADER_WORKER_SETS,
    ROLLOUT_HISTORIES,
    ROLLOUTS,
    TRAFFIC_ROUTINGS,
)
from kohort.objects.json_types import JsonObject
from kohort.rollouts import finalizing, validation
from kohort.rollouts.finalizing import EndReason
from kohort.rollouts.traffic.actions import UnpinStableService
from kohort.rules import group_labels, rollout_labels

FULL: list[JsonObject] = [{"replicas": "100%", "traffic": "100%", "pause": {"duration": 1}}]
HALF: list[JsonObject] = [{"replicas": "50%", "traffic": "50%", "pause": {}}]


async def test_w01_the_old_version_is_not_seen_again_after_the_last_step() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=FULL))
        await story.change(V2)
        await story.until(lambda: story.weight() == "100")
        while story.images() != {V2}:
            assert story.weight() == "100", f"stable gets requests while it has {story.images()}"
            await asyncio.sleep(0.1)
        await story.healthy(V2)


async def test_w02_a_grace_period_outlives_the_operator() -> None:
    async with release_cluster(grace=20.0) as (cluster, _):
        story = Story(cluster)
        plan = rollout(steps=HALF)
        plan["spec"]["strategy"]["canary"]["trafficRoutings"][0]["gracePeriodSeconds"] = 20
        await story.begin(plan=plan)
        await story.change(V2)
        await story.at(1)
        await story.change(V1)
        await story.until(lambda: story.weight() is None)
        start = asyncio.get_running_loop().time()
        await cluster.parts["operator"].crash()
        await cluster.parts["operator"].restart()
        await story.until(lambda: not story.canaries)
        assert asyncio.get_running_loop().time() - start >= 19.0
        await story.healthy(V1)


async def test_w06_the_field_for_a_shared_route_counts() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        plan = rollout(steps=[{"replicas": 1, "pause": {}}], routed=False, trafficRoutingRef="front")
        plan["metadata"]["annotations"] = {rollout_labels.TRAFFIC_ROUTING: "the field counts before the annotation"}
        ref = {"service": "llm-leader", "ingress": {"name": "llm", "classType": "nginx"}}
        spec = {"objectRef": [ref], "strategy": {"weight": 5}}
        await cluster.client.create(TRAFFIC_ROUTINGS, {"metadata": {"name": "front"}, "spec": spec}, NAMESPACE)
        await story.begin(plan=plan)
        await story.change(V2)
        await story.at(1)
        front = cluster.find(TRAFFIC_ROUTINGS, "front", NAMESPACE)
        assert front is not None
        assert "progressing.rollouts.kruise.io/llm" in front["metadata"]["finalizers"]
        await story.change(V1)
        await story.healthy(V1)


@pytest.mark.parametrize("blue_green", [False, True], ids=["canary", "blue-green"])
async def test_w07_row_35_a_failure_threshold_counts_in_both_styles(blue_green: bool) -> None:
    steps: list[JsonObject] = [{"replicas": 2, "pause": {}}, {"replicas": 4, "pause": {}}]
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        plan = rollout(steps=steps, blue_green=blue_green, routed=False, failureThreshold="50%")
        await story.begin(group_set(replicas=4, size=1), plan)
        await story.change(V2)
        await story.at(1)
        await story.cordon()
        await story.approve()
        await story.at(2)
        fields = (
            ("updatedReplicas", "updatedReadyReplicas") if blue_green else ("canaryReplicas", "canaryReadyReplicas")
        )
        assert [story.progress[field] for field in fields] == [4, 2]


async def test_w08_blue_green_without_a_canary_service_goes_on() -> None:
    async with release_cluster(routes=(VIRTUAL_SERVICES,)) as (cluster, _):
        story = Story(cluster)
        spec = {"hosts": ["llm"], "http": [{"route": [{"destination": {"host": "llm-leader"}}]}]}
        await cluster.client.create(VIRTUAL_SERVICES, {"metadata": {"name": "llm"}, "spec": spec}, NAMESPACE)
        plan = rollout(blue_green=True, steps=HALF, disableGenerateCanaryService=True)
        network = {"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "name": "llm"}
        plan["spec"]["strategy"]["blueGreen"]["trafficRoutings"] = [
            {"service": "llm-leader", "customNetworkRefs": [network]}
        ]
        await story.begin(plan=plan)
        await story.change(V2)
        await story.at(1)
        (rule,) = (cluster.find(VIRTUAL_SERVICES, "llm", NAMESPACE) or {})["spec"]["http"]
        assert rule["route"][1] == {"destination": {"host": "llm-leader", "subset": "canary"}, "weight": 50}
        assert group_labels.REVISION not in story.selector("llm-leader")
        await story.approve()
        await story.healthy(V2)
        assert (cluster.find(VIRTUAL_SERVICES, "llm", NAMESPACE) or {})["spec"] == spec


async def test_w12_a_version_that_was_not_held_is_told() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        template = {"workerTemplate": {"metadata": {"labels": {"past": "us"}}}}
        unguarded = {"labels": {rollout_labels.WORKLOAD_TYPE: None}}
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"metadata": unguarded})
        body = {"metadata": unguarded, "spec": {"leaderWorkerTemplate": template}}
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)
        await story.until(lambda: bool(story.events("ReleaseNotControlled")))
        assert "rolled out natively, without steps" in story.events("ReleaseNotControlled")[0]


async def test_w13_history_needs_no_traffic_and_knows_groups() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=[{"replicas": 1, "pause": {"duration": 1}}], routed=False))
        await story.change(V2)
        await story.healthy(V2)
        await cluster.settle(5)
        (record,) = cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)
        assert record["status"]["phase"] == "completed"
        assert record["spec"]["workload"]["kind"] == "LeaderWorkerSet"
        assert "service" not in record["spec"]


async def test_w14_w16_steps_that_have_nothing_to_do_take_no_time() -> None:
    """No polling: what follows an event follows at once, and an end without routes is one moment."""
    clock = asyncio.get_running_loop().time
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        steps: list[JsonObject] = [{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}]
        await story.begin(plan=rollout(steps=steps, routed=False))
        await story.change(V2)
        await story.at(1)
        start = clock()
        await story.approve()
        await story.until(lambda: story.canary["spec"]["replicas"] == 2)
        assert clock() - start < 0.5, "approved to grown"
        await story.until(lambda: (story.canary.get("status") or {}).get("readyReplicas") == 2)
        start = clock()
        await story.at(2)
        assert clock() - start < 0.5, "ready to paused"
        await story.change(V1)
        start = clock()
        await story.until(lambda: story.phase == "Healthy")
        assert clock() - start < 4.0, "five steps of finalising, and the pods of the canary have to go"


def test_w18_one_workload_under_two_versions_is_one_workload() -> None:
    one, other = rollout(), rollout()
    other["metadata"]["name"] = "other"
    other["spec"]["workloadRef"]["apiVersion"] = "leaderworkerset.x-k8s.io/v2"
    (found,) = validation.conflict_errors(validation.parse(other), [validation.parse(one)])
    assert str(found) == (
        'Conflict Checker: Invalid value: "other": This rollout conflict with Rollout(default/llm), '
        "one workload only have less than one Rollout"
    )


async def test_w19_the_id_of_a_release_may_stand_in_the_annotation_alone() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=HALF))
        template = {"workerTemplate": {"metadata": {"labels": {"app": "llm", "release": "seven"}}}}
        body = {
            "metadata": {"annotations": {rollout_labels.ROLLOUT_ID: "7"}},
            "spec": {"leaderWorkerTemplate": template},
        }
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)
        await story.at(1)
        assert story.progress["observedRolloutID"] == "7"
        labels = [one["metadata"]["labels"] for one in story.pods(story.canary["metadata"]["name"])]
        assert {(one[rollout_labels.ROLLOUT_ID], one[rollout_labels.BATCH_ID]) for one in labels} == {("7", "1")}


async def test_w22_waiting_is_no_error() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=FULL))
        await story.cordon()
        await story.change(V2)
        await story.at(1, "StepUpgrade")
        await asyncio.sleep(120)
        manager = cluster.parts["operator"].manager
        assert manager is not None
        text = manager.metrics.render().decode()
        failed = [
            line
            for line in text.splitlines()
            if line.startswith("controller_runtime_reconcile_errors_total")
            and ("rollout-controller" in line or "batchrelease-controller" in line)
            and not line.endswith(" 0.0")
        ]
        assert "controller_runtime_reconcile_total" in text
        assert not failed
        await story.cordon(False)
        start = asyncio.get_running_loop().time()
        await story.until(lambda: story.weight() == "100")
        assert asyncio.get_running_loop().time() - start < 60, "no back-off has built up"
        await story.healthy(V2)


def test_w23_the_pin_stays_until_the_last_canary_pod_is_gone() -> None:
    here = observation(found=progress(2, rollout_labels.COMPLETED, finalising_step=rollout_labels.RESTORE_STABLE))
    left = msgspec.structs.replace(here, canary_gone=False)
    waiting = finalizing.decide(left, EndReason.ROLLBACK).decision
    assert (waiting.action, waiting.state.message) == (None, "waiting for the pods of the canary to go")
    after = finalizing.decide(here, EndReason.ROLLBACK).decision
    assert after.action == UnpinStableService()


async def test_w24_an_unsupported_workload_is_reported_and_other_releases_go_on() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        ref = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly"}
        plan = {"batches": [{"canaryReplicas": 1}], "enableExtraWorkloadForCanary": True}
        body = {"metadata": {"name": "odd"}, "spec": {"workloadRef": ref, "releasePlan": plan}}
        await cluster.client.create(BATCH_RELEASES, body, NAMESPACE)
        await story.until(lambda: bool(story.events("UnsupportedWorkload")))
        assert story.events("UnsupportedWorkload") == ["the workload type 'batch/v1, Kind=CronJob' is not supported"]
        await cluster.client.delete(BATCH_RELEASES, "odd", NAMESPACE)
        await story.until(lambda: cluster.find(BATCH_RELEASES, "odd", NAMESPACE) is None)
        await story.begin(plan=rollout(steps=HALF))
        await story.change(V3)
        await story.at(1)
        assert cluster.find(INGRESSES, "llm-canary", NAMESPACE) is not None
        assert cluster.find(ROLLOUTS, NAME, NAMESPACE) is not None
