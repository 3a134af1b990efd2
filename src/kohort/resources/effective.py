"""How much a pod requests and how far it may go: the one function that every part asks.

A pod's figure is made of many: its containers run together, its init containers one after another before them, sidecars
from their turn on for ever; the pod may carry figures of its own that replace the sum; its runtime may cost overhead;
and while a resize is under way there are three versions of each figure, desired (spec), allocated (accepted by the
node) and actual (applied). Each caller wants a slightly different selection, so there is one pair of functions,
`requests` and `limits`, and `Options` with a name for each caller.

How containers add up (`aggregate`), cpu in thousandths:

| init containers in order          | containers | running | worst moment of the start          | result |
|-----------------------------------|-----------:|--------:|------------------------------------|-------:|
| -                                 |  100 + 200 |     300 | -                                  |    300 |
| 500                               |  100 + 200 |     300 | 500                                |    500 |
| sidecar 100, then 300             |        150 |     250 | 100 + 300                          |    400 |
| 300, then sidecar 100             |        150 |     250 | 300                                |    300 |
| 500, sidecar 200, 100, sidecar 300, 50 | 100 + 100 | 700 | 200 + 300 + 50                     |    700 |

What counts while a resize is under way (`use_status`): the greatest of the three *sums*, per resource. A resize that
the node called infeasible does not count as desired, one that it deferred does:

| spec | allocated | actual | condition  | counted |
|-----:|----------:|-------:|------------|--------:|
|  300 |       100 |    100 | -          |     300 |
|  100 |       100 |    300 | -          |     300 |
|  900 |       200 |    200 | Infeasible |     200 |
|  900 |       200 |    200 | Deferred   |     900 |

Sum of maxima would be the obvious way and is wrong: two containers that swap 100 and 300 never use 600 together.

Two things differ from Kubernetes on purpose. Status values of a pod are taken to exclude overhead, so it is counted
once (`status_includes_overhead` is for nodes that write the other kind). And a pod-level figure in the status
replaces the sum only for names that the pod-level spec holds; else a container's pending growth would be forgotten.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, find_condition
from kohort.objects.pods import Container, ContainerStatus, Pod, PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources.amounts import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Amounts,
    added,
    amounts_of,
    largest,
    reduced,
    supported_at_pod_level,
)

RESIZE_PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"
DEFERRED: Final = "Deferred"


class Options(msgspec.Struct, frozen=True):
    """Which of a pod's figures count."""

    use_status: bool = False
    """Consider what is allocated and applied, not only what is desired."""
    pod_level_status: bool = True
    """With `use_status`: trust the pod-level fields of the status."""
    overhead: bool = True
    pod_level: bool = True
    """Let `spec.resources` of the pod replace the sum of its containers."""
    containers: bool = True
    defaults: Mapping[str, Quantity] = {}
    """Requests only: what a container counts for that does not mention a resource. An explicit zero stays zero."""
    count_deferred: bool = True
    """Whether growth that the node has deferred reserves room."""
    status_includes_overhead: bool = False


SPEC: Final = Options()
"""What the user asked for: placing a new pod, admission against node capacity, cgroups (of the *allocated* pod),
metrics."""
ACCOUNTING: Final = Options(use_status=True)
"""What a bound pod holds of its node: scheduler, node, quota."""
SANDBOX: Final = Options(overhead=False)
"""What the containers of an allocated pod need, without the runtime's own share; also LimitRange of type Pod."""
CONTAINERS_ONLY: Final = Options(overhead=False, pod_level=False)
"""The bare sum, to compare or default pod-level figures with."""
NON_ZERO: Final[Mapping[str, Quantity]] = {CPU: Quantity.parse("100m"), MEMORY: Quantity.parse("200Mi")}
"""What a container without requests counts for when nodes are compared: nothing is really free."""

_Reader = Callable[[Container], Amounts]


_OVERCOMMITTED: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
"""What a container without a limit may use as much of as there is."""


def requests(pod: Pod, options: Options = SPEC) -> dict[str, Quantity]:
    """Effective requests of a pod."""
    total = _container_requests(pod, options) if options.containers else {}
    if options.pod_level and pod_level_requests_set(pod.spec):
        total |= _pod_level_requests(pod, options)
    if options.overhead and pod.spec.overhead:
        total = added(total, amounts_of(pod.spec.overhead))
    return total


