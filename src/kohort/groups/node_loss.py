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


def decide_node_loss(node: Node, patience: float, now: datetime) -> NodeLoss:
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status == "True" or not ready.last_transition_time:
        return NodeReports()
    left = patience - (now - datetime.fromisoformat(ready.last_transition_time)).total_seconds()
    return NodeMayReturn(left) if left > 0 else NodeLost(ready.last_transition_time)
