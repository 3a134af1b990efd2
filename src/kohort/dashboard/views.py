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
| /sets/NAMESPACE/NAME/failures | failures of its groups, with what was kept of them |
| /sets/NAMESPACE/NAME/actions/VERB | the preview of an action |
| /nodes | nodes by topology, with groups and free accelerators |
| /nodes/NAME/drain | what a drain of a node would take |
| /what-if | a form for a manifest; `?set=NAMESPACE/NAME` begins with a set |
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from kohort.dashboard import fleet, set_page
from kohort.dashboard.access import Caller, Rights
from kohort.dashboard.action_page import preview, read_request, state_of
from kohort.dashboard.cluster_cache import ClusterCache
from kohort.dashboard.commands import Commands, Refused
from kohort.dashboard.fleet import FleetFilter, FleetRow
from kohort.dashboard.log_stream import MOST_PODS
from kohort.dashboard.nodes_page import PodRequests, nodes_page
from kohort.dashboard.pages.action import action_sections
from kohort.dashboard.pages.drain import drain_sections
from kohort.dashboard.pages.fleet import fleet_sections
from kohort.dashboard.pages.nodes import nodes_sections
from kohort.dashboard.pages.release import release_sections
from kohort.dashboard.pages.resize import resize_sections
from kohort.dashboard.pages.set import (
    events_sections,
    failures_sections,
    history_sections,
    logs_sections,
    set_sections,
)
from kohort.dashboard.pages.what_if import what_if_sections
from kohort.dashboard.release_page import release_page
from kohort.dashboard.resize_page import resize_page
from kohort.dashboard.set_page import Badge, LogsPage
from kohort.dashboard.view import BadRequest, NoSuchPage, View
from kohort.dashboard.what_if_page import MOST_CHARACTERS, WhatIfPage, manifest_of, what_if_page
from kohort.groups.caches import owned_by, sets_of
from kohort.groups.failure_evidence import KEY, decoded
from kohort.groups.failure_recorder import config_map_name
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.drain_forecast import forecast_drain
from kohort.inspection.history import NoSuchRevision
from kohort.inspection.progress import progress_of
from kohort.inspection.snapshot import Snapshot
from kohort.kube import clock
from kohort.kube.errors import Forbidden, NotFound
from kohort.kube.resources import ANALYSIS_RUNS, CONFIG_MAPS, EVENTS, NODES, PODS, Key, Resource
from kohort.objects.core import ConfigMap, Event, Node, Pod
from kohort.rules.group_identity import parse_index

NO_VERBS: Final[Collection[str]] = frozenset()
_Rows = dict[frozenset[Resource], FleetRow]


class ActionResult(NamedTuple):
    command: str
    words: str
    snapshot: Snapshot


