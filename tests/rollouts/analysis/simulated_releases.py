"""Releases as the judgement sees them: latencies of two sets, counted in the buckets of a model server."""

import random
from bisect import bisect_left
from collections.abc import Callable

import msgspec

from kohort.rollouts.analysis.distributions import Distribution
from kohort.rollouts.analysis.metric_judgement import Check, MetricVerdict, judge_check, ratio_checks
from kohort.rollouts.analysis.sequential_test import (
    Comparison,
    Counts,
    dispersion,
    expected_share,
    expected_share_of_new_version,
)

VLLM_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0),
)
Latency = Callable[[random.Random], float]


def counted(latencies: list[float], bounds: tuple[float, ...] = VLLM_BUCKETS) -> Distribution:
    counts = [0.0] * (len(bounds) + 1)
    for latency in latencies:
        counts[bisect_left(bounds, latency)] += 1
    return Distribution(bounds, tuple(counts))


class Plan(msgspec.Struct, frozen=True):
    latency: Latency
    slower: float = 1.0
    """By which factor the new version is slower."""
    quantile: float = 0.95
    ratio: float = 1.15
    error: float = 0.01
    baseline: int = 200
    window: int = 10
    """Samples of each set between two looks."""
    samples: int = 300
    """Of each set, at the most."""


def checks_of(plan: Plan, rng: random.Random) -> tuple[Check, ...]:
    before = counted([plan.latency(rng) for _ in range(plan.baseline)])
    return ratio_checks(before, plan.quantile, plan.ratio, plan.error)


def watch(plan: Plan, rng: random.Random) -> tuple[MetricVerdict, int]:
    """What a release ends with, and after how many samples."""
    checks = checks_of(plan, rng)
    canary, stable = counted([]), counted([])
    for seen in range(plan.window, plan.samples + 1, plan.window):
        canary += counted([plan.slower * plan.latency(rng) for _ in range(plan.window)])
        stable += counted([plan.latency(rng) for _ in range(plan.window)])
        if any(_fails(check, canary, stable) for check in checks):
            return MetricVerdict.FAILED, seen
    results = [judge_check(check, canary, stable) for check in checks]
    passed = all(result.verdict is MetricVerdict.PASSED for result in results)
    return (MetricVerdict.PASSED if passed else MetricVerdict.RUNNING), plan.samples


def _fails(check: Check, canary: Distribution, stable: Distribution, spread: float = 1.0) -> bool:
    """The same as `judge_check`, without the interval that a user would see."""
    comparison = Comparison(
        expected_share_of_new_version(check.expected),
        expected_share(check.expected, check.earlier_samples),
        check.error,
    )
    new, old = canary.above(check.place), stable.above(check.place, check.fraction)
    return comparison.lower_bound_exceeds(check.fail_above, new, old, spread)


class PodPlan(msgspec.Struct, frozen=True):
    """Pods that differ from each other, although no set is better than the other."""

    latency: Latency
    spread: float
    """The standard deviation of the logarithm of a pod's speed."""
    ratio: float = 1.15
    canary_pods: int = 2
    stable_pods: int = 6
    error: float = 0.01
    window: int = 12
    samples: int = 1200


def watch_pods(plan: PodPlan, rng: random.Random) -> MetricVerdict:
    speeds = [rng.lognormvariate(0, plan.spread) for _ in range(plan.canary_pods + plan.stable_pods)]
    new, old = speeds[: plan.canary_pods], speeds[plan.canary_pods :]
    before = counted([speed * plan.latency(rng) for speed in old for _ in range(300 // plan.stable_pods)])
    checks = ratio_checks(before, 0.95, plan.ratio, plan.error)
    canary = [counted([]) for _ in new]
    stable = [counted([]) for _ in old]
    for _ in range(0, plan.samples, plan.window):
        for pods, speeds_of_set in ((canary, new), (stable, old)):
            share = plan.window // len(pods)
            for place, speed in enumerate(speeds_of_set):
                pods[place] += counted([speed * plan.latency(rng) for _ in range(share)])
        for check in checks:
            cells = [[pod.above(check.place) for pod in pods] for pods in (canary, stable)]
            widened = dispersion(*cells)
            if _fails(check, sum(canary[1:], canary[0]), sum(stable[1:], stable[0]), widened):
                return MetricVerdict.FAILED
    return MetricVerdict.RUNNING


def watch_shares(bad: float, bad_new: float, delta: float, error: float, samples: int, rng: random.Random) -> bool:
    """Whether a share of errors is ever found to be worse by more than `delta`."""
    comparison = Comparison(expected_share_of_new_version(bad), expected_share(bad, 300), error)
    new = old = 0
    for seen in range(1, samples + 1):
        new += rng.random() < bad_new
        old += rng.random() < bad
        if seen % 10 == 0 and comparison.lower_bound_exceeds(delta, Counts(new, seen), Counts(old, seen)):
            return True
    return False
