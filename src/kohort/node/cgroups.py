"""The cgroup v2 tree of this node: a cgroup for every pod, one for each of its containers below it.

    PARENT/guaranteed pods                 PARENT/pod<uid>/<container>
    PARENT/burstable, PARENT/besteffort    PARENT/burstable/pod<uid>/<container>

Pods' cgroups are always made, sized and removed by the agent. A container runtime makes those of containers itself, in
directories named by its own ids, and changes them when the agent asks it to.

The parent is any cgroup that the agent may write to. Without one (`usable_parent` says why: no cgroup v2, or no
controllers, or no right to write) the agent runs pods all the same, without limits, and refuses pods with resources of
their own.

Every write goes through `Cgroups.write`, which calls an observer first: that is how tests see the order of writes, and
how they end the agent between any two of them.
"""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from kohort.node.checkpoint import WriteObserver, unobserved
from kohort.node.resource_views import Usage
from kohort.objects.pods import Container, Pod
from kohort.resources import (
    BEST_EFFORT,
    BURSTABLE,
    CgroupValues,
    QosClass,
    Settings,
    container_cgroup,
    pod_cgroup,
    stored_qos_class,
)
from kohort.resources.cgroups import DEFAULT_PERIOD, DEFAULT_SETTINGS, container_memory_files, tier_weight

MOUNT: Final = Path("/sys/fs/cgroup")
NAME: Final = "kohort"
CONTROLLERS: Final = ("cpu", "memory")
OPTIONAL_CONTROLLERS: Final = ("pids", "hugetlb", "cpuset")
TIERS: Final = {BURSTABLE: "burstable", BEST_EFFORT: "besteffort"}
DYING_SECONDS: Final = 2.0


class Cgroups:
    def __init__(
        self, parent: Path, observer: WriteObserver = unobserved, settings: Settings = DEFAULT_SETTINGS
    ) -> None:
        self.parent = parent
        self.settings = settings
        self.directory_name: Callable[[str, str], str] = lambda pod_uid, container: container
        """The directory of a container below that of its pod; the runtime says so if it makes them."""
        self._observer = observer

    def prepare(self) -> None:
        """Make the parent and the tiers, with controllers for what is below them."""
        for path in (self.parent, *(self.parent / tier for tier in TIERS.values())):
            path.mkdir(parents=True, exist_ok=True)
            enable_controllers(path)
        with contextlib.suppress(OSError):
            self.write(self.parent / TIERS[BEST_EFFORT], "cpu.weight", "1")

    def weigh_burstable(self, milli: int) -> None:
        """The share of all Burstable pods together, from what they were *allocated*."""
        path = self.parent / TIERS[BURSTABLE]
        with contextlib.suppress(OSError):
            self._write_if_other(path, "cpu.weight", str(tier_weight(milli)))

    def pod(self, uid: str, quality: QosClass) -> Path:
        tier = TIERS.get(quality)
        return (self.parent / tier if tier else self.parent) / f"pod{uid}"

    def pod_of(self, pod: Pod) -> Path:
        return self.pod(pod.metadata.uid, stored_qos_class(pod))

    def container_of(self, pod: Pod, name: str) -> Path:
        """The cgroup of a container; one that does not exist if the container does not run."""
        return self.pod_of(pod) / (self.directory_name(pod.metadata.uid, name) or name)

    def ensure_pod(self, allocated: Pod) -> None:
        """Make the cgroup of a pod if it is missing."""
        path = self.pod_of(allocated)
        if not path.is_dir():
            self.create(path, pod_cgroup(allocated, self.settings), inner=True)

    def create_container(self, allocated: Pod, container: Container) -> Path:
        """Make the cgroup of a container. A kernel without swap has no file that limits it."""
        path = self.container_of(allocated, container.name)
        self.create(path, container_cgroup(allocated, container, self.settings), inner=False)
        for file, content in container_memory_files(self.settings).items():
            self._write_if_other(path, file, content)
        return path

    def create(self, path: Path, values: CgroupValues, *, inner: bool) -> None:
        """Make a cgroup and set all its files; `inner` ones get controllers for cgroups below them."""
        path.mkdir(parents=True, exist_ok=True)
        if inner:
            enable_controllers(path)
        content = values.files()
        for file in ("memory.max", "memory.high", "cpu.max", "cpu.weight"):
            self._write_if_other(path, file, content[file])
        for file in ("memory.min", "memory.low", *(name for name in content if name.startswith("hugetlb."))):
            if content[file] != "0" or self.read(path, file) not in ("", "0"):
                self._write_if_other(path, file, content[file])

    def write(self, path: Path, file: str, content: str) -> None:
        self._observer("cgroup", path / file, content)
        (path / file).write_text(content)

    def read(self, path: Path, file: str) -> str:
        """The content of a file, empty if there is none."""
        try:
            return (path / file).read_text().strip()
        except OSError:
            return ""

    def held(self, path: Path) -> CgroupValues:
        """What a cgroup holds now: the actual values."""
        quota, _, period = (self.read(path, "cpu.max") or f"max {DEFAULT_PERIOD}").partition(" ")
        memory = self.read(path, "memory.max") or "max"
        return CgroupValues(
            cpu_weight=int(self.read(path, "cpu.weight") or 1),
            cpu_quota=None if quota == "max" else int(quota),
            cpu_period=int(period or DEFAULT_PERIOD),
            memory_max=None if memory == "max" else int(memory),
        )

    def usage(self, path: Path, containers: Mapping[str, Path], *, count_cache: bool = True) -> Usage:
        """Memory in use by a pod and its containers at this moment; without clean file cache unless `count_cache`."""
        found = {name: self._in_use(place, count_cache) for name, place in containers.items()}
        return Usage(
            self._in_use(path, count_cache), {name: bytes for name, bytes in found.items() if bytes is not None}
        )

    def cpu_seconds(self, path: Path) -> float:
        """What a cgroup has spent on cpus."""
        rows = (line.partition(" ") for line in self.read(path, "cpu.stat").splitlines())
        return next((int(value) for key, _, value in rows if key == "usage_usec"), 0) / 1e6

    def kill(self, path: Path) -> None:
        """End everything in a cgroup at once."""
        with contextlib.suppress(OSError):
            (path / "cgroup.kill").write_text("1")

    def remove(self, path: Path) -> None:
        """Remove a cgroup and those below it. Processes that are being killed hold it for a moment."""
        deadline = time.monotonic() + DYING_SECONDS
        for below in [*self._below(path), path]:
            while below.exists():
                try:
                    below.rmdir()
                except OSError:
                    if time.monotonic() > deadline:
                        return
                    time.sleep(0.01)

    def pods(self) -> dict[str, Path]:
        """The pods that have cgroups, by UID."""
        places = (self.parent, *(self.parent / tier for tier in TIERS.values()))
        found = (path for place in places if place.is_dir() for path in place.iterdir())
        return {path.name.removeprefix("pod"): path for path in found if path.name.startswith("pod") and path.is_dir()}

    def orphans(self, ours: Collection[str], known: Collection[str]) -> list[Path]:
        """The cgroups of pods that this node made and does not know any more. Other clusters on the machine may work in
        the same parent: their pods are not ours to end."""
        return [path for uid, path in self.pods().items() if uid in ours and uid not in known]

    def _below(self, path: Path) -> list[Path]:
        return sorted((each for each in path.rglob("*") if each.is_dir()), reverse=True) if path.is_dir() else []

    def _write_if_other(self, path: Path, file: str, content: str) -> None:
        if self.read(path, file) != content and (path / file).exists():
            self.write(path, file, content)

    def _in_use(self, path: Path, count_cache: bool) -> int | None:
        current = self.read(path, "memory.current")
        if not current:
            return None
        cache = 0
        if not count_cache:
            rows = (line.partition(" ") for line in self.read(path, "memory.stat").splitlines())
            cache = next((int(value) for key, _, value in rows if key == "inactive_file"), 0)
        return max(int(current) - cache, 0)


