"""What a pod requests of a node and what it reserves there, as plain integers: decisions compare these thousands of
times a second."""

from collections.abc import Iterable

import msgspec

from kohort import resources
from kohort.objects.pods import Pod, PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources.effective import pending_resize

Scalars = tuple[tuple[str, int], ...]

_NATIVE = frozenset({resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE, "pods"})


class ResourceUse(msgspec.Struct, frozen=True, gc=False):
    """`scored_*` count a default for containers without requests; they matter only when nodes are compared."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    scalars: Scalars = ()
    scored_cpu: int = 0
    scored_memory: int = 0

    @property
    def nothing(self) -> bool:
        return not (self.milli_cpu or self.memory or self.ephemeral_storage or self.scalars)

    def shrank_since(self, before: "ResourceUse", asked: "ResourceUse") -> bool:
        """Whether it is now less of any resource in `asked`."""
        if asked.milli_cpu and self.milli_cpu < before.milli_cpu:
            return True
        if asked.memory and self.memory < before.memory:
            return True
        if asked.ephemeral_storage and self.ephemeral_storage < before.ephemeral_storage:
            return True
        now, then = dict(self.scalars), dict(before.scalars)
        return any(now.get(name, 0) < then.get(name, 0) for name, amount in asked.scalars if amount)


def resource_use(pod: Pod, options: resources.Options) -> ResourceUse:
    asked = resources.requests(pod, options)
    scored = asked if _all_requests_given(pod, options) else resources.non_zero_requests(pod, options)
    return ResourceUse(
        milli_cpu=_milli(asked.get(resources.CPU)),
        memory=_whole(asked.get(resources.MEMORY)),
        ephemeral_storage=_whole(asked.get(resources.EPHEMERAL_STORAGE)),
        scalars=_scalars(asked.items()),
        scored_cpu=_milli(scored.get(resources.CPU)),
        scored_memory=_whole(scored.get(resources.MEMORY)),
    )


def _all_requests_given(pod: Pod, options: resources.Options) -> bool:
    """Whether every container asks for cpu and memory, so that no defaults are needed for the score."""
    if options.use_status or pod.spec.init_containers:
        return False
    wanted = [container.resources.requests for container in pod.spec.main_containers]
    return all(resources.CPU in asked and resources.MEMORY in asked for asked in wanted)


def requested_by(pod: Pod, before: Pod | None = None, known: ResourceUse | None = None) -> ResourceUse:
    """What a pod without a node needs, from its spec alone. `known` is the result for `before`."""
    if before is not None and known is not None and _same_requests(before.spec, pod.spec):
        return known
    return resource_use(pod, resources.SPEC)


def _same_requests(one: PodSpec, other: PodSpec) -> bool:
    return (
        one.containers == other.containers
        and one.init_containers == other.init_containers
        and one.resources == other.resources
        and one.overhead == other.overhead
    )


def at_rest(pod: Pod) -> bool:
    """Whether allocated and actual resources equal those of the spec, as nearly always: then the pod reserves what it
    requests, and the three need not be added up and compared."""
    status = pod.status
    if status.init_container_statuses or pending_resize(pod) is not None:
        return False
    wanted = {container.name: container.resources.requests for container in pod.spec.main_containers}
    if status.resources is not None or status.allocated_resources is not None:
        # Figures of the pod as a whole can be compared without adding up when it has one container only.
        if len(wanted) != 1 or pod.spec.resources is not None or status.resources is None:
            return False
        if [status.allocated_resources, status.resources.requests] != [*wanted.values()] * 2:
            return False
    for entry in status.container_statuses:
        asked = wanted.get(entry.name)
        if entry.allocated_resources is not None and entry.allocated_resources != asked:
            return False
        if entry.resources is not None and entry.resources.requests and entry.resources.requests != asked:
            return False
    return True


def reserved_by(pod: Pod, *, count_deferred: bool = True) -> ResourceUse:
    """What a pod reserves on its node: the greatest of desired, allocated and actual."""
    if count_deferred:
        return resource_use(pod, resources.ACCOUNTING)
    return resource_use(pod, msgspec.structs.replace(resources.ACCOUNTING, count_deferred=False))


def _scalars(amounts: Iterable[tuple[str, Quantity]]) -> Scalars:
    return tuple((name, amount.value) for name, amount in sorted(amounts) if name not in _NATIVE)


def _milli(amount: Quantity | None) -> int:
    return 0 if amount is None else amount.milli


def _whole(amount: Quantity | None) -> int:
    return 0 if amount is None else amount.value
