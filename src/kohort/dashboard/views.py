"""Which view a path means, for one caller. Pages, JSON and live updates all come through here.

| path below /dashboard | view |
|---|---|
| / | the fleet |
| /sets/NAMESPACE/NAME | groups, explanation and resources of a set |
| /sets/NAMESPACE/NAME/history | its revisions; `?from=N&to=N` compares two |
| /sets/NAMESPACE/NAME/events | its events |
| /sets/NAMESPACE/NAME/logs | the logs of its pods |
| /sets/NAMESPACE/NAME/release | the release that is under way |
| /sets/NAMESPACE/NAME/resize | the resize in place that is under way |
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from kohort.dashboard import fleet, set_page
from kohort.dashboard.access import Caller, Rights
from kohort.dashboard.cluster_cache import ClusterCache
from kohort.dashboard.fleet import FleetFilter, FleetRow
from kohort.dashboard.log_stream import MOST_PODS
from kohort.dashboard.pages.fleet import fleet_sections
from kohort.dashboard.pages.release import release_sections
from kohort.dashboard.pages.resize import resize_sections
from kohort.dashboard.pages.set import events_sections, history_sections, logs_sections, set_sections
from kohort.dashboard.release_page import release_page
from kohort.dashboard.resize_page import resize_page
from kohort.dashboard.set_page import Badge, LogsPage
from kohort.dashboard.view import BadRequest, NoSuchPage, View
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.history import NoSuchRevision
from kohort.inspection.progress import progress_of
from kohort.inspection.snapshot import Snapshot
from kohort.kube import clock
from kohort.kube.errors import Forbidden, NotFound
from kohort.kube.resources import EVENTS, Key, Resource
from kohort.objects.core import Event
from kohort.rules.group_identity import parse_index

NO_VERBS: Final[Collection[str]] = frozenset()
_Rows = dict[frozenset[Resource], FleetRow]


class Views:
    def __init__(self, cache: ClusterCache, rights: Rights, verbs: Collection[str] = NO_VERBS) -> None:
        """`verbs` are the actions that pages offer."""
        self._cache = cache
        self._rights = rights
        self._verbs = verbs
        self._rows: dict[Key, _Rows] = {}
        """Rows of the fleet, by what their reader may see. A row is dropped when an object of its set changes."""
        cache.listen(self._forget)

    def _forget(self, key: Key) -> None:
        self._rows.pop(key, None)

    async def find(self, caller: Caller, path: Sequence[str], query: Mapping[str, str]) -> View:
        """Raises NoSuchPage or BadRequest."""
        match list(path):
            case [""]:
                return await self._fleet(caller, query)
            case ["sets", namespace, name]:
                return self._set(await self.snapshot(caller, namespace, name))
            case ["sets", namespace, name, "history"]:
                return self._history(await self.snapshot(caller, namespace, name), query)
            case ["sets", namespace, name, "events"]:
                return await self._events(caller, await self.snapshot(caller, namespace, name))
            case ["sets", namespace, name, "logs"]:
                found = await self.snapshot(caller, namespace, name)
                page = self.logs(found, query)
                title = f"Logs of {name}"
                return View(title, "fleet", page, logs_sections(page, MOST_PODS), refreshes=False)
            case ["sets", namespace, name, "release"]:
                return self._release(await self.snapshot(caller, namespace, name))
            case ["sets", namespace, name, "resize"]:
                return self._resize(await self.snapshot(caller, namespace, name))
        raise NoSuchPage(f"there is no page {'/'.join(path)}")

    # The fleet

    async def _fleet(self, caller: Caller, query: Mapping[str, str]) -> View:
        try:
            wanted = fleet.read_filter(query)
        except fleet.BadFilter as problem:
            raise BadRequest(str(problem)) from problem
        found = [one for key in self._cache.set_keys() if (one := self._cache.sets.get(key)) is not None]
        visible = await self._rights.namespaces(caller, {one.metadata.namespace for one in found})
        seen = [one for one in found if one.metadata.namespace in visible]
        readable = {one: await self._rights.readable(caller, one) for one in _shown_namespaces(seen, wanted)}
        now = clock.now()

        def row(key: Key) -> FleetRow | None:
            return self._row(key, readable.get(key.namespace, frozenset()), now)

        model = fleet.fleet_of(seen, wanted, row, now)
        return View("Fleet", "fleet", model, fleet_sections(model))

    def _row(self, key: Key, readable: frozenset[Resource], now: datetime) -> FleetRow | None:
        rows = self._rows.get(key)
        known = rows.get(readable) if rows is not None else None
        if known is not None and known.release is None:
            return known
        snapshot = self._cache.snapshot(key, readable)
        if snapshot is None:
            return None
        made = fleet.row_of(snapshot, now)
        self._rows.setdefault(key, {})[readable] = made
        return made

    # One set

    async def snapshot(self, caller: Caller, namespace: str, name: str) -> Snapshot:
        readable = await self._rights.readable(caller, namespace)
        found = self._cache.snapshot(Key(namespace, name), readable) if readable else None
        if found is None:
            raise NoSuchPage(f"there is no LeaderWorkerSet {name} in namespace {namespace} that you may see")
        return found

    async def badge(self, caller: Caller, namespace: str, name: str) -> Badge:
        found = await self.snapshot(caller, namespace, name)
        return set_page.badge_of(found, progress_of(found, clock.now()))

    def _set(self, snapshot: Snapshot) -> View:
        model, causes = set_page.set_page(snapshot, clock.now())
        return View(snapshot.name, "fleet", model, set_sections(model, causes, self._verbs), _about(snapshot))

    def _history(self, snapshot: Snapshot, query: Mapping[str, str]) -> View:
        before, after = _number(query, "from"), _number(query, "to")
        try:
            model = set_page.history_page(snapshot, clock.now(), before, after)
        except NoSuchRevision as problem:
            raise BadRequest(str(problem)) from problem
        title = f"History of {snapshot.name}"
        return View(title, "fleet", model, history_sections(model, self._verbs), _about(snapshot))

    async def _events(self, caller: Caller, snapshot: Snapshot) -> View:
        """Read with the rights of the caller, when they are looked at: a cache of all events would be large."""
        try:
            found = await caller.client.list(EVENTS, snapshot.metadata.namespace, type=Event)
        except (Forbidden, NotFound):
            events: Sequence[Event] = ()
        else:
            events = found.items
        model = set_page.events_page(snapshot, events, clock.now())
        return View(f"Events of {snapshot.name}", "fleet", model, events_sections(model), _about(snapshot))

    def logs(self, snapshot: Snapshot, query: Mapping[str, str]) -> LogsPage:
        return set_page.logs_page(snapshot, clock.now(), _number(query, "group"), query.get("container", ""))

    def _release(self, snapshot: Snapshot) -> View:
        model = release_page(snapshot, clock.now())
        if model is None:
            raise NoSuchPage(f"no Rollout releases LeaderWorkerSet {snapshot.name}")
        title = f"Release of {snapshot.name}"
        return View(title, "fleet", model, release_sections(model, self._verbs), _about(snapshot))

    def _resize(self, snapshot: Snapshot) -> View:
        model = resize_page(snapshot, clock.now())
        return View(f"Resize of {snapshot.name}", "fleet", model, resize_sections(model), _about(snapshot))


def _about(snapshot: Snapshot) -> frozenset[Key]:
    return frozenset({Key(snapshot.metadata.namespace, snapshot.name)})


def _shown_namespaces(seen: Sequence[LeaderWorkerSet], wanted: FleetFilter) -> set[str]:
    return {one.metadata.namespace for one in seen if wanted.namespace in ("", one.metadata.namespace)}


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    number = parse_index(text)
    if number is None or len(text) > 9:
        raise BadRequest(f"{name}: {text!r} is not a number")
    return number