def limits(pod: Pod, options: Options = SPEC) -> dict[str, Quantity]:
    """Effective limits of a pod: the sum of those that exist.

    A pod with one limited and one unlimited container has a figure here although nothing stops it; whether the pod as a
    whole is limited is `limit_declared`.
    """
    total = _container_limits(pod, options) if options.containers else {}
    if options.pod_level and pod_level_set(pod.spec):
        total |= _pod_level_limits(pod, options)
    if options.overhead and pod.spec.overhead:
        overhead = amounts_of(pod.spec.overhead)
        total = added(total, {name: amount for name, amount in overhead.items() if total.get(name)})
    return total


def non_zero_requests(pod: Pod, options: Options = ACCOUNTING) -> dict[str, Quantity]:
    """Requests for comparing nodes: containers that ask for nothing count for a little.

    A pod with pod-level requests is judged as a whole: only a resource that it does not mention at all is made up.
    """
    plain = requests(pod, options)
    missing = NON_ZERO
    if options.pod_level and pod_level_requests_set(pod.spec):
        missing = {name: amount for name, amount in NON_ZERO.items() if name not in plain}
    if not missing:
        return plain
    return requests(pod, msgspec.structs.replace(options, defaults=missing))


def aggregate(spec: PodSpec, read: Callable[[Container], Amounts]) -> dict[str, Quantity]:
    """The most that a pod's containers need at any moment, `read` saying what one of them needs."""
    containers = spec.main_containers
    if len(containers) == 1 and not spec.init_containers:
        return dict(read(containers[0]))
    running: Mapping[str, Quantity] = {}
    for container in containers:
        running = added(running, read(container))
    sidecars: Mapping[str, Quantity] = {}
    moments: list[Amounts] = []
    for container in spec.init_containers:
        if container.sidecar:
            sidecars = added(sidecars, read(container))
            moments.append(sidecars)
        else:
            moments.append(added(sidecars, read(container)))
    return largest(added(running, sidecars), *moments)


def pod_level_requests_set(spec: PodSpec) -> bool:
    return spec.resources is not None and any(map(supported_at_pod_level, spec.resources.requests))


def pod_level_limits_set(spec: PodSpec) -> bool:
    return spec.resources is not None and any(map(supported_at_pod_level, spec.resources.limits))


def pod_level_set(spec: PodSpec) -> bool:
    """Whether the pod carries figures of its own. An empty block counts as none."""
    return pod_level_requests_set(spec) or pod_level_limits_set(spec)


def pending_resize(pod: Pod) -> Condition | None:
    """The condition of a resize that the node has not accepted: deferred or infeasible."""
    return find_condition(pod.status.conditions, RESIZE_PENDING)


def resize_infeasible(pod: Pod) -> bool:
    return _pending_reason(pod) == INFEASIBLE


def resize_deferred(pod: Pod) -> bool:
    return _pending_reason(pod) == DEFERRED


def requests_of(container: Container) -> dict[str, Quantity]:
    return amounts_of(container.resources.requests)


def limits_of(container: Container) -> dict[str, Quantity]:
    return amounts_of(container.resources.limits)


def container_limit(spec: PodSpec, container: Container, name: str) -> Quantity | None:
    """The limit that a container feels: its own, else the pod's, else none."""
    own = container.resources.limits.get(name)
    if own is None and spec.resources is not None and supported_at_pod_level(name):
        own = spec.resources.limits.get(name)
    return None if own is None else Quantity.parse(own)


def limit_declared(spec: PodSpec, name: str) -> bool:
    """Whether the pod as a whole is limited: by a figure of its own, or because each of its containers is."""
    if spec.resources is not None and _positive(spec.resources.limits.get(name)):
        return True
    return bool(spec.main_containers) and all(_positive(c.resources.limits.get(name)) for c in spec.all_containers)


def binding_limits(pod: Pod, options: Options = SPEC) -> dict[str, Quantity]:
    """Effective limits that stop the pod as a whole: for `status.resources` and for metrics.

    | one container has no limit | the pod |
    |---|---|
    | of cpu, memory or ephemeral storage | has none: that container may use all |
    | of a device, huge pages | has the sum: that container gets none |
    """
    given = limits(pod, options)
    spec = pod.spec
    return {name: value for name, value in given.items() if name not in _OVERCOMMITTED or limit_declared(spec, name)}


def reported(pod: Pod) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """(requests, limits) for `status.resources` of a pod at rest: without overhead."""
    return requests(pod, SANDBOX), binding_limits(pod, SANDBOX)


def view_of(document: JsonObject) -> Pod:
    """A pod document as these functions read it."""
    return msgspec.convert(document, Pod)


