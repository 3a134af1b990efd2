"""JSON patch: every operation, and the words for those that cannot be done."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.patch import jsonpatch
from kohort.kube.errors import ApiError
from kohort.objects.json_types import Json, JsonObject

DOCUMENT: JsonObject = {
    "data": {"a": "1", "b": "2", "x/y": "slash", "m~n": "tilde"},
    "list": [1, 2, 3],
    "nothing": None,
    "deep": {"er": {"est": [{"name": "c"}]}},
}


def patched(*operations: Json, document: JsonObject = DOCUMENT) -> JsonObject:
    before = deepcopy(document)
    result = jsonpatch.apply(document, list(operations))
    assert document == before
    return result


def op(kind: str, path: str, **rest: Json) -> JsonObject:
    return {"op": kind, "path": path, **rest}


def code_of(*operations: Json) -> int:
    before = deepcopy(DOCUMENT)
    with pytest.raises(ApiError) as raised:
        jsonpatch.apply(DOCUMENT, list(operations))
    assert before == DOCUMENT
    return raised.value.code


def test_the_six_operations_in_one_patch() -> None:
    result = patched(
        op("test", "/data/a", value="1"),
        op("replace", "/data/a", value="9"),
        op("remove", "/data/b"),
        op("add", "/data/n", value="new"),
        {"op": "copy", "from": "/data/n", "path": "/data/m"},
        {"op": "move", "from": "/data/m", "path": "/data/z"},
        op("add", "/labels", value={"x": "1"}),
        document={"data": {"a": "1", "b": "2"}},
    )
    assert result == {"data": {"a": "9", "n": "new", "z": "new"}, "labels": {"x": "1"}}


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        (op("add", "/list/0", value=0), "list", [0, 1, 2, 3]),
        (op("add", "/list/3", value=4), "list", [1, 2, 3, 4]),
        (op("add", "/list/-", value=4), "list", [1, 2, 3, 4]),
        (op("add", "/list/-1", value=4), "list", [1, 2, 3, 4]),
        (op("remove", "/list/-1"), "list", [1, 2]),
        (op("replace", "/list/1", value="two"), "list", [1, "two", 3]),
        (op("add", "/list", value="gone"), "list", "gone"),
        (op("replace", "/brand-new", value=1), "brand-new", 1),
        (op("add", "/nothing", value=None), "nothing", None),
        (op("replace", "/list"), "list", None),
        ({"op": "copy", "from": "/missing", "path": "/copied"}, "copied", None),
        (op("add", "ignored/list/-", value=4), "list", [1, 2, 3, 4]),
    ],
)
def test_paths_into_lists_and_maps(operation: JsonObject, path: str, expected: Json) -> None:
    assert patched(operation)[path] == expected


def test_escapes_in_paths() -> None:
    result = patched(op("test", "/data/x~1y", value="slash"), op("replace", "/data/m~0n", value="t"))
    assert result["data"]["m~n"] == "t"


@pytest.mark.parametrize("value", [None, "absent"])
def test_testing_a_missing_key_for_null_succeeds(value: Json) -> None:
    operation = op("test", "/data/missing") | ({"value": None} if value is None else {})
    assert patched(operation) == DOCUMENT


@pytest.mark.parametrize(
    "operations",
    [
        [op("remove", "/data/missing")],
        [op("remove", "/list/7")],
        [op("replace", "/list/3", value=1)],
        [op("add", "/list/4", value=1)],
        [op("add", "/list/x", value=1)],
        [op("add", "/nope/x/y", value=1)],
        [op("add", "/nothing/x", value=1)],
        [op("add", "/data/a/x", value=1)],
        [op("add", "", value={})],
        [op("remove", "")],
        [op("bogus", "/data/a")],
        [{"path": "/data/a"}],
        [{"op": "remove"}],
        [{"op": "move", "path": "/data/a"}],
        [{"op": "move", "from": "/data", "path": "/data/inside"}],
        [op("test", "/data/a", value="2")],
        [op("test", "/data/a")],
        [op("test", "/list", value=[1, 2])],
        [op("test", "/list/0", value=1.0)],
        [op("test", "/list/0", value=True)],
        [op("test", "/data", value=None)],
        [op("replace", "", value="not a document")],
        [op("replace", "", value=[])],
        [op("add", "/data/n", value=1), op("test", "/data/n", value=2)],
    ],
)
def test_a_patch_that_does_not_fit_is_invalid_and_leaves_no_trace(operations: list[JsonObject]) -> None:
    assert code_of(*operations) == 422


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"data": {}},
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        ("x", "error decoding patch: json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        ([5], "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            [{"op": "add", "path": 5}],
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_a_body_that_is_no_patch_is_a_bad_request(body: Json, message: str) -> None:
    with pytest.raises(ApiError) as raised:
        jsonpatch.apply(DOCUMENT, body)
    assert (raised.value.code, raised.value.reason, raised.value.message) == (400, "BadRequest", message)


def test_an_operation_that_is_null_fits_nothing() -> None:
    assert code_of(None) == 422


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (
            {"op": "remove", "path": "/nope"},
            "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
        ),
        (
            {"op": "remove", "path": "/a/b/c"},
            'remove operation does not apply: doc is missing path: "/a/b/c": missing value',
        ),
        (
            {"op": "add", "path": "/a/b", "value": 1},
            'add operation does not apply: doc is missing path: "/a/b": missing value',
        ),
    ],
)
def test_why_an_operation_does_not_apply(operation: JsonObject, words: str) -> None:
    assert jsonpatch.misfit({"data": {}}, operation) == words


def test_more_than_ten_thousand_operations_are_too_many() -> None:
    operations = [op("test", "/data/a", value="1")] * 10_000
    assert jsonpatch.apply(DOCUMENT, operations) == DOCUMENT
    with pytest.raises(ApiError) as raised:
        jsonpatch.apply(DOCUMENT, [*operations, operations[0]])
    assert (raised.value.code, raised.value.reason) == (413, "RequestEntityTooLarge")


def test_copies_have_a_budget() -> None:
    document = {"a": "x" * 1_000_000}
    copies = [{"op": "copy", "from": "/a", "path": f"/copy{n}"} for n in range(4)]
    assert len(jsonpatch.apply(document, copies[:3])) == 4
    with pytest.raises(ApiError) as raised:
        jsonpatch.apply(document, copies)
    assert raised.value.code == 422


def test_a_copy_is_independent_of_its_source() -> None:
    result = patched(
        op("add", "/deep/er/first", value=1),
        {"op": "copy", "from": "/deep/er", "path": "/twin"},
        op("add", "/twin/second", value=2),
        {"op": "copy", "from": "/deep", "path": "/deep/itself"},
    )
    assert result["deep"]["er"] == {"est": [{"name": "c"}], "first": 1}
    assert result["twin"] == {"est": [{"name": "c"}], "first": 1, "second": 2}
    assert result["deep"]["itself"] == {"er": result["deep"]["er"]}


def test_values_of_the_patch_stay_as_they_were() -> None:
    value: JsonObject = {"k": []}
    patched(op("add", "/new", value=value), op("add", "/new/k/-", value=1), op("replace", "", value=value))
    assert value == {"k": []}


def test_no_operations_and_null_change_nothing() -> None:
    assert jsonpatch.apply(DOCUMENT, []) == DOCUMENT
    assert jsonpatch.apply(DOCUMENT, None) == DOCUMENT


def test_strict_validation_reports_members_that_mean_nothing() -> None:
    operations = [op("test", "/data/a", value="1"), op("add", "/data/a", value="1", why="because")]
    assert jsonpatch.unknown_fields(operations) == ['json patch unknown field "[1].why"']


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@given(st.dictionaries(st.text("ab/~", min_size=1, max_size=2), json_values, min_size=1), json_values, st.data())
def test_what_a_test_confirms_a_replace_changes_and_only_that(
    document: JsonObject, value: Json, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(document)))
    path = "/" + escaped(key)
    result = patched(op("test", path, value=document[key]), op("replace", path, value=value), document=document)
    assert result == {**document, key: value}


@given(st.dictionaries(st.text("ab/~", min_size=1, max_size=2), json_values, min_size=1), st.data())
def test_add_then_remove_is_nothing(document: JsonObject, data: st.DataObject) -> None:
    value = data.draw(json_values)
    assert patched(op("add", "/zz", value=value), op("remove", "/zz"), document=document) == document