def enable_controllers(path: Path) -> None:
    """Let cgroups below have what this one has, each by itself: an unknown controller must not hold up the others."""
    try:
        offered = (path / "cgroup.controllers").read_text().split()
        enabled = (path / "cgroup.subtree_control").read_text().split()
    except OSError:
        return
    for name in (*CONTROLLERS, *OPTIONAL_CONTROLLERS):
        if name in offered and name not in enabled:
            with contextlib.suppress(OSError):
                (path / "cgroup.subtree_control").write_text(f"+{name}")


class NoLimits(Exception):
    """A cgroup cannot be used to limit anything; the message says why."""


def node_cgroups(
    parent: Path | None, observer: WriteObserver = unobserved, settings: Settings = DEFAULT_SETTINGS
) -> Cgroups | None:
    """The cgroups of a node, None if this machine permits none. Raises NoLimits when `parent` is given and cannot be
    used."""
    usable = usable_parent(parent) if parent is not None else find_parent()
    if usable is None:
        return None
    cgroups = Cgroups(usable, observer, settings)
    cgroups.prepare()
    return cgroups


def find_parent() -> Path | None:
    """A cgroup of our own at the top to work in, None when limits cannot be set here."""
    try:
        return usable_parent(MOUNT / NAME)
    except NoLimits:
        return None


def why_no_limits() -> str:
    """Why limits of pods cannot be enforced on this machine, empty if they can."""
    try:
        usable_parent(MOUNT / NAME)
    except NoLimits as reason:
        return str(reason)
    return ""


def warning_of_no_limits() -> str:
    """Shown when a node is started; empty if limits are enforced."""
    reason = why_no_limits()
    return f"limits of pods are not enforced on this machine: {reason}" if reason else ""


def usable_parent(path: Path) -> Path:
    """A cgroup to work in, made if need be. Raises NoLimits."""
    nearest = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not (nearest / "cgroup.controllers").exists():
        raise NoLimits(f"{nearest} is not a cgroup v2 directory")
    try:
        enable_controllers(path.parent)
        path.mkdir(parents=True, exist_ok=True)
        offered = (path / "cgroup.controllers").read_text().split()
    except OSError as problem:
        raise NoLimits(f"the cgroup {path} cannot be used: {problem.strerror}") from problem
    missing = [name for name in CONTROLLERS if name not in offered]
    if not missing and os.access(path / "cgroup.subtree_control", os.W_OK):
        return path
    if nearest != path:
        with contextlib.suppress(OSError):
            path.rmdir()
    reason = f"has no controller for {' and '.join(missing)}" if missing else "cannot be written"
    raise NoLimits(f"the cgroup {path} {reason}")
