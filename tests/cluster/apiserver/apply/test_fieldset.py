"""Sets of field paths: an algebra, and the form that managedFields stores."""

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.apply.fieldset import (
    FieldSet,
    MalformedSet,
    Path,
    contains,
    decode,
    difference,
    field,
    from_paths,
    in_wire_order,
    intersection,
    item,
    member,
    paths,
    text,
    union,
    without,
)
from kohort.objects.json_types import Json

Paths: TypeAlias = set[Path]

ELEMENTS = [field("a"), field("b"), item([("name", "x")]), item([("port", 80), ("protocol", "TCP")]), member("v")]
some_paths = st.sets(st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=3).map(tuple), max_size=8)


def tree(members: Paths) -> FieldSet:
    """A set from its definition: every path inserted on its own."""
    root: FieldSet = {}
    for path in sorted(members):
        node: FieldSet = {}
        for element in reversed(path):
            node = {element: node}
        root = union(root, node)
    return root


def canonical(node: FieldSet) -> bool:
    return node.keys() != {"."} and all(canonical(child) for key, child in node.items() if key != ".")


@given(some_paths)
def test_a_set_has_the_paths_that_were_put_into_it(members: Paths) -> None:
    made = tree(members)
    assert set(paths(made)) == members
    assert canonical(made)
    assert all(contains(made, path) for path in members)


@given(some_paths, some_paths)
def test_union_difference_and_intersection_are_those_of_sets(left: Paths, right: Paths) -> None:
    one, other = tree(left), tree(right)
    for operation, expected in (
        (union, left | right),
        (difference, left - right),
        (intersection, left & right),
    ):
        result = operation(one, other)
        assert set(paths(result)) == expected
        assert canonical(result)
    assert one == tree(left) and other == tree(right)


@given(some_paths, some_paths)
def test_without_takes_along_what_lies_below(left: Paths, right: Paths) -> None:
    below = {path for path in left if any(path[: len(prefix)] == prefix for prefix in right)}
    result = without(tree(left), tree(right))
    assert set(paths(result)) == left - below
    assert canonical(result)


@given(some_paths, some_paths)
def test_an_operation_that_changes_nothing_returns_its_input(left: Paths, right: Paths) -> None:
    one, other = tree(left), tree(right)
    if right <= left:
        assert union(one, other) is one or not one
    if not left & right:
        assert difference(one, other) is one or not one


@given(some_paths)
def test_what_was_written_is_read_again(members: Paths) -> None:
    made = tree(members)
    assert decode(made) == made


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": {"f:b": {}, ".": {}}}, {"f:a": {".": {}, "f:b": {}}}),
        ({'k:{ "protocol":"udp","port":443}': {}}, {'k:{"port":443,"protocol":"udp"}': {}}),
        ({"v: 3": {}, 'v:"aa"': {}, "v:true": {}}, {"v:3": {}, 'v:"aa"': {}, "v:true": {}}),
        ({"i:1": {}}, {"i:1": {}}),
        ({"f:aaa": {}, "r:future": {}}, {"f:aaa": {}}),
        ({"f:a": {"r:future": {}}}, {"f:a": {}}),
        ({".": {}}, {}),
        ({'k:{"name":" app-🚀"}': {}}, {'k:{"name":" app-🚀"}': {}}),
    ],
)
def test_sets_of_others_are_normalised(encoded: Json, expected: FieldSet) -> None:
    assert decode(encoded) == expected


@pytest.mark.parametrize(
    "encoded", [[], "x", {"": {}}, {"fa": {}}, {"f:a": []}, {"k:[]": {}}, {"k:{": {}}, {"i:x": {}}]
)
def test_malformed_sets_are_refused(encoded: Json) -> None:
    with pytest.raises(MalformedSet):
        decode(encoded)


@pytest.mark.parametrize(
    ("element", "written"),
    [
        (item([("name", "c")]), 'k:{"name":"c"}'),
        (item([("containerPort", 80), ("protocol", "TCP")]), 'k:{"containerPort":80,"protocol":"TCP"}'),
        (item([("name", 'a"b<c>&d')]), 'k:{"name":"a\\"b\\u003cc\\u003e\\u0026d"}'),
        (member("example.com/a"), 'v:"example.com/a"'),
        (member(True), "v:true"),
        (member(1.0), "v:1"),
        (member(0.5), "v:0.5"),
    ],
)
def test_path_elements_are_written_as_the_api_writes_them(element: str, written: str) -> None:
    assert element == written


def test_paths_come_level_by_level_in_the_order_of_the_api() -> None:
    unsorted: FieldSet = {
        "v:2": {},
        "v:10": {},
        'k:{"name":"b"}': {".": {}, "f:x": {}},
        "f:z": {"f:deep": {}},
        'k:{"name":"a"}': {},
        "f:a": {},
        "i:1": {},
        'v:"s"': {},
    }
    assert [text(path) for path in paths(unsorted)] == [
        ".a",
        '[name="a"]',
        '[name="b"]',
        "[=2]",
        "[=10]",
        '[="s"]',
        "[1]",
        ".z.deep",
        '[name="b"].x',
    ]


def test_plain_field_paths() -> None:
    assert from_paths(("metadata",), ("metadata", "name")) == {"f:metadata": {".": {}, "f:name": {}}}
    assert from_paths() == {}


@given(some_paths)
def test_the_order_on_the_wire_changes_no_set(members: Paths) -> None:
    assert in_wire_order(tree(members)) == tree(members)


def test_the_order_on_the_wire_is_that_of_the_api() -> None:
    ports = [item([("containerPort", number), ("protocol", "TCP")]) for number in (80, 443)]
    written: FieldSet = {
        field("spec"): {ports[1]: {}, field("b"): {}, ports[0]: {}, ".": {}, field("a"): {member("v"): {}}},
        field("metadata"): {},
    }
    ordered = in_wire_order(written)
    assert list(ordered) == [field("metadata"), field("spec")]
    assert list(ordered[field("spec")]) == [".", field("a"), field("b"), *ports]
