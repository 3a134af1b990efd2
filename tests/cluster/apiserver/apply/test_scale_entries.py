"""Field ownership seen through the scale subresource, and back."""

from kohort.cluster.apiserver.apply.managed import record_update
from kohort.cluster.apiserver.apply.scale_ownership import SCALE_VERSION, parent_entries, scale_entries
from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.objects.json_types import JsonObject

SCALE = kind_node("autoscaling", "v1", "Scale")
PATHS = {"apps/v1": ("spec", "replicas"), "apps/v2": None}
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def entry(manager: str, operation: str, fields: JsonObject, **rest: str) -> JsonObject:
    made = {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": T0, "fieldsType": "FieldsV1"}
    return {**made, "fieldsV1": fields, **rest}


CREATOR = entry("cr", "Update", {"f:spec": {"f:replicas": {}, "f:selector": {}}})
APPLIER = entry("ap", "Apply", {"f:spec": {"f:replicas": {}}})
OTHER = entry("ot", "Update", {"f:metadata": {"f:labels": {}}})


def scaled(parent: list[JsonObject], before: int, after: int, manager: str = "sc") -> list[JsonObject]:
    def view(replicas: int) -> JsonObject:
        metadata = {"name": "w", "managedFields": scale_entries(parent, PATHS)}
        return {"apiVersion": SCALE_VERSION, "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}

    live, obj = view(before), view(after)
    record_update(live, obj, SCALE, manager=manager, api_version=SCALE_VERSION, time=T1, subresource="scale")
    return parent_entries(parent, obj["metadata"].get("managedFields"), "apps/v1", PATHS)


def test_a_scale_shows_the_owners_of_replicas() -> None:
    shown = scale_entries([CREATOR, APPLIER, OTHER], PATHS)
    assert [(e["manager"], e["apiVersion"], e["fieldsV1"]) for e in shown] == [
        ("ap", SCALE_VERSION, {"f:spec": {"f:replicas": {}}}),
        ("cr", SCALE_VERSION, {"f:spec": {"f:replicas": {}}}),
    ]


def test_scaling_takes_replicas_from_their_owners() -> None:
    result = scaled([CREATOR, APPLIER, OTHER], 1, 5)
    assert [(e["manager"], e.get("subresource"), e.get("time"), e["fieldsV1"]) for e in result] == [
        ("sc", "scale", None, {"f:spec": {"f:replicas": {}}}),
        ("cr", None, T0, {"f:spec": {"f:selector": {}}}),
        ("ot", None, T0, {"f:metadata": {"f:labels": {}}}),
    ]


def test_scaling_to_the_same_size_leaves_appliers_alone() -> None:
    assert scaled([APPLIER, OTHER], 3, 3) == [APPLIER, OTHER]


def test_entries_of_versions_that_are_not_served_are_dropped() -> None:
    gone = {**OTHER, "apiVersion": "apps/v0"}
    kept = {**OTHER, "apiVersion": "apps/v2"}
    assert scaled([APPLIER, gone, kept], 3, 3) == [APPLIER, kept]
