"""May a resize have what it asks for? Asked in this order, the first hit decides:

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

A resize is one unit: all of it is accepted or nothing. Others are never evicted for it, however important the pod is.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from kohort.node.gates import ALL_ON, NodeGates
from kohort.node.views import Allocated, Desired, agrees, same_requirements
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.objects.quantity import Quantity
from kohort.resources import CPU, MEMORY, SPEC, requests, summed

Detail = Literal[
    "feature_gate_off",
    "unsupported_os",
    "plr_feature_gate_off",
    "cgroups_v1_unsupported",
    "guaranteed_pod_cpu_manager_static_policy",
    "guaranteed_pod_memory_manager_static_policy",
    "insufficient_node_allocatable",
]


class Accepted(msgspec.Struct, frozen=True):
    allocated: Allocated


class Reverted(msgspec.Struct, frozen=True):
    """The user asks for what the pod has."""


class Deferred(msgspec.Struct, frozen=True):
    """Not now; asked again."""

    message: str
    reason: str = ""
    """What stands in the way: OutOfcpu, OutOfmemory, NodePressure."""


class Infeasible(msgspec.Struct, frozen=True):
    """Not on this node as it is."""

    message: str
    detail: Detail


Verdict = Accepted | Reverted | Deferred | Infeasible
PODS_STAY = Infeasible("In-place resize of pod-level resources is not enabled on this node", "plr_feature_gate_off")


class NodeFacts(msgspec.Struct, frozen=True):
    """What a node can do and has."""

    allocatable: dict[str, Quantity]
    gates: NodeGates = ALL_ON
    linux: bool = True
    cgroup_v2: bool = True
    pressure: str = ""
    """Why the node takes on nothing more at the moment; empty if it does."""
    exclusive_cpus: bool = False
    """The pod holds cpus of its own."""
    exclusive_memory: bool = False


def judge(pod: Pod, allocated: Allocated, others: Iterable[Pod], node: NodeFacts) -> Verdict:
    """`pod` as it is desired; `others` are the node's other pods *as allocated*."""
    desired = Desired.of(pod.spec)
    if agrees(desired, allocated):
        return Reverted()
    if not node.linux:
        return Infeasible("In-place resize is supported on Linux only", "unsupported_os")
    if not node.gates.resize:
        return Infeasible("In-place resize is not enabled on this node", "feature_gate_off")
    refusal = _pod_level_refusal(desired, allocated, node) or _exclusive_refusal(pod, allocated, node)
    if refusal is not None:
        return refusal
    wanted = requests(pod, SPEC)
    for name in (CPU, MEMORY):
        if name in wanted and name in node.allocatable and wanted[name] > node.allocatable[name]:
            return Infeasible(
                f"Node didn't have enough capacity: {name}, requested: {_shown(name, wanted[name])}, "
                f"capacity: {_shown(name, node.allocatable[name])}",
                "insufficient_node_allocatable",
            )
    if not increases(pod, allocated):
        return Accepted(Allocated.accepting(desired))
    shortage = room_for(wanted, others, node.allocatable)
    if shortage is not None:
        return shortage
    if node.pressure:
        return Deferred(node.pressure, "NodePressure")
    return Accepted(Allocated.accepting(desired))


def increases(pod: Pod, allocated: Allocated) -> bool:
    """Whether the pod as a whole asks for more cpu or memory than it has, its pod-level figures honoured."""
    before, after = requests(allocated.applied_to(pod), SPEC), requests(pod, SPEC)
    zero = Quantity.of(0)
    return any(after.get(name, zero) > before.get(name, zero) for name in (CPU, MEMORY))


def room_for(
    wanted: Mapping[str, Quantity], others: Iterable[Pod], allocatable: Mapping[str, Quantity]
) -> Deferred | None:
    """Why others do not leave enough; None if they do."""
    used = summed(requests(other, SPEC) for other in others)
    for name, amount in wanted.items():
        if name not in allocatable or not amount:
            continue
        taken = used.get(name, Quantity.of(0))
        if taken + amount > allocatable[name]:
            words = (
                f"Node didn't have enough resource: {name}, requested: {_shown(name, amount)}, "
                f"used: {_shown(name, taken)}, capacity: {_shown(name, allocatable[name])}"
            )
            return Deferred(words, f"OutOf{name}")
    return None


def _pod_level_refusal(desired: Desired, allocated: Allocated, node: NodeFacts) -> Infeasible | None:
    before, after = allocated.pod, desired.pod
    if isinstance(before, msgspec.UnsetType) or isinstance(after, msgspec.UnsetType):
        return None
    if same_requirements(before, after):
        return None
    if not node.gates.pod_level_resize:
        return PODS_STAY
    if not node.cgroup_v2:
        return Infeasible("Pod-level resources need a node with writable cgroup v2", "cgroups_v1_unsupported")
    return None


def _exclusive_refusal(pod: Pod, allocated: Allocated, node: NodeFacts) -> Infeasible | None:
    if node.exclusive_cpus and _touches(pod, allocated, CPU):
        return Infeasible(
            "Resize is infeasible for a pod with exclusive cpus", "guaranteed_pod_cpu_manager_static_policy"
        )
    if node.exclusive_memory and _touches(pod, allocated, MEMORY):
        return Infeasible(
            "Resize is infeasible for a pod with pinned memory", "guaranteed_pod_memory_manager_static_policy"
        )
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


def _shown(name: str, amount: Quantity) -> int:
    return amount.milli if name == CPU else amount.value
