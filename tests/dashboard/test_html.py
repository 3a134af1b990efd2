"""Whatever an object brings, it stays text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.dashboard.html import Html, join, path, tag

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title><svg onload=alert(1)>",
    "javascript:alert(1)",
)


@pytest.mark.parametrize("text", PAYLOADS)
def test_children_and_attributes_are_escaped(text: str) -> None:
    made = tag("p", text, title=text)
    assert "<script" not in made and "<img" not in made and "<svg" not in made
    assert made.count('"') == 2


@given(st.text())
def test_no_text_leaves_its_place(text: str) -> None:
    made = tag("p", text, title=text)
    inside = made.removeprefix("<p ").removesuffix("</p>")
    assert "<" not in inside
    assert inside.count('"') == 2


@pytest.mark.parametrize("value", ["javascript:alert(1)", "https://example.com", "data:,x"])
def test_only_own_paths_are_followed(value: str) -> None:
    with pytest.raises(ValueError, match="must be a path of the dashboard"):
        tag("a", href=value)


def test_a_path_that_begins_with_two_slashes_is_another_host() -> None:
    with pytest.raises(ValueError, match="must be a path of the dashboard"):
        tag("a", href="//example.com")


def test_html_is_not_escaped_twice() -> None:
    assert tag("p", tag("b", "&"), None, [Html("<i></i>"), 3]) == "<p><b>&amp;</b><i></i>3</p>"
    assert join("a", None, "<") == "a&lt;"


def test_elements_of_a_drawing_are_closed() -> None:
    """In an svg, a browser takes an element that is not closed for the parent of the next one."""
    assert tag("svg", tag("rect", x="1"), tag("rect", x="2")) == '<svg><rect x="1"/><rect x="2"/></svg>'


def test_parts_of_a_path_are_quoted() -> None:
    assert path("sets", "a b", "../c") == "/dashboard/sets/a%20b/..%2Fc"
    assert path("", query=[("name", "a&b"), ("page", "")]) == "/dashboard/?name=a%26b"
