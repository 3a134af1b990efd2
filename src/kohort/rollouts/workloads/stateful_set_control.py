"""StatefulSets under release, in partition style: so many pods of one set have the new version as a step says."""

from collections.abc import Collection
from typing import Final

import msgspec

from kohort.kube.errors import NotFound
from kohort.kube.resources import PODS, STATEFUL_SETS, Key
from kohort.objects.apps import StatefulSet
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import counted, counted_of
from kohort.objects.json_types import JsonObject
from kohort.rollouts.action_result import DONE, ActionResult, Done, Waiting
from kohort.rollouts.rollout_types import BatchRelease, Rollout
from kohort.rollouts.traffic.model import RouteRef
from kohort.rollouts.traffic.withdrawal import LOOK_SECONDS, workload_name
from kohort.rollouts.workloads import serving_pods, stateful_set_hold
from kohort.rollouts.workloads.group_readiness import readiness_text
from kohort.rollouts.workloads.model import ReleasedWorkload, ReplicaCounts
from kohort.rollouts.workloads.workload_control import WorkloadControl, may_shrink, release_id
from kohort.rules import rollout_labels
from kohort.rules.group_identity import parse_pod_name
from kohort.rules.group_state import pod_is_ready
from kohort.rules.release_hold import is_held_by_release
from kohort.rules.rolling_limits import stateful_set_limit

_NO_ORDINAL: Final = -1


