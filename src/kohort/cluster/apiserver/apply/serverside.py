"""Server-side apply: an intent merged into the live object, with every field's owner respected.

1. The intent is merged into the live object by schema: what it says is set, nothing else is touched.
2. What the same manager applied last time but not now is taken out again, unless another manager owns it too.
3. Where the result differs from the live object in a field that another manager owns, that is a conflict; with force,
   the field changes hands instead. Fields with equal values are shared without conflict.
4. The manager's entry becomes exactly what the intent claims.

kubectl gets one favour: a conflict over a field that has the value of its last-applied annotation is not a conflict,
because that is how an object moves from client-side to server-side apply; and where that annotation exists it is kept
current.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from kohort.cluster.apiserver.apply.empty_object import zero_object
from kohort.cluster.apiserver.apply.field_comparison import claimed, differences
from kohort.cluster.apiserver.apply.fieldset import (
    EMPTY,
    FieldSet,
    Path,
    contains,
    difference,
    intersection,
    paths,
    text,
    union,
)
from kohort.cluster.apiserver.apply.intent_validation import problems
from kohort.cluster.apiserver.apply.managed import (
    APPLY,
    UPDATE,
    AtVersion,
    ManagedFieldsEntry,
    VersionConverter,
    WritableFields,
    after_update,
    current,
    entries_less,
    entries_of,
    set_entries,
)
from kohort.cluster.apiserver.apply.merging import merged, removed
from kohort.cluster.apiserver.apply.ownership_schema import TypedError, with_metadata, with_named_fields
from kohort.cluster.apiserver.apply.untracked_fields import NEVER_TRACKED
from kohort.cluster.apiserver.patch.go_error_text import go_json, refused
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube.errors import ApiError, StatusCause, bad_request, failure
from kohort.objects import well_known_names
from kohort.objects.go_quote import go_quote
from kohort.objects.json_types import JsonObject

BEFORE_FIRST_APPLY: Final = "before-first-apply"
KUBECTL: Final = "kubectl"
LAST_APPLIED: Final = well_known_names.LAST_APPLIED
MAX_ANNOTATIONS: Final = 256 * 1024


def apply(
    live: JsonObject | None,
    intent: JsonObject,
    node: Node,
    *,
    manager: str,
    force: bool,
    api_version: str,
    time: str,
    subresource: str = "",
    ignored: Sequence[str] = (),
    tracked: Sequence[str] = (),
    kind: str = "",
    at_version: AtVersion | None = None,
) -> JsonObject:
    """The object to write: live and intent merged, not yet defaulted, with managedFields. `live` None creates.

    Raises ApiError: 400 for an intent of another type or with managedFields, 409 for conflicts, and 500 (as the API
    has it) for an intent that does not fit the schema.
    """
    node = with_metadata(node)
    _check(intent, node, api_version, kind)
    request = _Request(
        intent=intent,
        node=node,
        entry=ManagedFieldsEntry(manager, APPLY, subresource, api_version, time, EMPTY),
        scope=WritableFields(tuple(ignored), tuple(tracked)),
        versions=VersionConverter(api_version, node, at_version),
    )
    try:
        if live is None:
            return request.created()
        entries = entries_of(live["metadata"].get("managedFields"))
        entries = current(entries, request.versions, live) if entries else request.adopted(live)
        result = _apply(request, live, entries, force=force)
    except TypedError as error:
        raise refused(f"failed to create typed live object: {error}") from error
    if manager == KUBECTL:
        _refresh_last_applied(result, intent)
    return result


@dataclass(slots=True, frozen=True)
class _Request:
    intent: JsonObject
    node: Node
    entry: ManagedFieldsEntry
    """The manager's entry, still without fields."""
    scope: WritableFields
    versions: VersionConverter

    def claim(self) -> FieldSet:
        return self.scope.limit(claimed(self.intent, self.node))

    def created(self) -> JsonObject:
        result = {**self.intent, "metadata": dict(self.intent.get("metadata") or {})}
        owned = difference(self.claim(), NEVER_TRACKED)
        set_entries(result, [replace(self.entry, fields=owned)] if owned else [])
        return result

    def adopted(self, live: JsonObject) -> list[ManagedFieldsEntry]:
        """Entries for an object without managedFields: its creator owns all fields."""
        maker = replace(self.entry, manager=BEFORE_FIRST_APPLY, operation=UPDATE)
        changes = self.versions.differences(zero_object(self.node, live), live, self.scope)
        return after_update([], changes, maker)


