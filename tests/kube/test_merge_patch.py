"""The smallest patch between two objects."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.merge_patch import equal, locked, merge_patch
from kohort.objects.json_types import Json, JsonObject


def apply(target: Json, patch: Json) -> Json:
    """RFC 7386, the algorithm of section 2 word by word."""
    if not isinstance(patch, dict):
        return patch
    result: JsonObject = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply(result.get(name), value)
    return result


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({}, {}, None),
        ({"a": {"b": {}}}, {"a": {"b": {}}}, None),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, {"a": [1, 2, 3]}),
        ({"a": 1}, {"a": {}}, {"a": {}}),
        ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
        ({"a": True}, {"a": 1}, {"a": 1}),
        ({"a": [False]}, {"a": [0]}, {"a": [0]}),
        ({"a": None}, {}, None),
        ({}, {"a": None}, None),
        ({"a": ({"b": 1},)}, {"a": [{"b": 1}]}, None),
        ({"a": (1,)}, {"a": [2]}, {"a": [2]}),
    ],
)
def test_the_smallest_patch(before: JsonObject, after: JsonObject, patch: JsonObject | None) -> None:
    assert merge_patch(before, after) == patch


def test_a_locked_patch_names_the_version_it_was_made_for() -> None:
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}
    assert locked(patch, "7") == {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}, "spec": {"x": 1}}
    assert patch["metadata"] == {"labels": {"a": "b"}}


def objects(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[JsonObject]:
    return st.dictionaries(st.sampled_from("abc"), inner, max_size=3)


LEAVES = st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | objects(inner), max_leaves=12)


@given(objects(VALUES), objects(VALUES))
def test_the_patch_leads_from_before_to_after_and_touches_neither(before: JsonObject, after: JsonObject) -> None:
    was = copy.deepcopy((before, after))
    patch = merge_patch(before, after)
    assert equal([before, after], [*was])
    assert equal(apply(before, patch or {}), after)
    assert (patch is None) == equal(before, after)
