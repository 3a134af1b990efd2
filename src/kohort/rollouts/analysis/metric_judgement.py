"""Judges a metric: which limits it is compared with, and what follows from the samples of both sets.

A limit is fixed before the first judged sample, as one or two checks. A check compares a share of bad samples with a
limit, or with the share of the stable set in the same minutes.

| limit | what is compared | fails when it is surely | passes when it is surely |
|---|---|---|---|
| max of a quantile | share of the new version above the limit | above 1 − q | below 2 (1 − q) |
| max of a share | the share of the new version | above max | below max |
| maxDelta of a share | the difference of the shares | above maxDelta | below maxDelta |
| maxRatio r of a quantile | new version above b, less stable above b / r | above 0 | below the tolerance |
| max of a value | share of readings above max | above a half | below a half |

A histogram only knows its boundaries. A `max` between two of them fails by the upper one and passes by the lower one:
what is in between proves neither. For `maxRatio`, b is the boundary at the quantile of the stable set; if the quantile
lies between two boundaries, both are judged, each with half of the error, and the worse one counts. The samples of the
stable set between b / r and b are counted in part, by a fraction that is fixed in advance too. With no difference
between the sets the difference is at most 0 whatever the fraction.

Why a tolerance: a version that is exactly as fast as allowed could never be proved to be faster. A quantile passes
when the share of slow samples is surely less than about twice what is allowed.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from kohort.rollouts.analysis.distributions import Distribution, share_of_bucket_above
from kohort.rollouts.analysis.sequential_test import (
    Comparison,
    Counts,
    Interval,
    SingleShare,
    dispersion,
    expected_share,
    expected_share_of_new_version,
)

HALF: Final = 0.5
_CLOSE: Final = 1.3
"""A boundary whose share is at most so much more than 1 − q is as good as the quantile itself."""


class Limit(StrEnum):
    """What a metric is compared with."""

    MAX = "max"
    MIN = "min"
    MAX_RATIO = "maxRatio"
    MAX_DELTA = "maxDelta"

    @property
    def compares(self) -> bool:
        """With the stable set, so that both must get the same kind of requests."""
        return self in (Limit.MAX_RATIO, Limit.MAX_DELTA)


class MetricVerdict(StrEnum):
    PASSED = "Passed"
    FAILED = "Failed"
    RUNNING = "Running"
    """Neither is sure yet."""
    NO_DATA = "NoData"
    """Fewer samples than asked for."""


class Check(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One comparison, fixed before the first judged sample."""

    limit: Limit
    place: int
    """Samples above this boundary are bad."""
    error: float
    fail_above: float
    pass_below: float
    expected: float
    """The share of the stable set before; or of a limit."""
    earlier_samples: float = 0.0
    fraction: float = 0.0
    can_fail: bool = True
    can_pass: bool = True


class CheckResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    limit: Limit
    verdict: MetricVerdict
    share: float
    stable_share: float
    lower: float
    upper: float
    fail_above: float
    note: str = ""
    """What the buckets of a histogram mean for the limit, in words."""


def ratio_checks(baseline: Distribution, q: float, ratio: float, error: float) -> tuple[Check, ...]:
    """Checks of `maxRatio`, from samples of the stable set before the judged time."""
    places = _places_at(baseline, q)
    found = []
    for place in places:
        bound, lower = baseline.bounds[place], baseline.bounds[place - 1] if place else 0.0
        fraction = share_of_bucket_above(lower, bound, bound / ratio)
        before = baseline.above(place, fraction)
        expected = before.share
        found.append(
            Check(
                limit=Limit.MAX_RATIO,
                place=place,
                error=error / len(places),
                fail_above=0.0,
                pass_below=max(1 - q, expected * (1 - expected)),
                expected=expected,
                earlier_samples=before.total,
                fraction=fraction,
            )
        )
    return tuple(found)


def _places_at(baseline: Distribution, q: float) -> tuple[int, ...]:
    """The boundary at a quantile, or the two around it."""
    shares = [baseline.above(place).share for place in range(len(baseline.bounds))]
    place = max((place for place, share in enumerate(shares) if share >= 1 - q), default=0)
    if shares[place] <= _CLOSE * (1 - q) or place + 1 == len(shares):
        return (place,)
    return (place, place + 1)


