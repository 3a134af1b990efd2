"""YAML of lists."""

import pytest
import yaml

from kohort.cluster.apiserver.representation import encoding
from kohort.objects.json_types import Json, JsonObject

ITEMS: list[Json] = [
    {"metadata": {"name": "a", "labels": {"on": "yes"}}, "data": {"text": "one\ntwo\n", "empty": ""}},
    {"metadata": {"name": "b"}, "list": [1, [2, "3"], {}], "nothing": None},
    {},
]


@pytest.mark.parametrize("cut", range(len(ITEMS) + 1))
def test_a_list_in_parts_is_the_yaml_of_the_whole(cut: int) -> None:
    head: JsonObject = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    parts = [encoding.to_yaml(part) for part in (ITEMS[:cut], ITEMS[cut:]) if part]
    assert encoding.yaml_list(head, parts) == encoding.to_yaml({**head, "items": ITEMS})


def test_an_empty_list() -> None:
    head: JsonObject = {"kind": "PodList", "apiVersion": "v1", "metadata": {}}
    text = encoding.yaml_list(head, [])
    assert text == encoding.to_yaml({**head, "items": []})
    assert yaml.safe_load(text)["items"] == []
