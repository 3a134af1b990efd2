"""Carries out the steps of a resize: patch -> decide -> allocate -> ACTUATE -> report.

Each step is one write to a cgroup; if the container runtime has made the cgroup, those of one container are one call of
it, or two if memory and cpu go different ways. What has been actuated is recorded after the writes that it describes;
records that follow each other directly are one write to the disk. After a crash, the next agent compares record and
cgroups with what is allocated, and its plan is shorter. The first failure ends the attempt; steps that were done stay
done.

`CgroupActuator` writes cgroups. `RecordOnlyActuator` is for nodes without them: nothing can be limited, but containers
that ask to be restarted for a resize are restarted.
"""

import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

import msgspec

from kohort.node.cgroups import Cgroups
from kohort.node.resize.allocation import Allocations
from kohort.node.resize.plan import (
    POD,
    LimitBelowUsage,
    RecordContainer,
    RecordPod,
    Step,
    StopContainer,
    WriteContainer,
    WritePod,
    after_step,
    changes,
    check_memory,
    container_called,
    joined_updates,
    memory_problem,
    plan_resize,
)
from kohort.node.resource_views import Actuated, Figures, figures_of
from kohort.node.runtimes.interface import Runtime
from kohort.objects.pods import Pod
from kohort.resources import CgroupValues, container_cgroup, pod_cgroup
from kohort.resources.cgroups import cpu_quota, cpu_weight, milli_from_quota, milli_from_weight

Stop = Callable[[str], Awaitable[None]]


class ActuationFailed(Exception):
    """A step of a resize has failed; the message says which."""


class Actuator(Protocol):
    def first_record(self, allocated: Pod) -> Actuated:
        """What must have been actuated for a pod without a record."""
        ...

    async def actuate(self, allocated: Pod, running: Collection[str], stop: Stop) -> None:
        """Bring a pod to what is allocated to it. `stop` stops a container that must restart. Raises
        ActuationFailed."""
        ...


class CgroupActuator:
    def __init__(
        self, cgroups: Cgroups, allocations: Allocations, runtime: Runtime | None = None, *, count_cache: bool = True
    ) -> None:
        """`runtime` is asked to change containers if it makes their cgroups, and told of changes of pods."""
        self._cgroups = cgroups
        self._allocations = allocations
        self._runtime = runtime if runtime is not None and runtime.makes_cgroups else None
        self._count_cache = count_cache

    def first_record(self, allocated: Pod) -> Actuated:
        return actuated_from_cgroups(self._cgroups, allocated)

    async def actuate(self, allocated: Pod, running: Collection[str], stop: Stop) -> None:
        uid = allocated.metadata.uid
        path = self._cgroups.pod_of(allocated)
        actuated = self._allocations.actuated(uid)
        assert actuated is not None
        target, held = figures_of(allocated), self._cgroups.held(path)
        changed = changes(allocated, target, actuated, running)
        writes: dict[str, str] = {}
        """Of the container whose step is under way, for the runtime."""
        try:
            self._reset_memory_high(allocated, path, running)
            places = {each.container.name: self._place(allocated, each.container.name) for each in changed}
            check_memory(target, held, changed, self._cgroups.usage(path, places, count_cache=self._count_cache))
            steps = plan_resize(allocated, target, actuated, held, running, self._cgroups.settings)
            if self._runtime is not None:
                steps = joined_updates(steps, changed)
            await self._announce(allocated, steps)
            for step, following in zip_longest(steps, steps[1:]):
                match step:
                    case WritePod(file, content):
                        await self._write_pod(allocated, path, file, content, held)
                    case WriteContainer(name, file, content) if self._runtime is None:
                        self._write(container_called(name), self._place(allocated, name), file, content)
                    case WriteContainer(_, file, content):
                        writes[file] = content
                    case RecordContainer(name) if self._runtime is not None and writes:
                        await self._ask_runtime(self._runtime, allocated, name, writes)
                        writes = {}
                actuated = after_step(actuated, step)
                if not isinstance(following, RecordContainer | RecordPod):
                    self._allocations.record_actuated(uid, actuated)  # does nothing if nothing is new
                if isinstance(step, StopContainer):
                    await stop(step.container)
        except (LimitBelowUsage, OSError) as problem:
            raise ActuationFailed(str(problem)) from problem

    def _place(self, allocated: Pod, name: str) -> Path:
        return self._cgroups.container_of(allocated, name)

    async def _announce(self, allocated: Pod, steps: list[Step]) -> None:
        """Tell the runtime before the cgroup of a pod changes; it may refuse. Raises OSError."""
        if self._runtime is not None and any(isinstance(step, WritePod) for step in steps):
            await self._runtime.resize_pod(allocated.metadata.uid, pod_cgroup(allocated, self._cgroups.settings))

    async def _write_pod(self, allocated: Pod, path: Path, file: str, content: str, held: CgroupValues) -> None:
        try:
            self._write(POD, path, file, content)
        except (LimitBelowUsage, OSError):
            if self._runtime is not None:
                with contextlib.suppress(OSError):
                    await self._runtime.resize_pod(allocated.metadata.uid, held)
            raise

    async def _ask_runtime(self, runtime: Runtime, allocated: Pod, name: str, writes: dict[str, str]) -> None:
        """Have the runtime change what the plan says and repeat the rest as the kernel holds it. A direct write would
        be undone by the runtime's next one. Only `memory.high` is written directly, to see whether memory fits into a
        lower limit before the kernel kills; the runtime sets it back in the same call."""
        place = self._place(allocated, name)
        before = self._cgroups.read(place, "memory.high") or "max"
        held = self._cgroups.held(place)
        values = msgspec.structs.replace(with_files(held, writes), memory_high=None if before == "max" else int(before))
        lowers = values.memory_max is not None and self._lowers(place, values.memory_max)
        if not lowers:
            await runtime.resize(allocated.metadata.uid, name, values)
            return
        assert values.memory_max is not None
        self._cgroups.write(place, "memory.high", str(values.memory_max))
        try:
            self._check_usage(container_called(name), place, values.memory_max)
            await runtime.resize(allocated.metadata.uid, name, values)
        finally:
            if self._cgroups.read(place, "memory.high") not in ("", before):
                self._cgroups.write(place, "memory.high", before)

    def _reset_memory_high(self, allocated: Pod, path: Path, running: Collection[str]) -> None:
        """An attempt that was interrupted may have left `memory.high` lowered, which slows the containers down."""
        wanted = {path: pod_cgroup(allocated, self._cgroups.settings)}
        for each in allocated.spec.all_containers:
            if each.name in running:
                place = self._place(allocated, each.name)
                wanted[place] = container_cgroup(allocated, each, self._cgroups.settings)
        for place, values in wanted.items():
            content = values.files()["memory.high"]
            if self._cgroups.read(place, "memory.high") not in ("", content):
                self._cgroups.write(place, "memory.high", content)

    def _write(self, what: str, path: Path, file: str, content: str) -> None:
        """A memory limit goes down in two steps: `memory.high` first, then the memory in use is checked again, so that
        processes that have allocated more since the first check are not killed."""
        if file != "memory.max" or content == "max" or not self._lowers(path, int(content)):
            self._cgroups.write(path, file, content)
            return
        before = self._cgroups.read(path, "memory.high") or "max"
        self._cgroups.write(path, "memory.high", content)
        try:
            self._check_usage(what, path, int(content))
            self._cgroups.write(path, file, content)
        finally:
            self._cgroups.write(path, "memory.high", before)

    def _check_usage(self, what: str, path: Path, limit: int) -> None:
        """Raises LimitBelowUsage."""
        usage = self._cgroups.usage(path, {}, count_cache=self._count_cache).pod
        if problem := memory_problem(what, limit, usage):
            raise LimitBelowUsage(problem)

    def _lowers(self, path: Path, limit: int) -> bool:
        held = self._cgroups.held(path).memory_max
        return (self._cgroups.read(path, "memory.high") != "") and (held is None or limit < held)


