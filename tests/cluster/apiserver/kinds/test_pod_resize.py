"""The resize subresource (pod resize specification 1.5, 3.4, 3.5)."""

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.objects.json_types import Json, JsonObject

PODS = "/api/v1/namespaces/d/pods"
STRATEGIC = "application/strategic-merge-patch+json"
BURSTABLE: JsonObject = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m"}}


async def pod(api: Api, of_container: JsonObject, **spec: Json) -> None:
    body = {"containers": [{"name": "c", "image": "i", "resources": of_container}], **spec}
    created = await api.post(PODS, {"metadata": {"name": "p"}, "spec": body})
    assert created.code == 201, created.raw


def container(**resources: Json) -> JsonObject:
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}}


async def test_a_resize_changes_resources_and_nothing_else(admitting: Api) -> None:
    await pod(admitting, BURSTABLE)
    change = container(requests={"cpu": "150m"})
    change["spec"]["containers"][0]["image"] = "other"
    change["metadata"] = {"labels": {"a": "b"}}
    answer = await admitting.patch(f"{PODS}/p/resize", change, STRATEGIC)
    assert answer.code == 200
    (found,) = answer.json["spec"]["containers"]
    assert found["resources"]["requests"] == {"cpu": "150m", "memory": "64Mi"}
    assert found["image"] == "i"
    assert "labels" not in answer.meta
    assert answer.meta["generation"] == 2


async def test_resources_do_not_change_by_an_update_of_the_pod(admitting: Api) -> None:
    await pod(admitting, BURSTABLE)
    answer = await admitting.patch(f"{PODS}/p", container(requests={"cpu": "150m"}), STRATEGIC)
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["spec"]


REFUSED = [
    ("R4 class", BURSTABLE, container(requests={"cpu": "200m", "memory": "1Gi"}, limits={"memory": "1Gi"}), ["spec"]),
    ("R11 request", BURSTABLE, container(requests={"memory": None}), ["spec.containers[0].resources.requests"]),
    ("R12 others", BURSTABLE, container(limits={"example.com/gpu": "1"}), ["spec"]),
    ("V5 order", BURSTABLE, container(requests={"cpu": "300m"}), ["spec.containers[0].resources.requests"]),
    ("R9 block", {}, {"spec": {"resources": {"requests": {"cpu": None}}}}, ["spec.resources.requests", "spec"]),
]


