"""Why a pod that a set waits for is not created.

| found | reason | message |
|---|---|---|
| an object of that name which is not part of the set | NameTaken | that it exists |
| a warning event of the StatefulSet that should create the pod | PodRefused | that of the API server, such as a quota |
| neither | as before | that the pod does not exist yet |

StatefulSets have no condition for this; their controller writes events, which are too many to be watched. So events are
listed when a pod has been missing for a while, and then once in a minute.
What their messages say is read by `rules.stateful_set_event`.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import msgspec

from kohort.groups import messages
from kohort.groups.caches import GroupCache
from kohort.groups.waiting_reason import Obstacle, WaitingReason
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import EVENTS, PODS, STATEFUL_SETS, Key, Resource
from kohort.objects.core import Event
from kohort.rules import group_labels
from kohort.rules.stateful_set_event import failed_create

RECHECK: Final = 60.0
"""Seconds after which the cause is looked for again."""
_RECENT: Final = timedelta(seconds=1000)
"""A StatefulSet controller waits no longer than that before it tries again, and warns again."""


class _FoundCause(msgspec.Struct, frozen=True):
    obstacle: Obstacle
    with_cause: Obstacle
    until: float


class MissingPodCauses:
    def __init__(self, client: Client, cache: GroupCache) -> None:
        self._client = client
        self._cache = cache
        self._known: dict[Key, _FoundCause] = {}

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)

    async def add_cause(self, key: Key, obstacle: Obstacle) -> Obstacle:
        """The obstacle with its cause, if that can be found. `key` is that of the set."""
        now = asyncio.get_running_loop().time()
        known = self._known.get(key)
        if known is None or known.obstacle != obstacle or known.until <= now:
            known = _FoundCause(obstacle, await self._look_up(key, obstacle), now + RECHECK)
            self._known[key] = known
        return known.with_cause

    async def _look_up(self, key: Key, obstacle: Obstacle) -> Obstacle:
        try:
            return await self._name_taken(key, obstacle) or await self._pod_refused(key, obstacle) or obstacle
        except ApiError:
            return obstacle

    async def _name_taken(self, key: Key, obstacle: Obstacle) -> Obstacle | None:
        """By an object without our label: those that have it are in the cache."""
        kind: Resource = PODS if obstacle.reason == WaitingReason.LEADER_MISSING else STATEFUL_SETS
        name = Key(key.namespace, obstacle.leader)
        if kind is STATEFUL_SETS and self._cache.stateful_sets.get(name) is not None:
            return None
        page = await self._client.list(
            kind, key.namespace, field_selector=f"metadata.name={name.name}", metadata_only=True
        )
        if all(group_labels.NAME in (item["metadata"].get("labels") or {}) for item in page.items):
            return None
        text = f"group {obstacle.group}: {messages.name_taken(kind.kind, name.name)}"
        return msgspec.structs.replace(obstacle, reason=WaitingReason.NAME_TAKEN, message=text)

    async def _pod_refused(self, key: Key, obstacle: Obstacle) -> Obstacle | None:
        leader_missing = obstacle.reason == WaitingReason.LEADER_MISSING
        creator = key.name if leader_missing else obstacle.leader
        stateful_set = self._cache.stateful_sets.get(Key(key.namespace, creator))
        if stateful_set is None:
            return None  # events of that name are about one that was deleted
        selector = (
            f"involvedObject.kind=StatefulSet,involvedObject.name={creator},"
            f"involvedObject.uid={stateful_set.metadata.uid},reason=FailedCreate"
        )
        page = await self._client.list(EVENTS, key.namespace, field_selector=selector, type=Event)
        refusal = latest_refusal(page.items, obstacle.leader if leader_missing else "")
        if not refusal:
            return None
        text = f"{obstacle.message}: {refusal}"
        return msgspec.structs.replace(obstacle, reason=WaitingReason.POD_REFUSED, message=text)


def latest_refusal(events: Iterable[Event], pod: str = "") -> str:
    """The API server's message in the newest event about a pod, or about any pod, if that is not old."""
    oldest = clock.now() - _RECENT
    refusals = [
        (seen, failed.cause)
        for event in events
        if (failed := failed_create(event.message)) is not None
        and pod in ("", failed.pod)
        and (text := _last_seen(event))
        and (seen := clock.parse_time(text)) >= oldest
    ]
    return max(refusals, key=lambda refusal: refusal[0], default=(oldest, ""))[1]


def _last_seen(event: Event) -> str:
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""
