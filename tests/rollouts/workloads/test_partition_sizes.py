"""Sizes of ReplicaSets under a partition: the table, and what holds on every way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rollouts.workloads.partition_sizes import PartitionedSizes, SetSize, next_sizes, scaled_sizes

TABLE = [
    ((5, 2), (1, 0), (0, 0), (5, 5), (1, 5)),
    ((5, 2), (1, 0), (1, 1), (5, 5), (2, 4)),
    ((5, 2), (1, 0), (2, 2), (4, 4), (2, 3)),
    ((5, 2), (0, 1), (0, 0), (5, 5), (1, 4)),
    ((5, 2), (0, 1), (1, 0), (4, 4), (1, 4)),
    ((5, 0), (1, 0), (2, 2), (3, 3), (2, 4)),
    ((5, 0), (1, 0), (2, 2), (4, 4), (1, 5)),
    ((5, 5), (0, 0), (0, 0), (5, 5), (1, 4)),
    ((5, 2), (1, 0), (2, 0), (4, 4), (2, 4)),
    ((8, 2), (1, 0), (2, 2), (3, 3), (2, 6)),
    ((5, 2), (1, 0), (3, 3), (2, 2), (3, 2)),
    ((5, 0), (1, 0), (0, 0), (0, 0), (5, 0)),
]


@pytest.mark.parametrize(("whole", "limits", "new", "old", "expected"), TABLE)
def test_the_next_sizes(
    whole: tuple[int, int],
    limits: tuple[int, int],
    new: tuple[int, int],
    old: tuple[int, int],
    expected: tuple[int, int],
) -> None:
    surge, unavailable = limits
    found = next_sizes(*whole, SetSize(*new), [SetSize(*old)], surge=surge, unavailable=unavailable)
    assert found == PartitionedSizes(expected[0], (expected[1],))


@given(
    replicas=st.integers(1, 12),
    share=st.integers(0, 12),
    surge=st.integers(0, 4),
    unavailable=st.integers(0, 4),
    start=st.integers(0, 12),
    split=st.integers(0, 12),
    broken=st.booleans(),
)
def test_every_way_ends_and_keeps_its_limits(
    replicas: int, share: int, surge: int, unavailable: int, start: int, split: int, broken: bool
) -> None:
    """All pods become available between two steps, except new ones of a version that is broken."""
    partition = min(share, replicas)
    new = min(start, replicas)
    rest = replicas - new
    old = [min(split, rest), rest - min(split, rest)]
    away = max(unavailable, 1) if surge == 0 else unavailable
    for _ in range(60):
        available = 0 if broken else new
        found = next_sizes(
            replicas,
            partition,
            SetSize(new, available),
            [SetSize(one, one) for one in old],
            surge=surge,
            unavailable=unavailable,
        )
        assert found.new + sum(found.old) <= max(replicas + surge, new + sum(old))
        if sum(found.old) < sum(old):
            kept = available if found.new >= new else min(available, found.new)
            assert kept + sum(found.old) >= min(replicas - away, available + sum(old))
        if (found.new, list(found.old)) == (new, old):
            break
        new, old = found.new, list(found.old)
    else:
        raise AssertionError("no end")
    if not broken:
        reached = replicas if not rest else max(partition, min(start, replicas)) if partition else 0
        assert (new, sum(old)) == (reached, replicas - reached)


@given(before=st.integers(1, 30), after=st.integers(1, 30), data=st.data())
def test_replica_sets_that_are_scaled_one_after_the_other_get_the_sizes_of_the_first_look(
    before: int, after: int, data: st.DataObject
) -> None:
    """A write in between may be refused, because the cache is behind."""
    new = data.draw(st.integers(0, before))
    wanted = scaled_sizes(after, new, [before - new], new_sized_for=before)
    assert scaled_sizes(after, new, wanted.old, new_sized_for=before) == wanted or not (new + sum(wanted.old))
    assert scaled_sizes(after, wanted.new, [before - new], new_sized_for=after) == wanted or not (
        wanted.new + before - new
    )


@given(replicas=st.integers(0, 30), new=st.integers(0, 20), old=st.lists(st.integers(0, 20), max_size=3))
def test_a_deployment_that_is_scaled_has_its_size_at_once(replicas: int, new: int, old: list[int]) -> None:
    found = scaled_sizes(replicas, new, old)
    if new + sum(old):
        assert found.new + sum(found.old) == replicas
        assert all(size >= 0 for size in (found.new, *found.old))
