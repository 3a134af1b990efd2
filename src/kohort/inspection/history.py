"""The versions of a workload: what they were, how they differ, how to return to one."""

import difflib
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
import yaml

from kohort.inspection.advice import Verb
from kohort.inspection.release_subject import Subject, command, title
from kohort.inspection.served_revisions import ServedRevision, Version, judged, key_to_return_to
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import age
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_template import NOT_IN_REVISIONS


class HistoryEntry(msgspec.Struct, frozen=True, rename="camel"):
    revision: int
    key: str
    current: bool
    groups: tuple[int, ...]
    """Which have it now."""
    pods: int
    """Of workloads without groups: how many pods have it now."""
    size: int
    images: tuple[str, ...]
    age_seconds: int
    served: str
    """yes, assumed, not yet or never: whether all replicas were ready at it once."""
    served_at: str
    change_cause: str


class NoSuchRevision(Exception):
    """The message names what there is."""


def entries(subject: Subject, now: datetime) -> list[HistoryEntry]:
    """Oldest first."""
    known, using = served(subject), subject.using
    grouped = isinstance(subject, Snapshot)
    return [
        HistoryEntry(
            revision=one.number,
            key=one.key,
            current=one.key == subject.update_key,
            groups=using.get(one.key, ()) if grouped else (),
            pods=0 if grouped else len(using.get(one.key, ())),
            size=one.size,
            images=one.images,
            age_seconds=age(one.created, now),
            served=known[one.key].value,
            served_at=one.served_at,
            change_cause=one.change_cause,
        )
        for one in in_order(subject.versions)
    ]


def served(subject: Subject) -> Mapping[str, ServedRevision]:
    """By key: which versions have served."""
    return judged(subject.versions, subject.update_key, subject.stable_key)


def previous(subject: Subject) -> Version:
    """The version that `undo` returns to if none is named: the last one that served."""
    key = key_to_return_to(subject.versions, subject.update_key, subject.stable_key)
    for one in subject.versions:
        if one.key == key:
            return one
    skipped = [one.number for one in in_order(subject.versions) if one.key != subject.update_key]
    if not skipped:
        raise NoSuchRevision(_not_kept(subject, "earlier revision"))
    undo = command(subject, Verb.UNDO, "--to", str(skipped[-1]))
    raise NoSuchRevision(
        f"{title(subject)} has no earlier revision that ever became ready everywhere; never ready: "
        f"{', '.join(map(str, skipped))} (kohort history {subject.reference}); to return to one of them all the same: "
        f"{undo.text}"
    )


def in_order(versions: Sequence[Version]) -> list[Version]:
    return sorted(versions, key=lambda one: one.number)


def chosen(subject: Subject, number: int) -> Version:
    """A version by its number, or by how far it lies back: -1 is the one before the current one."""
    ordered = in_order(subject.versions)
    if number > 0:
        for one in ordered:
            if one.number == number:
                return one
    elif number < 0:
        older = [one for one in ordered if one.key != subject.update_key]
        if len(older) >= -number:
            return older[number]
    raise NoSuchRevision(_not_kept(subject, f"revision {number}" if number > 0 else "earlier revision"))


def _not_kept(subject: Subject, what: str) -> str:
    kept = ", ".join(str(one.number) for one in in_order(subject.versions)) or "none"
    return f"{title(subject)} has no {what}; kept are: {kept} (kohort history {subject.reference})"


def current(subject: Subject) -> Version:
    for one in subject.versions:
        if one.key == subject.update_key:
            return one
    raise NoSuchRevision(f"{title(subject)} has no revision yet; wait until its controller has seen it")


def _named(version: Version) -> str:
    """While a release holds it back, the wanted version has no number."""
    return f"revision {version.number}" if version.number else "new version"


def difference(old: Version, new: Version) -> list[str]:
    """A unified diff of what two versions make pods of."""
    return list(
        difflib.unified_diff(
            text_of(old).splitlines(),
            text_of(new).splitlines(),
            _named(old),
            _named(new),
            lineterm="",
        )
    )


def text_of(version: Version) -> str:
    text: str = yaml.safe_dump(version.content, sort_keys=True)
    return text


def renewed(subject: Subject, to: Version) -> str:
    """A version that is returned to becomes the newest and gets a new number."""
    newest = max(one.number for one in subject.versions)
    # A Deployment that is released by another one beside it still has its stable version as the newest.
    becomes = f", which becomes revision {newest + 1}" if to.number < newest else ""
    return f"revision {to.number} ({to.key}){becomes}"


def return_patch(subject: Subject, to: Version) -> list[JsonObject]:
    """The JSON patch that gives a workload the content of a version again. It is checked that the workload is still the
    one that was read, by its generation: the resourceVersion changes with its status, all the time while it rolls."""
    unchanged = {"op": "test", "path": "/metadata/generation", "value": subject.metadata.generation}
    if isinstance(subject, Snapshot):
        return [unchanged, *_return_of_groups(subject, to)]
    return [unchanged, {"op": "replace", "path": "/spec/template", "value": to.content["template"]}]


def _return_of_groups(snapshot: Snapshot, to: Version) -> list[JsonObject]:
    """Fields that are not part of a revision stay."""
    spec, template, network = (
        snapshot.group_set.spec,
        dict(to.content["leaderWorkerTemplate"]),
        to.content["networkConfig"],
    )
    present = snapshot.group_set.template.raw
    template |= {key: present[key] for key in NOT_IN_REVISIONS if present.get(key) is not None}
    patch: list[JsonObject] = [{"op": "replace", "path": "/spec/leaderWorkerTemplate", "value": template}]
    if network and network != (spec.get("networkConfig") or {"subdomainPolicy": group_labels.SHARED}):
        patch.append({"op": "add", "path": "/spec/networkConfig", "value": network})
    return patch
