"""Watch: the present state (if asked for), then every change after it, for as long as the client listens.

A watcher with a selector sees transitions: what enters its selection is ADDED, what leaves it is DELETED, with the
content from before and the revision of the change that made it leave.

A watcher costs one waiting task and one timer, which interrupts it for a bookmark or for its end. A bookmark says
that the client has seen everything up to a revision, so all changes that were committed meanwhile are sent before it.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Final

from kohort.cluster.apiserver.crd.conversion import ConversionNeeded, with_conversions
from kohort.cluster.apiserver.endpoints import object_responses
from kohort.cluster.apiserver.endpoints.query_options import ListOptions, list_options, revision_of
from kohort.cluster.apiserver.endpoints.reading import FUTURE_WAIT, future_revision
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.endpoints.selection import Selection, select
from kohort.cluster.apiserver.endpoints.watch_frames import Frames, ProtobufFrames, TableFrames
from kohort.cluster.apiserver.representation.negotiation import Media, negotiate, not_acceptable
from kohort.cluster.apiserver.storage.model import Change, Changes, HistoryExpired, SlowWatcher, Stored
from kohort.kube import errors
from kohort.kube.fast_counters import Count
from kohort.kube.http import Response

BOOKMARK_PERIOD: Final = 60.0
LAST_BOOKMARK: Final = 2.0
"""How long before its end a watch gets a last bookmark, so that the next one can go on from there."""
MIN_DURATION, MAX_DURATION = 1800.0, 3600.0
INITIAL_CHUNK: Final = 500
"""Objects of the initial state that are sent at a time."""
STORED_FORM_BYTES, RENDERED_BYTES = 4 * 1024 * 1024, 64 * 1024
"""Stored bytes that are sent at a time, in their stored form or rendered as tables or protobuf."""


class Watches:
    """Starts watches; holds the shared frames."""

    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        self._frames: dict[tuple[int, str, str, str], Frames] = {}
        self._catalog_revision = -1

    async def start(self, call: ResourceRequest) -> Response:
        options = list_options(call.request, force_watch=True)
        selection = select(call.kind, call.namespace, options.label_selector, options.field_selector, call.path.name)
        media = negotiate(call.request, custom=call.kind.custom)
        if media.format == "yaml":
            raise not_acceptable(call.request, custom=True)
        revision = revision_of(options.resource_version)
        open_ = self._parts.meters.watches(call.request, call.path)
        frames = self.frames(call, media)
        body = Watch(self._parts, call.user.name, frames, selection, options, revision, open_).run()
        return Response(200, {"content-type": frames.content_type}, body)

    def frames(self, call: ResourceRequest, media: Media) -> Frames:
        if media.transform == "Table":
            return TableFrames(call.view, media, object_responses.include_object(call))
        if self._catalog_revision != self._parts.catalog.revision:
            self._frames.clear()
            self._catalog_revision = self._parts.catalog.revision
        key = (id(call.view), media.format, media.transform, media.version)
        if key not in self._frames:
            self._frames[key] = (ProtobufFrames if media.format == "protobuf" else Frames)(call.view, media)
        return self._frames[key]


class Watch:
    """One stream."""

    def __init__(
        self,
        parts: ServerParts,
        user: str,
        frames: Frames,
        selection: Selection,
        options: ListOptions,
        revision: int,
        open_: Count,
    ) -> None:
        """`open_` counts the watches that are open."""
        self._store = parts.store
        self._catalog = parts.catalog
        self._resolve = parts.resolve
        self._frames = frames
        self._bucket = frames.view.kind.bucket
        self._selection = selection
        self._options = options
        self._revision = revision
        self._shared = not selection.by_content
        self._open = open_
        self._large = parts.large
        self._user = user

    async def run(self) -> AsyncIterator[bytes]:
        self._open.inc()
        try:
            async for chunk in self._stream():
                yield chunk
        except HistoryExpired as expired:
            error = errors.expired(f"too old resource version: {self._revision} ({expired.oldest})")
            yield self._frames.error(error)
        except SlowWatcher:
            return
        except errors.ApiError as error:
            yield self._frames.error(error)
        finally:
            self._open.dec()

    async def _stream(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._duration()
        if deadline < loop.time():
            return
        if self._options.initial_events:
            await self._catch_up()
            since = self._store.revision
            state = self._store.list(self._bucket, self._selection.namespace)
            changes = self._store.watch(self._bucket, since)
            work = self._selection.work(len(state))
            selected = await self._large.run(self._user, work, partial(self._select, state))
            for part in self._parts_of(selected):
                yield await self._converted(partial(self._added, part))
                await asyncio.sleep(0)  # others are answered between two parts
            if self._options.bookmarks:
                yield self._frames.bookmark(since, end_of_initial=True)
        else:
            since = self._start()
            self._check_history(since)
            changes = self._store.watch(self._bucket, since)
        ticks = _bookmark_times(loop.time(), deadline)
        tick = next(ticks, deadline)
        timer = loop.call_at(tick, changes.interrupt)
        try:
            async for batch in changes:
                if batch:
                    if chunk := await self._converted(partial(self._render, batch)):
                        yield chunk
                    continue
                # By the plan and not by the clock: a timer may fire a hair before its time, again and again.
                if tick >= deadline or not self._still_served():
                    return
                if self._options.bookmarks:
                    yield await self._drained(changes)
                tick = next(ticks, deadline)
                timer = loop.call_at(tick, changes.interrupt)
        finally:
            timer.cancel()

    def _still_served(self) -> bool:
        resource = self._frames.view.kind.resource
        return self._catalog.find(resource.group, resource.version, resource.plural) is not None

    def _duration(self) -> float:
        if self._options.timeout_seconds:
            return float(self._options.timeout_seconds)
        return random.uniform(MIN_DURATION, MAX_DURATION)

    async def _catch_up(self) -> None:
        if self._revision > self._store.revision and not await self._store.wait_for(self._revision, FUTURE_WAIT):
            raise future_revision(self._revision, self._store.revision)

    def _start(self) -> int:
        return self._revision or self._store.revision

    def _check_history(self, since: int) -> None:
        """A custom resource has no past before it was served."""
        if self._frames.view.kind.custom and since < self._frames.view.served_since:
            raise HistoryExpired(self._frames.view.served_since)

    def _select(self, state: Sequence[Stored]) -> list[Stored]:
        return [stored for stored in state if self._selection.matches(stored)]

    def _parts_of(self, selected: list[Stored]) -> Iterator[list[Stored]]:
        """Parts that take a few milliseconds to render."""
        most = STORED_FORM_BYTES if self._frames.media.is_stored_form else RENDERED_BYTES
        part: list[Stored] = []
        size = 0
        for stored in selected:
            part.append(stored)
            size += len(stored.raw)
            if size >= most or len(part) >= INITIAL_CHUNK:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _added(self, part: list[Stored]) -> bytes:
        return b"".join([self._frames.once("ADDED", stored) for stored in part])

    async def _converted(self, render: Callable[[], bytes]) -> bytes:
        """Frames, once the webhook of the definition has converted what is in them."""
        try:
            return render()
        except ConversionNeeded as need:
            assert self._resolve is not None
            await self._resolve(need)

            async def again() -> bytes:
                return render()

            return await with_conversions(again, self._resolve)

    def _render(self, batch: Sequence[Change]) -> bytes:
        if self._shared:
            return self._frames.of_batch(batch, self._selection.namespace)
        return b"".join(filter(None, map(self._frame, batch)))

    def _frame(self, change: Change) -> bytes | None:
        now = change.type != "DELETED" and self._selection.matches(change.after)
        before = change.before is not None and self._selection.matches(change.before)
        if now:
            return self._frames.of("MODIFIED" if before else "ADDED", change.after)
        if not before:
            return None
        if change.type == "DELETED":
            return self._frames.of("DELETED", change.after)
        assert change.before is not None
        return self._frames.of_exit(change.before, change.revision)

    async def _drained(self, changes: Changes) -> bytes:
        """What is left up to now, then a bookmark for now."""
        now = self._store.revision
        chunks = []
        last = 0
        while last < now and (batch := changes.take()):
            chunks.append(await self._converted(partial(self._render, batch)))
            last = batch[-1].revision
        chunks.append(self._frames.bookmark(max(now, last), end_of_initial=False))
        return b"".join(chunks)


def _bookmark_times(start: float, deadline: float) -> Iterator[float]:
    """Every minute, and shortly before the end."""
    last = deadline - LAST_BOOKMARK
    moment = start + BOOKMARK_PERIOD
    while moment < last:
        yield moment
        moment += BOOKMARK_PERIOD
    if last > start:
        yield last
