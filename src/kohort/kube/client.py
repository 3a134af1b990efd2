"""Requests to a cluster, typed.

One `Client` serves any kind: the `Resource` says where it lives, `type` says what to decode the answer into (a narrow
msgspec view, or by default the whole object as a dictionary). Failures are raised as the classes in `errors`; which of
them are retried is decided in `request_exchange`.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, TypeVar, overload

import msgspec

from kohort.kube import errors
from kohort.kube.http import Request, Transport
from kohort.kube.metrics import Metrics
from kohort.kube.object_identity import T, View, key_of, version_of
from kohort.kube.ratelimit import TokenBucket
from kohort.kube.request_encoding import (
    Body,
    Page,
    PatchType,
    Selection,
    decode,
    decode_page,
    delete_options,
    document,
    namespace_of,
)
from kohort.kube.request_exchange import JSON, Exchange
from kohort.kube.resources import Resource
from kohort.kube.watch_frames import WatchEvent
from kohort.objects.json_types import Json, JsonObject

__all__ = ["Client", "Page", "PatchType", "Propagation", "Selection"]

R = TypeVar("R")
"""The view that the answer of a write is decoded into; `msgspec.Raw` to leave it undecoded."""
Propagation = Literal["Background", "Foreground", "Orphan"]


class Client(Exchange):
    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "kohort",
        user_agent: str = "kohort/0.1 (kohort.kube)",
        metrics: Metrics | None = None,
        limiter: TokenBucket | None = None,
    ) -> None:
        super().__init__(transport, user_agent=user_agent, metrics=metrics, limiter=limiter)
        self.field_manager = field_manager

    # Reading

    @overload
    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> JsonObject: ...
    @overload
    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, type: type[T], subresource: str = ""
    ) -> T: ...
    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        type: Json = JsonObject,
        subresource: str = "",
    ) -> Json:
        answer = await self.send(Request("GET", resource.object_path(namespace, name, subresource), (), self.headers()))
        return decode(answer, type)

    @overload
    async def find(self, resource: Resource, name: str, namespace: str = "") -> JsonObject | None: ...
    @overload
    async def find(self, resource: Resource, name: str, namespace: str = "", *, type: type[T]) -> T | None: ...
    async def find(self, resource: Resource, name: str, namespace: str = "", *, type: Json = JsonObject) -> Json:
        """Like `get`, but None when there is no such object."""
        try:
            return await self.get(resource, name, namespace, type=type)
        except errors.NotFound:
            return None

    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        metadata_only: bool = False,
    ) -> Page[JsonObject]: ...
    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        type: type[T],
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        metadata_only: bool = False,
    ) -> Page[T]: ...
    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        type: Json = JsonObject,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        metadata_only: bool = False,
    ) -> Page[Json]:
        """One page; the whole list when `limit` is 0."""
        selection = Selection(resource, namespace, label_selector, field_selector, metadata_only)
        page = {
            "limit": str(limit) if limit else "",
            "continue": continue_,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        response = await self.list_bytes(selection, page)
        return decode_page(response, type, resource)

    async def pages(
        self, selection: Selection, *, type: Json = JsonObject, chunk: int = 500
    ) -> AsyncIterator[Page[Json]]:
        """The whole list in chunks of one snapshot. Raises Expired when the snapshot is gone before the last chunk."""
        token = ""
        while True:
            raw = await self.list_bytes(selection, {"limit": str(chunk), "continue": token})
            page = decode_page(raw, type, selection.resource)
            yield page
            token = page.continue_
            if not token:
                return

    @overload
    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[WatchEvent[JsonObject]]: ...
    @overload
    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        type: type[T],
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[WatchEvent[T]]: ...
    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        type: Json = JsonObject,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[WatchEvent[Json]]:
        """The events of one watch request, until the server ends it. Use an informer for anything that must survive
        that; this is for short observations."""
        selection = Selection(resource, namespace, label_selector, field_selector)
        query = {
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds) if timeout_seconds else "",
        }
        async for event in self.watch_stream(selection, type, query):
            if isinstance(event, WatchEvent):
                yield event

    # Writing

    @overload
    async def create(
        self,
        resource: Resource,
        obj: Body,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        *,
        dry_run: bool = False,
    ) -> JsonObject: ...
    @overload
    async def create(
        self,
        resource: Resource,
        obj: Body,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        *,
        type: type[R],
        dry_run: bool = False,
    ) -> R: ...
    async def create(
        self,
        resource: Resource,
        obj: Body,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        *,
        type: Json = JsonObject,
        dry_run: bool = False,
    ) -> Json:
        """`name` only for subresources (`binding`, `eviction`, `token`)."""
        body = document(resource, obj, subresource)
        path = resource.path(namespace or namespace_of(body), name, subresource)
        return await self._write("POST", path, body, type, self._options(dry_run))

    @overload
    async def update(
        self,
        resource: Resource,
        obj: Body,
        namespace: str = "",
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> JsonObject: ...
    @overload
    async def update(
        self,
        resource: Resource,
        obj: Body,
        namespace: str = "",
        *,
        type: type[R],
        subresource: str = "",
        dry_run: bool = False,
    ) -> R: ...
    async def update(
        self,
        resource: Resource,
        obj: Body,
        namespace: str = "",
        *,
        subresource: str = "",
        type: Json = JsonObject,
        dry_run: bool = False,
    ) -> Json:
        """Replace the whole object. A `metadata.resourceVersion` in it makes the server reject it (Conflict) if the
        object has changed since."""
        body = document(resource, obj, subresource)
        path = resource.object_path(namespace or namespace_of(body), body["metadata"]["name"], subresource)
        return await self._write("PUT", path, body, type, self._options(dry_run))

    @overload
    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: JsonObject | Sequence[JsonObject] | msgspec.Struct,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        *,
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> JsonObject: ...
    @overload
    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: JsonObject | Sequence[JsonObject] | msgspec.Struct,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        *,
        type: type[R],
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> R: ...
    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: JsonObject | Sequence[JsonObject] | msgspec.Struct,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        *,
        type: Json = JsonObject,
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Json:
        options = self._options(dry_run, field_manager) + ((("force", "true"),) if force else ())
        path = resource.object_path(namespace, name, subresource)
        return await self._write("PATCH", path, body, type, options, content_type=patch_type.value)

    async def patch_status(
        self, resource: Resource, obj: View | JsonObject, status: JsonObject, *, locked: bool = False
    ) -> JsonObject | None:
        """Merge into the status of an object that was read; None when it is gone.

        `locked` makes the server refuse (Conflict) if the object has changed since it was read.
        """
        key, body = key_of(obj), {"status": status}
        if locked:
            body["metadata"] = {"resourceVersion": version_of(obj)}
        try:
            written: JsonObject = await self.patch(resource, key.name, key.namespace, body, subresource="status")
        except errors.NotFound:
            return None
        return written

    @overload
    async def apply(
        self,
        resource: Resource,
        obj: Body,
        *,
        field_manager: str = "",
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> JsonObject: ...
    @overload
    async def apply(
        self,
        resource: Resource,
        obj: Body,
        *,
        type: type[R],
        field_manager: str = "",
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> R: ...
    async def apply(
        self,
        resource: Resource,
        obj: Body,
        *,
        field_manager: str = "",
        force: bool = True,
        subresource: str = "",
        type: Json = JsonObject,
        dry_run: bool = False,
    ) -> Json:
        """Server-side apply: `obj` has all fields that this field manager owns."""
        body = document(resource, obj, "")
        key = key_of(body)
        return await self.patch(
            resource,
            key.name,
            key.namespace,
            body,
            PatchType.APPLY,
            subresource,
            type=type,
            field_manager=field_manager or self.field_manager,
            force=force,
            dry_run=dry_run,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> JsonObject:
        """`uid` and `resource_version` are preconditions: Conflict unless the live object has them."""
        body = delete_options(propagation, grace_seconds, uid, resource_version, dry_run)
        answer: JsonObject = await self._write("DELETE", resource.object_path(namespace, name), body, JsonObject, ())
        return answer

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> JsonObject:
        body = delete_options(propagation, grace_seconds, None, None, False)
        query = Selection(resource, namespace, label_selector, field_selector).query()
        answer: JsonObject = await self._write("DELETE", resource.path(namespace), body, JsonObject, query)
        return answer

    # Anything else

    async def raw(
        self, method: str, path: str, query: Sequence[tuple[str, str]] = (), body: bytes = b"", accept: str = JSON
    ) -> bytes:
        """A request to any path (discovery, health, logs), with errors raised as usual."""
        headers = self.headers(accept=accept, content_type=JSON if body else "")
        return await self.send(Request(method, path, tuple(query), headers, body))

    # Sending

    async def _write(
        self,
        method: str,
        path: str,
        body: Json,
        type: Json,
        query: tuple[tuple[str, str], ...],
        content_type: str = JSON,
    ) -> Json:
        headers = self.headers(content_type=content_type)
        return decode(await self.send(Request(method, path, query, headers, msgspec.json.encode(body))), type)

    def _options(self, dry_run: bool, field_manager: str = "") -> tuple[tuple[str, str], ...]:
        manager = field_manager or self.field_manager
        options = (("fieldManager", manager),) if manager else ()
        # A dry run also reports unknown fields.
        return (*options, ("dryRun", "All"), ("fieldValidation", "Strict")) if dry_run else options
