"""Create, update and patch: one pipeline.

The order of the steps is part of the API. Managed fields are recorded before admission, so what admission adds
has no owner; mutating admission sees an object without uid and without a generated name; built-in validation
sees what mutating admission left; validating admission sees the final object; only then does the existing object
matter to a create. An update runs in a loop: whatever was decided about a version that meanwhile changed is decided
again, so a patch that names no resourceVersion never fails because of a race, and one that does always does.
"""

from collections.abc import Callable
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes, Operation
from kohort.cluster.apiserver.apply import managed
from kohort.cluster.apiserver.catalog.view import selectable_fields, with_type_first
from kohort.cluster.apiserver.endpoints import authorization, object_responses, request_bodies, system_metadata
from kohort.cluster.apiserver.endpoints.preserved_fields import (
    by_name,
    copies_of,
    deletion_is_complete,
    only_status,
    restore,
    storage_problem,
)
from kohort.cluster.apiserver.endpoints.query_options import WriteOptions, manager_of, write_options
from kohort.cluster.apiserver.endpoints.reading import missing
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts, write_context
from kohort.cluster.apiserver.endpoints.reset_fields import (
    at_version,
    ignored_fields,
    tracked_fields,
    violates_current_schema,
)
from kohort.cluster.apiserver.endpoints.scale_document import put_replicas, scale_of
from kohort.cluster.apiserver.kinds import metadata as metadata_rules
from kohort.cluster.apiserver.kinds.disabled_fields import drop_disabled
from kohort.cluster.apiserver.kinds.generated_names import generated_name
from kohort.cluster.apiserver.kinds.model import Kind, WriteContext
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.storage.errors import StorageError
from kohort.cluster.apiserver.storage.model import StaleRevision, Stored
from kohort.kube import clock, errors
from kohort.kube.http import Response
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject

NAME_ATTEMPTS: Final = 8

Produce = Callable[[JsonObject | None], JsonObject]
"""From the live object (None when there is none) to the object that the client wants in its place."""


class WriteResult:
    """The outcome of a write: what was stored, or, when nothing was, what the answer shows."""

    __slots__ = ("created", "document", "stored")

    def __init__(self, *, stored: Stored | None = None, document: JsonObject | None = None, created: bool = False):
        self.stored = stored
        self.document = document
        self.created = created


