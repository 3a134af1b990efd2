"""One set: its groups, why it is not ready, what its containers have. The view models of its pages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from kohort.dashboard.container_amounts import ContainerAmounts, container_amounts
from kohort.groups.failure_evidence import GroupFailure
from kohort.inspection import history
from kohort.inspection.cause import Cause, CauseKind, documents
from kohort.inspection.container_causes import restarts
from kohort.inspection.history import Entry
from kohort.inspection.progress import Progress, progress_of
from kohort.inspection.served_revisions import Version
from kohort.inspection.set_causes import causes
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import SetTree, age, tree_of
from kohort.objects.core import Event
from kohort.objects.json_types import JsonObject
from kohort.rules.group_identity import parse_index

MOST_EVENTS: Final = 200
_KINDS_OF_A_SET: Final = (
    "LeaderWorkerSet",
    "StatefulSet",
    "Pod",
    "Service",
    "PersistentVolumeClaim",
    "Rollout",
    "BatchRelease",
)


class SetHead(msgspec.Struct, frozen=True, rename="camel"):
    """What stands above every page of a set."""

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


class SetPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    groups: SetTree
    causes: Sequence[JsonObject]
    """As `kohort explain -o json` prints them."""
    restarted: Sequence[str]
    """Containers that restarted lately."""
    resources: Sequence[ContainerAmounts]


def head_of(snapshot: Snapshot, now: datetime) -> SetHead:
    group_set, progress = snapshot.group_set, progress_of(snapshot, now)
    tree = tree_of(snapshot, now)
    return SetHead(
        namespace=group_set.metadata.namespace,
        name=snapshot.name,
        state=progress.state,
        wanted=progress.wanted,
        ready=progress.ready,
        updated=progress.updated,
        surge=progress.surge,
        size=group_set.template.size,
        revision=progress.revision,
        revision_key=snapshot.update_key,
        images=tree.images,
        paused=progress.paused,
        done=progress.done,
        releasing=snapshot.rollout is not None,
        resizing=group_set.status.resize is not None,
        failing=not progress.done and _fails(causes(snapshot)),
        age_seconds=age(group_set.metadata.creation_timestamp, now),
    )


def set_page(snapshot: Snapshot, now: datetime) -> tuple[SetPage, list[Cause]]:
    """The model, and the causes with their commands as data."""
    found = causes(snapshot)
    contexts = [snapshot.pod_context, *([snapshot.canary.pod_context] if snapshot.canary is not None else [])]
    page = SetPage(
        set=head_of(snapshot, now),
        groups=tree_of(snapshot, now),
        causes=documents(found),
        restarted=[text for one in contexts for text in restarts(one, now)],
        resources=container_amounts(snapshot),
    )
    return page, found


class HistoryPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    revisions: Sequence[Entry]
    """Newest first."""
    before: int
    """The revisions that are compared; 0 if there is only one."""
    after: int
    difference: Sequence[str]


def history_page(snapshot: Snapshot, now: datetime, before: int | None, after: int | None) -> HistoryPage:
    """Compares two revisions: those named, or the current one with the one before it. Raises NoSuchRevision."""
    entries = history.entries(snapshot, now)
    lines: list[str] = []
    old = new = 0
    if len(entries) > 1 or before is not None:
        later = history.current(snapshot) if after is None else history.chosen(snapshot, after)
        earlier = _version_before(snapshot, later.number) if before is None else history.chosen(snapshot, before)
        old, new = earlier.number, later.number
        lines = history.difference(earlier, later)
    return HistoryPage(head_of(snapshot, now), entries[::-1], old, new, lines)


def _version_before(snapshot: Snapshot, number: int) -> Version:
    ordered = history.in_order(snapshot.versions)
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


def events_page(snapshot: Snapshot, events: Sequence[Event], now: datetime) -> EventsPage:
    names = [snapshot.name, *([snapshot.canary.name] if snapshot.canary is not None else [])]
    names += [snapshot.rollout.metadata.name] if snapshot.rollout is not None else []
    ours = [one for one in events if any(_belongs(one, name) for name in names)]
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
    return EventsPage(head_of(snapshot, now), shown, len(ours) - len(shown))


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
    rest = about.name.removeprefix(f"{name}-") if about.name.startswith(f"{name}-") else ""
    return bool(rest) and all(parse_index(one) is not None for one in rest.split("-"))


class FailuresPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    kept: bool
    """Failures are kept: the set has a restartBudget."""
    failures: Sequence[GroupFailure]
    """Newest first."""


def failures_page(snapshot: Snapshot, found: Sequence[GroupFailure], now: datetime) -> FailuresPage:
    return FailuresPage(head_of(snapshot, now), bool(snapshot.group_set.template.restart_budget), found)


class LogsPage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    groups: Sequence[int]
    pods: Sequence[str]
    containers: Sequence[str]
    group: int | None
    container: str


def logs_page(snapshot: Snapshot, now: datetime, group: int | None, container: str) -> LogsPage:
    tree = tree_of(snapshot, now)
    pods = [pod for each in tree.groups if group is None or each.index == group for pod in each.pods]
    containers = dict.fromkeys(one.name for pod in snapshot.pods for one in pod.spec.main_containers)
    return LogsPage(
        set=head_of(snapshot, now),
        groups=[one.index for one in tree.groups],
        pods=[one.name for one in pods],
        containers=list(containers),
        group=group,
        container=container,
    )


class Badge(msgspec.Struct, frozen=True, rename="camel"):
    label: str
    message: str
    tone: str


def badge_of(snapshot: Snapshot, progress: Progress) -> Badge:
    """For a picture that shows the state of a set elsewhere."""
    message = f"{progress.ready}/{progress.wanted} {progress.state.lower()}"
    release = progress.release
    if release is not None and release.step:
        message += f", step {release.step}/{release.steps}"
    failing = not progress.done and _fails(causes(snapshot))
    return Badge(snapshot.name, message, "bad" if failing else "ok" if progress.done else "busy")


def _fails(found: Sequence[Cause]) -> bool:
    return any(one.kind not in (CauseKind.WAITING, CauseKind.ROLLOUT) for one in found)
