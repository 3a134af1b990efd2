"""Samples between boundaries: added, divided at a limit, and their quantiles."""

from itertools import accumulate, pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rollouts.analysis.distributions import Distribution, bad_and_good, cumulative, share_of_bucket_above
from kohort.rollouts.analysis.sequential_test import Counts

BOUNDS = (0.1, 0.5, 1.0)
amounts = st.integers(0, 1000).map(float)
counted = st.tuples(amounts, amounts, amounts, amounts)


def of(*counts: float) -> Distribution:
    return Distribution(BOUNDS, counts)


@given(counted, counted)
def test_samples_of_the_same_boundaries_are_added(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    both = of(*first) + of(*second)
    assert both == of(*second) + of(*first)
    assert both.total == sum(first) + sum(second)
    assert both.bounds == BOUNDS


@pytest.mark.parametrize("other", [Distribution((0.1,), (1.0, 2.0)), Distribution(BOUNDS, (1.0, 2.0)), Distribution()])
def test_after_a_change_of_boundaries_only_later_samples_count(other: Distribution) -> None:
    assert of(1, 2, 3, 4) + other == other
    assert other + of(1, 2, 3, 4) == of(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("place", "fraction", "above"),
    [
        (0, 0.0, Counts(9, 10)),
        (1, 0.0, Counts(7, 10)),
        (2, 0.0, Counts(4, 10)),
        (2, 0.5, Counts(5.5, 10)),
        (0, 1.0, Counts(10, 10)),
        (3, 0.0, Counts()),
    ],
)
def test_samples_above_a_boundary(place: int, fraction: float, above: Counts) -> None:
    assert of(1, 2, 3, 4).above(place, fraction) == above


@given(counted)
def test_what_prometheus_counts_up_is_divided_again(counts: tuple[float, ...]) -> None:
    assert cumulative(BOUNDS, tuple(accumulate(counts))) == of(*counts)


def test_bad_requests_are_above_the_boundary() -> None:
    assert bad_and_good(bad=3, good=7).above(0) == Counts(3, 10)
    assert bad_and_good(0, 0).above(0) == Counts(0, 0)


@pytest.mark.parametrize(
    ("counts", "q", "value"),
    [
        ((10, 0, 0, 0), 0.5, 0.05),
        ((10, 0, 0, 0), 1.0, 0.1),
        ((0, 10, 0, 0), 0.5, 0.3),
        ((5, 0, 5, 0), 0.5, 0.1),
        ((5, 0, 5, 0), 0.75, 0.75),
        ((0, 0, 0, 10), 0.5, 1.0),
        ((1, 0, 0, 9), 0.5, 1.0),
        ((0, 0, 0, 0), 0.5, 1.0),
    ],
)
def test_quantiles_as_prometheus_computes_them(counts: tuple[float, ...], q: float, value: float) -> None:
    assert of(*counts).quantile(q) == pytest.approx(value)


def test_without_boundaries_there_is_no_quantile() -> None:
    assert Distribution().quantile(0.9) == 0.0
    assert Distribution((), (5.0,)).quantile(0.9) == 0.0


def test_a_first_boundary_below_zero_is_its_own_beginning() -> None:
    assert Distribution((-1.0, 1.0), (10.0, 0.0, 0.0)).quantile(0.5) == -1.0


@given(counted, st.lists(st.floats(0, 1), min_size=2, max_size=8).map(sorted))
def test_a_larger_share_has_a_larger_quantile(counts: tuple[float, ...], shares: list[float]) -> None:
    found = [of(*counts).quantile(q) for q in shares]
    assert all(0.0 <= value <= BOUNDS[-1] for value in found)
    assert all(before <= after + 1e-9 for before, after in pairwise(found))


@given(counted.filter(lambda counts: sum(counts[:3]) > 0), st.floats(0.001, 1))
def test_a_quantile_lies_where_its_share_of_the_samples_does(counts: tuple[float, ...], q: float) -> None:
    """At most that share is in the buckets below it, at least that share up to the boundary above it."""
    value, wanted = of(*counts).quantile(q), q * sum(counts)
    below = sum(count for count, bound in zip(counts, BOUNDS, strict=False) if bound < value)
    until = sum(count for count, lower in zip(counts, (-inf, *BOUNDS), strict=True) if lower < value)
    assert below <= wanted * (1 + 1e-9) or value == BOUNDS[-1]
    assert until >= wanted * (1 - 1e-9) or value == BOUNDS[-1]


@pytest.mark.parametrize(
    ("lower", "bound", "limit", "share"),
    [
        (0.1, 0.4, 0.4, 0.0),
        (0.1, 0.4, 0.5, 0.0),
        (0.1, 0.4, 0.1, 1.0),
        (0.1, 0.4, 0.05, 1.0),
        (0.1, 0.4, 0.2, 0.5),
        (0.0, 0.4, 0.1, 0.75),
    ],
)
def test_a_limit_within_a_bucket_divides_its_samples(lower: float, bound: float, limit: float, share: float) -> None:
    assert share_of_bucket_above(lower, bound, limit) == pytest.approx(share)


@given(st.floats(0, 10), st.floats(0.01, 10), st.lists(st.floats(0, 30), min_size=2, max_size=6).map(sorted))
def test_a_higher_limit_never_has_more_samples_above_it(lower: float, width: float, limits: list[float]) -> None:
    shares = [share_of_bucket_above(lower, lower + width, limit) for limit in limits]
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert shares == sorted(shares, reverse=True)
