"""The fleet: all sets that a user may see, filtered and in pages.

Only what filters need is computed for every set (its state, from its own status). The rest of a row, the explanation
above all, is computed for the rows of the page that is shown, and kept until an object of the set changes.

| filter | matches |
|---|---|
| namespace | sets of this namespace |
| label | sets with these labels, as `kohort list -l` |
| state | sets in this state |
| name | sets whose name contains this text |
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.progress import progress_of
from kohort.inspection.release import Release
from kohort.inspection.served_revisions import images
from kohort.inspection.set_causes import causes
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import age, state_of_set
from kohort.kube.resources import Key
from kohort.objects.selectors import LabelSelector

PAGE_SIZE: Final = 50
STATES: Final = ("Available", "Progressing", "Updating", "Pending", "Terminating")
TROUBLE_FIRST: Final = ("Pending", "Progressing", "Updating", "Terminating", "Available")
SORTS: Final = ("name", "state")


class FleetFilter(msgspec.Struct, frozen=True):
    namespace: str = ""
    label: str = ""
    state: str = ""
    name: str = ""
    sort: str = "name"
    page: int = 1

    @property
    def query(self) -> list[tuple[str, str]]:
        """As it stands in an address; what is as usual is left out."""
        sort = self.sort if self.sort != "name" else ""
        given = [("namespace", self.namespace), ("label", self.label), ("state", self.state), ("name", self.name)]
        return [*given, ("sort", sort), ("page", str(self.page) if self.page > 1 else "")]


class BadFilter(ValueError):
    """The message names the parameter, what was given, and what is allowed."""


def read_filter(given: Mapping[str, str]) -> FleetFilter:
    page, state, sort = given.get("page", "") or "1", given.get("state", ""), given.get("sort", "") or "name"
    if not page.isdecimal() or not 1 <= int(page) <= 1_000_000:
        raise BadFilter(f"page: {page!r} is not a page number; the first one is 1")
    if state and state not in STATES:
        raise BadFilter(f"state: {state!r} is not a state of a set; allowed are {', '.join(STATES)}")
    if sort not in SORTS:
        raise BadFilter(f"sort: {sort!r} is not allowed; allowed are {', '.join(SORTS)}")
    label = given.get("label", "").strip()
    try:
        LabelSelector.parse(label)
    except ValueError as problem:
        raise BadFilter(f"label: {label!r} selects nothing: {problem}") from None
    return FleetFilter(given.get("namespace", ""), label, state, given.get("name", "").strip(), sort, int(page))


class FirstCause(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    object: str
    found: str
    action: str
    more: int
    """Further causes."""


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
    """Pods of a group."""
    revision: int
    images: tuple[str, ...]
    paused: bool
    done: bool
    release: Release | None
    cause: FirstCause | None
    """The first one that `kohort explain` names; None if the set is as wanted."""
    created: str
    age_seconds: int = 0


class Fleet(msgspec.Struct, frozen=True, rename="camel"):
    filter: FleetFilter
    rows: Sequence[FleetRow]
    total: int
    """Sets that pass the filter."""
    pages: int
    states: Mapping[str, int]
    """How many sets are in which state, before the state is filtered."""
    namespaces: Sequence[str]
    """That have sets which the user may see."""


class Listed(msgspec.Struct, frozen=True):
    """What filters need of one set."""

    key: Key
    state: str


def listed(key: Key, group_set: LeaderWorkerSet) -> Listed:
    return Listed(key, state_of_set(Snapshot(group_set)))


def matching(found: Sequence[LeaderWorkerSet], wanted: FleetFilter) -> list[Listed]:
    """The sets that pass every filter but that of the state."""
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
        result.append(listed(Key(metadata.namespace, metadata.name), one))
    return result


def fleet_of(
    found: Sequence[LeaderWorkerSet], wanted: FleetFilter, row: Callable[[Key], FleetRow | None], now: datetime
) -> Fleet:
    """`row` gives the row of one set; None if it is gone meanwhile."""
    passed = matching(found, wanted)
    states = {state: sum(one.state == state for one in passed) for state in STATES}
    chosen = [one for one in passed if not wanted.state or one.state == wanted.state]
    if wanted.sort == "state":
        chosen.sort(key=lambda one: (TROUBLE_FIRST.index(one.state), one.key))
    else:
        chosen.sort(key=lambda one: one.key)
    pages = max(1, -(-len(chosen) // PAGE_SIZE))
    page = min(wanted.page, pages)
    shown = chosen[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    rows = [one for each in shown if (one := row(each.key)) is not None]
    return Fleet(
        filter=msgspec.structs.replace(wanted, page=page),
        rows=[msgspec.structs.replace(one, age_seconds=age(one.created, now)) for one in rows],
        total=len(chosen),
        pages=pages,
        states=states,
        namespaces=sorted({one.metadata.namespace for one in found}),
    )


def row_of(snapshot: Snapshot, now: datetime) -> FleetRow:
    group_set, progress = snapshot.group_set, progress_of(snapshot, now)
    template = group_set.template
    reasons = [] if progress.done else causes(snapshot)
    first = reasons[0] if reasons else None
    return FleetRow(
        namespace=group_set.metadata.namespace,
        name=snapshot.name,
        state=progress.state,
        wanted=progress.wanted,
        ready=progress.ready,
        updated=progress.updated,
        surge=progress.surge,
        size=template.size,
        revision=progress.revision,
        images=images(template.leader, template.worker),
        paused=progress.paused,
        done=progress.done,
        release=progress.release,
        cause=FirstCause(first.kind, first.objects[0], first.found, first.action.text, len(reasons) - 1)
        if first is not None
        else None,
        created=group_set.metadata.creation_timestamp or "",
    )
