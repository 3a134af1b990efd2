"""Watches how much memory, disk and pids the machine has left, and evicts pods before it has none."""

import asyncio
from collections.abc import Mapping

from kohort.kube.log import Log
from kohort.node import machine_info, pressure
from kohort.node.cgroups import Cgroups
from kohort.node.heartbeat import Heartbeat
from kohort.node.node_state import NodeState
from kohort.node.pod_files import PodFiles
from kohort.node.pod_record import PodRecord
from kohort.node.pod_registry import PodRegistry
from kohort.node.pressure import EvictionCandidate, Pressure
from kohort.node.resize.resize_and_admission import ResizeQueue
from kohort.node.runtimes.interface import Runtime
from kohort.objects.quantity import Quantity

PERIOD_SECONDS = 10.0
_log = Log(part="node")


class EvictionManager:
    def __init__(
        self,
        node: NodeState,
        pods: PodRegistry,
        files: PodFiles,
        cgroups: Cgroups | None,
        runtime: Runtime,
        heartbeat: Heartbeat,
        resizes: ResizeQueue,
    ) -> None:
        self._node = node
        self._pods = pods
        self._files = files
        self._cgroups = cgroups
        self._runtime = runtime
        self._heartbeat = heartbeat
        self._resizes = resizes

    async def run(self) -> None:
        while True:
            available = machine_info.memory_info().get("MemAvailable", 1 << 62)
            await self.set_pressure(pressure.measure(available, self._files.root))
            await self.evict_over_size_limit()
            await self.evict_over_storage_limit()
            await asyncio.sleep(PERIOD_SECONDS)

    async def evict_over_size_limit(self) -> None:
        """Evict pods that have written more to an emptyDir volume than its `sizeLimit`."""
        for record in self._evictable():
            volumes = self._files.volumes(record.uid)
            for volume in record.pod.spec.volumes:
                limit = volume.empty_dir.size_limit if volume.empty_dir is not None else None
                if limit is None or not (most := Quantity.parse(limit).value):
                    continue
                if await asyncio.to_thread(pressure.written_bytes, volumes / volume.name) > most:
                    record.evict(f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". ')
                    break

    async def evict_over_storage_limit(self) -> None:
        """Evict pods that have written more than their limits of `ephemeral-storage`."""
        limited = [each for each in self._evictable() if pressure.has_storage_limit(each.pod)]
        if not limited:
            return
        try:
            layers = await self._runtime.layer_bytes()
        except OSError as problem:  # the runtime is away, which the node reports by itself
            _log.warning("failed to ask the runtime for the size of root file systems", problem=str(problem))
            return
        for record in limited:
            containers, rest = await asyncio.to_thread(self._written, record, layers)
            if message := pressure.storage_message(record.pod, containers, rest):
                record.evict(message)

    def _written(self, record: PodRecord, layers: Mapping[str, int] | None) -> tuple[dict[str, int], int]:
        """What each container has written to its root file system and log, and the other files of the pod on the disk;
        volumes in memory count as memory."""
        uid, files = record.uid, self._files
        containers = {}
        for name, run in record.runs.items():
            if layers is None:
                layer = pressure.written_bytes(files.layer(uid, name, run.attempt))
            else:
                layer = layers.get(run.instance.id, 0) if run.instance is not None else 0
            containers[name] = layer + pressure.written_bytes(files.logs(uid) / name)
        rest = sum(
            pressure.written_bytes(files.volumes(uid) / volume.name)
            for volume in record.pod.spec.volumes
            if volume.empty_dir is None or volume.empty_dir.medium != "Memory"
        )
        names = sum(pressure.file_bytes(each) for each in (files.hosts(uid), files.resolv_conf(uid)))
        return containers, rest + pressure.written_bytes(files.messages(uid)) + names

    async def set_pressure(self, now: Pressure) -> None:
        """The machine is under this pressure now: report it, and evict a pod if that helps."""
        if now != self._node.pressure:
            self._node.pressure = now
            self._heartbeat.changed()
            if not now.message:
                self._resizes.decide("node_changed")
        if now.memory and (chosen := pressure.first_for_memory(self._memory_users())) is not None:
            self._evict(chosen, pressure.memory_message(chosen))
        elif now.disk and (chosen := pressure.first_for_disk(await self._disk_users())) is not None:
            self._evict(chosen, pressure.disk_message(chosen))

    def _evictable(self) -> list[PodRecord]:
        return [
            each
            for each in self._pods.records()
            if each.admitted and not each.finished and not each.evicted and not pressure.is_critical(each.pod)
        ]

    def _memory_users(self) -> list[EvictionCandidate]:
        return [EvictionCandidate(record.allocated(), self._memory_of(record)) for record in self._evictable()]

    def _memory_of(self, record: PodRecord) -> int:
        """As the kernel counts it for the pod's cgroup, or else as the runtime counts it."""
        if self._cgroups is not None:
            return self._cgroups.usage(self._cgroups.pod_of(record.pod), {}).pod or 0
        running = [run.instance for run in record.runs.values() if run.instance is not None and run.running]
        return sum(self._runtime.memory_in_use(instance) for instance in running)

    async def _disk_users(self) -> list[EvictionCandidate]:
        """Pods may have any number of files, so they are counted beside everything else."""
        return [
            EvictionCandidate(
                record.allocated(), await asyncio.to_thread(pressure.written_bytes, self._files.pod(record.uid))
            )
            for record in self._evictable()
        ]

    def _evict(self, chosen: EvictionCandidate, message: str) -> None:
        if (record := self._pods.with_uid(chosen.pod.metadata.uid)) is not None:
            record.evict(message)