class Views:
    def __init__(
        self, cache: ClusterCache, rights: Rights, commands: Commands, verbs: Collection[str] = NO_VERBS
    ) -> None:
        """`verbs` are the actions that pages offer."""
        self._commands = commands
        self._cache = cache
        self._rights = rights
        self._verbs = verbs
        self._rows: dict[Key, _Rows] = {}
        """Rows of the fleet, by what their reader may see. A row is dropped when an object of its set changes."""
        self._pod_requests = PodRequests()
        cache.listen(self._forget)

    def _forget(self, key: Key) -> None:
        self._rows.pop(key, None)

    async def find(self, caller: Caller, path: Sequence[str], query: Mapping[str, str], csrf: str = "") -> View:
        """`csrf` goes into the forms of the page. Raises NoSuchPage or BadRequest."""
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
                return await self._release(caller, await self.snapshot(caller, namespace, name))
            case ["sets", namespace, name, "resize"]:
                return self._resize(await self.snapshot(caller, namespace, name))
            case ["sets", namespace, name, "failures"]:
                return await self._failures(caller, await self.snapshot(caller, namespace, name))
            case ["sets", namespace, name, "actions", verb] if verb in self._verbs:
                return await self._action(caller, await self.snapshot(caller, namespace, name), verb, query, csrf)
            case ["nodes"]:
                return await self._nodes(caller, query)
            case ["nodes", node, "drain"]:
                return await self._drain(caller, node)
            case ["what-if"]:
                return await self._begin_what_if(caller, query, csrf)
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

    async def _release(self, caller: Caller, snapshot: Snapshot) -> View:
        readable = await self._rights.readable(caller, snapshot.metadata.namespace)
        sees_runs = snapshot.rollout is not None and ANALYSIS_RUNS in readable
        runs = self._cache.analysis_runs(snapshot.rollout) if snapshot.rollout is not None and sees_runs else []
        model = release_page(snapshot, clock.now(), runs)
        if model is None:
            raise NoSuchPage(f"no Rollout releases LeaderWorkerSet {snapshot.name}")
        title = f"Release of {snapshot.name}"
        return View(title, "fleet", model, release_sections(model, self._verbs), _about(snapshot))

    def _resize(self, snapshot: Snapshot) -> View:
        model = resize_page(snapshot, clock.now())
        return View(f"Resize of {snapshot.name}", "fleet", model, resize_sections(model), _about(snapshot))

    async def _failures(self, caller: Caller, snapshot: Snapshot) -> View:
        """Read with the rights of the caller: logs are kept there."""
        metadata = snapshot.metadata
        try:
            kept = await caller.client.find(
                CONFIG_MAPS, config_map_name(metadata.name), metadata.namespace, type=ConfigMap
            )
        except Forbidden:
            kept = None
        ours = kept is not None and owned_by(kept.metadata, snapshot.group_set)
        found = decoded(kept.data.get(KEY, "")) if kept is not None and ours else []
        model = set_page.failures_page(snapshot, found, clock.now())
        return View(f"Failures of {snapshot.name}", "fleet", model, failures_sections(model), _about(snapshot))

    # Nodes

    async def _nodes(self, caller: Caller, query: Mapping[str, str]) -> View:
        cache = self._cache
        nodes = await self._readable_nodes(caller)
        pods, everything = await self._readable_pods(caller)
        sets = await self._rights.namespaces(caller, {one.metadata.namespace for one in cache.sets.list()})
        exclusive = {one.exclusive_topology for one in cache.sets.list() if one.metadata.namespace in sets}
        page = _number(query, "page") or 1
        model = nodes_page(nodes, pods, exclusive, page, self._pod_requests, partial=not everything)
        return View("Nodes", "nodes", model, nodes_sections(model))

    async def _readable_nodes(self, caller: Caller) -> list[Node]:
        if self._cache.nodes is None or not await self._rights.may_list(caller, NODES):
            raise NoSuchPage("nodes may not be listed by this user")
        return self._cache.nodes.list()

    async def _readable_pods(self, caller: Caller) -> tuple[list[Pod], bool]:
        """Pods on all nodes, and whether these are all there are."""
        cache = self._cache
        everything = await self._rights.may_list(caller, PODS) and not cache.confined
        pods = [*cache.pods.list(), *(cache.other_pods.list() if cache.other_pods is not None else ())]
        if not everything:
            namespaces = {one.metadata.namespace for one in pods}
            seen = {one for one in namespaces if await self._rights.may_list(caller, PODS, one)}
            pods = [one for one in pods if one.metadata.namespace in seen]
        return pods, everything

    async def _drain(self, caller: Caller, node: str) -> View:
        if all(one.metadata.name != node for one in await self._readable_nodes(caller)):
            raise NoSuchPage(f"there is no node {node}")
        pods, everything = await self._readable_pods(caller)
        here = [one for one in pods if one.spec.node_name == node and not one.finished]
        keys = sorted({key for pod in here for key in sets_of(pod)})
        sets = []
        for key in keys:
            readable = await self._rights.readable(caller, key.namespace)
            if readable and (found := self._cache.snapshot(key, readable)) is not None:
                sets.append(found)
        model = forecast_drain(node, here, sets)
        return View(f"Drain of {node}", "nodes", model, drain_sections(model, partial=not everything))

    # What is asked of the cluster

    async def _action(self, caller: Caller, snapshot: Snapshot, verb: str, query: Mapping[str, str], csrf: str) -> View:
        request = read_request(verb, snapshot.metadata.namespace, snapshot.name, query)
        model = await preview(self._commands, caller.client, snapshot, request)
        title = f"{verb.capitalize()} {snapshot.name}"
        return View(title, "fleet", model, action_sections(model, csrf), refreshes=False)

    async def act(self, caller: Caller, namespace: str, name: str, verb: str, given: Mapping[str, str]) -> ActionResult:
        """Does it, if the set is still what the preview was about. Raises Refused."""
        if verb not in self._verbs:
            raise NoSuchPage("this dashboard does not act: start it with --allow-actions")
        snapshot = await self.snapshot(caller, namespace, name)
        request = read_request(verb, namespace, name, given)
        if given.get("seen") and given["seen"] != state_of(snapshot):
            raise Refused(f"LeaderWorkerSet {name} has changed since the preview; look at it again")
        words = await self._commands.act(caller.client, request)
        return ActionResult(request.text, words, snapshot)

    async def _begin_what_if(self, caller: Caller, query: Mapping[str, str], csrf: str) -> View:
        namespace, _, name = query.get("set", "").partition("/")
        manifest = ""
        if name:
            manifest = manifest_of((await self.snapshot(caller, namespace, name)).group_set)
        model = WhatIfPage(namespace or "default", manifest, "")
        return View("What if", "what-if", model, what_if_sections(model, csrf), refreshes=False)

    async def what_if(self, caller: Caller, namespace: str, manifest: str, csrf: str) -> View:
        if len(manifest) > MOST_CHARACTERS:
            raise BadRequest(f"manifest: has {len(manifest)} characters; at most {MOST_CHARACTERS} are allowed")
        model = await what_if_page(self._commands, caller.client, namespace or "default", manifest)
        return View("What if", "what-if", model, what_if_sections(model, csrf), refreshes=False)


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
