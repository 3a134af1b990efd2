"""What a ReleaseAnalysis asks for, parsed: numbers instead of texts, and every reason why it cannot be used.

| metric | series | limits |
|---|---|---|
| a name of the preset, or `histogram` | histogram | `max` (a time or a number), `maxRatio`; `quantile` is needed |
| a name of the preset, or `counters` | share of bad requests | `max`, `maxDelta` (`2%`, `0.02`); `min` of good ones |
| a name of the preset, or `gauge` | a value | `max`, `min` (a time or a number) that half of the readings must keep |
| `query` (Prometheus only) | a value | `max`, `min` |
"""

from collections.abc import Mapping
from enum import StrEnum
from math import isfinite
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from kohort.objects.counted_nouns import counted
from kohort.rollouts.analysis.analysis_types import AnalysisSpec, Metric, Source
from kohort.rollouts.analysis.metric_judgement import Limit
from kohort.rollouts.analysis.metric_units import Unit, unit_of_series, unit_of_value
from kohort.rollouts.analysis.series_selectors import (
    PRESETS,
    HistogramSeries,
    MetricSeries,
    QuerySeries,
    ShareSeries,
    ValueSeries,
    parse_selector,
)
from kohort.rules.go_duration import parse_duration

MAX_METRICS: Final = 20
SHORTEST_INTERVAL: Final = 1.0
LONGEST: Final = 7 * 24 * 3600.0


class Mode(StrEnum):
    DRY_RUN = "DryRun"
    GATE = "Gate"
    ENFORCE = "Enforce"


class Policy(StrEnum):
    """What happens at the deadline."""

    HOLD = "Hold"
    PASS = "Pass"
    FAIL = "Fail"


class NotifyOn(StrEnum):
    FAILED = "failed"
    ROLLED_BACK = "rolledBack"
    PROMOTED = "promoted"
    WAITING = "waiting"


class JudgedMetric(msgspec.Struct, frozen=True):
    name: str
    series: MetricSeries
    limits: Mapping[Limit, float]
    quantile: float = 0.5
    critical: bool = False
    advisory: bool = False
    unit: Unit = Unit.NONE
    """Of the series, and so of the limits."""

    @property
    def value_unit(self) -> Unit:
        """Of the value that a step is said to have."""
        return unit_of_value(self.series, self.unit)

    @property
    def counts_requests(self) -> bool:
        """Its samples are requests, not readings, so that the number of samples asked for is about it."""
        return isinstance(self.series, HistogramSeries | ShareSeries)


class AnalysisPlan(msgspec.Struct, frozen=True):
    """A ReleaseAnalysis that can be used."""

    mode: Mode
    first_step: int
    warmup: float
    interval: float
    deadline: float
    source: Source
    canary_samples: int
    stable_samples: int
    confidence: float
    metrics: tuple[JudgedMetric, ...]
    on_no_data: Policy
    on_inconclusive: Policy
    errors_allowed: int
    on_error: Policy

    def error_per_limit(self, steps: int) -> float:
        """The error that a release may make, split over everything that could roll it back."""
        judged = max(1, steps - self.first_step + 1)
        limits = sum(len(metric.limits) for metric in self.metrics if not metric.advisory)
        return (1 - self.confidence) / (judged * max(1, limits))


class InvalidAnalysis(ValueError):
    """Says field by field why a ReleaseAnalysis cannot be used."""


def step_problem(plan: AnalysisPlan, rollout: str, steps: int) -> str:
    """Why no step of a Rollout would be judged; empty where one is."""
    if plan.first_step <= steps:
        return ""
    have = counted(steps, "step")
    return f"spec.steps.from: {plan.first_step}, but Rollout {rollout} has {have}: nothing would be judged"