class _Conflicts(Exception):
    def __init__(self, found: list[tuple[ManagedFieldsEntry, Path]]) -> None:
        super().__init__(f"{len(found)} conflicts")
        self.found = found


def _apply(request: _Request, live: JsonObject, entries: list[ManagedFieldsEntry], *, force: bool) -> JsonObject:
    try:
        return _attempt(request, live, entries, force=force)
    except _Conflicts as conflicts:
        found = conflicts.found
        if request.entry.manager == KUBECTL:
            allowed = _allowed_by_last_applied(request, live)
            found = [(entry, path) for entry, path in found if not contains(allowed, path)]
        if found:
            raise _conflict_error(found) from None
        return _attempt(request, live, entries, force=True)


def _attempt(request: _Request, live: JsonObject, entries: list[ManagedFieldsEntry], *, force: bool) -> JsonObject:
    identity = request.entry.identity
    previous = next((entry for entry in entries if entry.identity == identity), None)
    others = [entry for entry in entries if entry.identity != identity]
    claim = request.claim()
    owned = difference(claim, NEVER_TRACKED)
    result = merged(live, request.intent, request.node)
    if previous is not None and previous.fields != owned:
        result = _pruned(request, result, others, claim, previous)
    changes = request.versions.differences(live, result, request.scope)
    if not force:
        conflicts = [
            (entry, path)
            for entry in sorted(others, key=lambda entry: entry.rank)
            if (change := changes(entry.api_version)) is not None
            for path in paths(intersection(entry.fields, change.written))
        ]
        if conflicts:
            raise _Conflicts(conflicts)
    kept = entries_less(others, changes)
    if owned:
        moved = result != live
        time = request.entry.time if moved else (previous.time if previous is not None else None)
        kept.append(replace(request.entry, fields=owned, time=time))
    result["metadata"] = dict(result["metadata"])
    set_entries(result, kept)
    return result


def _pruned(
    request: _Request,
    result: JsonObject,
    others: list[ManagedFieldsEntry],
    claim: FieldSet,
    previous: ManagedFieldsEntry,
) -> JsonObject:
    """The merged object without what the manager gave up and no other manager owns.

    Removing an item of a list takes along fields that were never applied, for example defaults. So the removal is only
    an experiment that shows which fields would go; what is really removed are those among them that the manager owned.
    """
    if not difference(previous.fields, claim):
        return result
    view = request.versions.view(result, previous.api_version)
    if view is None:
        return result
    whole, node = view
    last = with_named_fields(previous.fields, node)
    experiment = removed(whole, node, last)
    owned = _owned_by_version(others, claim, request.entry.api_version)
    for version in sorted(owned, key=lambda version: version != previous.api_version):
        experiment = _restored(request.versions, whole, experiment, version, owned[version], previous.api_version)
    gone = difference(with_named_fields(claimed(whole, node), node), with_named_fields(claimed(experiment, node), node))
    pruned = removed(whole, node, intersection(gone, last))
    if previous.api_version == request.entry.api_version:
        return pruned
    back = request.versions.view(pruned, request.entry.api_version)
    return result if back is None else back[0]


def _owned_by_version(others: list[ManagedFieldsEntry], claim: FieldSet, api_version: str) -> dict[str, FieldSet]:
    owned = {api_version: claim}
    for entry in others:
        owned[entry.api_version] = union(owned.get(entry.api_version, EMPTY), entry.fields)
    return owned


