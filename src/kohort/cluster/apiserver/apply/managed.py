"""The entries of `metadata.managedFields`, and what a write does to them.

Rules for a create, PUT or patch (server-side apply is in `serverside`):

| what the write does to a field        | its owners afterwards |
|---------------------------------------|-----------------------|
| adds or changes it                    | only the writer's Update entry |
| leaves it as it was                   | as before |
| removes it                            | no entry |

An entry's time moves only when the writer really wrote something. An object that came without managedFields keeps the
live ones; one that says `[]` or `[{}]` ends all tracking; one that brings valid entries of its own replaces them (that
is how kubectl migrates ownership), except through a subresource. More than ten Update entries: the oldest are folded
into one called `ancient-changes`.

The sets of the live object are trusted to be canonical, since this module wrote them; sets that arrive from outside
are normalised first. Entries that a write does not touch are passed on as the very dictionaries they were.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import replace

from kohort.cluster.apiserver.apply.empty_object import zero_object
from kohort.cluster.apiserver.apply.field_comparison import Differences, differences
from kohort.cluster.apiserver.apply.fieldset import (
    EMPTY,
    SELF,
    FieldSet,
    MalformedSet,
    decode,
    difference,
    from_paths,
    in_wire_order,
    union,
    without,
)
from kohort.cluster.apiserver.apply.ownership_schema import TypedError, reconciled, with_metadata
from kohort.cluster.apiserver.apply.untracked_fields import ownable
from kohort.cluster.apiserver.patch.go_error_text import go_json
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube import clock
from kohort.kube.clock import format_time, parse_time
from kohort.objects.json_types import Json, JsonObject

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MAX_UPDATE_ENTRIES: Final = 10
ANCIENT: Final = "ancient-changes"
SERVER: Final = "kube-apiserver"

AtVersion = Callable[[JsonObject, str], "tuple[JsonObject, Node] | None"]
"""An object of any served version in the given one, with its schema; None when that version is no longer served."""


class ManagedFieldsEntry(msgspec.Struct, frozen=True):
    manager: str
    operation: str
    subresource: str
    api_version: str
    time: str | None
    fields: FieldSet
    raw: JsonObject | None = None
    """The entry as it stands in the object, as long as it is the same."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Appliers keep their entry when they change the version they speak; updaters have one for each."""
        return self.manager, self.operation, self.subresource, "" if self.operation == APPLY else self.api_version

    @property
    def rank(self) -> str:
        """Entries of the same age come in the order of their identities, written as JSON."""
        text = f'{{"manager":{go_json(self.manager)},"operation":"{self.operation}"'
        if self.operation == UPDATE:
            text += f',"apiVersion":{go_json(self.api_version)}'
        return text + (f',"subresource":{go_json(self.subresource)}}}' if self.subresource else "}")

    def owning(self, fields: FieldSet) -> "ManagedFieldsEntry":
        return self if fields is self.fields else replace(self, fields=fields, raw=None)

    def encoded(self) -> JsonObject:
        if self.raw is not None:
            return self.raw
        encoded: JsonObject = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        if self.time is not None:
            encoded["time"] = self.time
        encoded["fieldsType"] = "FieldsV1"
        encoded["fieldsV1"] = in_wire_order(self.fields)
        if self.subresource:
            encoded["subresource"] = self.subresource
        return encoded


class WritableFields(msgspec.Struct, frozen=True):
    """Which fields a request can write at all. The others are reset by the endpoint, so no manager owns them."""

    ignored: tuple[str, ...] = ()
    """Dotted paths, with all that lies below them: `status`, `metadata.ownerReferences`."""
    tracked: tuple[str, ...] = ()
    """When given, only these, `*` standing for any item: `spec.containers.*.resources`."""

    def limit(self, fields: FieldSet) -> FieldSet:
        if self.tracked:
            fields = _matching(fields, _pattern(self.tracked))
        return without(fields, _ignored(self.ignored)) if self.ignored else fields


@cache
def _ignored(paths: tuple[str, ...]) -> FieldSet:
    return from_paths(*(tuple(path.split(".")) for path in paths))


@cache
def _pattern(paths: tuple[str, ...]) -> FieldSet:
    """A tree like a set, in which `f:*` stands for any element."""
    return from_paths(*(tuple(path.split(".")) for path in paths))


def _matching(fields: FieldSet, pattern: FieldSet) -> FieldSet:
    """The part of a set that lies on or below the patterns, or is passed on the way to them."""
    if not pattern:
        return fields
    result: FieldSet = {}
    for element, below in fields.items():
        if element == SELF:
            result[SELF] = EMPTY
            continue
        deeper = pattern.get(element, pattern.get("f:*"))
        if deeper is None:
            continue
        part = _matching(below, deeper)
        if part or not below:
            result[element] = EMPTY if part.keys() == {SELF} else part
    return result


