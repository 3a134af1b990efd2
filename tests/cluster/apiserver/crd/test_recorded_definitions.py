"""Definitions that Kubernetes 1.36 was asked to accept, and what it said."""

import copy
import json
from pathlib import Path

import pytest

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.crd.definition_strategy import DefinitionStrategy
from kohort.cluster.apiserver.kinds.model import WriteContext
from kohort.objects.json_types import Json, JsonObject

ANSWERS: list[JsonObject] = json.loads((Path(__file__).parent / "answers_definitions.json").read_text())
PRINTED_WHOLE = "only [Description"
"""An error that shows the whole schema in the server's own notation; only its text is compared."""


class NoOthers:
    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        return None

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        return []


def context() -> WriteContext:
    return WriteContext(user=ADMIN, reader=NoOthers())


def written(definition: JsonObject) -> JsonObject:
    """As far as a create goes before validation."""
    crd = copy.deepcopy(definition)
    strategy = DefinitionStrategy()
    strategy.default(crd)
    strategy.prepare_create(context(), crd)
    return crd


def comparable(cause: list[Json]) -> list[Json]:
    reason, field, message = cause
    return [reason, field, message.partition(PRINTED_WHOLE)[1] or message]


@pytest.mark.parametrize("answer", ANSWERS, ids=[answer["case"] for answer in ANSWERS])
def test_the_same_causes_as_recorded(answer: JsonObject) -> None:
    found = DefinitionStrategy().validate(context(), written(answer["definition"]))
    ours = [comparable([error.reason, error.field, error.message]) for error in found]
    assert sorted(ours) == sorted(map(comparable, answer["causes"]))
    assert bool(found) == (answer["code"] == 422)


def test_unknown_formats_are_warned_about() -> None:
    answer = next(answer for answer in ANSWERS if answer["case"] == "format warn")
    warnings = DefinitionStrategy().warnings(context(), written(answer["definition"]), None)
    assert [f'299 - "{text}"'.replace('"zork"', '\\"zork\\"') for text in warnings] == answer["warnings"]
    assert DefinitionStrategy().warnings(context(), written(answer["definition"]), answer["definition"]) == []
