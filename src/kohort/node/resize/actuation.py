"""Carrying out what was planned, one step after the other, so that it can end at any moment and be taken up again.

Each step is one write; what has been pushed is remembered after the writes it speaks of, and what is remembered at the
same moment with one write to the disk. Whoever comes after a crash compares the record and the cgroups with the target
and finds a shorter plan. The first failure ends the attempt: what was done stays done.
"""

from collections.abc import Awaitable, Callable, Collection
from itertools import zip_longest
from pathlib import Path

from kohort.node.cgroups import Cgroups
from kohort.node.resize.allocation import Allocations
from kohort.node.resize.memory import LimitBelowUsage, check_memory
from kohort.node.resize.plan import (
    RecordContainer,
    RecordPod,
    StopContainer,
    WriteContainer,
    WritePod,
    after_step,
    changes,
    plan_resize,
)
from kohort.node.views import Actuated, Figures, figures_of
from kohort.objects.pods import Pod
from kohort.resources import CgroupValues, Settings, container_cgroup, pod_cgroup, stored_qos_class
from kohort.resources.cgroups import DEFAULT_SETTINGS, cpu_quota, cpu_weight, milli_from_quota, milli_from_weight

Stop = Callable[[str], Awaitable[None]]


class ActuationFailed(Exception):
    """A step could not be done; the message says which."""


class Actuator:
    def __init__(
        self,
        cgroups: Cgroups,
        allocations: Allocations,
        settings: Settings = DEFAULT_SETTINGS,
        *,
        count_cache: bool = True,
    ) -> None:
        self._cgroups = cgroups
        self._allocations = allocations
        self._settings = settings
        self._count_cache = count_cache

    async def actuate(self, allocated: Pod, running: Collection[str], stop: Stop) -> None:
        """Bring the cgroups of a pod to what is allocated. `stop` ends a container that must restart. Raises
        ActuationFailed."""
        uid = allocated.metadata.uid
        path = self._cgroups.pod(uid, stored_qos_class(allocated))
        actuated = self._allocations.actuated(uid)
        assert actuated is not None
        target, held = figures_of(allocated), self._cgroups.held(path)
        changed = changes(allocated, target, actuated, running)
        try:
            self._settle(allocated, path, running)
            names = [each.container.name for each in changed]
            check_memory(target, held, changed, self._cgroups.usage(path, names, count_cache=self._count_cache))
            steps = plan_resize(allocated, target, actuated, held, running, self._settings)
            for step, following in zip_longest(steps, steps[1:]):
                match step:
                    case WritePod(file, content):
                        self._write(path, file, content)
                    case WriteContainer(name, file, content):
                        self._write(path / name, file, content)
                actuated = after_step(actuated, step)
                if not isinstance(following, RecordContainer | RecordPod):
                    self._allocations.record_actuated(uid, actuated)  # does nothing if nothing is new
                if isinstance(step, StopContainer):
                    await stop(step.container)
        except (LimitBelowUsage, OSError) as problem:
            raise ActuationFailed(str(problem)) from problem

    def _settle(self, allocated: Pod, path: Path, running: Collection[str]) -> None:
        """Undo what an attempt that was cut short may have left behind: a cgroup that is slowed down."""
        wanted = {path: pod_cgroup(allocated, self._settings)}
        for each in allocated.spec.all_containers:
            if each.name in running:
                wanted[path / each.name] = container_cgroup(allocated, each, self._settings)
        for place, values in wanted.items():
            content = values.files()["memory.high"]
            if self._cgroups.read(place, "memory.high") not in ("", content):
                self._cgroups.write(place, "memory.high", content)

    def _write(self, path: Path, file: str, content: str) -> None:
        """A memory limit goes down in two steps: slowing down first and looking again, so that what was allocated since
        the check is not killed."""
        if file != "memory.max" or content == "max" or not self._lowers(path, int(content)):
            self._cgroups.write(path, file, content)
            return
        before = self._cgroups.read(path, "memory.high") or "max"
        self._cgroups.write(path, "memory.high", content)
        try:
            usage = self._cgroups.usage(path, [], count_cache=self._count_cache).pod
            if usage is not None and usage >= int(content):
                raise LimitBelowUsage(
                    f"attempting to set {path.name} memory limit ({content}) below current usage ({usage})"
                )
            self._cgroups.write(path, file, content)
        finally:
            self._cgroups.write(path, "memory.high", before)

    def _lowers(self, path: Path, limit: int) -> bool:
        held = self._cgroups.held(path).memory_max
        return (self._cgroups.read(path, "memory.high") != "") and (held is None or limit < held)


def actuated_from_cgroups(cgroups: Cgroups, allocated: Pod) -> Actuated:
    """What must have been pushed, for a pod whose record is lost: limits and weights as the kernel holds them. Requests
    that it cannot tell from what is allocated are taken as allocated; so are memory requests, unknown to it."""
    path = cgroups.pod(allocated.metadata.uid, stored_qos_class(allocated))
    target = figures_of(allocated)
    if not path.is_dir():
        return Actuated(target.pod, dict(target.containers))
    containers = {
        name: _figures(cgroups.held(path / name), figures) if (path / name).is_dir() else figures
        for name, figures in target.containers.items()
    }
    return Actuated(_figures(cgroups.held(path), target.pod), containers)


def _figures(held: CgroupValues, allocated: Figures) -> Figures:
    request = allocated.cpu_request
    weighed = request if request is not None else allocated.cpu_limit or 0
    if cpu_weight(weighed) != held.cpu_weight:
        request = milli_from_weight(held.cpu_weight)
    limit = None if held.cpu_quota is None else milli_from_quota(held.cpu_quota, held.cpu_period)
    if allocated.cpu_limit is not None and cpu_quota(allocated.cpu_limit, held.cpu_period) == held.cpu_quota:
        limit = allocated.cpu_limit
    return Figures(request, limit, allocated.memory_request, held.memory_max)
