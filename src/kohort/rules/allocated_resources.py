"""What does a pod ask for, and what has its node accepted? Two views of the same requirements, kept apart by type.

| view      | what it says                         | where a node agent keeps it | where simulated nodes keep it |
|-----------|--------------------------------------|-----------------------------|-------------------------------|
| Desired   | what the user asks for               | the pod's spec              | the pod's spec                |
| Allocated | what the node accepted and set aside | checkpoint `allocated.json` | in memory, and in the status  |
"""

from typing import Self, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from kohort.objects.pods import Pod, PodSpec, ResourceRequirements
from kohort.resources import amounts_of

P = TypeVar("P", bound=Pod)


class Requirements(msgspec.Struct, frozen=True):
    """Requirements of a pod. `pod` is UNSET in records that were written before pods had resources of their own."""

    containers: dict[str, ResourceRequirements]
    pod: ResourceRequirements | UnsetType | None = UNSET

    @classmethod
    def of(cls, spec: PodSpec) -> Self:
        return cls({each.name: each.resources for each in spec.all_containers}, spec.resources)


class Desired(Requirements, frozen=True):
    """What the user asks for."""


class Allocated(Requirements, frozen=True):
    """What the node has accepted."""

    @staticmethod
    def accepting(desired: Desired) -> "Allocated":
        return Allocated(desired.containers, desired.pod)

    def applied_to(self, pod: P) -> P:
        """The pod as it would be if it had asked for this: what cgroups, status and eviction look at."""
        whole = pod.spec.resources if isinstance(self.pod, UnsetType) else self.pod
        return pod.with_resources(self.containers, whole)

    def completed(self, spec: PodSpec) -> "Allocated":
        """A record from before pod-level resources takes the pod's own figures over, once, instead of denying them."""
        return Allocated(self.containers, spec.resources) if isinstance(self.pod, UnsetType) else self


def same_requirements(left: ResourceRequirements | None, right: ResourceRequirements | None) -> bool:
    """Whether two blocks mean the same: amounts, not their spelling. An empty block is none."""
    left, right = left or ResourceRequirements(), right or ResourceRequirements()
    return amounts_of(left.requests) == amounts_of(right.requests) and amounts_of(left.limits) == amounts_of(
        right.limits
    )


def agrees(desired: Desired, allocated: Allocated) -> bool:
    """Whether the user asks for exactly what the node has accepted."""
    before, after = allocated.pod, desired.pod
    if not isinstance(before, UnsetType) and not isinstance(after, UnsetType) and not same_requirements(before, after):
        return False
    return desired.containers.keys() == allocated.containers.keys() and all(
        same_requirements(resources, allocated.containers[name]) for name, resources in desired.containers.items()
    )
