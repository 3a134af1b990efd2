"""Numbers that may also be percentages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects import int_or_string


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (3, 10, 3, 3),
        (0, 10, 0, 0),
        ("25%", 10, 3, 2),
        ("0%", 10, 0, 0),
        ("100%", 7, 7, 7),
        ("1%", 1, 1, 0),
        ("150%", 2, 3, 3),
        ("50%", 0, 0, 0),
    ],
)
def test_a_percentage_is_a_share_of_the_total(value: int | str, total: int, up: int, down: int) -> None:
    assert int_or_string.resolve(value, total, round_up=True) == up
    assert int_or_string.resolve(value, total, round_up=False) == down


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("5", "invalid value for IntOrString: invalid type: string is not a percentage"),
        ("x%", 'invalid value for IntOrString: invalid value "x%": strconv.Atoi: parsing "x": invalid syntax'),
    ],
)
def test_other_text_is_refused(value: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        int_or_string.resolve(value, 10, round_up=True)
    assert str(refused.value) == message


@given(st.integers(0, 500), st.integers(0, 10_000))
def test_rounding_up_and_down_enclose_the_exact_share(percent: int, total: int) -> None:
    down = int_or_string.resolve(f"{percent}%", total, round_up=False)
    up = int_or_string.resolve(f"{percent}%", total, round_up=True)
    assert down * 100 <= percent * total <= up * 100
    assert up - down <= 1
