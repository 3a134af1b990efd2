"""Growing batches: everything once, in order, and never more than twice as many as before."""

import doctest
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads import slow_start
from kohort.cluster.workloads.slow_start import growing_batches


@given(st.lists(st.integers(), max_size=200))
def test_every_item_comes_once_and_in_order(items: list[int]) -> None:
    batches = [list(batch) for batch in growing_batches(items)]
    assert [item for batch in batches for item in batch] == items
    assert all(0 < len(after) <= 2 * len(before) for before, after in pairwise(batches))


def test_the_example_in_the_documentation_holds() -> None:
    assert doctest.testmod(slow_start).failed == 0
