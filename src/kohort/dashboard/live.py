"""Live updates: each open page has one stream of server-sent events with the sections that have changed.

What a stream costs is bounded: it remembers digests, not pages; changes that come while a page is made or sent are
gathered into one; a page that takes long to make is made less often. A browser that reads slowly delays only itself,
and one that takes nothing for long loses its connection (`server.EventStream`), which it opens again by itself.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from kohort.dashboard.cluster_cache import ClusterCache
from kohort.dashboard.view import Section, SectionPart, View
from kohort.kube.resources import Key

GATHER_SECONDS: Final = 0.02
"""For which changes are gathered: a roll makes dozens of them at once."""
TICK_SECONDS: Final = 15.0
"""After which a page is made anew without a change, because ages pass; also how often a quiet stream shows life."""
_SHARE: Final = 1.0
"""A page that takes a second to make is made again after a pause of so many seconds at the earliest."""


class ChangedWorkloads:
    """The sets that have changed since a stream last looked."""

    def __init__(self) -> None:
        self._keys: set[Key] = set()
        self._flag = asyncio.Event()

    def add(self, key: Key) -> None:
        self._keys.add(key)
        self._flag.set()

    async def wait(self, about: frozenset[Key], unseen: frozenset[str] = frozenset()) -> None:
        """Until one of these sets has changed (if none are given, any but those of `unseen` namespaces), or a tick has
        passed."""
        try:
            async with asyncio.timeout(TICK_SECONDS):
                while True:
                    await self._flag.wait()
                    self._flag.clear()
                    if about & self._keys if about else any(one.namespace not in unseen for one in self._keys):
                        return
                    self._keys.clear()
        except TimeoutError:
            return
        finally:
            self._keys.clear()


class Broadcast:
    """Passes changes of the cache on to the streams that are open."""

    def __init__(self, cache: ClusterCache) -> None:
        self._open: set[ChangedWorkloads] = set()
        cache.listen(self._changed)

    def _changed(self, key: Key) -> None:
        for one in self._open:
            one.add(key)

    def open(self) -> ChangedWorkloads:
        changes = ChangedWorkloads()
        self._open.add(changes)
        return changes

    def close(self, changes: ChangedWorkloads) -> None:
        self._open.discard(changes)


class Update(msgspec.Struct, frozen=True):
    id: str
    html: str


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def page_digest(view: View) -> str:
    """Of all that a page shows: a browser that has it needs no first update."""
    return digest("".join(one.html for one in view.sections))


class SentSections:
    """What one browser has, as digests, and what it needs to have a view."""

    def __init__(self) -> None:
        self._whole: dict[str, str] = {}
        self._frames: dict[str, str] = {}
        self._parts: dict[str, dict[str, str]] = {}
        """By section."""

    def has(self, view: View) -> None:
        """The browser has this view already."""
        for one in view.sections:
            self._remember(one)

    def updates(self, view: View) -> list[Update]:
        found: list[Update] = []
        for one in view.sections:
            if self._whole.get(one.id) == digest(one.html):
                continue
            if one.parts and self._frames.get(one.id) == digest(one.frame):
                found += [Update(part.id, str(part.html)) for part in one.parts if self._differs(one, part)]
            else:
                found.append(Update(one.id, str(one.html)))
            self._remember(one)
        return found

    def _differs(self, section: Section, part: SectionPart) -> bool:
        return self._parts.get(section.id, {}).get(part.id) != digest(part.html)

    def _remember(self, section: Section) -> None:
        self._whole[section.id] = digest(section.html)
        if section.parts:
            self._frames[section.id] = digest(section.frame)
            self._parts[section.id] = {one.id: digest(one.html) for one in section.parts}


async def updates_of(
    make: Callable[[], Awaitable[View]], changes: ChangedWorkloads, known: str, streams: Callable[[], int] = lambda: 1
) -> AsyncIterator[list[Update]]:
    """Lists of updates, and an empty one to show life after a time without any: one for each change would tell a user
    when something changes in other namespaces. `known` is the digest of the page that the browser has, `streams` says
    how many pages this user has open: together they cost as much as one."""
    clock = asyncio.get_running_loop().time
    sent = SentSections()
    view = await make()
    if page_digest(view) == known:
        sent.has(view)
    about, unseen, updates = view.about, view.unseen, sent.updates(view)
    del view  # It is large, and a stream may wait for long.
    yield updates
    sent_at = clock()
    while True:
        await changes.wait(about, unseen)
        await asyncio.sleep(GATHER_SECONDS)
        start = clock()
        view = await make()
        about, unseen, updates = view.about, view.unseen, sent.updates(view)
        del view
        took = clock() - start
        if updates or clock() - sent_at >= TICK_SECONDS:
            yield updates
            sent_at = clock()
        await asyncio.sleep(_SHARE * took * max(1, streams()))
