"""Bodies of all kinds of wrongness, against the answers that kube-apiserver 1.36.4 gave to them.

`answers_decoding.json` is written by `tools/schemas/record.py`.
"""

import json
from pathlib import Path

import pytest

from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.decode import conform, decode_body, strict_error
from kohort.kube.errors import ApiError
from kohort.objects.json_types import JsonObject

CASES = json.loads(Path(__file__).with_name("answers_decoding.json").read_text())["cases"]

KINDS = {
    "pods": ("", "v1", "Pod"),
    "configmaps": ("", "v1", "ConfigMap"),
    "leases": ("coordination.k8s.io", "v1", "Lease"),
}

NUMBERS_LOSE_THEIR_SPELLING = {"tgps exp": ("3e1", "30.0")}
"""A number is quoted as Python spells it, not as it stood in the body."""


def decode(case: JsonObject) -> list[str]:
    """What the server does with a body up to defaulting: warnings, or an ApiError."""
    path, _, query = case["path"].partition("?")
    group, version, kind = KINDS[path.rpartition("/")[2]]
    body = case["body"].encode("latin-1")
    obj, duplicates = decode_body(body, case.get("content_type", ""), kind=kind)
    warnings = duplicates + conform(obj, kind_node(group, version, kind))
    if warnings and "fieldValidation=Strict" in query:
        raise strict_error(obj, kind, warnings)
    return warnings


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_answers_are_those_of_kubernetes(case: JsonObject) -> None:
    if case["code"] != 400:
        assert decode(case) == case.get("warnings", [])
        return
    with pytest.raises(ApiError) as refused:
        decode(case)
    ours, theirs = NUMBERS_LOSE_THEIR_SPELLING.get(case["name"], ("", ""))[::-1]
    assert refused.value.code == 400
    assert refused.value.reason == "BadRequest"
    assert refused.value.message == case["message"].replace(theirs, ours)