def _container_requests(pod: Pod, options: Options) -> dict[str, Quantity]:
    read = _with_defaults(requests_of, options.defaults)
    if not options.use_status:
        return aggregate(pod.spec, read)
    desired_counts = _desired_counts(pod, options)
    views: list[Amounts] = [aggregate(pod.spec, read)] if desired_counts else []
    of_pod = _pod_status_requests(pod, options)
    if of_pod is not None:
        views += of_pod
    else:
        statuses = _statuses(pod)

        def allocated(container: Container) -> Amounts:
            return _allocated(container, statuses.get(container.name), desired_counts)

        def actual(container: Container) -> Amounts:
            return _actual(container, statuses.get(container.name), desired_counts)

        views.append(aggregate(pod.spec, _with_defaults(allocated, options.defaults)))
        views.append(aggregate(pod.spec, _with_defaults(actual, options.defaults)))
    return largest(*views)


def _container_limits(pod: Pod, options: Options) -> dict[str, Quantity]:
    if not options.use_status:
        return aggregate(pod.spec, limits_of)
    desired_counts = _desired_counts(pod, options)
    of_pod = _pod_status_limits(pod, options)
    if of_pod is None:
        statuses = _statuses(pod)

        def actual(container: Container) -> Amounts:
            status = statuses.get(container.name)
            if status is not None and status.resources is not None:
                return amounts_of(status.resources.limits)
            return limits_of(container) if desired_counts else {}

        of_pod = aggregate(pod.spec, actual)
    return largest(aggregate(pod.spec, limits_of), of_pod) if desired_counts else of_pod


def _pod_level_requests(pod: Pod, options: Options) -> dict[str, Quantity]:
    assert pod.spec.resources is not None
    desired = _supported(amounts_of(pod.spec.resources.requests))
    status = pod.status.resources
    if not (options.use_status and options.pod_level_status) or status is None:
        return desired
    views = [desired] if _desired_counts(pod, options) else []
    views.append(_bare(pod, status.requests, options))
    views.append(_bare(pod, pod.status.allocated_resources, options))
    return {name: amount for name, amount in largest(*views).items() if name in desired}


def _pod_level_limits(pod: Pod, options: Options) -> dict[str, Quantity]:
    assert pod.spec.resources is not None
    desired = _supported(amounts_of(pod.spec.resources.limits))
    status = pod.status.resources
    if not (options.use_status and options.pod_level_status) or status is None:
        return desired
    views = [desired] if _desired_counts(pod, options) else []
    views.append(_bare(pod, status.limits, options))
    return {name: amount for name, amount in largest(*views).items() if name in desired}


def _pod_status_requests(pod: Pod, options: Options) -> list[Amounts] | None:
    """The allocated and the actual sum, if the node reports both for the pod as a whole."""
    status = pod.status
    if not options.pod_level_status or status.allocated_resources is None:
        return None
    if status.resources is None or not status.resources.requests:
        return None
    return [_bare(pod, status.allocated_resources, options), _bare(pod, status.resources.requests, options)]


def _pod_status_limits(pod: Pod, options: Options) -> dict[str, Quantity] | None:
    status = pod.status.resources
    if not options.pod_level_status or status is None or not status.limits:
        return None
    return _bare(pod, status.limits, options)


def _bare(pod: Pod, written: Mapping[str, str | int | float] | None, options: Options) -> dict[str, Quantity]:
    """Pod status figures without overhead."""
    given = amounts_of(written)
    if options.status_includes_overhead and pod.spec.overhead:
        return reduced(given, amounts_of(pod.spec.overhead))
    return given


def _allocated(container: Container, status: ContainerStatus | None, desired_counts: bool) -> Amounts:
    if status is not None and status.allocated_resources is not None:
        return amounts_of(status.allocated_resources)
    return requests_of(container) if desired_counts else {}


def _actual(container: Container, status: ContainerStatus | None, desired_counts: bool) -> Amounts:
    if status is not None and status.resources is not None and status.resources.requests:
        return amounts_of(status.resources.requests)
    return _allocated(container, status, desired_counts)


def _with_defaults(read: _Reader, defaults: Amounts) -> _Reader:
    if not defaults:
        return read
    return lambda container: {**defaults, **read(container)}


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {entry.name: entry for entry in (*status.init_container_statuses, *status.container_statuses)}


def _desired_counts(pod: Pod, options: Options) -> bool:
    reason = _pending_reason(pod)
    return reason != INFEASIBLE and (options.count_deferred or reason != DEFERRED)


def _pending_reason(pod: Pod) -> str:
    pending = pending_resize(pod)
    return "" if pending is None else pending.reason


def _supported(amounts: Amounts) -> dict[str, Quantity]:
    return {name: amount for name, amount in amounts.items() if supported_at_pod_level(name)}


def _positive(written: str | int | float | None) -> bool:
    return written is not None and Quantity.parse(written).nano > 0
