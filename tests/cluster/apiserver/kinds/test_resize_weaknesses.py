"""Weaknesses of pod-level resizing that lie with the API server (pod resize specification 10), each with what ours does
instead. W-18 is with the limit ranges, W-30 with the quotas."""

import msgspec
from tests.cluster.apiserver.caller import Api

from kohort.objects.json_types import Json, JsonObject

PODS = "/api/v1/namespaces/d/pods"
APPLY = "application/apply-patch+yaml"


def container(name: str = "c", **more: Json) -> JsonObject:
    return {"name": name, "image": "i", **more}


async def test_w17_an_apply_to_resize_owns_what_it_sets_and_nothing_else(admitting: Api) -> None:
    await admitting.post(
        PODS,
        {
            "metadata": {"name": "p"},
            "spec": {"containers": [container()], "resources": {"requests": {"cpu": "100m"}}},
        },
    )
    intent = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"x": "1"}},
        "spec": {"resources": {"requests": {"cpu": "200m"}}},
    }
    answer = await admitting.patch(
        f"{PODS}/p/resize", msgspec.json.encode(intent), APPLY, fieldManager="m1", force="true"
    )
    assert answer.code == 200, answer.raw
    assert "labels" not in answer.meta
    (entry,) = [one for one in answer.meta["managedFields"] if one["manager"] == "m1"]
    assert entry["subresource"] == "resize"
    assert entry["fieldsV1"] == {"f:spec": {"f:resources": {"f:requests": {"f:cpu": {}}}}}


async def test_w19_an_init_container_may_not_have_more_than_its_pod(admitting: Api) -> None:
    init = container("i", resources={"limits": {"memory": "2Gi"}, "requests": {"memory": "1Mi"}})
    level = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    spec = {"containers": [container()], "initContainers": [init], "resources": level}
    answer = await admitting.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert answer.code == 422
    (cause,) = answer.json["details"]["causes"]
    assert cause["message"] == 'Invalid value: "2Gi": must be less than or equal to pod limits of 1Gi'


async def test_w20_a_limit_range_for_pods_sees_their_huge_pages(admitting: Api) -> None:
    item = {"type": "Pod", "max": {"hugepages-2Mi": "4Mi"}}
    ranges = "/api/v1/namespaces/d/limitranges"
    await admitting.post(ranges, {"metadata": {"name": "lr"}, "spec": {"limits": [item]}})
    for size, code in (("8Mi", 403), ("4Mi", 201)):
        amounts = {"cpu": "1", "hugepages-2Mi": size}
        spec = {"containers": [container()], "resources": {"requests": amounts, "limits": amounts}}
        answer = await admitting.post(PODS, {"metadata": {"name": f"p{size.lower()}"}, "spec": spec})
        assert answer.code == code, answer.raw


async def test_w29_a_new_pod_already_says_what_will_be_allocated(admitting: Api) -> None:
    level = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    spec = {"containers": [container(resources={"requests": {"cpu": "50m"}})], "resources": level}
    answer = await admitting.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert answer.json["status"]["resources"] == level