def quantile_max_checks(bounds: tuple[float, ...], q: float, limit: float, error: float) -> tuple[Check, ...]:
    """Checks of `max` of a quantile."""
    allowed = 1 - q
    if limit in bounds:
        return (_max_check(bounds.index(limit), allowed, error),)
    around = boundaries_around(bounds, limit)
    checks = []
    if around.above is not None:
        place = bounds.index(around.above)
        checks.append(msgspec.structs.replace(_max_check(place, allowed, error), can_pass=False))
    if around.below is not None:
        place = bounds.index(around.below)
        checks.append(msgspec.structs.replace(_max_check(place, allowed, error), can_fail=False))
    return tuple(checks)


class BoundariesAround(msgspec.Struct, frozen=True):
    """The boundaries next to a limit that is not one itself."""

    below: float | None
    """By this one a metric passes."""
    above: float | None
    """By this one a metric fails."""


def boundaries_around(bounds: tuple[float, ...], limit: float) -> BoundariesAround:
    below, above = (one for one in bounds if one < limit), (one for one in bounds if one > limit)
    return BoundariesAround(max(below, default=None), min(above, default=None))


def _max_check(place: int, allowed: float, error: float) -> Check:
    return Check(Limit.MAX, place, error, fail_above=allowed, pass_below=2 * allowed, expected=allowed)


def share_max_check(limit: float, error: float, named: Limit = Limit.MAX) -> Check:
    return Check(named, 0, error, fail_above=limit, pass_below=limit, expected=limit)


def share_delta_check(baseline: Counts, delta: float, error: float) -> Check:
    return Check(
        Limit.MAX_DELTA,
        0,
        error,
        fail_above=delta,
        pass_below=delta,
        expected=baseline.share,
        earlier_samples=baseline.total,
    )


def judge_check(
    check: Check, canary: Distribution, stable: Distribution, pods: Iterable[Counts] = (), spread: float = 1.0
) -> CheckResult:
    """`pods` are the pods of the stable set, for the dispersion; `spread` is what else is known of it."""
    new, old = canary.above(check.place), stable.above(check.place, check.fraction)
    widened = max(spread, dispersion(pods))
    if check.limit.compares:
        comparison = Comparison(
            expected_share_of_new_version(check.expected),
            expected_share(check.expected, check.earlier_samples),
            check.error,
        )
        interval = comparison.interval(new, old, widened)
        failed = comparison.lower_bound_exceeds(check.fail_above, new, old, widened)
        passed = comparison.upper_bound_within(check.pass_below, new, old, widened)
    else:
        single = SingleShare(expected_share_of_new_version(check.expected), check.error)
        interval = single.interval(new, widened)
        failed = single.lower_bound_exceeds(check.fail_above, new, widened)
        passed = single.upper_bound_within(check.pass_below, new, widened)
    return _result(check, new, old, interval, failed=failed and check.can_fail, passed=passed and check.can_pass)


def _result(check: Check, new: Counts, old: Counts, interval: Interval, *, failed: bool, passed: bool) -> CheckResult:
    verdict = MetricVerdict.FAILED if failed else MetricVerdict.PASSED if passed else MetricVerdict.RUNNING
    return CheckResult(
        check.limit,
        verdict,
        round(new.share, 6),
        round(old.share, 6),
        round(interval.lower, 6),
        round(interval.upper, 6),
        check.fail_above,
    )


def judge_metric(checks: tuple[Check, ...], results: tuple[CheckResult, ...], *, enough: bool) -> MetricVerdict:
    """A metric fails by one check, and passes by all that can. `enough`: as many samples as the user asked for."""
    if any(result.verdict is MetricVerdict.FAILED for result in results):
        return MetricVerdict.FAILED
    if not enough:
        return MetricVerdict.NO_DATA
    passing = [result.verdict for check, result in zip(checks, results, strict=True) if check.can_pass]
    if passing and all(verdict is MetricVerdict.PASSED for verdict in passing):
        return MetricVerdict.PASSED
    return MetricVerdict.RUNNING
