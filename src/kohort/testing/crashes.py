"""Crashing a part at every single write of a scenario.

    async def story(cluster: Cluster) -> None:
        await cluster.client.create(LEADER_WORKER_SETS, {...})
        await cluster.settle()
        assert ...

    def test_the_operator_can_die_anywhere() -> None:
        sweep(lambda: Cluster(parts=("workloads", "operator")), "operator", story)

The scenario first runs undisturbed, which counts the part's writes from the moment the cluster is up and quiet. Then it
runs once per write and way to die: killed before the server has seen the write, and killed after the server has done
it. Each time the part comes back a second later with empty caches, and the scenario must end as it does without a
crash. Every run has its own virtual time.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from kohort.kube.http import Request
from kohort.kube.tasks import cancel_all
from kohort.testing import virtual_time
from kohort.testing.cluster import Cluster

Story = Callable[[Cluster], Awaitable[None]]
DOWN_SECONDS = 1.0
_QUIET_SECONDS = 10.0


class CrashPoint(msgspec.Struct, frozen=True):
    write: int
    after_effect: bool

    def __str__(self) -> str:
        return f"{'after' if self.after_effect else 'before'} write {self.write}"


class CrashUnsafe(AssertionError):
    """A scenario that ends differently when a part dies at one of its writes."""


def sweep(new_cluster: Callable[[], Cluster], part: str, story: Story, *, stride: int = 1) -> int:
    """Run `story` with a crash of `part` at each of its writes; returns how many crash points were tried. `stride`
    takes only every n-th, for a quick look."""
    writes = virtual_time.run(_undisturbed(new_cluster(), part, story))
    points = [CrashPoint(write, after) for write in range(1, len(writes) + 1, stride) for after in (False, True)]
    for point in points:
        try:
            virtual_time.run(_with_crash(new_cluster(), part, story, point))
        except Exception as problem:
            request = writes[point.write - 1]
            raise CrashUnsafe(f"{part} killed {point} ({request.method} {request.path}): {problem}") from problem
    return len(points)


async def _undisturbed(cluster: Cluster, part: str, story: Story) -> list[Request]:
    async with cluster:
        await cluster.settle(quiet=_QUIET_SECONDS)
        before = len(cluster.faults(part).writes)
        await story(cluster)
        return cluster.faults(part).writes[before:]


async def _with_crash(cluster: Cluster, part: str, story: Story, point: CrashPoint) -> None:
    async with cluster:
        await cluster.settle(quiet=_QUIET_SECONDS)
        faults = cluster.faults(part)
        faults.crash_at_write(point.write, after_effect=point.after_effect)
        revival = asyncio.create_task(_revive(cluster, part, faults.crashed), name=f"revival of {part}")
        try:
            await story(cluster)
        finally:
            await cancel_all(revival)
        if revival.done() and not revival.cancelled():
            revival.result()


async def _revive(cluster: Cluster, part: str, crashed: asyncio.Event) -> None:
    await crashed.wait()
    await cluster.parts[part].crash()
    await asyncio.sleep(DOWN_SECONDS)
    await cluster.parts[part].restart()
