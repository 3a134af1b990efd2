"""Custom resources and definitions, against the answers that kube-apiserver 1.36.4 gave to them.

The files are written by `tools/schemas/record.py`.
"""

import json
from functools import cache
from pathlib import Path

import pytest

from kohort.cluster.apiserver.schema.decode import conform, decode_body, strict_error
from kohort.cluster.apiserver.schema.defaults import apply_defaults
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.cluster.apiserver.schema.structure_rules import violations
from kohort.cluster.apiserver.schema.validate import validate
from kohort.kube.errors import ApiError
from kohort.objects.json_types import JsonObject

HERE = Path(__file__).parent
CUSTOM = json.loads((HERE / "answers_custom.json").read_text())
STRUCTURAL = json.loads((HERE / "answers_structural.json").read_text())["cases"]

WHOLE_FLOATS_BECOME_INTEGERS = {"ex 10000000000.0": ("1e+10", "10000000000")}
IN_ANOTHER_LAYER = ("metadata.name",)
"""Fields that are not the schema's business."""


@cache
def schema_of(plural: str) -> Node:
    definition = next(crd for crd in CUSTOM["definitions"] if crd["spec"]["names"]["plural"] == plural)
    return compile_crd_schema(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def process(case: JsonObject) -> tuple[list[str], list[list[str]]]:
    """Warnings and causes, or an ApiError."""
    path, _, query = case["path"].partition("?")
    plural = path.rpartition("/")[2]
    node = schema_of(plural)
    kind = plural.capitalize()
    body = case["body"].encode("latin-1")
    obj, warnings = decode_body(body, case.get("content_type", ""), kind=kind, merge_duplicates=False)
    warnings = warnings + conform(obj, node)
    if warnings and "fieldValidation=Strict" in query:
        raise strict_error(obj, kind, warnings)
    apply_defaults(obj, node)
    return warnings, [[error.reason, error.field, error.message] for error in validate(obj, node)]


@pytest.mark.parametrize("case", CUSTOM["cases"], ids=lambda case: case["name"])
def test_custom_resources_are_answered_like_kubernetes(case: JsonObject) -> None:
    if case["code"] == 400:
        with pytest.raises(ApiError) as refused:
            process(case)
        assert refused.value.message == case["message"]
        return
    warnings, causes = process(case)
    theirs, ours = WHOLE_FLOATS_BECOME_INTEGERS.get(case["name"], ("", ""))
    expected = [cause for cause in case.get("causes", []) if cause[1] not in IN_ANOTHER_LAYER]
    assert sorted(causes) == sorted([reason, field, text.replace(theirs, ours)] for reason, field, text in expected)
    if case["code"] == 201:
        assert warnings == case.get("warnings", [])


@pytest.mark.parametrize("case", STRUCTURAL, ids=lambda case: case["name"])
def test_definitions_are_answered_like_kubernetes(case: JsonObject) -> None:
    version = json.loads(case["body"])["spec"]["versions"][0]
    found = violations(version["schema"]["openAPIV3Schema"], "spec.validation.openAPIV3Schema")
    causes = [[error.reason, error.field, error.message] for error in found]
    assert sorted(causes) == sorted(case.get("causes", []))
