"""Reads the metrics of a step once per interval, and keeps what was counted in its AnalysisRun.

The run is the only memory: what was read last of each pod is kept in the process, and a window is lost with it. Nothing
here changes a release; the Rollout's own controller looks at the run.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.kube.controller import UNTHROTTLED, Requeue
from kohort.kube.errors import AlreadyExists, Conflict, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import ANALYSIS_RUNS, Key
from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.analysis_rules import AnalysisPlan
from kohort.rollouts.analysis.analysis_state import Reading, StepFacts, advance
from kohort.rollouts.analysis.analysis_types import AnalysisRun, ReleaseAnalysis
from kohort.rollouts.analysis.counter_samples import PodReading, SampleReader
from kohort.rollouts.analysis.run_types import RunPhase, RunStatus
from kohort.rollouts.analysis.sources import SourceError, SourceReader, SourceReading
from kohort.rollouts.analysis_control.judgements import (
    is_of,
    judged_pods,
    plan_of,
    rollouts_of_analysis,
    rollouts_of_run,
    run_key,
)
from kohort.rollouts.analysis_control.run_endings import ended, reopened, run_ending
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.rollout_types import Rollout, Step
from kohort.rollouts.step_analysis import override_of
from kohort.rules import rollout_labels
from kohort.rules.go_duration import parse_duration

KEPT_RUNS: Final = 10
_AT_ONCE: Final = 0.01
_RETRY_SECONDS: Final = 1.0
_UNDER_WAY: Final = (rollout_labels.IN_ROLLING, rollout_labels.REASON_PAUSED)


class _Watch:
    """What the process knows of a run besides its status."""

    def __init__(self, uid: str, status: RunStatus) -> None:
        self.uid = uid
        self.status = status
        """As it was last computed: newer than the cache may be."""
        self.samples = SampleReader()
        self.last_read: float | None = None
        self.history: tuple[PodReading, ...] = ()


class RunController:
    def __init__(self, manager: Manager, cache: RolloutCache, reader: SourceReader) -> None:
        self.client = manager.client
        self.cache = cache
        self.reader = reader
        self._watches: dict[Key, _Watch] = {}
        self.controller = manager.controller(
            "analysisrun-controller", self.reconcile, workers=4, max_delay=30, pace=lambda _: UNTHROTTLED
        )
        self.controller.watches(cache.rollouts)
        self.controller.watches(cache.runs, rollouts_of_run, when=_appears_or_goes)
        self.controller.watches(cache.analyses, lambda one: rollouts_of_analysis(one, cache))

    async def reconcile(self, key: Key) -> Requeue | None:
        """`key` is that of a Rollout."""
        rollout = self.cache.rollouts.get(key)
        conflict = await self._end_runs(key, rollout)
        found = plan_of(rollout, self.cache) if rollout is not None else None
        judged = rollout is not None and found is not None and is_judged(rollout, found[1])
        if rollout is None or found is None or not (judged or is_overridden(rollout, found[1])):
            self._watches.pop(key, None)
            return Requeue(after=_RETRY_SECONDS) if conflict else None
        analysis, plan = found
        run = await self._run(rollout, analysis)
        if run is None:
            return None
        return await self._look(key, rollout, analysis, plan, run)

    async def _end_runs(self, key: Key, rollout: Rollout | None) -> bool:
        """Of steps that are over. True if one has changed since it was read."""
        conflict = False
        for run in self.cache.runs.list(key.namespace):
            reason = run_ending(run, rollout) if run.spec.rollout == key.name else None
            if reason is None:
                continue
            after = ended(run.status, reason, clock.timestamp())
            body = {"phase": after.phase, "reason": after.reason, "message": after.message}
            try:
                await self.client.patch_status(
                    ANALYSIS_RUNS, run, {**body, "finishedAt": after.finished_at}, locked=True
                )
            except Conflict:
                conflict = True
        return conflict

    async def _run(self, rollout: Rollout, analysis: ReleaseAnalysis) -> AnalysisRun | None:
        """The run of the current step; None when it was made just now, which brings the next pass."""
        key = run_key(rollout)
        assert key is not None, "a step that is judged has a number"
        run = self.cache.runs.get(key)
        if run is not None and is_of(run, rollout):
            return run
        progress = rollout.status.progress
        assert progress is not None
        body: JsonObject = {
            "apiVersion": ANALYSIS_RUNS.api_version,
            "kind": ANALYSIS_RUNS.kind,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": {rollout_labels.ROLLOUT_NAME: rollout.metadata.name},
                "ownerReferences": [_owner(rollout)],
            },
            "spec": {
                "rollout": rollout.metadata.name,
                "release": progress.observed_rollout_id,
                "step": progress.current_step_index,
                "attempt": progress.analysis_attempt,
                "analysis": analysis.metadata.name,
            },
        }
        try:
            await self.client.create(ANALYSIS_RUNS, body)
        except AlreadyExists:
            return None
        await self._forget_old(rollout, key)
        return None

    async def _forget_old(self, rollout: Rollout, current: Key) -> None:
        metadata = rollout.metadata
        runs = [
            one
            for one in self.cache.runs.list(metadata.namespace)
            if one.spec.rollout == metadata.name and one.metadata.name != current.name
        ]
        runs.sort(key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))
        for run in runs[: max(0, len(runs) - (KEPT_RUNS - 1))]:
            try:
                await self.client.delete(ANALYSIS_RUNS, run.metadata.name, run.metadata.namespace)
            except NotFound:
                continue

    async def _look(
        self, key: Key, rollout: Rollout, analysis: ReleaseAnalysis, plan: AnalysisPlan, run: AnalysisRun
    ) -> Requeue | None:
        watch = self._watches.get(key)
        if watch is None or watch.uid != run.metadata.uid:
            watch = self._watches[key] = _Watch(run.metadata.uid, reopened(run.status))
        override = override_of(rollout)
        if override is not None and not watch.status.overridden_by:
            watch.status = msgspec.structs.replace(watch.status, overridden_by=override.text)
            await self._write(run, watch.status)
        if not is_judged(rollout, plan) or not goes_on(plan, watch.status):
            return None
        now = asyncio.get_running_loop().time()
        interval = reading_interval(plan)
        left = 0.0 if watch.last_read is None else watch.last_read + interval - now
        if left > _AT_ONCE:
            return Requeue(after=left)
        seconds = 0.0 if watch.last_read is None else now - watch.last_read
        watch.last_read = now
        reading = await self._read(rollout, plan, watch, seconds)
        status = advance(plan, watch.status, reading, self._facts(rollout))
        status = msgspec.structs.replace(status, observed_generation=analysis.metadata.generation, mode=plan.mode.value)
        if status.decided and not watch.status.decided:
            status = msgspec.structs.replace(status, finished_at=clock.timestamp())
        watch.status = status
        await self._write(run, status)
        return Requeue(after=interval) if goes_on(plan, status) else None

    async def _read(self, rollout: Rollout, plan: AnalysisPlan, watch: _Watch, seconds: float) -> Reading:
        canary, stable = await judged_pods(rollout, self.cache, self.client)
        if not canary:
            return Reading(seconds, error="no pod of the new version is ready")
        try:
            found = await self.reader.read(plan, rollout.metadata.namespace, canary, stable)
        except SourceError as problem:
            return Reading(seconds, error=str(problem))
        names = {pod.metadata.name for pod in canary}
        if unusable := unread(found, names, compares=self._facts(rollout).compares):
            return Reading(seconds, error=unusable)
        old = tuple(one for one in found.pods if one.pod not in names)
        if not watch.history:
            watch.history = old
        present = {pod.metadata.name for pod in (*canary, *stable)}
        samples = watch.samples.samples(found.pods, present, watch.status.elapsed_seconds, plan.warmup)
        return Reading(
            seconds,
            tuple(one for one in samples if one.pod in names),
            tuple(one for one in samples if one.pod not in names),
            watch.history,
            found.queried,
        )

    def _facts(self, rollout: Rollout) -> StepFacts:
        replicas = self.cache.replicas_of(rollout.metadata.namespace, rollout.spec.workload_ref)
        return step_facts(rollout, replicas or 0)

    async def _write(self, run: AnalysisRun, status: RunStatus) -> None:
        """The whole status: what a merge would leave behind is written as it is."""
        body: JsonObject = {**msgspec.to_builtins(status), "finishedAt": status.finished_at or None}
        await self.client.patch_status(ANALYSIS_RUNS, run, body)


def is_judged(rollout: Rollout, plan: AnalysisPlan) -> bool:
    """The current step has its traffic, and waits for its verdict, or pauses."""
    status, progress = rollout.status, rollout.status.progress
    return (
        progress is not None
        and status.phase == rollout_labels.PROGRESSING
        and status.reason in _UNDER_WAY
        and progress.current_step_state in (rollout_labels.ANALYSIS, rollout_labels.PAUSED, rollout_labels.READY)
        and progress.current_step_index >= plan.first_step
    )


def is_overridden(rollout: Rollout, plan: AnalysisPlan) -> bool:
    """A user let the current step go on before it was judged. It has a run all the same, which keeps who did it."""
    judges = rollout.status.current_step_index >= plan.first_step
    return judges and override_of(rollout) is not None and rollout.status.reason in _UNDER_WAY


def goes_on(plan: AnalysisPlan, status: RunStatus) -> bool:
    """Whether the source is read again: until there is a verdict, and then for what is critical."""
    if status.phase is RunPhase.PASSED:
        return any(metric.critical for metric in plan.metrics)
    return status.phase is not RunPhase.FAILED


def reading_interval(plan: AnalysisPlan) -> float:
    """A Prometheus has nothing new before it has scraped again."""
    prometheus = plan.source.prometheus
    return plan.interval if prometheus is None else max(plan.interval, parse_duration(prometheus.step))


def step_facts(rollout: Rollout, replicas: int) -> StepFacts:
    """`replicas` are those of the stable workload.

    | step | both versions are compared |
    |---|---|
    | routes by matches | no: they get different requests |
    | all requests go to the new version | no: the stable one gets none |
    | a release in place that resizes all groups | no: there is no other group |
    | partition style, every pod has the new version | no: there is no other pod |
    | otherwise | yes |
    """
    progress, steps = rollout.status.progress, rollout.strategy.steps
    index = progress.current_step_index if progress is not None else 1
    step = steps[index - 1] if 1 <= index <= len(steps) else None
    if step is None:
        return StepFacts(len(steps))
    if progress is not None and not progress.canary_name and rollout.spec.workload_ref.is_group_set:
        compares = rollout.planned(step.replicas or 0, replicas) < replicas
    elif rollout.partitioned and _replaces_all(rollout, step, replicas):
        compares = False
    else:
        routed = bool(rollout.strategy.traffic_routings)
        compares = not (routed and (step.matches or step.traffic == "100%"))
    return StepFacts(len(steps), compares=compares)


def _replaces_all(rollout: Rollout, step: Step, replicas: int) -> bool:
    """In partition style: no pod of the old version is left at this step, nor after a jump back to it."""
    progress = rollout.status.progress
    reached = progress.replicas if progress is not None else 0
    return replicas > 0 and max(reached, rollout.planned(step.replicas or 0, replicas)) >= replicas


def unread(found: SourceReading, canary: Iterable[str], *, compares: bool) -> str:
    """Why a reading cannot be used: none of a set could be read, so that the other one would be judged alone."""
    read = {one.pod for one in found.pods}
    missing = not read & set(canary) or (compares and not read - set(canary))
    return "; ".join(found.problems[:3]) or "no pod could be read" if missing else ""


def _owner(rollout: Rollout) -> JsonObject:
    reference = rollout.owner_reference()
    return {name: reference[name] for name in ("apiVersion", "kind", "name", "uid")}


def _appears_or_goes(old: AnalysisRun | None, new: AnalysisRun | None) -> bool:
    return old is None or new is None
