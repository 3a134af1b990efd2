"""LeaderWorkerSets under release: the stable set held, the new version in a set of its own.

Both styles use the same two objects. They differ in how the stable set is promoted: a canary release lets its groups
roll at the user's pace (`promotion_pace`), blue-green replaces them all at once, since the new version serves alone
meanwhile.
"""

from collections import Counter
from typing import Final

from kohort.kube import clock
from kohort.kube.errors import AlreadyExists
from kohort.kube.resources import LEADER_WORKER_SETS, Key
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import counted, counted_of
from kohort.objects.json_types import JsonObject
from kohort.rollouts import messages, step_arithmetic
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.group_set import HELD_GROUPS_PARTITION, GroupSet, is_held
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.promotion_pace import (
    CanaryGroups,
    PromotionView,
    first_taken,
    promotion_pace,
    seconds_without_node,
)
from kohort.rollouts.rollout_types import BatchRelease, Rollout
from kohort.rollouts.workloads import canary_set, group_hold, in_place_release, serving_pods
from kohort.rollouts.workloads.batch_labels import assign
from kohort.rollouts.workloads.group_readiness import count_without_node, groups_of, readiness_text, ready_groups
from kohort.rollouts.workloads.model import ReleasedWorkload, ReplicaCounts
from kohort.rollouts.workloads.workload_control import (
    WorkloadControl,
    batch_label,
    control_info,
    is_blue_green,
    is_owned_by,
    key_of,
    release_id,
)
from kohort.rules import group_labels, rollout_labels
from kohort.rules.group_identity import is_leader, leader_labels
from kohort.rules.group_state import has_revision
from kohort.rules.group_template import revision_key
from kohort.rules.rolling_limits import group_limits

_SALTS: Final = 8


