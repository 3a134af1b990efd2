"""Random schedules of edits, nodes that defer or refuse, lost pods and operators that die, on virtual time.

Whatever happens: in the end all groups have the resources of the last edit; no pod was recreated but those that were
lost; no container restarted; and a set was never reported Available with a group of two sizes.

Several schedules share a cluster, each with a set in a namespace of its own, because starting a cluster costs more than
a schedule. KOHORT_RESIZE_SCHEDULES=1000 runs as many of them. A failure names its seed; the schedules of its batch
reproduce it.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Callable

import pytest
from tests.groups.resize.test_group_resizes import cluster_with_groups, resizable, template

from kohort.kube.errors import ApiError, NotFound
from kohort.kube.resources import LEADER_WORKER_SETS, NAMESPACES, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

SCHEDULES = int(os.environ.get("KOHORT_RESIZE_SCHEDULES", "10"))
BATCH = 10
OUTCOMES = ("accept", "accept", "deferred", "infeasible", "error")
SIZES = ("100m", "150m", "200m", "300m")
LAST = "400m"


class Schedule:
    def __init__(self, cluster: Cluster, seed: int, operator_crash: asyncio.Lock) -> None:
        self.cluster = cluster
        self.namespace = f"schedule-{seed}"
        self.chance = random.Random(seed)
        self.groups = self.chance.randint(1, 3)
        self.size = self.chance.randint(2, 3)
        self.lost: set[str] = set()
        self.mixed: list[str] = []
        self._operator_crash = operator_crash

    # The set

    def group_set(self) -> JsonObject:
        found = self.cluster.find(LEADER_WORKER_SETS, "llm", self.namespace)
        assert found is not None
        return found

    def pods(self) -> dict[str, JsonObject]:
        return {one["metadata"]["name"]: one for one in self.cluster.objects(PODS, self.namespace)}

    def uids(self) -> dict[str, str]:
        return {name: one["metadata"]["uid"] for name, one in self.pods().items()}

    def is_available(self) -> bool:
        found = self.group_set()
        status = found.get("status") or {}
        counted = [status.get(key, 0) for key in ("readyReplicas", "updatedReplicas")]
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
        return counted == [self.groups] * 2 and seen and conditions.get("Available") == "True"

    def sizes_by_group(self) -> dict[str, set[str]]:
        sizes: dict[str, set[str]] = {}
        for one in self.pods().values():
            index = one["metadata"]["labels"].get(group_labels.GROUP_INDEX, "")
            sizes.setdefault(index, set()).add(one["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        return sizes

    def restarts(self) -> int:
        statuses = (one for each in self.pods().values() for one in each["status"].get("containerStatuses", ()))
        return sum(one["restartCount"] for one in statuses)

    # What happens to it

    async def create(self) -> None:
        await self.cluster.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        subject = resizable("InPlaceOnly", deadline=self.chance.choice([20, 120]))
        subject = subject.replicas(self.groups).size(self.size).restart("None")
        subject["metadata"]["namespace"] = self.namespace
        await self.cluster.client.create(LEADER_WORKER_SETS, subject, self.namespace)
        await self.until(self.is_available)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Asked only when something was written."""
        asked = -1

        def holds() -> bool:
            nonlocal asked
            if self.cluster.writes == asked:
                return False
            asked = self.cluster.writes
            return condition()

        await self.cluster.until(holds, timeout=3600)

    async def edit(self, cpu: str) -> None:
        spec = template(cpu)["spec"]
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": spec}}}}
        while True:
            try:
                await self.cluster.client.patch(LEADER_WORKER_SETS, "llm", self.namespace, body)
            except ApiError:  # the webhooks are down with the operator
                await asyncio.sleep(0.5)
            else:
                return

    async def order(self, name: str, resize: str) -> None:
        body = {"metadata": {"annotations": {"simulation.kohort.dev/resize": resize}}}
        with contextlib.suppress(NotFound):
            await self.cluster.client.patch(PODS, name, self.namespace, body)

    async def step(self) -> None:
        chance = self.chance
        name = chance.choice(sorted(self.pods()) or ["llm-0"])
        match chance.randrange(6):
            case 0 | 1:
                await self.edit(chance.choice(SIZES))
            case 2 | 3:
                await self.order(name, chance.choice(OUTCOMES))
            case 4:
                await self.crash_operator(chance.uniform(0, 5))
            case 5 if name.count("-") == 2:
                self.lost.add(name)
                with contextlib.suppress(NotFound):
                    await self.cluster.client.delete(PODS, name, self.namespace)

    async def crash_operator(self, seconds: float) -> None:
        async with self._operator_crash:
            await self.cluster.parts["operator"].crash()
            await asyncio.sleep(seconds)
            await self.cluster.parts["operator"].restart()

    async def accept_everywhere(self) -> None:
        for name in sorted(self.pods()):
            await self.order(name, "accept")

    async def watch_sizes(self) -> None:
        """Note when the set is Available while a group has two sizes."""
        writes = 0
        while True:
            await asyncio.sleep(0.2)
            if self.cluster.writes == writes:
                continue
            writes = self.cluster.writes
            if self.is_available():
                mixed = {index: sizes for index, sizes in self.sizes_by_group().items() if len(sizes) > 1}
                if mixed:
                    self.mixed.append(f"{mixed}")

    async def run(self) -> None:
        await self.create()
        before = self.uids()
        watching = asyncio.create_task(self.watch_sizes())
        for _ in range(self.chance.randint(3, 10)):
            await self.step()
            await asyncio.sleep(self.chance.choice([0, 0.1, 1, 30]))
        await self.accept_everywhere()
        await asyncio.sleep(150)
        await self.accept_everywhere()
        await self.edit(LAST)
        wanted = {str(index): {LAST} for index in range(self.groups)}
        try:
            await self.until(lambda: self.is_available() and self.sizes_by_group() == wanted)
        finally:
            watching.cancel()
        assert not self.mixed, f"Available with groups of two sizes: {self.mixed[:3]}"
        after = self.uids()
        assert {name for name in after if after[name] != before.get(name)} <= self.lost, self.group_set()["status"]
        assert self.restarts() == 0


async def result_of(schedule: Schedule) -> str:
    try:
        await schedule.run()
    except Exception as problem:
        return f"{schedule.namespace}: {problem!r} {schedule.group_set().get('status')}"
    return ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SCHEDULES, BATCH))
async def test_every_schedule_ends_with_the_last_edit(first: int) -> None:
    operator_crash = asyncio.Lock()
    async with cluster_with_groups(nodes=8) as cluster:
        seeds = range(first, min(first + BATCH, SCHEDULES))
        results = await asyncio.gather(*(result_of(Schedule(cluster, seed, operator_crash)) for seed in seeds))
        assert [one for one in results if one] == []
