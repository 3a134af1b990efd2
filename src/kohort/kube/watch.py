"""Watches a collection without end, and keeps a sink at a state that the server really had.

A single watch request ends often: the server closes it after some minutes, the connection breaks, the history that it
needs is gone. `Follower` hides all of that. Towards its `Sink` there is never a gap and never a duplicate:

* the first state, and any state after lost history, arrives as one `replace` with everything;
* every later change arrives once, in the server's order, through `change`;
* after a cut the next watch starts at the last version that the sink has seen, changes and bookmarks both counting.

How a state is obtained, best first:

| way                                       | when                                                           |
|-------------------------------------------|----------------------------------------------------------------|
| streaming list (`sendInitialEvents=true`) | first choice: constant memory on both sides                    |
| list in chunks, then watch                | the server refused the parameter, or took it and stayed silent |

The last case is for servers that ignore the parameter: they send every object and no bookmark at the end.
`_BOOKMARK_TIMEOUT` seconds without an event before that bookmark are taken as this case.

Both ways read the newest state (no `resourceVersion`), so a cache never goes back in time, whichever server behind a
load balancer answers.

Events at or below the version already seen are dropped: within one resource the server sends in version order, so they
can only be repetitions.

Pauses before the next attempt grow, each kind of failure for itself:

| failure                         | longest pause | because                                                          |
|---------------------------------|--------------:|------------------------------------------------------------------|
| the server cannot be reached    |           5 s | a refused connection is cheap, a stale cache is not              |
| it needs newer history (410)    |          30 s | the server answers: a full list follows at once the first time   |
| anything else that it answers   |          30 s | it is busy or broken: asking more often does not help            |
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Generic, Protocol

import msgspec

from kohort.kube import errors
from kohort.kube.backoff import Backoff
from kohort.kube.client import Client, Selection
from kohort.kube.log import Log
from kohort.kube.object_identity import T, key_of, newer, version_of
from kohort.kube.resources import Key
from kohort.kube.value_interning import ValueInterner
from kohort.kube.watch_frames import Bookmark, ChangeType, Unreadable, WatchEvent, tolerant_decode, unreadable

_log = Log(module="kohort.kube.watch")

_CHUNK = 500
_BOOKMARK_TIMEOUT = 10.0
_TIMEOUT_SECONDS = (300, 600)
"""Watches end after a random time in this range, so that they spread over the servers behind a load balancer."""
_OVERTIME = 30.0
"""A watch that is open for this long after its timeout hangs on a dead connection."""
_SHORT = 1.0
"""A watch that ends sooner and brought nothing counts as a failure, so that a broken server is not flooded."""

_ABSENT = 5.0

Item = WatchEvent[T] | Bookmark | Unreadable


class Sink(Protocol[T]):
    def replace(self, objects: dict[Key, T]) -> None:
        """Replace the whole content."""
        ...

    def change(self, type: ChangeType, key: Key, obj: T) -> None: ...

    def forget(self, key: Key) -> None:
        """The object exists but cannot be read as the wanted view."""
        ...


class _RawPage(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: errors.ListMeta = msgspec.field(default_factory=errors.ListMeta)


_RAW_PAGE = msgspec.json.Decoder(_RawPage)


class Follower(Generic[T]):
    def __init__(self, client: Client, selection: Selection, view: type[T], sink: Sink[T]) -> None:
        self._client = client
        self._selection = selection
        self._view = view
        self._sink = sink
        self._seen = ""
        """Resource version up to which the sink is complete; empty when it must be filled from scratch."""
        self._decoder = msgspec.json.Decoder(view)
        self._interner = ValueInterner(view)
        self._streams_lists = True
        self._absence = Backoff(limit=_ABSENT)
        self._expiry = Backoff()
        self._refusal = Backoff()
        self._log = _log.bind(resource=selection.resource.qualified)

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            try:
                await self._follow_once()
            except errors.Expired as problem:
                self._seen = ""
                self._absence.reset()
                await self._pause(problem, self._expiry)
            except (errors.Unreachable, TimeoutError, OSError) as problem:
                await self._pause(problem, self._absence)
            except (errors.ApiError, msgspec.DecodeError) as problem:
                await self._pause(problem, self._refusal)

    async def _follow_once(self) -> None:
        """From the present knowledge to the end of one watch request, or to a full state."""
        if self._seen:
            await self._resume()
        elif self._streams_lists:
            await self._stream_list()
        else:
            await self._list()

    async def _pause(self, problem: Exception, backoff: Backoff) -> None:
        pause = backoff.next()
        self._log.warning("watch interrupted", problem=str(problem) or type(problem).__name__, pause=round(pause, 2))
        await asyncio.sleep(pause)

    # A full state

    async def _stream_list(self) -> None:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            async with self._watching(query) as items:
                state, version = await self._initial_state(items)
                self._complete(state, version)
                await self._consume(items)
        except TimeoutError:
            if self._seen:
                raise
            self._stop_streaming(f"no end of the initial events after {_BOOKMARK_TIMEOUT:g} s of silence")
        except (errors.BadRequest, errors.Invalid, errors.NotAcceptable, errors.MethodNotAllowed) as problem:
            if self._seen:
                raise
            self._stop_streaming(problem.message)

    async def _initial_state(self, items: "AsyncIterator[Item[T]]") -> tuple[dict[Key, T], str]:
        state: dict[Key, T] = {}
        clock = asyncio.get_running_loop().time
        last_event = clock()
        async with asyncio.timeout(_BOOKMARK_TIMEOUT) as deadline:
            async for item in items:
                if clock() - last_event > 1.0:
                    last_event = clock()
                    deadline.reschedule(last_event + _BOOKMARK_TIMEOUT)
                if isinstance(item, WatchEvent):
                    self._gather(state, item)
                elif isinstance(item, Unreadable):
                    self._report(item)
                elif item.initial_events_end:
                    return state, item.resource_version
        raise errors.Unreachable("the watch ended before the initial state was complete")

    def _gather(self, state: dict[Key, T], event: WatchEvent[T]) -> None:
        if event.type == "DELETED":
            state.pop(key_of(event.object), None)
        else:
            # Before the next one is decoded: what is freed later would leave holes that the process keeps.
            self._interner.intern(event.object)
            state[key_of(event.object)] = event.object

    def _stop_streaming(self, reason: str) -> None:
        self._log.info("no streaming list, listing instead", reason=reason)
        self._streams_lists = False

    async def _list(self) -> None:
        state: dict[Key, T] = {}
        version = token = ""
        while True:
            raw = await self._client.list_bytes(self._selection, {"limit": str(_CHUNK), "continue": token})
            page = _RAW_PAGE.decode(raw)
            version = version or page.metadata.resource_version
            for item in page.items or ():
                self._read(item, state)
            token = page.metadata.continue_
            if not token:
                break
        self._complete(state, version)

    def _read(self, item: msgspec.Raw, state: dict[Key, T]) -> None:
        try:
            obj = tolerant_decode(self._decoder, item)
        except msgspec.ValidationError as problem:
            self._report(unreadable(item, problem))
            return
        if isinstance(obj, dict):
            obj.setdefault("apiVersion", self._selection.resource.api_version)
            obj.setdefault("kind", self._selection.resource.kind)
        self._interner.intern(obj)
        state[key_of(obj)] = obj

    def _complete(self, state: dict[Key, T], version: str) -> None:
        if not version:
            raise errors.failure(500, "InternalError", "the server gave a list without a resource version")
        self._sink.replace(state)
        self._seen = version
        self._absence.reset()
        self._refusal.reset()

    # Changes

    async def _resume(self) -> None:
        loop = asyncio.get_running_loop()
        start, before = loop.time(), self._seen
        async with self._watching({"resourceVersion": self._seen}) as items:
            await self._consume(items)
        if self._seen == before and loop.time() - start < _SHORT:
            raise errors.failure(500, "InternalError", "the watch ended at once and brought nothing")
        self._progress()

    async def _consume(self, items: "AsyncIterator[Item[T]]") -> None:
        async for item in items:
            if isinstance(item, WatchEvent):
                if self._advance(version_of(item.object)):
                    self._interner.intern(item.object)
                    self._sink.change(item.type, key_of(item.object), item.object)
            elif self._advance(item.resource_version) and isinstance(item, Unreadable):
                self._report(item)
                self._sink.forget(Key(item.namespace, item.name))

    def _advance(self, version: str) -> bool:
        """Record the version; False if it was seen already."""
        if not newer(version, self._seen):
            return False
        self._seen = version
        self._progress()
        return True

    def _progress(self) -> None:
        for backoff in (self._absence, self._expiry, self._refusal):
            backoff.reset()

    def _report(self, item: Unreadable) -> None:
        self._log.error(
            "failed to decode an object; it is left out of the cache",
            namespace=item.namespace,
            name=item.name,
            problem=item.problem,
        )

    @asynccontextmanager
    async def _watching(self, query: Mapping[str, str]) -> "AsyncIterator[AsyncIterator[Item[T]]]":
        seconds = random.randint(*_TIMEOUT_SECONDS)
        asked = {"allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **query}
        async with (
            asyncio.timeout(seconds + _OVERTIME),
            aclosing(self._client.watch_stream(self._selection, self._view, asked)) as items,
        ):
            yield items