def with_files(held: CgroupValues, files: Mapping[str, str]) -> CgroupValues:
    """What a cgroup holds after these files were written.

    >>> with_files(CgroupValues(1, None, 100000, 64), {"cpu.max": "20000 50000", "memory.max": "max"}).cpu_quota
    20000
    """
    found = held
    if "memory.max" in files:
        limit = files["memory.max"]
        found = msgspec.structs.replace(found, memory_max=None if limit == "max" else int(limit))
    if "cpu.weight" in files:
        found = msgspec.structs.replace(found, cpu_weight=int(files["cpu.weight"]))
    if "cpu.max" in files:
        quota, _, period = files["cpu.max"].partition(" ")
        found = msgspec.structs.replace(found, cpu_quota=None if quota == "max" else int(quota), cpu_period=int(period))
    return found


class RecordOnlyActuator:
    def __init__(self, allocations: Allocations) -> None:
        self._allocations = allocations

    def first_record(self, allocated: Pod) -> Actuated:
        target = figures_of(allocated)
        return Actuated(target.pod, target.containers)

    async def actuate(self, allocated: Pod, running: Collection[str], stop: Stop) -> None:
        uid, target = allocated.metadata.uid, figures_of(allocated)
        actuated = self._allocations.actuated(uid)
        assert actuated is not None
        for change in changes(allocated, target, actuated, running):
            if change.restart:
                actuated = after_step(actuated, StopContainer(change.container.name))
                self._allocations.record_actuated(uid, actuated)
                await stop(change.container.name)
        done = Actuated(target.pod, dict(target.containers), actuated.restarting)
        self._allocations.record_actuated(uid, done)


def actuated_from_cgroups(cgroups: Cgroups, allocated: Pod) -> Actuated:
    """What must have been actuated for a pod whose record is lost: limits and weights as the kernel holds them. Cpu
    requests that have the same weight as the allocated one, and memory requests, which the kernel does not know, are
    taken as allocated."""
    path = cgroups.pod_of(allocated)
    target = figures_of(allocated)
    if not path.is_dir():
        return Actuated(target.pod, dict(target.containers))
    places = {name: cgroups.container_of(allocated, name) for name in target.containers}
    containers = {
        name: _figures(cgroups.held(places[name]), figures) if places[name].is_dir() else figures
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