class VersionConverter:
    """Objects in the versions that entries speak."""

    def __init__(self, api_version: str, node: Node, convert: AtVersion | None) -> None:
        self.api_version = api_version
        self.node = node
        self._convert = convert

    def view(self, obj: JsonObject, api_version: str) -> tuple[JsonObject, Node] | None:
        """An object, whatever version it is in now, in another version."""
        if api_version == self.api_version == obj.get("apiVersion", api_version):
            return obj, self.node
        if self._convert is None:
            return (obj, self.node) if api_version == self.api_version else None
        converted = self._convert(obj, api_version)
        return None if converted is None else (converted[0], with_metadata(converted[1]))

    def differences(
        self, old: JsonObject, new: JsonObject, scope: WritableFields
    ) -> Callable[[str], Differences | None]:
        """How two objects differ in a version; None when the version is gone."""

        known: dict[str, Differences | None] = {}

        def at(api_version: str) -> Differences | None:
            if api_version not in known:
                known[api_version] = found(api_version)
            return known[api_version]

        def found(api_version: str) -> Differences | None:
            before, after = self.view(old, api_version), self.view(new, api_version)
            if before is None or after is None:
                return None
            all_ = differences(before[0], after[0], after[1])
            return Differences(scope.limit(all_.written), scope.limit(all_.removed))

        return at


def record_update(
    live: JsonObject | None,
    obj: JsonObject,
    node: Node,
    *,
    manager: str,
    api_version: str,
    time: str,
    subresource: str = "",
    ignored: Sequence[str] = (),
    tracked: Sequence[str] = (),
    at_version: AtVersion | None = None,
) -> None:
    """Set `metadata.managedFields` of an object that is about to be written. `live` is None on create."""
    metadata = obj.setdefault("metadata", {})
    given = metadata.pop("managedFields", None)
    known = live["metadata"].get("managedFields") if live is not None else None
    entries = _starting_entries(known, given, is_subresource=bool(subresource))
    if live is not None and not entries:
        return
    node, scope = with_metadata(node), WritableFields(tuple(ignored), tuple(tracked))
    versions = VersionConverter(api_version, node, at_version)
    before = zero_object(node, obj) if live is None else live
    writer = ManagedFieldsEntry(manager or "unknown", UPDATE, subresource, api_version, time, EMPTY)
    try:
        if not entries:
            # There are no entries yet, as nearly always when an object is created.
            fields = ownable(scope.limit(differences(before, obj, node).written))
            entries = [replace(writer, fields=fields)] if fields else []
        else:
            changes = versions.differences(before, obj, scope)
            entries = after_update(current(entries, versions, before), changes, writer)
    except TypedError:
        return
    set_entries(obj, entries)


def own_status(live: JsonObject, obj: JsonObject, node: Node) -> None:
    """Record that the server itself wrote the status of an object."""
    record_update(
        live,
        obj,
        node,
        manager=SERVER,
        api_version=obj["apiVersion"],
        time=clock.timestamp(),
        subresource="status",
        ignored=("spec",),
    )


def after_update(
    entries: Iterable[ManagedFieldsEntry], changes: Callable[[str], Differences | None], writer: ManagedFieldsEntry
) -> list[ManagedFieldsEntry]:
    """The entries after a write that is not an apply."""
    kept = {entry.identity: entry for entry in entries_less(entries, changes)}
    change = changes(writer.api_version)
    written = ownable(change.written) if change else EMPTY
    if written:
        previous = kept.get(writer.identity)
        fields = union(previous.fields, written) if previous else written
        kept[writer.identity] = replace(writer, fields=fields)
    return _capped(list(kept.values()))


def entries_less(
    entries: Iterable[ManagedFieldsEntry], changes: Callable[[str], Differences | None]
) -> list[ManagedFieldsEntry]:
    """Entries without the fields that another manager wrote or removed; those that own nothing any more are gone."""
    kept = []
    for entry in entries:
        change = changes(entry.api_version)
        if change is None:
            continue
        fields = difference(difference(entry.fields, change.written), change.removed)
        if fields:
            kept.append(entry.owning(fields))
    return kept


def current(
    entries: list[ManagedFieldsEntry], versions: VersionConverter, live: JsonObject
) -> list[ManagedFieldsEntry]:
    """Entries as they read under the present schema. Only definitions of custom resources can have changed."""
    if versions.node.name:
        return entries
    result = []
    for entry in entries:
        view = versions.view(live, entry.api_version)
        if view is not None:
            result.append(entry.owning(reconciled(entry.fields, view[1])))
    return result


