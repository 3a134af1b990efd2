"""Says of each ReleaseAnalysis whether it can be used, before a release needs it.

| condition Ready | reason | when |
|---|---|---|
| False | Invalid | its spec cannot be used |
| Unknown | NotUsed | no Rollout names it |
| Unknown | NoPods | the stable version of the Rollout has no pod that serves |
| False | SourceError | its source cannot be read |
| False | MetricMissing | no pod of the stable version has one of its metrics |
| True | Ready | every metric exists on at least one pod of the stable version |
"""

from enum import StrEnum
from typing import Final

from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.manager import Manager
from kohort.kube.resources import RELEASE_ANALYSES, Key
from kohort.objects.meta import Condition, find_condition
from kohort.rollouts.analysis.analysis_messages import limit_between_buckets
from kohort.rollouts.analysis.analysis_rules import AnalysisPlan, InvalidAnalysis, parse_plan
from kohort.rollouts.analysis.analysis_types import ReleaseAnalysis
from kohort.rollouts.analysis.series_selectors import HistogramSeries, QuerySeries
from kohort.rollouts.analysis.sources import SourceError, SourceReader, SourceReading
from kohort.rollouts.analysis_control.judgements import analysis_name, judged_pods, rollouts_of_analysis, unjudged
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.rollout_types import Rollout

CHECK_SECONDS: Final = 60.0


class ReadyReason(StrEnum):
    INVALID = "Invalid"
    NOT_USED = "NotUsed"
    NO_PODS = "NoPods"
    SOURCE_ERROR = "SourceError"
    METRIC_MISSING = "MetricMissing"
    READY = "Ready"


_STATUS: Final = {ReadyReason.READY: "True", ReadyReason.NOT_USED: "Unknown", ReadyReason.NO_PODS: "Unknown"}


class AnalysisController:
    def __init__(self, manager: Manager, cache: RolloutCache, reader: SourceReader) -> None:
        self.client = manager.client
        self.cache = cache
        self.reader = reader
        self.controller = manager.controller("releaseanalysis-controller", self.reconcile, workers=2, max_delay=60)
        self.controller.watches(cache.analyses)
        self.controller.watches(cache.rollouts, _named, when=_names_another)

    async def reconcile(self, key: Key) -> Requeue | None:
        analysis = self.cache.analyses.get(key)
        if analysis is None:
            return None
        reason, text = await self._check(analysis)
        await self._write(analysis, reason, text)
        return None if reason in (ReadyReason.INVALID, ReadyReason.NOT_USED) else Requeue(after=CHECK_SECONDS)

    async def _check(self, analysis: ReleaseAnalysis) -> tuple[ReadyReason, str]:
        try:
            plan = parse_plan(analysis.spec)
        except InvalidAnalysis as problem:
            return ReadyReason.INVALID, str(problem)
        if found_steps := unjudged(plan, analysis, self.cache):
            return ReadyReason.INVALID, "; ".join(found_steps)
        users = [self.cache.rollouts.get(key) for key in rollouts_of_analysis(analysis, self.cache)]
        rollout = next((one for one in users if one is not None), None)
        if rollout is None:
            return ReadyReason.NOT_USED, "no Rollout of this namespace names it by its annotation"
        _, stable = await judged_pods(rollout, self.cache, self.client)
        if not stable:
            return ReadyReason.NO_PODS, f"Rollout {rollout.metadata.name}: no pod of the stable version serves"
        try:
            found = await self.reader.read(plan, analysis.metadata.namespace, [], stable)
        except SourceError as problem:
            return ReadyReason.SOURCE_ERROR, str(problem)
        return metrics_found(plan, found)

    async def _write(self, analysis: ReleaseAnalysis, reason: ReadyReason, text: str) -> None:
        old = find_condition(analysis.status.conditions, "Ready")
        status = _STATUS.get(reason, "False")
        generation = analysis.metadata.generation
        if (
            old is not None
            and (old.status, old.reason, old.message) == (status, reason, text)
            and analysis.status.observed_generation == generation
        ):
            return
        now = clock.timestamp()
        since = old.last_transition_time if old is not None and old.status == status else now
        condition = Condition(
            type="Ready", status=status, reason=reason, message=text, last_transition_time=since, last_update_time=now
        )
        body = {"conditions": [condition.document()], "observedGeneration": generation}
        await self.client.patch_status(RELEASE_ANALYSES, analysis, body)


def metrics_found(plan: AnalysisPlan, found: SourceReading) -> tuple[ReadyReason, str]:
    """Whether the stable version has the metrics."""
    missing, notes = [], []
    for metric in plan.metrics:
        name = metric.name
        if isinstance(metric.series, QuerySeries):
            continue
        counted = next((one.counters[name] for one in found.pods if name in one.counters), None)
        if counted is None and not any(name in one.values for one in found.pods):
            missing.append(f"{name} ({_series_name(metric.series)})")
        if isinstance(metric.series, HistogramSeries) and counted is not None:
            notes.append(limit_between_buckets(metric, counted.bounds))
    if missing:
        return ReadyReason.METRIC_MISSING, f"no pod of the stable version has {', '.join(missing)}"
    return ReadyReason.READY, "; ".join(["every metric was found", *filter(None, notes)])


def _series_name(series: object) -> str:
    selector = getattr(series, "selector", None) or getattr(series, "total", None)
    return selector.text() if selector is not None else ""


def _named(rollout: Rollout) -> list[Key]:
    name = analysis_name(rollout)
    return [Key(rollout.metadata.namespace, name)] if name else []


def _names_another(old: Rollout | None, new: Rollout | None) -> bool:
    return _judged_part(old) != _judged_part(new)


def _judged_part(rollout: Rollout | None) -> tuple[str, int]:
    """What matters to the analysis: whether the Rollout names it, and how many steps there are."""
    return (analysis_name(rollout), len(rollout.strategy.steps)) if rollout is not None else ("", 0)
