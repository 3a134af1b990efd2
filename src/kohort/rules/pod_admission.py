"""Whether a node takes a pod that was bound to it: can it limit the pod, and has it room? In the words of Kubernetes.

The scheduler checks the same before it binds a pod. A node checks again, because pods that name their node never meet
the scheduler, and because two schedulers may have given the same room away.

| the pod has resources of its own (pod level), and       | result                                    |
|---------------------------------------------------------|-------------------------------------------|
| the node has the gate off, or is without cgroup v2      | Rejection `PodLevelResourcesNotSupported` |

| the pods that the node has admitted, and this one       | result                                    |
|---------------------------------------------------------|-------------------------------------------|
| are more than the node takes                            | Rejection `OutOfpods`                     |
| request more of a resource than the node has            | Rejection `OutOf<resource>`               |
| otherwise                                               | None: it is admitted                      |

A resource that the node does not report is not checked: devices are, by their plugins.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

import msgspec

from kohort.objects.pods import Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import Amounts, pod_level_set
from kohort.rules.resize_decision import NodeFacts, NotSupported, message_for, shortage_in


class RejectionReason(StrEnum):
    """Why nodes reject pods otherwise, as Kubernetes spells it in the pod's status and in its event."""

    NODE_AFFINITY = "NodeAffinity"
    NODE_NAME = "NodeName"
    NODE_PORTS = "NodePorts"
    NODE_SHUTDOWN = "NodeShutdown"
    POD_LEVEL_RESOURCES = "PodLevelResourcesNotSupported"
    POD_OS = "PodOSNotSupported"
    POD_OS_LABEL = "PodOSSelectorNodeLabelDoesNotMatch"
    SUPPLEMENTAL_GROUPS = "SupplementalGroupsPolicyNotSupported"
    SYSCTL = "SysctlForbidden"
    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    UNEXPECTED = "UnexpectedAdmissionError"


_OUT_OF: Final = "OutOf"
_REASONS: Final = frozenset(one.value for one in RejectionReason)


def is_rejection(reason: str) -> bool:
    """Whether an event or a status with this reason says that a node has rejected a pod."""
    return reason.startswith(_OUT_OF) or reason in _REASONS


class Rejection(msgspec.Struct, frozen=True):
    """Why a node does not admit a pod."""

    reason: str
    """A `RejectionReason`, or OutOf and the name of the resource."""
    message: str


def pod_level_rejection(pod: Pod, node: NodeFacts) -> Rejection | None:
    if not pod_level_set(pod.spec):
        return None
    if not node.gates.pod_level_resources:
        return Rejection(RejectionReason.POD_LEVEL_RESOURCES, "Pod-level resources are not enabled on this node")
    if not node.limits_pods:
        return Rejection(RejectionReason.POD_LEVEL_RESOURCES, message_for(NotSupported.CGROUP_V1))
    return None


def room_rejection(wanted: Amounts, pods: int, used: Amounts, allocatable: Amounts) -> Rejection | None:
    """`pods` are admitted, and request `used` together."""
    most = allocatable.get("pods")
    if most is not None and pods + 1 > most.value:
        message = f"Node didn't have enough resource: pods, requested: 1, used: {pods}, capacity: {most.value}"
        return Rejection(f"{_OUT_OF}pods", message)
    shortage = shortage_in(wanted, used, allocatable)
    return Rejection(f"{_OUT_OF}{shortage.resource}", message_for(shortage)) if shortage is not None else None


class AdmittedPods:
    """What the admitted pods of a node request, by UID, with a sum that is kept up to date."""

    def __init__(self) -> None:
        self._requests: dict[str, Amounts] = {}
        self.used: dict[str, Quantity] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, uid: str, requests: Amounts) -> None:
        """A pod that is admitted, or whose resize is accepted."""
        self.drop(uid)
        self._requests[uid] = requests
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, ZERO) + amount

    def drop(self, uid: str) -> None:
        """A pod that has ended, if it was admitted."""
        for name, amount in self._requests.pop(uid, {}).items():
            self.used[name] = self.used[name] - amount

    def keep(self, uids: Collection[str]) -> None:
        """Drop all pods but these."""
        for uid in [each for each in self._requests if each not in uids]:
            self.drop(uid)
