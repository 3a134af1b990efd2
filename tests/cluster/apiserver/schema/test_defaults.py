"""Defaults and ratcheting of custom resources; the first cases are answers of kube-apiserver 1.36.4."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.schema.defaults import apply_defaults
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.cluster.apiserver.schema.validate import validate
from kohort.objects.json_types import JsonObject

SCHEMA: dict[str, JsonObject] = {
    "a": {"type": "integer", "default": 5},
    "o": {
        "type": "object",
        "default": {},
        "properties": {"x": {"type": "string", "default": "dx"}, "y": {"type": "string"}},
    },
    "p": {"type": "object", "properties": {"z": {"type": "boolean", "default": True}}},
    "l": {
        "type": "array",
        "items": {"type": "object", "properties": {"q": {"type": "integer", "default": 1}}},
    },
    "n": {"type": "string", "nullable": True, "default": "nn"},
    "m": {
        "type": "object",
        "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer", "default": 9}}},
    },
    "w": {"type": "string"},
    "u": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "t": {"type": "array", "items": {"type": "string", "default": "it"}},
}


def of_spec(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


NODE = compile_crd_schema(of_spec(**SCHEMA))
FILLED = {"a": 5, "n": "nn", "o": {"x": "dx"}}

CASES: list[tuple[JsonObject, JsonObject]] = [
    ({"spec": {}}, {"spec": FILLED}),
    (
        {"spec": {"p": {}, "l": [{}, {"q": 3}], "n": None, "a": None, "m": {"k": {}}}},
        {
            "spec": {
                "a": 5,
                "l": [{"q": 1}, {"q": 3}],
                "m": {"k": {"v": 9}},
                "n": None,
                "o": {"x": "dx"},
                "p": {"z": True},
            }
        },
    ),
    ({}, {}),
    ({"spec": None}, {}),
    ({"spec": {"w": None, "zz": None}}, {"spec": {**FILLED, "zz": None}}),
    ({"spec": {"u": {"any": {"deep": None}}}}, {"spec": {**FILLED, "u": {"any": {"deep": None}}}}),
    ({"spec": {"m": {"k": None}}}, {"spec": {**FILLED, "m": {}}}),
    ({"spec": {"t": [None, "x"]}}, {"spec": {**FILLED, "t": ["it", "x"]}}),
    ({"spec": {"l": [None]}}, {"spec": {**FILLED, "l": [None]}}),
    ({"spec": {"o": "text"}}, {"spec": {**FILLED, "o": "text"}}),
]


@pytest.mark.parametrize(("before", "after"), CASES)
def test_defaults(before: JsonObject, after: JsonObject) -> None:
    apply_defaults(before, NODE)
    assert before == after


def test_a_default_is_copied_each_time() -> None:
    first: JsonObject = {"spec": {}}
    apply_defaults(first, NODE)
    first["spec"]["o"]["x"] = "changed"
    second: JsonObject = {"spec": {}}
    apply_defaults(second, NODE)
    assert second["spec"]["o"] == {"x": "dx"}


leaves = st.none() | st.integers(0, 3) | st.text("ab", max_size=2)
objects = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("aopqlnmwutxyzv"), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.just("spec"), objects))
def test_defaulting_twice_is_defaulting_once(obj: JsonObject) -> None:
    apply_defaults(obj, NODE)
    once = copy.deepcopy(obj)
    apply_defaults(obj, NODE)
    assert obj == once


STRICT = compile_crd_schema(
    of_spec(
        a={"type": "integer", "maximum": 10},
        b={"type": "string"},
        m={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 10}},
            },
        },
        s={"type": "array", "items": {"type": "integer", "maximum": 10}},
    )
)

UPDATES = [
    # old, new, fields that are held against the user
    ({"a": 50, "b": "x"}, {"a": 50, "b": "y"}, []),
    ({"a": 50, "b": "x"}, {"a": 51, "b": "x"}, ["spec.a"]),
    ({"a": 50}, {"a": 9}, []),
    ({"b": "x"}, {"b": "x", "a": 50}, ["spec.a"]),
    ({"m": [{"k": "1", "v": 50}]}, {"m": [{"k": "0"}, {"k": "1", "v": 50}]}, []),
    ({"m": [{"k": "1", "v": 50}]}, {"m": [{"k": "1", "v": 60}]}, ["spec.m[0].v"]),
    ({"m": [{"k": "1", "v": 50}]}, {"m": [{"k": "2", "v": 50}]}, ["spec.m[0].v"]),
    ({"s": [50]}, {"s": [50]}, []),
    ({"s": [50]}, {"s": [50, 1]}, ["spec.s[0]"]),
]


@pytest.mark.parametrize(("old", "new", "fields"), UPDATES)
def test_unchanged_values_are_not_held_against_the_user(old: JsonObject, new: JsonObject, fields: list[str]) -> None:
    assert [error.field for error in validate({"spec": new}, STRICT, old={"spec": old})] == fields
