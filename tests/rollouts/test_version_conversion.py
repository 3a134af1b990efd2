"""v1alpha1 beside v1beta1: what older manifests and tools write is what is stored, and what they read is what is."""

import copy

import pytest
from tests.rollouts.releases import NAME, NAMESPACE, V2, Story, new_cluster, release_cluster, rollout

from kohort.kube.client import PatchType
from kohort.kube.errors import ApiError
from kohort.kube.resources import ROLLOUTS, Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts import crd, v1alpha1_checks, version_conversion
from kohort.rules import rollout_labels

OLDER = Resource("rollouts.kruise.io", "v1alpha1", "rollouts", "Rollout")
REF = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": NAME}
ROUTED = [{"service": "llm-leader", "gracePeriodSeconds": 3, "ingress": {"name": "llm", "classType": "nginx"}}]


def older(*steps: JsonObject, style: str = "", **canary: Json) -> JsonObject:
    annotations = {rollout_labels.ROLLING_STYLE: style} if style else {}
    given = steps or ({"weight": 20, "pause": {}}, {"weight": 50, "replicas": 2, "pause": {}})
    return {
        "apiVersion": version_conversion.ALPHA,
        "kind": "Rollout",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {
            "objectRef": {"workloadRef": REF},
            "strategy": {"canary": {"steps": list(given), "trafficRoutings": ROUTED, **canary}},
        },
    }


def beta(document: JsonObject) -> JsonObject:
    return version_conversion.converted(document, version_conversion.BETA)


def alpha(document: JsonObject) -> JsonObject:
    return version_conversion.converted(document, version_conversion.ALPHA)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"weight": 20}, {"traffic": "20%", "replicas": "20%"}),
        ({"weight": 20, "replicas": 2}, {"traffic": "20%", "replicas": 2}),
        ({"replicas": "50%", "pause": {"duration": 5}}, {"replicas": "50%", "pause": {"duration": 5}}),
    ],
)
def test_a_weight_becomes_a_share_and_replicas_where_none_are_named(step: JsonObject, expected: JsonObject) -> None:
    assert beta(older(step))["spec"]["strategy"]["canary"]["steps"] == [expected]


@pytest.mark.parametrize(("style", "extra"), [("", True), ("canary", True), ("Partition", False), ("PARTITION", False)])
def test_the_style_is_an_annotation_in_the_older_version(style: str, extra: bool) -> None:
    newer = beta(older(style=style))
    assert newer["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] == extra
    back = alpha(newer)["metadata"]["annotations"][rollout_labels.ROLLING_STYLE]
    assert back == ("canary" if extra else "partition")


def test_the_shared_route_is_an_annotation_in_the_older_version() -> None:
    document = older()
    document["metadata"]["annotations"][rollout_labels.TRAFFIC_ROUTING] = "front"
    newer = beta(document)
    assert newer["spec"]["strategy"]["canary"]["trafficRoutingRef"] == "front"
    newer["metadata"]["annotations"] = {}
    assert alpha(newer)["metadata"]["annotations"][rollout_labels.TRAFFIC_ROUTING] == "front"


def test_what_the_older_version_can_say_survives_the_way_there_and_back() -> None:
    document = older(
        {"weight": 5, "replicas": 1, "matches": [{"headers": [{"type": "Exact", "name": "a", "value": "b"}]}]},
        {"replicas": "60%", "pause": {"duration": 9}},
        style="canary",
        failureThreshold="20%",
        disableGenerateCanaryService=True,
        patchPodTemplateMetadata={"labels": {"track": "canary"}},
    )
    progress = {"currentStepIndex": 2, "currentStepState": "StepPaused", "graceTimes": {"pin": "x"}}
    document["spec"] |= {"disabled": True}
    document["spec"]["strategy"]["paused"] = True
    document["status"] = {"phase": "Progressing", "canaryStatus": progress}
    newer = beta(document)
    assert (newer["status"]["currentStepIndex"], newer["status"]["currentStepState"]) == (2, "StepPaused")
    assert alpha(newer) == document


def test_what_it_cannot_say_is_left_out() -> None:
    newer = rollout()
    newer["spec"]["strategy"]["canary"]["steps"][0]["matches"][0]["path"] = {"value": "/a"}
    (match,) = alpha(newer)["spec"]["strategy"]["canary"]["steps"][0]["matches"]
    assert match == {"headers": [{"name": "x-tester", "value": "1"}]}
    assert "rolloutID" not in beta(older() | {"spec": {**older()["spec"], "rolloutID": "1"}})["spec"]
    blue = alpha(rollout(blue_green=True))
    assert (blue["spec"], blue["status"]) == ({}, {})


@pytest.mark.parametrize("style", [rollout_labels.CANARY, rollout_labels.BLUE_GREEN])
def test_batch_releases_there_and_back(style: str) -> None:
    newer = {
        "apiVersion": version_conversion.BETA,
        "kind": "BatchRelease",
        "metadata": {"name": NAME},
        "spec": {"workloadRef": REF, "releasePlan": {"batches": [{"canaryReplicas": 1}], "rollingStyle": style}},
        "status": {"phase": "Progressing", "message": "1/2 groups ready (8 pods)"},
    }
    view = alpha(copy.deepcopy(newer))
    assert view["spec"]["targetReference"] == {"workloadRef": REF}
    assert view["metadata"]["annotations"][rollout_labels.ROLLING_STYLE] == style.lower()
    del view["spec"]["releasePlan"]["rollingStyle"]
    assert {**beta(view), "metadata": newer["metadata"]} == newer


def test_no_way_is_said() -> None:
    with pytest.raises(ValueError, match="TrafficRouting cannot be converted"):
        version_conversion.converted(
            {"apiVersion": version_conversion.ALPHA, "kind": "TrafficRouting"}, version_conversion.BETA
        )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (older(style="bluegreen"), "Rolling style must be 'Canary', 'Partition' or empty"),
        (older({"pause": {}}), "weight and replicas cannot be empty at the same time"),
        (older({"weight": 101}), "weight must be positive number"),
        (older({"weight": 0}), "weight must be positive number"),
        (older({"weight": 50}, {"weight": 20}), "Steps.Weight must be a non decreasing sequence"),
        (older() | {"spec": {"objectRef": {}, "strategy": {"canary": {"steps": []}}}}, "WorkloadRef is required"),
        (older() | {"spec": {"objectRef": {"workloadRef": REF}, "strategy": {}}}, "Canary cannot be empty"),
    ],
)
def test_messages_of_the_older_version(document: JsonObject, message: str) -> None:
    assert message in " ".join(str(one) for one in v1alpha1_checks.errors(document))


