"""The kinds that a definition serves."""

from datetime import UTC, datetime

import pytest

from kohort.cluster.apiserver.crd.definitions import kinds_of, status_for
from kohort.objects.json_types import Json, JsonObject

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 1},
                "on": {"type": "boolean"},
                "tier": {"type": "string"},
            },
        }
    },
}


def version(name: str, **fields: Json) -> JsonObject:
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": SCHEMA}, **fields}


def definition(*versions: JsonObject) -> JsonObject:
    crd: JsonObject = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": list(versions),
        },
    }
    return {**crd, "status": status_for(crd, [])}


def test_a_kind_for_every_served_version() -> None:
    kinds = kinds_of(definition(version("v1", storage=True), version("v2"), version("v3", served=False)))
    assert [kind.resource.version for kind in kinds] == ["v1", "v2"]
    assert {kind.bucket for kind in kinds} == {"widgets.example.com"}
    storage, other = kinds
    assert storage.from_storage is None
    assert other.from_storage is not None
    assert other.to_storage is not None
    assert other.from_storage({"apiVersion": "example.com/v1", "spec": 1}) == {
        "apiVersion": "example.com/v2",
        "spec": 1,
    }
    assert other.to_storage({"apiVersion": "example.com/v2", "spec": 1}) == {"apiVersion": "example.com/v1", "spec": 1}


def test_nothing_is_served_before_the_names_are_accepted() -> None:
    crd = definition(version("v1", storage=True))
    assert kinds_of({**crd, "status": {}}) == []


def test_subresources_columns_and_selectable_fields() -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.sel"}
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    (kind,) = kinds_of(
        definition(
            version(
                "v1",
                storage=True,
                subresources={"status": {}, "scale": scale},
                additionalPrinterColumns=[column],
                selectableFields=[{"jsonPath": ".spec.tier"}, {"jsonPath": ".spec.on"}, {"jsonPath": ".spec.size"}],
            )
        )
    )
    assert sorted(kind.subresources) == ["scale", "status"]
    assert kind.strategy.has_status
    assert kind.scale_paths == (".spec.size", ".status.size", ".status.sel")
    obj: JsonObject = {"metadata": {"name": "w"}, "spec": {"size": 3, "on": True}}
    assert [column.name for column in kind.columns] == ["Name", "Size"]
    assert kind.cells is not None
    assert kind.cells(obj, datetime.now(UTC)) == ["w", 3]
    assert kind.selectable(obj) == {"spec.tier": "", "spec.on": "true", "spec.size": "3"}
    assert kind.selectable_names == {"spec.tier", "spec.on", "spec.size"}


def test_defaults_come_from_the_schema() -> None:
    (kind,) = kinds_of(definition(version("v1", storage=True)))
    obj: JsonObject = {"metadata": {"name": "w"}, "spec": {}}
    kind.strategy.default(obj)
    assert obj["spec"] == {"size": 1}
    assert not kind.strategy.has_status


@pytest.mark.parametrize(
    ("versions", "warning"),
    [
        ([version("v1", storage=True)], ""),
        (
            [version("v1beta1", storage=True, deprecated=True), version("v1")],
            "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget",
        ),
        ([version("v2", storage=True, deprecated=True), version("v1")], "example.com/v2 Widget is deprecated"),
        ([version("v1", storage=True, deprecated=True, deprecationWarning="go away")], "go away"),
    ],
)
def test_deprecated_versions_warn(versions: list[JsonObject], warning: str) -> None:
    assert kinds_of(definition(*versions))[0].deprecation_warning == warning
