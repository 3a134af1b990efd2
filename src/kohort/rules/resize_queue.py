"""In which order are the waiting resizes of a node decided?

Each is decided against what the ones before it have taken: one that stays deferred does not hold up a smaller one
behind it.

1. resizes that ask for nothing more: they free room;
2. the higher priority;
3. Guaranteed before others;
4. the longest wait; those that were not refused yet come last;
5. the pod's UID, so that the order is total and the same every time.

The time that counts is the one in the pod's condition, so it survives a restart of the node.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from kohort.objects.pods import Pod
from kohort.resources import GUARANTEED, stored_qos_class
from kohort.rules.allocated_resources import Allocated
from kohort.rules.resize_decision import increases

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
