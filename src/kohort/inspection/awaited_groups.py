"""What keeps the groups from being ready that an edit waits for.

| the group | reason | comes back by itself |
|---|---|---|
| is held: its restart budget is used up | HELD | no |
| has a pod on a node that does not report | NODE_NOT_READY | no |
| has a pod that crashes again and again, or fits no node | BROKEN | no |
| waits for its back-off, and is recreated then | DUE | yes |
| any other: it starts, or its pods end | NOT_READY | yes |
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from kohort.groups.resize.group_view import is_broken
from kohort.inspection.advice import Verb
from kohort.inspection.release_subject import command
from kohort.inspection.silent_nodes import concerned_nodes, silent_nodes
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Node
from kohort.rules.group_state import RestartState, pod_is_ready


class AwaitReason(StrEnum):
    HELD = "Held"
    NODE_NOT_READY = "NodeNotReady"
    BROKEN = "Broken"
    DUE = "RestartDue"
    NOT_READY = "NotReady"


class AwaitedGroup(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    group: int
    reason: AwaitReason
    pod: str = ""
    """The first one that is not ready."""
    node: str = ""
    """Its node, if that does not report."""
    since: str = ""
    """When the node reported last."""
    command: str = ""
    """What brings the group back."""

    @property
    def comes_back(self) -> bool:
        return self.reason in (AwaitReason.DUE, AwaitReason.NOT_READY)


def awaited_groups(before: Snapshot, nodes: Sequence[Node], indexes: Iterable[int]) -> tuple[AwaitedGroup, ...]:
    """`nodes` are all of the cluster, as far as they can be read."""
    silent = silent_nodes(nodes, concerned_nodes(before.pods))
    return tuple(_awaited(before, silent, index) for index in sorted(set(indexes)))


def _awaited(before: Snapshot, silent: dict[str, str], index: int) -> AwaitedGroup:
    state = before.states.get(index)
    if state is not None and state.restart is RestartState.HELD:
        restart = command(before, Verb.RESTART, "--group", str(index)).text
        return AwaitedGroup(index, AwaitReason.HELD, command=restart)
    unready = [pod for pod in before.members(index) if not pod_is_ready(pod)]
    for pod in unready:
        if since := silent.get(pod.spec.node_name):
            return AwaitedGroup(index, AwaitReason.NODE_NOT_READY, pod.metadata.name, pod.spec.node_name, since)
    if state is not None and state.restart is RestartState.DUE:
        return AwaitedGroup(index, AwaitReason.DUE)
    for pod in unready:
        if is_broken(pod):
            return AwaitedGroup(index, AwaitReason.BROKEN, pod.metadata.name)
    return AwaitedGroup(index, AwaitReason.NOT_READY, unready[0].metadata.name if unready else "")
