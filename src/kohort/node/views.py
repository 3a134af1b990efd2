"""The four views of what a pod may use, kept apart by type.

| view      | what it says                                  | where it lives               |
|-----------|-----------------------------------------------|------------------------------|
| Desired   | what the user asks for                        | the pod's spec               |
| Allocated | what this node has accepted and set aside     | checkpoint `allocated.json`  |
| Actuated  | what was last pushed to cgroups, successfully | checkpoint `actuated.json`   |
| Actual    | what the kernel says                          | cgroup files, and the status |

Desired and Allocated speak as users do: requirements of the pod and of each container, in quantities. Actuated and
Actual speak as the kernel does: four figures for the pod and for each container, a limit inherited from the pod
included. `figures_of` leads from the first language to the second, and nothing leads back.
"""

from collections.abc import Mapping
from typing import Self, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from kohort.objects.pods import Container, Pod, PodSpec, ResourceRequirements
from kohort.objects.quantity import Quantity
from kohort.resources import CPU, MEMORY, SPEC, amounts_of, container_limit, limit_declared, limits, requests
from kohort.resources.cgroups import LARGEST_BYTES, LARGEST_MILLI

P = TypeVar("P", bound=Pod)


class Requirements(msgspec.Struct, frozen=True):
    """Requirements of a pod. `pod` is UNSET when nobody knows: a record of a time when pods had none of their own."""

    containers: dict[str, ResourceRequirements]
    pod: ResourceRequirements | UnsetType | None = UNSET

    @classmethod
    def of(cls, spec: PodSpec) -> Self:
        return cls({each.name: each.resources for each in spec.all_containers}, spec.resources)


class Desired(Requirements, frozen=True):
    """What the user asks for."""


class Allocated(Requirements, frozen=True):
    """What this node has accepted."""

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


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """Millicores and bytes. An absent request is None, and so is an absent limit, which means unlimited."""

    cpu_request: int | None = None
    cpu_limit: int | None = None
    memory_request: int | None = None
    memory_limit: int | None = None

    def request(self, resource: str) -> int | None:
        return self.cpu_request if resource == CPU else self.memory_request

    def limit(self, resource: str) -> int | None:
        return self.cpu_limit if resource == CPU else self.memory_limit

    def taking(self, resource: str, other: "Figures") -> "Figures":
        """These figures, with one resource as in `other`."""
        if resource == CPU:
            return msgspec.structs.replace(self, cpu_request=other.cpu_request, cpu_limit=other.cpu_limit)
        return msgspec.structs.replace(self, memory_request=other.memory_request, memory_limit=other.memory_limit)

    def same(self, resource: str, other: "Figures") -> bool:
        return self.request(resource) == other.request(resource) and self.limit(resource) == other.limit(resource)


class Applied(msgspec.Struct, frozen=True):
    pod: Figures
    containers: dict[str, Figures]


class Actuated(Applied, frozen=True):
    """What was last pushed to cgroups."""

    restarting: frozenset[str] = frozenset()
    """Containers that were stopped because of a resize and have not been started again."""

    def with_container(self, name: str, figures: Figures) -> "Actuated":
        return msgspec.structs.replace(self, containers={**self.containers, name: figures})

    def with_pod(self, figures: Figures) -> "Actuated":
        return msgspec.structs.replace(self, pod=figures)


class Target(Applied, frozen=True):
    """What should be pushed to cgroups, for an allocated pod."""


class Usage(msgspec.Struct, frozen=True):
    """Memory in use, read just now; None where it cannot be read."""

    pod: int | None = None
    containers: dict[str, int] = {}


def figures_of(allocated: Pod) -> Target:
    """What an *allocated* pod means for its cgroups."""
    spec = allocated.spec
    asked, allowed = requests(allocated, SPEC), limits(allocated, SPEC)
    declared = {name: amount for name, amount in allowed.items() if limit_declared(spec, name)}
    return Target(
        _figures(asked, declared), {each.name: _container_figures(spec, each) for each in spec.all_containers}
    )


def same_requirements(left: ResourceRequirements | None, right: ResourceRequirements | None) -> bool:
    """Whether two blocks mean the same: amounts, not their spelling. An empty block is none."""
    left, right = left or ResourceRequirements(), right or ResourceRequirements()
    return amounts_of(left.requests) == amounts_of(right.requests) and amounts_of(left.limits) == amounts_of(
        right.limits
    )


def agrees(desired: Desired, allocated: Allocated) -> bool:
    """Whether the user asks for exactly what the node has accepted."""
    before, after = allocated.pod, desired.pod
    unknown = isinstance(before, UnsetType) or isinstance(after, UnsetType)
    if not unknown and not same_requirements(before, after):  # type: ignore[arg-type]
        return False
    return desired.containers.keys() == allocated.containers.keys() and all(
        same_requirements(resources, allocated.containers[name]) for name, resources in desired.containers.items()
    )


def _container_figures(spec: PodSpec, container: Container) -> Figures:
    inherited = {name: container_limit(spec, container, name) for name in (CPU, MEMORY)}
    return _figures(
        amounts_of(container.resources.requests), {name: limit for name, limit in inherited.items() if limit}
    )


def _figures(asked: Mapping[str, Quantity], allowed: Mapping[str, Quantity]) -> Figures:
    return Figures(
        cpu_request=_milli(asked[CPU]) if CPU in asked else None,
        cpu_limit=_milli(allowed[CPU]) if allowed.get(CPU) else None,
        memory_request=_bytes(asked[MEMORY]) if MEMORY in asked else None,
        memory_limit=_bytes(allowed[MEMORY]) if allowed.get(MEMORY) else None,
    )


def _milli(amount: Quantity) -> int:
    return min(amount.milli, LARGEST_MILLI)


def _bytes(amount: Quantity) -> int:
    return min(amount.value, LARGEST_BYTES)
