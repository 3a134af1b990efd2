"""The analysis of one step: what has been counted so far, and what follows from it.

`advance` is a pure function of the stored state and of one reading of the source; everything that it needs later is in
the state, which is the status of an AnalysisRun. An operator that starts anew goes on from there.

| time | what the samples are used for |
|---|---|
| warm-up | those of the stable set: where the limits of a comparison are. Those of the new version do not count |
| afterwards | both sets: the judgement |

| phase | when |
|---|---|
| WarmingUp | until the warm-up is over |
| Running | nothing is sure yet |
| Passed | every metric passed; a critical metric may still fail while the step pauses |
| Failed | a metric failed, or the deadline passed and the policy says Fail. Final |
| Held | the deadline passed without result, or the source does not answer. Judging goes on |
| Ended | the release has left the step without a verdict (`analysis_control/run_endings`) |

Time is counted by the readings, each for at most three intervals: neither a clock that jumps nor an operator that was
away lets a deadline pass.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.rollouts.analysis import analysis_messages
from kohort.rollouts.analysis.analysis_rules import AnalysisPlan, JudgedMetric, Policy
from kohort.rollouts.analysis.counter_samples import PodReading, PodSamples
from kohort.rollouts.analysis.distributions import Distribution, bad_and_good
from kohort.rollouts.analysis.metric_judgement import (
    HALF,
    Check,
    Limit,
    MetricVerdict,
    judge_check,
    judge_metric,
    quantile_max_checks,
    ratio_checks,
    share_delta_check,
    share_max_check,
)
from kohort.rollouts.analysis.run_types import MetricState, RunPhase, RunReason, RunStatus, Window
from kohort.rollouts.analysis.sequential_test import Counts, dispersion
from kohort.rollouts.analysis.series_selectors import HistogramSeries, ShareSeries

MOST_WINDOWS: Final = 60
MOST_PODS: Final = 64
LEAST_BASELINE: Final = 20.0
"""So many samples of the stable set are needed before a limit of a comparison is fixed."""


class Reading(msgspec.Struct, frozen=True):
    """What one look at the source brought."""

    seconds: float
    """Since the reading before."""
    canary: tuple[PodSamples, ...] = ()
    stable: tuple[PodSamples, ...] = ()
    history: tuple[PodReading, ...] = ()
    """The stable set since its pods began, from the first look."""
    queried: Mapping[str, float] = {}
    """Values that a query returned for the new version."""
    error: str = ""
    """Why nothing could be read."""


class StepFacts(msgspec.Struct, frozen=True):
    """What the judgement needs to know of the Rollout."""

    steps: int
    compares: bool = True
    """Both sets get requests of the same kind: not so where a step routes by matches, or routes everything."""


def advance(plan: AnalysisPlan, run: RunStatus, reading: Reading, facts: StepFacts) -> RunStatus:
    if run.phase is RunPhase.FAILED:
        return run
    elapsed = run.elapsed_seconds + min(max(reading.seconds, 0.0), 3 * plan.interval)
    run = msgspec.structs.replace(run, elapsed_seconds=round(elapsed, 3))
    if error := reading.error or _incomparable(plan, reading, facts):
        return _unreadable(plan, run, error)
    run = msgspec.structs.replace(run, consecutive_errors=0, last_error="", readings=run.readings + 1)
    judges = elapsed > plan.warmup
    states = {one.name: one for one in run.metrics}
    metrics = tuple(
        _counted(plan, metric, states.get(metric.name, _new_state(metric)), reading, facts, elapsed, judges=judges)
        for metric in plan.metrics
    )
    if not judges:
        waiting = msgspec.structs.replace(
            run, phase=RunPhase.WARMING_UP, message=analysis_messages.warming_up(plan.warmup - elapsed)
        )
        return msgspec.structs.replace(waiting, metrics=metrics)
    metrics = tuple(_judged(plan, metric, state, facts) for metric, state in zip(plan.metrics, metrics, strict=True))
    return _verdict(plan, msgspec.structs.replace(run, metrics=metrics))


def _new_state(metric: JudgedMetric) -> MetricState:
    return MetricState(metric.name, critical=metric.critical, advisory=metric.advisory)


def _unreadable(plan: AnalysisPlan, run: RunStatus, error: str) -> RunStatus:
    errors = run.consecutive_errors + 1
    run = msgspec.structs.replace(run, consecutive_errors=errors, last_error=error)
    if run.phase is RunPhase.PASSED:
        return run
    text = analysis_messages.source_error(errors, plan.errors_allowed, error)
    if errors < plan.errors_allowed:
        return msgspec.structs.replace(run, message=text)
    phase = RunPhase.PASSED if plan.on_error is Policy.PASS else RunPhase.HELD
    return msgspec.structs.replace(run, phase=phase, reason=RunReason.SOURCE_ERROR, message=text)


def _incomparable(plan: AnalysisPlan, reading: Reading, facts: StepFacts) -> str:
    """Why both sets cannot be compared: a version whose histogram has other boundaries counts other things as slow."""
    for metric in plan.metrics if facts.compares else ():
        if not isinstance(metric.series, HistogramSeries) or Limit.MAX_RATIO not in metric.limits:
            continue
        new, old = _boundaries(metric, reading.canary), _boundaries(metric, reading.stable)
        if new and old and new != old:
            return analysis_messages.other_boundaries(metric.name)
    return ""


def _boundaries(metric: JudgedMetric, pods: Iterable[PodSamples]) -> set[tuple[float, ...]]:
    return {one.counted[metric.name].bounds for one in pods if metric.name in one.counted}


# Counting


def _counted(
    plan: AnalysisPlan,
    metric: JudgedMetric,
    state: MetricState,
    reading: Reading,
    facts: StepFacts,
    elapsed: float,
    *,
    judges: bool,
) -> MetricState:
    stable = [(one.pod, one.counted[metric.name]) for one in reading.stable if metric.name in one.counted]
    canary = [(one.pod, one.counted[metric.name]) for one in reading.canary if metric.name in one.counted]
    if not state.fixed:
        state = _with_baseline(state, (found for _, found in stable))
        if not judges:
            return state
        history = [one.counters[metric.name] for one in reading.history if metric.name in one.counters]
        state = _with_checks(plan, metric, state, history, [found for _, found in canary], facts)
        if not state.fixed or metric.counts_requests:
            # What has fixed the limit is not judged by it.
            return state
    if isinstance(metric.series, HistogramSeries):
        canary, stable = (
            [one for one in found if one[1].bounds == state.baseline.bounds] for found in (canary, stable)
        )
    if not metric.counts_requests:
        canary = [(pod, _kept(metric, value)) for pod, value in _values(metric, reading)]
        stable = []
    return _with_window(state, canary, stable, elapsed)


def _with_baseline(state: MetricState, found: Iterable[Distribution]) -> MetricState:
    return msgspec.structs.replace(state, baseline=sum(found, state.baseline))


def _values(metric: JudgedMetric, reading: Reading) -> list[tuple[str, float]]:
    if metric.name in reading.queried:
        return [("query", reading.queried[metric.name])]
    return [(one.pod, one.values[metric.name]) for one in reading.canary if metric.name in one.values]


def _kept(metric: JudgedMetric, value: float) -> Distribution:
    limits = metric.limits
    bad = value > limits.get(Limit.MAX, value) or value < limits.get(Limit.MIN, value)
    return bad_and_good(float(bad), float(not bad))


def _with_window(
    state: MetricState,
    canary: list[tuple[str, Distribution]],
    stable: list[tuple[str, Distribution]],
    elapsed: float,
) -> MetricState:
    check = state.checks[0]
    new = sum((found for _, found in canary), Distribution())
    old = sum((found for _, found in stable), Distribution())
    of_new, of_old = new.above(check.place), old.above(check.place, check.fraction)
    window = Window(round(elapsed, 3), of_new.bad, of_new.total, of_old.bad, of_old.total)
    return msgspec.structs.replace(
        state,
        canary=state.canary + new if new.total else state.canary,
        stable=state.stable + old if old.total else state.stable,
        pods=_with_pods(state.pods, stable, check),
        canary_pods=_with_pods(state.canary_pods, canary, check),
        windows=_with_last_window(state.windows, window),
    )


def _with_pods(
    known: dict[str, tuple[float, float]], found: list[tuple[str, Distribution]], check: Check
) -> dict[str, tuple[float, float]]:
    pods = dict(known)
    for name, distribution in found:
        counts = distribution.above(check.place, check.fraction)
        # Of very many pods the last ones are counted together: that only makes them look more alike.
        place = name if name in pods or len(pods) < MOST_PODS else "others"
        bad, total = pods.get(place, (0.0, 0.0))
        pods[place] = (bad + counts.bad, total + counts.total)
    return pods


def _with_last_window(windows: tuple[Window, ...], last: Window) -> tuple[Window, ...]:
    """Windows that are too many are joined in pairs: nothing that was counted is lost."""
    known = (*windows, last)
    if len(known) <= MOST_WINDOWS:
        return known
    pairs = [known[place] + known[place + 1] for place in range(0, len(known) - 1, 2)]
    return (*pairs, *(known[-1:] if len(known) % 2 else ()))


# Limits


def _with_checks(
    plan: AnalysisPlan,
    metric: JudgedMetric,
    state: MetricState,
    history: list[Distribution],
    canary: list[Distribution],
    facts: StepFacts,
) -> MetricState:
    """The limits, once they can be fixed. Windows and pods are counted by the first check: a comparison comes before a
    `max`, which may be so far away that nothing is above it, and pods that differ would all look alike."""
    error = plan.error_per_limit(facts.steps)
    baseline = state.baseline
    if baseline.total < LEAST_BASELINE:
        baseline = sum(history, baseline)
    compared = _compared(metric, facts)
    if compared and baseline.total < LEAST_BASELINE:
        return state
    checks: list[Check] = []
    match metric.series:
        case HistogramSeries():
            if not compared:
                # There may be no stable pod, and none is needed.
                baseline = sum(canary, Distribution())
            bounds = baseline.bounds
            if not bounds:
                return state
            if Limit.MAX_RATIO in metric.limits and facts.compares:
                checks += ratio_checks(baseline, metric.quantile, metric.limits[Limit.MAX_RATIO], error)
            if Limit.MAX in metric.limits:
                checks += quantile_max_checks(bounds, metric.quantile, metric.limits[Limit.MAX], error)
        case ShareSeries():
            if Limit.MAX in metric.limits:
                checks.append(share_max_check(metric.limits[Limit.MAX], error))
            if Limit.MIN in metric.limits:
                checks.append(share_max_check(1 - metric.limits[Limit.MIN], error, Limit.MIN))
            if Limit.MAX_DELTA in metric.limits and facts.compares:
                checks.append(share_delta_check(baseline.above(0), metric.limits[Limit.MAX_DELTA], error))
        case _:
            checks.append(share_max_check(HALF, error, next(iter(metric.limits))))
    return msgspec.structs.replace(state, baseline=baseline, checks=tuple(checks))


def _compared(metric: JudgedMetric, facts: StepFacts) -> bool:
    return facts.compares and any(limit.compares for limit in metric.limits)


# Judging


def _judged(plan: AnalysisPlan, metric: JudgedMetric, state: MetricState, facts: StepFacts) -> MetricState:
    if not facts.compares and all(limit.compares for limit in metric.limits):
        text = analysis_messages.not_compared(metric.name)
        return msgspec.structs.replace(state, verdict=MetricVerdict.PASSED, message=text)
    if not state.fixed:
        text = (
            analysis_messages.no_baseline(metric.name, state.baseline.total, LEAST_BASELINE)
            if _compared(metric, facts)
            else analysis_messages.no_samples(metric.name)
        )
        return msgspec.structs.replace(state, verdict=MetricVerdict.NO_DATA, message=text)
    spread = _spread(state)
    results = tuple(
        msgspec.structs.replace(
            judge_check(check, state.canary, state.stable, spread=spread),
            note=analysis_messages.check_note(metric, state.baseline, check),
        )
        for check in state.checks
    )
    verdict = judge_metric(state.checks, results, enough=_enough(plan, metric, state))
    if state.verdict is MetricVerdict.FAILED and verdict is not MetricVerdict.FAILED and metric.advisory:
        verdict = MetricVerdict.FAILED
    state = msgspec.structs.replace(
        state,
        results=results,
        verdict=verdict,
        canary_value=_value(metric, state.canary),
        stable_value=_value(metric, state.stable),
        unit=metric.value_unit,
    )
    return msgspec.structs.replace(state, message=analysis_messages.metric(metric, state))


def _value(metric: JudgedMetric, found: Distribution) -> float:
    value = found.quantile(metric.quantile) if isinstance(metric.series, HistogramSeries) else found.above(0).share
    return round(value, 6)


def _enough(plan: AnalysisPlan, metric: JudgedMetric, state: MetricState) -> bool:
    if not metric.counts_requests:
        return state.canary.total > 0
    compared = any(check.limit.compares for check in state.checks)
    return state.canary.total >= plan.canary_samples and (not compared or state.stable.total >= plan.stable_samples)


def _spread(state: MetricState) -> float:
    """How much more pods differ from each other than chance explains; where there is one pod only, its windows."""
    canary = _cells(state.canary_pods, [Counts(one.canary_bad, one.canary_total) for one in state.windows])
    stable = _cells(state.pods, [Counts(one.stable_bad, one.stable_total) for one in state.windows])
    return dispersion(canary, stable)


def _cells(pods: Mapping[str, tuple[float, float]], windows: list[Counts]) -> list[Counts]:
    return [Counts(bad, total) for bad, total in pods.values()] if len(pods) > 1 else windows


def _verdict(plan: AnalysisPlan, run: RunStatus) -> RunStatus:
    judged = [state for state in run.metrics if not state.advisory]
    failed = [state for state in judged if state.verdict is MetricVerdict.FAILED]
    if run.phase is RunPhase.PASSED:
        # The step was let on; only what is critical is still watched.
        failed = [state for state in failed if state.critical]
        if not failed:
            return run
    if failed:
        reason = RunReason.CRITICAL if any(state.critical for state in failed) else RunReason.JUDGED
        text = "; ".join(state.message for state in failed)
        return msgspec.structs.replace(run, phase=RunPhase.FAILED, reason=reason, message=text)
    if all(state.verdict is MetricVerdict.PASSED for state in judged):
        text = analysis_messages.passed(judged)
        return msgspec.structs.replace(run, phase=RunPhase.PASSED, reason=RunReason.JUDGED, message=text)
    waiting = [state for state in judged if state.verdict is not MetricVerdict.PASSED]
    text = "; ".join(state.message for state in waiting)
    if run.elapsed_seconds < plan.deadline:
        return msgspec.structs.replace(run, phase=RunPhase.RUNNING, reason=RunReason.JUDGED, message=text)
    return _at_deadline(plan, run, waiting, text)


_SEVERITY: Final = (Policy.PASS, Policy.HOLD, Policy.FAIL)
_PHASES: Final = {Policy.PASS: RunPhase.PASSED, Policy.HOLD: RunPhase.HELD, Policy.FAIL: RunPhase.FAILED}


def _at_deadline(plan: AnalysisPlan, run: RunStatus, waiting: list[MetricState], text: str) -> RunStatus:
    no_data = any(state.verdict is MetricVerdict.NO_DATA for state in waiting)
    unsure = any(state.verdict is MetricVerdict.RUNNING for state in waiting)
    policies = [plan.on_no_data] * no_data + [plan.on_inconclusive] * unsure
    policy = max(policies, key=_SEVERITY.index)
    reason = RunReason.NO_DATA if no_data else RunReason.INCONCLUSIVE
    said = analysis_messages.deadline_passed(plan.deadline, reason, text)
    return msgspec.structs.replace(run, phase=_PHASES[policy], reason=reason, message=said)