class Writer:
    def __init__(self, parts: ServerParts) -> None:
        self.parts = parts

    # --- create -------------------------------------------------------------------------------------------------------

    async def create(self, call: ResourceRequest) -> Response:
        options = write_options(call.request, "CreateOptions")
        obj = await self.parts.large.run(call.user.name, call.size, lambda: self._read_new(call, options))
        written = await self.insert(call, options, obj)
        return await self.answer(call, written)

    def _read_new(self, call: ResourceRequest, options: WriteOptions) -> JsonObject:
        obj = request_bodies.read_object(self.parts, call, options.field_validation or "Warn")
        metadata = obj.setdefault("metadata", {})
        system_metadata.wipe_system_fields(metadata)
        system_metadata.settle_namespace(call, metadata)
        system_metadata.drop_duplicate_owners(call, metadata, after_admission=False)
        self.record(call, options, None, obj)
        return obj

    async def insert(self, call: ResourceRequest, options: WriteOptions, obj: JsonObject) -> WriteResult:
        """A new object, from admission to commit."""
        name = obj["metadata"].get("name") or ""
        await self.admit(call, options, "CREATE", obj, None, name)
        return await self.commit_new(call, options, obj)

    async def commit_new(self, call: ResourceRequest, options: WriteOptions, obj: JsonObject) -> WriteResult:
        """Everything that a create does after mutating admission."""
        metadata = obj["metadata"]
        base = metadata.get("generateName") or ""
        generate = bool(base) and not metadata.get("name")
        attempts = NAME_ATTEMPTS if generate else 1
        for _ in range(attempts):
            candidate = obj
            if generate:
                candidate = {**obj, "metadata": {**metadata, "name": self._free_name(call, base)}}
            try:
                return await self._commit_new(call, options, candidate)
            except errors.AlreadyExists:
                if not generate:
                    raise
        resource = call.kind.resource
        error = errors.already_exists(resource.plural, base, resource.group)
        detail = ", the server was not able to generate a unique name for the object"
        raise errors.failure(
            409,
            "AlreadyExists",
            error.message + detail,
            name=base,
            group=resource.group,
            kind=resource.plural,
            retry_after=1,
        )

    def _free_name(self, call: ResourceRequest, base: str) -> str:
        name = generated_name(base)
        for _ in range(NAME_ATTEMPTS):
            if self.parts.store.get(call.kind.bucket, call.namespace, name) is None:
                break
            name = generated_name(base)
        return name

    async def _commit_new(self, call: ResourceRequest, options: WriteOptions, obj: JsonObject) -> WriteResult:
        kind, strategy = call.kind, call.kind.strategy
        context = write_context(self.parts, call, dry_run=options.dry_run)
        metadata = obj["metadata"]
        system_metadata.stamp_new(metadata)
        if strategy.has_generation:
            system_metadata.set_generation(metadata, 1)
        if strategy.has_status and not strategy.keeps_status_on_create:
            obj.pop("status", None)
        drop_disabled(kind.resource.group, kind.resource.kind, obj)
        strategy.prepare_create(context, obj)
        # Until the commit succeeds, whatever the strategy allocated for the object must be given back on every way out.
        try:
            found = await self.parts.large.run(
                call.user.name,
                call.size,
                lambda: metadata_rules.on_create(kind, obj) + strategy.validate(context, obj),
            )
            if found:
                raise self.invalid(kind, obj, found)
            call.warnings.extend(strategy.warnings(context, obj, None))
            await self.validate(call, options, "CREATE", obj, None)
            if metadata.get("resourceVersion") and not options.dry_run:
                raise errors.failure(500, "", "resourceVersion should not be set on objects to be created")
            if not options.dry_run:
                metadata.pop("resourceVersion", None)
            existing = self.parts.store.get(kind.bucket, call.namespace, metadata["name"])
            if existing is not None:
                raise self._exists(kind, existing)
            strategy.settle(obj)
            request_bodies.complete(kind, obj, nulls=True)
            if options.dry_run:
                strategy.after_delete(context, obj)
                return WriteResult(document=with_type_first(obj, kind), created=True)
            try:
                return WriteResult(stored=await self.store(call, obj, expected=0), created=True)
            except StaleRevision as stale:
                raise self._exists(kind, stale.current, metadata["name"]) from None
        except (errors.ApiError, StorageError):
            strategy.after_delete(context, obj)
            raise

    def _exists(self, kind: Kind, existing: Stored | None, name: str = "") -> errors.ApiError:
        terminating = existing is not None and "deletionTimestamp" in existing.decode()["metadata"]
        resource = kind.resource
        shown = existing.name if existing is not None else name
        return errors.already_exists(resource.plural, shown, resource.group, terminating=terminating)

    # --- update -------------------------------------------------------------------------------------------------------

    async def update(self, call: ResourceRequest) -> Response:
        options = write_options(call.request, "UpdateOptions")
        body = await self.parts.large.run(call.user.name, call.size, lambda: self._read_changed(call, options))
        metadata = body["metadata"]
        pristine = copies_of(body)

        def produce(live: JsonObject | None) -> JsonObject:
            uid = metadata.get("uid") or ""
            live_uid = live["metadata"].get("uid") or "" if live is not None else ""
            if uid and uid != live_uid:
                detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}"
                resource = call.kind.resource
                raise errors.conflict(resource.plural, call.name, storage_problem(call, detail), resource.group)
            obj = pristine()
            self.record(call, options, live, obj)
            return obj

        written = await self.replace(call, options, produce, create_allowed=call.kind.strategy.create_on_update)
        return await self.answer(call, written)

    def _read_changed(self, call: ResourceRequest, options: WriteOptions) -> JsonObject:
        body = request_bodies.read_object(self.parts, call, options.field_validation or "Warn")
        metadata = body.setdefault("metadata", {})
        system_metadata.settle_namespace(call, metadata)
        system_metadata.check_name(call, metadata)
        system_metadata.drop_duplicate_owners(call, metadata, after_admission=False)
        return body

    async def replace(
        self, call: ResourceRequest, options: WriteOptions, produce: Produce, *, create_allowed: bool = False
    ) -> WriteResult:
        """Put what `produce` makes of the live object in its place, however often the live object changes meanwhile."""
        while True:
            stored = self.parts.store.get(call.kind.bucket, call.namespace, call.name)
            try:
                if stored is None:
                    return await self._create_by_update(call, options, produce, create_allowed)
                return await self._replace_once(call, options, produce, stored)
            except StaleRevision:
                continue

    async def _create_by_update(
        self, call: ResourceRequest, options: WriteOptions, produce: Produce, create_allowed: bool
    ) -> WriteResult:
        if not create_allowed or call.path.subresource:
            raise missing(call)
        obj = await self.parts.large.run(call.user.name, call.size, lambda: produce(None))
        authorization.check(self.parts.authorizer, authorization.to_create(call))
        system_metadata.wipe_system_fields(obj["metadata"])
        await self.admit(call, options, "CREATE", obj, None, call.name)
        obj["metadata"].pop("resourceVersion", None)
        return await self.commit_new(call, options, obj)

    async def _replace_once(
        self, call: ResourceRequest, options: WriteOptions, produce: Produce, stored: Stored
    ) -> WriteResult:
        live = call.view.document(stored)
        size = max(call.size, len(stored.raw))
        obj = await self.parts.large.run(call.user.name, size, lambda: produce(live))
        await self.admit(call, options, "UPDATE", obj, live, call.name)
        self._check_revision(call, obj["metadata"], stored)
        context = write_context(self.parts, call, dry_run=options.dry_run)
        obj = self._settle(call, context, obj, live)
        status = call.path.subresource == "status"
        strategy = call.kind.strategy
        found = await self.parts.large.run(call.user.name, size, lambda: self._found(call, context, obj, live))
        if found:
            raise self.invalid(call.kind, obj, found)
        if not status:
            call.warnings.extend(strategy.warnings(context, obj, live))
        await self.validate(call, options, "UPDATE", obj, live)
        if deletion_is_complete(call.kind, obj, live):
            return await self._remove(call, context, options, obj, stored)
        strategy.settle(obj)
        (request_bodies.complete_status if status else request_bodies.complete)(call.kind, obj, nulls=True)
        if managed.is_noop(live, obj):
            return WriteResult(stored=stored)
        _check_growth(call, obj, stored)
        if options.dry_run:
            return WriteResult(document=with_type_first(obj, call.kind))
        return WriteResult(stored=await self.store(call, obj, expected=stored.revision))

    def _found(
        self, call: ResourceRequest, context: WriteContext, obj: JsonObject, live: JsonObject
    ) -> list[FieldError]:
        """What is wrong with an update."""
        status, strategy = call.path.subresource == "status", call.kind.strategy
        rules = strategy.validate_status_update if status else strategy.validate_update
        return metadata_rules.on_update(call.kind, obj, live, status=status) + rules(context, obj, live)

    def _check_revision(self, call: ResourceRequest, metadata: JsonObject, stored: Stored) -> None:
        """Optimistic locking: a resourceVersion that is sent must be the present one."""
        sent = metadata.get("resourceVersion") or ""
        resource = call.kind.resource
        if sent in ("", "0"):
            if not call.kind.strategy.unconditional_update:
                wrong = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise errors.invalid(resource.plural, call.name, [wrong], resource.group)
            metadata["resourceVersion"] = str(stored.revision)
        elif not (sent.isascii() and sent.isdigit()):
            raise errors.failure(500, "", f'strconv.ParseUint: parsing "{sent}": invalid syntax')
        elif int(sent) != stored.revision:
            raise errors.conflict(resource.plural, call.name, errors.STALE, resource.group)

    def _settle(self, call: ResourceRequest, context: WriteContext, obj: JsonObject, live: JsonObject) -> JsonObject:
        """Put back what this endpoint cannot change, and move the generation if the desired state changed."""
        strategy = call.kind.strategy
        if call.path.subresource == "status":
            obj = only_status(call.kind, obj, live)
            system_metadata.restore_system_fields(obj["metadata"], live["metadata"])
            drop_disabled(call.kind.resource.group, call.kind.resource.kind, obj, live)
            strategy.prepare_status_update(context, obj, live)
            return obj
        system_metadata.restore_system_fields(obj["metadata"], live["metadata"])
        if strategy.has_status and call.path.subresource != "approval":  # which is about conditions
            restore(obj, live, "status")
        drop_disabled(call.kind.resource.group, call.kind.resource.kind, obj, live)
        strategy.prepare_update(context, obj, live)
        if strategy.has_generation and strategy.generation_moves(obj, live):
            system_metadata.set_generation(obj["metadata"], (live["metadata"].get("generation") or 0) + 1)
        return obj

    async def _remove(
        self, call: ResourceRequest, context: WriteContext, options: WriteOptions, obj: JsonObject, stored: Stored
    ) -> WriteResult:
        """The update that took the last finalizer off an object that waited for it."""
        if not options.dry_run:
            await self.parts.store.write(stored.bucket, stored.namespace, stored.name, None, expected=stored.revision)
            call.kind.strategy.after_delete(context, obj)
            await self.announce(stored)
        return WriteResult(document=with_type_first(obj, call.kind))

    # --- shared steps -------------------------------------------------------------------------------------------------

    def record(self, call: ResourceRequest, options: WriteOptions, live: JsonObject | None, obj: JsonObject) -> None:
        """Note in managedFields who wrote what. An object that its new schema cannot read has no owners."""
        if live is not None and violates_current_schema(call, live):
            obj.setdefault("metadata", {}).pop("managedFields", None)
            return
        managed.record_update(
            live,
            obj,
            call.kind.schema(),
            manager=manager_of(options, call.request),
            api_version=call.kind.resource.api_version,
            time=clock.timestamp(),
            subresource=call.path.subresource,
            ignored=ignored_fields(call),
            tracked=tracked_fields(call),
            at_version=at_version(self.parts, call),
        )

    async def admit(
        self,
        call: ResourceRequest,
        options: WriteOptions,
        operation: Operation,
        obj: JsonObject,
        live: JsonObject | None,
        name: str,
    ) -> None:
        if call.path.subresource == "scale" and live is not None:
            await self._admit_scale(call, options, obj, live)
            return
        attributes = self._attributes(call, options, operation, obj, live, name)
        await self.parts.admission.mutate(attributes)
        system_metadata.drop_duplicate_owners(call, obj["metadata"], after_admission=True)

    async def _admit_scale(
        self, call: ResourceRequest, options: WriteOptions, obj: JsonObject, live: JsonObject
    ) -> None:
        """What was asked for is a Scale: that is what is shown, and what may be changed."""
        scale = scale_of(call.kind, obj)
        wanted = scale["spec"].get("replicas")
        attributes = self._attributes(call, options, "UPDATE", scale, scale_of(call.kind, live), call.name)
        await self.parts.admission.mutate(attributes)
        replicas = (scale.get("spec") or {}).get("replicas")
        if replicas != wanted:
            put_replicas(call.kind, obj, replicas or 0)

    async def validate(
        self,
        call: ResourceRequest,
        options: WriteOptions,
        operation: Operation,
        obj: JsonObject,
        live: JsonObject | None,
    ) -> None:
        name = obj["metadata"].get("name") or ""
        if call.path.subresource == "scale" and live is not None:
            # What was asked for is a Scale, and that is what is judged.
            obj, live = scale_of(call.kind, obj), scale_of(call.kind, live)
        await self.parts.admission.validate(self._attributes(call, options, operation, obj, live, name))

    def _attributes(
        self,
        call: ResourceRequest,
        options: WriteOptions,
        operation: Operation,
        obj: JsonObject,
        live: JsonObject | None,
        name: str,
    ) -> Attributes:
        return Attributes(
            operation=operation,
            resource=call.kind.resource,
            name=name,
            namespace=call.namespace,
            user=call.user,
            reader=self.parts.reader,
            object=obj,
            old_object=live,
            subresource=call.path.subresource,
            options=options.as_object("CreateOptions" if operation == "CREATE" else "UpdateOptions"),
            dry_run=options.dry_run,
            warnings=call.warnings,
        )

    async def store(self, call: ResourceRequest, obj: JsonObject, *, expected: int) -> Stored:
        kind = call.kind
        siblings = self.parts.catalog.siblings(kind)
        document = kind.to_storage(obj) if kind.to_storage is not None else obj
        if kind.stored_defaults is not None:
            kind.stored_defaults(document)
        if kind.custom:
            document = by_name(document)
        document = with_type_first(document, siblings[0] if kind.to_storage is not None else kind)
        stored = await self.parts.store.write(
            kind.bucket,
            call.namespace,
            document["metadata"]["name"],
            document,
            expected=expected,
            labels=document["metadata"].get("labels") or {},
            fields=selectable_fields(siblings, document),
        )
        await self.announce(stored)
        return stored

    async def announce(self, stored: Stored) -> None:
        listener = self.parts.committed.get(stored.bucket)
        if listener is not None:
            await listener(stored)

    def invalid(self, kind: Kind, obj: JsonObject, found: list[field_errors.FieldError]) -> errors.ApiError:
        """A kind is called what it is stored as; a custom resource what it calls itself, since that may be wrong."""
        name = obj["metadata"].get("name") or ""
        stored_as = self.parts.catalog.siblings(kind)[0].resource
        shown, group = stored_as.kind, stored_as.group
        if kind.custom:
            shown, group = obj.get("kind") or "", (obj.get("apiVersion") or "").rpartition("/")[0]
        return errors.invalid(shown, name, found, group)

    async def answer(self, call: ResourceRequest, written: WriteResult) -> Response:
        status = 201 if written.created else 200
        if written.stored is not None:
            return await object_responses.of_stored(self.parts, call, written.stored, status)
        assert written.document is not None
        return await object_responses.of_object(self.parts, call, written.document, status)


def _check_growth(call: ResourceRequest, obj: JsonObject, stored: Stored) -> None:
    """An object may not grow beyond the size of the largest body: patches could add to it again and again."""
    before = len(stored.raw)
    if before + call.size <= request_bodies.MAX_BODY:
        return
    after = len(compact(obj))
    if after > request_bodies.MAX_BODY and after > before:
        raise request_bodies.too_large()
