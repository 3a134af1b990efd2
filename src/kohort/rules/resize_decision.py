"""May a pod have the resources that a resize asks for? The first row that applies decides:

| what is found                                                       | answer                                   |
|---------------------------------------------------------------------|------------------------------------------|
| desired = allocated                                                 | Reverted: nothing is pending             |
| the node cannot resize at all (gate off, or not Linux)              | Infeasible                               |
| pod-level figures differ, the node cannot resize those (gate, v1)   | Infeasible                               |
| exclusive cpus or memory are involved                               | Infeasible                               |
| more than the node has, other pods or not                           | Infeasible                               |
| nothing grows                                                       | Accepted, even under pressure            |
| more than the others leave                                          | Deferred                                 |
| the node is under pressure or shutting down                         | Deferred                                 |
| none of these                                                       | Accepted                                 |

A resize is one unit: all of it is accepted or nothing. Other pods are never evicted for it, whatever its
priority.

Node agents and simulated nodes ask this function; the order in which pods are asked is `resize_queue`.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from kohort.objects.pods import Pod, ResourceRequirements
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import CPU, MEMORY, SPEC, requests, summed
from kohort.resources.effective import DEFERRED, INFEASIBLE
from kohort.rules.allocated_resources import Allocated, Desired, agrees, same_requirements
from kohort.rules.node_feature_gates import ALL_ON, NodeGates


class NotSupported(StrEnum):
    """What a node cannot do at all. The values are those of the kubelet's metric label `reason_detail`."""

    RESIZE_GATE_OFF = "feature_gate_off"
    OPERATING_SYSTEM = "unsupported_os"
    POD_LEVEL_GATE_OFF = "plr_feature_gate_off"
    CGROUP_V1 = "cgroups_v1_unsupported"
    EXCLUSIVE_CPUS = "guaranteed_pod_cpu_manager_static_policy"
    EXCLUSIVE_MEMORY = "guaranteed_pod_memory_manager_static_policy"


class ExceedsNode(msgspec.Struct, frozen=True):
    """More than the node has, even if it had no other pod."""

    resource: str
    requested: Quantity
    capacity: Quantity


class ResourceShortage(msgspec.Struct, frozen=True):
    """More than the other pods leave."""

    resource: str
    requested: Quantity
    used: Quantity
    capacity: Quantity


class NodePressure(msgspec.Struct, frozen=True):
    """The node accepts no growth at the moment."""

    message: str


class Injected(msgspec.Struct, frozen=True):
    """A test ordered the refusal, by an annotation on a pod of a simulated node."""

    message: str


DeferredReason = ResourceShortage | NodePressure | Injected
InfeasibleReason = NotSupported | ExceedsNode | Injected

_NOT_SUPPORTED = {
    NotSupported.RESIZE_GATE_OFF: "In-place resize is not enabled on this node",
    NotSupported.OPERATING_SYSTEM: "In-place resize is supported on Linux only",
    NotSupported.POD_LEVEL_GATE_OFF: "In-place resize of pod-level resources is not enabled on this node",
    NotSupported.CGROUP_V1: "Pod-level resources need a node with writable cgroup v2",
    NotSupported.EXCLUSIVE_CPUS: "Resize is infeasible for a pod with exclusive cpus",
    NotSupported.EXCLUSIVE_MEMORY: "Resize is infeasible for a pod with pinned memory",
}


def message_for(reason: DeferredReason | InfeasibleReason) -> str:
    """What the pod's condition says, in the kubelet's words."""
    match reason:
        case NotSupported():
            return _NOT_SUPPORTED[reason]
        case ExceedsNode(name, requested, capacity):
            figures = f"requested: {shown_amount(name, requested)}, capacity: {shown_amount(name, capacity)}"
            return f"Node didn't have enough capacity: {name}, {figures}"
        case ResourceShortage(name, requested, used, capacity):
            figures = f"requested: {shown_amount(name, requested)}, used: {shown_amount(name, used)}"
            return f"Node didn't have enough resource: {name}, {figures}, capacity: {shown_amount(name, capacity)}"
        case NodePressure(message) | Injected(message):
            return message


class Accepted(msgspec.Struct, frozen=True):
    allocated: Allocated


class Reverted(msgspec.Struct, frozen=True):
    """The user asks for what the pod has."""


class Deferred(msgspec.Struct, frozen=True):
    """Not now. Decided again whenever room could have been freed."""

    reason: DeferredReason

    @property
    def message(self) -> str:
        return message_for(self.reason)

    @property
    def code(self) -> str:
        """The word in front of the message in events: OutOfcpu, OutOfmemory, NodePressure, Deferred."""
        match self.reason:
            case ResourceShortage(name):
                return f"OutOf{name}"
            case NodePressure():
                return "NodePressure"
            case Injected():
                return DEFERRED


class Infeasible(msgspec.Struct, frozen=True):
    """Not on this node as it is."""

    reason: InfeasibleReason

    @property
    def message(self) -> str:
        return message_for(self.reason)

    @property
    def code(self) -> str:
        return INFEASIBLE

    @property
    def detail(self) -> str:
        """The kubelet's metric label `reason_detail`."""
        match self.reason:
            case NotSupported():
                return self.reason.value
            case ExceedsNode():
                return "insufficient_node_allocatable"
            case Injected():
                return "injected"