@pytest.mark.parametrize(
    ("resources", "change", "fields"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
async def test_refused(admitting: Api, resources: JsonObject, change: JsonObject, fields: list[str]) -> None:
    more: JsonObject = {"resources": {"requests": {"cpu": "1"}}} if not resources else {}
    await pod(admitting, resources, **more)
    answer = await admitting.patch(f"{PODS}/p/resize", change, STRATEGIC)
    assert answer.code == 422, answer.raw
    assert sorted(cause["field"] for cause in answer.json["details"]["causes"]) == sorted(fields)


async def test_a_block_over_guaranteed_containers_must_be_guaranteed_itself(admitting: Api) -> None:
    await pod(admitting, {"limits": {"cpu": "100m", "memory": "100Mi"}})
    more = {"cpu": "200m", "memory": "200Mi"}
    loose = await admitting.patch(f"{PODS}/p/resize", {"spec": {"resources": {"requests": more}}}, STRATEGIC)
    assert loose.code == 422
    tight = {"spec": {"resources": {"requests": more, "limits": more}}}
    assert (await admitting.patch(f"{PODS}/p/resize", tight, STRATEGIC)).code == 200


@pytest.mark.parametrize(
    ("spec", "annotations", "message"),
    [
        ({"os": {"name": "windows"}}, {}, "[]: Forbidden: windows pods cannot be resized"),
        ({}, {"kubernetes.io/config.mirror": "x"}, "[]: Forbidden: static pods cannot be resized"),
    ],
)
async def test_pods_that_never_resize(admitting: Api, spec: JsonObject, annotations: JsonObject, message: str) -> None:
    node = {"nodeName": "n"} if annotations else {}
    body = {"containers": [{"name": "c", "image": "i", "resources": BURSTABLE}], **spec, **node}
    created = await admitting.post(PODS, {"metadata": {"name": "p", "annotations": annotations}, "spec": body})
    assert created.code == 201, created.raw
    answer = await admitting.patch(f"{PODS}/p/resize", container(requests={"cpu": "150m"}), STRATEGIC)
    assert answer.message == f'Pod "p" is invalid: {message}'


# --- what the node of the pod has to say


async def node(api: Api, labels: JsonObject | None = None, features: list[str] | None = None) -> None:
    status = {"allocatable": {"cpu": "2", "memory": "1Gi"}, "declaredFeatures": features or []}
    body = {"metadata": {"name": "n", "labels": labels or {}}, "status": status}
    assert (await api.post("/api/v1/nodes", body)).code == 201


async def test_a_node_that_is_too_small(admitting: Api) -> None:
    await node(admitting)
    await pod(admitting, BURSTABLE, nodeName="n")
    change = container(requests={"cpu": "3", "memory": "2Gi"}, limits={"cpu": "4"})
    answer = await admitting.patch(f"{PODS}/p/resize", change, STRATEGIC)
    assert answer.code == 403
    assert [cause["reason"] for cause in answer.json["details"]["causes"]] == ["NodeCapacity"]
    assert answer.message == (
        'pods "p" is forbidden: node didn\'t have enough allocatable resources: '
        "cpu, requested: 3000, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824"
    )


async def test_a_node_of_another_system(admitting: Api) -> None:
    await node(admitting, {"kubernetes.io/os": "windows"})
    await pod(admitting, BURSTABLE, nodeName="n")
    answer = await admitting.patch(f"{PODS}/p/resize", container(requests={"cpu": "150m"}), STRATEGIC)
    assert (answer.code, answer.json["details"]["causes"]) == (403, [{"reason": "UnsupportedPlatform"}])


async def test_a_node_that_is_gone(admitting: Api) -> None:
    await pod(admitting, BURSTABLE, nodeName="n")
    answer = await admitting.patch(f"{PODS}/p/resize", container(requests={"cpu": "150m"}), STRATEGIC)
    assert (answer.code, answer.message) == (403, 'pods "p" is forbidden: node "n" not found')
    same = await admitting.patch(f"{PODS}/p/resize", container(requests={"cpu": "100m"}), STRATEGIC)
    assert same.code == 200, "nothing changes, so admission is not run"


async def test_a_node_must_declare_what_only_some_can_do(admitting: Api) -> None:
    feature = "InPlacePodLevelResourcesVerticalScaling"
    await node(admitting)
    await pod(admitting, {}, nodeName="n", resources={"requests": {"cpu": "1"}})
    change = {"spec": {"resources": {"requests": {"cpu": "1500m"}}}}
    answer = await admitting.patch(f"{PODS}/p/resize", change, STRATEGIC)
    expected = f'pods "p" is forbidden: pod update requires features {feature} which are not available on node "n"'
    assert (answer.code, answer.message) == (403, expected)
    await admitting.patch("/api/v1/nodes/n/status", {"status": {"declaredFeatures": [feature]}})
    assert (await admitting.patch(f"{PODS}/p/resize", change, STRATEGIC)).code == 200


async def test_ephemeral_containers_are_only_added(admitting: Api) -> None:
    await pod(admitting, {})
    debugger = {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}
    added = await admitting.patch(f"{PODS}/p/ephemeralcontainers", debugger, STRATEGIC)
    assert added.code == 200, added.raw
    assert added.meta["generation"] == 2
    body = added.json
    body["spec"]["ephemeralContainers"] = []
    removed = await admitting.put(f"{PODS}/p/ephemeralcontainers", body)
    assert removed.code == 422
    assert removed.json["details"]["causes"][0]["field"] == "spec.ephemeralContainers"
