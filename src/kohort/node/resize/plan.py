"""In which order the cgroups of a running pod change, and whether memory limits may go down now. Pure.

For each resource, memory before cpu, the order is the one of KEP-5419:

1. raise the pod's cgroup, the limit before the weight;
2. containers whose figure goes down;
3. lower the pod's cgroup, the weight before the limit;
4. containers whose figure goes up;
5. remember what the pod's cgroup holds now.

So at no moment do the containers' limits depend on room that the pod does not have yet or any more. Kubernetes lets
containers grow before it lowers the pod; the proposal does not, and it wins here. No limit counts as infinitely much:
adding a first limit is a decrease.

| memory in Mi: pod, c1, c2                       | steps                     |
|-------------------------------------------------|---------------------------|
| pod 300 to 250, c1 100 to 150, c2 200 to 100    | c2 100, pod 250, c1 150   |
| pod 300 to 400, c1 100 to 300, c2 200 to 100    | pod 400, c2 100, c1 300   |
| pod none to 400, c1 100 to 300, c2 none to 100  | c2 100, pod 400, c1 300   |

A pod's file is written only if it does not hold the value already, which makes a pod-level block that equals the sum of
the containers free, and a plan that is made again after a crash short. A container is updated if its *effective*
figures (an inherited limit included) differ from what was pushed last. Whether it restarts instead is decided by
`rules.resize_restart`.
"""

import math
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from kohort.node.resource_views import Actuated, CgroupTarget, Figures, Usage
from kohort.objects.pods import Container, Pod
from kohort.resources import CPU, MEMORY, CgroupValues, Settings, container_cgroup, pod_cgroup
from kohort.resources.cgroups import DEFAULT_SETTINGS, cpu_max
from kohort.rules.resize_restart import restarts_container

RESOURCES: Final = (MEMORY, CPU)
POD: Final = "pod"
"""What messages call the pod as a whole."""


class StopContainer(msgspec.Struct, frozen=True):
    """End a container; the pod's lifecycle starts it again with the new figures."""

    container: str


class WritePod(msgspec.Struct, frozen=True):
    file: str
    content: str


class WriteContainer(msgspec.Struct, frozen=True):
    container: str
    file: str
    content: str


class RecordContainer(msgspec.Struct, frozen=True):
    container: str
    resource: str
    figures: Figures


class RecordPod(msgspec.Struct, frozen=True):
    resource: str
    figures: Figures


Step = StopContainer | WritePod | WriteContainer | RecordContainer | RecordPod


class Change(msgspec.Struct, frozen=True):
    """One container whose effective figures differ from what was pushed last."""

    container: Container
    before: Figures
    after: Figures
    restart: bool


def plan_resize(
    allocated: Pod,
    target: CgroupTarget,
    actuated: Actuated,
    held: CgroupValues,
    running: Collection[str],
    settings: Settings = DEFAULT_SETTINGS,
) -> list[Step]:
    """The steps from what was pushed (`actuated`) and what the pod's cgroup holds (`held`) to the target."""
    changed = changes(allocated, target, actuated, running)
    steps: list[Step] = [StopContainer(each.container.name) for each in changed if each.restart]
    live = [each for each in changed if not each.restart]
    wanted = _keeping_limits(pod_cgroup(allocated, settings), held)
    for resource in RESOURCES:
        touched = [each for each in live if not each.before.same(resource, each.after)]
        down = [each for each in touched if direction(resource, each.before, each.after) < 0]
        up = [each for each in touched if direction(resource, each.before, each.after) >= 0]
        raised, lowered = _pod_writes(resource, held, wanted)
        steps += raised
        for each in down:
            steps += _update(allocated, each, resource, settings, falling=True)
        steps += lowered
        for each in up:
            steps += _update(allocated, each, resource, settings, falling=False)
        if raised or lowered or not actuated.pod.same(resource, target.pod):
            steps.append(RecordPod(resource, target.pod))
    return steps


def joined_updates(steps: list[Step], changed: list[Change]) -> list[Step]:
    """The same steps for a runtime, which takes cpu and memory of a container in one call: both change at once where
    both go the same way. Less comes where memory has its turn, more where cpu has its turn, so that for each resource a
    container still shrinks before its pod does, and grows after its pod has grown.

    | memory, cpu of c, then         | steps: c for container, p for pod; m for memory, u for cpu |
    |--------------------------------|------------------------------------------------------------|
    | both up                        | p.m up, p.u up, c.m and c.u                                |
    | both down                      | c.m and c.u, p.m down, p.u down                            |
    | one up, the other down         | two calls, as planned                                      |
    """
    found = list(steps)
    for change in changed:
        ways = [direction(resource, change.before, change.after) for resource in RESOURCES]
        name = change.container.name
        memory, cpu = ([each for each in found if _concerns(each, name, resource)] for resource in RESOURCES)
        if not memory or not cpu or (ways[0] < 0) != (ways[1] < 0):
            continue
        both = sorted((*memory, *cpu), key=lambda each: isinstance(each, RecordContainer))
        place = memory[0] if ways[0] < 0 else cpu[-1]
        found = [
            step
            for each in found
            for step in (both if each is place else () if any(each is moved for moved in both) else (each,))
        ]
    return found


def _concerns(step: Step, name: str, resource: str) -> bool:
    match step:
        case WriteContainer(container, file):
            return container == name and file.startswith(f"{resource}.")
        case RecordContainer(container, recorded):
            return container == name and recorded == resource
    return False


def changes(allocated: Pod, target: CgroupTarget, actuated: Actuated, running: Collection[str]) -> list[Change]:
    """Running containers that need something done, in the order of the spec."""
    found = []
    for container in allocated.spec.all_containers:
        before = actuated.containers.get(container.name)
        after = target.containers[container.name]
        if container.name in running and before is not None and before != after:
            differing = [name for name in RESOURCES if not before.same(name, after)]
            found.append(Change(container, before, after, restarts_container(container, differing)))
    return found


