"""Whether the nodes have the room that an edit needs, step by step.

The steps of a roll are played through on the nodes as they are: groups that go give their room back where their pods
are, groups that come are placed, pod after pod, on the first node that the scheduler's own filters let through. So
labels, taints, affinity, spread, ports and requests count, and with them exclusive placement and a group's own nodes.

| a pod needs | looked for |
|---|---|
| a domain for its group, or for its subgroup | each value of the node label in turn, until one takes all of the pods |
| anything else | the first node |

That is not the whole scheduler. Volumes, quotas and preemption are left out, and so are scores: a pod that finds no
node here might have found one in another order. What does not fit here will hardly fit there: enough for a
user who has the accelerators for two groups and asks for a third.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filters import FILTERS, NODE_ONLY, Filter, prepare
from kohort.cluster.scheduler.filters.volumes import volume_binding, volume_restrictions, volume_zone
from kohort.cluster.scheduler.messages import counted_reasons
from kohort.cluster.scheduler.pod_and_node_info import NodeInfo, PodInfo
from kohort.cluster.scheduler.rejection import NodeRejection, PodRejection
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.future_pods import PlannedGroup, Unit, planned_group
from kohort.inspection.readable_amounts import amount_text
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Node, Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import ACCOUNTING, Amounts, amounts_of, requests, written_of
from kohort.rules.scheduler_message import InsufficientResource, NodeReason

UNSEEN: Final = "volumes, quotas and preemption"
_VOLUMES: Final = (volume_binding, volume_restrictions, volume_zone)
_JUDGED: Final[Sequence[Filter]] = [one for one in FILTERS if one not in _VOLUMES]
_NAMED_AT_MOST: Final = 3


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


class _SimulatedCluster:
    """The cluster, changed as the steps go."""

    def __init__(self, nodes: Sequence[Node], pods: Iterable[Pod]) -> None:
        self.state = ClusterState()
        for node in nodes:
            self.state.add_node(node)
        for pod in pods:
            if pod.spec.node_name and not pod.finished:
                self.state.add_pod(PodInfo(pod), pod.spec.node_name)
        self.open = [info for info in self.state.schedulable if info.node is not None and info.node.ready]

    def settle(self, group: PlannedGroup) -> list[Pod]:
        """Place a group; those of its pods that find no node, if not all do."""

        def units(nodes: Sequence[NodeInfo]) -> None:
            for unit in sorted(group.units, key=lambda unit: not unit.topology):  # the choosy ones first
                if self._together(unit, nodes) and group.topology:
                    return

        return self._in_one_domain(group.topology, self.open, group.pods, units)

    def _together(self, unit: Unit, nodes: Sequence[NodeInfo]) -> list[Pod]:
        def pods(domain: Sequence[NodeInfo]) -> None:
            for pod in unit.pods:
                if not self._place(pod, domain) and unit.topology:
                    return

        return self._in_one_domain(unit.topology, nodes, unit.pods, pods)

    def _in_one_domain(
        self,
        topology: str,
        nodes: Sequence[NodeInfo],
        pods: Sequence[Pod],
        place: Callable[[Sequence[NodeInfo]], None],
    ) -> list[Pod]:
        """Place pods on nodes with one value of a label, whichever takes all. Without a label all nodes are one. In a
        domain that does not take one of them the others need not be tried."""
        fewest = list(pods)
        for domain in _domains(nodes, topology).values() if topology else (nodes,):
            place(domain)
            homeless = [pod for pod in pods if pod.metadata.uid not in self.state.pods]
            if not homeless or not topology:
                return homeless
            fewest = min(fewest, homeless, key=len)
            self.leave(pod.metadata.uid for pod in pods)
        return fewest

    def _place(self, pod: Pod, nodes: Sequence[NodeInfo]) -> bool:
        info = PodInfo(pod)
        prepared = prepare(info, self.state, _JUDGED)
        if isinstance(prepared, PodRejection):
            return False
        for node in nodes:
            if prepared.rejection(node) is None:
                self.state.add_pod(info, node.name)
                return True
        return False

    def leave(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self.state.remove_pod(uid)

    def rejections(self, pod: Pod, topologies: Sequence[str] = ()) -> dict[str, NodeRejection]:
        """Why not, of every node that is open and has these labels."""
        prepared = prepare(PodInfo(pod), self.state, _JUDGED)
        if isinstance(prepared, PodRejection):
            return {}
        nodes = [node for node in self.open if all(label in node.labels for label in topologies)]
        return {node.name: rejection for node in nodes if (rejection := prepared.rejection(node)) is not None}

    def usable(self, groups: Sequence[PlannedGroup]) -> list[Node]:
        """Nodes that would take one of the pods if they were empty."""
        wanted = {
            (tuple(pod.spec.node_selector.items()), tuple(pod.spec.tolerations)): (pod, group.topologies)
            for group in groups
            for pod in group.pods
        }
        found: dict[str, Node] = {}
        for pod, labels in wanted.values():
            prepared = prepare(PodInfo(pod), self.state, tuple(NODE_ONLY.values()))
            if isinstance(prepared, PodRejection):
                continue
            for node in self.open:
                if node.node and all(one in node.labels for one in labels) and prepared.rejection(node) is None:
                    found[node.name] = node.node
        return list(found.values())


def _domains(nodes: Sequence[NodeInfo], topology: str) -> dict[str, list[NodeInfo]]:
    found: dict[str, list[NodeInfo]] = {}
    for node in nodes:
        if topology in node.labels:
            found.setdefault(node.labels[topology], []).append(node)
    return found


def room_for(
    steps: Sequence[Move],
    after: LeaderWorkerSet,
    before: Snapshot | None,
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    more: int = 0,
) -> Room:
    """`pods` are all pods of the cluster, those of the set included; `more` groups come that are in no step."""
    board = _SimulatedCluster(nodes, pods)
    coming = {index: planned_group(after, index) for step in steps for index in (*step.recreated, *step.created)}
    usable = board.usable(list(coming.values()))
    asked = {name for pod in next(iter(coming.values())).pods for name in requests(pod)}
    room = Room(len(usable), written_of(_free(usable, pods, asked)), True)
    standing = (
        {index: {pod.metadata.uid for pod in before.members(index)} for index in before.leaders} if before else {}
    )
    for number, step in enumerate(steps, 1):
        for index in (*step.removed, *step.recreated):
            board.leave(standing.pop(index, ()))
        homeless: list[tuple[PlannedGroup, Pod]] = []
        for index in (*step.recreated, *step.created):
            homeless += [(coming[index], pod) for pod in board.settle(coming[index])]
            standing[index] = {pod.metadata.uid for pod in coming[index].pods}
        if homeless:
            return _full(room, board, homeless, number, len(homeless))
    return _with_more(room, board, after, steps, more, max(coming))


def _full(
    room: Room, board: _SimulatedCluster, homeless: Sequence[tuple[PlannedGroup, Pod]], step: int, count: int
) -> Room:
    lacking, reason = _why(board, homeless)
    return msgspec.structs.replace(room, fits=False, step=step, homeless=count, lacking=lacking, reason=reason)


def _with_more(
    room: Room, board: _SimulatedCluster, after: LeaderWorkerSet, steps: Sequence[Move], more: int, last: int
) -> Room:
    """All of these groups are alike: after the first that finds no room, the others need not be placed. They come with
    the step that creates the groups below them."""
    for placed in range(more):
        group = planned_group(after, last + 1 + placed)
        homeless = [(group, pod) for pod in board.settle(group)]
        if homeless:
            number = max(number for number, step in enumerate(steps, 1) if step.created or step.recreated)
            count = len(homeless) + (more - placed - 1) * after.template.size
            return _full(room, board, homeless, number, count)
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


def _why(board: _SimulatedCluster, homeless: Sequence[tuple[PlannedGroup, Pod]]) -> tuple[tuple[str, ...], str]:
    """Resources that no node has enough of, and the reason in words: labels that are missing first, because a table of
    free cpus does not show them."""
    if unlabelled := list(dict.fromkeys(text for group, pod in homeless for text in _unlabelled(board, group, pod))):
        more = f" and {len(unlabelled) - _NAMED_AT_MOST} more" if len(unlabelled) > _NAMED_AT_MOST else ""
        return (), ", ".join(unlabelled[:_NAMED_AT_MOST]) + more
    group, pod = homeless[0]
    rejections = board.rejections(pod, group.topologies)
    concerned = [one for one in rejections.values() if one.filter not in NODE_ONLY]
    shortages = [short for one in concerned if (short := _shortage(one))]
    if shortages and len(shortages) == len(concerned):
        lacking = tuple(sorted(set.intersection(*shortages) or set.union(*shortages)))
        return lacking, f"not enough {' and '.join(lacking)} on any"
    if group.topologies:
        label = group.topologies[-1]
        count = len(_domains(board.open, label))
        values = f"{count} value{'' if count == 1 else 's'}"
        who = "group" if group.topology == label else "subgroup"
        return (), f"node label {label} has {values}, and every {who} needs one to itself with room for all its pods"
    words = counted_reasons(rejections, len(board.open)).strip().rstrip(".")
    return (), words or "no node is open"


def _unlabelled(board: _SimulatedCluster, group: PlannedGroup, pod: Pod) -> list[str]:
    """Labels that placement goes by and that no open node has."""
    absent = [
        f"no node has the label {label}"
        for label in group.topologies
        if not any(label in node.labels for node in board.open)
    ]
    return absent + [
        f"no node is labelled {key}={value}"
        for key, value in pod.spec.node_selector.items()
        if not any(node.labels.get(key) == value for node in board.open)
    ]


def _shortage(rejection: NodeRejection) -> set[str]:
    """Resources that the node has too little of; `pods` for the number of pods."""
    names = {reason.resource for reason in rejection.reasons if isinstance(reason, InsufficientResource)}
    return names | {"pods"} if NodeReason.TOO_MANY_PODS in rejection.reasons else names


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