def test_columns_of_the_older_version_read_the_older_place() -> None:
    definition = crd.rollout({"url": "https://127.0.0.1/convert"})
    old, new = definition["spec"]["versions"]
    assert [one["storage"] for one in (old, new)] == [False, True]
    paths = {one["name"]: one["jsonPath"] for one in old["additionalPrinterColumns"]}
    assert paths["CANARY_STEP"] == ".status.canaryStatus.currentStepIndex"
    assert crd.rollout()["spec"]["versions"] == [new], "not served where nobody converts"


async def test_row_38_a_release_written_and_approved_in_the_older_version() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=older(patchPodTemplateMetadata={"labels": {"track": "canary"}}))
        await story.change(V2)
        await story.at(1)
        assert (story.canary["spec"]["replicas"], story.weight()) == (1, "20")
        view: JsonObject = await cluster.client.get(OLDER, NAME, NAMESPACE)
        assert view["status"]["canaryStatus"]["currentStepState"] == "StepPaused"
        assert view["spec"]["strategy"]["canary"]["steps"][0]["weight"] == 20
        ready = {"status": {"canaryStatus": {"currentStepState": "StepReady"}}}
        await cluster.client.patch(OLDER, NAME, NAMESPACE, ready, PatchType.MERGE, subresource="status")
        await story.at(2)
        assert (story.canary["spec"]["replicas"], story.weight()) == (2, "50")
        await story.approve()
        await story.healthy(V2)


async def test_row_47_the_older_version_may_change_the_number_of_steps() -> None:
    steps: list[JsonObject] = [{"weight": share, "pause": {}} for share in (20, 40, 60, 80, 100)]
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=older(*steps))
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.at(2)
        fewer = [{"weight": 10, "replicas": 1}, {"weight": 30, "replicas": 1, "pause": {}}, {"weight": 100}]
        body = {"spec": {"strategy": {"canary": {"steps": fewer}}}}
        with pytest.raises(ApiError, match="Amount of Rollout steps are immutable"):
            await cluster.client.patch(
                ROLLOUTS, NAME, NAMESPACE, {"spec": {"strategy": {"canary": {"steps": [{"replicas": 1}]}}}}
            )
        await cluster.client.patch(OLDER, NAME, NAMESPACE, body)
        await story.until(lambda: story.weight() == "30")
        await story.at(2)
        await story.approve()
        await story.healthy(V2)


async def test_what_is_wrong_with_the_older_version_is_refused_in_its_words() -> None:
    async with new_cluster() as cluster:
        for document, words in (
            (older(style="purple"), "Rolling style must be"),
            (older(style="partition"), "LeaderWorkerSet does not support partition style"),
        ):
            with pytest.raises(ApiError, match=words):
                await cluster.client.create(OLDER, document)
