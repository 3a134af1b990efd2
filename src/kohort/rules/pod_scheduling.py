"""Does a pod lack a node, and has a scheduler found none for it?

These are two questions. Quotas such as those of Kueue hold pods by scheduling gates, and a group without quota is as
far from starting as one without room: users read of both that they are unschedulable. But a pod that no scheduler has
tried to place says nothing about the room on nodes.

| condition PodScheduled            | lacks a node | a scheduler has found none |
|-----------------------------------|--------------|----------------------------|
| absent: not looked at yet         | not known    | no                         |
| True                              | no           | no                         |
| False, SchedulingGated            | yes          | no                         |
| False, SchedulerError, any other  | yes          | no                         |
| False, Unschedulable              | yes          | yes                        |
"""

from typing import Final

from kohort.objects.meta import Condition, find_condition
from kohort.objects.pods import Pod
from kohort.rules.pod_status import SCHEDULED

UNSCHEDULABLE: Final = "Unschedulable"


def without_node(pod: Pod) -> Condition | None:
    """The condition that says why a pod has no node; None if it has one, or if nothing is known."""
    found = find_condition(pod.status.conditions, SCHEDULED)
    return found if found is not None and found.status == "False" else None


def unschedulable(pod: Pod) -> Condition | None:
    """The condition of a pod for which a scheduler has found no node."""
    found = without_node(pod)
    return found if found is not None and found.reason == UNSCHEDULABLE else None
