"""Watches what the machine has left, and ends pods before it is nothing."""

import asyncio
from collections.abc import Callable, Mapping

from kohort.kube.resources import Key
from kohort.node import machine_info, pressure
from kohort.node.container_spec import pod_directory
from kohort.node.node_context import Surroundings
from kohort.node.pod_worker import PodWorker
from kohort.node.pressure import Candidate, Pressure
from kohort.node.runtimes.process.process_marks import descendants
from kohort.objects.quantity import Quantity

PERIOD_SECONDS = 10.0


class Evictions:
    def __init__(
        self,
        node: Surroundings,
        workers: Mapping[Key, PodWorker],
        changed: Callable[[], None],
        relieved: Callable[[], None],
    ) -> None:
        """`changed` is called when pressure comes or goes, `relieved` when none is left."""
        self.pressure = Pressure()
        self._node = node
        self._workers = workers
        self._changed = changed
        self._relieved = relieved

    async def run(self) -> None:
        while True:
            available = machine_info.memory_info().get("MemAvailable", 1 << 62)
            self.under(pressure.measure(available, self._node.directory))
            await self.end_overfull()
            await asyncio.sleep(PERIOD_SECONDS)

    async def end_overfull(self) -> None:
        """End pods that have written more to a directory of theirs than they wanted to."""
        for worker in self._evictable():
            volumes = pod_directory(self._node, worker.uid) / "volumes"
            for volume in worker.pod.spec.volumes:
                limit = volume.empty_dir.size_limit if volume.empty_dir is not None else None
                if limit is None or not (most := Quantity.parse(limit).value):
                    continue
                if await asyncio.to_thread(pressure.written_bytes, volumes / volume.name) > most:
                    worker.evict(f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". ')
                    break

    def under(self, found: Pressure) -> None:
        """The machine is under this pressure now."""
        if found != self.pressure:
            self.pressure = found
            self._changed()
            if not found.words:
                self._relieved()
        if found.memory and (chosen := pressure.first_for_memory(self._memory_users())) is not None:
            self._evict(chosen, pressure.memory_words(chosen))
        elif found.disk and (chosen := pressure.first_for_disk(self._disk_users())) is not None:
            self._evict(chosen, pressure.disk_words(chosen))

    def _evictable(self) -> list[PodWorker]:
        return [each for each in self._workers.values() if each.admitted and not each.finished and not each.evicted]

    def _memory_users(self) -> list[Candidate]:
        return [Candidate(worker.allocated(), self._memory_of(worker)) for worker in self._evictable()]

    def _memory_of(self, worker: PodWorker) -> int:
        """As the kernel counts it for the pod, or else what its processes have in memory."""
        if self._node.cgroups is not None:
            return self._node.cgroups.usage(worker.cgroup, []).pod or 0
        running = [run.instance.pid for run in worker.runs.values() if run.instance is not None and run.running]
        return sum(pressure.resident_bytes([pid, *descendants(pid)]) for pid in running if pid > 0)

    def _disk_users(self) -> list[Candidate]:
        return [
            Candidate(worker.allocated(), pressure.written_bytes(pod_directory(self._node, worker.uid)))
            for worker in self._evictable()
        ]

    def _evict(self, chosen: Candidate, words: str) -> None:
        for worker in self._workers.values():
            if worker.uid == chosen.pod.metadata.uid:
                worker.evict(words)
