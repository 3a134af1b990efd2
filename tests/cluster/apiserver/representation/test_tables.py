"""Tables as kubectl asks for them: built-in and custom columns, whole and partial objects."""

from datetime import UTC, datetime

import pytest

from kohort.cluster.apiserver.kinds.model import Kind, Strategy
from kohort.cluster.apiserver.kinds.printers import columns_and_cells
from kohort.cluster.apiserver.representation.jsonpath import JsonPath, PathError
from kohort.cluster.apiserver.representation.tables import custom_columns, table
from kohort.cluster.apiserver.schema.node import ANY
from kohort.kube.resources import CONFIG_MAPS, DEPLOYMENTS, PODS, Resource
from kohort.objects.json_types import Json, JsonObject

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kind_of(resource: Resource) -> Kind:
    columns, cells = columns_and_cells(resource)
    return Kind(
        resource=resource,
        schema=lambda: ANY,
        strategy=Strategy(),
        singular="",
        list_kind="",
        columns=columns,
        cells=cells,
    )


def config_map(name: str) -> JsonObject:
    metadata = {"name": name, "resourceVersion": "7", "creationTimestamp": "2025-12-31T23:59:00Z"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"k": "v"}}


def test_the_table_of_one_object() -> None:
    shown = table(kind_of(CONFIG_MAPS), [config_map("a")], now=NOW)
    assert (shown["kind"], shown["apiVersion"], shown["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": "7"},
    )
    assert [(c["name"], c["type"], c["format"], c["priority"]) for c in shown["columnDefinitions"]] == [
        ("Name", "string", "name", 0),
        ("Data", "string", "", 0),
        ("Age", "string", "", 0),
    ]
    assert all(column["description"] for column in shown["columnDefinitions"])
    assert shown["rows"] == [
        {
            "cells": ["a", 1, "60s"],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": config_map("a")["metadata"],
            },
        }
    ]


@pytest.mark.parametrize(
    ("include_object", "keys"),
    [
        ("Metadata", {"kind", "apiVersion", "metadata"}),
        ("Object", {"kind", "apiVersion", "metadata", "data"}),
        ("None", None),
    ],
)
def test_how_much_of_the_object_goes_along(include_object: str, keys: set[str] | None) -> None:
    row = table(kind_of(CONFIG_MAPS), [config_map("a")], include_object, now=NOW)["rows"][0]
    assert (row["object"] and set(row["object"])) == keys


def test_the_metadata_of_a_row_has_no_nulls() -> None:
    bookmark = {"kind": "ConfigMap", "metadata": {"resourceVersion": "7", "creationTimestamp": None}}
    row = table(kind_of(CONFIG_MAPS), [bookmark], now=NOW)["rows"][0]
    assert row["cells"] == ["", 0, "<unknown>"]
    assert row["object"]["metadata"] == {"resourceVersion": "7"}


def test_lists_bring_their_own_metadata_and_may_be_empty() -> None:
    metadata = {"resourceVersion": "9", "continue": "c", "remainingItemCount": 3}
    shown = table(kind_of(CONFIG_MAPS), [config_map("a"), config_map("b")], metadata=metadata, now=NOW)
    assert shown["metadata"] == metadata
    assert [row["cells"][0] for row in shown["rows"]] == ["a", "b"]
    empty = table(kind_of(PODS), [], metadata={"resourceVersion": "9"}, now=NOW)
    assert empty["rows"] == []
    assert len(empty["columnDefinitions"]) == 9


