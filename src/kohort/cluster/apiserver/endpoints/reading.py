"""Get and list.

A list is a snapshot of the store at one revision. Chunks of one list come from the snapshot of the first chunk: the
continue token carries its revision and the key to go on after. When that revision has left the history, the answer is
410 with a token that goes on from the present state instead, for clients that prefer a list with seams to none.

| resourceVersion | match        | limit | state that is listed           |
|-----------------|--------------|-------|--------------------------------|
| unset, 0        | any          | any   | latest (0: the whole list)     |
| N               | unset        | 0     | latest, once N is visible      |
| N               | unset        | > 0   | exactly N                      |
| N               | NotOlderThan | any   | latest, once N is visible      |
| N               | Exact        | any   | exactly N                      |
"""

import base64
import binascii
import posixpath
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from kohort.cluster.apiserver.endpoints import object_responses
from kohort.cluster.apiserver.endpoints.query_options import ListOptions, list_options, revision_of
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.endpoints.selection import Selection, select
from kohort.cluster.apiserver.representation import encoding
from kohort.cluster.apiserver.representation.negotiation import Media
from kohort.cluster.apiserver.schema import json_body
from kohort.cluster.apiserver.storage.model import HistoryExpired, Store, Stored
from kohort.kube import errors
from kohort.kube.errors import StatusCause
from kohort.kube.http import Response
from kohort.objects.json_types import JsonObject

FUTURE_WAIT: Final = 3.0
SLICE_BYTES: Final = 256 * 1024
"""Stored bytes that are rendered at a time."""
BYTES_PER_ITEM: Final = 8
"""Bytes of a document that take as long to read as copying one stored object into a list."""
TOKEN_VERSION: Final = "meta.k8s.io/v1"
ANY_STATE: Final = -1
"""The revision in a token that goes on from the present state."""


async def get(parts: ServerParts, call: ResourceRequest) -> Response:
    if call.request.param("export") in ("1", "t", "T", "true", "True", "TRUE"):
        raise errors.bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    revision = revision_of(call.request.param("resourceVersion"))
    if revision > parts.store.revision:
        await wait_for_revision(parts.store, revision)
    stored = parts.store.get(call.kind.bucket, call.namespace, call.name)
    if stored is None:
        raise missing(call)
    return await object_responses.of_stored(parts, call, stored)


def missing(call: ResourceRequest) -> errors.ApiError:
    resource = call.kind.resource
    return errors.not_found(resource.plural, call.name, resource.group)


async def wait_for_revision(store: Store, revision: int) -> None:
    """Wait a little for a revision that others have seen already; 504 if it does not come."""
    if revision > store.revision and not await store.wait_for(revision, FUTURE_WAIT):
        raise future_revision(revision, store.revision)


def future_revision(wanted: int, current: int) -> errors.ApiError:
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return errors.failure(504, "Timeout", message, causes=[cause], retry_after=1)


class Page(msgspec.Struct):
    """A part of a list, or the whole."""

    items: list[Stored]
    revision: int
    continue_: str = ""
    remaining: int | None = None

    def metadata(self, *, custom: bool = False) -> JsonObject:
        """Lists of custom resources always say whether they go on."""
        metadata: JsonObject = {"resourceVersion": str(self.revision)}
        if self.continue_ or custom:
            metadata["continue"] = self.continue_
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


async def list_(parts: ServerParts, call: ResourceRequest) -> Response:
    options = list_options(call.request)
    selection = select(call.kind, call.namespace, options.label_selector, options.field_selector)
    page = await read_page(parts, call, selection, options)
    return await of_page(parts, call, page)