ResizeDecision = Accepted | Reverted | Deferred | Infeasible


class NodeFacts(msgspec.Struct, frozen=True):
    """What a node can do and has."""

    allocatable: dict[str, Quantity]
    gates: NodeGates = ALL_ON
    linux: bool = True
    cgroup_v2: bool = True
    pressure: str = ""
    """Why the node accepts nothing more at the moment; empty if it does."""
    exclusive_cpus: bool = False
    """The pod holds cpus of its own."""
    exclusive_memory: bool = False

    @property
    def limits_pods(self) -> bool:
        """Whether the node can limit a pod as a whole, beside its containers."""
        return self.linux and self.cgroup_v2


def decide_resize(pod: Pod, allocated: Allocated, others: Iterable[Pod], node: NodeFacts) -> ResizeDecision:
    """`pod` as it is desired; `others` are the node's other pods *as allocated*."""
    desired = Desired.of(pod.spec)
    if agrees(desired, allocated):
        return Reverted()
    if not node.linux:
        return Infeasible(NotSupported.OPERATING_SYSTEM)
    if not node.gates.resize:
        return Infeasible(NotSupported.RESIZE_GATE_OFF)
    obstacle = _pod_level_obstacle(desired, allocated, node) or _exclusive_obstacle(pod, allocated, node)
    if obstacle is not None:
        return obstacle
    wanted = requests(pod, SPEC)
    if excesses := excesses_over_node(wanted, node.allocatable):
        return Infeasible(excesses[0])
    if not increases(pod, allocated):
        return Accepted(Allocated.accepting(desired))
    shortage = shortage_for(wanted, others, node.allocatable)
    if shortage is not None:
        return Deferred(shortage)
    if node.pressure:
        return Deferred(NodePressure(node.pressure))
    return Accepted(Allocated.accepting(desired))


def increases(pod: Pod, allocated: Allocated) -> bool:
    """Whether the pod as a whole asks for more cpu or memory than it has, its pod-level figures honoured."""
    before, after = requests(allocated.applied_to(pod), SPEC), requests(pod, SPEC)
    return any(after.get(name, ZERO) > before.get(name, ZERO) for name in (CPU, MEMORY))


def excesses_over_node(wanted: Mapping[str, Quantity], allocatable: Mapping[str, Quantity]) -> list[ExceedsNode]:
    """What a pod asks for and its node could not give even if it were empty. A resource that the node does not report
    is not checked."""
    return [
        ExceedsNode(name, wanted[name], allocatable[name])
        for name in (CPU, MEMORY)
        if name in wanted and name in allocatable and wanted[name] > allocatable[name]
    ]


def shortage_for(
    wanted: Mapping[str, Quantity], others: Iterable[Pod], allocatable: Mapping[str, Quantity]
) -> ResourceShortage | None:
    """The first resource of which the other pods do not leave enough; None if they leave enough of all."""
    return shortage_in(wanted, summed(requests(other, SPEC) for other in others), allocatable)


def shortage_in(
    wanted: Mapping[str, Quantity], used: Mapping[str, Quantity], allocatable: Mapping[str, Quantity]
) -> ResourceShortage | None:
    """The same, where the other pods request `used`."""
    for name, amount in wanted.items():
        if name not in allocatable or not amount:
            continue
        taken = used.get(name, ZERO)
        if taken + amount > allocatable[name]:
            return ResourceShortage(name, amount, taken, allocatable[name])
    return None


def _pod_level_obstacle(desired: Desired, allocated: Allocated, node: NodeFacts) -> Infeasible | None:
    before, after = allocated.pod, desired.pod
    if isinstance(before, msgspec.UnsetType) or isinstance(after, msgspec.UnsetType):
        return None
    if same_requirements(before, after):
        return None
    if not node.gates.pod_level_resize:
        return Infeasible(NotSupported.POD_LEVEL_GATE_OFF)
    if not node.limits_pods:
        return Infeasible(NotSupported.CGROUP_V1)
    return None


def _exclusive_obstacle(pod: Pod, allocated: Allocated, node: NodeFacts) -> Infeasible | None:
    if node.exclusive_cpus and _touches(pod, allocated, CPU):
        return Infeasible(NotSupported.EXCLUSIVE_CPUS)
    if node.exclusive_memory and _touches(pod, allocated, MEMORY):
        return Infeasible(NotSupported.EXCLUSIVE_MEMORY)
    return None


def _touches(pod: Pod, allocated: Allocated, name: str) -> bool:
    before = allocated.applied_to(pod).spec
    blocks = [(before.resources, pod.spec.resources)]
    blocks += [
        (old.resources, new.resources) for old, new in zip(before.all_containers, pod.spec.all_containers, strict=True)
    ]
    return any(_amounts(old, name) != _amounts(new, name) for old, new in blocks)


def _amounts(block: ResourceRequirements | None, name: str) -> tuple[Quantity | None, Quantity | None]:
    if block is None:
        return None, None
    request, limit = block.requests.get(name), block.limits.get(name)
    return (
        None if request is None else Quantity.parse(request),
        None if limit is None else Quantity.parse(limit),
    )


def shown_amount(name: str, amount: Quantity) -> int:
    """The figure that messages of Kubernetes show."""
    return amount.milli if name == CPU else amount.value