def parse_plan(spec: AnalysisSpec) -> AnalysisPlan:
    """Raises InvalidAnalysis with everything that is wrong."""
    problems: list[str] = []

    def seconds(field: str, text: str, least: float, most: float = LONGEST) -> float:
        try:
            found = parse_duration(text)
        except ValueError as problem:
            problems.append(f"spec.{field}: {problem}")
            return least
        if not least <= found <= most:
            problems.append(f"spec.{field}: {text} is not between {least:g} s and {most:g} s")
        return found

    mode = _choice(problems, "spec.mode", spec.mode, Mode)
    warmup = seconds("warmup", spec.warmup, 0.0)
    interval = seconds("interval", spec.interval, SHORTEST_INTERVAL, 3600.0)
    deadline = seconds("deadline", spec.deadline, SHORTEST_INTERVAL)
    if deadline <= warmup + interval:
        problems.append(
            f"spec.deadline: {spec.deadline} leaves no time after warmup {spec.warmup} and one interval {spec.interval}"
        )
    if not 0.5 <= spec.confidence < 1:
        problems.append(f"spec.confidence: {spec.confidence:g} is not between 0.5 and 1 (1 excluded); 0.99 is usual")
    first_step = (spec.steps or {}).get("from", 1)
    if not isinstance(first_step, int) or first_step < 1:
        problems.append(f"spec.steps.from: {first_step} is not a step; steps count from 1")
        first_step = 1
    if min(spec.min_samples.canary, spec.min_samples.stable) < 1:
        problems.append("spec.minSamples: canary and stable must be at least 1")
    if spec.on_error.after < 1:
        problems.append(f"spec.onError.after: {spec.on_error.after} must be at least 1")
    on_error = _choice(problems, "spec.onError.then", spec.on_error.then, Policy)
    if on_error is Policy.FAIL:
        problems.append("spec.onError.then: Fail is not allowed, a source that does not answer is not evidence")
    problems += _source_problems(spec.source)
    metrics = _metrics(problems, spec)
    problems += _notify_problems(spec)
    plan = AnalysisPlan(
        mode=mode,
        first_step=first_step,
        warmup=warmup,
        interval=interval,
        deadline=deadline,
        source=spec.source,
        canary_samples=spec.min_samples.canary,
        stable_samples=spec.min_samples.stable,
        confidence=spec.confidence,
        metrics=metrics,
        on_no_data=_choice(problems, "spec.onNoData", spec.on_no_data, Policy),
        on_inconclusive=_choice(problems, "spec.onInconclusive", spec.on_inconclusive, Policy),
        errors_allowed=spec.on_error.after,
        on_error=on_error,
    )
    if problems:
        raise InvalidAnalysis("; ".join(problems))
    return plan


Choice = TypeVar("Choice", bound=StrEnum)


def _choice(problems: list[str], field: str, text: str, kind: type[Choice]) -> Choice:
    try:
        return kind(text)
    except ValueError:
        problems.append(f"{field}: {text!r} is not one of {', '.join(kind)}")
        return next(iter(kind))


