"""YAML whose cost is bounded before it is read."""

import pytest
import yaml

from kohort.objects.bounded_yaml import MOST_DEPTH, TooLarge, json_problem, load_all


def test_documents_are_read_with_their_aliases() -> None:
    assert load_all("a: &x [1, 2]\nb: *x\n---\nc: 3\n") == [{"a": [1, 2], "b": [1, 2]}, {"c": 3}]
    assert load_all("") == []


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{one}: &a{one} [{', '.join([f'*a{one - 1}'] * 10)}]" for one in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: " + "[" * 50_000, "nested more than 100 levels"),
        ("- " * 50_000 + "a", "nested more than 100 levels"),
        (laughs(9), "more than 200000 values"),
        ("a: [" + "x," * 250_000 + "]", "more than 200000 values"),
        ("a: " + ":".join(["59"] * 60_000), "a number has more than 1000 characters"),
        ("a: " + "9" * 190_000, "a number has more than 1000 characters"),
        ("a: -0x" + "f" * 190_000, "a number has more than 1000 characters"),
    ],
)
def test_what_costs_too_much_is_refused_before_it_is_read(text: str, reason: str) -> None:
    with pytest.raises(TooLarge, match=reason):
        load_all(text)


@pytest.mark.parametrize("text", ["9" * 2000, "59:" * 2000 + "59"])
def test_text_in_quotes_may_look_like_a_long_number(text: str) -> None:
    assert load_all(f'"{text}"') == [text]


@pytest.mark.parametrize("text", ["2001-99-99", "2001-01-01T99:00:00Z"])
def test_a_date_that_no_calendar_has_is_wrong_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="put text in quotes"):
        load_all(f"a: {text}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("on: 1", "put on, yes, no and null in quotes"),
        ("a: {null: 1}", "put on, yes, no and null in quotes"),
        ("&a [*a]", "contains itself"),
        ("a: &b {c: [*b]}", "contains itself"),
        ("a: {1: 2, b: 2001-01-01}", ""),
    ],
)
def test_what_json_cannot_have_is_named(text: str, reason: str) -> None:
    (found,) = load_all(text)
    assert reason in json_problem(found) if reason else json_problem(found) == ""


def test_what_is_just_allowed_is_read() -> None:
    assert len(load_all("[" * MOST_DEPTH + "]" * MOST_DEPTH)) == 1
    assert len(load_all(laughs(4))) == 1


def test_wrong_yaml_is_named() -> None:
    with pytest.raises(yaml.YAMLError):
        load_all("a: [")
