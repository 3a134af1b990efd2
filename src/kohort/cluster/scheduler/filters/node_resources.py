"""Whether a node has room: cpu, memory, ephemeral storage, any other counted resource, and the number of pods."""

from typing import Final

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filter_result import Check, Verdict
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts

NAME: Final = "NodeResourcesFit"
TOO_MANY_PODS: Final = "Too many pods"


def resources_fit(pod: PodFacts, cluster: ClusterState) -> Check:
    """What the pod asks for must be free on the node. More than the node has at all is beyond the help of
    preemption."""
    asked = pod.asks
    cpu, memory, storage, scalars = asked.milli_cpu, asked.memory, asked.ephemeral_storage, asked.scalars

    def check(node: NodeFacts) -> Verdict | None:
        # The common answer first: everything fits, nothing exotic asked.
        if (
            cpu <= node.milli_cpu - node.used_cpu
            and memory <= node.memory - node.used_memory
            and not scalars
            and not storage
            and len(node.pods) < node.allowed_pods
        ):
            return None
        return shortage(node)

    def shortage(node: NodeFacts) -> Verdict | None:
        reasons: list[str] = []
        beyond = False
        if len(node.pods) >= node.allowed_pods:
            reasons.append(TOO_MANY_PODS)
        if cpu and cpu > node.milli_cpu - node.used_cpu:
            reasons.append("Insufficient cpu")
            beyond |= cpu > node.milli_cpu
        if memory and memory > node.memory - node.used_memory:
            reasons.append("Insufficient memory")
            beyond |= memory > node.memory
        if storage and storage > node.ephemeral_storage - node.used_ephemeral_storage:
            reasons.append("Insufficient ephemeral-storage")
            beyond |= storage > node.ephemeral_storage
        for name, amount in scalars:
            present = node.scalars.get(name, 0)
            if amount and amount > present - node.used_scalars.get(name, 0):
                reasons.append(f"Insufficient {name}")
                beyond |= amount > present
        return Verdict(NAME, tuple(reasons), preemption_may_help=not beyond) if reasons else None

    return check


def could_ever_fit(pod: PodFacts, node: NodeFacts) -> bool:
    """Whether an empty node of this size could take the pod."""
    asked = pod.asks
    return (
        asked.milli_cpu <= node.milli_cpu
        and asked.memory <= node.memory
        and asked.ephemeral_storage <= node.ephemeral_storage
        and node.allowed_pods > 0
        and all(amount <= node.scalars.get(name, 0) for name, amount in asked.scalars)
    )
