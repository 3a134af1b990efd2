"""The Deployment reconciler."""

from collections.abc import Iterable, Sequence

import msgspec

from kohort.cluster.workloads import conditions, controller_ref
from kohort.cluster.workloads.deployment import owned_replicasets, status
from kohort.cluster.workloads.deployment import plan as deployment_plan
from kohort.cluster.workloads.deployment.plan import Sizes
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import NAMESPACE_TERMINATING, AlreadyExists, ApiError, NotFound
from kohort.kube.event_mapping import controller_of, is_controlled_by, map_to_controller_owner
from kohort.kube.manager import Manager
from kohort.kube.resources import DEPLOYMENTS, REPLICA_SETS, Key
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rules.rolling_limits import RollLimits, deployment_limits


class _Set:
    """A ReplicaSet with typed metadata, as `controller_ref` needs it, and the whole object."""

    def __init__(self, document: JsonObject) -> None:
        self.document = document
        self.metadata: ObjectMeta = msgspec.convert(document["metadata"], ObjectMeta)


def register(manager: Manager) -> None:
    Deployments(manager)


class Deployments:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("deployment-controller")
        self.deployments = manager.informer(DEPLOYMENTS, JsonObject)
        self.sets = manager.informer(REPLICA_SETS, JsonObject)
        controller = manager.controller("deployment", self.reconcile, workers=4, max_delay=30)
        controller.watches(self.deployments)
        controller.watches(self.sets, self._deployments_of_set)

    async def reconcile(self, key: Key) -> Requeue | None:
        deployment = self.deployments.get(key)
        if deployment is None:
            return None
        sets = await self._sets_of(deployment)
        if "deletionTimestamp" in deployment["metadata"]:
            await self._write_status(deployment, sets, owned_replicasets.find_new(deployment, sets), progress=None)
            return None
        deployment = await self._write_pause_condition(deployment)
        limits = limits_of(deployment)
        new = await self._sync_new_set(deployment, sets, owned_replicasets.find_new(deployment, sets))
        paused = bool(deployment["spec"].get("paused"))
        if paused or self._was_scaled(deployment, sets):
            await self._resize(deployment, sets, self._scaling(deployment, sets, new, limits), limits)
            if paused:
                await self._delete_surplus(deployment, sets, new)
            current = [self._fresh(one) for one in sets]
            await self._write_status(deployment, current, self._fresh(new) if new else None, progress=None)
            return None
        return await self._roll_out(deployment, sets, new, limits)

    async def _roll_out(
        self, deployment: JsonObject, sets: list[JsonObject], found: JsonObject | None, limits: RollLimits
    ) -> Requeue | None:
        new = await self._roll(deployment, sets, found, limits)
        current = [self._fresh(one) for one in sets]
        progress = status.FOUND if found or not new else status.CREATED
        await self._write_status(deployment, current, self._fresh(new) if new else None, progress=progress)
        if status.is_complete(deployment, status.counts(sets, new)):
            await self._delete_surplus(deployment, sets, new)
        return self._deadline(deployment)

    # Observing

    def _deployments_of_set(self, replica_set: JsonObject) -> Iterable[Key]:
        if controller_of(replica_set) is not None:
            return map_to_controller_owner("Deployment", "apps")(replica_set)
        labels = replica_set["metadata"].get("labels") or {}
        namespace = replica_set["metadata"]["namespace"]
        return [
            Key(namespace, one["metadata"]["name"])
            for one in self.deployments.list(namespace)
            if controller_ref.selector_of(one).matches(labels)
        ]

    async def _sets_of(self, deployment: JsonObject) -> list[JsonObject]:
        candidates = [_Set(one) for one in self.sets.list(deployment["metadata"]["namespace"])]
        claimed = await controller_ref.claim(self.client, DEPLOYMENTS, deployment, REPLICA_SETS, candidates)
        return [one.document for one in claimed]

    def _fresh(self, replica_set: JsonObject) -> JsonObject:
        metadata = replica_set["metadata"]
        return self.sets.get(Key(metadata["namespace"], metadata["name"])) or replica_set

    def _was_scaled(self, deployment: JsonObject, sets: Sequence[JsonObject]) -> bool:
        """`replicas` changed since the sets that have pods were last scaled."""
        wanted = deployment["spec"].get("replicas", 1)
        facts = [owned_replicasets.facts_of(one) for one in sets]
        return any(one.replicas > 0 and one.scaled_for is not None and one.scaled_for != wanted for one in facts)

    # Writing

    def _scaling(
        self, deployment: JsonObject, sets: Sequence[JsonObject], new: JsonObject | None, limits: RollLimits
    ) -> Sizes:
        return deployment_plan.plan_scaling(
            deployment["spec"].get("replicas", 1),
            limits,
            [owned_replicasets.facts_of(one) for one in sets],
            owned_replicasets.facts_of(new) if new else None,
            rolling=deployment["spec"]["strategy"]["type"] == "RollingUpdate",
            reported=(deployment.get("status") or {}).get("replicas") or 0,
        )

    async def _roll(
        self, deployment: JsonObject, sets: list[JsonObject], new: JsonObject | None, limits: RollLimits
    ) -> JsonObject | None:
        wanted = deployment["spec"].get("replicas", 1)
        recreate = deployment["spec"]["strategy"]["type"] == "Recreate"
        old = [one for one in sets if new is None or one["metadata"]["uid"] != new["metadata"]["uid"]]
        old_facts = [owned_replicasets.facts_of(one) for one in old]
        if recreate:
            away = deployment_plan.plan_recreate(wanted, owned_replicasets.facts_of(new) if new else None, old_facts)
            if away or any(one.pods for one in old_facts):
                await self._resize(deployment, sets, away, limits)
                return new
        new = new or await self._create(deployment, sets, limits)
        if new is None:
            return None
        facts = owned_replicasets.facts_of(new)
        if recreate:
            sizes = deployment_plan.plan_recreate(wanted, facts, old_facts)
        else:
            sizes = deployment_plan.plan_rolling(wanted, limits, facts, old_facts)
        await self._resize(deployment, [new, *old], sizes, limits)
        return new

    async def _sync_new_set(
        self, deployment: JsonObject, sets: list[JsonObject], new: JsonObject | None
    ) -> JsonObject | None:
        """The set of the current template, with the annotations and `minReadySeconds` of the Deployment and the highest
        revision number of all sets."""
        if new is None:
            return None
        revision = max(owned_replicasets.revision_of(new), _newest(sets, new) + 1)
        before = new["metadata"].get("annotations") or {}
        wanted = owned_replicasets.annotations(deployment, before, revision)
        if wanted != before:
            await self._annotate_set(new, wanted)
            new = {**new, "metadata": {**new["metadata"], "annotations": wanted}}
        await self._write_revision(deployment, revision)
        return await self._sync_min_ready_seconds(deployment, new)

    async def _sync_min_ready_seconds(self, deployment: JsonObject, new: JsonObject) -> JsonObject:
        """`minReadySeconds` is not part of the template: a change of it is written to the existing set."""
        seconds = deployment["spec"].get("minReadySeconds") or 0
        if (new["spec"].get("minReadySeconds") or 0) == seconds:
            return new
        metadata = new["metadata"]
        body = {"spec": {"minReadySeconds": seconds}}
        await self.client.patch(REPLICA_SETS, metadata["name"], metadata["namespace"], body)
        return {**new, "spec": {**new["spec"], "minReadySeconds": seconds}}

    async def _create(self, deployment: JsonObject, sets: list[JsonObject], limits: RollLimits) -> JsonObject | None:
        """Create a set for the current template: as large as the surge allows, or complete with Recreate."""
        replicas = wanted = deployment["spec"].get("replicas", 1)
        if deployment["spec"]["strategy"]["type"] == "RollingUpdate":
            existing = sum(one["spec"].get("replicas") or 0 for one in sets)
            replicas = min(wanted, max(0, wanted + limits.surge - existing))
        revision, maximum = _newest(sets) + 1, wanted + limits.surge
        collisions = (deployment.get("status") or {}).get("collisionCount") or 0
        body = owned_replicasets.build(
            deployment, replicas=replicas, revision=revision, maximum=maximum, collisions=collisions
        )
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        try:
            made: JsonObject = await self.client.create(REPLICA_SETS, body)
        except AlreadyExists:
            found: JsonObject | None = await self.client.find(REPLICA_SETS, name, namespace)
            ours = found is not None and is_controlled_by(found, deployment["metadata"]["uid"])
            if found and ours and owned_replicasets.same_template(deployment, found):
                return found
            await self.client.patch_status(DEPLOYMENTS, deployment, {"collisionCount": collisions + 1})
            return None
        except ApiError as problem:
            if problem.caused_by(NAMESPACE_TERMINATING):
                return None
            await self._report_refusal(deployment, name, problem)
            raise
        sets.append(made)
        await self._write_revision(deployment, revision)
        message = f"Scaled up replica set {name} from 0 to {replicas}"
        if replicas:
            self.recorder.normal(DEPLOYMENTS, deployment, "ScalingReplicaSet", message)
        return made

    async def _report_refusal(self, deployment: JsonObject, name: str, problem: ApiError) -> None:
        message = f'Failed to create new replica set "{name}": {problem}'
        if status.has_deadline(deployment):
            await self._set_progress(deployment, "False", "ReplicaSetCreateError", message)
        self.recorder.warning(DEPLOYMENTS, deployment, "ReplicaSetCreateError", message)

    async def _resize(
        self, deployment: JsonObject, sets: Sequence[JsonObject], sizes: Sizes, limits: RollLimits
    ) -> None:
        note = owned_replicasets.scale_annotations(deployment, deployment["spec"].get("replicas", 1) + limits.surge)
        for one in sets:
            name = one["metadata"]["name"]
            size = sizes.get(name)
            if size is None:
                noted = one["spec"].get("replicas") and self._was_scaled(deployment, [one])
                if noted and not _sized_by_others(deployment):
                    await self._annotate_set(one, note)
                continue
            body = {"metadata": {"annotations": note}, "spec": {"replicas": size}}
            try:
                await self.client.patch(REPLICA_SETS, name, one["metadata"]["namespace"], body)
            except NotFound:
                continue
            old = one["spec"].get("replicas") or 0
            verb = "up" if size > old else "down"
            text = f"Scaled {verb} replica set {name} from {old} to {size}"
            self.recorder.normal(DEPLOYMENTS, deployment, "ScalingReplicaSet", text)

    async def _annotate_set(self, replica_set: JsonObject, wanted: JsonObject) -> None:
        metadata = replica_set["metadata"]
        try:
            await self.client.patch(
                REPLICA_SETS, metadata["name"], metadata["namespace"], {"metadata": {"annotations": wanted}}
            )
        except NotFound:
            return

    async def _write_revision(self, deployment: JsonObject, revision: int) -> None:
        if owned_replicasets.revision_of(deployment) == revision:
            return
        metadata = deployment["metadata"]
        body = {"metadata": {"annotations": {owned_replicasets.REVISION: str(revision)}}}
        # Through the status endpoint: there, a changed annotation does not count as a changed intent (generation).
        await self.client.patch(DEPLOYMENTS, metadata["name"], metadata["namespace"], body, subresource="status")

    async def _write_pause_condition(self, deployment: JsonObject) -> JsonObject:
        """Pausing and resuming are recorded as progress conditions, so that the deadline does not run meanwhile."""
        if not status.has_deadline(deployment):
            return deployment
        found: list[JsonObject] = (deployment.get("status") or {}).get("conditions") or []
        current = conditions.find(found, "Progressing")
        paused_before = current is not None and current.get("reason") == "DeploymentPaused"
        paused = bool(deployment["spec"].get("paused"))
        if current is not None and current.get("reason") == "ProgressDeadlineExceeded":
            return deployment
        if paused and not paused_before:
            return await self._set_progress(deployment, "Unknown", "DeploymentPaused", "Deployment is paused")
        if paused_before and not paused:
            return await self._set_progress(deployment, "Unknown", "DeploymentResumed", "Deployment is resumed")
        return deployment

    async def _set_progress(self, deployment: JsonObject, state: str, reason: str, message: str) -> JsonObject:
        before: list[JsonObject] = (deployment.get("status") or {}).get("conditions") or []
        found = conditions.merged(before, "Progressing", state, reason, message, update_time=True)
        if found is not before:
            await self.client.patch_status(DEPLOYMENTS, deployment, {"conditions": found})
        return {**deployment, "status": {**(deployment.get("status") or {}), "conditions": found}}

    async def _write_status(
        self, deployment: JsonObject, sets: Sequence[JsonObject], new: JsonObject | None, *, progress: str | None
    ) -> None:
        """`progress`: in a rollout, whether the new set was created or found; None outside of one."""
        wanted = status.counts(sets, new)
        found = status.with_availability(deployment, wanted, limits_of(deployment))
        if progress is not None:
            found = status.with_progress(deployment, wanted, found, new, progress)
            found = status.with_failures(found, new, sets)
        wanted["conditions"] = found
        wanted["observedGeneration"] = deployment["metadata"].get("generation")
        before = deployment.get("status") or {}
        if all(before.get(name) == value for name, value in wanted.items()):
            return
        await self.client.patch_status(DEPLOYMENTS, deployment, wanted)

    async def _delete_surplus(self, deployment: JsonObject, sets: list[JsonObject], new: JsonObject | None) -> None:
        limit = deployment["spec"].get("revisionHistoryLimit")
        if limit is None:
            return
        idle = [
            one
            for one in sets
            if (new is None or one["metadata"]["uid"] != new["metadata"]["uid"])
            and not one["spec"].get("replicas")
            and not (one.get("status") or {}).get("replicas")
            and "deletionTimestamp" not in one["metadata"]
        ]
        idle.sort(key=owned_replicasets.revision_of)
        for one in idle[: max(0, len(idle) - limit)]:
            try:
                await self.client.delete(REPLICA_SETS, one["metadata"]["name"], one["metadata"]["namespace"])
            except NotFound:
                continue

    def _deadline(self, deployment: JsonObject) -> Requeue | None:
        seconds = deployment["spec"].get("progressDeadlineSeconds")
        found: list[JsonObject] = (deployment.get("status") or {}).get("conditions") or []
        current = conditions.find(found, "Progressing")
        if seconds is None or current is None or current["status"] == "False" or deployment["spec"].get("paused"):
            return None
        if current.get("reason") == "NewReplicaSetAvailable":
            return None
        left = (status.deadline_of(current, seconds) - clock.now()).total_seconds()
        return Requeue(after=max(left, 0) + 0.1)


def _newest(sets: Sequence[JsonObject], besides: JsonObject | None = None) -> int:
    """The highest revision of these sets, `besides` excluded."""
    uid = besides["metadata"]["uid"] if besides else ""
    return max((owned_replicasets.revision_of(one) for one in sets if one["metadata"]["uid"] != uid), default=0)


def limits_of(deployment: JsonObject) -> RollLimits:
    rolling = deployment["spec"]["strategy"].get("rollingUpdate")
    if rolling is None:
        return RollLimits(0, 0)
    return deployment_limits(rolling["maxSurge"], rolling["maxUnavailable"], deployment["spec"].get("replicas", 1))


def _sized_by_others(deployment: JsonObject) -> bool:
    """A paused Deployment whose sets are not scaled in proportion. Another controller sizes them, and sees by their
    annotation that the Deployment was scaled."""
    spec = deployment["spec"]
    return bool(spec.get("paused")) and spec["strategy"]["type"] == "Recreate"
