"""The words of analyses: what a metric, a run and a held release say."""

from collections.abc import Iterable
from typing import Final

from kohort.objects.counted_nouns import counted, counted_of
from kohort.rollouts.analysis.analysis_rules import JudgedMetric
from kohort.rollouts.analysis.distributions import Distribution
from kohort.rollouts.analysis.metric_judgement import Check, CheckResult, Limit, MetricVerdict, boundaries_around
from kohort.rollouts.analysis.metric_units import Unit, exact, measured, percent
from kohort.rollouts.analysis.run_types import MetricState, RunReason
from kohort.rollouts.analysis.series_selectors import HistogramSeries


def warming_up(left: float) -> str:
    return f"warming up, {max(left, 0):.0f} s left"


def source_error(errors: int, allowed: int, error: str) -> str:
    """`allowed` is the number from which the step is held, or let on."""
    return f"the source could not be read {counted(errors, 'time')} in a row (limit {allowed}): {error}"


def not_compared(name: str) -> str:
    return f"{name}: not compared, because in this step the stable version gets other requests, or none"


def no_samples(name: str) -> str:
    return f"{name}: no samples of the new version yet"


def other_boundaries(name: str) -> str:
    return (
        f"{name}: the histograms of both versions have different bucket boundaries, so maxRatio cannot be judged; "
        "use a max, or go on without a verdict (kohort approve --override)"
    )


def no_baseline(name: str, found: float, needed: float) -> str:
    return f"{name}: {counted_of(round(found), round(needed), 'sample')} of the stable set that its limit is taken from"


def value(metric: JudgedMetric, number: float) -> str:
    beyond = " beyond the limit" if metric.value_unit is Unit.SHARE_OF_READINGS else ""
    return f"{measured(number, metric.value_unit)}{beyond}"


def _limits(metric: JudgedMetric) -> str:
    words = {Limit.MAX: "at most", Limit.MIN: "at least", Limit.MAX_DELTA: "above stable by at most"}
    return ", ".join(
        f"at most x{number:g} of stable" if limit is Limit.MAX_RATIO else f"{words[limit]} {exact(number, metric.unit)}"
        for limit, number in metric.limits.items()
    )


def metric(metric: JudgedMetric, state: MetricState) -> str:
    """What is known of a metric: values, limit, interval, samples."""
    name = f"{metric.name} q{metric.quantile:g}" if isinstance(metric.series, HistogramSeries) else metric.name
    compared = any(check.limit.compares for check in state.checks)
    canary, stable = round(state.canary.total), round(state.stable.total)
    new = value(metric, state.canary_value) if state.canary.total else "no value"
    old = value(metric, state.stable_value) if state.stable.total else "no value"
    against = f", stable {old}" if compared else ""
    counts = f"{canary} and {counted(stable, 'sample')}" if compared else counted(canary, "sample")
    head = f"{name}: {new}{against} ({_limits(metric)}), {counts}"
    worst = worst_result(state.results)
    if worst is None:
        return head
    return f"{head}: {_finding(state.verdict, worst)}"


def check_note(metric: JudgedMetric, baseline: Distribution, check: Check) -> str:
    """What the buckets of a histogram mean for a limit; empty where there is nothing to say."""
    if not isinstance(metric.series, HistogramSeries):
        return ""
    if check.limit is not Limit.MAX_RATIO:
        return limit_between_buckets(metric, baseline.bounds)
    bound, before = baseline.bounds[check.place], baseline.quantile(metric.quantile)
    ratio = metric.limits.get(Limit.MAX_RATIO)  # None: the user has removed the limit since it was fixed
    return (
        f"judged at the bucket boundary {exact(bound, metric.unit)}; q{metric.quantile:g} of the stable set was "
        f"{measured(before, metric.unit)}{f', x{ratio:g}' if ratio is not None else ''}"
    )


def limit_between_buckets(metric: JudgedMetric, bounds: tuple[float, ...]) -> str:
    """What follows from a `max` that is not a boundary of the histogram; empty where it is one."""
    limit = metric.limits.get(Limit.MAX)
    if limit is None or limit in bounds:
        return ""
    around = boundaries_around(bounds, limit)
    fails = f"it fails by {exact(around.above, metric.unit)}" if around.above is not None else "it cannot fail"
    passes = f"passes by {exact(around.below, metric.unit)}" if around.below is not None else "cannot pass"
    return f"max {exact(limit, metric.unit)} of {metric.name} is not a bucket boundary: {fails}, {passes}"


def worst_result(results: Iterable[CheckResult]) -> CheckResult | None:
    order = {MetricVerdict.FAILED: 0, MetricVerdict.NO_DATA: 1, MetricVerdict.RUNNING: 1, MetricVerdict.PASSED: 2}
    return min(results, key=lambda one: (order[one.verdict], -one.lower), default=None)


def _finding(verdict: MetricVerdict, worst: CheckResult) -> str:
    interval = f"between {percent(worst.lower)} and {percent(worst.upper)}"
    what = "the difference of bad samples is" if worst.limit.compares else "the share of bad samples is"
    note = f" ({worst.note})" if worst.note else ""
    match verdict:
        case MetricVerdict.FAILED:
            return f"failed, {what} {interval}, allowed {percent(worst.fail_above)}{note}"
        case MetricVerdict.PASSED:
            return f"passed, {what} {interval}{note}"
        case MetricVerdict.NO_DATA:
            return f"too few samples yet, {what} {interval}{note}"
        case MetricVerdict.RUNNING:
            return f"not sure yet, {what} {interval}, allowed {percent(worst.fail_above)}{note}"


def passed(states: Iterable[MetricState]) -> str:
    return "passed: " + "; ".join(state.message for state in states)


_ENDINGS: Final = {
    RunReason.STEP_ENDED: "the release left the step",
    RunReason.OVERRIDDEN: "a user let the release go on",
    RunReason.RETRIED: "the step was begun again",
    RunReason.SUPERSEDED: "another version is released",
    RunReason.ROLLED_BACK: "the release was rolled back",
    RunReason.ROLLOUT_DISABLED: "the Rollout was disabled",
    RunReason.ROLLOUT_DELETED: "the Rollout was deleted",
    RunReason.WORKLOAD_DELETED: "the workload was deleted",
    RunReason.ANALYSIS_REMOVED: "the Rollout names no analysis any more",
}


def run_ended(reason: RunReason, before: str) -> str:
    """`before` is what was known until then."""
    return f"ended without a verdict, {_ENDINGS[reason]}" + (f"; before: {before}" if before else "")


def deadline_passed(deadline: float, reason: str, text: str) -> str:
    return f"no result after {deadline:.0f} s ({reason}): {text}"
