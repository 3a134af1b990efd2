"""Finds what belongs to the analysis of a Rollout: its ReleaseAnalysis, the run of its step, the pods of both sets."""

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from kohort.kube.client import Client
from kohort.kube.resources import PODS, Key
from kohort.objects.core import Pod
from kohort.rollouts import messages
from kohort.rollouts.analysis.analysis_rules import AnalysisPlan, InvalidAnalysis, parse_plan, step_problem
from kohort.rollouts.analysis.analysis_types import AnalysisRun, ReleaseAnalysis
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.step_analysis import Judgement, override_of
from kohort.rollouts.workloads.in_place_release import leaders_by_version
from kohort.rules import rollout_labels
from kohort.rules.group_identity import is_leader
from kohort.rules.safe_text import safe_text

_LONGEST_NAME: Final = 200


def analysis_name(rollout: Rollout) -> str:
    """The ReleaseAnalysis that a Rollout names; empty without one."""
    return rollout.metadata.annotations.get(rollout_labels.ANALYSIS_NAME, "")


def run_key(rollout: Rollout) -> Key | None:
    """The AnalysisRun of the current step. Its name follows from the release, the step and the attempt."""
    progress = rollout.status.progress
    if progress is None or progress.current_step_index < 1:
        return None
    metadata = rollout.metadata
    attempt = f"{metadata.uid}/{progress.observed_rollout_id}/{progress.revision}/{progress.analysis_attempt}"
    digest = safe_text(hashlib.sha256(attempt.encode()).hexdigest())[:8]
    name = f"{metadata.name[:_LONGEST_NAME]}-{digest}-{progress.current_step_index}"
    return Key(metadata.namespace, name)


def judgement_of(rollout: Rollout, cache: RolloutCache) -> Judgement | None:
    """None where the Rollout asks for no analysis."""
    name = analysis_name(rollout)
    if not name:
        return None
    key = run_key(rollout)
    run = cache.runs.get(key) if key is not None else None
    found = Judgement(
        name,
        run=run if run is not None and is_of(run, rollout) else None,
        override=override_of(rollout),
        latest_attempt=max((one.spec.attempt for one in _runs_of(rollout, cache)), default=0),
    )
    analysis = cache.analyses.get(Key(rollout.metadata.namespace, name))
    if analysis is None:
        return msgspec.structs.replace(found, problem=messages.analysis_missing(name), missing=True)
    try:
        plan = parse_plan(analysis.spec)
    except InvalidAnalysis as problem:
        return msgspec.structs.replace(found, problem=messages.analysis_invalid(name, str(problem)))
    if text := step_problem(plan, rollout.metadata.name, len(rollout.strategy.steps)):
        return msgspec.structs.replace(found, problem=messages.analysis_invalid(name, text))
    return msgspec.structs.replace(found, mode=plan.mode, first_step=plan.first_step)


def _runs_of(rollout: Rollout, cache: RolloutCache) -> Iterator[AnalysisRun]:
    metadata = rollout.metadata
    return (one for one in cache.runs.list(metadata.namespace) if one.spec.rollout == metadata.name)


def plan_of(rollout: Rollout, cache: RolloutCache) -> tuple[ReleaseAnalysis, AnalysisPlan] | None:
    """None where the Rollout asks for no analysis, or for one that cannot be used."""
    analysis = cache.analyses.get(Key(rollout.metadata.namespace, analysis_name(rollout)))
    if analysis is None:
        return None
    try:
        return analysis, parse_plan(analysis.spec)
    except InvalidAnalysis:
        return None


def is_of(run: AnalysisRun, rollout: Rollout) -> bool:
    return any(owner.uid == rollout.metadata.uid for owner in run.metadata.owner_references)


def rollouts_of_run(run: AnalysisRun) -> list[Key]:
    return [Key(run.metadata.namespace, run.spec.rollout)] if run.spec.rollout else []


def rollouts_of_analysis(analysis: ReleaseAnalysis, cache: RolloutCache) -> list[Key]:
    metadata = analysis.metadata
    return [
        Key(metadata.namespace, rollout.metadata.name)
        for rollout in cache.rollouts.list(metadata.namespace)
        if analysis_name(rollout) == metadata.name
    ]


def unjudged(plan: AnalysisPlan, analysis: ReleaseAnalysis, cache: RolloutCache) -> list[str]:
    """Why Rollouts that name an analysis would not be judged by it."""
    users = [cache.rollouts.get(key) for key in rollouts_of_analysis(analysis, cache)]
    texts = [
        step_problem(plan, rollout.metadata.name, len(rollout.strategy.steps))
        for rollout in users
        if rollout is not None and rollout.steps_known
    ]
    return [text for text in texts if text]


async def judged_pods(rollout: Rollout, cache: RolloutCache, client: Client) -> tuple[list[Pod], list[Pod]]:
    """The pods that serve: of the new version, and of the stable one. Of groups these are the leaders; in a release in
    place, those of resized groups and those of the others."""
    progress = rollout.status.progress
    if progress is None:
        return [], []
    namespace, ref = rollout.metadata.namespace, rollout.spec.workload_ref
    if ref.is_group_set:
        both = leaders_by_version(_leaders(cache, Key(namespace, ref.name)), progress.stable_revision)
        canary = _leaders(cache, Key(namespace, progress.canary_name)) if progress.canary_name else list(both.new)
        return canary, list(both.stable)
    key = Key(namespace, ref.name)
    workload = cache.stateful_sets.get(key) if ref.is_stateful_set else cache.deployments.get(key)
    if workload is None or workload.spec.selector is None or not progress.revision_key:
        return [], []
    labels = workload.spec.selector.match_labels
    found = []
    for revision in (progress.pod_template_hash, progress.stable_revision):
        wanted = {**labels, progress.revision_key: revision}
        selector = ",".join(f"{name}={value}" for name, value in sorted(wanted.items()))
        listed = (await client.list(PODS, namespace, type=Pod, label_selector=selector)).items if revision else []
        found.append([pod for pod in listed if _serves(pod)])
    return found[0], found[1]


def _leaders(cache: RolloutCache, key: Key) -> list[Pod]:
    return sorted(
        (pod for pod in cache.pods_of(key) if is_leader(pod.metadata.labels) and _serves(pod)),
        key=lambda pod: pod.metadata.name,
    )


def _serves(pod: Pod) -> bool:
    return pod.active and pod.ready and bool(pod.status.pod_ip)
