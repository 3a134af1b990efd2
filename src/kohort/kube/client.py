"""Requests to a cluster, typed.

One `Client` serves any kind: the `Resource` says where it lives, `type` says what to decode the answer into (a narrow
msgspec view, or by default the whole object as a dictionary). Failures are raised as the classes in `errors`.

A request is repeated only when the server asked for it (429 or 5xx with `Retry-After`: it did not act on the request)
or when a read got no answer. A write without an answer is never repeated here, because it may have happened; the
reconciler that sent it looks again and decides.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Literal, cast, overload

import msgspec

from kohort.kube import errors
from kohort.kube.errors import ApiError
from kohort.kube.frames import Bookmark, FrameDecoder, Lines, Unreadable, WatchEvent
from kohort.kube.http import Request, Response, Transport
from kohort.kube.identity import T, key_of
from kohort.kube.metrics import Metrics
from kohort.kube.ratelimit import TokenBucket
from kohort.kube.resources import Resource
from kohort.kube.wire import (
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
from kohort.objects.jsontypes import Json, JsonObject

__all__ = ["Client", "Page", "PatchType", "Propagation", "Selection"]

Propagation = Literal["Background", "Foreground", "Orphan"]

_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_RETRIES = 5
_TURN = 100
"""Events after which a busy watch lets others run: 100 of them take some milliseconds."""


class Client:
    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "kohort",
        user_agent: str = "kohort/0.1 (kohort.kube)",
        metrics: Metrics | None = None,
        limiter: TokenBucket | None = None,
    ) -> None:
        self.transport = transport
        self.field_manager = field_manager
        self.user_agent = user_agent
        self.metrics = metrics
        self._limiter = limiter

    async def close(self) -> None:
        await self.transport.close()

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
        response = await self._send(Request("GET", resource.path(namespace, name, subresource), (), self._headers()))
        return decode(cast(bytes, response.body), type)

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

    async def list_bytes(self, selection: Selection, query: Mapping[str, str] = {}) -> bytes:
        """The undecoded answer to a list request."""
        parameters = selection.query() + tuple((name, value) for name, value in query.items() if value)
        path = selection.resource.path(selection.namespace)
        headers = self._headers(accept=_METADATA_LIST if selection.metadata_only else _JSON)
        response = await self._send(Request("GET", path, parameters, headers))
        return cast(bytes, response.body)

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
        """The events of one watch request, until the server ends it. An informer is what you want for anything that
        must survive that; this is for looking on for a while."""
        selection = Selection(resource, namespace, label_selector, field_selector)
        query = {
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds) if timeout_seconds else "",
        }
        async for event in self.watch_stream(selection, type, query):
            if isinstance(event, WatchEvent):
                yield event

    async def watch_stream(
        self, selection: Selection, view: type[T], query: Mapping[str, str] = {}
    ) -> AsyncGenerator[WatchEvent[T] | Bookmark | Unreadable, None]:
        """Everything that one watch request brings, bookmarks included. ERROR frames are raised."""
        parameters = (
            ("watch", "true"),
            *selection.query(),
            *((name, value) for name, value in query.items() if value),
        )
        path = selection.resource.path(selection.namespace)
        headers = self._headers(accept=_METADATA if selection.metadata_only else _JSON)
        decoder = FrameDecoder(view)
        count = self.metrics.watch_events(selection.resource.qualified) if self.metrics else None
        async with self.transport.stream(Request("GET", path, parameters, headers)) as stream:
            if self.metrics:
                self.metrics.request("WATCH", stream.status, 0.0)
            if stream.status != 200:
                raise errors.from_response(stream.status, b"".join([chunk async for chunk in stream]))
            busy = 0
            lines = Lines()
            async for chunk in stream:
                for line in lines.feed(chunk):
                    event = decoder.decode(line)
                    if count:
                        count.inc()
                    yield event
                    busy += 1
                    if busy % _TURN == 0:
                        await asyncio.sleep(0)

    # Writing

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
        """Replace the whole object. A `metadata.resourceVersion` in it makes the server refuse (Conflict) if the object
        has changed since."""
        body = document(resource, obj, subresource)
        path = resource.path(namespace or namespace_of(body), body["metadata"]["name"], subresource)
        return await self._write("PUT", path, body, type, self._options(dry_run))

    async def update_status(
        self, resource: Resource, obj: Body, namespace: str = "", *, type: Json = JsonObject
    ) -> Json:
        return await self.update(resource, obj, namespace, subresource="status", type=type)

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
        path = resource.path(namespace, name, subresource)
        return await self._write("PATCH", path, body, type, options, content_type=patch_type.value)

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
        """Server-side apply: `obj` is everything this manager wants, and all it wants."""
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
        answer: JsonObject = await self._write("DELETE", resource.path(namespace, name), body, JsonObject, ())
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
        self, method: str, path: str, query: Sequence[tuple[str, str]] = (), body: bytes = b"", accept: str = _JSON
    ) -> bytes:
        """A request to any path (discovery, health, logs), with errors raised as usual."""
        headers = self._headers(accept=accept, content_type=_JSON if body else "")
        response = await self._send(Request(method, path, tuple(query), headers, body))
        return cast(bytes, response.body)

    # The wire

    async def _write(
        self,
        method: str,
        path: str,
        body: Json,
        type: Json,
        query: tuple[tuple[str, str], ...],
        content_type: str = _JSON,
    ) -> Json:
        headers = self._headers(content_type=content_type)
        response = await self._send(Request(method, path, query, headers, msgspec.json.encode(body)))
        return decode(cast(bytes, response.body), type)

    def _options(self, dry_run: bool, field_manager: str = "") -> tuple[tuple[str, str], ...]:
        manager = field_manager or self.field_manager
        options = (("fieldManager", manager),) if manager else ()
        # Whoever tries something without doing it wants to hear of a misspelt field, too.
        return (*options, ("dryRun", "All"), ("fieldValidation", "Strict")) if dry_run else options

    def _headers(self, *, accept: str = _JSON, content_type: str = "") -> dict[str, str]:
        headers = {"accept": accept, "user-agent": self.user_agent}
        if content_type:
            headers["content-type"] = content_type
        return headers

    async def _send(self, request: Request) -> Response:
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._exchange(request)
            except errors.Unreachable:
                if request.method != "GET" or attempt > _RETRIES:
                    raise
                pause = 0.05 * 2**attempt
            else:
                if response.status < 400:
                    return response
                asked = _asked_pause(response)
                if asked is None or attempt > _RETRIES:
                    raise _failure(response)
                pause = asked
            await asyncio.sleep(pause)

    async def _exchange(self, request: Request) -> Response:
        if self._limiter is not None:
            await self._limiter.take()
        clock = asyncio.get_running_loop().time
        start = clock()
        status = 0
        try:
            response = await self.transport.send(request)
            status = response.status
            return response
        finally:
            if self.metrics:
                self.metrics.request(request.method, status, clock() - start)


def _asked_pause(response: Response) -> float | None:
    """How long the server asked us to wait before trying again, if it did."""
    text = response.headers.get("retry-after", "")
    if text.isdigit() and (response.status == 429 or response.status >= 500):
        return float(text)
    return None


def _failure(response: Response) -> ApiError:
    return errors.from_response(response.status, cast(bytes, response.body))
