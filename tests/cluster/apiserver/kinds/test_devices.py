"""Claims and slices of devices beyond single mutations of specimens; answers are those of Kubernetes 1.36."""

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.objects.json_types import JsonObject

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/d/resourceclaims"
SLICES = f"{GROUP}/resourceslices"


def claim(**request: object) -> JsonObject:
    wanted = {"deviceClassName": "c", **request}
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": wanted}]}}}


def slice_of(*devices: JsonObject) -> JsonObject:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": "a.b", "nodeName": "n", "pool": pool, "devices": [*devices]}}


async def causes(api: Api, path: str, body: JsonObject) -> list[tuple[str, str]]:
    answer = await api.post(path, body, dryRun="All")
    return [(cause["reason"], cause["field"]) for cause in (answer.json.get("details") or {}).get("causes") or ()]


@pytest.mark.parametrize(
    ("expression", "accepted"),
    [
        ("device.driver == 'a'", True),
        ("device.attributes['a.b'].fast", True),
        ("device.capacity['a.b'].memory.compareTo(quantity('1Gi')) >= 0", True),
        ("cel.bind(a, device.attributes['a.b'], a.fast && a.big)", True),
        ("device.allowMultipleAllocations", True),
        ("device.attributes['a.b'].version.isGreaterThan(semver('1.0.0'))", True),
        ("device.driver", False),
        ("device.name == 'a'", False),
        ("", False),
    ],
)
async def test_expressions_about_devices(admitting: Api, expression: str, accepted: bool) -> None:
    found = await causes(admitting, CLAIMS, claim(selectors=[{"cel": {"expression": expression}}]))
    field = "spec.devices.requests[0].exactly.selectors[0].cel.expression"
    assert found == ([] if accepted else [("FieldValueInvalid", field)])


async def test_admin_access_needs_a_label_of_the_namespace(admitting: Api) -> None:
    body = claim(adminAccess=True)
    assert await causes(admitting, CLAIMS, body) == [("FieldValueForbidden", "spec.devices.requests[0].adminAccess")]
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    assert (await admitting.patch("/api/v1/namespaces/d", label)).code == 200
    assert await causes(admitting, CLAIMS, body) == []


async def test_reports_about_devices_go_with_their_allocation(admitting: Api) -> None:
    assert (await admitting.post(CLAIMS, claim())).code == 201
    device = {"driver": "a.b", "pool": "p", "device": "g"}
    status = {"allocation": {"devices": {"results": [{"request": "r", **device}]}}, "devices": [device]}
    allocated = await admitting.patch(f"{CLAIMS}/c/status", {"status": status})
    assert allocated.json["status"]["devices"] == [{**device, "conditions": None}]
    returned = await admitting.patch(f"{CLAIMS}/c/status", {"status": {"allocation": None}})
    assert (returned.code, returned.json["status"]) == (200, {})


async def test_the_capacity_of_a_slice_can_be_changed(admitting: Api) -> None:
    made = await admitting.post(SLICES, slice_of({"name": "a", "capacity": {"memory": {"value": "1Gi"}}}))
    changed = {"name": "a", "capacity": {"memory": {"value": "2Gi"}}}
    updated = await admitting.patch(f"{SLICES}/s", {"spec": {"devices": [changed]}})
    assert (made.meta["generation"], updated.code, updated.meta["generation"]) == (1, 200, 2)


async def test_a_taint_says_since_when(admitting: Api) -> None:
    made = await admitting.post(SLICES, slice_of({"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]}))
    stamp = made.json["spec"]["devices"][0]["taints"][0]["timeAdded"]
    read = await admitting.get(f"{SLICES}/s")
    assert read.json["spec"]["devices"][0]["taints"][0]["timeAdded"] == stamp


async def test_attributes_with_lists_of_values_are_dropped(admitting: Api) -> None:
    made = await admitting.post(SLICES, slice_of({"name": "a", "attributes": {"x": {"int": 1, "ints": [1, 2]}}}))
    assert made.json["spec"]["devices"][0]["attributes"] == {"x": {"int": 1}}


async def test_too_many_devices(admitting: Api) -> None:
    plain = [{"name": f"d{index}"} for index in range(129)]
    assert await causes(admitting, SLICES, slice_of(*plain)) == [("FieldValueTooMany", "spec.devices")]
    assert await causes(admitting, SLICES, slice_of(*plain[:128])) == []
    tainted = {"name": "t", "taints": [{"key": "k", "effect": "None"}]}
    assert await causes(admitting, SLICES, slice_of(tainted, *plain[:63])) == []
    assert await causes(admitting, SLICES, slice_of(tainted, *plain[:64])) == [("FieldValueTooMany", "spec.devices")]
