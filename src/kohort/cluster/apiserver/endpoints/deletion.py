"""Deletion of one object, and of a collection.

An object leaves in up to three steps, each visible to watchers: it is marked (deletionTimestamp, grace period,
generation + 1), then its finalizers are removed one by one by the controllers that added them, then it is gone.
`plan_deletion` decides what a DELETE does to the present object; it is pure, and the shell around it repeats it when
the object changed meanwhile.

| live object                                | options            | effect                                            |
|--------------------------------------------|--------------------|---------------------------------------------------|
| no finalizers, no grace                    | Background         | removed                                           |
| any                                        | Foreground, Orphan | finalizer added, marked                           |
| finalizers                                 |                    | marked; repeated: nothing                         |
| pod on a node, running                     |                    | marked with its grace period                      |
| pod not on a node, finished, or grace 0    |                    | marked with grace 0, then removed                 |
| terminating pod                            | shorter grace      | marked again, never into the past                 |
| terminating pod                            | longer or no grace | nothing                                           |
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.catalog.view import with_type_first
from kohort.cluster.apiserver.endpoints import object_responses, request_bodies
from kohort.cluster.apiserver.endpoints.query_options import (
    DeleteOptions,
    delete_options,
    delete_options_from_query,
    list_options,
)
from kohort.cluster.apiserver.endpoints.reading import Page, missing, of_page, read_page
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts, write_context
from kohort.cluster.apiserver.endpoints.selection import select
from kohort.cluster.apiserver.endpoints.writing import Writer
from kohort.cluster.apiserver.kinds.model import Strategy
from kohort.cluster.apiserver.storage.model import StaleRevision, Stored
from kohort.kube import clock, errors
from kohort.kube.http import Response
from kohort.objects.json_types import JsonObject

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
CRD_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


@dataclass(slots=True)
class DeletionPlan:
    """What a DELETE does: `mark` is the object to store in place of the live one, if any."""

    mark: JsonObject | None
    remove: bool
    pending: bool = False
    """Deletion is under way already and this request changes nothing about it."""


def plan_deletion(live: JsonObject, options: DeleteOptions, strategy: Strategy) -> DeletionPlan:
    """`live` is a private copy, which becomes the marked object."""
    metadata = live["metadata"]
    graceful, pending = _begin(live, options, strategy)
    if pending:
        return DeletionPlan(None, remove=False, pending=True)
    finalizers = finalizers_for(metadata.get("finalizers") or [], options, strategy)
    if finalizers is not None:
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
    if metadata.get("finalizers"):
        if not graceful:
            _mark(metadata, 0)
        return DeletionPlan(live, remove=False)
    if graceful:
        return DeletionPlan(live, remove=not metadata["deletionGracePeriodSeconds"])
    return DeletionPlan(None, remove=True)


def _begin(live: JsonObject, options: DeleteOptions, strategy: Strategy) -> tuple[bool, bool]:
    """Set the grace period of kinds that have one. Returns (marked gracefully, nothing to do)."""
    metadata = live["metadata"]
    requested = options.grace_seconds
    if metadata.get("deletionTimestamp"):
        return _shorten(metadata, requested)
    if not has_grace(strategy):
        return False, False
    seconds = strategy.graceful_seconds(live, requested)
    _mark(metadata, seconds)
    return True, False


def has_grace(strategy: Strategy) -> bool:
    return type(strategy).graceful_seconds is not Strategy.graceful_seconds


def _shorten(metadata: JsonObject, requested: int | None) -> tuple[bool, bool]:
    current = metadata.get("deletionGracePeriodSeconds")
    if not current:
        return False, False
    if requested is None or requested >= current:
        return False, True
    now = clock.now()
    moved = clock.parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=current - requested)
    if moved < now:
        moved = now
        requested = 1 if requested else 0
    metadata["deletionTimestamp"] = clock.format_time(moved)
    metadata["deletionGracePeriodSeconds"] = requested
    return True, False


def _mark(metadata: JsonObject, seconds: int) -> None:
    if not metadata.get("deletionTimestamp"):
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = clock.format_time(clock.now() + timedelta(seconds=seconds))
    elif clock.parse_time(metadata["deletionTimestamp"]) > clock.now():
        metadata["deletionTimestamp"] = clock.timestamp()
    metadata["deletionGracePeriodSeconds"] = seconds


def finalizers_for(present: list[str], options: DeleteOptions, strategy: Strategy) -> list[str] | None:
    """The finalizers that the propagation policy asks for; None when they are right already."""
    if not strategy.collectable:
        return None
    orphan, foreground = _wanted(present, options, strategy)
    kept = [one for one in present if one not in (ORPHAN, FOREGROUND)]
    wanted = kept + ([ORPHAN] if orphan else []) + ([FOREGROUND] if foreground else [])
    return None if set(wanted) == set(present) else wanted


def _wanted(present: list[str], options: DeleteOptions, strategy: Strategy) -> tuple[bool, bool]:
    if options.orphan_dependents is not None:
        return options.orphan_dependents, False
    if options.propagation is not None:
        return options.propagation == "Orphan", options.propagation == "Foreground"
    if ORPHAN in present:
        return True, False
    if FOREGROUND in present:
        return False, True
    return strategy.default_propagation == "Orphan", strategy.default_propagation == "Foreground"


class Deleter:
    def __init__(self, parts: ServerParts, writer: Writer) -> None:
        self.parts = parts
        self.writer = writer

    async def delete(self, call: ResourceRequest) -> Response:
        options = await self.parts.large.run(call.user.name, call.size, lambda: read_delete_options(call))
        document, removed = await self.delete_one(call, options)
        status = 200
        if not removed and options.orphan_dependents is False:
            status = 202
        return await object_responses.of_object(self.parts, call, document, status)

    async def delete_one(
        self, call: ResourceRequest, options: DeleteOptions, *, admitted: bool = False
    ) -> tuple[JsonObject, bool]:
        """Returns what to answer with, and whether the object is gone. Admission is skipped if the deletion is
        `admitted` already."""
        self._warn(call, options)
        while True:
            stored = self.parts.store.get(call.kind.bucket, call.namespace, call.name)
            if stored is None:
                raise missing(call)
            try:
                return await self._delete_once(call, options, stored, admitted=admitted)
            except StaleRevision:
                continue

    async def _delete_once(
        self, call: ResourceRequest, options: DeleteOptions, stored: Stored, *, admitted: bool
    ) -> tuple[JsonObject, bool]:
        live = call.view.document(stored)
        check_preconditions(call, options, live)
        if not admitted:
            attributes = self._attributes(call, options, call.view.document(stored))
            await self.parts.admission.mutate(attributes)
            await self.parts.admission.validate(attributes)
        special = _SPECIAL.get(call.kind.bucket)
        if special is not None:
            marked = special(live, options, call.kind.strategy)
            if marked is not None:
                if marked is not live or options.dry_run:
                    return marked, False
                return await self._store(call, live, stored), False
        plan = plan_deletion(live, options, call.kind.strategy)
        if plan.pending:
            return self._gone(call, live), False
        result = live
        if plan.mark is not None and not options.dry_run:
            result, stored = await self._mark(call, plan.mark, stored)
        if not plan.remove:
            return result, False
        if not options.dry_run:
            result = await self._remove(call, result, stored)
        return self._gone(call, result), True

    async def _mark(self, call: ResourceRequest, marked: JsonObject, stored: Stored) -> tuple[JsonObject, Stored]:
        if marked == call.view.document(stored):
            return marked, stored
        stored = await self.writer.store(call, marked, expected=stored.revision)
        return call.view.document(stored), stored

    async def _store(self, call: ResourceRequest, marked: JsonObject, stored: Stored) -> JsonObject:
        return (await self._mark(call, marked, stored))[0]

    async def _remove(self, call: ResourceRequest, document: JsonObject, stored: Stored) -> JsonObject:
        gone = await self.parts.store.write(
            stored.bucket, stored.namespace, stored.name, None, expected=stored.revision
        )
        call.kind.strategy.after_delete(write_context(self.parts, call, dry_run=False), document)
        await self.writer.announce(stored)
        return call.view.document(gone) if gone.raw else document

    def _gone(self, call: ResourceRequest, document: JsonObject) -> JsonObject:
        if call.kind.strategy.deletion_returns_object:
            return with_type_first(document, call.kind)
        return object_responses.status_success(call.view, call.name, document["metadata"].get("uid") or "")

    def _warn(self, call: ResourceRequest, options: DeleteOptions) -> None:
        unset = options.propagation is None and options.orphan_dependents is None
        if unset and call.kind.bucket == "jobs.batch":
            call.warnings.append(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
                "them or set propagationPolicy=Orphan to suppress this warning"
            )

    def _attributes(self, call: ResourceRequest, options: DeleteOptions, live: JsonObject) -> Attributes:
        document = options.document
        if call.kind.bucket in _PINNED and "preconditions" not in document:
            document = {**document, "preconditions": {"uid": live["metadata"].get("uid")}}
        return Attributes(
            operation="DELETE",
            resource=call.kind.resource,
            # The request names no object, and admission sees an empty name for each object of the collection.
            name="" if call.verb == "deletecollection" else call.name,
            namespace=call.namespace,
            user=call.user,
            reader=self.parts.reader,
            object=None,
            old_object=live,
            options=document,
            dry_run=options.dry_run,
            warnings=call.warnings,
        )

    async def delete_collection(self, call: ResourceRequest) -> Response:
        """Delete what a list selects, one by one; the answer is the list as it was selected."""
        listing = list_options(call.request)
        options = await self.parts.large.run(call.user.name, call.size, lambda: read_delete_options(call))
        selection = select(call.kind, call.namespace, listing.label_selector, listing.field_selector)
        page = await read_page(self.parts, call, selection, listing)
        for stored in page.items:
            await self._delete_item(call, options, stored)
        listed = Page(page.items, self.parts.store.revision, page.continue_, page.remaining)
        return await of_page(self.parts, call, listed)

    async def _delete_item(self, call: ResourceRequest, options: DeleteOptions, stored: Stored) -> None:
        import msgspec

        path = msgspec.structs.replace(call.path, namespace=stored.namespace, name=stored.name)
        one = ResourceRequest(call.request, call.user, call.view, path, call.verb, call.media, call.warnings)
        with suppress(errors.NotFound):
            await self.delete_one(one, options)


def read_delete_options(call: ResourceRequest) -> DeleteOptions:
    """From the body, or, only when there is none, from the query."""
    if not call.request.body:
        return delete_options(delete_options_from_query(call.request))
    document = request_bodies.read_delete_options(call)
    return delete_options(document)


def check_preconditions(call: ResourceRequest, options: DeleteOptions, live: JsonObject) -> None:
    given = (("UID", "uid", options.uid), ("ResourceVersion", "resourceVersion", options.resource_version))
    for label, field, wanted in given:
        found = live["metadata"].get(field)
        if wanted is None or wanted == found:
            continue
        kind = call.kind.resource
        if call.kind.bucket in _PINNED:
            detail = f"Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"
            raise errors.conflict(kind.plural, call.name, detail, kind.group)
        cause = "deleted and then recreated" if field == "uid" else "modified"
        detail = (
            f"the {label} in the precondition ({wanted}) does not match the {label} in record ({found}). "
            f"The object might have been {cause}"
        )
        raise errors.conflict(kind.kind, call.name, detail, kind.group)


def _terminate_namespace(live: JsonObject, options: DeleteOptions, strategy: Strategy) -> JsonObject | None:
    """A namespace is marked, emptied by its controller, and only then deleted like anything else."""
    metadata = live["metadata"]
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = clock.timestamp()
        finalizers = finalizers_for(metadata.get("finalizers") or [], options, strategy)
        if finalizers is not None:
            metadata["finalizers"] = finalizers
        live["status"] = {**(live.get("status") or {}), "phase": "Terminating"}
        return live
    if (live.get("spec") or {}).get("finalizers"):
        return dict(live)
    return None


def _keep_system_class(live: JsonObject, options: DeleteOptions, strategy: Strategy) -> JsonObject | None:
    """What the system itself runs with must go on to have its priority."""
    name = live["metadata"]["name"]
    if name in ("system-cluster-critical", "system-node-critical"):
        why = "this is a system priority class and cannot be deleted"
        raise errors.forbidden("priorityclasses", name, why, "scheduling.k8s.io")
    return None


def _terminate_definition(live: JsonObject, options: DeleteOptions, strategy: Strategy) -> JsonObject | None:
    """The definition of a custom resource stays until its objects are gone."""
    metadata = live["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    metadata["deletionTimestamp"] = clock.timestamp()
    metadata["finalizers"] = [*(metadata.get("finalizers") or []), CRD_CLEANUP]
    if metadata["finalizers"].count(CRD_CLEANUP) > 1:
        metadata["finalizers"].remove(CRD_CLEANUP)
    terminating = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": clock.timestamp(),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    status = live.setdefault("status", {})
    others = [one for one in status.get("conditions") or [] if one["type"] != "Terminating"]
    status["conditions"] = [*others, terminating]
    return live


_SPECIAL: Final[dict[str, Callable[[JsonObject, DeleteOptions, Strategy], JsonObject | None]]] = {
    "namespaces": _terminate_namespace,
    "priorityclasses.scheduling.k8s.io": _keep_system_class,
    "customresourcedefinitions.apiextensions.k8s.io": _terminate_definition,
}
"""Kinds with a first step of their own: the live object, marked in place, when it must be stored; another object
when it is only to be shown; None when the ordinary deletion takes over."""

_PINNED: Final = ("namespaces", "customresourcedefinitions.apiextensions.k8s.io")
"""Kinds of which exactly the present object is deleted: admission sees its uid and revision as preconditions."""