def in_progress(target: CgroupTarget, actuated: Actuated, running: Collection[str]) -> bool:
    """Whether something accepted is not pushed yet: at the pod, or at a container that runs."""
    return actuated.pod != target.pod or any(
        actuated.containers.get(name) not in (None, figures)
        for name, figures in target.containers.items()
        if name in running
    )


def direction(resource: str, before: Figures, after: Figures) -> int:
    """-1 for less, 1 for more: by the limit if it differs, else by the request. Unlimited is more than any limit."""
    old, new = _infinite(before.limit(resource)), _infinite(after.limit(resource))
    if old == new:
        old, new = before.request(resource) or 0, after.request(resource) or 0
    return (new > old) - (new < old)


def _pod_writes(resource: str, held: CgroupValues, wanted: CgroupValues) -> tuple[list[Step], list[Step]]:
    """What to write before containers shrink, and what after it."""
    if resource == MEMORY:
        limit = WritePod("memory.max", _or_max(wanted.memory_max))
        if wanted.memory_max == held.memory_max:
            return [], []
        return ([limit], []) if _infinite(wanted.memory_max) > _infinite(held.memory_max) else ([], [limit])
    quota = WritePod("cpu.max", cpu_max(wanted.cpu_quota, wanted.cpu_period))
    weight = WritePod("cpu.weight", str(wanted.cpu_weight))
    raised: list[Step] = []
    lowered: list[Step] = []
    if wanted.cpu_weight < held.cpu_weight:
        lowered.append(weight)
    if _share(wanted) > _share(held):
        raised.append(quota)
    elif _share(wanted) < _share(held):
        lowered.append(quota)
    if wanted.cpu_weight > held.cpu_weight:
        raised.append(weight)
    return raised, lowered


def _update(allocated: Pod, change: Change, resource: str, settings: Settings, *, falling: bool) -> list[Step]:
    """Bring one resource of a container to its new figures, and remember it."""
    name = change.container.name
    values = container_cgroup(allocated, change.container, settings)
    steps: list[Step] = []
    if resource == MEMORY:
        if change.before.memory_limit != change.after.memory_limit:
            steps.append(WriteContainer(name, "memory.max", _or_max(values.memory_max)))
    else:
        steps.append(WriteContainer(name, "cpu.max", cpu_max(values.cpu_quota, values.cpu_period)))
        steps.append(WriteContainer(name, "cpu.weight", str(values.cpu_weight)))
        if falling:
            steps.reverse()
    return [*steps, RecordContainer(name, resource, change.after)]


def _keeping_limits(wanted: CgroupValues, held: CgroupValues) -> CgroupValues:
    """A limit of the pod is never taken away: the API does not allow it, so its absence means that none was
    declared."""
    return msgspec.structs.replace(
        wanted,
        memory_max=held.memory_max if wanted.memory_max is None else wanted.memory_max,
        cpu_quota=held.cpu_quota if wanted.cpu_quota is None else wanted.cpu_quota,
        cpu_period=held.cpu_period if wanted.cpu_quota is None else wanted.cpu_period,
    )


def _share(values: CgroupValues) -> float:
    return math.inf if values.cpu_quota is None else values.cpu_quota / values.cpu_period


def _infinite(value: int | None) -> float:
    return math.inf if value is None else value


def _or_max(value: int | None) -> str:
    return "max" if value is None else str(value)


def after_step(actuated: Actuated, step: Step) -> Actuated:
    """The record of what was pushed, once a step is done."""
    match step:
        case RecordContainer(name, resource, figures):
            before: Mapping[str, Figures] = actuated.containers
            return actuated.with_container(name, before.get(name, Figures()).taking(resource, figures))
        case RecordPod(resource, figures):
            return actuated.with_pod(actuated.pod.taking(resource, figures))
        case StopContainer(name):
            return msgspec.structs.replace(actuated, restarting=actuated.restarting | {name})
    return actuated


class LimitBelowUsage(Exception):
    """A memory limit is not lowered: more is in use, or what is in use is unknown."""


def check_memory(target: CgroupTarget, held: CgroupValues, changed: list[Change], usage: Usage) -> None:
    """Raises LimitBelowUsage. `held` is what the pod's cgroup holds."""
    asked = [(POD, held.memory_max, target.pod.memory_limit, _staying(changed, usage))]
    for each in changed:
        if not each.restart:
            name = each.container.name
            in_use = usage.containers.get(name)
            asked.append((container_called(name), each.before.memory_limit, each.after.memory_limit, in_use))
    problems = [
        memory_problem(what, after, in_use)
        for what, before, after, in_use in asked
        if after is not None and after < _infinite(before)
    ]
    if any(problems):
        raise LimitBelowUsage("; ".join(filter(None, problems)))


def _staying(changed: list[Change], usage: Usage) -> int | None:
    """What the pod has in use, but for containers that are about to end."""
    going = sum(usage.containers.get(each.container.name, 0) for each in changed if each.restart)
    return None if usage.pod is None else max(usage.pod - going, 0)


def memory_problem(what: str, limit: int, usage: int | None) -> str:
    """Why the memory limit of a pod or container may not go down to `limit` now; empty if it may. Asked before the
    first write of a resize, and for each limit again right before it is written."""
    if usage is None:
        return f"attempting to set {what} memory limit ({limit}) while its usage is unknown"
    if usage >= limit:
        return f"attempting to set {what} memory limit ({limit}) below current usage ({usage})"
    return ""


def container_called(container: str) -> str:
    return f'container "{container}"'
