"""What is remembered of a template tells the same as the template itself."""

import json

import pytest
from tests.builders import lws, pod

from kohort.objects.json_types import Json, JsonObject
from kohort.rules.resource_edit import InPlaceEdit, classify_template_edit
from kohort.rules.resource_outline import changes_only_resources, resource_outline


def container(cpu: str, **more: Json) -> JsonObject:
    return {"name": "main", "image": "model", "resources": {"requests": {"cpu": cpu}}, **more}


def spec(cpu: str = "100m", **more: Json) -> JsonObject:
    found: JsonObject = lws("llm").size(2).workers(pod().containers(container(cpu, **more)))["spec"]
    return found


LIMITED = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}

EDITS = [
    ("more cpu", spec("200m"), True),
    ("nothing", spec(), True),
    ("the same amount spelled differently", spec("0.1"), True),
    ("another image", spec("200m", image="model:2"), False),
    (
        "another number of pods",
        {**spec("200m"), "leaderWorkerTemplate": {**spec()["leaderWorkerTemplate"], "size": 3}},
        False,
    ),
    ("another network", {**spec("200m"), "networkConfig": {"subdomainPolicy": "UniquePerReplica"}}, False),
    ("the default network", {**spec("200m"), "networkConfig": {"subdomainPolicy": "Shared"}}, True),
    ("a request taken away", spec(resources={}), False),
    ("another quality of service class", spec(resources=LIMITED), False),
    (
        "an annotation of the pods",
        {
            **spec("200m"),
            "leaderWorkerTemplate": {
                **spec()["leaderWorkerTemplate"],
                "leaderTemplate": pod().containers(container("100m")),
            },
        },
        False,
    ),
]


@pytest.mark.parametrize(("what", "after", "expected"), EDITS, ids=[one[0] for one in EDITS])
def test_edit(what: str, after: JsonObject, expected: bool) -> None:
    assert changes_only_resources(resource_outline(spec()), after) is expected


def test_an_outline_survives_being_stored_as_text() -> None:
    outline = resource_outline(spec())
    assert json.loads(json.dumps(outline)) == outline
    assert isinstance(classify_template_edit(outline, resource_outline(spec("2"))), InPlaceEdit)


def test_an_outline_holds_no_environment() -> None:
    assert "secret" not in json.dumps(resource_outline(spec(env=[{"name": "TOKEN", "value": "secret"}])))
