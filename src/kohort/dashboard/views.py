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
| /deployments/NAMESPACE/NAME | a Deployment that a Rollout names; below it `PAGES_WITHOUT_GROUPS` |
| /statefulsets/NAMESPACE/NAME | the same of a StatefulSet |
| /nodes | nodes by topology, with groups and free accelerators |
| /nodes/NAME/drain | what a drain of a node would take |
| /what-if | a form for a manifest; `?set=NAMESPACE/NAME` begins with a set |
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec.structs import replace

from kohort.dashboard import fleet, set_page
from kohort.dashboard.access import Caller, ListRights
from kohort.dashboard.action_page import action_form, preview, read_request, state_of
from kohort.dashboard.cluster_cache import NODES_KEY, ClusterCache
from kohort.dashboard.commands import PARAMETERS, VERBS_WITHOUT_GROUPS, ActionRefused, ActionRequest, Commands, Verb
from kohort.dashboard.fleet import FleetFilter, FleetRow
from kohort.dashboard.log_stream import MOST_PODS, ContainerLog
from kohort.dashboard.node_volumes import claims_bound_to_node
from kohort.dashboard.nodes_page import PodRequests, nodes_page
from kohort.dashboard.pages.action import action_sections, form_sections
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
    workload_sections,
)
from kohort.dashboard.pages.what_if import what_if_sections
from kohort.dashboard.release_page import release_page
from kohort.dashboard.resize_page import resize_page
from kohort.dashboard.set_page import Badge, LogsPage
from kohort.dashboard.view import BadParameter, NoSuchPage, NoSuchWorkload, View
from kohort.dashboard.what_if_page import MOST_CHARACTERS, WhatIfPage, manifest_of, what_if_page
from kohort.dashboard.workload_kinds import BY_PATH, GROUP_SETS, KINDS, OTHERS, WorkloadKind
from kohort.groups.caches import owned_by, sets_of
from kohort.groups.failure_evidence import KEY, GroupFailure, decoded
from kohort.groups.failure_recorder import config_map_name
from kohort.groups.node_loss import not_ready_since
from kohort.inspection.drain_forecast import forecast_drain
from kohort.inspection.history import NoSuchRevision
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.kube import clock
from kohort.kube.errors import Forbidden
from kohort.kube.resources import (
    ANALYSIS_RUNS,
    CONFIG_MAPS,
    EVENTS,
    LEADER_WORKER_SETS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLLOUTS,
    Key,
    Resource,
)
from kohort.objects.core import ConfigMap, Event, Node, PersistentVolumeClaim, Pod
from kohort.objects.policy import PodDisruptionBudget
from kohort.rules.group_identity import parse_index

PAGES_WITHOUT_GROUPS: Final = ("", "/history", "/events", "/logs", "/release", "/actions/{verb}")
PATHS: Final = (
    "",
    "sets/{namespace}/{name}",
    "sets/{namespace}/{name}/history",
    "sets/{namespace}/{name}/events",
    "sets/{namespace}/{name}/logs",
    "sets/{namespace}/{name}/release",
    "sets/{namespace}/{name}/resize",
    "sets/{namespace}/{name}/failures",
    "sets/{namespace}/{name}/actions/{verb}",
    *(f"{one.path}/{{namespace}}/{{name}}{page}" for one in OTHERS for page in PAGES_WITHOUT_GROUPS),
    "nodes",
    "nodes/{node}/drain",
    "what-if",
)
"""All views; what is not listed here is not shown."""
NO_VERBS: Final[Collection[str]] = frozenset()
_Rows = dict[frozenset[Resource], tuple[FleetRow, datetime]]
"""Rows of one workload by what their reader may see, and when each was made."""
COUNTED_SECONDS: Final = 10.0
"""How old the explanation of a set that starts may be when those that fail are counted: with 1,000 of them, each update
would make all anew."""
RENEWED_AT_ONCE: Final = 200
"""How many of these one page makes anew at most, so that no update waits for 1,000 of them; the next page goes on."""


class ActionResult(NamedTuple):
    request: ActionRequest
    words: str
    subject: Snapshot | PlainWorkload
    """As it was before."""

    @property
    def command(self) -> str:
        return self.request.text

    @property
    def shown_on(self) -> tuple[str, ...]:
        """The page of the set that shows what follows."""
        found = self.subject
        resizing = isinstance(found, Snapshot) and found.group_set.status.resize is not None
        if self.request.verb is Verb.RESIZE or (self.request.verb is Verb.RETRY and resizing):
            return ("resize",)
        return ("release",) if found.rollout is not None and self.request.verb is not Verb.SCALE else ()