def _starting_entries(known: Json, given: Json, *, is_subresource: bool) -> list[ManagedFieldsEntry]:
    if is_subresource or given is None or given is known or given == known:
        return entries_of(known)
    if _is_reset(given):
        return []
    try:
        return _decoded(given) or entries_of(known)
    except MalformedSet:
        return entries_of(known)


def _is_reset(given: Json) -> bool:
    return given in ([], [{}])


def entries_of(encoded: Json) -> list[ManagedFieldsEntry]:
    """The entries of a stored object. None at all when they cannot be understood."""
    try:
        return _distinct([_entry(raw, raw.get("fieldsV1") or {}, raw.get("time"), raw) for raw in encoded or ()])
    except MalformedSet:
        return []


def _distinct(entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Of entries with the same identity the last one counts. The scale subresource can leave such behind."""
    return list({entry.identity: entry for entry in entries}.values())


def _decoded(given: Json) -> list[ManagedFieldsEntry]:
    """Entries that a client sent. Raises MalformedSet."""
    if not isinstance(given, list) or not all(isinstance(raw, dict) for raw in given):
        raise MalformedSet("managedFields must be a list of objects")
    return _distinct([_entry(raw, decode(raw.get("fieldsV1") or {}), _normal_time(raw.get("time"))) for raw in given])


def _entry(raw: JsonObject, fields: FieldSet, time: str | None, same: JsonObject | None = None) -> ManagedFieldsEntry:
    operation, api_version = raw.get("operation"), raw.get("apiVersion")
    if operation not in (APPLY, UPDATE) or not api_version or raw.get("fieldsType") != "FieldsV1":
        raise MalformedSet("operation, apiVersion or fieldsType is missing")
    return ManagedFieldsEntry(
        raw.get("manager", ""), operation, raw.get("subresource", ""), api_version, time, fields, same
    )


def _normal_time(time: Json) -> str | None:
    if time is None:
        return None
    try:
        return format_time(parse_time(time))
    except (TypeError, ValueError) as error:
        raise MalformedSet(f"{time!r} is not a time") from error


def _capped(entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """At most ten Update entries: the oldest of one version are folded together until that is true."""
    excess = sum(entry.operation == UPDATE for entry in entries) - MAX_UPDATE_ENTRIES
    if excess <= 0:
        return entries
    kept = {entry.identity: entry for entry in entries}
    oldest_of: dict[str, ManagedFieldsEntry] = {}
    for entry in sorted(filter(lambda e: e.operation == UPDATE, entries), key=lambda e: (e.time or "", e.rank)):
        if excess <= 0:
            break
        oldest = oldest_of.setdefault(entry.api_version, entry)
        if oldest is entry:
            continue
        bucket = ManagedFieldsEntry(ANCIENT, UPDATE, "", entry.api_version, entry.time, EMPTY)
        into = kept.get(bucket.identity) or kept.pop(oldest.identity)
        kept.pop(entry.identity, None)
        kept[bucket.identity] = replace(bucket, fields=union(into.fields, entry.fields))
        excess -= 1
    return list(kept.values())


def _age(entry: ManagedFieldsEntry) -> tuple[str, str, str, str]:
    return entry.time or "", entry.manager, entry.api_version, entry.subresource


def set_entries(obj: JsonObject, entries: Iterable[ManagedFieldsEntry]) -> None:
    """Appliers first, then the oldest."""
    ordered = sorted(entries, key=lambda entry: (entry.operation, *_age(entry)))
    if ordered:
        obj["metadata"]["managedFields"] = [entry.encoded() for entry in ordered]
    else:
        obj["metadata"].pop("managedFields", None)


def is_noop(live: JsonObject, obj: JsonObject) -> bool:
    """Whether a write would change nothing but times in managedFields. If so, `obj` gets the old times back."""
    before, after = live["metadata"].get("managedFields") or [], obj["metadata"].get("managedFields") or []
    if _unowned(live) != _unowned(obj) or len(before) != len(after):
        return False
    if any(_timeless(old) != _timeless(new) for old, new in zip(before, after, strict=True)):
        return False
    if go_json(_unowned(live)) != go_json(_unowned(obj)):
        return False
    if before:
        obj["metadata"]["managedFields"] = before
    return True


def _unowned(obj: JsonObject) -> JsonObject:
    """An object without its managedFields."""
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _timeless(entry: JsonObject) -> JsonObject:
    return {key: value for key, value in entry.items() if key != "time"}