class StatefulSetControl(WorkloadControl[StatefulSet]):
    resource = STATEFUL_SETS
    type_label = "statefulset"
    unit = "pods"

    def find(self, key: Key) -> StatefulSet | None:
        return self.cache.stateful_sets.get(key)

    def copies(self, key: Key) -> list[StatefulSet]:
        """None: there is no second set beside one of numbered pods."""
        del key
        return []

    def canary(self, release: BatchRelease) -> StatefulSet | None:
        del release
        return None

    def size(self, subject: StatefulSet) -> int:
        return subject.replicas

    def is_seen_by_its_controller(self, subject: StatefulSet) -> bool:
        return subject.observed

    def version(self, subject: StatefulSet) -> str:
        return subject.status.update_revision

    def has_release_marks(self, stable: StatefulSet) -> bool:
        return stateful_set_hold.has_release_marks(stable.metadata)

    def release_hold_patch(self, stable: StatefulSet, token: str) -> JsonObject:
        return stateful_set_hold.release_hold_patch(stable, token)

    def leave_held_patch(self, stable: StatefulSet, token: str) -> JsonObject:
        return stateful_set_hold.leave_held_patch(token)

    def is_held(self, stable: StatefulSet) -> bool:
        given = stateful_set_hold.held_partition(stable.metadata)
        if given is None:
            # Without a step of ours, every partition that Kruise Rollouts has given to it holds it.
            return stable.partition > 0
        return stable.partition == given

    def hold_again_patch(self, stable: StatefulSet) -> JsonObject:
        return stateful_set_hold.hold_again_patch(stable)

    # Observing

    def observe(self, rollout: Rollout) -> ReleasedWorkload | None:
        stable = self.live(Key(rollout.metadata.namespace, rollout.spec.workload_ref.name))
        if stable is None:
            return None
        metadata, status = stable.metadata, stable.status
        in_progress = is_held_by_release(metadata.annotations)
        stable_revision = _stable_revision(stable)
        release = self.cache.releases.get(Key(metadata.namespace, rollout.metadata.name))
        return ReleasedWorkload(
            name=metadata.name,
            generation=metadata.generation,
            revision_key=rollout_labels.REVISION_HASH,
            uid=metadata.uid,
            consistent=stable.observed and bool(status.update_revision and status.current_revision),
            replicas=stable.replicas,
            has_webhook_label=rollout_labels.WORKLOAD_TYPE in metadata.labels,
            in_progress=in_progress,
            in_rollback=in_progress and status.update_revision == stable_revision,
            stable_revision=stable_revision,
            canary_revision=status.update_revision,
            pod_template_hash=status.update_revision,
            released=self.released(release) if release is not None else "",
            rollout_id=release_id(stable),
            extra_workload=False,
            serving=serving_pods.of_stateful_set(stable),
        )

    def released(self, release: BatchRelease) -> str:
        """What runs besides the stable version."""
        stable = self.stable(release)
        if stable is None or stable.status.update_revision == _stable_revision(stable):
            return ""
        return stable.status.update_revision if self._updated_pods(stable) else ""

    def has_copy(self, release: BatchRelease) -> bool:
        del release
        return False

    def counts(self, release: BatchRelease, desired: int) -> ReplicaCounts:
        """Its status does not say how many pods of the new version are ready."""
        stable = self.stable(release)
        if stable is None:
            return ReplicaCounts(observed=False)
        pods = self._updated_pods(stable)
        ready = sum(map(pod_is_ready, pods))
        return ReplicaCounts(len(pods), ready, stable.observed, readiness_text(ready, desired, pods, self.unit))

    def canary_gone(self, rollout: Rollout) -> bool:
        """Pods of both versions are in one set, so there is none that a Service without a pin should not reach."""
        del rollout
        return True

    def _pods(self, stable: StatefulSet) -> list[Pod]:
        """Those that live, in the order in which a set replaces them."""
        found = self.cache.pods_of_stateful_set(stable.metadata.uid)
        return sorted((pod for pod in found if not pod.metadata.deleting), key=_ordinal, reverse=True)

    def _updated_pods(self, stable: StatefulSet) -> list[Pod]:
        wanted = stable.status.update_revision
        return [pod for pod in self._pods(stable) if wanted and _revision(pod) == wanted]

    # Acting

    async def adopt_held(self, rollout: Rollout) -> None:
        """A set that was left held has a partition that its user may take off: the next change of its template is held
        by this Rollout."""

    async def initialize(self, release: BatchRelease) -> ActionResult:
        stable = self.stable(release)
        if stable is None or not is_held_by_release(stable.metadata.annotations):
            return Waiting(f"StatefulSet {release.spec.workload_ref.name} is not held: nothing is released")
        return Done(events=await self.ensure_hold(stable, release))

    async def upgrade(self, release: BatchRelease, desired: int) -> ActionResult:
        """The partition only comes down, unless replicas were added, or the new version is withdrawn."""
        stable = self.stable(release)
        if stable is None:
            await self.put_back(release)
            return Waiting("the StatefulSet does not exist")
        if stable.status.update_revision == _stable_revision(stable):
            return Waiting(f"{stable.metadata.name} has its old template again")
        wanted = self._granted(stable, release, desired)
        planned = stateful_set_hold.planned(wanted, stable.replicas)
        partition = stateful_set_hold.partition_for(planned, stable.replicas)
        annotations = stable.metadata.annotations
        if stable.partition != partition or annotations.get(rollout_labels.STEP_REPLICAS) != str(wanted):
            if refs := self.draining_routes(release):
                return await self._drained_round(stable, release, refs, wanted, planned)
            await self.patch(stable, stateful_set_hold.step_patch(wanted, partition, release.metadata.uid))
            return Waiting(f"{stable.metadata.name} gives {counted(planned, 'pod')} the new version")
        if waiting := await self._keep_leaving_pods_out(stable, release, planned):
            return waiting
        return await self._take_back_excess(stable, release, partition)

    async def _keep_leaving_pods_out(self, stable: StatefulSet, release: BatchRelease, planned: int) -> Waiting | None:
        """Drained pods stay out of the Services until they are gone."""
        leaving, refs = self._replaced_next(stable, planned), self.draining_routes(release)
        if not leaving or not refs:
            return None
        await self._withdraw(stable, refs, leaving, drained=True)
        name, count = stable.metadata.name, counted(len(leaving), "pod")
        return Waiting(f"{name}: {count} of the old version still to be replaced", LOOK_SECONDS)

    async def _drained_round(
        self, stable: StatefulSet, release: BatchRelease, refs: tuple[RouteRef, ...], wanted: int | str, planned: int
    ) -> ActionResult:
        """Give as many pods the new version as the set may lack at a time, once they are drained; the next ones when
        those are ready. A partition that goes back replaces no pod of the old version."""
        name, token, total = stable.metadata.name, release.metadata.uid, stable.replicas
        reached = max(0, total - stable.partition)  # Of a set that was scaled down, fewer than its step says.
        if planned <= reached:
            partition = stateful_set_hold.partition_for(planned, total)
            await self.patch(stable, stateful_set_hold.step_patch(wanted, partition, token))
            return Waiting(f"{name} gives {counted(planned, 'pod')} the new version")
        begun = [pod for pod in self._updated_pods(stable) if self._index(stable, pod) >= stable.partition]
        ready, version = sum(map(pod_is_ready, begun)), _template_version(stable)
        if ready < reached:
            if waiting := await self._keep_leaving_pods_out(stable, release, reached):
                return waiting
            await self.put_back(release)
            return Waiting(f"{name}: {ready}/{reached} pods ready at {version}", LOOK_SECONDS)
        following = min(planned, reached + _may_be_away(stable))
        result = await self._withdraw(stable, refs, self._replaced_next(stable, following))
        if isinstance(result, Waiting):
            return result
        granted: int | str = wanted if following == planned else following
        partition = stateful_set_hold.partition_for(following, total)
        await self.patch(stable, stateful_set_hold.step_patch(granted, partition, token))
        return Waiting(f"{name} gives {counted(following, 'pod')} {version}", events=result.events)

    async def _withdraw(
        self, stable: StatefulSet, refs: tuple[RouteRef, ...], leaving: Collection[str], *, drained: bool = False
    ) -> Done | Waiting:
        if self.withdrawal is None:
            return DONE
        namespace, workload = stable.metadata.namespace, workload_name(self.resource, stable.metadata.name)
        result = await self.withdrawal.withdraw(namespace, refs, workload, leaving, drained=drained)
        if isinstance(result, Waiting):
            # No event follows when time has passed, and pods that come meanwhile need the label.
            return msgspec.structs.replace(result, seconds=min(result.seconds, LOOK_SECONDS))
        return result

    def _replaced_next(self, stable: StatefulSet, planned: int) -> set[str]:
        """Uids of pods of other versions that go when so many pods shall have the new one."""
        partition = stateful_set_hold.partition_for(planned, stable.replicas)
        new = stable.status.update_revision
        return {
            pod.metadata.uid
            for pod in self._pods(stable)
            if self._index(stable, pod) >= partition and _revision(pod) != new
        }

    def _granted(self, stable: StatefulSet, release: BatchRelease, desired: int) -> int | str:
        """How many pods may have the new version, as the plan spells it: the largest step so far."""
        if rollout_labels.WITHDRAWN in release.metadata.annotations:
            return 0
        known = stateful_set_hold.replicas_of_step(stable)
        if stateful_set_hold.planned(known, stable.replicas) >= desired and not may_shrink(release):
            return known
        return release.plan.batches[release.status.canary_status.current_batch].canary_replicas

    async def _take_back_excess(self, stable: StatefulSet, release: BatchRelease, partition: int) -> ActionResult:
        """Pods below the partition that have the new version are drained and deleted, one after the other: the set's
        controller does not do so, and makes them anew at the old version."""
        excess = [pod for pod in self._updated_pods(stable) if self._index(stable, pod) < partition]
        if not excess:
            await self.put_back(release)
            return DONE
        if stable.status.current_revision == stable.status.update_revision:
            return Waiting(
                f"every pod of {stable.metadata.name} has the new version, and its controller knows no other: put the "
                "old template back to return to it"
            )
        pods = self._pods(stable)
        away = stable.replicas - sum(map(pod_is_ready, pods))
        broken = [pod for pod in excess if not pod_is_ready(pod)]
        chosen = broken or excess[: max(0, _may_be_away(stable) - away)]
        if broken or not chosen:
            await self.put_back(release)
        result: Done | Waiting = DONE
        if not broken and (refs := self.draining_routes(release)):
            result = await self._withdraw(stable, refs, {pod.metadata.uid for pod in chosen})
        if isinstance(result, Waiting):
            return result
        for pod in chosen:
            await self._delete(pod)
        text = f"{stable.metadata.name}: {counted(len(excess), 'pod')} back to the old version"
        return Waiting(text, events=result.events)

    async def _delete(self, pod: Pod) -> None:
        metadata = pod.metadata
        try:
            await self.client.delete(PODS, metadata.name, metadata.namespace, uid=metadata.uid)
        except NotFound:
            return

    @staticmethod
    def _index(stable: StatefulSet, pod: Pod) -> int:
        return _ordinal(pod) - stable.spec.ordinals.start

    async def label_batches(self, release: BatchRelease, batch: int) -> None:
        stable = self.stable(release)
        if stable is not None:
            await self.label_pods_of_batches(release, self._updated_pods(stable), batch)

    # Ending

    async def finalize_stable(self, stable: StatefulSet, release: BatchRelease) -> ActionResult:
        waits = release.plan.finalizing_policy == rollout_labels.WAIT_RESUME
        if waits and release.plan.batch_partition is None and (rest := await self._drained_rest(stable, release)):
            return rest
        if not waits and (rest := await self._drained_return(stable, release)):
            return rest
        await self.put_back(release)
        if release.plan.batch_partition is not None:
            return await self.detach_release(stable)
        name, token = stable.metadata.name, release.metadata.uid
        if is_held_by_release(stable.metadata.annotations):
            back = stable.observed and stable.status.update_revision == _stable_revision(stable)
            if back:
                await self._delete_broken(stable)
            if waits or (back and stateful_set_hold.partition_of_user(stable.metadata)):
                await self.patch(stable, stateful_set_hold.promote_patch(token))
            else:
                await self.patch(stable, self.release_hold_patch(stable, token))
            return Waiting(f"{name} goes on by itself")
        if (waits or stateful_set_hold.is_promoting(stable)) and (text := _not_promoted(stable)):
            return Waiting(text)
        if self.has_release_marks(stable):
            await self.patch(stable, self.release_hold_patch(stable, token))
            return Waiting(f"{name} gets its own strategy back")
        return DONE

    async def _drained_rest(self, stable: StatefulSet, release: BatchRelease) -> ActionResult | None:
        """The pods that the last step left are replaced as those before them, while they can still be drained."""
        refs, total = self.draining_routes(release), stable.replicas
        held = is_held_by_release(stable.metadata.annotations)
        if not refs or not held or stable.status.update_revision == _stable_revision(stable):
            return None
        if not total or not stable.partition:
            return None
        return await self._drained_round(stable, release, refs, total, total)

    async def _drained_return(self, stable: StatefulSet, release: BatchRelease) -> ActionResult | None:
        """A rollback. Pods of the version that is given up are replaced while they can still be drained."""
        refs, status = self.draining_routes(release), stable.status
        held = is_held_by_release(stable.metadata.annotations)
        if not refs or not held or release.plan.batch_partition is not None or self.goes_on_at_once(release):
            return None
        if not stable.observed:
            return Waiting(f"{stable.metadata.name} has not been looked at by its controller yet", LOOK_SECONDS)
        others = [pod for pod in self._pods(stable) if _revision(pod) != status.update_revision]
        if not others or status.update_revision != _stable_revision(stable):
            return None
        broken = [pod for pod in others if not pod_is_ready(pod)]
        same = status.current_revision == status.update_revision
        if not all(same or self._index(stable, pod) >= stable.partition for pod in broken):
            return None  # It would come back at the version that is given up, and the set would wait for it.
        for pod in broken:
            await self._delete(pod)
        return await self._drained_round(stable, release, refs, stable.replicas, stable.replicas)

    async def _delete_broken(self, stable: StatefulSet) -> None:
        """A rollback. The controller of an ordered set waits for pods that will never be ready before it replaces any,
        so those of the version that is given up are deleted."""
        for pod in self._pods(stable):
            if _revision(pod) != stable.status.update_revision and not pod_is_ready(pod):
                await self._delete(pod)


