"""Durations as Go writes and reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.go_duration import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("15s", 15.0),
        ("1m30s", 90.0),
        ("250ms", 0.25),
        ("1h", 3600.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("2.s", 2.0),
        ("10us", 1e-5),
        ("10µs", 1e-5),
        ("5ns", 5e-9),
        ("1h2m3s4ms", 3723.004),
        ("1m1m", 120.0),
    ],
)
def test_what_a_text_means(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "10", "1 s", " 1s", "1s ", "-1s", "1d", "1s1", "1e3s", "1.2.3s", "1S", "."])
def test_what_is_not_a_duration_is_quoted_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 15s, 1m30s or 250ms") as found:
        parse_duration(text)
    assert repr(text) in str(found.value)


@given(st.integers(0, 10_000), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_pieces_add_up(hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s{milliseconds}ms"
    assert parse_duration(text) == pytest.approx(hours * 3600 + minutes * 60 + seconds + milliseconds / 1000)


@given(st.text(max_size=20))
def test_any_text_is_a_number_of_seconds_or_refused(text: str) -> None:
    try:
        assert parse_duration(text) >= 0
    except ValueError as problem:
        assert "invalid duration" in str(problem)
