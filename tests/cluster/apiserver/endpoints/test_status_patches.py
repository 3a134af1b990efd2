"""Patches of the status: they change the status, whatever else they say (specification 1.15)."""

import pytest
from tests.cluster.apiserver.caller import MERGE, Api

STRATEGIC = "application/strategic-merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"spec": None},
        {"spec": {"nodeName": "other"}},
        {"metadata": {"generation": 7}},
        {"metadata": {"ownerReferences": []}},
    ],
)
async def test_what_is_not_the_status_stays_as_it_is(api: Api, media: str, more: dict[str, object]) -> None:
    before = (await api.pod("p")).json
    patch = {"status": {"phase": "Running", "podIP": "10.0.0.1"}, **more}
    after = (await api.patch(f"{PODS}/p/status", patch, media)).json
    assert after["status"]["phase"] == "Running"
    assert after["status"]["podIPs"] == [{"ip": "10.0.0.1"}]
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_labels_of_a_pod_may_come_with_its_status(api: Api) -> None:
    await api.pod("p")
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
    after = (await api.patch(f"{PODS}/p/status", patch)).json
    assert (after["metadata"]["labels"], after["status"]["phase"]) == ({"a": "b"}, "Running")


async def test_the_writer_owns_what_it_changed_in_the_status_and_nothing_else(api: Api) -> None:
    await api.pod("p")
    after = (await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}, fieldManager="agent")).json
    owned = [one for one in after["metadata"]["managedFields"] if one["manager"] == "agent"]
    assert [(one["subresource"], one["fieldsV1"]) for one in owned] == [("status", {"f:status": {"f:phase": {}}})]


@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
async def test_values_that_do_not_fit_are_refused(api: Api, media: str) -> None:
    await api.pod("p")
    refused = await api.patch(f"{PODS}/p/status", {"status": {"phase": 7}}, media)
    assert (refused.code, refused.json["reason"]) == (422, "Invalid")
    unknown = await api.patch(f"{PODS}/p/status", {"status": {"nothing": 1}}, media, fieldValidation="Strict")
    assert unknown.code == 422
    assert "status.nothing" in unknown.json["message"]


async def test_a_status_that_is_the_same_is_not_written(api: Api) -> None:
    await api.pod("p")
    patch = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    first = (await api.patch(f"{PODS}/p/status", patch, STRATEGIC)).json
    again = (await api.patch(f"{PODS}/p/status", patch, STRATEGIC)).json
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