def test_the_older_version_of_tables() -> None:
    shown = table(kind_of(CONFIG_MAPS), [config_map("a")], version="v1beta1", now=NOW)
    assert shown["apiVersion"] == shown["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


def test_finished_pods_carry_a_row_condition() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Succeeded"}}
    row = table(kind_of(PODS), [pod], now=NOW)["rows"][0]
    assert row["conditions"] == [
        {
            "type": "Completed",
            "status": "True",
            "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }
    ]


def test_a_scale_is_shown_as_such() -> None:
    scale = {"kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    shown = table(kind_of(DEPLOYMENTS), [scale], now=NOW)
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert shown["rows"][0]["cells"] == ["w", 3, 2, "<unknown>"]


# --- columns of custom resources ---


def column(type_: str, path: str, **rest: Json) -> JsonObject:
    return {"name": "C", "type": type_, "jsonPath": path, **rest}


OBJECT: JsonObject = {
    "metadata": {"name": "x", "creationTimestamp": "2025-12-31T00:00:00Z", "labels": {"a.b/c": "label"}},
    "spec": {
        "n": 1,
        "f": 1.5,
        "big": 12345678901,
        "s": "text",
        "b": True,
        "null": None,
        "list": ["p", "q"],
        "map": {"b": "<", "a": [1]},
        "when": "2019-01-01T00:00:00Z",
    },
    "status": {
        "conditions": [{"type": "Other", "status": "False", "w": 1}, {"type": "Ready", "status": "True", "w": 5}],
        "inner": {"deep": "found"},
    },
}


@pytest.mark.parametrize(
    ("type_", "path", "cell"),
    [
        ("integer", ".spec.n", 1),
        ("integer", ".spec.f", 1),
        ("integer", ".spec.s", None),
        ("integer", ".spec.b", None),
        ("number", ".spec.f", 1.5),
        ("number", ".spec.s", None),
        ("boolean", ".spec.b", True),
        ("boolean", ".spec.s", None),
        ("string", ".spec.s", "text"),
        ("string", ".spec.n", "1"),
        ("string", ".spec.f", "1.5"),
        ("string", ".spec.big", "12345678901"),
        ("string", ".spec.b", "true"),
        ("string", ".spec.null", "<no value>"),
        ("integer", ".spec.null", None),
        ("string", ".spec.list", '["p","q"]'),
        ("string", ".spec.map", '{"a":[1],"b":"\\u003c"}'),
        ("string", ".spec.list[0]", "p"),
        ("string", ".spec.list[-1]", "q"),
        ("string", ".spec.list[*]", "p"),
        ("string", ".spec.list[0:2]", "p"),
        ("string", ".spec.list[1,0]", "q"),
        ("string", ".spec.list[5]", None),
        ("string", ".spec.s[0]", None),
        ("string", ".spec.missing", None),
        ("string", ".missing.deeper", None),
        ("string", ".metadata.labels.a\\.b/c", "label"),
        ("string", ".metadata.labels['a\\.b/c']", "label"),
        ("string", '.status.conditions[?(@.type=="Ready")].status', "True"),
        ("string", ".status.conditions[?(@.type == 'Ready')].status", "True"),
        ("string", ".status.conditions[?(@.type!='Ready')].status", "False"),
        ("string", ".status.conditions[?(@.w>3)].type", "Ready"),
        ("string", ".status.conditions[?(@.w)].type", "Other"),
        ("string", ".status.conditions[?(@.none=='x')].type", None),
        ("string", ".spec.s[?(@.x==1)]", None),
        ("string", "..deep", "found"),
        ("string", ".status.inner.*", "found"),
        ("date", ".spec.when", "7y2d"),
        ("date", ".metadata.creationTimestamp", "24h"),
        ("date", ".spec.s", "<invalid>"),
        ("date", ".spec.n", None),
    ],
)
def test_cells_of_declared_columns(type_: str, path: str, cell: Json) -> None:
    _, cells = custom_columns({"additionalPrinterColumns": [column(type_, path)]})
    assert cells(OBJECT, NOW) == ["x", cell]


def test_declared_columns_follow_the_name() -> None:
    declared = [column("integer", ".a", format="int32", priority=1, description="Words."), column("string", ".b")]
    columns, _ = custom_columns({"additionalPrinterColumns": declared})
    assert [(c.name, c.type, c.format, c.priority) for c in columns] == [
        ("Name", "string", "name", 0),
        ("C", "integer", "int32", 1),
        ("C", "string", "", 0),
    ]
    assert columns[1].description == "Words."
    assert columns[2].description == "Custom resource definition column (in JSONPath format): .b"


def test_without_declared_columns_there_are_name_and_age() -> None:
    columns, cells = custom_columns({})
    assert [(c.name, c.type) for c in columns] == [("Name", "string"), ("Age", "date")]
    assert cells(OBJECT, NOW) == ["x", "24h"]


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a[?(@.b", "word", ".a[?(@.b === 1)]", '.a[?(@.b=="x)]'])
def test_malformed_paths(path: str) -> None:
    with pytest.raises(PathError):
        JsonPath(path)


def test_columns_end_at_the_first_path_that_cannot_be_read() -> None:
    declared = [column("string", ".spec.s"), column("string", ".a["), column("string", ".b")]
    columns, cells = custom_columns({"additionalPrinterColumns": declared})
    assert len(columns) == 2
    assert cells(OBJECT, NOW) == ["x", "text"]
