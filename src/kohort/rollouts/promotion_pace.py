"""At which pace the groups of a stable set roll to the new version, beside a canary that stays until they have.

A promotion begins at the pace that the user wrote. If surge groups find no node, it would wait for ever: the canary
keeps the room until the promotion is done. Where the canary has as many groups as the set, these stand in for the
surge: the set goes on without one and lets `maxSurge + maxUnavailable` groups be away at a time. So ready groups of set
and canary together are never fewer than `replicas - maxUnavailable` by what a release does.

New groups are those that have the wanted version, surge groups among them. They wait for a node when one of them finds
none and no other is starting. That includes a replaced group that is bound by its claims to a node on which a surge
group is now. After an undo the wanted version is the old one; the canary stays until all groups have it again, so the
same rules hold.

| maxSurge | rolls | new groups wait for a node | groups of the canary | pace |
|---|---|---|---|---|
| 0 | any | any | any | the user's |
| 1 or more | any | any | deleted, no pod left | the user's: the room of the canary is free |
| 1 or more | with its surge | no | any | the user's |
| 1 or more | with its surge | for 30 s | replicas are ready | maxUnavailable + maxSurge away, no surge |
| 1 or more | with its surge | for 10 min | replicas exist, maxSurge are ready | the same |
| 1 or more | with its surge | any longer time | fewer | the user's |
| 1 or more | without a surge | any | maxSurge or more are ready | maxUnavailable + maxSurge away, no surge |
| 1 or more | without a surge | any | fewer than maxSurge are ready | maxUnavailable + these away, no surge |
| 1 or more | without a surge | any | 0 are ready, maxUnavailable is 0 | stopped until one is ready |

As many ready groups of the canary as the surge has are enough for the rule above. A whole canary is asked for at first
because it soon is whole again in most cases. It may never be: its lost group and the surge group may each have half of
the room that one of them needs. That is why the promotion goes on after 10 minutes all the same.

A canary that loses groups after the surge was given up does not bring the surge back: a surge group would take the
room that groups which are away need.

The set itself records that it rolls without a surge (`group_hold.rolls_without_surge`), and pods record since when they
wait. An operator that starts anew decides the same.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final

import msgspec

from kohort.kube.clock import parse_time
from kohort.objects.core import Pod
from kohort.rules.group_state import has_revision, pods_are_ready
from kohort.rules.pod_scheduling import unschedulable

GRACE_SECONDS: Final = 30.0
"""How long new groups may find no node before the surge is given up. Pods that are on their way out of a node, and
placeholders that are evicted for the new ones, have 30 s by default to end. An autoscaler that adds nodes may take
longer; the promotion then ends without them."""
PATIENCE_SECONDS: Final = 600.0
"""The same, beside a canary that has lost a group."""


class PaceReason(Enum):
    """Which row of the table decided; `messages.pace_text` makes the words."""

    PACE_OF_USER = "pace of the user"
    NODE_AWAITED = "new groups have had no node for a short time"
    CANARY_NOT_WHOLE = "new groups have no node, and the canary lacks groups"
    CANARY_STANDS_IN = "groups of the canary stand in for the surge"
    CANARY_LOST = "no group of the canary can stand in"


class CanaryGroups(msgspec.Struct, frozen=True):
    wanted: int
    ready: int


class PromotionView(msgspec.Struct, frozen=True):
    replicas: int
    surge: int
    """Of the user, as are the groups that may be unavailable."""
    unavailable: int
    without_surge: bool
    """The set rolls without a surge by an earlier decision."""
    waiting: float | None
    """For how many seconds new groups have waited for a node; None if they do not."""
    canary: CanaryGroups | None
    """None if it has been deleted, and has no pods any more."""


class PromotionPace(msgspec.Struct, frozen=True):
    reason: PaceReason
    away: int | None = None
    """How many groups may be away at a time, without a surge; None at the pace of the user."""
    look_again: float | None = None
    """After how many seconds the decision may change without any change in the cluster."""


def promotion_pace(view: PromotionView) -> PromotionPace:
    canary = view.canary
    if view.surge == 0 or canary is None:
        return PromotionPace(PaceReason.PACE_OF_USER)
    if view.without_surge:
        away = view.unavailable + min(view.surge, canary.ready)
        return PromotionPace(PaceReason.CANARY_STANDS_IN if away else PaceReason.CANARY_LOST, min(away, view.replicas))
    if view.waiting is None:
        return PromotionPace(PaceReason.PACE_OF_USER)
    patience = _patience(view, canary)
    if patience is None:
        return PromotionPace(PaceReason.CANARY_NOT_WHOLE)
    if view.waiting < patience:
        reason = PaceReason.NODE_AWAITED if patience == GRACE_SECONDS else PaceReason.CANARY_NOT_WHOLE
        return PromotionPace(reason, look_again=patience - view.waiting)
    return PromotionPace(PaceReason.CANARY_STANDS_IN, min(view.unavailable + view.surge, view.replicas))


def _patience(view: PromotionView, canary: CanaryGroups) -> float | None:
    """How long new groups may wait for a node before the surge is given up; None if it is not."""
    if canary.ready >= view.replicas:
        return GRACE_SECONDS
    return PATIENCE_SECONDS if canary.wanted >= view.replicas and canary.ready >= view.surge else None


Groups = Mapping[int, Sequence[Pod]]
"""Pods by the index of their group, without those that are being deleted."""


def groups_without_node(groups: Groups, replicas: int, revision: str) -> tuple[int, ...]:
    """New groups of which a pod finds no node, while the set has surge groups."""
    if not any(index >= replicas for index in groups):
        return ()
    return tuple(index for index in _new_groups(groups, revision) if any(map(_unschedulable_since, groups[index])))


def seconds_without_node(groups: Groups, replicas: int, revision: str, size: int, now: datetime) -> float | None:
    """How long new groups have waited for a node; None if they do not, or if one of them is still starting."""
    waiting = groups_without_node(groups, replicas, revision)
    others = (index for index in _new_groups(groups, revision) if index not in waiting)
    if not waiting or not all(pods_are_ready(groups[index], size) for index in others):
        return None
    since = [found for index in waiting for pod in groups[index] if (found := _unschedulable_since(pod))]
    return max(0.0, (now - parse_time(min(since))).total_seconds())


def first_taken(groups: Groups, revision: str) -> int:
    """The partition above every group that has an old version: no further group is taken, those that are away come back
    with the new version."""
    new = set(_new_groups(groups, revision))
    return max((index + 1 for index in groups if index not in new), default=0)


def _new_groups(groups: Groups, revision: str) -> list[int]:
    return sorted(index for index, members in groups.items() if any(has_revision(pod, revision) for pod in members))


def _unschedulable_since(pod: Pod) -> str:
    """Empty for a pod that has a node, or that no scheduler has tried to place."""
    found = unschedulable(pod)
    if found is None:
        return ""
    return found.last_transition_time or pod.metadata.creation_timestamp or ""
