"""Objects that break rules, and what Kubernetes 1.36 said about them; on updates also what it forgave."""

import copy
import json
from pathlib import Path

import pytest

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.crd.strategy import CustomResourceStrategy
from kohort.cluster.apiserver.kinds.model import WriteContext
from kohort.cluster.apiserver.schema import decode
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject

RECORDED: JsonObject = json.loads((Path(__file__).parent / "answers_rules.json").read_text())
ANSWERS: list[JsonObject] = RECORDED["answers"]
RESOURCE = Resource("g.example.com", "v1", "widgets", "Widget")


class Nothing:
    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        return None

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        return []


NOTHING: Reader = Nothing()


class World:
    """The custom kind of one group of answers."""

    def __init__(self, schema: JsonObject, version: JsonObject) -> None:
        self.node = compile_crd_schema(schema)
        scale = (version.get("subresources") or {}).get("scale")
        self.strategy = CustomResourceStrategy(RESOURCE, lambda: self.node, has_status=False, scale=scale)

    def object(self, content: JsonObject, name: str) -> JsonObject:
        meta = {"name": name, "namespace": "default"}
        obj: JsonObject = {"apiVersion": RESOURCE.api_version, "kind": "Widget", "metadata": meta}
        obj.update(copy.deepcopy(content))
        decode.conform(obj, self.node)
        self.strategy.default(obj)
        return obj


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    return {name: World(entry["schema"], entry["version"]) for name, entry in RECORDED["schemas"].items()}


@pytest.mark.parametrize(
    "answer", ANSWERS, ids=[f"{answer['group']}: {json.dumps(answer['new'])[:60]}" for answer in ANSWERS]
)
def test_the_same_causes_as_recorded(answer: JsonObject, worlds: dict[str, World]) -> None:
    world = worlds[answer["group"]]
    context = WriteContext(user=ADMIN, reader=NOTHING)
    obj = world.object(answer["new"], answer["name"])
    if answer["old"] is None:
        found = world.strategy.validate(context, obj)
    else:
        found = world.strategy.validate_update(context, obj, world.object(answer["old"], answer["name"]))
    assert sorted([error.reason, error.field, error.message] for error in found) == answer["causes"]


FORGIVEN = [answer for answer in ANSWERS if answer["group"] == "ratcheting" and answer["warnings"]]


@pytest.mark.parametrize("answer", FORGIVEN, ids=[json.dumps(answer["new"])[:60] for answer in FORGIVEN])
def test_what_was_forgiven_is_warned_about(answer: JsonObject, worlds: dict[str, World]) -> None:
    world = worlds[answer["group"]]
    context = WriteContext(user=ADMIN, reader=NOTHING)
    old, new = world.object(answer["old"], answer["name"]), world.object(answer["new"], answer["name"])
    world.strategy.validate_update(context, new, old)
    escaped = [text.replace("\\", "\\\\").replace('"', '\\"') for text in context.warnings]
    recorded = [text for text in answer["warnings"] if "unknown field" not in text]
    assert sorted(f'299 - "{text}"' for text in dict.fromkeys(escaped)) == recorded
