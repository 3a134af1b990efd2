"""The Service that the groups of a set share.

| Service of the set's name | action |
|---|---|
| does not exist | it is created |
| belongs to the set, and is as it should be | none |
| belongs to the set, and was changed | its selector and `publishNotReadyAddresses` are restored |
| has no owner, and is as it should be | the set adopts it |
| belongs to something else | none, and an event warns |

When the last group of a set has a Service of its own, the shared one is deleted.
"""

import asyncio
from typing import Final

from kohort.groups import child_objects, messages
from kohort.groups.caches import GroupCache, GroupService, owned_by
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.orphan_adoption import adopt
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, ApiError, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.resources import LEADER_WORKER_SETS, SERVICES, Key
from kohort.rules import group_labels

RETRY: Final = 60.0
"""Seconds after which a name that was taken is tried again."""
LAG: Final = 2.0
"""Seconds that a cache may need to show what was written."""


class SharedServices:
    def __init__(self, client: Client, cache: GroupCache, recorder: EventRecorder) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._taken: dict[Key, float] = {}
        """Names that belong to others, by the time when that was last seen."""
        self._made: dict[Key, float] = {}
        """When they were created, for the moment until the cache shows them."""

    async def ensure(self, group_set: LeaderWorkerSet) -> float:
        """Make it be there. Returns in how many seconds to look again, 0 for never."""
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        existing = self._cache.services.get(key)
        if existing is None:
            return await self._create(group_set, key)
        self._made.pop(key, None)
        if existing.metadata.controller is None and _in_order(existing, group_set):
            await adopt(self._client, group_set, SERVICES, existing.metadata)
            return LAG
        if not owned_by(existing.metadata, group_set):
            return self._report_name_taken(group_set, key)
        if not _in_order(existing, group_set):
            spec = child_objects.shared_service(group_set)["spec"]
            body = {"spec": {name: spec[name] for name in ("selector", "publishNotReadyAddresses")}}
            removed = dict.fromkeys(existing.spec.selector.keys() - spec["selector"].keys())
            body["spec"]["selector"] = {**removed, **spec["selector"]}
            await self._client.patch(SERVICES, key.name, key.namespace, body)
        return 0.0

    async def clean_up(self, group_set: LeaderWorkerSet) -> None:
        """No group uses it any more."""
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        existing = self._cache.services.get(key)
        if existing is None or existing.metadata.deleting or not owned_by(existing.metadata, group_set):
            return
        try:
            await self._client.delete(SERVICES, key.name, key.namespace, uid=existing.metadata.uid)
        except NotFound:
            return

    async def _create(self, group_set: LeaderWorkerSet, key: Key) -> float:
        # A Service without our label is not in the cache: its name must not be tried again with every reconcile.
        now = asyncio.get_running_loop().time()
        left = max(self._taken.get(key, -RETRY) + RETRY, self._made.get(key, -LAG) + LAG) - now
        if left > 0:
            return left
        try:
            await self._client.create(SERVICES, child_objects.shared_service(group_set))
        except AlreadyExists:
            found = await self._client.get(SERVICES, key.name, key.namespace, type=GroupService)
            return 0.0 if owned_by(found.metadata, group_set) else self._report_name_taken(group_set, key)
        except ApiError as problem:
            self._warn(group_set, str(problem))
            raise
        self._taken.pop(key, None)
        self._made[key] = now
        return LAG

    def _report_name_taken(self, group_set: LeaderWorkerSet, key: Key) -> float:
        now = asyncio.get_running_loop().time()
        if now - self._taken.get(key, -RETRY) >= RETRY:
            self._taken[key] = now
            self._warn(group_set, messages.name_taken("Service", key.name))
        return self._taken[key] + RETRY - now or RETRY

    def _warn(self, group_set: LeaderWorkerSet, problem: str) -> None:
        text = messages.headless_service_failed(group_set.metadata.name, problem)
        self._recorder.warning(LEADER_WORKER_SETS, group_set, "FailedCreate", text, action="Create")


def _in_order(service: GroupService, group_set: LeaderWorkerSet) -> bool:
    """Cached are only those that carry our label."""
    return service.spec.publish_not_ready_addresses and service.spec.selector == {
        group_labels.NAME: group_set.metadata.name
    }
