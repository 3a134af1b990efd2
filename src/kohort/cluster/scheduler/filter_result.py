"""What a filter says about a pod on a node."""

from collections.abc import Callable

import msgspec

from kohort.cluster.scheduler.pod_and_node_info import NodeFacts


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Why a node is not for a pod. Nobody is asked for a reason when it is: that verdict is None."""

    filter: str
    reasons: tuple[str, ...]
    preemption_may_help: bool
    """Whether the node could become right by removing pods from it."""


Check = Callable[[NodeFacts], Verdict | None]
"""A filter that has looked at the pod and the cluster, ready to judge one node after the other."""


class Refusal(msgspec.Struct, frozen=True):
    """No node is asked at all: the pod itself is not in order."""

    filter: str
    message: str


def hopeless(filter: str, *reasons: str) -> Verdict:
    return Verdict(filter, reasons, preemption_may_help=False)


def for_now(filter: str, *reasons: str) -> Verdict:
    return Verdict(filter, reasons, preemption_may_help=True)