async def of_page(parts: ServerParts, call: ResourceRequest, page: Page) -> Response:
    """Rendered beside the event loop if it is large, in slices between which other users have their turns."""
    view, media = call.view, call.media
    if media.transform == "Table":
        return await _table(parts, call, page)
    if media.transform == "PartialObjectMetadata":
        shown = object_responses.go_type(call.kind, of_list=True)
        message = f"you requested PartialObjectMetadata, but the requested object is a list ({shown})"
        raise errors.failure(406, "NotAcceptable", message)
    if media.format == "yaml" and not media.transform:
        return await _yaml(parts, call, page)
    metadata = page.metadata(custom=call.kind.custom)

    def render() -> bytes:
        if media.transform == "PartialObjectMetadataList":
            return encoding.encode_raw(_metadata_list(call, page), media)
        if media.format == "json" and not media.pretty:
            return view.collection(page.items, metadata, b"\n")
        return encoding.encode_raw(view.collection(page.items, metadata), media)

    stored_form = media.is_stored_form and view.is_direct
    work = len(page.items) * BYTES_PER_ITEM if stored_form else _size(page.items)
    body = await parts.large.run(call.user.name, work, render)
    return object_responses.of_bytes(200, body, media.content_type)


async def _table(parts: ServerParts, call: ResourceRequest, page: Page) -> Response:
    from kohort.cluster.apiserver.representation import tables

    media, rows = call.media, list[msgspec.Raw]()
    include_object = object_responses.include_object(call)

    def render(part: Sequence[Stored]) -> list[msgspec.Raw]:
        return tables.rows_of(call.kind, map(call.view.document, part), include_object, media.version)

    for part in _slices(page.items):
        rows += await parts.large.run(call.user.name, _size(part), partial(render, part))
    document = tables.table_of_rows(call.kind, rows, page.metadata(), media.version)

    raw = encoding.compact(document)
    body = await parts.large.run(call.user.name, _rendering_work(media, raw), lambda: encoding.encode_raw(raw, media))
    return object_responses.of_bytes(200, body, media.content_type)


def _rendering_work(media: Media, raw: bytes) -> int:
    return 0 if media.format == "json" and not media.pretty else len(raw)


async def _yaml(parts: ServerParts, call: ResourceRequest, page: Page) -> Response:
    def render(part: Sequence[Stored]) -> bytes:
        return encoding.to_yaml(msgspec.json.decode(call.view.collection(part, {}))["items"])

    items = [await parts.large.run(call.user.name, _size(part), partial(render, part)) for part in _slices(page.items)]
    head = msgspec.json.decode(call.view.collection((), page.metadata(custom=call.kind.custom)))
    del head["items"]
    return object_responses.of_bytes(200, encoding.yaml_list(head, items), call.media.content_type)


def _slices(items: Sequence[Stored]) -> Iterator[Sequence[Stored]]:
    """Parts of a list of about SLICE_BYTES each."""
    start = size = 0
    for index, stored in enumerate(items):
        size += len(stored.raw)
        if size >= SLICE_BYTES:
            yield items[start : index + 1]
            start, size = index + 1, 0
    if start < len(items):
        yield items[start:]


def _size(items: Sequence[Stored]) -> int:
    return sum([len(stored.raw) for stored in items])


