"""Claims of workers that are not wanted any more.

`persistentVolumeClaimRetentionPolicy` goes to every StatefulSet of a set as it is written. For leaders that is enough:
their StatefulSet is scaled when the set is. Workers of a group have a StatefulSet of their own, which is never scaled:
it goes with its leader, whatever the reason, and its controller cannot distinguish a group that is recreated from one
that is scaled away. So `whenScaled: Delete` is carried out here for the claims of workers:

| claim of a worker | whenScaled: Retain | whenScaled: Delete |
|---|---|---|
| of a group that is rolled or restarted | kept | kept |
| of a group that is not wanted any more (scaled down, surge given back) | kept | deleted when its leader goes |
| of a worker beyond the size that its group has now | kept | deleted |

`whenDeleted: Retain` with `whenScaled: Delete` therefore keeps claims across rolls and leaves none behind after
scaling. Pods that still end keep their claims until they are gone: Kubernetes protects claims in use. Waiting for that
here would leave a moment in which the next group of that number finds the claims of the last one, but not its leader's.

The claims are listed only when something has changed that could make one superfluous.
"""

from collections.abc import Iterable, Mapping, Set

import msgspec

from kohort.groups import messages
from kohort.groups.caches import GroupCache
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Conflict, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.resources import LEADER_WORKER_SETS, PERSISTENT_VOLUME_CLAIMS, Key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View
from kohort.rules import group_labels
from kohort.rules.group_identity import leader_name, parse_index, parse_pod_name
from kohort.rules.group_state import group_size


class Claim(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class Groups(msgspec.Struct, frozen=True):
    """The groups of a set, as far as their claims are concerned."""

    name: str
    """Of the set."""
    wanted: int
    """How many leaders the leader StatefulSet is to have."""
    sizes: Mapping[int, int]
    """Pods of each group whose leader exists and is not being deleted."""


def surplus_claims(claims: Iterable[ObjectMeta], templates: Set[str], groups: Groups) -> list[ObjectMeta]:
    found: list[ObjectMeta] = []
    for claim in claims:
        worker = _worker_of(claim, templates, groups.name)
        if worker is None or claim.deleting:
            continue
        index, ordinal = worker
        scaled_away = index >= groups.wanted and index not in groups.sizes
        if scaled_away or ordinal >= groups.sizes.get(index, ordinal + 1):
            found.append(claim)
    return found


def _worker_of(claim: ObjectMeta, templates: Set[str], name: str) -> tuple[int, int] | None:
    """Group and number of the worker that a claim was made for; None for claims of leaders, and for those of others."""
    index = parse_index(claim.labels.get(group_labels.GROUP_INDEX))
    parsed = parse_pod_name(claim.name)
    if index is None or parsed is None or claim.labels.get(group_labels.NAME) != name:
        return None
    made = {f"{template}-{leader_name(name, index)}" for template in templates}
    return (index, parsed.ordinal) if parsed.parent in made else None


class WorkerClaims:
    def __init__(self, client: Client, cache: GroupCache, recorder: EventRecorder) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._clean: dict[Key, tuple[str, Groups]] = {}
        """By set: its uid, and the groups for which nothing is superfluous."""

    def forget(self, key: Key) -> None:
        self._clean.pop(key, None)

    async def delete_surplus(self, group_set: LeaderWorkerSet, leaders: GroupStatefulSet) -> None:
        template = group_set.template
        if not template.claims or (template.retention or {}).get("whenScaled") != "Delete":
            return
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        groups = self._groups(group_set, key, leaders.spec.replicas)
        state = (group_set.metadata.uid, groups)
        if self._clean.get(key) == state:
            return
        try:
            page = await self._client.list(
                PERSISTENT_VOLUME_CLAIMS,
                key.namespace,
                type=Claim,
                label_selector=f"{group_labels.NAME}={key.name},{group_labels.GROUP_INDEX}",
                metadata_only=True,
            )
            templates = {(one.get("metadata") or {}).get("name") or "" for one in template.claims}
            for claim in surplus_claims((one.metadata for one in page.items), templates, groups):
                await self._delete(group_set, claim)
        except ApiError as problem:
            text = messages.claims_not_deleted(problem.message)
            self._recorder.warning(LEADER_WORKER_SETS, group_set, "FailedDelete", text, action="Delete")
        self._clean[key] = state

    def _groups(self, group_set: LeaderWorkerSet, key: Key, wanted: int) -> Groups:
        sizes = {
            index: group_size(leader, group_set.template.size)
            for index, leader in self._cache.leaders(key).items()
            if not leader.metadata.deleting
        }
        return Groups(key.name, wanted, sizes)

    async def _delete(self, group_set: LeaderWorkerSet, claim: ObjectMeta) -> None:
        try:
            await self._client.delete(PERSISTENT_VOLUME_CLAIMS, claim.name, claim.namespace, uid=claim.uid)
        except (NotFound, Conflict):
            return
        text = messages.deleted_claim(claim.name)
        self._recorder.normal(LEADER_WORKER_SETS, group_set, "GroupsProgressing", text, action="Delete")
