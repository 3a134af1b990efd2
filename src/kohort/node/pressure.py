"""Whether the machine runs out of memory, disk or pids, and which pod is evicted then. Pure, except for `measure`.

| what   | under pressure when                        | evicted first                                              |
|--------|--------------------------------------------|------------------------------------------------------------|
| memory | less than 100 MiB are available            | pods above their requests, low priority, most excess       |
| disk   | less than 1 GiB and less than 5 % are free | low priority, then the pod that has written most           |
| pids   | less than a tenth of all numbers is left   | none: new pods are not accepted                           |

Under any of them the node takes on nothing more; resizes that need nothing more are always accepted.

Whatever the machine has left, a pod is evicted that has written more than it may (`storage_message`):

| what is counted                                                  | against                                    |
|------------------------------------------------------------------|--------------------------------------------|
| an emptyDir                                                      | its `sizeLimit`                            |
| root file system and logs of a container                         | its limit of `ephemeral-storage`           |
| those of all containers, emptyDirs on the disk, other files      | the sum of the limits that there are       |
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from kohort.objects.pods import Pod
from kohort.resources import MEMORY, SPEC, limits, limits_of, requests

EPHEMERAL_STORAGE: Final = "ephemeral-storage"
CRITICAL: Final = 2_000_000_000
LEAST_MEMORY: Final = 100 << 20
LEAST_DISK: Final = 1 << 30
LEAST_DISK_SHARE: Final = 0.05
LEAST_PIDS_SHARE: Final = 0.1
LEAST_USAGE: Final = 1 << 20
"""Evicting a pod that uses less would not help."""


class Pressure(msgspec.Struct, frozen=True):
    memory: bool = False
    disk: bool = False
    pids: bool = False

    @property
    def message(self) -> str:
        """Why the node takes on nothing more; empty if it does."""
        low = (("memory", self.memory), ("ephemeral-storage", self.disk), ("pids", self.pids))
        names = [name for name, is_low in low if is_low]
        return f"The node was low on resource: {', '.join(names)}" if names else ""


class EvictionCandidate(msgspec.Struct, frozen=True):
    pod: Pod
    """As allocated."""
    usage: int


def pressure_of(*, memory: int, disk: int, disk_total: int, pids: int, pids_total: int) -> Pressure:
    """From what is left of each."""
    return Pressure(
        memory=memory < LEAST_MEMORY,
        disk=disk < LEAST_DISK and disk < disk_total * LEAST_DISK_SHARE,
        pids=pids < pids_total * LEAST_PIDS_SHARE,
    )


def measure(available_memory: int, directory: Path) -> Pressure:
    disk = os.statvfs(directory)
    pids_total = int(Path("/proc/sys/kernel/pid_max").read_text())
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    return pressure_of(
        memory=available_memory,
        disk=disk.f_bavail * disk.f_frsize,
        disk_total=disk.f_blocks * disk.f_frsize,
        pids=pids_total - running,
        pids_total=pids_total,
    )


def first_for_memory(candidates: Iterable[EvictionCandidate]) -> EvictionCandidate | None:
    """None when only critical pods are left, and those that have next to nothing."""

    def place(candidate: EvictionCandidate) -> tuple[bool, int, int, str]:
        excess = candidate.usage - requested_memory(candidate.pod)
        return excess <= 0, candidate.pod.spec.priority or 0, -excess, candidate.pod.metadata.uid

    return min(_possible(candidates), key=place, default=None)


def first_for_disk(candidates: Iterable[EvictionCandidate]) -> EvictionCandidate | None:
    """None when no pod has written much."""

    def place(candidate: EvictionCandidate) -> tuple[int, int, str]:
        return candidate.pod.spec.priority or 0, -candidate.usage, candidate.pod.metadata.uid

    return min(_possible(candidates), key=place, default=None)


def memory_message(candidate: EvictionCandidate) -> str:
    return (
        f"The node was low on resource: memory. Pod was using {candidate.usage}, "
        f"request is {requested_memory(candidate.pod)}, has larger consumption of memory."
    )


def disk_message(candidate: EvictionCandidate) -> str:
    return f"The node was low on resource: ephemeral-storage. Pod was using {candidate.usage}."


def storage_message(pod: Pod, containers: Mapping[str, int], rest: int) -> str:
    """Why a pod is evicted for what its containers have written, with the `rest` of its files; empty if it is not."""
    total = limits(pod, SPEC).get(EPHEMERAL_STORAGE)
    if total is not None and sum(containers.values()) + rest > total.value:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
    for container in pod.spec.main_containers:
        most = limits_of(container).get(EPHEMERAL_STORAGE)
        if most is not None and most.value and containers.get(container.name, 0) > most.value:
            return f'Container {container.name} exceeded its local ephemeral storage limit "{most}". '
    return ""


def is_critical(pod: Pod) -> bool:
    """The node never evicts it."""
    return (pod.spec.priority or 0) >= CRITICAL


def has_storage_limit(pod: Pod) -> bool:
    return EPHEMERAL_STORAGE in limits(pod, SPEC)


def requested_memory(pod: Pod) -> int:
    amount = requests(pod, SPEC).get(MEMORY)
    return amount.value if amount is not None else 0


def written_bytes(directory: Path) -> int:
    """What lies below a directory on its own file system: what is mounted there is in memory, or counted elsewhere."""
    total, device = 0, _device(directory)
    for place, directories, files in os.walk(directory):
        directories[:] = [each for each in directories if _device(os.path.join(place, each)) == device]
        total += sum(file_bytes(os.path.join(place, name)) for name in files)
    return total


def file_bytes(path: Path | str) -> int:
    """What a file takes of the disk; nothing if it is gone."""
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0


def _device(path: Path | str) -> int | None:
    try:
        return os.lstat(path).st_dev
    except OSError:
        return None


def resident_bytes(pids: Iterable[int]) -> int:
    """What processes have in memory; those that have ended have nothing."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue
    return total * os.sysconf("SC_PAGE_SIZE")


def process_cpu_seconds(pids: Iterable[int]) -> float:
    """What processes, and children of theirs that have ended, have spent on cpus."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _possible(candidates: Iterable[EvictionCandidate]) -> list[EvictionCandidate]:
    """Pods that may be evicted, and whose eviction frees a relevant amount."""
    return [each for each in candidates if not is_critical(each.pod) and each.usage >= LEAST_USAGE]
