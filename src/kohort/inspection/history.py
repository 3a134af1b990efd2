"""The revisions of a set: what they were, how they differ, how to return to one."""

import difflib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
import yaml

from kohort.groups import wire
from kohort.groups.api import Template
from kohort.groups.revisions import Revision
from kohort.inspection.served import SERVED_AT, Mark, Served, judged, key_to_return_to
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import age
from kohort.objects.jsontypes import JsonObject

CHANGE_CAUSE: Final = "kubernetes.io/change-cause"


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    revision: int
    key: str
    current: bool
    groups: tuple[int, ...]
    """Which have it now."""
    size: int
    images: tuple[str, ...]
    age_seconds: int
    served: str
    """yes, assumed, not yet or never: whether all groups were ready at it once."""
    served_at: str = ""
    change_cause: str = ""


class NoSuchRevision(Exception):
    """The message names what there is."""


def entries(snapshot: Snapshot, now: datetime) -> list[Entry]:
    """Oldest first."""
    known = served(snapshot)
    using: dict[str, list[int]] = {}
    for index, leader in sorted(snapshot.leaders.items()):
        using.setdefault(leader.metadata.labels.get(wire.REVISION, ""), []).append(index)
    return [
        Entry(
            revision=one.revision,
            key=one.key,
            current=one.key == snapshot.update_key,
            groups=tuple(using.get(one.key, ())),
            size=Template(one.template).size,
            images=images(Template(one.template)),
            age_seconds=age(one.metadata.creation_timestamp, now),
            served=known[one.key].value,
            served_at=one.metadata.annotations.get(SERVED_AT, ""),
            change_cause=one.metadata.annotations.get(CHANGE_CAUSE, ""),
        )
        for one in in_order(snapshot.revisions)
    ]


def marks(snapshot: Snapshot) -> list[Mark]:
    return [
        Mark(
            one.revision,
            one.key,
            one.metadata.creation_timestamp or "",
            one.metadata.annotations.get(SERVED_AT, ""),
        )
        for one in snapshot.revisions
    ]


def served(snapshot: Snapshot) -> Mapping[str, Served]:
    """By key: which revisions have served."""
    return judged(marks(snapshot), snapshot.update_key, snapshot.stable_key)


def previous(snapshot: Snapshot) -> Revision:
    """The revision that `undo` returns to if none is named: the last one that served."""
    key = key_to_return_to(marks(snapshot), snapshot.update_key, snapshot.stable_key)
    for one in snapshot.revisions:
        if one.key == key:
            return one
    skipped = [one.revision for one in in_order(snapshot.revisions) if one.key != snapshot.update_key]
    if not skipped:
        raise NoSuchRevision(_not_kept(snapshot, "earlier revision"))
    numbers = ", ".join(map(str, skipped))
    raise NoSuchRevision(
        f"LeaderWorkerSet {snapshot.name} has no earlier revision that ever became ready everywhere; never ready: "
        f"{numbers} (kohort history {snapshot.name}); to return to one of them all the same: "
        f"kohort undo {snapshot.name} --to {skipped[-1]}"
    )


def images(template: Template) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for pod in (template.leader, template.worker):
        for container in (pod.get("spec") or {}).get("containers") or ():
            found[container.get("image", "")] = None
    return tuple(found)


def in_order(revisions: Sequence[Revision]) -> list[Revision]:
    return sorted(revisions, key=lambda one: one.revision)


def chosen(snapshot: Snapshot, number: int) -> Revision:
    """A revision by its number, or by how far it lies back: -1 is the one before the current one."""
    ordered = in_order(snapshot.revisions)
    if number > 0:
        for one in ordered:
            if one.revision == number:
                return one
    elif number < 0:
        older = [one for one in ordered if one.key != snapshot.update_key]
        if len(older) >= -number:
            return older[number]
    raise NoSuchRevision(_not_kept(snapshot, f"revision {number}" if number > 0 else "earlier revision"))


def _not_kept(snapshot: Snapshot, subject: str) -> str:
    kept = ", ".join(str(one.revision) for one in in_order(snapshot.revisions)) or "none"
    return f"LeaderWorkerSet {snapshot.name} has no {subject}; kept are: {kept} (kohort history {snapshot.name})"


def current(snapshot: Snapshot) -> Revision:
    for one in snapshot.revisions:
        if one.key == snapshot.update_key:
            return one
    raise NoSuchRevision(f"LeaderWorkerSet {snapshot.name} has no revision yet; wait until the operator has seen it")


def difference(old: Revision, new: Revision) -> list[str]:
    """A unified diff of what two revisions make pods of."""
    return list(
        difflib.unified_diff(
            text_of(old).splitlines(),
            text_of(new).splitlines(),
            f"revision {old.revision}",
            f"revision {new.revision}",
            lineterm="",
        )
    )


def content(revision: Revision) -> JsonObject:
    """The fields of a set's specification that it holds."""
    return {"leaderWorkerTemplate": revision.template, "networkConfig": revision.network}


def text_of(revision: Revision) -> str:
    text: str = yaml.safe_dump(content(revision), sort_keys=True)
    return text


def renewed(snapshot: Snapshot, to: Revision) -> str:
    """A revision that is returned to becomes the newest, and is counted anew."""
    number = max(one.revision for one in snapshot.revisions) + 1
    return f"revision {to.revision} ({to.key}), which becomes revision {number}"


def return_patch(snapshot: Snapshot, to: Revision) -> list[JsonObject]:
    """The JSON patch that gives a set the content of a revision again.

    The resize policy is no part of a revision and stays. It is checked that the set is still the one that was read.
    """
    spec, template = snapshot.group_set.spec, dict(to.template)
    policy = snapshot.group_set.template.resize_policy
    if policy is not None:
        template["resizePolicy"] = policy
    patch: list[JsonObject] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": snapshot.group_set.metadata.resource_version},
        {"op": "replace", "path": "/spec/leaderWorkerTemplate", "value": template},
    ]
    if to.network and to.network != (spec.get("networkConfig") or {"subdomainPolicy": wire.SHARED}):
        patch.append({"op": "add", "path": "/spec/networkConfig", "value": to.network})
    return patch
