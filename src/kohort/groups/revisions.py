"""Revisions of a set: what is stored, how it is hashed, when two are the same.

A revision holds the part of a set that makes pods: the template and the network configuration. Its key is a hash of
that part in one canonical form, so that tools written in other languages compute the same key. But two revisions are
the same when their content is, not when their keys are: the same content may have been written by another version of
the software, with fields spelled out that are left out today.
"""

from collections.abc import Iterable, Sequence

from kohort.groups import wire
from kohort.groups.api import LeaderWorkerSet
from kohort.groups.canonical import canonical_network, canonical_template, encode
from kohort.objects.jsontypes import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_OURS_ALONE = frozenset({"resizePolicy"})
"""Parts of the template that do not make pods: changing them must not roll any."""


class Revision(View, frozen=True):
    """A ControllerRevision as read from the cache."""

    metadata: ObjectMeta = ObjectMeta()
    revision: int = 0
    data: JsonObject = {}  # noqa: RUF012

    @property
    def key(self) -> str:
        return self.metadata.labels.get(wire.REVISION, "")

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
    template = {key: value for key, value in group_set.template.raw.items() if key not in _OURS_ALONE}
    return {
        "spec": {
            "leaderWorkerTemplate": {"$patch": "replace", **canonical_template(template)},
            "networkConfig": {"$patch": "replace", **canonical_network(group_set.spec.get("networkConfig"))},
        }
    }


def content_hash(data: JsonObject, salt: bytes = b"") -> str:
    """The key of some content: FNV-1 over its canonical text, each decimal digit spelled as a letter.

    >>> fnv1(b""), fnv1(b"a")
    (2166136261, 84696446)
    """
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(fnv1(encode(data) + salt)))


def fnv1(data: bytes) -> int:
    value = 2166136261
    for byte in data:
        value = (value * 16777619) & 0xFFFFFFFF
        value ^= byte
    return value


def same(group_set: LeaderWorkerSet, revision: Revision) -> bool:
    """Whether the set still has the content of a stored revision, however that was spelled."""
    return content(revision.applied_to(group_set)) == content(group_set)


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
            "labels": {wire.NAME: name, wire.REVISION: key or digest},
            "ownerReferences": [group_set.owner_reference()],
        },
        "data": data,
        "revision": number,
    }


def surplus(revisions: Sequence[Revision], used: set[str], limit: int) -> list[Revision]:
    """The revisions to forget: the oldest ones that no group uses, beyond `limit` of them."""
    unused = sorted((one for one in revisions if one.key not in used), key=lambda one: one.revision)
    return unused[: max(0, len(unused) - limit)]


def history_limit(group_set: LeaderWorkerSet, default: int = 10) -> int:
    text = group_set.metadata.annotations.get(wire.REVISION_LIMIT, "")
    return int(text) if text.isascii() and text.isdigit() else default


def _without_directive(part: JsonObject) -> JsonObject:
    return {key: value for key, value in part.items() if key != "$patch"}