def _source_problems(source: Source) -> list[str]:
    given = [name for name in ("scrape", "prometheus", "gateway") if getattr(source, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        return [f"spec.source: exactly one of scrape, prometheus and gateway is needed, found {found}"]
    problems = []
    if source.scrape is not None:
        scrape = source.scrape
        if not 1 <= scrape.port <= 65535:
            problems.append(f"spec.source.scrape.port: {scrape.port} is not a port; 1 to 65535")
        if not scrape.path.startswith("/") or any(letter in scrape.path for letter in "\r\n #"):
            problems.append(f"spec.source.scrape.path: {scrape.path!r} must begin with / and have no spaces")
        if scrape.scheme not in ("http", "https"):
            problems.append(f"spec.source.scrape.scheme: {scrape.scheme!r} is not one of http, https")
        problems += _preset_problems("spec.source.scrape.preset", scrape.preset)
    if source.prometheus is not None:
        problems += url_problems("spec.source.prometheus.address", source.prometheus.address)
        problems += _preset_problems("spec.source.prometheus.preset", source.prometheus.preset)
        try:
            parse_duration(source.prometheus.step)
        except ValueError as problem:
            problems.append(f"spec.source.prometheus.step: {problem}")
    return problems


def _preset_problems(field: str, preset: str) -> list[str]:
    known = [name for name in PRESETS if name != "gateway"]
    return [] if preset in known else [f"{field}: {preset!r} is not one of {', '.join(known)}"]


def url_problems(field: str, text: str) -> list[str]:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return [f"{field}: {text!r} is not an address; write http://host:port/path or https://…"]
    if parts.username or parts.password:
        return [f"{field}: passwords do not belong into an address; name a Secret instead"]
    return []


def _notify_problems(spec: AnalysisSpec) -> list[str]:
    problems = []
    for place, one in enumerate(spec.notify):
        problems += url_problems(f"spec.notify[{place}].url", one.url)
        unknown = [name for name in one.on if name not in list(NotifyOn)]
        if unknown or not one.on:
            problems.append(f"spec.notify[{place}].on: {unknown or 'nothing'} found; any of {', '.join(NotifyOn)}")
    return problems


def preset_of(source: Source) -> str:
    if source.gateway is not None:
        return "gateway"
    if source.scrape is not None:
        return source.scrape.preset
    return source.prometheus.preset if source.prometheus is not None else "none"


def _metrics(problems: list[str], spec: AnalysisSpec) -> tuple[JudgedMetric, ...]:
    if not 1 <= len(spec.metrics) <= MAX_METRICS:
        problems.append(f"spec.metrics: 1 to {MAX_METRICS} metrics are needed, found {len(spec.metrics)}")
    found: list[JudgedMetric] = []
    for place, metric in enumerate(spec.metrics[:MAX_METRICS]):
        field = f"spec.metrics[{place}]"
        if not metric.name or len(metric.name) > 63:
            problems.append(f"{field}.name: 1 to 63 characters are needed")
        if metric.name in {one.name for one in found}:
            problems.append(f"{field}.name: {metric.name} is there twice")
        try:
            found.append(_metric(metric, spec.source))
        except ValueError as problem:
            problems.append(f"{field} ({metric.name}): {problem}")
    if found and all(metric.advisory for metric in found):
        problems.append("spec.metrics: all of them are advisory, so that nothing would be judged")
    return tuple(found)


def _metric(metric: Metric, source: Source) -> JudgedMetric:
    series = _series(metric, source)
    if metric.critical and metric.advisory:
        raise ValueError("critical and advisory exclude each other")
    unit = unit_of_series(series, limited_by_time=any(_is_time(one) for one in (metric.max, metric.min)))
    limits: dict[Limit, float] = {}
    match series:
        case HistogramSeries():
            if metric.quantile is None or not 0 < metric.quantile < 1:
                raise ValueError(f"quantile is needed, between 0 and 1, found {metric.quantile}")
            _refuse(metric, "a histogram", min=metric.min, maxDelta=metric.max_delta)
            if metric.max is not None:
                limits[Limit.MAX] = amount(metric.max, unit)
            if metric.max_ratio is not None:
                if not 1 <= metric.max_ratio <= 100:
                    raise ValueError(f"maxRatio {metric.max_ratio:g} is not between 1 and 100")
                limits[Limit.MAX_RATIO] = metric.max_ratio
        case ShareSeries():
            _refuse(metric, "a share of requests", maxRatio=metric.max_ratio, quantile=metric.quantile)
            if metric.max is not None:
                limits[Limit.MAX] = share(metric.max)
            if metric.min is not None:
                limits[Limit.MIN] = share(metric.min)
            if metric.max_delta is not None:
                limits[Limit.MAX_DELTA] = share(metric.max_delta)
            if 0 in (limits.get(Limit.MAX), limits.get(Limit.MAX_DELTA)):
                raise ValueError("a limit of 0 could never be proved to be kept; write a small one, for example 0.1%")
        case ValueSeries() | QuerySeries():
            _refuse(
                metric,
                "a value that is read",
                maxRatio=metric.max_ratio,
                maxDelta=metric.max_delta,
                quantile=metric.quantile,
            )
            if metric.max is not None:
                limits[Limit.MAX] = amount(metric.max, unit)
            if metric.min is not None:
                limits[Limit.MIN] = amount(metric.min, unit)
    if not limits:
        allowed = {HistogramSeries: "max or maxRatio", ShareSeries: "max, min or maxDelta"}
        raise ValueError(f"it has no limit; give it {allowed.get(type(series), 'max or min')}")
    return JudgedMetric(metric.name, series, limits, metric.quantile or 0.5, metric.critical, metric.advisory, unit)


def _refuse(metric: Metric, what: str, **fields: object) -> None:
    for name, value in fields.items():
        if value is not None:
            raise ValueError(f"{name} is not for {what}")


def _series(metric: Metric, source: Source) -> MetricSeries:
    own = [name for name in ("histogram", "counters", "gauge", "query") if getattr(metric, name)]
    if len(own) > 1:
        raise ValueError(f"{' and '.join(own)} exclude each other")
    if metric.histogram:
        return HistogramSeries.parse(metric.histogram)
    if metric.gauge:
        return ValueSeries(parse_selector(metric.gauge))
    if metric.query:
        if source.prometheus is None:
            raise ValueError("query needs source.prometheus")
        if "{{pods}}" not in metric.query:
            raise ValueError('query must select the pods of the new version: pod=~"{{pods}}"')
        return QuerySeries(metric.query)
    if metric.counters is not None:
        counters = metric.counters
        if not counters.total or bool(counters.good) == bool(counters.bad):
            raise ValueError("counters needs total, and one of good and bad")
        part = parse_selector(counters.good or counters.bad)
        total = parse_selector(counters.total)
        return ShareSeries(total, good=part) if counters.good else ShareSeries(total, bad=part)
    preset = preset_of(source)
    known = PRESETS.get(preset, {})
    if metric.name not in known:
        names = ", ".join(known) or "no metrics of its own"
        raise ValueError(f"preset {preset} has {names}; name the series by histogram, counters or gauge")
    return known[metric.name]


def amount(value: int | str, unit: Unit = Unit.NONE) -> float:
    """A number in the unit of the series, or a time, which is turned into that unit.

    >>> amount("300ms"), amount("1.5"), amount(32), amount("300ms", Unit.MILLISECONDS)
    (0.3, 1.5, 32.0, 300.0)
    """
    if _is_time(value):
        return parse_duration(str(value)) * (1000 if unit is Unit.MILLISECONDS else 1)
    found = float(value)
    if not isfinite(found):
        raise ValueError(f"{value} is not a number")
    return found


def _is_time(value: int | str | None) -> bool:
    """Not a number, so that only a time is left."""
    if value is None:
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def share(value: int | str) -> float:
    """
    >>> share("2%"), share("0.005"), share(0)
    (0.02, 0.005, 0.0)
    """
    text = str(value)
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ValueError(f"{text!r} is not a share; write 2% or 0.02") from None
    if not 0 <= found < 1:
        raise ValueError(f"{text} is not between 0 and 1 (or 0% and 100%)")
    return found
