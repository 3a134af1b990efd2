"""How much cpu and memory the containers of a node use.

Every ten seconds the time that each container has spent on cpus is read, from its cgroup or, without cgroups, from the
processes that it has started. The difference of the last two readings is its use of cpus; memory is what it has now,
without file cache that can be dropped. A container that runs for less than one period has no figure yet.

`summary` is what `/stats/summary` answers, in the kubelet's form, as far as the resource metrics API needs it.
"""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.node import machine_info
from kohort.node.cgroups import Cgroups
from kohort.node.pod_record import PodRecord
from kohort.node.pod_registry import PodRegistry
from kohort.node.runtimes.interface import Runtime
from kohort.objects.json_types import JsonObject

PERIOD_SECONDS: Final = 10.0
_NODE: Final = ""
"""The key of the whole machine."""


class Reading(msgspec.Struct, frozen=True):
    at: float
    cpu_seconds: float


class CpuRate(msgspec.Struct, frozen=True):
    """Use of cpus between two readings."""

    cores: float
    at: float
    window: float


class UsageSampler:
    def __init__(self, name: str, pods: PodRegistry, cgroups: Cgroups | None, runtime: Runtime) -> None:
        self._name = name
        self._pods = pods
        self._cgroups = cgroups
        self._runtime = runtime
        self._readings: dict[str, Reading] = {}
        """By instance of a container."""
        self._rates: dict[str, CpuRate] = {}

    async def run(self) -> None:
        while True:
            self.sample()
            await asyncio.sleep(PERIOD_SECONDS)

    def sample(self) -> None:
        """Read all counters. What has ended since is forgotten."""
        now = asyncio.get_running_loop().time()
        found = {_NODE: Reading(now, machine_cpu_seconds())}
        for record in self._pods.records():
            for name, id in _running(record).items():
                found[id] = Reading(now, self._cpu_seconds(record, name))
        self._rates = {
            id: rate
            for id, reading in found.items()
            if (before := self._readings.get(id)) and (rate := cpu_rate(before, reading)) is not None
        }
        self._readings = found

    def summary(self) -> JsonObject:
        """Containers and the machine, as far as there are figures."""
        total, available = (machine_info.memory_info().get(name, 0) for name in ("MemTotal", "MemAvailable"))
        node = self._figures(_NODE, max(total - available, 0))
        pods = [self._pod(record) for record in self._pods.records()]
        return {"node": {"nodeName": self._name, **node}, "pods": [one for one in pods if one["containers"]]}

    def _pod(self, record: PodRecord) -> JsonObject:
        reference = {"name": record.key.name, "namespace": record.key.namespace, "uid": record.uid}
        containers = [
            {"name": name, **self._figures(id, self._memory(record, name))}
            for name, id in _running(record).items()
            if id in self._rates
        ]
        return {"podRef": reference, "containers": containers}

    def _figures(self, id: str, memory: int) -> JsonObject:
        rate = self._rates.get(id)
        if rate is None:
            return {}
        age = asyncio.get_running_loop().time() - rate.at
        time = clock.format_time(datetime.fromtimestamp(clock.seconds() - age, UTC))
        cpu = {"time": time, "usageNanoCores": round(rate.cores * 1e9), "windowSeconds": round(rate.window, 3)}
        return {"cpu": cpu, "memory": {"time": time, "workingSetBytes": memory}}

    def _cpu_seconds(self, record: PodRecord, name: str) -> float:
        if self._cgroups is not None:
            return self._cgroups.cpu_seconds(self._cgroups.container_of(record.pod, name))
        instance = record.runs[name].instance
        return self._runtime.cpu_seconds(instance) if instance is not None else 0.0

    def _memory(self, record: PodRecord, name: str) -> int:
        if self._cgroups is not None:
            place = self._cgroups.container_of(record.pod, name)
            return self._cgroups.usage(place, {}, count_cache=False).pod or 0
        instance = record.runs[name].instance
        return self._runtime.memory_in_use(instance) if instance is not None else 0


def cpu_rate(before: Reading, now: Reading) -> CpuRate | None:
    """None if no time has passed, or if the counter went back: then another container has the name."""
    window, spent = now.at - before.at, now.cpu_seconds - before.cpu_seconds
    return CpuRate(spent / window, now.at, window) if window > 0 and spent >= 0 else None


def _running(record: PodRecord) -> dict[str, str]:
    """The running containers of a pod, with the ids of their instances."""
    return {name: run.instance.id for name, run in record.runs.items() if run.instance is not None and run.running}


def machine_cpu_seconds() -> float:
    """What all cpus were busy for; waiting for disks is idle."""
    user, nice, system, _idle, _waiting, *others = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + sum(others[:3])) / os.sysconf("SC_CLK_TCK")
