"""How many more groups the nodes have room for, by what their pods request.

Each pod of a group is placed on the first node that takes it: ready, schedulable, with the labels that the pod selects,
without a taint that it does not tolerate, and with enough of everything that it requests. A group fits when all of its
pods do. Affinity, spread, volumes and quotas are left out: groups that do not fit here will hardly fit at all, which is
what should be known before the first of them is created.
"""

from collections.abc import Iterable, Sequence

import msgspec

from kohort.objects.core import Node, Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import ACCOUNTING, amounts_of, requests

_STOPPING = ("NoSchedule", "NoExecute")


class GroupCapacity(msgspec.Struct, frozen=True):
    wanted: int
    fitting: int
    lacking: tuple[str, ...] = ()
    """Resources that no node that would take the pod has enough of; empty where no node takes it at all."""

    @property
    def enough(self) -> bool:
        return self.fitting >= self.wanted


class _Room:
    def __init__(self, node: Node, pods: Iterable[Pod]) -> None:
        self.node = node
        self.free = amounts_of(node.status.allocatable)
        self.slots = int(float(str(node.status.allocatable.get("pods", "110"))))
        for pod in pods:
            self.take(requests(pod, ACCOUNTING))

    def take(self, asked: dict[str, Quantity]) -> None:
        self.slots -= 1
        for name, amount in asked.items():
            self.free[name] = self.free.get(name, ZERO) - amount

    def lacks(self, asked: dict[str, Quantity]) -> list[str]:
        short = [name for name, amount in asked.items() if amount > self.free.get(name, ZERO) and amount > ZERO]
        return short if self.slots > 0 else [*short, "pods"]


def group_capacity(nodes: Iterable[Node], pods: Iterable[Pod], group: Sequence[Pod], wanted: int) -> GroupCapacity:
    """`pods` are all pods of the cluster, `group` the pods of one new group."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.spec.node_name and not pod.finished:
            by_node.setdefault(pod.spec.node_name, []).append(pod)
    rooms = [_Room(node, by_node.get(node.metadata.name, ())) for node in nodes if _is_open(node)]
    for fitting in range(wanted):
        for pod in group:
            asked = requests(pod, ACCOUNTING)
            takers = [room for room in rooms if _takes(room.node, pod)]
            place = next((room for room in takers if not room.lacks(asked)), None)
            if place is None:
                lacking = sorted({name for room in takers for name in room.lacks(asked)})
                return GroupCapacity(wanted, fitting, tuple(lacking))
            place.take(asked)
    return GroupCapacity(wanted, wanted)


def _is_open(node: Node) -> bool:
    return node.ready and not node.spec.unschedulable


def _takes(node: Node, pod: Pod) -> bool:
    labels = node.metadata.labels
    selected = all(labels.get(name) == value for name, value in pod.spec.node_selector.items())
    taints = [taint for taint in node.spec.taints if taint.effect in _STOPPING]
    return selected and all(any(one.tolerates(taint) for one in pod.spec.tolerations) for taint in taints)
