"""Claims of workers that are not wanted any more.

`persistentVolumeClaimRetentionPolicy` goes to every StatefulSet of a set as it is written. For leaders that is enough:
their StatefulSet is scaled when the set is. Workers of a group have a StatefulSet of their own, which is never scaled:
it goes with its leader, whatever the reason, and by itself it cannot tell a group that is recreated from one that is
scaled away. So `whenScaled: Delete` is carried out here for the claims of workers:

| claim of a worker | whenScaled: Retain | whenScaled: Delete |
|---|---|---|
| of a group that is rolled or restarted | kept | kept |
| of a group that is not wanted any more (scaled down, surge given back) | kept | deleted when its pods are gone |
| of a worker beyond the size of its group | kept | deleted when its pod is gone |

`whenDeleted: Retain` with `whenScaled: Delete` therefore keeps claims across rolls and leaves none behind after
scaling. The claims are listed only when something has changed that could make one superfluous.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Final

import msgspec

from kohort.groups import wire
from kohort.groups.api import LeaderWorkerSet
from kohort.groups.identity import index_of, leader_name, parse_pod_name
from kohort.groups.observation import size_of
from kohort.groups.views import BY_GROUP, GroupCache, GroupStatefulSet
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Conflict, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.resources import LEADER_WORKER_SETS, PERSISTENT_VOLUME_CLAIMS, Key
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View

AGAIN: Final = 5.0
"""Seconds after which claims are looked at again whose pods were still there."""


class Claim(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class Groups(msgspec.Struct, frozen=True):
    """The groups of a set, as far as their claims are concerned."""

    name: str
    """Of the set."""
    wanted: int
    """How many leaders the leader StatefulSet is to have."""
    sizes: Mapping[int, int]
    """Pods of each group whose leader exists and stays."""
    occupied: Set[int]
    """Groups that have pods, leaving ones included."""
    pods: Set[str]


class Surplus(msgspec.Struct, frozen=True):
    deletable: list[ObjectMeta]
    in_use: list[ObjectMeta]
    """Superfluous, but a pod that uses it is still there."""


def surplus_claims(claims: Iterable[ObjectMeta], templates: Set[str], groups: Groups) -> Surplus:
    found = Surplus([], [])
    for claim in claims:
        worker = _worker_of(claim, templates, groups.name)
        if worker is None or claim.deleting:
            continue
        index, ordinal = worker
        if index >= groups.wanted:
            (found.in_use if index in groups.occupied else found.deletable).append(claim)
        elif index in groups.sizes and ordinal >= groups.sizes[index]:
            pod = f"{leader_name(groups.name, index)}-{ordinal}"
            (found.in_use if pod in groups.pods else found.deletable).append(claim)
    return found


def _worker_of(claim: ObjectMeta, templates: Set[str], name: str) -> tuple[int, int] | None:
    """Group and number of the worker that a claim was made for; None for claims of leaders, and for those of others."""
    index = index_of(claim.labels.get(wire.GROUP_INDEX))
    parsed = parse_pod_name(claim.name)
    if index is None or parsed is None or claim.labels.get(wire.NAME) != name:
        return None
    made = {f"{template}-{leader_name(name, index)}" for template in templates}
    return (index, parsed.ordinal) if parsed.parent in made else None


class WorkerClaims:
    def __init__(self, client: Client, cache: GroupCache, recorder: EventRecorder) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._clean: dict[Key, tuple[str, int, Mapping[int, int]]] = {}
        """By set: its uid, and the groups for which nothing is superfluous."""

    def forget(self, key: Key) -> None:
        self._clean.pop(key, None)

    async def delete_surplus(self, group_set: LeaderWorkerSet, leaders: GroupStatefulSet) -> float:
        """Returns in how many seconds to look again, 0 for not before something changes."""
        template = group_set.template
        if not template.claims or (template.retention or {}).get("whenScaled") != "Delete":
            return 0.0
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        groups = self._groups(group_set, key, leaders.spec.replicas)
        state = (group_set.metadata.uid, groups.wanted, groups.sizes)
        if self._clean.get(key) == state:
            return 0.0
        try:
            page = await self._client.list(
                PERSISTENT_VOLUME_CLAIMS,
                key.namespace,
                type=Claim,
                label_selector=f"{wire.NAME}={key.name},{wire.GROUP_INDEX}",
                metadata_only=True,
            )
            templates = {(one.get("metadata") or {}).get("name") or "" for one in template.claims}
            with_pods = self._with_pods(groups, (one.metadata for one in page.items))
            surplus = surplus_claims((one.metadata for one in page.items), templates, with_pods)
            for claim in surplus.deletable:
                await self._delete(group_set, claim)
        except ApiError as problem:
            text = f"Failed to delete claims of workers that are not wanted any more: {problem.message}"
            self._recorder.warning(LEADER_WORKER_SETS, group_set, "FailedDelete", text, action="Delete")
            self._clean[key] = state
            return 0.0
        if surplus.in_use:
            return AGAIN
        self._clean[key] = state
        return 0.0

    def _groups(self, group_set: LeaderWorkerSet, key: Key, wanted: int) -> Groups:
        sizes = {
            index: size_of(leader, group_set.template.size)
            for index, leader in self._cache.leaders(key).items()
            if index < wanted and not leader.metadata.deleting
        }
        return Groups(key.name, wanted, sizes, frozenset(), frozenset())

    def _with_pods(self, groups: Groups, claims: Iterable[ObjectMeta]) -> Groups:
        """With the pods of the groups that have claims."""
        places = {(one.namespace, one.labels.get(wire.GROUP_INDEX, "")) for one in claims}
        pods = [
            pod
            for namespace, index in places
            for pod in self._cache.pods.by_index(BY_GROUP, f"{namespace}/{groups.name}/{index}")
        ]
        occupied = {index_of(pod.metadata.labels.get(wire.GROUP_INDEX)) for pod in pods}
        return msgspec.structs.replace(
            groups,
            occupied=frozenset(index for index in occupied if index is not None),
            pods=frozenset(pod.metadata.name for pod in pods),
        )

    async def _delete(self, group_set: LeaderWorkerSet, claim: ObjectMeta) -> None:
        try:
            await self._client.delete(PERSISTENT_VOLUME_CLAIMS, claim.name, claim.namespace, uid=claim.uid)
        except (NotFound, Conflict):
            return
        text = f"Deleted claim {claim.name} of a worker that is not wanted any more"
        self._recorder.normal(LEADER_WORKER_SETS, group_set, "GroupsProgressing", text, action="Delete")
