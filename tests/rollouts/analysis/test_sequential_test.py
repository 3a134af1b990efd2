"""The sequential test: false alarms stay rare however long it is watched, and real differences are found soon."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.analysis.simulated_releases import (
    Latency,
    Plan,
    PodPlan,
    watch,
    watch_pods,
    watch_shares,
)

from kohort.rollouts.analysis.metric_judgement import MetricVerdict
from kohort.rollouts.analysis.sequential_test import (
    Comparison,
    Counts,
    SingleShare,
    dispersion,
    expected_share,
    expected_share_of_new_version,
)

RELEASES = 2000


def lognormal(median: float, sigma: float) -> Latency:
    return lambda rng: median * rng.lognormvariate(0, sigma)


def gamma(mean: float, shape: float) -> Latency:
    return lambda rng: rng.gammavariate(shape, mean / shape)


LATENCIES = {
    "narrow": lognormal(0.2, 0.5),
    "wide": lognormal(0.1, 0.7),
    "gamma": gamma(0.4, 2.0),
    "between buckets": lognormal(0.6, 0.5),
}


@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_without_a_difference_at_most_one_minus_confidence_of_releases_fail(confidence: float) -> None:
    rng = random.Random(f"no difference {confidence}")
    error = 1 - confidence
    failed = 0
    for place in range(RELEASES):
        latency = list(LATENCIES.values())[place % len(LATENCIES)]
        # The limit is the quantile of the stable set itself, which is the hardest case, and the release is long.
        plan = Plan(latency, ratio=1.0, error=error, samples=600, window=20)
        failed += watch(plan, rng)[0] is MetricVerdict.FAILED
    assert failed <= error * RELEASES, f"{failed} of {RELEASES}"


def test_looking_after_every_few_samples_for_very_long_causes_no_more_alarms() -> None:
    rng = random.Random("long")
    failed = sum(watch_shares(0.05, 0.05, 0.0, 0.01, 20_000, rng) for _ in range(100))
    assert failed <= 1


@pytest.mark.parametrize("name", LATENCIES)
def test_a_doubled_p95_is_found_within_300_samples(name: str) -> None:
    rng = random.Random(f"doubled {name}")
    found = [watch(Plan(LATENCIES[name], slower=2.0), rng) for _ in range(300)]
    assert sum(verdict is MetricVerdict.FAILED for verdict, _ in found) >= 0.95 * len(found)


def test_a_doubled_p95_is_found_where_four_metrics_share_the_error_over_three_steps() -> None:
    rng = random.Random("shared")
    found = [watch(Plan(LATENCIES["narrow"], slower=2.0, error=0.01 / 12), rng)[0] for _ in range(300)]
    assert found.count(MetricVerdict.FAILED) >= 0.95 * len(found)


def test_a_version_that_is_as_fast_passes_within_500_samples_mostly() -> None:
    rng = random.Random("as fast")
    found = [watch(Plan(LATENCIES["narrow"], samples=500), rng)[0] for _ in range(200)]
    assert found.count(MetricVerdict.PASSED) >= 0.9 * len(found)


def test_pods_that_differ_from_each_other_cause_no_more_alarms() -> None:
    """Speeds of pods differ by a tenth, less than the ratio allows, but more than chance explains."""
    rng = random.Random("pods")
    failed = sum(
        watch_pods(PodPlan(LATENCIES["narrow"], spread=0.1, error=0.01), rng) is MetricVerdict.FAILED
        for _ in range(200)
    )
    assert failed <= 2


def test_an_error_rate_beyond_its_delta_is_found_and_one_within_it_is_not() -> None:
    rng = random.Random("errors")
    assert sum(watch_shares(0.01, 0.10, 0.005, 0.01, 1000, rng) for _ in range(100)) >= 95
    assert sum(watch_shares(0.01, 0.015, 0.005, 0.01, 4000, rng) for _ in range(200)) <= 2


counts = st.integers(0, 400).flatmap(lambda total: st.builds(Counts, st.integers(0, total), st.just(total)))


@given(counts, counts, st.floats(0.0, 0.5), st.sampled_from([0.05, 0.01, 0.0001]), st.floats(1.0, 5.0))
def test_the_interval_contains_the_estimate_and_agrees_with_the_decisions(
    new: Counts, stable: Counts, share: float, error: float, spread: float
) -> None:
    comparison = Comparison(expected_share_of_new_version(share), expected_share(share, 100), error)
    interval = comparison.interval(new, stable, spread)
    assert -1 <= interval.lower <= interval.upper <= 1
    if new.total and stable.total:
        assert interval.lower <= new.share - stable.share + 1e-6
        assert interval.upper >= new.share - stable.share - 1e-6
    for margin in (0.0, 0.01, 0.1):
        if comparison.lower_bound_exceeds(margin, new, stable, spread):
            assert interval.lower >= margin - 1e-4
        if comparison.upper_bound_within(margin, new, stable, spread):
            assert interval.upper <= margin + 1e-4


@given(counts, counts, st.floats(0.0, 0.5))
def test_more_spread_never_makes_an_interval_narrower(new: Counts, stable: Counts, share: float) -> None:
    comparison = Comparison(expected_share_of_new_version(share), expected_share(share, 100), 0.01)
    narrow, wide = comparison.interval(new, stable, 1.0), comparison.interval(new, stable, 2.0)
    assert wide.lower <= narrow.lower + 1e-6
    assert wide.upper >= narrow.upper - 1e-6


@given(counts, st.floats(0.01, 0.5))
def test_the_interval_of_one_share_contains_the_estimate(found: Counts, share: float) -> None:
    interval = SingleShare(expected_share_of_new_version(share), 0.01).interval(found)
    assert 0 <= interval.lower <= found.share + 1e-6 if found.total else interval.lower == 0
    assert interval.upper >= found.share - 1e-6


def test_no_samples_decide_nothing() -> None:
    comparison = Comparison(expected_share_of_new_version(0.05), expected_share(0.05, 0), 0.01)
    for new, stable in ((Counts(), Counts()), (Counts(5, 100), Counts()), (Counts(), Counts(5, 100))):
        assert not comparison.lower_bound_exceeds(0.0, new, stable) or stable.total
        assert not comparison.upper_bound_within(0.05, new, stable)


def test_dispersion_is_one_for_independent_pods_and_more_for_unlike_ones() -> None:
    rng = random.Random("dispersion")
    alike = [Counts(sum(rng.random() < 0.1 for _ in range(200)), 200) for _ in range(20)]
    assert dispersion(alike) < 1.6
    assert dispersion([Counts(0, 200), Counts(60, 200), Counts(2, 200)]) > 5
    assert dispersion([Counts(3, 10)]) == dispersion([]) == 1.0


def test_an_interval_is_computed_in_a_few_milliseconds() -> None:
    comparison = Comparison(expected_share_of_new_version(0.05), expected_share(0.05, 100), 0.01)
    begin = time.process_time()
    for _ in range(20):
        comparison.interval(Counts(700, 10_000), Counts(45_000, 900_000))
    assert time.process_time() - begin < 2.0
