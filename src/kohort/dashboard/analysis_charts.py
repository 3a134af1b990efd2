"""Judged steps of a release as charts: the share of bad samples in both versions, and the limit.

The numbers are those of the AnalysisRun: windows of samples as the first check of a metric counts them, and the limit
above which this check fails. Nothing is judged here.
"""

from collections.abc import Sequence

import msgspec

from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.analysis.metric_units import Unit
from kohort.rollouts.analysis.run_types import MetricState, RunReason


class ChartPoint(msgspec.Struct, frozen=True, rename="camel"):
    seconds: float
    """Since the analysis of the step began."""
    canary: float | None
    """The share of bad samples of the new version; None without samples."""
    stable: float | None


class MetricChart(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    verdict: str
    message: str
    critical: bool
    advisory: bool
    canary_value: float
    stable_value: float
    unit: Unit
    """Of both values."""
    limit: str
    """What the metric is compared with: max, min, maxRatio or maxDelta."""
    fail_above: float | None
    """The share of bad samples above which it fails; None before that is fixed."""
    lower: float | None
    """Between this and the next is the share of the new version, with the asked confidence."""
    upper: float | None
    points: Sequence[ChartPoint]
    compared: bool = False
    """With the stable version: `failAbove`, `lower` and `upper` are differences to its share then."""
    stable_share: float = 0.0

    @property
    def base(self) -> float:
        """What `lower` and `upper` are added to."""
        return self.stable_share if self.compared else 0.0

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """The limit over time: above which share of the new version it fails."""
        if self.fail_above is None:
            return []
        if not self.compared:
            return [(one.seconds, self.fail_above) for one in self.points]
        return [(one.seconds, one.stable + self.fail_above) for one in self.points if one.stable is not None]


class StepAnalysis(msgspec.Struct, frozen=True, rename="camel"):
    step: int
    phase: str
    reason: str
    message: str
    mode: str
    elapsed_seconds: float
    readings: int
    overridden_by: str
    metrics: Sequence[MetricChart]

    @property
    def repeats_metrics(self) -> bool:
        """The message is made of the messages of metrics, which are shown with their charts."""
        return self.reason not in ("", RunReason.SOURCE_ERROR)


def step_analyses(runs: Sequence[AnalysisRun], release: str) -> list[StepAnalysis]:
    """Of one release, the last attempt of each step, in the order of steps."""
    latest: dict[int, AnalysisRun] = {}
    for run in runs:
        known = latest.get(run.spec.step)
        if run.spec.release == release and (known is None or run.spec.attempt >= known.spec.attempt):
            latest[run.spec.step] = run
    return [_analysis(latest[step]) for step in sorted(latest)]


def _analysis(run: AnalysisRun) -> StepAnalysis:
    status = run.status
    return StepAnalysis(
        step=run.spec.step,
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        mode=status.mode,
        elapsed_seconds=status.elapsed_seconds,
        readings=status.readings,
        overridden_by=status.overridden_by,
        metrics=[_chart(one) for one in status.metrics],
    )


def _chart(metric: MetricState) -> MetricChart:
    check = metric.checks[0] if metric.checks else None
    result = metric.results[0] if metric.results else None
    return MetricChart(
        name=metric.name,
        verdict=metric.verdict,
        message=metric.message,
        critical=metric.critical,
        advisory=metric.advisory,
        canary_value=metric.canary_value,
        stable_value=metric.stable_value,
        unit=metric.unit,
        limit=check.limit if check is not None else "",
        fail_above=check.fail_above if check is not None else None,
        lower=result.lower if result is not None else None,
        upper=result.upper if result is not None else None,
        points=[
            ChartPoint(
                one.until,
                one.canary_bad / one.canary_total if one.canary_total else None,
                one.stable_bad / one.stable_total if one.stable_total else None,
            )
            for one in metric.windows
        ],
        compared=check is not None and check.limit.compares,
        stable_share=result.stable_share if result is not None else 0.0,
    )