class GroupControl(WorkloadControl[GroupSet]):
    resource = LEADER_WORKER_SETS
    type_label = "leaderworkerset"
    unit = "groups"

    def find(self, key: Key) -> GroupSet | None:
        return self.cache.sets.get(key)

    def copies(self, key: Key) -> list[GroupSet]:
        return self.cache.canaries(key)

    def size(self, subject: GroupSet) -> int:
        return subject.replicas

    def is_seen_by_its_controller(self, subject: GroupSet) -> bool:
        return subject.observed

    def version(self, subject: GroupSet) -> str:
        return subject.fingerprint

    def has_release_marks(self, stable: GroupSet) -> bool:
        return stable.in_progress or stable.promoting or stable.left_held

    def release_hold_patch(self, stable: GroupSet, token: str) -> JsonObject:
        return group_hold.release_hold_patch(stable, token)

    def leave_held_patch(self, stable: GroupSet, token: str) -> JsonObject:
        return group_hold.leave_held_patch(stable, token)

    # Observing

    def observe(self, rollout: Rollout) -> ReleasedWorkload | None:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        stable = self.live(key)
        if stable is None:
            return None
        live = self.cache.live_hash(key)
        release = self.cache.releases.get(Key(key.namespace, rollout.metadata.name))
        ours = [one for one in self.cache.canaries(key) if is_owned_by(one, release)]
        canary = next((one for one in ours if not one.metadata.deleting), None)
        stable_revision = self._stable_revision(stable, live)
        in_place = stable.resizes_in_place
        withdrawn = in_place and in_place_release.is_withdrawn(stable)
        back = stable.in_progress and (stable.is_stable_again or (live == stable_revision and not withdrawn))
        return ReleasedWorkload(
            name=key.name,
            generation=stable.metadata.generation,
            revision_key=group_labels.REVISION,
            uid=stable.metadata.uid,
            consistent=stable.observed and bool(live),
            replicas=stable.replicas,
            has_webhook_label=rollout_labels.WORKLOAD_TYPE in stable.metadata.labels,
            in_progress=stable.in_progress,
            in_rollback=back,
            left_held=stable.left_held,
            stable_revision=stable_revision,
            canary_revision=stable.fingerprint,
            earlier_canary_revision=stable.earlier_fingerprint,
            pod_template_hash=self._new_revision(canary, live if in_place and live != stable_revision else ""),
            expected_key=_expected_key(stable, rollout) if stable.in_progress and not back and not in_place else "",
            released=self.released(release) if release is not None else "",
            rollout_id=release_id(stable),
            canary_name=canary.metadata.name if canary is not None else "",
            pinned=leader_labels(canary.metadata.name) if canary is not None else {},
            extra_workload=not in_place,
            in_place=in_place,
            canary_lost=canary is None and bool(ours),
            serving=serving_pods.of_group_set(stable),
            remark=_status_note(stable, in_place=in_place),
        )

    def _new_revision(self, canary: GroupSet | None, in_place: str) -> str:
        return self.cache.live_hash(key_of(canary)) if canary is not None else in_place

    def _stable_revision(self, stable: GroupSet, live: str) -> str:
        if not stable.in_progress and not stable.left_held:
            return live
        noted = stable.metadata.labels.get(rollout_labels.STABLE_REVISION, "")
        if noted:
            return noted
        old = Counter(
            pod.metadata.labels.get(group_labels.REVISION, "")
            for pod in self.cache.pods_of(key_of(stable))
            if is_leader(pod.metadata.labels) and not has_revision(pod, live)
        )
        return old.most_common(1)[0][0] if old else live

    def has_copy(self, release: BatchRelease) -> bool:
        del release
        return True

    def counts(self, release: BatchRelease, desired: int) -> ReplicaCounts:
        stable = self.stable(release)
        if stable is not None and stable.resizes_in_place:
            return self._counts_in_place(stable, desired)
        canary = self.canary(release)
        if canary is None:
            return ReplicaCounts(
                observed=False, text=f"0/{desired} groups ready (0 pods), the canary set does not exist yet"
            )
        pods = self.cache.pods_of(key_of(canary))
        ready = self._ready_groups(canary)
        text = readiness_text(ready, desired, pods)
        if waiting := count_without_node(pods):
            text += f"; {counted(waiting, 'group')} unschedulable"
        return ReplicaCounts(canary.status.replicas, ready, observed=canary.observed, text=text)

    def _counts_in_place(self, stable: GroupSet, desired: int) -> ReplicaCounts:
        if in_place_release.is_withdrawn(stable):
            left = self._groups_not_stable(stable)
            return ReplicaCounts(left, 0, observed=stable.observed, text=in_place_release.text_of_return(left, stable))
        key = key_of(stable)
        found = in_place_release.resized_groups(self.cache.pods_of(key), stable, self.cache.live_hash(key))
        text = in_place_release.progress_text(found, desired, stable)
        return ReplicaCounts(found.updated, found.ready, observed=stable.observed, text=text)

    def _groups_not_stable(self, stable: GroupSet) -> int:
        """Groups that do not have the resources of the stable revision."""
        key = key_of(stable)
        revision = self._stable_revision(stable, self.cache.live_hash(key))
        return in_place_release.groups_of_other_revisions(self.cache.pods_of(key), revision)

    def canary_gone(self, rollout: Rollout) -> bool:
        key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
        if self.cache.canaries(key):
            return False
        progress = rollout.status.progress
        name = progress.canary_name if progress is not None else ""
        pods = self.cache.pods_of(Key(key.namespace, name)) if name else ()
        return not any(is_leader(pod.metadata.labels) for pod in pods)

    def canary(self, release: BatchRelease) -> GroupSet | None:
        stable = self.stable(release)
        if stable is None:
            return None
        patch = release.plan.patch_pod_template_metadata
        for one in self.owned_copies(release):
            if not one.metadata.deleting and canary_set.same_version(one, stable, patch):
                return one
        return None

    # Acting

    async def adopt_held(self, rollout: Rollout) -> None:
        stable = self.live(Key(rollout.metadata.namespace, rollout.spec.workload_ref.name))
        if stable is not None and stable.left_held:
            revision = self._stable_revision(stable, self.cache.live_hash(key_of(stable)))
            await self.patch(stable, group_hold.adopt_held_patch(rollout.metadata.name, revision))

    async def initialize(self, release: BatchRelease) -> ActionResult:
        stable = self.stable(release)
        if stable is None:
            return Waiting("the LeaderWorkerSet does not exist")
        if not stable.in_progress:
            return Waiting(f"LeaderWorkerSet {stable.metadata.name} is not held: nothing is released")
        events = await self.ensure_hold(stable, release)
        await self.set_autoscalers(stable, enabled=False, blue_green=is_blue_green(release))
        if stable.resizes_in_place:
            return Done(events=(*events, messages.resized_in_place(in_place_release.REMARK)))
        if self.canary(release) is not None:
            return Done(events=events)
        return await self._create_canary(stable, release, events)

    def is_held(self, stable: GroupSet) -> bool:
        return is_held(stable.spec, stable.step_partition if stable.resizes_in_place else HELD_GROUPS_PARTITION)

    def hold_again_patch(self, stable: GroupSet) -> JsonObject:
        return group_hold.hold_again_patch(stable)

    async def _create_canary(
        self, stable: GroupSet, release: BatchRelease, events: tuple[ReleaseEvent, ...]
    ) -> ActionResult:
        for salt in range(_SALTS):
            body = canary_set.canary_set(stable, release, control_info(release), salt)
            name = body["metadata"]["name"]
            try:
                await self.client.create(LEADER_WORKER_SETS, body)
            except AlreadyExists:
                found: GroupSet = await self.client.get(
                    LEADER_WORKER_SETS, name, stable.metadata.namespace, type=GroupSet
                )
                if is_owned_by(found, release):
                    return Waiting(f"canary {name} is not observed yet", events=events)
                continue
            created = messages.canary_created(name, self.unit)
            return Waiting(f"canary {name} is not observed yet", events=(*events, created))
        return Problem(f"every name for a canary of {stable.metadata.name} is taken by others")

    async def upgrade(self, release: BatchRelease, desired: int) -> ActionResult:
        stable = self.stable(release)
        if stable is not None and stable.in_progress and stable.resizes_in_place:
            return await self._resize_groups(stable, release, desired)
        canary = self.canary(release)
        if canary is None:
            return await self.initialize(release)
        return await self.resize_copy(canary, desired, release)

    async def _resize_groups(self, stable: GroupSet, release: BatchRelease, desired: int) -> ActionResult:
        """Let the set's controller resize `desired` groups in place, or give all of them their former resources."""
        name, token = stable.metadata.name, release.metadata.uid
        if rollout_labels.WITHDRAWN in release.metadata.annotations:
            if not in_place_release.is_withdrawn(stable):
                revision = self._stable_revision(stable, self.cache.live_hash(key_of(stable)))
                await self.patch(stable, in_place_release.withdraw(stable, revision, token))
                return Waiting(f"{name}: groups get their former resources back")
            left = self._groups_not_stable(stable)
            return Waiting(in_place_release.text_of_return(left, stable)) if left else DONE
        partition = step_arithmetic.partition_for(desired, stable.replicas, HELD_GROUPS_PARTITION)
        if stable.step_partition == partition and not in_place_release.is_withdrawn(stable):
            return DONE
        await self.patch(stable, in_place_release.move_partition(stable, partition, token))
        return Waiting(f"{name}: {counted_of(desired, stable.replicas, 'group')} to be resized in place")

    async def label_batches(self, release: BatchRelease, batch: int) -> None:
        stable, replicas = self.stable(release), self.replicas(release)
        name = release.plan.rollout_id
        if stable is None or replicas is None or not name:
            return
        planned = [self.planned(release, number, replicas) for number in range(batch + 1)]
        groups = groups_of(self._released_pods(release, stable))
        known = {str(index): _batch_of(groups[index], name) for index in sorted(groups)}
        known |= assign(known, planned)
        for index, assigned in known.items():
            if assigned is None:
                continue
            for pod in groups[int(index)]:
                await self.label_pod(pod, name, assigned)

    def _released_pods(self, release: BatchRelease, stable: GroupSet) -> list[Pod]:
        """Pods of the new version: those of the canary set, or of groups that were resized in place."""
        if stable.resizes_in_place:
            pods = self.cache.pods_of(key_of(stable))
            revision = self._stable_revision(stable, self.cache.live_hash(key_of(stable)))
            return [pod for pod in pods if not has_revision(pod, revision)]
        canary = self.canary(release)
        return self.cache.pods_of(key_of(canary)) if canary is not None else []

    # Ending

    async def finalize_stable(self, stable: GroupSet, release: BatchRelease) -> ActionResult:
        if release.plan.batch_partition is not None:
            return await self.detach_release(stable)
        token, blue_green = release.metadata.uid, is_blue_green(release)
        if stable.in_progress and stable.resizes_in_place and stable.is_stable_again:
            waiting = await self._resize_back(stable, token)
            if waiting is not None:
                return waiting
        if release.plan.finalizing_policy == rollout_labels.WAIT_RESUME:
            if stable.in_progress:
                await self.patch(stable, group_hold.promote_patch(stable, token, at_once=blue_green))
                return Waiting(f"{stable.metadata.name} begins to roll to the new version")
            if stable.promoting and (text := _not_promoted(stable)):
                return Waiting(text) if blue_green else await self._set_pace(stable, release, text)
        if self.has_release_marks(stable):
            await self.patch(stable, self.release_hold_patch(stable, token))
            return Waiting(f"{stable.metadata.name} gets its own strategy back")
        await self.set_autoscalers(stable, enabled=True, blue_green=blue_green)
        return DONE

    async def _set_pace(self, stable: GroupSet, release: BatchRelease, text: str) -> ActionResult:
        """Let the groups roll as fast as `promotion_pace` decides; `text` says how far they are."""
        key = key_of(stable)
        groups, revision = groups_of(self.cache.pods_of(key)), self.cache.live_hash(key)
        limits = group_limits(group_hold.saved_strategy(stable.metadata), stable.replicas)
        view = PromotionView(
            replicas=stable.replicas,
            surge=limits.surge,
            unavailable=limits.unavailable,
            without_surge=group_hold.rolls_without_surge(stable),
            waiting=seconds_without_node(groups, stable.replicas, revision, stable.size, clock.now()),
            canary=self._standing_in(release),
        )
        pace = promotion_pace(view)
        words = messages.pace_text(pace.reason, view.canary.ready if view.canary is not None else 0, stable.replicas)
        said = f"{text}; {words}" if words else text
        patch = group_hold.pace_patch(stable, release.metadata.uid, pace.away, first_taken(groups, revision))
        if patch is None:
            return Waiting(said, seconds=pace.look_again or rollout_labels.RECHECK)
        await self.patch(stable, patch)
        return Waiting(said, events=messages.pace_events(pace.reason, stable.metadata.name, pace.away))

    def _standing_in(self, release: BatchRelease) -> CanaryGroups | None:
        """Whatever version it has: after an undo it is not the wanted one, but it serves until the set has rolled
        back. So do the pods of a canary set that a user has deleted: it goes when the release ends."""
        for one in self.owned_copies(release):
            if not one.metadata.deleting or self.cache.pods_of(key_of(one)):
                return CanaryGroups(one.replicas, self._ready_groups(one))
        return None

    def _ready_groups(self, canary: GroupSet) -> int:
        return min(canary.status.ready_replicas, ready_groups(self.cache.pods_of(key_of(canary)), canary.size))

    async def _resize_back(self, stable: GroupSet, token: str) -> ActionResult | None:
        """A rollback in place: every group gets the resources of the stable template, whatever partition the user
        has."""
        name, left = stable.metadata.name, self._groups_not_stable(stable)
        if left and stable.step_partition != 0:
            await self.patch(stable, in_place_release.move_partition(stable, 0, token))
            return Waiting(f"{name}: groups get their former resources back")
        return Waiting(in_place_release.text_of_return(left, stable)) if left or not stable.observed else None


