"""The ControllerRevisions of a set: how they are written, found and pruned. What a revision holds, and when two are the
same, is said by `rules.group_template`.
"""

from collections.abc import Iterable, Sequence

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View
from kohort.rules import group_labels
from kohort.rules.canonical_form import encode
from kohort.rules.group_identity import parse_index
from kohort.rules.group_template import content_hash, revision_content


class Revision(View, frozen=True):
    """A ControllerRevision as read from the cache."""

    metadata: ObjectMeta = ObjectMeta()
    revision: int = 0
    data: JsonObject = {}  # noqa: RUF012

    @property
    def key(self) -> str:
        return self.metadata.labels.get(group_labels.REVISION, "")

    @property
    def is_readable(self) -> bool:
        """Whether it holds a template: users who may write ControllerRevisions can store any object in one."""
        try:
            spec = self.data["spec"]
            _without_directive(spec["leaderWorkerTemplate"])
            revision_content(spec)
        except (KeyError, TypeError, AttributeError, ValueError):
            return False
        return True

    @property
    def template(self) -> JsonObject:
        return _without_directive(self.data["spec"]["leaderWorkerTemplate"])

    @property
    def network(self) -> JsonObject:
        return _without_directive(self.data["spec"].get("networkConfig") or {})

    def applied_to(self, group_set: LeaderWorkerSet) -> LeaderWorkerSet:
        """The set as it was at this revision."""
        return group_set.at(self.template, self.network)


def content(group_set: LeaderWorkerSet) -> JsonObject:
    """What a revision of this set stores, in canonical form."""
    return revision_content(group_set.spec)


def same(group_set: LeaderWorkerSet, revision: Revision) -> bool:
    """Whether the set still has the content of a stored revision, however that was spelled."""
    return content(revision.applied_to(group_set)) == content(group_set)


def of_set(group_set: LeaderWorkerSet, found: Iterable[Revision]) -> list[Revision]:
    """Of the revisions that carry the name of a set, its own and those without a controller, which it adopts."""
    return [
        one for one in found if one.metadata.controller is None or one.metadata.is_controlled_by(group_set.metadata.uid)
    ]


def by_key(revisions: Iterable[Revision], key: str) -> Revision | None:
    """The newest revision with this key."""
    found = [one for one in revisions if key and one.key == key]
    return max(found, key=lambda one: one.revision, default=None)


def matching(group_set: LeaderWorkerSet, revisions: Iterable[Revision]) -> Revision | None:
    """The newest revision with the content that the set has now."""
    found = [one for one in revisions if same(group_set, one)]
    return max(found, key=lambda one: one.revision, default=None)


def build(group_set: LeaderWorkerSet, revisions: Sequence[Revision], key: str = "") -> JsonObject:
    """A new ControllerRevision for the set as it is. `key` overrides the hash, for a set that already carries one.

    The hash has 32 bits. Where it is taken by other content, groups of that content would look updated, so another one
    is made.
    """
    data = content(group_set)
    digest = content_hash(data)
    while not key and any(one.key == digest and not same(group_set, one) for one in revisions):
        digest = content_hash(data, salt=digest.encode())
    number = max((one.revision for one in revisions), default=0) + 1
    name = group_set.metadata.name
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{name[:220]}-{digest}-{number}",
            "namespace": group_set.metadata.namespace,
            "labels": {group_labels.NAME: name, group_labels.REVISION: key or digest},
            "ownerReferences": [group_set.owner_reference()],
            **_change_cause(group_set),
        },
        "data": data,
        "revision": number,
    }


def _change_cause(group_set: LeaderWorkerSet) -> JsonObject:
    """Why the template was changed, as the user noted it on the set: kept with the revision."""
    cause = group_set.metadata.annotations.get(group_labels.CHANGE_CAUSE)
    return {"annotations": {group_labels.CHANGE_CAUSE: cause}} if cause else {}


def as_written(revision: JsonObject) -> JsonObject:
    """The ControllerRevision with its data as the bytes that upstream writes. LeaderWorkerSet 0.8 and earlier compare
    bytes: data in another order would look like another template, and every group would roll."""
    return {**revision, "data": msgspec.Raw(encode(revision["data"]))}


def surplus(revisions: Sequence[Revision], used: set[str], limit: int) -> list[Revision]:
    """The revisions to forget: the oldest ones that no group uses, beyond `limit` of them."""
    unused = sorted((one for one in revisions if one.key not in used), key=lambda one: one.revision)
    return unused[: max(0, len(unused) - limit)]


def history_limit(group_set: LeaderWorkerSet, default: int = 10) -> int:
    noted = parse_index(group_set.metadata.annotations.get(group_labels.REVISION_LIMIT))
    return default if noted is None else noted


def _without_directive(part: JsonObject) -> JsonObject:
    return {key: value for key, value in part.items() if key != "$patch"}
