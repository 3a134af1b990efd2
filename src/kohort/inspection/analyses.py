"""The analyses of a release: what was compared in each step, as rows of a table, and as a small chart."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.rollouts.analysis.analysis_messages import worst_result
from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.analysis.metric_units import Unit, measured, percent
from kohort.rollouts.analysis.run_types import MetricState, Window

_BARS: Final = " ▁▂▃▄▅▆▇█"
_COLUMNS: Final = 40


class MetricRow(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    verdict: str
    """Passed, Failed, Running or NoData"""
    critical: bool
    advisory: bool
    canary: float
    """The quantile, or the share, of the new version."""
    stable: float
    unit: str
    """Of both: s, ms, nothing, or % for shares, which are numbers between 0 and 1."""
    canary_samples: int
    stable_samples: int
    limit: str
    """max, min, maxRatio or maxDelta: the one that is worst."""
    lower: float
    """The share of bad samples, or its difference to the stable version, is surely between these two."""
    upper: float
    allowed: float
    message: str


class AnalysisRow(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    """Of the AnalysisRun."""
    release: str
    step: int
    attempt: int
    analysis: str
    """The ReleaseAnalysis."""
    mode: str
    phase: str
    """WarmingUp, Running, Passed, Failed, Held or Ended"""
    reason: str
    message: str
    seconds: float
    """How long the step was watched."""
    overridden_by: str
    started: str
    metrics: tuple[MetricRow, ...]


def analysis_rows(runs: Sequence[AnalysisRun]) -> list[AnalysisRow]:
    """Oldest first."""
    ordered = sorted(runs, key=lambda run: (run.metadata.creation_timestamp or "", run.spec.step, run.metadata.name))
    return [_row(run) for run in ordered]


def _row(run: AnalysisRun) -> AnalysisRow:
    spec, status = run.spec, run.status
    return AnalysisRow(
        name=run.metadata.name,
        release=spec.release,
        step=spec.step,
        attempt=spec.attempt,
        analysis=spec.analysis,
        mode=status.mode,
        phase=status.phase.value,
        reason=status.reason,
        message=status.message,
        seconds=status.elapsed_seconds,
        overridden_by=status.overridden_by,
        started=run.metadata.creation_timestamp or "",
        metrics=tuple(_metric_row(state) for state in status.metrics),
    )


def _metric_row(state: MetricState) -> MetricRow:
    worst = worst_result(state.results)
    return MetricRow(
        name=state.name,
        verdict=state.verdict.value,
        critical=state.critical,
        advisory=state.advisory,
        canary=state.canary_value,
        stable=state.stable_value,
        unit=state.unit.value,
        canary_samples=int(state.canary.total),
        stable_samples=int(state.stable.total),
        limit=worst.limit.value if worst is not None else "",
        lower=worst.lower if worst is not None else 0.0,
        upper=worst.upper if worst is not None else 0.0,
        allowed=worst.fail_above if worst is not None else 0.0,
        message=state.message,
    )


HEADER: Final = ("STEP", "METRIC", "VERDICT", "NEW", "STABLE", "SAMPLES", "BAD, SURELY BETWEEN", "ALLOWED")


def table_rows(row: AnalysisRow) -> list[list[str]]:
    """One line for each metric."""
    return [_line(row, metric) for metric in row.metrics] or [[str(row.step), "-", row.phase, *["-"] * 5]]


def _line(row: AnalysisRow, metric: MetricRow) -> list[str]:
    mark = " (critical)" if metric.critical else " (advisory)" if metric.advisory else ""
    samples = (
        f"{metric.canary_samples}/{metric.stable_samples}" if metric.stable_samples else str(metric.canary_samples)
    )
    unit = Unit(metric.unit)
    between = f"{percent(metric.lower)} and {percent(metric.upper)}" if metric.limit else "-"
    return [
        str(row.step),
        metric.name + mark,
        metric.verdict,
        measured(metric.canary, unit) if metric.canary_samples else "-",
        measured(metric.stable, unit) if metric.stable_samples else "-",
        samples,
        between,
        percent(metric.allowed) if metric.limit else "-",
    ]


def chart(state: MetricState) -> list[str]:
    """The share of bad samples over time, of both versions on the same scale.

    >>> window = lambda bad: Window(10.0, bad, 10.0, 1.0, 10.0)
    >>> chart(MetricState("ttft", windows=(window(1), window(10))))
    ['ttft     new  ▁█  10 % to 100 %', '      stable  ▁▁']
    """
    windows = state.windows[-_COLUMNS:]
    if not windows:
        return []
    new = [_share(one.canary_bad, one.canary_total) for one in windows]
    old = [_share(one.stable_bad, one.stable_total) for one in windows]
    known = [one for one in new if one is not None]
    top = max([one for one in (*new, *old) if one is not None], default=0.0) or 1.0
    between = f"  {percent(min(known))} to {percent(max(known))}" if known else ""
    name = state.name
    lines = [f"{name}     new  {_bars(new, top)}{between}"]
    if any(one for one in windows if one.stable_total):
        lines.append(f"{' ' * len(name)}  stable  {_bars(old, top)}")
    return lines


def _share(bad: float, total: float) -> float | None:
    return bad / total if total else None


def _bars(shares: Sequence[float | None], top: float) -> str:
    last = len(_BARS) - 1
    return "".join(" " if share is None else _BARS[max(1, round(share / top * last))] for share in shares)


__all__ = ["HEADER", "AnalysisRow", "MetricRow", "Window", "analysis_rows", "chart", "table_rows"]
