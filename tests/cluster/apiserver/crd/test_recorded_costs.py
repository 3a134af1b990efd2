"""Rules that could take too long: the same verdicts, to the last digit, as Kubernetes 1.36 gave."""

import json
from pathlib import Path

import pytest

from kohort.cluster.apiserver.crd.rule_compilation import expression_errors
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.objects.json_types import JsonObject

ANSWERS: list[JsonObject] = json.loads((Path(__file__).parent / "answers_costs.json").read_text())


@pytest.mark.parametrize("answer", ANSWERS, ids=["limits everywhere", "some limits, in a list", "no limits"])
def test_the_same_rules_are_too_expensive(answer: JsonObject) -> None:
    found = expression_errors(compile_crd_schema(answer["schema"]), "spec.validation.openAPIV3Schema")
    assert sorted([error.reason, error.field, error.message] for error in found) == sorted(answer["causes"])
