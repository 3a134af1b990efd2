"""Which view a path means, for one caller. Pages, JSON and live updates all come through here.

| path below /dashboard | view |
|---|---|
| / | the fleet |
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from kohort.dashboard import fleet
from kohort.dashboard.access import Caller, Rights
from kohort.dashboard.cluster_cache import ClusterCache
from kohort.dashboard.fleet import FleetRow
from kohort.dashboard.pages.fleet import fleet_sections
from kohort.dashboard.view import BadRequest, NoSuchPage, View
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.kube import clock
from kohort.kube.resources import Key, Resource

_Rows = dict[frozenset[Resource], FleetRow]


class Views:
    def __init__(self, cache: ClusterCache, rights: Rights) -> None:
        self._cache = cache
        self._rights = rights
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
        raise NoSuchPage(f"there is no page {'/'.join(path)}")

    async def _fleet(self, caller: Caller, query: Mapping[str, str]) -> View:
        try:
            wanted = fleet.read_filter(query)
        except fleet.BadFilter as problem:
            raise BadRequest(str(problem)) from problem
        found = [one for key in self._cache.set_keys() if (one := self._cache.sets.get(key)) is not None]
        visible = await self._rights.namespaces(caller, {one.metadata.namespace for one in found})
        seen = [one for one in found if one.metadata.namespace in visible]
        readable = {one: await self._rights.readable(caller, one) for one in self._shown_namespaces(seen, wanted)}
        now = clock.now()

        def row(key: Key) -> FleetRow | None:
            return self._row(key, readable.get(key.namespace, frozenset()), now)

        model = fleet.fleet_of(seen, wanted, row, now)
        return View("Fleet", "fleet", model, fleet_sections(model))

    def _shown_namespaces(self, seen: Sequence[LeaderWorkerSet], wanted: fleet.FleetFilter) -> set[str]:
        return {one.metadata.namespace for one in seen if wanted.namespace in ("", one.metadata.namespace)}

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
