"""The DaemonSet reconciler: observe, plan, write."""

import asyncio
from collections.abc import Container, Iterable, Sequence
from datetime import timedelta

import msgspec

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.daemonset import plan as daemonset_plan
from kohort.cluster.workloads.daemonset.failure_backoff import FailureBackoff
from kohort.cluster.workloads.daemonset.plan import Cause, Create, DaemonPod, Delete, Strategy
from kohort.cluster.workloads.daemonset.pods import (
    GENERATION_LABEL,
    HASH_LABEL,
    TEMPLATE_GENERATION,
    Placement,
    build_pod,
    node_of,
)
from kohort.cluster.workloads.expectations import Expectations
from kohort.cluster.workloads.pod_state import available_in, is_available
from kohort.cluster.workloads.revision_history import DEFAULT_LIMIT, History, Resolved, StoredRevision
from kohort.cluster.workloads.slow_start import growing_batches
from kohort.kube.controller import Requeue
from kohort.kube.errors import NAMESPACE_TERMINATING, ApiError, Conflict, NotFound
from kohort.kube.event_mapping import controller_of, map_to_controller_owner
from kohort.kube.manager import Manager
from kohort.kube.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS, Key
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject


def register(manager: Manager) -> None:
    DaemonSets(manager)


class DaemonSets:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("daemonset-controller")
        self.sets = manager.informer(DAEMON_SETS, JsonObject)
        self.nodes = manager.informer(NODES, Node)
        self.pods = manager.informer(PODS, Pod, indexes={controller_ref.OWNER: controller_ref.index_by_owner})
        cache = manager.informer(
            CONTROLLER_REVISIONS, StoredRevision, indexes={controller_ref.OWNER: controller_ref.index_by_owner}
        )
        self.history = History(manager.client, cache, HASH_LABEL)
        self.expectations = Expectations()
        self.failures = FailureBackoff()
        self.pods.on_change(self._observe_pod)
        self.sets.on_change(self._forget)
        controller = manager.controller("daemonset", self.reconcile, workers=2, max_delay=30)
        controller.watches(self.sets)
        controller.watches(self.pods, self._sets_of_object)
        controller.watches(self.nodes, self._all_sets, when=_may_change_fit)
        # A deleted revision is written again, and one without an owner is adopted.
        controller.watches(cache, self._sets_of_object)

    async def reconcile(self, key: Key) -> Requeue | None:
        daemon_set = self.sets.get(key)
        if daemon_set is None:
            self.expectations.forget(key)
            return None
        if "deletionTimestamp" in daemon_set["metadata"]:
            return None
        if not self.expectations.met(key):
            return Requeue(after=1.0)
        try:
            return await self._advance(key, daemon_set)
        except ApiError as problem:
            if problem.caused_by(NAMESPACE_TERMINATING):
                return None
            raise

    async def _advance(self, key: Key, daemon_set: JsonObject) -> Requeue | None:
        pods = await controller_ref.claim(
            self.client, DAEMON_SETS, daemon_set, PODS, controller_ref.candidates(self.pods, daemon_set)
        )
        resolved = await self.history.resolve(daemon_set)
        view = self._view(daemon_set, pods, resolved)
        resolved = await self._merge_duplicates(daemon_set, pods, resolved)
        failure = await self._carry_out(key, daemon_set, pods, daemonset_plan.plan(view), resolved.update.hash)
        await self._write_status(daemon_set, daemonset_plan.count(view), resolved)
        await self._prune_history(daemon_set, pods, resolved)
        if failure is not None:
            return Requeue()
        return self._next_reconcile(daemon_set, pods)

    # Observing

    def _observe_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        owner = controller_of(pod) if pod else None
        if pod is not None and owner is not None and owner.kind == "DaemonSet":
            key = Key(pod.metadata.namespace, owner.name)
            self.expectations.seen(key, pod.metadata.uid, leaving=new is None or pod.metadata.deleting)

    def _forget(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None and old is not None:
            self.failures.forget(old["metadata"]["uid"])

    def _sets_of_object(self, obj: Pod | StoredRevision) -> Iterable[Key]:
        if controller_of(obj) is not None:
            return map_to_controller_owner("DaemonSet", "apps")(obj)
        return [
            Key(obj.metadata.namespace, one["metadata"]["name"])
            for one in self.sets.list(obj.metadata.namespace)
            if controller_ref.selector_of(one).matches(obj.metadata.labels)
        ]

    def _all_sets(self, _: Node) -> Iterable[Key]:
        return [Key(one["metadata"]["namespace"], one["metadata"]["name"]) for one in self.sets.list()]

    def _view(self, daemon_set: JsonObject, pods: Sequence[Pod], resolved: Resolved) -> daemonset_plan.View:
        placement = Placement(daemon_set)
        seconds = daemon_set["spec"].get("minReadySeconds") or 0
        current = {resolved.update.hash, *(one.hash for one in resolved.duplicates)}
        by_node: dict[str, list[DaemonPod]] = {}
        for pod in pods:
            updated = has_newest_template(daemon_set, pod, current)
            by_node.setdefault(node_of(pod), []).append(daemon_pod(pod, updated, seconds))
        return daemonset_plan.View(
            nodes={node.metadata.name: placement.fit(node) for node in self.nodes.list()},
            pods=by_node,
            strategy=strategy_of(daemon_set),
            delayed=frozenset(node for node in by_node if self._delay(daemon_set, node) > 0),
        )

    def _delay(self, daemon_set: JsonObject, node: str) -> float:
        metadata = daemon_set["metadata"]
        return self.failures.remaining(metadata["uid"], node, metadata.get("generation") or 0, _now())

    def _next_reconcile(self, daemon_set: JsonObject, pods: Sequence[Pod]) -> Requeue | None:
        """When a pod becomes available, or a failed one may be deleted."""
        seconds = daemon_set["spec"].get("minReadySeconds") or 0
        waits = [available_in(pod, seconds) for pod in pods if seconds and pod.ready]
        moments = [wait.total_seconds() + 0.01 for wait in waits if wait > timedelta(0)]
        failed = [node_of(pod) for pod in pods if pod.status.phase == "Failed" and not pod.metadata.deleting]
        moments += [wait + 0.01 for node in failed if (wait := self._delay(daemon_set, node)) > 0]
        return Requeue(after=min(moments)) if moments else None

    # Writing

    async def _carry_out(
        self, key: Key, daemon_set: JsonObject, pods: Sequence[Pod], actions: Sequence[daemonset_plan.Action], hash: str
    ) -> ApiError | None:
        by_name = {pod.metadata.name: pod for pod in pods}
        creations = [each for each in actions if isinstance(each, Create)]
        deletions = [each for each in actions if isinstance(each, Delete)]
        try:
            await asyncio.gather(*(self._delete(key, daemon_set, by_name[each.pod], each) for each in deletions))
            for batch in growing_batches(creations):
                await asyncio.gather(*(self._create(key, daemon_set, each.node, hash) for each in batch))
        except ApiError as problem:
            if problem.caused_by(NAMESPACE_TERMINATING):
                return None
            return problem
        return None

    async def _create(self, key: Key, daemon_set: JsonObject, node: str, hash: str) -> None:
        try:
            made = await self.client.create(PODS, build_pod(daemon_set, node, hash))
        except ApiError as problem:
            if not problem.caused_by(NAMESPACE_TERMINATING):
                self.recorder.warning(DAEMON_SETS, daemon_set, "FailedCreate", f"Error creating: {problem}")
            raise
        pod = made["metadata"]
        self.expectations.created(key, pod["uid"], self.pods.get(Key(pod["namespace"], pod["name"])))
        self.recorder.normal(DAEMON_SETS, daemon_set, "SuccessfulCreate", f"Created pod: {pod['name']}")

    async def _delete(self, key: Key, daemon_set: JsonObject, pod: Pod, action: Delete) -> None:
        self._record_reason(daemon_set, pod, action)
        try:
            await self.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        cached = self.pods.get(Key(pod.metadata.namespace, pod.metadata.name))
        self.expectations.deleted(key, pod.metadata.uid, cached)
        self.recorder.normal(DAEMON_SETS, daemon_set, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    def _record_reason(self, daemon_set: JsonObject, pod: Pod, action: Delete) -> None:
        where = f"daemon pod {pod.metadata.namespace}/{pod.metadata.name} on node {action.node}"
        if action.cause is Cause.FAILED:
            metadata = daemon_set["metadata"]
            self.failures.deleted(metadata["uid"], action.node, metadata.get("generation") or 0, _now())
            words = f"Found failed {where}, will try to kill it"
            self.recorder.warning(DAEMON_SETS, daemon_set, "FailedDaemonPod", words)
        elif action.cause is Cause.SUCCEEDED:
            words = f"Found succeeded {where}, will try to delete it"
            self.recorder.normal(DAEMON_SETS, daemon_set, "SucceededDaemonPod", words)

    async def _merge_duplicates(self, daemon_set: JsonObject, pods: Sequence[Pod], resolved: Resolved) -> Resolved:
        """Pods of revisions with the same template take the label of the update revision, so that they are not
        replaced; then the duplicates are deleted."""
        duplicates = resolved.duplicates
        hashes = {one.hash for one in duplicates}
        body: JsonObject = {"metadata": {"labels": {HASH_LABEL: resolved.update.hash}}}
        for pod in pods:
            if pod.metadata.labels.get(HASH_LABEL) in hashes and not pod.metadata.deleting:
                try:
                    await self.client.patch(PODS, pod.metadata.name, pod.metadata.namespace, body)
                except NotFound:
                    continue
        await self.history.delete(daemon_set, duplicates)
        return msgspec.structs.replace(resolved, all=[one for one in resolved.all if one not in duplicates])

    async def _prune_history(self, daemon_set: JsonObject, pods: Sequence[Pod], resolved: Resolved) -> None:
        """Old revisions that pods still use count towards the limit, other than for a StatefulSet."""
        limit = daemon_set["spec"].get("revisionHistoryLimit")
        hashes = {pod.metadata.labels.get(HASH_LABEL) for pod in pods}
        used = {one.name for one in resolved.all if one.hash in hashes}
        unused_limit = (DEFAULT_LIMIT if limit is None else limit) - len(used - {resolved.update.name})
        await self.history.delete_surplus(daemon_set, resolved, used, max(0, unused_limit))

    async def _write_status(self, daemon_set: JsonObject, counts: daemonset_plan.Counts, resolved: Resolved) -> None:
        before = daemon_set.get("status") or {}
        wanted: JsonObject = {
            "observedGeneration": daemon_set["metadata"].get("generation"),
            "desiredNumberScheduled": counts.desired,
            "currentNumberScheduled": counts.current,
            "numberMisscheduled": counts.misscheduled,
            "numberReady": counts.ready,
            "updatedNumberScheduled": counts.updated or None,
            "numberAvailable": counts.available or None,
            "numberUnavailable": counts.unavailable or None,
            "collisionCount": resolved.collisions or before.get("collisionCount"),
        }
        if any(before.get(name) != value for name, value in wanted.items()):
            await self.client.patch_status(DAEMON_SETS, daemon_set, wanted)


def has_newest_template(daemon_set: JsonObject, pod: Pod, current: Container[str]) -> bool:
    """By the hash of the revision or by the generation of the template, as in Kubernetes: one of them is enough."""
    labels = pod.metadata.labels
    generation = (daemon_set["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION)
    return labels.get(HASH_LABEL, "") in current or (
        generation is not None and labels.get(GENERATION_LABEL) == generation
    )


def daemon_pod(pod: Pod, updated: bool, min_ready_seconds: int) -> DaemonPod:
    return DaemonPod(
        name=pod.metadata.name,
        updated=updated,
        bound=bool(pod.spec.node_name),
        phase=pod.status.phase,
        ready=pod.ready,
        available=is_available(pod, min_ready_seconds),
        terminating=pod.metadata.deleting,
        created=pod.metadata.creation_timestamp or "",
    )


def strategy_of(daemon_set: JsonObject) -> Strategy:
    given = daemon_set["spec"].get("updateStrategy") or {}
    if given.get("type") == "OnDelete":
        return Strategy(rolling=False)
    rolling = given.get("rollingUpdate") or {}
    return Strategy(True, rolling.get("maxUnavailable", 1), rolling.get("maxSurge", 0))


def _may_change_fit(old: Node | None, new: Node | None) -> bool:
    """Whether a change of a node can change which DaemonSets run there. Most changes are heartbeats."""
    if old is None or new is None:
        return True
    return old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints


def _now() -> float:
    return asyncio.get_running_loop().time()
