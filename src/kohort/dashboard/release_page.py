"""A release: its steps as a rail, both versions side by side."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from kohort.dashboard.analysis_charts import StepAnalysis, step_analyses
from kohort.dashboard.set_page import SetHead, head_of
from kohort.inspection import history
from kohort.inspection.release import Release, matches_of, may_jump_to, overridable_analysis, pause_ends, release_of
from kohort.inspection.served_revisions import Version, images
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import GroupBranch, PodBranch, branch_of, tree_of
from kohort.inspection.workload import PlainWorkload
from kohort.objects.core import Pod
from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.workloads.deployment_hold import template_content


class StepPlace(StrEnum):
    """Of a step, beside the one that the release is at."""

    DONE = "done"
    CURRENT = "current"
    NEXT = "next"


class RailStep(msgspec.Struct, frozen=True, rename="camel"):
    number: int
    place: StepPlace
    replicas_asked: str
    groups: int
    """How many groups of the new version that are."""
    traffic: str
    matches: tuple[str, ...]
    pause_seconds: int | None
    waits_for_approval: bool


class ReleasedVersion(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    """Of the set that carries it."""
    revision: int
    images: tuple[str, ...]
    wanted: int
    ready: int
    groups: Sequence[GroupBranch]
    traffic: int | None
    """Per cent of the requests, as the routes are; None if that cannot be seen."""
    pods: Sequence[PodBranch] = ()
    """Of a workload without groups."""


class ReleasePage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    rollout: str
    style: str
    phase: str
    release: Release | None
    """None while nothing is released."""
    pause_ends: str
    """When the step goes on by itself; empty if it does not wait for that."""
    overridable: bool
    """Its analysis stops the step, which can go on in spite of it."""
    jumps_forward: bool
    """The analysis of the current step does not keep the release from going to a later one."""
    steps: Sequence[RailStep]
    stable: ReleasedVersion | None
    new: ReleasedVersion | None
    difference: Sequence[str]
    """From the stable version to the new one."""
    analyses: Sequence[StepAnalysis] = ()
    """Judged steps of this release; of the last one while none is under way."""


def release_page(
    subject: Snapshot | PlainWorkload, now: datetime, runs: Sequence[AnalysisRun] = ()
) -> ReleasePage | None:
    """None if no Rollout releases the workload."""
    rollout = subject.rollout
    if rollout is None:
        return None
    release = release_of(subject, now)
    if isinstance(subject, PlainWorkload):
        stable, new = _versions_of_workload(subject)
        shown = _stable_pods(subject, stable, release, now), _new_pods(subject, new, release, now)
    else:
        stable, new = _versions(subject)
        shown = _stable(subject, stable, release, now), _new(subject, new, release, now)
    return ReleasePage(
        set=head_of(subject, now),
        rollout=rollout.metadata.name,
        style=rollout.style,
        phase=rollout.status.phase,
        release=release,
        pause_ends=pause_ends(release, now),
        overridable=release is not None and overridable_analysis(rollout) is not None,
        jumps_forward=may_jump_to(rollout, len(rollout.strategy.steps)),
        steps=rail(rollout, subject.replicas, release),
        stable=shown[0],
        new=shown[1],
        difference=history.difference(stable, new) if stable is not None and new is not None else [],
        analyses=step_analyses(runs, _release_id(rollout, runs)),
    )


def _release_id(rollout: Rollout, runs: Sequence[AnalysisRun]) -> str:
    """Of the release that the Rollout is, or was last, busy with."""
    progress = rollout.status.progress
    if progress is not None and progress.observed_rollout_id:
        return progress.observed_rollout_id
    newest = max(runs, key=lambda one: one.metadata.creation_timestamp or "", default=None)
    return newest.spec.release if newest is not None else ""


def _place(step: int, current: int) -> StepPlace:
    if step == current:
        return StepPlace.CURRENT
    return StepPlace.DONE if step < current else StepPlace.NEXT


def rail(rollout: Rollout, replicas: int, release: Release | None) -> list[RailStep]:
    """All steps; before a release begins they are all to come."""
    current = release.step if release is not None else 0
    found = []
    for number, step in enumerate(rollout.strategy.steps, 1):
        skips = rollout.skips_pause(number)
        found.append(
            RailStep(
                number=number,
                place=_place(number, current),
                replicas_asked=str(step.replicas) if step.replicas is not None else "",
                groups=rollout.planned(step.replicas or 0, replicas),
                traffic=step.traffic or "",
                matches=matches_of(step),
                pause_seconds=None if skips else step.pause_seconds,
                waits_for_approval=not skips and step.pause_seconds is None,
            )
        )
    return found


def _versions(snapshot: Snapshot) -> tuple[Version | None, Version | None]:
    """The stable version and the new one, while they differ."""
    by_key = {one.key: one for one in snapshot.versions}
    if not snapshot.releasing:
        return by_key.get(snapshot.update_key), None
    ordered = history.in_order(snapshot.versions)
    stable = by_key.get(snapshot.stable_key)
    key = snapshot.canary.update_key if snapshot.canary is not None else snapshot.update_key
    new = by_key.get(key) or (ordered[-1] if ordered else None)
    return stable, new if stable is not None and new is not None and new.key != stable.key else None


def _stable(
    snapshot: Snapshot, version: Version | None, release: Release | None, now: datetime
) -> ReleasedVersion | None:
    if version is None:
        return None
    tree = tree_of(snapshot, now)
    groups = [one for one in tree.groups if snapshot.canary is not None or one.revision_key in ("", version.key)]
    seen = release.traffic_observed if release is not None else None
    traffic = 100 - seen if seen is not None else None
    return _released(snapshot.name, version, snapshot.replicas, groups, traffic)


def _new(snapshot: Snapshot, version: Version | None, release: Release | None, now: datetime) -> ReleasedVersion | None:
    if version is None or release is None:
        return None
    canary = snapshot.canary
    source = tree_of(canary if canary is not None else snapshot, now, snapshot.numbers)
    groups = [one for one in source.groups if canary is not None or one.revision_key == version.key]
    wanted = canary.replicas if canary is not None else len(groups)
    return _released(source.name, version, wanted, groups, release.traffic_observed)


def _versions_of_workload(workload: PlainWorkload) -> tuple[Version | None, Version | None]:
    """The stable version and the new one, while they differ. The new one is what the workload asks for: while a release
    holds it back, no ReplicaSet keeps it."""
    by_key = {one.key: one for one in workload.versions}
    stable = by_key.get(workload.stable_key)
    if not workload.releasing or stable is None:
        return by_key.get(workload.update_key), None
    content = template_content(workload.template)
    if content == stable.content["template"]:
        return stable, None
    known = by_key.get(workload.update_key)
    number = known.number if known is not None else 0
    return stable, Version(
        number=number, key=workload.update_key, content={"template": content}, images=images(workload.template)
    )


def _stable_pods(
    workload: PlainWorkload, version: Version | None, release: Release | None, now: datetime
) -> ReleasedVersion | None:
    if version is None:
        return None
    pods = [one for one in workload.pods if workload.version_of(one) == version.key]
    seen = release.traffic_observed if release is not None else None
    traffic = 100 - seen if seen is not None else None
    wanted = workload.replicas if workload.canary is not None or release is None else len(pods)
    return _released_pods(workload.name, version, wanted, pods, traffic, now)


def _new_pods(
    workload: PlainWorkload, version: Version | None, release: Release | None, now: datetime
) -> ReleasedVersion | None:
    if version is None or release is None:
        return None
    canary = workload.canary
    if canary is not None:
        return _released_pods(canary.name, version, canary.replicas, canary.pods, release.traffic_observed, now)
    pods = [one for one in workload.pods if workload.version_of(one) != workload.stable_key]
    return _released_pods(workload.name, version, len(pods), pods, release.traffic_observed, now)


def _released_pods(
    name: str, version: Version, wanted: int, pods: Sequence[Pod], traffic: int | None, now: datetime
) -> ReleasedVersion:
    branches = [branch_of(one, now, "pod") for one in pods]
    ready = sum(one.ready for one in branches)
    return ReleasedVersion(name, version.number, version.images, wanted, ready, (), traffic, branches)


def _released(
    name: str, version: Version, wanted: int, groups: Sequence[GroupBranch], traffic: int | None
) -> ReleasedVersion:
    ready = sum(one.ready for one in groups)
    return ReleasedVersion(name, version.number, version.images, wanted, ready, groups, traffic)
