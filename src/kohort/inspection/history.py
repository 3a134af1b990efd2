"""The revisions of a set: what they were, how they differ, how to return to one."""

import difflib
from collections.abc import Sequence
from datetime import datetime

import msgspec
import yaml

from kohort.groups import wire
from kohort.groups.api import Template
from kohort.groups.revisions import Revision
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import age
from kohort.objects.jsontypes import JsonObject


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    revision: int
    key: str
    current: bool
    groups: tuple[int, ...]
    """Which have it now."""
    size: int
    images: tuple[str, ...]
    age_seconds: int


class NoSuchRevision(Exception):
    """The message names what there is."""


def entries(snapshot: Snapshot, now: datetime) -> list[Entry]:
    """Oldest first."""
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
        )
        for one in in_order(snapshot.revisions)
    ]


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
    kept = ", ".join(str(one.revision) for one in ordered) or "none"
    subject = f"revision {number}" if number > 0 else "earlier revision"
    raise NoSuchRevision(
        f"LeaderWorkerSet {snapshot.name} has no {subject}; kept are: {kept} (kohort history {snapshot.name})"
    )


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
