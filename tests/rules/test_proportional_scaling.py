"""Shares of a Deployment that is scaled: the table, and what holds for all sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.proportional_scaling import ScaledSet, proportional_sizes


@pytest.mark.parametrize(
    ("before", "sizes", "after", "expected"),
    [
        ((5, 2), (3, 2), (10, 3), [6, 4]),
        ((4, 1), (3, 1), (6, 2), [5, 1]),
        ((4, 1), (3, 1), (8, 2), [6, 2]),
        ((10, 3), (6, 4), (5, 2), [3, 2]),
    ],
)
def test_the_table(
    before: tuple[int, int], sizes: tuple[int, ...], after: tuple[int, int], expected: list[int]
) -> None:
    given_sets = [ScaledSet(size, sum(before)) for size in sizes]
    assert proportional_sizes(sum(after), after[0] - sum(sizes), given_sets) == expected


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4), replicas=st.integers(0, 60), surge=st.integers(0, 9))
def test_the_change_is_divided_without_a_rest(sizes: list[int], replicas: int, surge: int) -> None:
    by_size = [ScaledSet(size, sum(sizes) + surge) for size in sorted(sizes, reverse=True)]
    found = proportional_sizes(replicas + surge if replicas else 0, replicas - sum(sizes), by_size)
    assert sum(found) == replicas
    assert all(size >= 0 for size in found)
