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


SURGES = st.sampled_from([0, 1, 25, 100])
"""In percent."""


def surged(replicas: int, percent: int) -> int:
    return -(-replicas * percent // 100)


@pytest.mark.parametrize(
    ("before", "after", "sizes", "expected"),
    [
        (5, 10, (2, 3), (4, 6)),
        (4, 6, (1, 3), (1, 5)),
        (4, 8, (1, 3), (2, 6)),
        (6, 4, (1, 5), (1, 3)),
        (4, 5, (1, 3), (1, 4)),
        (10, 1, (4, 6), (1, 0)),
        (3, 0, (1, 2), (0, 0)),
    ],
)
def test_a_deployment_that_is_scaled_with_the_usual_surge(
    before: int, after: int, sizes: tuple[int, int], expected: tuple[int, int]
) -> None:
    most = before + surged(before, 25)
    new, old = (SetSize(size, size, most) for size in sizes)
    assert scaled_sizes(after, surged(after, 25), new, [old]) == PartitionedSizes(expected[0], (expected[1],))


def test_of_fewer_pods_those_of_old_versions_that_are_not_available_go_first() -> None:
    old = [SetSize(2, 0, 10), SetSize(4, 4, 10)]
    assert scaled_sizes(6, 0, SetSize(4, 0, 10), old) == PartitionedSizes(4, (0, 2))


@given(before=st.integers(1, 30), after=st.integers(1, 30), surge=SURGES, data=st.data())
def test_replica_sets_that_are_scaled_one_after_the_other_get_the_sizes_of_the_first_look(
    before: int, after: int, surge: int, data: st.DataObject
) -> None:
    """A write in between may be refused, because the cache is behind."""
    new = data.draw(st.integers(0, before - 1))
    most, added = before + surged(before, surge), surged(after, surge)
    unsized, other = (SetSize(size, size, most) for size in (new, before - new))
    wanted = scaled_sizes(after, added, unsized, [other])
    (wanted_old,) = wanted.old
    assert scaled_sizes(after, added, unsized, [SetSize(wanted_old, wanted_old)]) == wanted or not wanted_old
    assert scaled_sizes(after, added, SetSize(wanted.new, wanted.new), [other]) == wanted


@given(
    replicas=st.integers(0, 30),
    surge=SURGES,
    sizes=st.lists(st.integers(0, 20), min_size=2, max_size=4),
    broken=st.booleans(),
)
def test_a_deployment_that_is_scaled_has_its_size_at_once(
    replicas: int, surge: int, sizes: list[int], broken: bool
) -> None:
    most = sum(sizes) + surged(sum(sizes), surge)
    new, *old = (SetSize(size, 0 if broken else size, most) for size in sizes)
    found = scaled_sizes(replicas, surged(replicas, surge), new, old)
    if sum(sizes):
        assert found.new + sum(found.old) == replicas
        assert all(size >= 0 for size in (found.new, *found.old))


@given(before=st.integers(3, 30), after=st.integers(1, 30), surge=SURGES, data=st.data())
def test_a_new_version_of_the_smaller_part_does_not_exceed_its_share(
    before: int, after: int, surge: int, data: st.DataObject
) -> None:
    new = data.draw(st.integers(0, (before - 1) // 2))
    most, now = before + surged(before, surge), after + surged(after, surge)
    found = scaled_sizes(after, now - after, SetSize(new, new, most), [SetSize(before - new, before - new, most)])
    # Of fewer pods, the larger version is sized first and may lose all that go.
    assert found.new <= max(new * now / most + 0.5, new if after < before else 0)


@given(
    replicas=st.integers(0, 30), wanted=st.integers(0, 30), sizes=st.lists(st.integers(1, 20), min_size=2, max_size=4)
)
def test_a_percentage_is_followed_at_once(replicas: int, wanted: int, sizes: list[int]) -> None:
    new, *old = (SetSize(size, size, sum(sizes)) for size in sizes)
    found = scaled_sizes(replicas, 0, new, old, wanted)
    assert (found.new, sum(found.old)) == (min(wanted, replicas), replicas - min(wanted, replicas))
