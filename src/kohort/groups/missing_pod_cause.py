"""Why a pod that a set waits for does not come into being.

| what is found | reason | what is told |
|---|---|---|
| an object of that name which is not ours | NameTaken | that it stands in the way |
| a warning of the StatefulSet that should make the pod | PodRefused | the words of the server: a quota, for example |
| neither | as before | that it does not exist yet |

StatefulSets have no condition that would tell; their controller says it in events, which are too many to be followed.
So they are asked for, when a pod has been missing for a while, and then once in a minute.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import msgspec

from kohort.groups.caches import GroupCache
from kohort.groups.waiting_reason import LEADER_MISSING, Obstacle
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import EVENTS, PODS, STATEFUL_SETS, Key, Resource
from kohort.objects.core import Event
from kohort.rules import group_labels

AGAIN: Final = 60.0
"""Seconds after which the same question is asked again."""
_RECENT: Final = timedelta(seconds=1000)
"""A StatefulSet controller waits no longer than that before it tries again, and warns again."""
_PREAMBLE: Final = "failed error: "


class _Answer(msgspec.Struct, frozen=True):
    question: Obstacle
    found: Obstacle
    until: float


class Inquiry:
    def __init__(self, client: Client, cache: GroupCache) -> None:
        self._client = client
        self._cache = cache
        self._answers: dict[Key, _Answer] = {}

    def forget(self, key: Key) -> None:
        self._answers.pop(key, None)

    async def explained(self, key: Key, obstacle: Obstacle) -> Obstacle:
        """The obstacle, with its reason if that can be found out. `key` is that of the set."""
        now = asyncio.get_running_loop().time()
        known = self._answers.get(key)
        if known is None or known.question != obstacle or known.until <= now:
            known = _Answer(obstacle, await self._asked(key, obstacle), now + AGAIN)
            self._answers[key] = known
        return known.found

    async def _asked(self, key: Key, obstacle: Obstacle) -> Obstacle:
        try:
            return await self._taken(key, obstacle) or await self._refused(key, obstacle) or obstacle
        except ApiError:
            return obstacle

    async def _taken(self, key: Key, obstacle: Obstacle) -> Obstacle | None:
        """By an object without our label: those that have it are in the cache."""
        kind: Resource = PODS if obstacle.reason == LEADER_MISSING else STATEFUL_SETS
        name = Key(key.namespace, obstacle.leader)
        if kind is STATEFUL_SETS and self._cache.stateful_sets.get(name) is not None:
            return None
        found = await self._client.list(
            kind, key.namespace, field_selector=f"metadata.name={name.name}", metadata_only=True
        )
        if all(group_labels.NAME in (one["metadata"].get("labels") or {}) for one in found.items):
            return None
        text = f"a {kind.kind} {name.name} exists and does not belong to this set"
        return msgspec.structs.replace(obstacle, reason="NameTaken", message=f"group {obstacle.group}: {text}")

    async def _refused(self, key: Key, obstacle: Obstacle) -> Obstacle | None:
        maker = key.name if obstacle.reason == LEADER_MISSING else obstacle.leader
        selector = f"involvedObject.kind=StatefulSet,involvedObject.name={maker},reason=FailedCreate"
        found = await self._client.list(EVENTS, key.namespace, field_selector=selector, type=Event)
        about = f"Pod {obstacle.leader} in" if obstacle.reason == LEADER_MISSING else ""
        words = last_words(event for event in found.items if about in event.message)
        if not words:
            return None
        return msgspec.structs.replace(obstacle, reason="PodRefused", message=f"{obstacle.message}: {words}")


def last_words(events: Iterable[Event]) -> str:
    """What the server said last, if that was not long ago."""
    oldest = clock.now() - _RECENT
    recent = [(seen, event) for event in events if (seen := _seen(event)) and clock.parse_time(seen) >= oldest]
    if not recent:
        return ""
    _, event = max(recent, key=lambda one: clock.parse_time(one[0]))
    return event.message.partition(_PREAMBLE)[2] or event.message


def _seen(event: Event) -> str:
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""
