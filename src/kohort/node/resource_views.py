"""The four views of what a pod may use, kept apart by type.

| view      | what it says                                  | where it lives               |
|-----------|-----------------------------------------------|------------------------------|
| Desired   | what the user asks for                        | the pod's spec               |
| Allocated | what this node has accepted and set aside     | checkpoint `allocated.json`  |
| Actuated  | what was last written to cgroups successfully | checkpoint `actuated.json`   |
| Actual    | what the kernel says                          | cgroup files, and the status |

Desired and Allocated speak as users do: requirements of the pod and of each container, in quantities. Actuated and
Actual speak as the kernel does: four figures for the pod and for each container, a limit inherited from the pod
included. `figures_of` leads from the first language to the second, and nothing leads back. The first two are in
`kohort.rules.allocated_resources`, because simulated nodes have them too.
"""

from collections.abc import Mapping

import msgspec

from kohort.objects.pods import Container, Pod, PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources import CPU, MEMORY, SPEC, amounts_of, container_limit, limit_declared, limits, requests
from kohort.resources.cgroups import LARGEST_BYTES, LARGEST_MILLI


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
    """What was last written to cgroups, successfully."""

    restarting: frozenset[str] = frozenset()
    """Containers that were stopped because of a resize and have not been started again."""

    def with_container(self, name: str, figures: Figures) -> "Actuated":
        return msgspec.structs.replace(self, containers={**self.containers, name: figures})

    def with_pod(self, figures: Figures) -> "Actuated":
        return msgspec.structs.replace(self, pod=figures)


class CgroupTarget(Applied, frozen=True):
    """What the cgroups should hold, for an allocated pod."""


class Usage(msgspec.Struct, frozen=True):
    """Memory in use, read just now; None where it cannot be read."""

    pod: int | None = None
    containers: dict[str, int] = {}


def figures_of(allocated: Pod) -> CgroupTarget:
    """What the cgroups of an *allocated* pod should hold."""
    spec = allocated.spec
    asked, allowed = requests(allocated, SPEC), limits(allocated, SPEC)
    declared = {name: amount for name, amount in allowed.items() if limit_declared(spec, name)}
    return CgroupTarget(
        _figures(asked, declared), {each.name: _container_figures(spec, each) for each in spec.all_containers}
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