def _stable_revision(stable: StatefulSet) -> str:
    """As it was noted when the set was held; otherwise that of its status."""
    if not is_held_by_release(stable.metadata.annotations):
        return stable.status.current_revision
    return stable.metadata.labels.get(rollout_labels.STABLE_REVISION) or stable.status.current_revision


def _template_version(stable: StatefulSet) -> str:
    """What messages call the version of its template; in a rollback that is the old one."""
    return "the old version" if stable.status.update_revision == _stable_revision(stable) else "the new version"


def _not_promoted(stable: StatefulSet) -> str:
    """What is missing until every pod has the new version; empty when nothing is."""
    name, status, replicas = stable.metadata.name, stable.status, stable.replicas
    if not stable.observed:
        return f"{name} has not been looked at by its controller yet"
    if status.updated_replicas < replicas or status.replicas != replicas:
        return f"{name}: {counted_of(status.updated_replicas, replicas, 'pod')} with the new version"
    if status.ready_replicas < replicas:
        return f"{name}: {status.ready_replicas}/{replicas} pods ready at the new version"
    return ""


def _may_be_away(stable: StatefulSet) -> int:
    """How many pods its own roll may take away at a time."""
    rolling = stable.spec.update_strategy.rolling_update
    return stateful_set_limit(rolling.max_unavailable if rolling is not None else None, stable.replicas)


def _revision(pod: Pod) -> str:
    return pod.metadata.labels.get(rollout_labels.REVISION_HASH, "")


def _ordinal(pod: Pod) -> int:
    found = parse_pod_name(pod.metadata.name)
    return found.ordinal if found is not None else _NO_ORDINAL