def _expected_key(stable: GroupSet, rollout: Rollout) -> str:
    patch = rollout.strategy.patch_pod_template_metadata
    return revision_key({**stable.spec, "leaderWorkerTemplate": canary_set.canary_template(stable.spec, patch)})


def _batch_of(members: list[Pod], name: str) -> int | None:
    """The leader decides for its group."""
    leader = next((pod for pod in members if is_leader(pod.metadata.labels)), None)
    return batch_label(leader.metadata.labels, name) if leader is not None else None


def _not_promoted(stable: GroupSet) -> str:
    """What is missing until every group has the new version; empty when nothing is."""
    status, replicas = stable.status, stable.replicas
    if not stable.observed:
        return f"{stable.metadata.name} has not been looked at by its controller yet"
    if status.replicas != replicas or status.updated_replicas != replicas:
        detail = f": {status.resize.message}" if status.resize is not None and status.resize.message else ""
        return f"{stable.metadata.name}: {status.updated_replicas}/{replicas} groups have the new version{detail}"
    enough = status.ready_replicas + group_hold.unavailable(stable) >= replicas
    if not enough or (replicas > 0 and status.ready_replicas == 0):
        return f"{stable.metadata.name}: {status.ready_replicas}/{replicas} groups ready at the new version"
    return ""


def _status_note(stable: GroupSet, *, in_place: bool) -> str:
    if stable.in_progress and stable.replicas == 0:
        return "the stable set is scaled to 0: no request reaches the old version until it has groups again"
    return in_place_release.REMARK if in_place else ""
