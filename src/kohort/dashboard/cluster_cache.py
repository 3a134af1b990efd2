"""The objects that pages are made of, kept current by watches.

Sets, their pods, StatefulSets and revisions are cached by the same selections as the operator's, so in `kohort up` both
share one copy. Warnings are cached because explanations need them; other events are many, and only a timeline shows
them: those are read when it is opened.

| objects | needed? |
|---|---|
| sets, pods, StatefulSets, revisions | yes: without the right to read them the dashboard does not start |
| Deployments, ReplicaSets, other StatefulSets | from when a Rollout names one (`released_workloads`) |
| all others in `OPTIONAL` | shown if the cluster serves them and they may be read; asked again every minute |

A change of any object is reported as the workload that it belongs to, so that only pages about that are made anew.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable
from typing import Final

from msgspec.structs import replace

from kohort.dashboard.released_workloads import OF_NO_GROUP, ReleasedWorkloads
from kohort.dashboard.workload_kinds import KINDS, OTHERS, released_key
from kohort.groups.caches import BY_SET, GroupObject, GroupService, by_set, sets_of
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.node_loss import not_ready_since
from kohort.groups.revisions import Revision, of_set
from kohort.inspection.occupied_domains import domains_of_others
from kohort.inspection.release import CANARY_SUFFIX
from kohort.inspection.silent_nodes import concerned_nodes, silent_nodes
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.kube.errors import ApiError
from kohort.kube.informer import Informer
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    ANALYSIS_RUNS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    EVENTS,
    HTTP_ROUTES,
    INGRESSES,
    LEADER_WORKER_SETS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Key,
    Resource,
)
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Event, Node, PersistentVolumeClaim, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject
from kohort.objects.policy import PodDisruptionBudget
from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import group_labels
from kohort.rules.rollout_labels import CANARY_SET

ASK_AGAIN_SECONDS: Final = 60.0
NODES_KEY: Final = Key("", "nodes")
"""Reported when a node, or a pod that belongs to no set, has changed."""
NEEDED: Final = (LEADER_WORKER_SETS, PODS, STATEFUL_SETS, CONTROLLER_REVISIONS)
OPTIONAL: Final = (
    ROLLOUTS,
    HTTP_ROUTES,
    INGRESSES,
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    SERVICES,
    NODES,
    ANALYSIS_RUNS,
    DEPLOYMENTS,
    REPLICA_SETS,
    POD_DISRUPTION_BUDGETS,
)
_BY_WORKLOAD: Final = "dashboard-workload"
_BY_STABLE_SET: Final = "dashboard-stable-set"
_BY_ROLLOUT: Final = "dashboard-rollout"
_BY_INVOLVED: Final = "dashboard-involved"
_WARNINGS: Final = "type=Warning"

Listener = Callable[[Key], None]


class ClusterCache:
    def __init__(self, manager: Manager, namespaces: tuple[str, ...] = ()) -> None:
        """`namespaces` are those that may be read, if not all of them may."""
        self._manager = manager
        self._namespaces = namespaces
        self._listeners: list[Listener] = []
        selected = group_labels.NAME
        self.sets: Informer[LeaderWorkerSet] = manager.informer(LEADER_WORKER_SETS, LeaderWorkerSet)
        self.sets.add_index(_BY_STABLE_SET, _by_stable_set)
        self.pods: Informer[Pod] = manager.informer(PODS, Pod, label_selector=selected)
        self.pods.add_index(BY_SET, by_set)
        self.stateful_sets: Informer[GroupStatefulSet] = manager.informer(
            STATEFUL_SETS, GroupStatefulSet, label_selector=selected
        )
        self.stateful_sets.add_index(BY_SET, by_set)
        self.revisions: Informer[Revision] = manager.informer(CONTROLLER_REVISIONS, Revision, label_selector=selected)
        self.revisions.add_index(BY_SET, by_set)
        self.rollouts: Informer[Rollout] | None = None
        self.routes: Informer[JsonObject] | None = None
        self.ingresses: Informer[JsonObject] | None = None
        self.warnings: Informer[Event] | None = None
        self.claims: Informer[PersistentVolumeClaim] | None = None
        self.services: Informer[GroupService] | None = None
        self.budgets: Informer[PodDisruptionBudget] | None = None
        self.nodes: Informer[Node] | None = None
        self.other_pods: Informer[Pod] | None = None
        self.runs: Informer[AnalysisRun] | None = None
        self._workloads = ReleasedWorkloads(manager, self._workload_changed)
        self._look = asyncio.Event()
        """Set when a Rollout names a kind of workload that is not watched yet."""
        manager.background("optional-objects", self._look_for_optional)

    @property
    def confined(self) -> bool:
        """Not all namespaces are read."""
        return bool(self._namespaces)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with the key of a set whenever one of its objects has changed."""
        if not self._listeners:
            self.sets.on_change(lambda old, new: self._set_changed(new or old))
            self.pods.on_change(lambda old, new: self._member_changed(new or old))
            self.stateful_sets.on_change(lambda old, new: self._member_changed(new or old))
            self.revisions.on_change(lambda old, new: self._member_changed(new or old))
        self._listeners.append(listener)

    def _report(self, key: Key) -> None:
        for listener in self._listeners:
            listener(key)

    def _member_changed(self, obj: GroupObject | None) -> None:
        for key in sets_of(obj) if obj is not None else ():
            self._report_with_stable(key)

    def _set_changed(self, group_set: LeaderWorkerSet | None) -> None:
        if group_set is not None:
            self._report(Key(group_set.metadata.namespace, group_set.metadata.name))
            stable = group_set.metadata.labels.get(CANARY_SET)
            if stable:
                self._report(Key(group_set.metadata.namespace, stable))

    def _report_with_stable(self, key: Key) -> None:
        """What belongs to a canary set is shown with the set that it may replace."""
        self._report(key)
        group_set = self.sets.get(key)
        stable = group_set.metadata.labels.get(CANARY_SET) if group_set is not None else None
        if stable:
            self._report(Key(key.namespace, stable))

    # Objects that may be absent

    async def _look_for_optional(self) -> None:
        while True:
            await self.add_optional()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), ASK_AGAIN_SECONDS)
            self._look.clear()

    async def add_optional(self) -> None:
        """Begin to watch what the cluster serves and the user may read."""
        manager = self._manager
        if self.rollouts is None and await self._readable(ROLLOUTS):
            self.rollouts = manager.informer(ROLLOUTS, Rollout)
            self.rollouts.add_index(_BY_WORKLOAD, _by_workload)
            self.rollouts.on_change(lambda old, new: self._rollout_changed(new or old))
        if self.runs is None and await self._readable(ANALYSIS_RUNS):
            self.runs = manager.informer(ANALYSIS_RUNS, AnalysisRun)
            self.runs.add_index(_BY_ROLLOUT, _by_rollout)
            self.runs.on_change(lambda old, new: self._run_changed(new or old))
        if self.routes is None and await self._readable(HTTP_ROUTES):
            self.routes = manager.informer(HTTP_ROUTES, dict)
            self.routes.on_change(lambda old, new: self._route_changed(new or old))
        if self.ingresses is None and await self._readable(INGRESSES):
            self.ingresses = manager.informer(INGRESSES, dict)
            self.ingresses.on_change(lambda old, new: self._route_changed(new or old))
        if self.warnings is None and await self._readable(EVENTS):
            self.warnings = manager.informer(EVENTS, Event, field_selector=_WARNINGS)
            self.warnings.add_index(_BY_INVOLVED, _by_involved)
            self.warnings.on_change(lambda old, new: self._warned(new or old))
        if self.claims is None and await self._readable(PERSISTENT_VOLUME_CLAIMS):
            self.claims = manager.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        if self.services is None and await self._readable(SERVICES):
            self.services = manager.informer(SERVICES, GroupService, label_selector=group_labels.NAME)
        if self.budgets is None and await self._readable(POD_DISRUPTION_BUDGETS):
            self.budgets = manager.informer(POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
            self.budgets.on_change(lambda old, new: self._budget_changed(new or old))
        if self.nodes is None and await self._readable(NODES):
            self.other_pods = manager.informer(PODS, Pod, label_selector=OF_NO_GROUP)
            self.other_pods.on_change(lambda old, new: self._report(NODES_KEY))
            self.nodes = manager.informer(NODES, Node)
            self.nodes.on_change(self._node_changed)
        for kind in OTHERS:
            if (
                not self._workloads.watches(kind.kind)
                and self._names(kind.kind)
                and await self._readable(kind.resource)
            ):
                self._workloads.watch(kind.kind)

    def _names(self, kind: str) -> bool:
        """A Rollout names a workload of this kind."""
        rollouts = self.rollouts.list() if self.rollouts is not None else []
        return any((one.spec.workload_ref.group, one.spec.workload_ref.kind) == ("apps", kind) for one in rollouts)

    async def _readable(self, resource: Resource) -> bool:
        namespace = self._namespaces[0] if self._namespaces and resource.namespaced else ""
        try:
            await self._manager.client.list(resource, namespace, type=PartialObject, limit=1)
        except ApiError:
            return False
        return True

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node that falls silent, or reports again, changes the explanation of workloads with pods there."""
        self._report(NODES_KEY)
        node = new or old
        if node is None or _silence(old) == _silence(new):
            return
        here = (one for one in self.pods.list() if one.spec.node_name == node.metadata.name)
        for key in sorted({key for pod in here for key in sets_of(pod)}):
            self._report_with_stable(key)
        others = self.other_pods.list() if self.other_pods is not None else []
        found = {self._workloads.of_pod(one) for one in others if one.spec.node_name == node.metadata.name}
        for workload in sorted(one for one in found if one is not None):
            self._workload_changed(workload)

    def _budget_changed(self, budget: PodDisruptionBudget | None) -> None:
        """Drains wait for budgets, and sets that have one are explained with all of their namespace."""
        self._report(NODES_KEY)
        for one in self.sets.list(budget.metadata.namespace) if budget is not None else ():
            if one.disruption_budget is not None:
                self._report(Key(one.metadata.namespace, one.metadata.name))

    def _rollout_changed(self, rollout: Rollout | None) -> None:
        ref = rollout.spec.workload_ref if rollout is not None else None
        key = released_key(rollout.metadata.namespace, ref) if rollout is not None and ref is not None else None
        if key is None or ref is None:
            return
        if not ref.is_group_set and not self._workloads.watches(ref.kind):
            self._look.set()
        self._report(key)

    def _workload_changed(self, key: Key) -> None:
        if self._rollout(key) is not None:
            self._report(key)

    def _run_changed(self, run: AnalysisRun | None) -> None:
        if run is not None and self.rollouts is not None:
            self._rollout_changed(self.rollouts.get(Key(run.metadata.namespace, run.spec.rollout)))

    def _route_changed(self, route: JsonObject | None) -> None:
        """Any set of the namespace that a Rollout releases: which of them the route serves is seen when it is read."""
        namespace = ((route or {}).get("metadata") or {}).get("namespace", "")
        for rollout in self.rollouts.list(namespace) if self.rollouts is not None else ():
            self._rollout_changed(rollout)

    def _warned(self, event: Event | None) -> None:
        if event is None:
            return
        about, namespace = event.involved_object, event.metadata.namespace
        key = Key(namespace, about.name)
        if about.kind == "LeaderWorkerSet":
            self._report(key)
        elif about.kind == "Pod" and (pod := self.pods.get(key)) is not None:
            self._member_changed(pod)
        elif about.kind == "Pod" and self.other_pods is not None and (pod := self.other_pods.get(key)) is not None:
            if (workload := self._workloads.of_pod(pod)) is not None:
                self._workload_changed(workload)
        elif about.kind == "StatefulSet" and (found := self.stateful_sets.get(key)) is not None:
            self._member_changed(found)
        elif about.kind in KINDS:
            self._workload_changed(KINDS[about.kind].key(namespace, about.name))

    # Reading

    def set_keys(self) -> list[Key]:
        """Of all sets but canaries, which are shown with the set that they may replace."""
        return sorted(
            Key(one.metadata.namespace, one.metadata.name) for one in self.sets.list() if not self._is_canary(one)
        )

    def _is_canary(self, group_set: LeaderWorkerSet) -> bool:
        stable = group_set.metadata.labels.get(CANARY_SET)
        return bool(stable) and Key(group_set.metadata.namespace, stable or "") in self.sets

    def snapshot(self, key: Key, readable: Collection[Resource]) -> Snapshot | None:
        """The set and what belongs to it, as far as the caller may read it; None if there is no such set."""
        group_set = self.sets.get(key)
        if group_set is None:
            return None
        rollout = self._rollout(key) if ROLLOUTS in readable else None
        canary = self._canary(key, readable) if rollout is not None else None
        found = self._groups(group_set, readable)
        service = self.services.get(key) if self.services is not None and SERVICES in readable else None
        claims = (
            self.claims.list(key.namespace) if self.claims is not None and PERSISTENT_VOLUME_CLAIMS in readable else []
        )
        return Snapshot(
            group_set=group_set,
            pods=found.pods,
            stateful_sets=found.stateful_sets,
            revisions=found.revisions,
            events=found.events,
            claims=claims,
            silent_nodes=found.silent_nodes,
            service=service,
            rollout=rollout,
            routes=self._routes(rollout, readable),
            canary=canary,
        )

    def explained(self, found: Snapshot, readable: Collection[Resource]) -> Snapshot:
        """With what only its explanation needs, and what costs too much for each row of a fleet: it depends on all of
        the namespace."""
        namespace, topology = found.metadata.namespace, found.group_set.exclusive_topology
        budgets = self.budgets if POD_DISRUPTION_BUDGETS in readable and found.group_set.disruption_budget else None
        waits = bool(topology) and not all(pod.spec.node_name for pod in found.pods)
        nodes = self.nodes if waits and NODES in readable else None
        return replace(
            found,
            disruption_budgets=budgets.list(namespace) if budgets is not None else (),
            domains_of_others=domains_of_others(found.name, topology, self.pods.list(namespace), nodes.list())
            if nodes is not None
            else {},
        )

    def workload_keys(self) -> list[tuple[str, Key]]:
        """Kinds and names of Deployments and StatefulSets that a Rollout names, each once."""
        rollouts = self.rollouts.list() if self.rollouts is not None else []
        found = {
            (ref.kind, Key(one.metadata.namespace, ref.name))
            for one in rollouts
            if (ref := one.spec.workload_ref).is_deployment or ref.is_stateful_set
        }
        return sorted(found)

    def workload(self, kind: str, key: Key, readable: Collection[Resource]) -> PlainWorkload | None:
        """A Deployment or StatefulSet that a Rollout names, and what belongs to it, as far as the caller may read it.
        Without the right to read Rollouts there is none: only a Rollout says that it is shown at all."""
        rollout = self._rollout(KINDS[kind].key(key.namespace, key.name))
        if rollout is None or ROLLOUTS not in readable or KINDS[kind].resource not in readable:
            return None
        found = self._workloads.find(kind, key.namespace, key.name, readable)
        if found is None:
            return None
        found = replace(found, rollout=rollout, routes=self._routes(rollout, readable))
        canary = self._workloads.canary(found, readable) if found.releasing else None
        return replace(
            self._with_surroundings(found, readable),
            canary=self._with_surroundings(canary, readable) if canary is not None else None,
        )

    def _with_surroundings(self, workload: PlainWorkload, readable: Collection[Resource]) -> PlainWorkload:
        namespace = workload.metadata.namespace
        about = [f"{namespace}/{workload.kind}/{workload.name}"]
        about += [f"{namespace}/Pod/{one.metadata.name}" for one in workload.pods]
        about += [f"{namespace}/ReplicaSet/{one.metadata.name}" for one in workload.replica_sets]
        warnings = self.warnings if EVENTS in readable else None
        claims = self.claims if PERSISTENT_VOLUME_CLAIMS in readable else None
        return replace(
            workload,
            events=[one for name in about for one in warnings.by_index(_BY_INVOLVED, name)]
            if warnings is not None
            else [],
            claims=claims.list(namespace) if claims is not None else [],
            silent_nodes=self._silent_nodes(workload.pods) if NODES in readable else {},
        )

    def analysis_runs(self, rollout: Rollout) -> list[AnalysisRun]:
        """Of the steps of a Rollout's releases."""
        name = f"{rollout.metadata.namespace}/{rollout.metadata.name}"
        return self.runs.by_index(_BY_ROLLOUT, name) if self.runs is not None else []

    def _groups(self, group_set: LeaderWorkerSet, readable: Collection[Resource]) -> Snapshot:
        metadata = group_set.metadata
        name = f"{metadata.namespace}/{metadata.name}"
        pods = self.pods.by_index(BY_SET, name) if PODS in readable else []
        stateful_sets = self.stateful_sets.by_index(BY_SET, name) if STATEFUL_SETS in readable else []
        revisions = self.revisions.by_index(BY_SET, name) if CONTROLLER_REVISIONS in readable else []
        return Snapshot(
            group_set=group_set,
            pods=pods,
            stateful_sets=stateful_sets,
            revisions=of_set(group_set, revisions),
            events=self._warnings_of(group_set, pods, stateful_sets) if EVENTS in readable else [],
            silent_nodes=self._silent_nodes(pods) if NODES in readable else {},
        )

    def _silent_nodes(self, pods: Collection[Pod]) -> dict[str, str]:
        """Only nodes of pods that are not ready are looked up: usually none."""
        concerned = concerned_nodes(pods)
        nodes = self.nodes
        known = [nodes.get(Key("", one)) for one in concerned] if nodes is not None else []
        return silent_nodes([one for one in known if one is not None], concerned)

    def _warnings_of(
        self, group_set: LeaderWorkerSet, pods: Collection[Pod], stateful_sets: Collection[GroupStatefulSet]
    ) -> list[Event]:
        if self.warnings is None:
            return []
        namespace = group_set.metadata.namespace
        about = [f"{namespace}/LeaderWorkerSet/{group_set.metadata.name}"]
        about += [f"{namespace}/Pod/{one.metadata.name}" for one in pods]
        about += [f"{namespace}/StatefulSet/{one.metadata.name}" for one in stateful_sets]
        return [event for one in about for event in self.warnings.by_index(_BY_INVOLVED, one)]

    def is_released(self, key: Key) -> bool:
        """A Rollout names it."""
        return self._rollout(key) is not None

    def _rollout(self, key: Key) -> Rollout | None:
        found = self.rollouts.by_index(_BY_WORKLOAD, str(key)) if self.rollouts is not None else []
        return min(found, key=lambda one: one.metadata.name) if found else None

    def _canary(self, key: Key, readable: Collection[Resource]) -> Snapshot | None:
        """After a release that was given up, two may be there for a while; the one that goes does not matter."""
        sets = self.sets.by_index(_BY_STABLE_SET, str(key))
        living = [one for one in sets if not one.metadata.deleting]
        return self._groups(living[-1], readable) if living else None

    def _routes(self, rollout: Rollout | None, readable: Collection[Resource]) -> list[JsonObject]:
        """Those that the Rollout names; of an Ingress, the one beside it that carries the share of the new version."""
        found: list[JsonObject] = []
        for ref in rollout.strategy.traffic_routings if rollout is not None else ():
            assert rollout is not None
            namespace = rollout.metadata.namespace
            if ref.gateway is not None and self.routes is not None and HTTP_ROUTES in readable:
                route = self.routes.get(Key(namespace, ref.gateway.http_route_name or ""))
                found += [{**route, "kind": "HTTPRoute"}] if route is not None else []
            if ref.ingress is not None and self.ingresses is not None and INGRESSES in readable:
                ingress = self.ingresses.get(Key(namespace, f"{ref.ingress.name}{CANARY_SUFFIX}"))
                found += [{**ingress, "kind": "Ingress"}] if ingress is not None else []
        return found


def _silence(node: Node | None) -> str:
    return not_ready_since(node) if node is not None else ""


def _by_workload(rollout: Rollout) -> Iterable[str]:
    key = released_key(rollout.metadata.namespace, rollout.spec.workload_ref)
    return (str(key),) if key is not None else ()


def _by_rollout(run: AnalysisRun) -> Iterable[str]:
    return (f"{run.metadata.namespace}/{run.spec.rollout}",) if run.spec.rollout else ()


def _by_stable_set(group_set: LeaderWorkerSet) -> Iterable[str]:
    stable = group_set.metadata.labels.get(CANARY_SET)
    return (f"{group_set.metadata.namespace}/{stable}",) if stable else ()


def _by_involved(event: Event) -> Iterable[str]:
    about = event.involved_object
    return (f"{event.metadata.namespace}/{about.kind}/{about.name}",)
