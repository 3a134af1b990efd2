"""A group of pods that does not exist yet, as far as its placement is concerned."""

from collections.abc import Callable, Sequence

import msgspec

from kohort.objects.pods import Pod


class Unit(msgspec.Struct, frozen=True):
    """A subgroup, or a pod that is in none."""

    topology: str
    """The node label whose value all its pods must share and no other subgroup may have; empty if there is none."""
    pods: Sequence[Pod]


class PlannedGroup(msgspec.Struct, frozen=True):
    topology: str
    """As of a unit, for the group as a whole."""
    units: Sequence[Unit]
    """The leader's comes first."""

    @property
    def pods(self) -> list[Pod]:
        return [pod for unit in self.units for pod in unit.pods]

    @property
    def topologies(self) -> list[str]:
        return list(dict.fromkeys(filter(None, (self.topology, *(unit.topology for unit in self.units)))))


Planner = Callable[[int], PlannedGroup]
"""Makes the group with an index."""
