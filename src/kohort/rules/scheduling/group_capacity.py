"""How many more groups the nodes have room for. How a group is placed is decided in `trial_placement`."""

from collections.abc import Iterable

import msgspec

from kohort.objects.core import Node, Pod
from kohort.rules.scheduling.planned_group import Planner
from kohort.rules.scheduling.trial_placement import Obstacle, TrialPlacement


class GroupCapacity(msgspec.Struct, frozen=True):
    wanted: int
    fitting: int
    obstacle: Obstacle | None = None
    """What keeps the next group from finding room; None if all of them do."""

    @property
    def enough(self) -> bool:
        return self.fitting >= self.wanted


def group_capacity(nodes: Iterable[Node], pods: Iterable[Pod], planned: Planner, wanted: int) -> GroupCapacity:
    """`pods` are all pods of the cluster; `planned` makes the groups that come, from 0 on."""
    trial = TrialPlacement(nodes, pods)
    for fitting in range(wanted):
        group = planned(fitting)
        left = trial.place(group)
        if left:
            return GroupCapacity(wanted, fitting, trial.obstacle([(group, pod) for pod in left]))
    return GroupCapacity(wanted, wanted)
