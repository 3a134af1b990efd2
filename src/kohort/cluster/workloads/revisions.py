"""Revisions: the history of a template as ControllerRevision objects.

A revision stores the part of the owner that makes pods, as a strategic merge patch that puts it back. Its name ends in
a hash of that data, so equal templates get equal names; but equality is decided on the data itself, because the hash of
the same template may differ between versions of the software that wrote it.
"""

from collections.abc import Sequence

import msgspec

from kohort.objects.json_types import Json, JsonObject
from kohort.rules.canonical_form import encode
from kohort.rules.safe_text import fnv1, safe_text

HASH_LABEL = "controller.kubernetes.io/hash"


class Revision(msgspec.Struct, frozen=True):
    """One stored revision."""

    name: str
    number: int
    data: JsonObject
    hash: str = ""
    """What its hash label says."""


class ReuseRevision(msgspec.Struct, frozen=True):
    """The template is that of an existing revision; `number` says what its number must become."""

    revision: Revision
    number: int


class CreateRevision(msgspec.Struct, frozen=True):
    """The template was never seen before."""

    number: int


def choose(data: JsonObject, history: Sequence[Revision]) -> ReuseRevision | CreateRevision:
    """Which revision the template belongs to.

    | template equals | then |
    |---|---|
    | the newest revision | keep it |
    | an older revision | it becomes the newest: its number rises above all others (a rollback) |
    | none | a new revision |
    """
    ordered = sorted(history, key=lambda revision: (revision.number, revision.name))
    newest = ordered[-1].number if ordered else 0
    equal = [revision for revision in ordered if revision.data == data]
    if not equal:
        return CreateRevision(newest + 1)
    last = equal[-1]
    return ReuseRevision(last, last.number if last is ordered[-1] else newest + 1)


def surplus(history: Sequence[Revision], live: set[str], limit: int) -> list[Revision]:
    """The revisions to delete: the oldest of those that no pod uses, beyond `limit` of them."""
    unused = sorted((revision for revision in history if revision.name not in live), key=lambda one: one.number)
    return unused[: max(0, len(unused) - limit)]


def canonical(data: JsonObject) -> msgspec.Raw:
    """Data in the one spelling that survives a patch: the data of a revision is immutable, and the API server compares
    it byte by byte with what it writes itself, keys sorted and a few characters escaped."""
    return msgspec.Raw(encode(data))


def data_hash(data: Json, collisions: int | None = None) -> str:
    """A short name for some data: FNV-1 over its JSON, spelled with letters that cannot form words."""
    text = msgspec.json.encode(data, order="sorted")
    if collisions is not None:
        text += str(collisions).encode()
    return safe_text(str(fnv1(text)))
