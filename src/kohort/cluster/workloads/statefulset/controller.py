"""The StatefulSet reconciler: observe, plan, write."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.pod_state import available_in
from kohort.cluster.workloads.revision_history import DEFAULT_LIMIT, History, Resolved, StoredRevision, template_of
from kohort.cluster.workloads.slow_start import growing_batches
from kohort.cluster.workloads.statefulset import plan as statefulset_plan
from kohort.cluster.workloads.statefulset.claims import Claims, ClaimsNotReady, has_volumes
from kohort.cluster.workloads.statefulset.plan import (
    Create,
    Delete,
    EnsureClaims,
    FixClaimOwners,
    PodFacts,
    Repair,
    SetFacts,
)
from kohort.cluster.workloads.statefulset.pods import (
    POD_INDEX_LABEL,
    POD_NAME_LABEL,
    REVISION_LABEL,
    build_pod,
    ordinal_of,
    with_claims,
)
from kohort.kube.client import PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import NAMESPACE_TERMINATING, AlreadyExists, ApiError, Conflict, NotFound
from kohort.kube.event_mapping import controller_of, map_to_controller_owner
from kohort.kube.manager import Manager
from kohort.kube.object_identity import key_of, newer
from kohort.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Key
from kohort.objects.core import PersistentVolumeClaim, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rules.group_identity import parse_pod_name
from kohort.rules.restart_backoff import RestartBackoff


def register(manager: Manager) -> None:
    StatefulSets(manager)


class StatefulSets:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("statefulset-controller")
        self.sets = manager.informer(STATEFUL_SETS, JsonObject)
        self.pods = manager.informer(PODS, Pod, indexes={controller_ref.OWNER: controller_ref.index_by_owner})
        claims = manager.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        self.claims = Claims(manager.client, claims, self.recorder)
        cache = manager.informer(
            CONTROLLER_REVISIONS, StoredRevision, indexes={controller_ref.OWNER: controller_ref.index_by_owner}
        )
        self._replacements = RestartBackoff[Key]()
        """Of pods that failed: one that its node refuses would be made again as fast as the node refuses it."""
        self._written: dict[str, tuple[str, JsonObject]] = {}
        """By uid: the resource version and status of the last write."""
        self.sets.on_change(self._forget)
        self.history = History(manager.client, cache)
        controller = manager.controller("statefulset", self.reconcile, workers=8, max_delay=30)
        controller.watches(self.sets)
        controller.watches(self.pods, self._sets_of_pod)

    async def reconcile(self, key: Key) -> Requeue | None:
        stateful_set = self.sets.get(key)
        if stateful_set is None:
            return None
        try:
            return await self._advance(stateful_set)
        except ApiError as problem:
            if problem.caused_by(NAMESPACE_TERMINATING):
                return None
            raise

    async def _advance(self, stateful_set: JsonObject) -> Requeue | None:
        pods = await self._members(stateful_set)
        resolved = await self.history.resolve(stateful_set)
        facts = set_facts(self._with_written_status(stateful_set), resolved)
        observed = [self._facts_of(stateful_set, pod) for pod in pods]
        plan = statefulset_plan.plan(facts, observed)
        done, failure = await self._carry_out(stateful_set, resolved, plan.stages, pods)
        counts = statefulset_plan.count(facts, observed, done)
        await self._write_status(stateful_set, status_of(stateful_set, resolved, facts, counts))
        used = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods}
        limit = stateful_set["spec"].get("revisionHistoryLimit")
        await self.history.delete_surplus(stateful_set, resolved, used, DEFAULT_LIMIT if limit is None else limit)
        if isinstance(failure, ApiError) and failure.caused_by(NAMESPACE_TERMINATING):
            return None
        if failure is not None:
            return Requeue()
        if len(done) < len(plan.actions):
            return Requeue(after=max(1.0, self._pause(facts, pods)))
        return self._when_available(stateful_set, pods)

    def _forget(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None and old is not None:
            self._written.pop(old["metadata"]["uid"], None)

    # Observing

    def _sets_of_pod(self, pod: Pod) -> Iterable[Key]:
        owners = map_to_controller_owner("StatefulSet", "apps")(pod)
        if owners or controller_of(pod) is not None:
            return owners
        parsed = parse_pod_name(pod.metadata.name)
        return (Key(pod.metadata.namespace, parsed.parent),) if parsed is not None else ()

    async def _members(self, stateful_set: JsonObject) -> list[Pod]:
        name = stateful_set["metadata"]["name"]
        found = controller_ref.candidates(self.pods, stateful_set)
        return await controller_ref.claim(
            self.client,
            STATEFUL_SETS,
            stateful_set,
            PODS,
            found,
            member=lambda pod: ordinal_of(pod.metadata.name, name) is not None,
        )

    def _facts_of(self, stateful_set: JsonObject, pod: Pod) -> PodFacts:
        ordinal = ordinal_of(pod.metadata.name, stateful_set["metadata"]["name"])
        assert ordinal is not None
        ready = pod.status.phase == "Running" and pod.ready
        wait = available_in(pod, stateful_set["spec"].get("minReadySeconds") or 0)
        return PodFacts(
            name=pod.metadata.name,
            ordinal=ordinal,
            revision=pod.metadata.labels.get(REVISION_LABEL, ""),
            finished=pod.finished,
            pending=pod.status.phase == "Pending",
            ready=ready,
            available=ready and wait <= timedelta(0),
            terminating=pod.metadata.deletion_timestamp is not None,
            intact=pod.metadata.labels.get(POD_NAME_LABEL) == pod.metadata.name
            and self.claims.as_wanted(stateful_set, pod, ordinal),
        )

    # Writing

    async def _carry_out(
        self,
        stateful_set: JsonObject,
        resolved: Resolved,
        stages: Sequence[Sequence[statefulset_plan.Step]],
        pods: Sequence[Pod],
    ) -> tuple[list[statefulset_plan.Action], Exception | None]:
        """Perform the actions; returns those that were done, and the first error. An ordered set performs them one
        after the other, a parallel one in growing batches: if pods cannot be created, one request shows it, not a
        thousand."""
        by_name = {pod.metadata.name: pod for pod in pods}
        facts = set_facts(stateful_set, resolved)
        together = not facts.ordered
        done: list[statefulset_plan.Action] = []

        async def take(step: statefulset_plan.Step) -> None:
            for action in step:
                if isinstance(action, Delete) and action.reason == "finished":
                    if self._pause(facts, [by_name[action.pod]]):
                        return
                    self._note_failure(by_name[action.pod])
                if not isinstance(action, Create):
                    await self._act(stateful_set, by_name[action.pod], action)
                elif not await self._create(stateful_set, resolved, action):
                    return
                done.append(action)

        for stage in stages:
            for batch in growing_batches(stage) if together else ([step] for step in stage):
                results = await asyncio.gather(*(take(step) for step in batch if step), return_exceptions=True)
                for problem in results:
                    if isinstance(problem, (ApiError, ClaimsNotReady)):
                        return done, problem
                    if isinstance(problem, BaseException):
                        raise problem
        return done, None

    def _pause(self, facts: statefulset_plan.SetFacts, pods: Iterable[Pod]) -> float:
        """Seconds until the first of these that failed again and again is replaced. It stays until then, to be looked
        at. One that would get another template is replaced at once: that may be the remedy."""
        now = asyncio.get_running_loop().time()
        failed = [pod for pod in pods if pod.status.phase == "Failed" and not pod.metadata.deleting]
        pauses = [self._replacements.pause(key_of(pod), now) for pod in failed if _has_its_revision(facts, pod)]
        return min((pause for pause in pauses if pause), default=0.0)

    def _note_failure(self, pod: Pod) -> None:
        now = asyncio.get_running_loop().time()
        self._replacements.forget_old(now)
        if pod.status.phase == "Failed":
            self._replacements.done(key_of(pod), now)

    async def _act(self, stateful_set: JsonObject, pod: Pod, action: statefulset_plan.Action) -> None:
        match action:
            case Delete():
                await self._delete(stateful_set, pod)
            case EnsureClaims():
                await self.claims.ensure(stateful_set, pod.metadata.name)
                await self.claims.fix_owners(stateful_set, pod)
            case FixClaimOwners():
                await self.claims.fix_owners(stateful_set, pod)
            case Repair():
                await self._repair(stateful_set, pod)

    async def _create(self, stateful_set: JsonObject, resolved: Resolved, action: Create) -> bool:
        """False where the pod must wait for claims that vanish with an earlier pod of its name."""
        revision = resolved.current if action.revision == resolved.current.name else resolved.update
        pod = build_pod(stateful_set, template_of(revision), action.ordinal, revision.name)
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if self.claims.are_stale(stateful_set, name):
            return False
        try:
            await self.claims.ensure(stateful_set, name)
            await self.client.create(PODS, pod)
        except AlreadyExists:
            raise
        except (ApiError, ClaimsNotReady) as problem:
            self._report(stateful_set, "Create", name, problem)
            raise
        await self.claims.fix_owners(stateful_set, Pod(ObjectMeta(name=name, namespace=namespace)))
        self._report(stateful_set, "Create", name)
        return True

    async def _delete(self, stateful_set: JsonObject, pod: Pod) -> None:
        try:
            await self.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        except ApiError as problem:
            self._report(stateful_set, "Delete", pod.metadata.name, problem)
            raise
        self._report(stateful_set, "Delete", pod.metadata.name)

    async def _repair(self, stateful_set: JsonObject, pod: Pod) -> None:
        """Give a pod its labels, its claims and their owners. Volumes cannot be added to an existing pod; the API
        rejects that, and the set waits until a user deletes the pod."""
        name, ordinal = pod.metadata.name, ordinal_of(pod.metadata.name, stateful_set["metadata"]["name"]) or 0
        body: JsonObject = {}
        if pod.metadata.labels.get(POD_NAME_LABEL) != name:
            body["metadata"] = {"labels": {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}}
        try:
            if not has_volumes(stateful_set, pod, ordinal):
                await self.claims.ensure(stateful_set, name)
                body["spec"] = {"volumes": with_claims(stateful_set, [], ordinal)}
            await self.claims.fix_owners(stateful_set, pod)
            if body:
                await self.client.patch(PODS, name, pod.metadata.namespace, body, PatchType.STRATEGIC)
        except (ApiError, ClaimsNotReady) as problem:
            self._report(stateful_set, "Update", name, problem)
            raise
        self._report(stateful_set, "Update", name)

    def _with_written_status(self, stateful_set: JsonObject) -> JsonObject:
        """The set with the status that this process wrote last, if the cache does not show it yet: the counters decide
        which revision the next pod gets."""
        metadata = stateful_set["metadata"]
        version, status = self._written.get(metadata["uid"], ("0", {}))
        return {**stateful_set, "status": status} if newer(version, metadata["resourceVersion"]) else stateful_set

    async def _write_status(self, stateful_set: JsonObject, status: JsonObject) -> None:
        before = stateful_set.get("status") or {}
        if all(before.get(name) == value for name, value in status.items()):
            return
        uid = stateful_set["metadata"]["uid"]
        made = await self.client.patch_status(STATEFUL_SETS, stateful_set, status)
        if made is None:
            self._written.pop(uid, None)
        else:
            self._written[uid] = (made["metadata"]["resourceVersion"], made["status"])

    def _when_available(self, stateful_set: JsonObject, pods: Sequence[Pod]) -> Requeue | None:
        """When the next ready pod becomes available: no event shows that."""
        seconds = stateful_set["spec"].get("minReadySeconds") or 0
        waits = [available_in(pod, seconds) for pod in pods if seconds and pod.ready]
        pending = [wait.total_seconds() for wait in waits if wait > timedelta(0)]
        return Requeue(after=min(pending) + 0.01) if pending else None

    def _report(self, stateful_set: JsonObject, verb: str, pod: str, problem: Exception | None = None) -> None:
        if isinstance(problem, ApiError) and problem.caused_by(NAMESPACE_TERMINATING):
            return
        subject = f"{verb} Pod {pod} in StatefulSet {stateful_set['metadata']['name']}"
        if problem is None:
            self.recorder.normal(STATEFUL_SETS, stateful_set, f"Successful{verb}", f"{subject} successful")
        else:
            self.recorder.warning(STATEFUL_SETS, stateful_set, f"Failed{verb}", f"{subject} failed error: {problem}")


def set_facts(stateful_set: JsonObject, resolved: Resolved | None) -> SetFacts:
    spec = stateful_set["spec"]
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    replicas = spec.get("replicas")
    return SetFacts(
        replicas=1 if replicas is None else replicas,
        start=(spec.get("ordinals") or {}).get("start") or 0,
        ordered=spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady",
        rolling=strategy.get("type", "RollingUpdate") == "RollingUpdate",
        partition=None if rolling is None else rolling.get("partition") or 0,
        max_unavailable=(rolling or {}).get("maxUnavailable"),
        current_revision=resolved.current.name if resolved else "",
        update_revision=resolved.update.name if resolved else "",
        current_replicas=(stateful_set.get("status") or {}).get("currentReplicas") or 0,
        deleting="deletionTimestamp" in stateful_set["metadata"],
    )


def status_of(
    stateful_set: JsonObject, resolved: Resolved, facts: SetFacts, counts: statefulset_plan.Counts
) -> JsonObject:
    """The status to write. Zero counts that the API omits are written as null, so that old values are removed."""
    complete = statefulset_plan.is_complete(facts, counts)
    return {
        "observedGeneration": stateful_set["metadata"].get("generation"),
        "replicas": counts.replicas,
        "readyReplicas": counts.ready or None,
        "availableReplicas": counts.available,
        "currentReplicas": (counts.updated if complete else counts.current) or None,
        "updatedReplicas": counts.updated or None,
        "currentRevision": resolved.update.name if complete else resolved.current.name,
        "updateRevision": resolved.update.name,
        "collisionCount": resolved.collisions,
    }


def _has_its_revision(facts: statefulset_plan.SetFacts, pod: Pod) -> bool:
    found = parse_pod_name(pod.metadata.name)
    assert found is not None  # a member has a number
    return pod.metadata.labels.get(REVISION_LABEL) == statefulset_plan.revision_for(facts, found.ordinal)