class Views:
    def __init__(
        self, cache: ClusterCache, rights: ListRights, commands: Commands, verbs: Collection[str] = NO_VERBS
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
        if not any(_fits(path, one) for one in PATHS):
            raise NoSuchPage(f"there is no page {'/'.join(path)}")
        match list(path):
            case [""]:
                return await self._fleet(caller, query)
            case [kind, namespace, name] if kind in BY_PATH:
                return await self._overview(caller, await self.subject(caller, BY_PATH[kind], namespace, name), query)
            case [kind, namespace, name, "history"] if kind in BY_PATH:
                return self._history(await self.subject(caller, BY_PATH[kind], namespace, name), query)
            case [kind, namespace, name, "events"] if kind in BY_PATH:
                return await self._events(caller, await self.subject(caller, BY_PATH[kind], namespace, name))
            case [kind, namespace, name, "logs"] if kind in BY_PATH:
                page = self.logs(await self.subject(caller, BY_PATH[kind], namespace, name), query)
                title = f"Logs of {name}"
                return View(title, "fleet", page, logs_sections(page, MOST_PODS), refreshes=False)
            case [kind, namespace, name, "release"] if kind in BY_PATH:
                return await self._release(caller, await self.subject(caller, BY_PATH[kind], namespace, name))
            case ["sets", namespace, name, "resize"]:
                return self._resize(await self.snapshot(caller, namespace, name))
            case ["sets", namespace, name, "failures"]:
                return await self._failures(caller, await self.snapshot(caller, namespace, name))
            case [kind, namespace, name, "actions", verb] if kind in BY_PATH:
                self._check_verb(BY_PATH[kind], verb)
                found = await self.subject(caller, BY_PATH[kind], namespace, name)
                return await self._action(caller, found, verb, query, csrf)
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
            raise BadParameter(str(problem)) from problem
        found = [one for key in self._cache.set_keys() if (one := self._cache.sets.get(key)) is not None]
        visible = await self._rights.namespaces(caller, {one.metadata.namespace for one in found})
        seen: list[fleet.Listable] = [one for one in found if one.metadata.namespace in visible]
        seen += await self._workloads(caller)
        readable = await self._readable(caller, _shown_namespaces(seen, wanted))
        now = clock.now()
        renewable = iter(range(RENEWED_AT_ONCE))

        def row(kind: str, key: Key) -> FleetRow | None:
            return self._row(KINDS[kind], key, readable.get(key.namespace, frozenset()), now)

        def fails(one: fleet.Listed) -> bool:
            kind = KINDS[one.kind]
            if one.state == "Available" and not self._cache.is_released(kind.key(one.key.namespace, one.key.name)):
                return False  # Nothing is left to do, so there is no cause.
            seen_kinds = readable.get(one.key.namespace, frozenset())
            known, made_at = self._known_row(kind, one.key, seen_kinds) or (None, now)
            if known is not None:
                outdated = known.passes_with_time and (now - made_at).total_seconds() >= COUNTED_SECONDS
                if not outdated or next(renewable, None) is None:
                    return known.fails
            made = self._make_row(kind, one.key, seen_kinds, now)
            return made is not None and made.fails

        model = fleet.fleet_of(seen, wanted, row, fails, now)
        known = {one.metadata.namespace for one in found} | {key.namespace for _, key in self._cache.workload_keys()}
        unseen = frozenset(known - {one.metadata.namespace for one in seen}) | {NODES_KEY.namespace}
        return View("Fleet", "fleet", model, fleet_sections(model), unseen=unseen)

    async def _readable(self, caller: Caller, namespaces: Collection[str]) -> dict[str, frozenset[Resource]]:
        """What the caller may list in each: all reviews at once, as many as the rights allow."""
        names = sorted(namespaces)
        found = await asyncio.gather(*(self._rights.readable(caller, one) for one in names))
        return dict(zip(names, found, strict=True))

    async def _workloads(self, caller: Caller) -> list[PlainWorkload]:
        """Deployments and StatefulSets that a Rollout names, with what filters need of them."""
        named = self._cache.workload_keys()
        namespaces = {key.namespace for _, key in named}
        rollouts = await self._rights.namespaces(caller, namespaces, ROLLOUTS)
        seen = {one.kind: rollouts & await self._rights.namespaces(caller, rollouts, one.resource) for one in OTHERS}
        enough = (ROLLOUTS, *(one.resource for one in OTHERS))
        found = (self._cache.workload(kind, key, enough) for kind, key in named if key.namespace in seen[kind])
        return [one for one in found if one is not None]

    def _row(self, kind: WorkloadKind, key: Key, readable: frozenset[Resource], now: datetime) -> FleetRow | None:
        known = self._known_row(kind, key, readable)
        if known is not None and not known[0].passes_with_time:
            return known[0]
        return self._make_row(kind, key, readable, now)

    def _known_row(
        self, kind: WorkloadKind, key: Key, readable: frozenset[Resource]
    ) -> tuple[FleetRow, datetime] | None:
        rows = self._rows.get(kind.key(key.namespace, key.name))
        return rows.get(readable) if rows is not None else None

    def _make_row(self, kind: WorkloadKind, key: Key, readable: frozenset[Resource], now: datetime) -> FleetRow | None:
        subject = self._find(kind, key, readable)
        if subject is None:
            return None
        made = fleet.row_of(subject, now)
        self._rows.setdefault(kind.key(key.namespace, key.name), {})[readable] = made, now
        return made

    def _find(self, kind: WorkloadKind, key: Key, readable: frozenset[Resource]) -> Snapshot | PlainWorkload | None:
        if kind.grouped:
            return self._cache.snapshot(key, readable) if LEADER_WORKER_SETS in readable else None
        return self._cache.workload(kind.kind, key, readable)

    # One set

    async def subject(self, caller: Caller, kind: WorkloadKind, namespace: str, name: str) -> Snapshot | PlainWorkload:
        readable = await self._rights.readable(caller, namespace)
        found = self._find(kind, Key(namespace, name), readable)
        if found is None:
            released = "" if kind.grouped else " and a Rollout releases"
            raise NoSuchWorkload(f"there is no {kind.kind} {name} in namespace {namespace} that you may see{released}")
        return found

    async def snapshot(self, caller: Caller, namespace: str, name: str) -> Snapshot:
        found = await self.subject(caller, GROUP_SETS, namespace, name)
        assert isinstance(found, Snapshot)
        return found

    def _verbs_of(self, kind: WorkloadKind) -> Collection[str]:
        return self._verbs if kind.grouped else frozenset(self._verbs) & frozenset(VERBS_WITHOUT_GROUPS)

    def _check_verb(self, kind: WorkloadKind, verb: str) -> None:
        if not self._verbs:
            raise NoSuchPage("this dashboard does not act: start it with --allow-actions")
        if verb not in self._verbs_of(kind):
            raise NoSuchPage(f"there is no action {verb!r} for a {kind.kind}")

    async def badge(self, caller: Caller, kind: WorkloadKind, namespace: str, name: str) -> Badge:
        found = await self.subject(caller, kind, namespace, name)
        return set_page.badge_of(found, clock.now())

    async def _overview(self, caller: Caller, subject: Snapshot | PlainWorkload, query: Mapping[str, str]) -> View:
        if isinstance(subject, PlainWorkload):
            pods, why = set_page.workload_page(subject, clock.now())
            return View(subject.name, "fleet", pods, workload_sections(pods, why, self._verbs), _about(subject))
        subject = self._cache.explained(subject, await self._rights.readable(caller, subject.metadata.namespace))
        if (
            subject.group_set.template.restart_budget is not None
            and subject.group_set.status.ready_replicas < subject.replicas
        ):
            subject = replace(subject, failures=await self._kept_failures(caller, subject) or ())
        model, causes = set_page.set_page(subject, clock.now(), _number(query, "page") or 1)
        return View(subject.name, "fleet", model, set_sections(model, causes, self._verbs), _about(subject))

    def _history(self, subject: Snapshot | PlainWorkload, query: Mapping[str, str]) -> View:
        before, after = _number(query, "from"), _number(query, "to")
        try:
            model = set_page.history_page(subject, clock.now(), before, after)
        except NoSuchRevision as problem:
            raise BadParameter(str(problem)) from problem
        title = f"History of {subject.name}"
        return View(title, "fleet", model, history_sections(model, self._verbs), _about(subject))

    async def _events(self, caller: Caller, snapshot: Snapshot | PlainWorkload) -> View:
        """Read with the rights of the caller, when they are looked at: a cache of all events would be large."""
        try:
            events = (await caller.client.list(EVENTS, snapshot.metadata.namespace, type=Event)).items
        except Forbidden:
            events = None
        model = set_page.events_page(snapshot, events or (), clock.now(), allowed=events is not None)
        return View(f"Events of {snapshot.name}", "fleet", model, events_sections(model), _about(snapshot))

    def log_sources(self, subject: Snapshot | PlainWorkload, query: Mapping[str, str]) -> list[ContainerLog]:
        """What the page of logs follows now."""
        return set_page.log_sources(subject, _number(query, "group"), query.get("container", ""))

    def logs(self, snapshot: Snapshot | PlainWorkload, query: Mapping[str, str]) -> LogsPage:
        return set_page.logs_page(snapshot, clock.now(), _number(query, "group"), query.get("container", ""))

    async def _release(self, caller: Caller, snapshot: Snapshot | PlainWorkload) -> View:
        readable = await self._rights.readable(caller, snapshot.metadata.namespace)
        sees_runs = snapshot.rollout is not None and ANALYSIS_RUNS in readable
        runs = self._cache.analysis_runs(snapshot.rollout) if snapshot.rollout is not None and sees_runs else []
        model = release_page(snapshot, clock.now(), runs)
        if model is None:
            raise NoSuchPage(f"no Rollout releases {snapshot.kind} {snapshot.name}")
        title = f"Release of {snapshot.name}"
        return View(title, "fleet", model, release_sections(model, self._verbs), _about(snapshot))

    def _resize(self, snapshot: Snapshot) -> View:
        model = resize_page(snapshot, clock.now())
        return View(f"Resize of {snapshot.name}", "fleet", model, resize_sections(model, self._verbs), _about(snapshot))

    async def _failures(self, caller: Caller, snapshot: Snapshot) -> View:
        found = await self._kept_failures(caller, snapshot)
        model = set_page.failures_page(snapshot, found or [], clock.now(), allowed=found is not None)
        return View(f"Failures of {snapshot.name}", "fleet", model, failures_sections(model), _about(snapshot))

    async def _kept_failures(self, caller: Caller, snapshot: Snapshot) -> list[GroupFailure] | None:
        """Read with the rights of the caller, because logs are kept there; None if the caller may not."""
        metadata = snapshot.metadata
        try:
            kept = await caller.client.find(
                CONFIG_MAPS, config_map_name(metadata.name), metadata.namespace, type=ConfigMap
            )
        except Forbidden:
            return None
        ours = kept is not None and owned_by(kept.metadata, snapshot.group_set)
        return decoded(kept.data.get(KEY, "")) if kept is not None and ours else []

    # Nodes

    async def _nodes(self, caller: Caller, query: Mapping[str, str]) -> View:
        cache = self._cache
        nodes = await self._readable_nodes(caller)
        pods, everything = await self._readable_pods(caller)
        sets = await self._rights.namespaces(caller, {one.metadata.namespace for one in cache.sets.list()})
        exclusive = {one.exclusive_topology for one in cache.sets.list() if one.metadata.namespace in sets}
        page = _number(query, "page") or 1
        model = nodes_page(nodes, pods, exclusive, page, self._pod_requests, partial=not everything)
        return View("Nodes", "nodes", model, nodes_sections(model), unseen=self._unseen(pods, everything))

    def _unseen(self, pods: Sequence[Pod], everything: bool) -> frozenset[str]:
        """Namespaces of sets without any pod that the caller may see."""
        known = frozenset() if everything else {one.metadata.namespace for one in self._cache.pods.list()}
        return frozenset(known - {one.metadata.namespace for one in pods})

    async def sees_nodes(self, caller: Caller) -> bool:
        return self._cache.nodes is not None and await self._rights.may_list(caller, NODES)

    async def _readable_nodes(self, caller: Caller) -> list[Node]:
        if self._cache.nodes is None or not await self.sees_nodes(caller):
            raise NoSuchPage("nodes may not be listed by this user")
        return self._cache.nodes.list()

    async def _readable_pods(self, caller: Caller) -> tuple[list[Pod], bool]:
        """Pods on all nodes, and whether these are all there are."""
        cache = self._cache
        everything = await self._rights.may_list(caller, PODS) and not cache.confined
        pods = [*cache.pods.list(), *(cache.other_pods.list() if cache.other_pods is not None else ())]
        if not everything:
            seen = await self._rights.namespaces(caller, {one.metadata.namespace for one in pods}, PODS)
            pods = [one for one in pods if one.metadata.namespace in seen]
        return pods, everything

    async def _drain(self, caller: Caller, node: str) -> View:
        nodes = await self._readable_nodes(caller)
        drained = next((one for one in nodes if one.metadata.name == node), None)
        if drained is None:
            raise NoSuchPage(f"there is no node {node}")
        pods, everything = await self._readable_pods(caller)
        here = [one for one in pods if one.spec.node_name == node]
        keys = sorted({key for pod in here for key in sets_of(pod)})
        readable = await self._readable(caller, {key.namespace for key in keys})
        found = [self._find(GROUP_SETS, key, readable[key.namespace]) for key in keys]
        sets = [one for one in found if isinstance(one, Snapshot)]
        bound = await claims_bound_to_node(caller.client, node, nodes, _claims_of(here, sets))
        budgets, unknown = await self._budgets(caller, {one.metadata.namespace for one in here})
        model = forecast_drain(node, here, sets, bound, not_ready_since(drained), budgets, unknown)
        sections = drain_sections(model, partial=not everything)
        return View(f"Drain of {node}", "nodes", model, sections, unseen=self._unseen(pods, everything))

    async def _budgets(self, caller: Caller, namespaces: set[str]) -> tuple[list[PodDisruptionBudget], set[str]]:
        """And the namespaces where the caller, or the dashboard, may not list them."""
        cached = self._cache.budgets
        if cached is None:
            return [], namespaces
        seen = await self._rights.namespaces(caller, namespaces, POD_DISRUPTION_BUDGETS)
        return [one for namespace in sorted(seen) for one in cached.list(namespace)], namespaces - seen

    # What is asked of the cluster

    async def _action(
        self, caller: Caller, subject: Snapshot | PlainWorkload, verb: str, query: Mapping[str, str], csrf: str
    ) -> View:
        request = read_request(verb, subject.metadata.namespace, subject.reference, query)
        title = f"{verb.capitalize()} {subject.name}"
        if request.asks_for_form and isinstance(subject, Snapshot):
            form = action_form(subject, request)
            return View(title, "fleet", form, form_sections(form), refreshes=False)
        model = await preview(self._commands, caller.client, subject, request)
        return View(title, "fleet", model, action_sections(model, csrf), refreshes=False)

    async def act(
        self, caller: Caller, kind: WorkloadKind, namespace: str, name: str, verb: str, given: Mapping[str, str]
    ) -> ActionResult:
        """Does it, if the workload is still what the preview was about. Raises Refused."""
        self._check_verb(kind, verb)
        subject = await self.subject(caller, kind, namespace, name)
        request = read_request(verb, namespace, subject.reference, given)
        if request.asks_for_form:
            raise BadParameter(
                f"{verb}: say what shall change; its parameters are {', '.join(PARAMETERS[request.verb])}"
            )
        if given.get("seen") and given["seen"] != state_of(subject):
            raise ActionRefused(f"{kind.kind} {name} has changed since the preview; look at it again")
        words = await self._commands.act(caller.client, request)
        return ActionResult(request, words, subject)

    async def _begin_what_if(self, caller: Caller, query: Mapping[str, str], csrf: str) -> View:
        namespace, _, name = query.get("set", "").partition("/")
        manifest = ""
        if name:
            manifest = manifest_of((await self.snapshot(caller, namespace, name)).group_set)
        model = WhatIfPage(namespace or "default", manifest, "")
        return View("What if", "what-if", model, what_if_sections(model, csrf), refreshes=False)

    async def what_if(self, caller: Caller, namespace: str, manifest: str, csrf: str) -> View:
        if len(manifest) > MOST_CHARACTERS:
            raise BadParameter(f"manifest: has {len(manifest)} characters; at most {MOST_CHARACTERS} are allowed")
        model = await what_if_page(self._commands, caller.client, namespace or "default", manifest)
        return View("What if", "what-if", model, what_if_sections(model, csrf), refreshes=False)


def _claims_of(pods: Sequence[Pod], sets: Sequence[Snapshot]) -> list[PersistentVolumeClaim]:
    """The claims that these pods of these sets use."""
    used = {
        (pod.metadata.namespace, one.claim_name)
        for pod in pods
        for volume in pod.spec.volumes
        if (one := volume.persistent_volume_claim) is not None
    }
    by_name = {(one.metadata.namespace, one.metadata.name): one for each in sets for one in each.claims}
    return [claim for name, claim in by_name.items() if name in used]


def _fits(path: Sequence[str], pattern: str) -> bool:
    parts = pattern.split("/")
    return len(path) == len(parts) and all(
        known == given or (known.startswith("{") and bool(given)) for known, given in zip(parts, path, strict=True)
    )


def _about(subject: Snapshot | PlainWorkload) -> frozenset[Key]:
    return frozenset({Key(subject.metadata.namespace, subject.reference)})


def _shown_namespaces(seen: Sequence[fleet.Listable], wanted: FleetFilter) -> set[str]:
    return {one.metadata.namespace for one in seen if wanted.namespace in ("", one.metadata.namespace)}


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    number = parse_index(text)
    if number is None or len(text) > 9:
        raise BadParameter(f"{name}: {text!r} is not a number")
    return number
