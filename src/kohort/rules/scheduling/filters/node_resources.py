"""Whether a node has room: cpu, memory, ephemeral storage, any other counted resource, and the number of pods."""

from typing import Final

from kohort.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from kohort.rules.scheduler_message import InsufficientResource, NodeReason, Reason
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import FilterName, NodeCheck, NodeRejection

NO_CPU: Final = InsufficientResource(CPU)
NO_MEMORY: Final = InsufficientResource(MEMORY)
NO_EPHEMERAL_STORAGE: Final = InsufficientResource(EPHEMERAL_STORAGE)


def resources_fit(pod: PodInfo, cluster: ClusterState) -> NodeCheck:
    return room_for(pod)


def room_for(pod: PodInfo) -> NodeCheck:
    """What the pod requests must be free on the node. Preemption cannot help a pod that requests more than the node
    has."""
    asked = pod.requested
    cpu, memory, storage, scalars = asked.milli_cpu, asked.memory, asked.ephemeral_storage, asked.scalars

    def check(node: NodeInfo) -> NodeRejection | None:
        # The common case first: everything fits, and only cpu and memory are requested.
        if (
            cpu <= node.milli_cpu - node.used_cpu
            and memory <= node.memory - node.used_memory
            and not scalars
            and not storage
            and len(node.pods) < node.allowed_pods
        ):
            return None
        return shortage(node)

    def shortage(node: NodeInfo) -> NodeRejection | None:
        reasons: list[Reason] = []
        beyond = False
        if len(node.pods) >= node.allowed_pods:
            reasons.append(NodeReason.TOO_MANY_PODS)
        if cpu and cpu > node.milli_cpu - node.used_cpu:
            reasons.append(NO_CPU)
            beyond |= cpu > node.milli_cpu
        if memory and memory > node.memory - node.used_memory:
            reasons.append(NO_MEMORY)
            beyond |= memory > node.memory
        if storage and storage > node.ephemeral_storage - node.used_ephemeral_storage:
            reasons.append(NO_EPHEMERAL_STORAGE)
            beyond |= storage > node.ephemeral_storage
        for name, amount in scalars:
            present = node.scalars.get(name, 0)
            if amount and amount > present - node.used_scalars.get(name, 0):
                reasons.append(InsufficientResource(name))
                beyond |= amount > present
        if not reasons:
            return None
        return NodeRejection(FilterName.NODE_RESOURCES_FIT, tuple(reasons), preemption_may_help=not beyond)

    return check


def could_ever_fit(pod: PodInfo, node: NodeInfo) -> bool:
    """Whether an empty node of this size could take the pod."""
    asked = pod.requested
    return (
        asked.milli_cpu <= node.milli_cpu
        and asked.memory <= node.memory
        and asked.ephemeral_storage <= node.ephemeral_storage
        and node.allowed_pods > 0
        and all(amount <= node.scalars.get(name, 0) for name, amount in asked.scalars)
    )
