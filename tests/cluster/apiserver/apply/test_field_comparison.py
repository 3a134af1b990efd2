"""Objects as sets of fields, by their schema: what is a member, and what has changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.apply.field_comparison import claimed, differences
from kohort.cluster.apiserver.apply.fieldset import EMPTY, FieldSet, intersection, paths, union
from kohort.cluster.apiserver.apply.merging import merged, removed
from kohort.cluster.apiserver.apply.ownership_schema import TypedError, reconciled, with_metadata, with_named_fields
from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.node import ANY, Node
from kohort.objects.json_types import Json, JsonObject

STRING, INTEGER = Node("string"), Node("integer")
ITEM = Node("object", fields={"key": STRING, "v": INTEGER, "deep": Node("object", fields={"x": INTEGER})})
PORT = Node("object", fields={"port": INTEGER, "protocol": Node("string", default="TCP")})
SCHEMA = Node(
    "object",
    fields={
        "s": STRING,
        "n": INTEGER,
        "struct": Node("object", fields={"a": INTEGER, "b": Node("object", fields={"c": INTEGER})}),
        "atom": Node("object", atomic=True, fields={"a": INTEGER}),
        "strings": Node("map", items=STRING),
        "structs": Node("map", items=Node("object", fields={"a": INTEGER})),
        "plain": Node("array", items=INTEGER),
        "set": Node("array", items=STRING, list_type="set"),
        "items": Node("array", items=ITEM, list_type="map", list_keys=("key",)),
        "ports": Node("array", items=PORT, list_type="map", list_keys=("port", "protocol")),
        "any": ANY,
        "size": Node("any", format="quantity"),
    },
)
K_A, K_B = 'k:{"key":"a"}', 'k:{"key":"b"}'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"s": "x", "n": 0}, {"f:s": {}, "f:n": {}}),
        ({"s": None}, {"f:s": {}}),
        ({"struct": {"b": {"c": 1}}}, {"f:struct": {"f:b": {"f:c": {}}}}),
        ({"struct": {}}, {"f:struct": {}}),
        ({"struct": None}, {"f:struct": {}}),
        ({"struct": {"b": {}}}, {"f:struct": {"f:b": {}}}),
        ({"atom": {"a": 1}}, {"f:atom": {}}),
        ({"strings": {"k": "v"}}, {"f:strings": {"f:k": {}}}),
        ({"strings": {}}, {"f:strings": {}}),
        ({"structs": {"k": {"a": 1}}}, {"f:structs": {"f:k": {".": {}, "f:a": {}}}}),
        ({"plain": [1]}, {"f:plain": {}}),
        ({"plain": []}, {"f:plain": {}}),
        ({"set": ["x", "y"]}, {"f:set": {'v:"x"': {}, 'v:"y"': {}}}),
        ({"set": []}, {}),
        ({"set": None}, {"f:set": {}}),
        ({"items": [{"key": "a", "v": 1}]}, {"f:items": {K_A: {".": {}, "f:key": {}, "f:v": {}}}}),
        ({"items": [{"key": "a", "v": 1}, {"key": "a"}]}, {"f:items": {K_A: {}}}),
        ({"ports": [{"port": 1}]}, {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}}}}),
        (
            {"any": {"y": [1, 2], "z": {"q": True}, "e": {}}},
            {"f:any": {"f:y": {}, "f:z": {".": {}, "f:q": {}}, "f:e": {}}},
        ),
        ({"any": [1]}, {"f:any": {}}),
        ({"size": "1Gi"}, {"f:size": {}}),
        ({"undeclared": {"a": 1}}, {"f:undeclared": {".": {}, "f:a": {}}}),
    ],
)
def test_what_an_intent_claims(value: JsonObject, expected: FieldSet) -> None:
    assert claimed(value, SCHEMA) == expected


@pytest.mark.parametrize(
    ("old", "new", "written", "gone"),
    [
        ({"s": "x"}, {"s": "x"}, {}, {}),
        ({"s": "x"}, {"s": "y"}, {"f:s": {}}, {}),
        ({"s": "x"}, {}, {}, {"f:s": {}}),
        ({}, {"s": ""}, {"f:s": {}}, {}),
        ({"s": None}, {"s": "x"}, {"f:s": {}}, {}),
        ({"s": None}, {"s": None}, {}, {}),
        ({}, {"struct": {"b": {"c": 1}}}, {"f:struct": {".": {}, "f:b": {".": {}, "f:c": {}}}}, {}),
        ({"struct": {}}, {"struct": {"b": {"c": 1}}}, {"f:struct": {"f:b": {".": {}, "f:c": {}}}}, {}),
        ({"struct": None}, {"struct": {"a": 1}}, {"f:struct": {"f:a": {}}}, {}),
        ({"struct": None}, {"struct": {}}, {"f:struct": {}}, {}),
        ({"struct": {"a": 1}}, {"struct": {}}, {}, {"f:struct": {"f:a": {}}}),
        ({"struct": {"a": 1}}, {"struct": None}, {}, {"f:struct": {"f:a": {}}}),
        ({"struct": {"a": 1}}, {}, {}, {"f:struct": {".": {}, "f:a": {}}}),
        ({"atom": {"a": 1}}, {"atom": {"a": 2}}, {"f:atom": {}}, {}),
        ({"plain": [1]}, {"plain": [1, 2]}, {"f:plain": {}}, {}),
        ({"set": ["x", "y"]}, {"set": ["y", "z"]}, {"f:set": {'v:"z"': {}}}, {"f:set": {'v:"x"': {}}}),
        ({"set": ["x", "y"]}, {"set": ["y", "x"]}, {}, {}),
        ({"set": None}, {"set": []}, {"f:set": {}}, {}),
        (
            {"items": [{"key": "a", "v": 1}]},
            {"items": [{"key": "b"}, {"key": "a", "v": 2}]},
            {"f:items": {K_A: {"f:v": {}}, K_B: {".": {}, "f:key": {}}}},
            {},
        ),
        (
            {"ports": [{"port": 1, "protocol": "TCP"}]},
            {"ports": [{"port": 1}]},
            {},
            {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {"f:protocol": {}}}},
        ),
        ({"items": [{"key": "a"}]}, {"items": [{"key": "a"}, {"key": "a"}]}, {"f:items": {K_A: {}}}, "item and key"),
        ({"items": [{"key": "a"}] * 2}, {"items": [{"key": "a"}]}, {"f:items": {K_A: {".": {}, "f:key": {}}}}, "item"),
        ({"items": [{"key": "a", "v": 1}] * 2}, {"items": [{"key": "a"}] * 2}, {"f:items": {K_A: {}}}, {}),
        ({"any": 1}, {"any": True}, {"f:any": {}}, {}),
        ({"any": 1}, {"any": 1.0}, {}, {}),
        ({"any": "s"}, {"any": {"a": 1}}, {"f:any": {".": {}, "f:a": {}}}, {}),
        ({"any": {"a": 1}}, {"any": "s"}, {"f:any": {}}, {"f:any": {"f:a": {}}}),
        ({"any": {"a": 1}}, {"any": [1]}, {"f:any": {}}, {"f:any": {"f:a": {}}}),
        ({"any": [1]}, {"any": [2]}, {"f:any": {}}, {}),
        ({"size": "1"}, {"size": "2"}, {"f:size": {}}, {}),
    ],
)
def test_how_two_versions_differ(old: JsonObject, new: JsonObject, written: FieldSet, gone: Json) -> None:
    if gone == "item":
        gone = {"f:items": {K_A: {}}}
    if gone == "item and key":
        gone = {"f:items": {K_A: {".": {}, "f:key": {}}}}
    found = differences(old, new, SCHEMA)
    assert (found.written, found.removed) == (written, gone)


@pytest.mark.parametrize("items", [[None], ["scalar"], [{"v": 1}]])
def test_items_without_a_name_cannot_be_tracked(items: list[Json]) -> None:
    with pytest.raises(TypedError):
        claimed({"items": items}, SCHEMA)


@pytest.mark.parametrize("members", [[None], [{}], [[]]])
def test_members_of_a_set_must_be_scalars(members: list[Json]) -> None:
    with pytest.raises(TypedError):
        claimed({"set": members}, SCHEMA)


@pytest.mark.parametrize(
    ("live", "intent", "expected"),
    [
        ({"s": "x", "n": 1}, {"s": "y"}, {"s": "y", "n": 1}),
        ({"s": "x"}, {"s": None}, {"s": None}),
        ({"struct": {"a": 1}}, {"struct": {"b": {"c": 2}}}, {"struct": {"a": 1, "b": {"c": 2}}}),
        ({"struct": {"a": 1}}, {"struct": None}, {"struct": {"a": 1}}),
        ({"struct": {"a": 1}}, {"struct": {}}, {"struct": {"a": 1}}),
        ({"atom": {"a": 1}}, {"atom": {}}, {"atom": {}}),
        ({"plain": [1, 2]}, {"plain": [3]}, {"plain": [3]}),
        ({"set": ["a", "b"]}, {"set": ["c", "a"]}, {"set": ["c", "a", "b"]}),
        ({"set": ["a"]}, {"set": []}, {"set": ["a"]}),
        (
            {"any": {"a": {"b": 1}, "l": [1]}},
            {"any": {"a": {"c": 2}, "l": [2]}},
            {"any": {"a": {"b": 1, "c": 2}, "l": [2]}},
        ),
        ({"any": {"a": 1}}, {"any": "s"}, {"any": "s"}),
        ({"any": "s"}, {"any": None}, {"any": None}),
        (
            {"items": [{"key": "a", "v": 1}, {"key": "b"}]},
            {"items": [{"key": "b", "v": 2}, {"key": "c"}]},
            {"items": [{"key": "a", "v": 1}, {"key": "b", "v": 2}, {"key": "c"}]},
        ),
    ],
)
def test_merging_an_intent(live: JsonObject, intent: JsonObject, expected: JsonObject) -> None:
    assert merged(live, intent, SCHEMA) == expected


@pytest.mark.parametrize(
    ("live", "intent", "expected"),
    [
        ("abcd", "bd", "abcd"),
        ("abcd", "db", "acdb"),
        ("abc", "xb", "axbc"),
        ("abc", "bx", "abcx"),
        ("ab", "xy", "abxy"),
        ("abcd", "cxa", "bcdxa"),
        ("aab", "a", "ab"),
        ("aab", "b", "aab"),
    ],
)
def test_order_of_merged_lists(live: str, intent: str, expected: str) -> None:
    assert "".join(merged({"set": list(live)}, {"set": list(intent)}, SCHEMA)["set"]) == expected


@pytest.mark.parametrize(
    ("value", "unwanted", "expected"),
    [
        ({"s": "x", "n": 1}, {"f:s": {}}, {"n": 1}),
        ({"struct": {"a": 1, "b": {"c": 1}}}, {"f:struct": {"f:b": {"f:c": {}}}}, {"struct": {"a": 1, "b": None}}),
        ({"set": ["a", "b"]}, {"f:set": {'v:"a"': {}}}, {"set": ["b"]}),
        (
            {"items": [{"key": "a", "v": 1}, {"key": "b"}]},
            {"f:items": {K_A: {"f:v": {}}, K_B: {}}},
            {"items": [{"key": "a"}]},
        ),
        ({"any": {"a": {"b": 1, "c": 2}}}, {"f:any": {"f:a": {"f:b": {}}}}, {"any": {"a": {"c": 2}}}),
        ({"s": "x"}, {"f:other": {}}, {"s": "x"}),
    ],
)
def test_removing_fields(value: JsonObject, unwanted: FieldSet, expected: JsonObject) -> None:
    assert removed(value, SCHEMA, unwanted) == expected


def test_declared_fields_on_the_way_are_named_but_map_entries_and_items_are_not() -> None:
    given_set: FieldSet = {
        "f:struct": {"f:b": {"f:c": {}}},
        "f:structs": {"f:k": {"f:a": {}}},
        "f:items": {K_A: {"f:v": {}}},
    }
    assert with_named_fields(given_set, SCHEMA) == {
        "f:struct": {".": {}, "f:b": {".": {}, "f:c": {}}},
        "f:structs": {".": {}, "f:k": {"f:a": {}}},
        "f:items": {".": {}, K_A: {"f:v": {}}},
    }


def test_fields_that_became_atomic_are_owned_as_one() -> None:
    tree: FieldSet = {
        "f:atom": {"f:a": {}},
        "f:plain": {".": {}, "v:1": {}},
        "f:struct": {"f:a": {}},
        "f:any": {"f:a": {}},
    }
    assert reconciled(tree, SCHEMA) == {"f:atom": {}, "f:plain": {}, "f:struct": {"f:a": {}}, "f:any": {"f:a": {}}}
    unchanged: FieldSet = {"f:struct": {"f:a": {}}}
    assert reconciled(unchanged, SCHEMA) is unchanged


def test_metadata_of_custom_resources_has_its_schema() -> None:
    metadata = {"labels": {"l": "1"}, "finalizers": ["f"], "ownerReferences": [{"uid": "u", "name": "n"}]}
    assert claimed({"metadata": metadata}, with_metadata(SCHEMA)) == {
        "f:metadata": {
            "f:labels": {"f:l": {}},
            "f:finalizers": {'v:"f"': {}},
            "f:ownerReferences": {'k:{"uid":"u"}': {}},
        }
    }


def test_a_raw_extension_is_owned_as_one() -> None:
    node = kind_node("apps", "v1", "ControllerRevision")
    assert claimed({"data": {"spec": {"a": 1}}, "revision": 1}, node) == {"f:data": {}, "f:revision": {}}


# --- properties ---

numbers = st.integers(0, 2)
items = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from("abc")}, optional={"v": numbers}),
    max_size=3,
    unique_by=lambda i: i["key"],
)
free = st.recursive(
    numbers | st.booleans() | st.none(),
    lambda inner: st.dictionaries(st.sampled_from("xy"), inner, max_size=2) | st.lists(inner, max_size=2),
    max_leaves=4,
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "s": st.sampled_from(["x", "y"]) | st.none(),
        "struct": st.none()
        | st.fixed_dictionaries({}, optional={"a": numbers, "b": st.fixed_dictionaries({}, optional={"c": numbers})}),
        "strings": st.dictionaries(st.sampled_from("kl"), st.sampled_from("12"), max_size=2),
        "plain": st.lists(numbers, max_size=2),
        "set": st.lists(st.sampled_from("abc"), max_size=3, unique=True),
        "items": items,
        "any": free,
    },
)


@given(objects)
def test_an_object_does_not_differ_from_itself_and_merges_into_itself(value: JsonObject) -> None:
    found = differences(value, value, SCHEMA)
    assert (found.written, found.removed) == (EMPTY, EMPTY)
    assert merged(value, value, SCHEMA) == value


@given(objects, objects)
def test_written_and_removed_fields_never_overlap(old: JsonObject, new: JsonObject) -> None:
    found = differences(old, new, SCHEMA)
    assert intersection(found.written, found.removed) == EMPTY


@given(objects, objects)
def test_what_one_direction_writes_the_other_writes_or_removes(old: JsonObject, new: JsonObject) -> None:
    there, back = differences(old, new, SCHEMA), differences(new, old, SCHEMA)
    assert set(paths(union(there.written, there.removed))) == set(paths(union(back.written, back.removed)))


@given(objects, objects)
def test_a_merge_leaves_no_difference_to_merge(live: JsonObject, intent: JsonObject) -> None:
    once = merged(live, intent, SCHEMA)
    assert merged(once, intent, SCHEMA) == once


@given(objects)
def test_everything_claimed_can_be_removed(value: JsonObject) -> None:
    rest = removed(value, SCHEMA, with_named_fields(claimed(value, SCHEMA), SCHEMA))
    assert intersection(claimed(rest, SCHEMA), claimed(value, SCHEMA)) == EMPTY
