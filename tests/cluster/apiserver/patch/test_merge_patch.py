"""JSON merge patch, by the examples of its RFC and by properties."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.patch import merge
from kohort.kube.errors import ApiError
from kohort.objects.json_types import Json, JsonObject


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "scalar"}, {"a": {"b": None, "c": [{"d": None}, None]}}, {"a": {"c": [{}, None]}}),
        ({"a": {"b": 1}}, {"a": [{"kept": None}]}, {"a": [{"kept": None}]}),
        ({"a": 1}, {}, {"a": 1}),
        ({"data": {"k": "v"}}, {"data": {"missing": None}, "labels": None}, {"data": {"k": "v"}}),
    ],
)
def test_merge_patches(document: JsonObject, patch: JsonObject, expected: JsonObject) -> None:
    before, patch_before = deepcopy(document), deepcopy(patch)
    assert merge.apply(document, patch) == expected
    assert (document, patch) == (before, patch_before)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (5, "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (True, "error decoding patch: json: cannot unmarshal bool into Go value of type map[string]interface {}"),
        (None, "Invalid JSON Patch"),
    ],
)
def test_a_patch_must_be_an_object(patch: Json, message: str) -> None:
    with pytest.raises(ApiError) as raised:
        merge.apply({"a": 1}, patch)
    assert (raised.value.code, raised.value.reason, raised.value.message) == (400, "BadRequest", message)


documents = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3) | st.text("x", max_size=2), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.lists(st.integers(0, 2), max_size=2), max_size=3),
    max_leaves=6,
)


@given(documents, documents)
def test_applying_twice_is_applying_once(document: JsonObject, patch: JsonObject) -> None:
    once = merge.apply(document, patch)
    assert merge.apply(once, patch) == once


@given(documents)
def test_an_object_patched_with_itself_is_itself(document: JsonObject) -> None:
    assert merge.apply(document, document) == document
