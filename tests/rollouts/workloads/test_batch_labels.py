"""Which batch brought a replica: labels stay, and every batch gets as many as it planned."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rollouts.workloads.batch_labels import assign


@pytest.mark.parametrize(
    ("known", "planned", "expected"),
    [
        ({}, [1], {}),
        ({"0": None}, [1], {"0": 1}),
        ({"0": 1}, [1], {}),
        ({"0": 1, "1": None}, [1, 2], {"1": 2}),
        ({"0": None, "1": None}, [1, 2], {"1": 2, "0": 1}),
        ({"0": 1, "1": 2, "2": None}, [1, 3], {"2": 2}),
        ({"0": 1, "1": 2, "2": None, "3": None}, [2, 4], {"3": 2, "2": 1}),
        ({"0": 7}, [1], {"0": 1}),
        ({"0": None, "1": None, "2": None}, [1, 2], {"2": 2, "1": 1}),
    ],
)
def test_who_gets_which_batch(known: dict[str, int | None], planned: list[int], expected: dict[str, int]) -> None:
    assert assign(known, planned) == expected


plans = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(
    lambda steps: [sum(steps[: place + 1]) for place in range(len(steps))]
)


@given(plans, st.lists(st.one_of(st.none(), st.integers(1, 5)), max_size=12))
def test_no_batch_gets_more_than_it_planned(planned: list[int], batches: list[int | None]) -> None:
    known = {str(index): batch for index, batch in enumerate(batches)}
    given_ = assign(known, planned)
    sizes = {number: count - (planned[number - 2] if number > 1 else 0) for number, count in enumerate(planned, 1)}
    before = Counter(batch for batch in known.values() if batch in sizes)
    after = before + Counter(given_.values())
    assert all(after[number] <= max(size, before[number]) for number, size in sizes.items())


@given(plans, st.lists(st.one_of(st.none(), st.integers(1, 5)), max_size=12))
def test_a_label_of_this_plan_stays(planned: list[int], batches: list[int | None]) -> None:
    known = {str(index): batch for index, batch in enumerate(batches)}
    numbers = range(1, len(planned) + 1)
    assert not any(known[replica] in numbers for replica in assign(known, planned))


@given(plans)
def test_as_many_replicas_as_planned_all_get_a_batch(planned: list[int]) -> None:
    known: dict[str, int | None] = {str(index): None for index in range(planned[-1])}
    assert assign(known, planned).keys() == known.keys()
