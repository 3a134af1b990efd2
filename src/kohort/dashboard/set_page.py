"""One set: its groups, why it is not ready, what its containers have. The view models of its pages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from kohort.dashboard.cause_errors import ShownCause, shown_causes
from kohort.dashboard.container_amounts import ContainerAmounts, container_amounts
from kohort.dashboard.fleet import images_of
from kohort.dashboard.log_stream import ContainerLog
from kohort.groups.failure_evidence import GroupFailure
from kohort.groups.leaderworkerset import KIND
from kohort.inspection import history
from kohort.inspection.cause import Cause, documents
from kohort.inspection.container_causes import restarts
from kohort.inspection.history import HistoryEntry
from kohort.inspection.release import Release, stopping_analysis
from kohort.inspection.served_revisions import Version
from kohort.inspection.set_causes import causes
from kohort.inspection.snapshot import Snapshot, group_of, worker_of
from kohort.inspection.tree import SetTree, age, tree_of
from kohort.inspection.workload import STATEFUL_SET, PlainWorkload
from kohort.inspection.workload_views import (
    WorkloadTree,
    causes_of_subject,
    subject_progress_with_causes,
    tree_of_workload,
)
from kohort.objects.core import Event, Pod
from kohort.objects.json_types import JsonObject
from kohort.rules.group_identity import parse_pod_name

MOST_EVENTS: Final = 200
MOST_PODS_AT_ONCE: Final = 480
"""Of the groups that one page draws; a browser needs a second for some thousands."""
_KINDS_OF_A_SET: Final = (
    "LeaderWorkerSet",
    "StatefulSet",
    "Pod",
    "Service",
    "PersistentVolumeClaim",
)
_KINDS_OF_A_RELEASE: Final = ("Rollout", "BatchRelease")


class SetHead(msgspec.Struct, frozen=True, rename="camel"):
    """What stands above every page of a set, or of another workload: that one has pods where a set has groups."""

    namespace: str
    name: str
    state: str
    wanted: int
    ready: int
    updated: int
    surge: int
    size: int
    revision: int
    revision_key: str
    images: tuple[str, ...]
    paused: bool
    done: bool
    releasing: bool
    resizing: bool
    failing: bool
    """It has a cause that time alone does not end."""
    age_seconds: int
    kind: str = KIND
    release: Release | None = None
    """The release that is under way."""
    stopped: bool = False
    """Its analysis is why the release does not go on."""

    @property
    def grouped(self) -> bool:
        return self.kind == KIND

    @property
    def noun(self) -> str:
        """What is counted."""
        return "group" if self.grouped else "pod"


class SetPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    groups: SetTree
    causes: Sequence[JsonObject]
    """As `kohort explain -o json` prints them."""
    restarted: Sequence[str]
    """Containers that restarted lately."""
    resources: Sequence[ContainerAmounts]
    page: int = 1
    """Which groups the page draws, if they are too many for one: `per_page` of them. The model has all groups."""
    pages: int = 1
    per_page: int = 0


def head_of(subject: Snapshot | PlainWorkload, now: datetime) -> SetHead:
    metadata = subject.metadata
    progress, found = subject_progress_with_causes(subject, now)
    group_set = subject.group_set if isinstance(subject, Snapshot) else None
    return SetHead(
        namespace=metadata.namespace,
        name=subject.name,
        state=progress.state,
        wanted=progress.wanted,
        ready=progress.ready,
        updated=progress.updated,
        surge=progress.surge,
        size=group_set.template.size if group_set is not None else 1,
        revision=progress.revision,
        revision_key=subject.update_key,
        images=images_of(subject),
        paused=progress.paused,
        done=progress.done,
        releasing=subject.rollout is not None,
        resizing=group_set is not None and group_set.status.resize is not None,
        failing=_has_error(found, subject, now),
        age_seconds=age(metadata.creation_timestamp, now),
        kind=subject.kind,
        release=progress.release,
        stopped=_stopped(subject, progress.release),
    )


def _stopped(subject: Snapshot | PlainWorkload, release: Release | None) -> bool:
    return release is not None and subject.rollout is not None and stopping_analysis(subject.rollout) is not None


def groups_at_once(size: int) -> int:
    """
    >>> groups_at_once(16), groups_at_once(1000)
    (30, 1)
    """
    return max(1, MOST_PODS_AT_ONCE // max(1, size))


def set_page(snapshot: Snapshot, now: datetime, number: int = 1) -> tuple[SetPage, list[ShownCause]]:
    """The model, and the causes with their commands as data."""
    found = causes(snapshot)
    contexts = [snapshot.pod_context, *([snapshot.canary.pod_context] if snapshot.canary is not None else [])]
    tree, per_page = tree_of(snapshot, now), groups_at_once(snapshot.group_set.template.size)
    drawn = max(len(one.groups) for one in (tree, tree.canary) if one is not None)
    pages = max(1, -(-drawn // per_page))
    page = SetPage(
        set=head_of(snapshot, now),
        groups=tree,
        causes=documents(found),
        restarted=[text for one in contexts for text in restarts(one, now)],
        resources=container_amounts(snapshot),
        page=max(1, min(number, pages)),
        pages=pages,
        per_page=per_page,
    )
    return page, shown_causes(found, snapshot, now)


class WorkloadPage(msgspec.Struct, frozen=True, rename="camel"):
    """The first page of a workload without groups."""

    set: SetHead
    pods: WorkloadTree
    causes: Sequence[JsonObject]
    restarted: Sequence[str]


def workload_page(workload: PlainWorkload, now: datetime) -> tuple[WorkloadPage, list[ShownCause]]:
    found = causes_of_subject(workload)
    contexts = [workload.pod_context, *([workload.canary.pod_context] if workload.canary is not None else [])]
    page = WorkloadPage(
        set=head_of(workload, now),
        pods=tree_of_workload(workload, now),
        causes=documents(found),
        restarted=[text for one in contexts for text in restarts(one, now)],
    )
    return page, shown_causes(found, workload, now)


class HistoryPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    revisions: Sequence[HistoryEntry]
    """Newest first."""
    before: int
    """The revisions that are compared; 0 if there is only one."""
    after: int
    difference: Sequence[str]


def history_page(
    subject: Snapshot | PlainWorkload, now: datetime, before: int | None, after: int | None
) -> HistoryPage:
    """Compares two revisions: those named, or the current one with the one before it. Raises NoSuchRevision."""
    entries = history.entries(subject, now)
    lines: list[str] = []
    old = new = 0
    held = not subject.update_key and before is None and after is None
    """A release holds the wanted version back, so it is not kept yet."""
    if (len(entries) > 1 or before is not None) and not held:
        later = history.current(subject) if after is None else history.chosen(subject, after)
        earlier = _version_before(subject, later.number) if before is None else history.chosen(subject, before)
        old, new = earlier.number, later.number
        lines = history.difference(earlier, later)
    return HistoryPage(head_of(subject, now), entries[::-1], old, new, lines)


def _version_before(subject: Snapshot | PlainWorkload, number: int) -> Version:
    ordered = history.in_order(subject.versions)
    older = [one for one in ordered if one.number < number]
    return older[-1] if older else ordered[-1]


class TimelineEntry(msgspec.Struct, frozen=True, rename="camel"):
    when: str
    age_seconds: int
    type: str
    reason: str
    kind: str
    object: str
    message: str
    count: int
    component: str


class EventsPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    events: Sequence[TimelineEntry]
    """Newest first."""
    left_off: int
    allowed: bool = True
    """The user may list events of the namespace."""


def events_page(
    subject: Snapshot | PlainWorkload, events: Sequence[Event], now: datetime, *, allowed: bool = True
) -> EventsPage:
    ours = [one for one in events if _is_about(one, subject)]
    ours.sort(key=_when, reverse=True)
    shown = [
        TimelineEntry(
            when=_when(one),
            age_seconds=age(_when(one) or None, now),
            type=one.type,
            reason=one.reason,
            kind=one.involved_object.kind,
            object=one.involved_object.name,
            message=one.message,
            count=max(1, one.count),
            component=one.source.component,
        )
        for one in ours[:MOST_EVENTS]
    ]
    return EventsPage(head_of(subject, now), shown, len(ours) - len(shown), allowed)


def _is_about(event: Event, subject: Snapshot | PlainWorkload) -> bool:
    rollout, about = subject.rollout, event.involved_object
    if rollout is not None and about.kind in _KINDS_OF_A_RELEASE and about.name == rollout.metadata.name:
        return True
    carriers = [subject, *([subject.canary] if subject.canary is not None else [])]
    return any(_is_of(event, one) if isinstance(one, PlainWorkload) else _belongs(event, one.name) for one in carriers)


def _is_of(event: Event, workload: PlainWorkload) -> bool:
    """The workload itself, its ReplicaSets and its pods, also those that are gone: their names begin with its own."""
    about = event.involved_object
    if about.kind == workload.kind:
        return about.name == workload.name
    if workload.kind == STATEFUL_SET:
        return about.kind in ("Pod", "PersistentVolumeClaim") and _belongs(event, workload.name)
    sets = {one.metadata.name for one in workload.replica_sets}
    return (
        about.name in sets
        if about.kind == "ReplicaSet"
        else (about.kind == "Pod" and about.name.rpartition("-")[0] in sets)
    )


def _when(event: Event) -> str:
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""


def _belongs(event: Event, name: str) -> bool:
    """Events outlive their objects, so names decide: those of groups are numbers after the name of the set.

    >>> from kohort.objects.meta import ObjectReference
    >>> about = lambda name: Event(involved_object=ObjectReference(kind="Pod", name=name))
    >>> [_belongs(about(one), "llm") for one in ("llm-0", "llm-0-12", "llm-other-0", "llm-x")]
    [True, True, False, False]
    """
    about = event.involved_object
    if about.kind not in _KINDS_OF_A_SET:
        return False
    if about.name == name:
        return True
    if about.kind == "PersistentVolumeClaim":
        return f"-{name}-" in about.name
    parsed = parse_pod_name(about.name)
    above = parse_pod_name(parsed.parent) if parsed is not None else None
    return name in (one.parent for one in (parsed, above) if one is not None)


class FailuresPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    kept: bool
    """Failures are kept: the set has a restartBudget."""
    failures: Sequence[GroupFailure]
    """Newest first."""
    allowed: bool = True
    """The user may read the ConfigMap that they are kept in."""


def failures_page(
    snapshot: Snapshot, found: Sequence[GroupFailure], now: datetime, *, allowed: bool = True
) -> FailuresPage:
    return FailuresPage(head_of(snapshot, now), bool(snapshot.group_set.template.restart_budget), found, allowed)


class LogsPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    groups: Sequence[int]
    pods: Sequence[str]
    containers: Sequence[str]
    group: int | None
    container: str


def logged_pods(subject: Snapshot | PlainWorkload, group: int | None) -> list[Pod]:
    """Those of a new version first; of one group, if one is given."""
    canary = subject.canary.pods if subject.canary is not None else ()
    if isinstance(subject, PlainWorkload):
        return [*subject.pods, *canary]
    chosen = [one for one in subject.pods if group is None or group_of(one) == group]
    return [*(sorted(canary, key=_place) if group is None else ()), *sorted(chosen, key=_place)]


def _place(pod: Pod) -> tuple[int, int]:
    group = group_of(pod)
    return (group if group is not None else -1, worker_of(pod))


def log_sources(subject: Snapshot | PlainWorkload, group: int | None, container: str) -> list[ContainerLog]:
    return [_log_source(pod, container) for pod in logged_pods(subject, group)]


def _log_source(pod: Pod, container: str) -> ContainerLog:
    """The first container is meant if none is named, as by the API server."""
    names = [one.name for one in pod.spec.main_containers]
    wanted = container or (names[0] if names else "")
    started = [one.container_id for one in pod.status.container_statuses if one.name == wanted]
    return ContainerLog(pod.metadata.name, f"{pod.metadata.uid} {started[0] if started else ''}")


def logs_page(subject: Snapshot | PlainWorkload, now: datetime, group: int | None, container: str) -> LogsPage:
    containers = dict.fromkeys(one.name for pod in subject.pods for one in pod.spec.main_containers)
    groups: list[int] = (
        [] if isinstance(subject, PlainWorkload) else [one.index for one in tree_of(subject, now).groups]
    )
    return LogsPage(
        set=head_of(subject, now),
        groups=groups,
        pods=[one.metadata.name for one in logged_pods(subject, group)],
        containers=list(containers),
        group=group,
        container=container,
    )


class Badge(msgspec.Struct, frozen=True, rename="camel"):
    label: str
    message: str
    tone: str


def badge_of(subject: Snapshot | PlainWorkload, now: datetime) -> Badge:
    """For a picture that shows the state of a workload elsewhere."""
    progress, found = subject_progress_with_causes(subject, now)
    message = f"{progress.ready}/{progress.wanted} {progress.state.lower()}"
    release = progress.release
    if release is not None and release.step:
        message += f", step {release.step}/{release.steps}"
    failing = _has_error(found, subject, now)
    return Badge(subject.name, message, "bad" if failing else "ok" if progress.done else "busy")


def _has_error(found: Sequence[Cause], subject: Snapshot | PlainWorkload, now: datetime) -> bool:
    return any(one.error for one in shown_causes(found, subject, now))
