"""Whether the nodes have the room that an edit needs, step by step.

The steps of a roll are played through on the nodes as they are: groups that go give their room back where their pods
are, and groups that come are placed as `rules.scheduling.trial_placement` says.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.planned_groups import planned_group
from kohort.inspection.readable_amounts import amount_text
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Node, Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import ACCOUNTING, Amounts, amounts_of, requests, written_of
from kohort.rules.scheduling.trial_placement import UNSEEN, PodWithoutNode, TrialPlacement


class Move(Protocol):
    """A step of a roll."""

    @property
    def created(self) -> Sequence[int]: ...
    @property
    def recreated(self) -> Sequence[int]: ...
    @property
    def removed(self) -> Sequence[int]: ...


class Room(msgspec.Struct, frozen=True, rename="camel"):
    nodes: int
    """That take pods like these."""
    free: Mapping[str, str]
    """On those nodes, before the first step, of what the pods ask for."""
    fits: bool
    step: int = 0
    """The first that does not fit; 0 if all do."""
    homeless: int = 0
    """Pods of that step that find no node."""
    lacking: tuple[str, ...] = ()
    """Of which resources no node has enough for them."""
    reason: str = ""
    """Why they find none, in words."""


def room_for(
    steps: Sequence[Move],
    after: LeaderWorkerSet,
    before: Snapshot | None,
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    more: int = 0,
) -> Room:
    """`pods` are all pods of the cluster, those of the set included; `more` groups come that are in no step."""
    trial = TrialPlacement(nodes, pods)
    coming = {index: planned_group(after, index) for step in steps for index in (*step.recreated, *step.created)}
    usable = trial.usable(coming.values())
    asked = {name for pod in next(iter(coming.values())).pods for name in requests(pod)}
    room = Room(len(usable), written_of(_free(usable, pods, asked)), True)
    standing = (
        {index: {pod.metadata.uid for pod in before.members(index)} for index in before.leaders} if before else {}
    )
    for number, step in enumerate(steps, 1):
        for index in (*step.removed, *step.recreated):
            trial.remove(standing.pop(index, ()))
        homeless: list[PodWithoutNode] = []
        for index in (*step.recreated, *step.created):
            homeless += [(coming[index], pod) for pod in trial.place(coming[index])]
            standing[index] = {pod.metadata.uid for pod in coming[index].pods}
        if homeless:
            return _full(room, trial, homeless, number, len(homeless))
    return _with_more(room, trial, after, steps, more, max(coming))


def _full(room: Room, trial: TrialPlacement, homeless: Sequence[PodWithoutNode], step: int, count: int) -> Room:
    found = trial.obstacle(homeless)
    return msgspec.structs.replace(
        room, fits=False, step=step, homeless=count, lacking=found.lacking, reason=found.reason
    )


def _with_more(
    room: Room, trial: TrialPlacement, after: LeaderWorkerSet, steps: Sequence[Move], more: int, last: int
) -> Room:
    """All of these groups are alike: after the first that finds no room, the others need not be placed. They come with
    the step that creates the groups below them."""
    for placed in range(more):
        group = planned_group(after, last + 1 + placed)
        homeless = [(group, pod) for pod in trial.place(group)]
        if homeless:
            number = max(number for number, step in enumerate(steps, 1) if step.created or step.recreated)
            count = len(homeless) + (more - placed - 1) * after.template.size
            return _full(room, trial, homeless, number, count)
    return room


def _free(usable: Sequence[Node], pods: Iterable[Pod], names: Iterable[str]) -> dict[str, Quantity]:
    open_nodes = {node.metadata.name for node in usable}
    there = [amounts_of(node.status.allocatable) for node in usable]
    held = [requests(pod, ACCOUNTING) for pod in pods if pod.spec.node_name in open_nodes and not pod.finished]
    return {name: _sum(there, name) - _sum(held, name) for name in sorted(names)}


def _sum(many: Iterable[Amounts], name: str) -> Quantity:
    total = ZERO
    for one in many:
        total = total + one.get(name, ZERO)
    return total


def room_lines(room: Room, asked: Mapping[str, str], of_release: int | None = None) -> list[str]:
    """In lines of text; `asked` is what the edit needs on top of what there is, `of_release` how many of the steps are
    those of a Rollout, after which the stable set is replaced."""
    names = [name for name in room.free if name in asked] or list(room.free)
    free = ", ".join(amount_text(name, room.free[name]) for name in names) or "nothing is requested"
    nodes = f"{room.nodes} node{'' if room.nodes == 1 else 's'}"
    if room.fits:
        return [f"Room: it fits. Free now on {nodes}: {free}.", f"  Not looked at: {UNSEEN}."]
    at_the_end = of_release is not None and room.step > of_release
    where = "the end of the release" if at_the_end else f"step {room.step}"
    return [
        f"Room: {where} does not fit, {room.homeless} of its pods find no node ({room.reason}). "
        f"Free now on {nodes}: {free}."
    ]
