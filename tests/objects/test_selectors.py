"""Expected matches, texts and messages are those of apimachinery 0.36."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import (
    EVERYTHING,
    NOTHING,
    FieldSelector,
    LabelSelector,
    Requirement,
    escape_field_value,
    node_requirement,
    selector_errors,
)

LABELS = {"app": "web", "tier": "", "size": "5"}


@pytest.mark.parametrize(
    ("text", "canonical", "matches"),
    [
        ("", "", True),
        ("app=web", "app=web", True),
        ("app==web", "app==web", True),
        ("app!=web", "app!=web", False),
        ("app in (web,db)", "app in (db,web)", True),
        ("app notin (db)", "app notin (db)", True),
        ("missing!=x", "missing!=x", True),
        ("missing notin (x)", "missing notin (x)", True),
        ("app", "app", True),
        ("!app", "!app", False),
        ("!missing", "!missing", True),
        ("tier=", "tier=", True),
        ("tier in ()", "tier in ()", True),
        ("tier in (x,,y)", "tier in (,x,y)", True),
        ("size>4", "size>4", True),
        ("size<5", "size<5", False),
        ("app>4", "app>4", False),
        (" tier = , app in ( web ) ", "app in (web),tier=", True),
        ("in in (in)", "in in (in)", False),
        ("size,app=web,app!=db", "app=web,app!=db,size", True),
    ],
)
def test_label_selector_text(text: str, canonical: str, matches: bool) -> None:
    selector = LabelSelector.parse(text)
    assert str(selector) == canonical
    assert selector.matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a=b c",
            "found 'c', expected: ',' or 'end of string'",
        ),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "-a",
            'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of alphanumeric '
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
            "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    ],
)
def test_a_broken_label_selector_is_refused_in_the_words_of_the_api(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        LabelSelector.parse(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "x": "y"}}, False),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
    ],
)
def test_selector_objects(selector: JsonObject | None, matches: bool) -> None:
    assert LabelSelector.from_object(selector).matches(LABELS) is matches


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match='"Near" is not a valid label selector operator'):
        LabelSelector.from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})


def test_nothing_and_everything_are_apart() -> None:
    assert LabelSelector.from_object(None) == NOTHING != EVERYTHING == LabelSelector.from_object({})
    assert NOTHING.also([Requirement("a", "=", ("b",))]) == NOTHING


def test_exact_finds_the_demanded_value() -> None:
    selector = LabelSelector.parse("app in (web),size!=3")
    assert selector.exact("app") == "web"
    assert selector.exact("size") is None
    assert selector.exact("other") is None


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("Gt", ["4"], True),
        ("Gt", ["5"], False),
        ("Lt", ["6"], True),
        ("Gt", ["x"], False),
        ("Gt", ["1", "2"], False),
        ("In", ["5"], True),
    ],
)
def test_node_requirements_compare_numbers(operator: str, values: list[str], matches: bool) -> None:
    requirement = node_requirement("size", operator, values)
    assert requirement is not None
    assert requirement.matches(LABELS) is matches


def test_a_node_requirement_with_unknown_operator_matches_nothing() -> None:
    assert node_requirement("size", "Near", []) is None


def test_selector_errors_name_every_field() -> None:
    selector: JsonObject = {
        "matchLabels": {"-": "ok"},
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a", "operator": "Near"},
            {"key": "a", "operator": "In", "values": ["-"]},
        ],
    }
    assert [(error.field, error.reason) for error in selector_errors(selector, "spec.selector")] == [
        ("spec.selector.matchLabels", "FieldValueInvalid"),
        ("spec.selector.matchExpressions[0].values", "FieldValueRequired"),
        ("spec.selector.matchExpressions[1].values", "FieldValueForbidden"),
        ("spec.selector.matchExpressions[2].operator", "FieldValueInvalid"),
        ("spec.selector.matchExpressions[3].values[0]", "FieldValueInvalid"),
    ]


FIELDS = {"spec.nodeName": "n1", "status.phase": "Running", "metadata.name": "a,b=c"}


@pytest.mark.parametrize(
    ("text", "canonical", "matches"),
    [
        ("", "", True),
        ("spec.nodeName=n1", "spec.nodeName=n1", True),
        ("spec.nodeName==n1", "spec.nodeName=n1", True),
        ("spec.nodeName!=n1", "spec.nodeName!=n1", False),
        ("status.phase!=Failed,spec.nodeName=n1", "spec.nodeName=n1,status.phase!=Failed", True),
        (r"metadata.name=a\,b\=c", r"metadata.name=a\,b\=c", True),
        ("unknown=", "unknown=", True),
        (",spec.nodeName=n1,,", "spec.nodeName=n1", True),
        ("=", "", True),
    ],
)
def test_field_selector_text(text: str, canonical: str, matches: bool) -> None:
    selector = FieldSelector.parse(text)
    assert str(selector) == canonical
    assert selector.matches(FIELDS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec.nodeName", "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\n", r"invalid field selector: invalid escape sequence: \n"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_broken_field_selector_is_refused_in_the_words_of_the_api(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        FieldSelector.parse(text)
    assert str(refused.value) == message


@given(st.text(max_size=20))
def test_any_value_survives_escaping(value: str) -> None:
    selector = FieldSelector.parse(f"metadata.name={escape_field_value(value)}")
    assert selector.matches({"metadata.name": value})
    assert selector.exact("metadata.name") == value


keys = st.sampled_from(["a", "b", "c"])
values = st.lists(st.sampled_from(["x", "y", ""]), min_size=1, max_size=3, unique=True)
terms = st.one_of(
    st.builds(lambda key, value: f"{key}={value}", keys, st.sampled_from(["x", "y"])),
    st.builds(lambda key, chosen: f"{key} in ({','.join(chosen)})", keys, values),
    st.builds(lambda key, chosen: f"{key} notin ({','.join(chosen)})", keys, values),
    keys,
    st.builds(lambda key: f"!{key}", keys),
)
labels = st.dictionaries(keys, st.sampled_from(["x", "y", "z", ""]))


@given(st.lists(terms, max_size=4), labels)
def test_a_selector_is_the_conjunction_of_its_terms(parts: list[str], given_labels: dict[str, str]) -> None:
    whole = LabelSelector.parse(",".join(parts))
    assert whole.matches(given_labels) == all(LabelSelector.parse(part).matches(given_labels) for part in parts)
    assert LabelSelector.parse(str(whole)).matches(given_labels) == whole.matches(given_labels)
