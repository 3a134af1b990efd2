"""The fleet: all workloads that a user may see, filtered and in pages.

Only what filters need is computed for every set (its state, from its own status). The rest of a row, the explanation
above all, is computed for the rows of the page that is shown and for workloads that may fail, since those are counted;
it is kept until an object of the set changes.

| filter | matches |
|---|---|
| kind | LeaderWorkerSets, or Deployments or StatefulSets, of which those are shown that a Rollout names |
| namespace | workloads of this namespace |
| label | workloads with these labels, as `kohort list -l` |
| state | workloads in this state; or those that fail, in whichever state: their first cause is an error |
| name | workloads whose name contains this text |
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from kohort.dashboard.cause_errors import ShownCause, shown_causes
from kohort.dashboard.workload_kinds import KINDS
from kohort.groups.leaderworkerset import KIND, LeaderWorkerSet
from kohort.inspection.cause import CauseKind
from kohort.inspection.release import Release, pause_ends
from kohort.inspection.served_revisions import images
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import age, state_of_set
from kohort.inspection.workload import PlainWorkload
from kohort.inspection.workload_views import state_of, subject_progress_with_causes
from kohort.kube.resources import Key
from kohort.objects.selectors import LabelSelector

PAGE_SIZE: Final = 50
STATES: Final = ("Available", "Progressing", "Updating", "Pending", "Terminating")
FAILING: Final = "Failing"
"""A choice beside the states."""
TROUBLE_FIRST: Final = ("Pending", "Progressing", "Updating", "Terminating", "Available")
SORTS: Final = ("name", "state")


class FleetFilter(msgspec.Struct, frozen=True):
    namespace: str = ""
    label: str = ""
    state: str = ""
    name: str = ""
    sort: str = "name"
    page: int = 1
    kind: str = ""

    @property
    def query(self) -> list[tuple[str, str]]:
        """As it stands in an address; what is as usual is left out."""
        sort = self.sort if self.sort != "name" else ""
        given = [("namespace", self.namespace), ("label", self.label), ("state", self.state), ("name", self.name)]
        return [*given, ("kind", self.kind), ("sort", sort), ("page", str(self.page) if self.page > 1 else "")]


class BadFilter(ValueError):
    """The message names the parameter, what was given, and what is allowed."""


def read_filter(given: Mapping[str, str]) -> FleetFilter:
    page, state, sort = given.get("page", "") or "1", given.get("state", ""), given.get("sort", "") or "name"
    if not page.isdecimal() or not 1 <= int(page) <= 1_000_000:
        raise BadFilter(f"page: {page!r} is not a page number; the first one is 1")
    if state and state not in (*STATES, FAILING):
        raise BadFilter(f"state: {state!r} is not a state of a set; allowed are {', '.join((*STATES, FAILING))}")
    if sort not in SORTS:
        raise BadFilter(f"sort: {sort!r} is not allowed; allowed are {', '.join(SORTS)}")
    kind = given.get("kind", "")
    if kind and kind not in KINDS:
        raise BadFilter(f"kind: {kind!r} is not shown here; allowed are {', '.join(KINDS)}")
    label = given.get("label", "").strip()
    try:
        LabelSelector.parse(label)
    except ValueError as problem:
        raise BadFilter(f"label: {label!r} selects nothing: {problem}") from None
    return FleetFilter(given.get("namespace", ""), label, state, given.get("name", "").strip(), sort, int(page), kind)


class FirstCause(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    object: str
    found: str
    action: str
    more: int
    """Further causes."""
    error: bool = True
    """Neither time nor a decision ends it."""


class FleetRow(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str
    name: str
    state: str
    wanted: int
    ready: int
    updated: int
    surge: int
    """Groups beyond those wanted, which exist while the set rolls."""
    size: int
    """Pods of a group; 1 for workloads without groups, whose pods are counted instead."""
    revision: int
    images: tuple[str, ...]
    paused: bool
    done: bool
    release: Release | None
    cause: FirstCause | None
    """The first one that `kohort explain` names; None if the set is as wanted."""
    created: str
    age_seconds: int = 0
    kind: str = KIND
    pause_ends: str = ""
    """When the step of the release goes on by itself; empty if it does not wait for that."""

    @property
    def fails(self) -> bool:
        return self.cause is not None and self.cause.error

    @property
    def passes_with_time(self) -> bool:
        """It may change although no object does: a pause goes on, a start takes too long."""
        starts = self.cause is not None and self.cause.kind == CauseKind.PROBE and not self.cause.error
        return self.release is not None or starts


class FleetPage(msgspec.Struct, frozen=True, rename="camel"):
    filter: FleetFilter
    rows: Sequence[FleetRow]
    total: int
    """Sets that pass the filter."""
    pages: int
    states: Mapping[str, int]
    """How many sets are in which state, before the state is filtered."""
    failing: int
    """How many fail, before the state is filtered."""
    namespaces: Sequence[str]
    """That have workloads which the user may see."""
    kinds: Sequence[str] = ()
    """Of which there are workloads that the user may see."""


Listable = LeaderWorkerSet | PlainWorkload


class Listed(msgspec.Struct, frozen=True):
    """What filters need of one workload."""

    key: Key
    kind: str
    state: str


def listed(one: Listable) -> Listed:
    state = state_of(one) if isinstance(one, PlainWorkload) else state_of_set(one)
    return Listed(Key(one.metadata.namespace, one.metadata.name), kind_of(one), state)


def kind_of(one: Listable) -> str:
    return one.kind if isinstance(one, PlainWorkload) else KIND


def matching(found: Sequence[Listable], wanted: FleetFilter) -> list[Listed]:
    """The workloads that pass every filter but that of the state."""
    selector = LabelSelector.parse(wanted.label)
    result = []
    for one in found:
        metadata = one.metadata
        if wanted.namespace and metadata.namespace != wanted.namespace:
            continue
        if wanted.name and wanted.name not in metadata.name:
            continue
        if wanted.label and not selector.matches(metadata.labels):
            continue
        if wanted.kind and kind_of(one) != wanted.kind:
            continue
        result.append(listed(one))
    return result


def fleet_of(
    found: Sequence[Listable],
    wanted: FleetFilter,
    row: Callable[[str, Key], FleetRow | None],
    fails: Callable[[Listed], bool],
    now: datetime,
) -> FleetPage:
    """`row` gives the row of one workload by kind and name; None if it is gone meanwhile."""
    passed = matching(found, wanted)
    counts = Counter(one.state for one in passed)
    failing = [one for one in passed if fails(one)]
    chosen = [one for one in passed if not wanted.state or one.state == wanted.state]
    if wanted.state == FAILING:
        chosen = [*failing]
    if wanted.sort == "state":
        chosen.sort(key=lambda one: (TROUBLE_FIRST.index(one.state), one.key, one.kind))
    else:
        chosen.sort(key=lambda one: (one.key, one.kind))
    pages = max(1, -(-len(chosen) // PAGE_SIZE))
    page = min(wanted.page, pages)
    shown = chosen[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    rows = [one for each in shown if (one := row(each.kind, each.key)) is not None]
    return FleetPage(
        filter=msgspec.structs.replace(wanted, page=page),
        rows=[msgspec.structs.replace(one, age_seconds=age(one.created, now)) for one in rows],
        total=len(chosen),
        pages=pages,
        states={one: counts[one] for one in STATES},
        failing=len(failing),
        namespaces=sorted({one.metadata.namespace for one in found}),
        kinds=[kind for kind in KINDS if any(kind_of(one) == kind for one in found)],
    )


def row_of(subject: Snapshot | PlainWorkload, now: datetime) -> FleetRow:
    metadata = subject.metadata
    progress, found = subject_progress_with_causes(subject, now)
    reasons = shown_causes(found, subject, now)
    return FleetRow(
        namespace=metadata.namespace,
        name=subject.name,
        state=progress.state,
        wanted=progress.wanted,
        ready=progress.ready,
        updated=progress.updated,
        surge=progress.surge,
        size=1 if isinstance(subject, PlainWorkload) else subject.group_set.template.size,
        revision=progress.revision,
        images=images_of(subject),
        paused=progress.paused,
        done=progress.done,
        release=progress.release,
        cause=_first(reasons),
        created=metadata.creation_timestamp or "",
        kind=subject.kind,
        pause_ends=pause_ends(progress.release, now),
    )


def _first(reasons: Sequence[ShownCause]) -> FirstCause | None:
    if not reasons:
        return None
    first = reasons[0].cause
    return FirstCause(first.kind, first.objects[0], first.found, first.action.text, len(reasons) - 1, reasons[0].error)


def images_of(subject: Snapshot | PlainWorkload) -> tuple[str, ...]:
    """Of the wanted version."""
    if isinstance(subject, PlainWorkload):
        return images(subject.template)
    template = subject.group_set.template
    return images(template.leader, template.worker)
