"""When pods on a node that does not report any more are given up.

A pod on such a node cannot be seen to end: its node may be off, or only out of reach with the pod still running. So
pods there are deleted by force only for sets that say so (`restartBudget.forceDeleteOnNodeLoss`), and only when the
node has not been ready for `nodeLossSeconds`.

| condition Ready of the node | decision |
|---|---|
| True, or not reported | NodeReports |
| False or Unknown, for a shorter time | NodeMayReturn |
| False or Unknown, for that time | NodeLost |
"""

from datetime import datetime

import msgspec

from kohort.objects.core import Node
from kohort.objects.meta import find_condition


class NodeReports(msgspec.Struct, frozen=True):
    pass


class NodeMayReturn(msgspec.Struct, frozen=True):
    seconds: float
    """Until it counts as lost."""


class NodeLost(msgspec.Struct, frozen=True):
    since: str


NodeLoss = NodeReports | NodeMayReturn | NodeLost


def not_ready_since(node: Node) -> str:
    """Since when a node does not report that it is ready; empty if it does."""
    ready = find_condition(node.status.conditions, "Ready")
    return "" if ready is None or ready.status == "True" else ready.last_transition_time or ""


def decide_node_loss(node: Node, patience: float, now: datetime) -> NodeLoss:
    since = not_ready_since(node)
    if not since:
        return NodeReports()
    left = patience - (now - datetime.fromisoformat(since)).total_seconds()
    return NodeMayReturn(left) if left > 0 else NodeLost(since)
