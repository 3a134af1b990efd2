"""Corners of the validation of custom resources, as a real server judged them."""

from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.cluster.apiserver.schema.validate import validate
from kohort.objects.json_types import Json, JsonObject


def errors(schema: JsonObject, value: Json) -> list[tuple[str, str]]:
    node = compile_crd_schema({"type": "object", "properties": {"v": schema}})
    return [(error.field, error.message) for error in validate({"v": value}, node)]


def test_a_whole_number_is_measured_by_whole_factors() -> None:
    schema: JsonObject = {"type": "number", "multipleOf": 0.5}
    assert errors(schema, 1) == [("v", "Invalid value: 0: factor MultipleOf declared for v must be positive: 0")]
    assert errors(schema, 1.5) == []
    assert errors({"type": "integer", "multipleOf": 2}, 3) == [
        ("v", "Invalid value: 3: v in body should be a multiple of 2")
    ]


def test_the_metadata_of_an_embedded_resource_is_checked() -> None:
    schema: JsonObject = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    metadata = {"name": "Bad_Name", "labels": {"a": "b c"}}
    found = errors(schema, {"apiVersion": "v1", "kind": "X", "metadata": metadata})
    assert [field for field, _ in found] == ["v.metadata.labels"]
    assert errors(schema, {"apiVersion": "v1", "kind": "X", "metadata": {}}) == []