def _restored(
    versions: VersionConverter, whole: JsonObject, experiment: JsonObject, version: str, owned: FieldSet, home: str
) -> JsonObject:
    """The experiment with all fields again that are owned in a version."""
    full, part = versions.view(whole, version), versions.view(experiment, version)
    if full is None or part is None:
        return experiment
    obj, node = full
    kept = union(with_named_fields(claimed(part[0], node), node), with_named_fields(owned, node))
    restored = removed(obj, node, difference(with_named_fields(claimed(obj, node), node), kept))
    if version == home:
        return restored
    back = versions.view(restored, home)
    return experiment if back is None else back[0]


def _check(intent: JsonObject, node: Node, api_version: str, kind: str) -> None:
    found = _type_text(intent.get("apiVersion"), intent.get("kind"))
    if intent.get("apiVersion") != api_version or (kind and intent.get("kind") != kind):
        raise bad_request(f"invalid object type: {found}")
    metadata = intent.get("metadata") or {}
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")
    complaints = problems(intent, node)
    if complaints:
        listed = complaints[0] if len(complaints) == 1 else "\n  ".join(["errors:", *complaints])
        names = metadata if isinstance(metadata, dict) else {}
        where = f"{names.get('namespace') or ''}/{names.get('name') or ''}; {found}"
        raise refused(f"failed to create typed patch object ({where}): {listed}")


def _type_text(api_version: object, kind: object) -> str:
    group, _, version = str(api_version or "").rpartition("/")
    return f"{group}/{version}, Kind={kind or ''}"


# --- conflicts ---


def _conflict_error(found: list[tuple[ManagedFieldsEntry, Path]]) -> ApiError:
    causes = [
        StatusCause(reason="FieldManagerConflict", message=f"conflict with {_who(entry)}", field=text(path))
        for entry, path in found
    ]
    if len(found) == 1:
        detail = f"1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        detail = f"{len(found)} conflicts: " + "\n".join(_conflict_lines(found))
    return failure(409, "Conflict", f"Apply failed with {detail}", causes=causes)


def _conflict_lines(found: list[tuple[ManagedFieldsEntry, Path]]) -> list[str]:
    """The fields under their owners. `found` is sorted by owner."""
    lines = []
    for (who, _), group in groupby(found, key=lambda conflict: (_who(conflict[0]), conflict[0].identity)):
        lines.append(f"conflicts with {who}:")
        lines += [f"- {text(path)}" for _, path in group]
    return lines


def _who(entry: ManagedFieldsEntry) -> str:
    who = go_quote(entry.manager)
    if entry.subresource:
        who += f" with subresource {go_quote(entry.subresource)}"
    return who if entry.operation == APPLY else f"{who} using {entry.api_version}"


# --- kubectl's annotation ---


def _allowed_by_last_applied(request: _Request, live: JsonObject) -> FieldSet:
    """The fields that client-side apply set last and that still have the values it set."""
    annotation = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = msgspec.json.decode(annotation or "")
    except msgspec.DecodeError:
        return EMPTY
    if not isinstance(last, dict) or last.get("apiVersion") != request.entry.api_version:
        return EMPTY
    if problems(last, request.node) or problems(live, request.node):
        return EMPTY
    changes = differences(last, live, request.node)
    return difference(difference(claimed(last, request.node), changes.written), changes.removed)


def _refresh_last_applied(result: JsonObject, intent: JsonObject) -> None:
    annotations = result["metadata"].get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return
    annotations = {**annotations, LAST_APPLIED: _last_applied_text(intent)}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        del annotations[LAST_APPLIED]
    result["metadata"]["annotations"] = annotations


def _last_applied_text(intent: JsonObject) -> str:
    metadata = dict(intent.get("metadata") or {})
    if metadata.get("annotations"):
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != LAST_APPLIED}
    return go_json({**intent, "metadata": metadata}) + "\n"
