"""Whose turn it is among the resizes that wait.

They are asked in this order, each against what the ones before it have taken: one that stays deferred does not hold up
a smaller one behind it.

1. resizes that need nothing more come first: they make room;
2. the higher priority;
3. Guaranteed before others;
4. who has waited longest; who has not been refused yet comes last;
5. the pod's UID, so that the order is total and the same every time.

The time that counts is the one in the pod's condition, so it survives a restart of the agent.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from kohort.node.resize.judging import increases
from kohort.node.views import Allocated
from kohort.objects.pods import Pod
from kohort.resources import GUARANTEED, stored_qos_class

PERIODIC_SECONDS = 180.0
Trigger = Literal[
    "pod_updated", "pods_added", "pods_removed", "pod_resized", "pod_terminated", "node_changed", "periodic_retry"
]


class Waiting(msgspec.Struct, frozen=True):
    pod: Pod
    allocated: Allocated
    since: str = ""
    """When it was first refused; empty if it was not."""


def in_order(waiting: Iterable[Waiting]) -> list[Waiting]:
    return sorted(waiting, key=_place)


def _place(entry: Waiting) -> tuple[bool, int, bool, bool, str, str]:
    pod = entry.pod
    return (
        increases(pod, entry.allocated),
        -(pod.spec.priority or 0),
        stored_qos_class(pod) != GUARANTEED,
        not entry.since,
        entry.since,
        pod.metadata.uid,
    )
