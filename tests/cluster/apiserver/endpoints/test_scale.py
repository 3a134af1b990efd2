"""The scale subresource (specification 1.18)."""

import pytest
from tests.cluster.apiserver.caller import Api

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BODY = {
    "metadata": {"name": "w"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "w"}, "matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]},
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


@pytest.fixture
async def scaled(api: Api) -> Api:
    created = await api.post(DEPLOYMENTS, BODY)
    assert created.code == 201, created.raw
    return api


async def test_a_scale_is_a_view_of_its_parent(scaled: Api) -> None:
    found = await scaled.get(f"{DEPLOYMENTS}/w/scale")
    assert sorted(found.meta) == ["creationTimestamp", "name", "namespace", "resourceVersion", "uid"]
    assert (found.json["kind"], found.json["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert found.json["spec"] == {"replicas": 3}
    assert found.json["status"] == {"replicas": 0, "selector": "app=w,!z"}


async def test_writing_sets_only_the_replicas(scaled: Api) -> None:
    patched = await scaled.patch(f"{DEPLOYMENTS}/w/scale", {"spec": {"replicas": 5}, "status": {"replicas": 9}})
    assert (patched.code, patched.json["spec"], patched.json["status"]["replicas"]) == (200, {"replicas": 5}, 0)
    parent = await scaled.get(f"{DEPLOYMENTS}/w")
    assert (parent.json["spec"]["replicas"], parent.meta["generation"]) == (5, 2)
    assert {entry.get("subresource") for entry in parent.meta["managedFields"]} == {None, "scale"}


async def test_a_scale_that_is_put_must_be_the_latest(scaled: Api) -> None:
    scale = (await scaled.get(f"{DEPLOYMENTS}/w/scale")).json
    scale["spec"]["replicas"] = 1
    assert (await scaled.put(f"{DEPLOYMENTS}/w/scale", scale)).code == 200
    scale["spec"]["replicas"] = 2
    assert (await scaled.put(f"{DEPLOYMENTS}/w/scale", scale)).code == 409


async def test_apply_owns_the_replicas(scaled: Api) -> None:
    intent = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 7}}
    applied = await scaled.patch(
        f"{DEPLOYMENTS}/w/scale", intent, "application/apply-patch+yaml", fieldManager="hpa", force="true"
    )
    assert (applied.code, applied.json["spec"]) == (200, {"replicas": 7})


async def test_what_cannot_be_scaled(scaled: Api) -> None:
    negative = await scaled.patch(f"{DEPLOYMENTS}/w/scale", {"spec": {"replicas": -1}})
    assert negative.message == (
        'Scale.autoscaling "w" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )
    text = await scaled.patch(f"{DEPLOYMENTS}/w/scale", {"spec": {"replicas": "x"}})
    assert (text.code, text.json["details"]["causes"][0]["field"]) == (422, "patch")
    wrong = await scaled.put(f"{DEPLOYMENTS}/w/scale", {"kind": "Deployment", "apiVersion": "apps/v1", **BODY})
    assert wrong.message == (
        'Deployment in version "v1" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): '
        "unknown conversion"
    )
    assert (await scaled.get(f"{DEPLOYMENTS}/nope/scale")).message == 'deployments.apps "nope" not found'