def _metadata_list(call: ResourceRequest, page: Page) -> bytes:
    version = f"meta.k8s.io/{call.media.version}"
    start = encoding.compact({"kind": "PartialObjectMetadata", "apiVersion": version})[:-1] + b',"metadata":'
    items = b",".join(start + call.view.metadata(stored) + b"}" for stored in page.items)
    head = {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": page.metadata()}
    return encoding.compact(head)[:-1] + b',"items":' + (b"[%b]}" % items if items else b"null}")


async def read_page(parts: ServerParts, call: ResourceRequest, selection: Selection, options: ListOptions) -> Page:
    state = await _state(parts.store, call.kind.bucket, selection, options)
    return await parts.large.run(call.user.name, selection.work(len(state.objects)), lambda: _cut(state, selection))


class ListState(msgspec.Struct):
    """What a list is cut from: all objects of a namespace or bucket at one revision."""

    objects: Sequence[Stored]
    revision: int
    limit: int
    after: tuple[str, str] | None = None
    """The key from which on the list goes on."""


async def _state(store: Store, bucket: str, selection: Selection, options: ListOptions) -> ListState:
    if options.continue_:
        await wait_for_revision(store, max(0, decode_token(options.continue_).rv))
        return _rest(store, bucket, selection, options)
    revision = revision_of(options.resource_version, of_list=True)
    await wait_for_revision(store, revision)
    exact = options.match == "Exact" or (revision > 0 and not options.match and options.limit > 0)
    if exact:
        try:
            objects = store.list_at(bucket, revision, selection.namespace)
        except HistoryExpired:
            raise errors.expired("The resourceVersion for the provided list is too old.") from None
        return ListState(objects, revision, options.limit)
    limit = 0 if options.resource_version == "0" else options.limit
    return ListState(_latest(store, bucket, selection), store.revision, limit)


def _latest(store: Store, bucket: str, selection: Selection) -> Sequence[Stored]:
    if selection.name is not None and selection.namespace:
        stored = store.get(bucket, selection.namespace, selection.name)
        return [stored] if stored is not None else []
    return store.list(bucket, selection.namespace)


def _rest(store: Store, bucket: str, selection: Selection, options: ListOptions) -> ListState:
    """What a continue token has not listed yet."""
    token = decode_token(options.continue_)
    if options.resource_version not in ("", "0"):
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    if token.rv == ANY_STATE:
        objects, revision = store.list(bucket, selection.namespace), store.revision
    else:
        try:
            objects, revision = store.list_at(bucket, token.rv, selection.namespace), token.rv
        except HistoryExpired:
            raise _expired_token(token) from None
    limit = 0 if options.resource_version == "0" else options.limit
    return ListState(objects, revision, limit, token.key(selection.namespace))


def _cut(whole: ListState, selection: Selection) -> Page:
    state, revision, limit, after = whole.objects, whole.revision, whole.limit, whole.after
    start = bisect_left(state, after, key=lambda stored: (stored.namespace, stored.name)) if after else 0
    if not selection.by_content:
        if limit <= 0 or len(state) - start <= limit:
            return Page(list(state[start:]), revision)
        items = list(state[start : start + limit])
        rest = len(state) - start - limit
        return Page(items, revision, encode_token(revision, items[-1], selection.namespace), rest)
    matching = selection.matches_content
    if limit <= 0:
        return Page([stored for stored in state[start:] if matching(stored)], revision)
    items = []
    for index in range(start, len(state)):
        if matching(state[index]):
            items.append(state[index])
            if len(items) == limit:
                more = index + 1 < len(state)
                return Page(items, revision, encode_token(revision, items[-1], selection.namespace) if more else "")
    return Page(items, revision)


class Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""

    def key(self, namespace: str) -> tuple[str, str]:
        """The first key that may follow. `start` is the last key with a zero byte behind it."""
        if namespace:
            return (namespace, self.start)
        space, slash, name = self.start.partition("/")
        return (space, name) if slash else ("", self.start)


def encode_token(revision: int, last: Stored, namespace: str) -> str:
    key = last.name if namespace or not last.namespace else f"{last.namespace}/{last.name}"
    return _pack(Token(TOKEN_VERSION, revision, key + "\0"))


def _pack(token: Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def decode_token(text: str) -> Token:
    try:
        return _decoded_token(text)
    except ValueError as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from None


_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def _decoded_token(text: str) -> Token:
    for position, character in enumerate(text):
        if character not in _ALPHABET:
            raise ValueError(f"illegal base64 data at input byte {position}")
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise ValueError(f"illegal base64 data at input byte {len(text) - 1}") from None
    try:
        token = msgspec.convert(json_body.decode(packed), Token)
    except (msgspec.ValidationError, json_body.SyntaxFault) as error:
        raise ValueError(str(error)) from None
    if token.v != TOKEN_VERSION:
        raise ValueError(f"server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        raise ValueError(f"incorrect encoded start resourceVersion (version {TOKEN_VERSION})")
    if not token.start:
        raise ValueError(f"encoded start key empty (version {TOKEN_VERSION})")
    if posixpath.normpath(f"/{token.start}") != f"/{token.start}":
        raise ValueError(token.start)
    return token


def _expired_token(token: Token) -> errors.ApiError:
    error = errors.expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    error.status.metadata.continue_ = _pack(Token(TOKEN_VERSION, ANY_STATE, token.start))
    return error
