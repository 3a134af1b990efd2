"""Whether the nodes have the room that an edit needs, step by step.

The steps of a roll are played through on what is free: groups that go give their room back where their pods are, groups
that come take the first node with enough of everything. That is not the scheduler: affinity and topology are left out,
and a pod that finds no node here might have found one in another order. What does not fit here will hardly fit there,
and that is what somebody wants to know who has the accelerators for two groups and asks for a third.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from kohort.groups.api import Template
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Node, Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import ACCOUNTING, Amounts, added, amounts_of, requests, written_of

ONE_POD: Mapping[str, Quantity] = {"pods": Quantity.parse(1)}


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


class _Board:
    """What is free on each node, changed as the steps go."""

    def __init__(self, nodes: Sequence[Node], pods: Iterable[Pod]) -> None:
        self.nodes = {node.metadata.name: node for node in nodes}
        self.free = {name: amounts_of(node.status.allocatable) for name, node in self.nodes.items()}
        for pod in pods:
            if not pod.finished:
                self.take(pod.spec.node_name, needs(pod, bound=True))

    def take(self, node: str, amounts: Amounts) -> None:
        if node in self.free:
            self.free[node] = {name: left - amounts.get(name, ZERO) for name, left in self.free[node].items()}

    def give(self, node: str, amounts: Amounts) -> None:
        if node in self.free:
            self.free[node] = added(self.free[node], amounts)

    def place(self, pod: Pod) -> str:
        """The node that it was put on; empty if there is none."""
        wanted = needs(pod)
        for name, free in self.free.items():
            if takes(self.nodes[name], pod) and not short(free, wanted):
                self.take(name, wanted)
                return name
        return ""


def needs(pod: Pod, *, bound: bool = False) -> dict[str, Quantity]:
    return added(requests(pod, ACCOUNTING) if bound else requests(pod), ONE_POD)


def short(free: Amounts, wanted: Amounts) -> list[str]:
    return [name for name, amount in wanted.items() if amount > ZERO and free.get(name, ZERO) < amount]


def takes(node: Node, pod: Pod) -> bool:
    """Ready, open, labelled as the pod wants it, and without a taint that the pod does not tolerate."""
    if not node.ready or node.spec.unschedulable:
        return False
    if any(node.metadata.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    barring = [taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(any(one.tolerates(taint) for one in pod.spec.tolerations) for taint in barring)


def room_for(
    steps: Sequence[Move], template: Template, before: Snapshot | None, nodes: Sequence[Node], pods: Sequence[Pod]
) -> Room:
    """`pods` are all pods of the cluster, those of the set included."""
    board, group = _Board(nodes, pods), pods_of_group(template)
    usable = [node.metadata.name for node in nodes if any(takes(node, pod) for pod in group)]
    asked = {name for pod in group for name in needs(pod) if name != "pods"}
    free = {name: _sum(board.free[node].get(name, ZERO) for node in usable) for name in sorted(asked)}
    standing = _standing(before)
    for number, step in enumerate(steps, 1):
        for index in (*step.removed, *step.recreated):
            for node, amounts in standing.pop(index, ()):
                board.give(node, amounts)
        coming = [(index, pod) for index in (*step.recreated, *step.created) for pod in group]
        placed = [(index, pod, board.place(pod)) for index, pod in coming]
        homeless = [pod for _, pod, node in placed if not node]
        if homeless:
            lacking = _lacking(board, homeless)
            return Room(len(usable), written_of(free), False, number, len(homeless), lacking)
        for index, pod, node in placed:
            standing.setdefault(index, []).append((node, needs(pod)))
    return Room(len(usable), written_of(free), True)


def pods_of_group(template: Template) -> list[Pod]:
    leader = msgspec.convert({"spec": template.leader.get("spec") or {}}, Pod)
    worker = msgspec.convert({"spec": template.worker.get("spec") or {}}, Pod)
    return [leader, *[worker] * (template.size - 1)]


def _standing(before: Snapshot | None) -> dict[int, list[tuple[str, dict[str, Quantity]]]]:
    """Groups to the nodes and amounts of their pods."""
    if before is None:
        return {}
    return {
        index: [(pod.spec.node_name, needs(pod, bound=True)) for pod in before.members(index)]
        for index in before.leaders
    }


def _lacking(board: _Board, homeless: Sequence[Pod]) -> tuple[str, ...]:
    """What is short on every node that would take the first of them; without such a node, the nodes themselves."""
    pod = homeless[0]
    shortages = [set(short(free, needs(pod))) for name, free in board.free.items() if takes(board.nodes[name], pod)]
    return tuple(sorted(set.intersection(*shortages) or set.union(*shortages))) if shortages else ("nodes",)


def _sum(amounts: Iterable[Quantity]) -> Quantity:
    total = ZERO
    for one in amounts:
        total = total + one
    return total


def told(room: Room, asked: Mapping[str, str]) -> list[str]:
    """In a line of text; `asked` is what the edit needs on top of what there is."""
    names = [name for name in room.free if name in asked] or list(room.free)
    free = ", ".join(f"{name} {room.free[name]}" for name in names) or "nothing is requested"
    nodes = f"{room.nodes} node{'' if room.nodes == 1 else 's'}"
    if room.fits:
        return [f"Room: it fits. Free now on {nodes}: {free}."]
    lacking = " and ".join(room.lacking)
    return [
        f"Room: step {room.step} does not fit, {room.homeless} of its pods find no node (not enough {lacking} on any). "
        f"Free now on {nodes}: {free}."
    ]
