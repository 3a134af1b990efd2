"""The limits of a metric: at which boundaries of a histogram it is judged, and what its checks mean together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rollouts.analysis.distributions import Distribution
from kohort.rollouts.analysis.metric_judgement import (
    Check,
    CheckResult,
    Limit,
    MetricVerdict,
    judge_check,
    judge_metric,
    quantile_max_checks,
    ratio_checks,
)

BOUNDS = (0.1, 0.25, 0.5)
PASSED, FAILED, RUNNING, NO_DATA = (
    MetricVerdict.PASSED,
    MetricVerdict.FAILED,
    MetricVerdict.RUNNING,
    MetricVerdict.NO_DATA,
)


def judged_by_max(limit: float, counts: tuple[float, ...]) -> MetricVerdict:
    checks = quantile_max_checks(BOUNDS, 0.95, limit, 0.01)
    results = tuple(judge_check(check, Distribution(BOUNDS, counts), Distribution()) for check in checks)
    return judge_metric(checks, results, enough=True)


@pytest.mark.parametrize(
    ("limit", "counts", "verdict"),
    [
        pytest.param(0.25, (0, 5000, 0, 0), PASSED, id="a boundary: all below"),
        pytest.param(0.25, (0, 0, 5000, 0), FAILED, id="a boundary: all above"),
        pytest.param(0.3, (0, 5000, 0, 0), PASSED, id="between two: all below the lower one"),
        pytest.param(0.3, (0, 0, 0, 5000), FAILED, id="between two: all above the upper one"),
        pytest.param(0.3, (0, 0, 5000, 0), RUNNING, id="between two: what is in between proves neither"),
        pytest.param(0.05, (5000, 0, 0, 0), RUNNING, id="below all: it cannot pass"),
        pytest.param(0.05, (0, 5000, 0, 0), FAILED, id="below all: it fails by the first boundary"),
        pytest.param(0.9, (0, 0, 5000, 0), PASSED, id="above all: it passes by the last boundary"),
        pytest.param(0.9, (0, 0, 0, 5000), RUNNING, id="above all: it cannot fail"),
    ],
)
def test_a_limit_between_two_boundaries_is_judged_by_the_worse_one(
    limit: float, counts: tuple[float, ...], verdict: MetricVerdict
) -> None:
    assert judged_by_max(limit, counts) is verdict


@given(
    limit=st.floats(0.01, 1.0),
    counts=st.tuples(*[st.integers(0, 2000)] * 4),
)
def test_a_max_that_is_kept_by_all_samples_never_fails_and_one_that_is_broken_by_all_never_passes(
    limit: float, counts: tuple[float, ...]
) -> None:
    verdict = judged_by_max(limit, counts)
    above = (*BOUNDS, float("inf"))
    kept = all(not count or bound <= limit for bound, count in zip(above, counts, strict=True))
    broken = all(not count or lower >= limit for lower, count in zip((0.0, *BOUNDS), counts, strict=True))
    assert not (kept and verdict is FAILED)
    assert not (broken and any(counts) and verdict is PASSED)


def test_a_ratio_is_judged_at_both_boundaries_around_the_quantile() -> None:
    """A fifth of the samples is above 0.25, none above 0.5: the 95th percentile lies between them."""
    stable = Distribution(BOUNDS, (300, 500, 200, 0))
    checks = ratio_checks(stable, 0.95, 1.15, 0.01)
    assert [(BOUNDS[check.place], check.error) for check in checks] == [(0.25, 0.005), (0.5, 0.005)]
    slower_at_the_tail = Distribution(BOUNDS, (300, 500, 0, 200))
    results = tuple(judge_check(check, slower_at_the_tail, stable) for check in checks)
    assert [result.verdict for result in results] == [PASSED, FAILED]
    assert judge_metric(checks, results, enough=True) is FAILED, "the worse one counts"


def test_a_boundary_at_the_quantile_is_judged_alone() -> None:
    stable = Distribution(BOUNDS, (300, 645, 55, 0))
    assert [BOUNDS[check.place] for check in ratio_checks(stable, 0.95, 1.15, 0.01)] == [0.25]


@pytest.mark.parametrize(
    ("verdicts", "can_pass", "enough", "expected"),
    [
        ((PASSED, PASSED), (True, True), True, PASSED),
        ((PASSED, RUNNING), (True, True), True, RUNNING),
        ((RUNNING, PASSED), (True, True), True, RUNNING),
        ((FAILED, PASSED), (True, True), True, FAILED),
        ((PASSED, FAILED), (True, True), True, FAILED),
        ((RUNNING, PASSED), (False, True), True, PASSED),
        ((RUNNING,), (False,), True, RUNNING),
        ((PASSED, PASSED), (True, True), False, NO_DATA),
        ((FAILED, PASSED), (True, True), False, FAILED),
    ],
)
def test_a_metric_fails_by_one_check_and_passes_by_all_that_can(
    verdicts: tuple[MetricVerdict, ...], can_pass: tuple[bool, ...], enough: bool, expected: MetricVerdict
) -> None:
    checks = tuple(Check(Limit.MAX, 0, 0.01, 0.0, 0.0, 0.0, can_pass=one) for one in can_pass)
    results = tuple(CheckResult(Limit.MAX, one, 0.0, 0.0, 0.0, 0.0, 0.0) for one in verdicts)
    assert judge_metric(checks, results, enough=enough) is expected
