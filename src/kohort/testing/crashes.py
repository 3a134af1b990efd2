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

That is many runs. `mortal` is the same in one: the part dies at every n-th of its writes, before and after its effect
by turns, and goes on in its next life with what the one before has left behind.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from kohort.kube.http import Request
from kohort.kube.tasks import cancel_all
from kohort.testing import virtual_time
from kohort.testing.cluster import Cluster
from kohort.testing.faults import Faults

Story = Callable[[Cluster], Awaitable[None]]
DOWN_SECONDS = 1.0
MOST_LIVES = 1000
_QUIET_SECONDS = 10.0
_EACH_LIFE = ("/admissionregistration.k8s.io/", "/apiextensions.k8s.io/", "/leases", "/events")


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


def mortal(
    new_cluster: Callable[[], Cluster], part: str, story: Story, *, every: int = 1, lives: int = MOST_LIVES
) -> list[str]:
    """Run `story` once with a part that dies at every `every`-th write; returns at which. A part that begins each of
    its `lives` with the same write gets nowhere, and that is told too."""
    return virtual_time.run(_with_crashes(new_cluster(), part, story, every, lives))


async def _with_crashes(cluster: Cluster, part: str, story: Story, every: int, lives: int) -> list[str]:
    deaths: list[str] = []
    async with cluster:
        await cluster.settle(quiet=_QUIET_SECONDS)
        dying = asyncio.create_task(_die_often(cluster, part, every, lives, deaths), name=f"deaths of {part}")
        telling = asyncio.create_task(_told(story, cluster), name="story")
        try:
            await asyncio.wait((dying, telling), return_when=asyncio.FIRST_COMPLETED)
            (dying if dying.done() else telling).result()
        except Exception as problem:
            raise CrashUnsafe(f"{part}, {len(deaths)} times killed, last {deaths[-1:]}: {problem}") from problem
        finally:
            await cancel_all(dying, telling)
    return deaths


async def _told(story: Story, cluster: Cluster) -> None:
    await story(cluster)


async def _die_often(cluster: Cluster, part: str, every: int, lives: int, deaths: list[str]) -> None:
    """A write that was lost is made again in the next life, and dies there after its effect: the story goes on."""
    after_effect = False
    faults = cluster.faults(part)
    while len(deaths) < lives:
        faults.crash_at_write(every, after_effect=after_effect, of=_of_the_story)
        if faults is not cluster.faults(part):
            await cluster.parts[part].restart(faults)
        await faults.crashed.wait()
        request = faults.writes[-1]
        deaths.append(f"{'after' if after_effect else 'before'} {request.method} {request.path}")
        await cluster.parts[part].crash()
        await asyncio.sleep(DOWN_SECONDS)
        after_effect = not after_effect
        faults = Faults()
    raise RuntimeError("it gets nowhere")


def _of_the_story(request: Request) -> bool:
    """Neither what every life begins with (its webhooks, definitions and leases) nor what it only tells."""
    return not any(word in request.path for word in _EACH_LIFE)


async def _revive(cluster: Cluster, part: str, crashed: asyncio.Event) -> None:
    await crashed.wait()
    await cluster.parts[part].crash()
    await asyncio.sleep(DOWN_SECONDS)
    await cluster.parts[part].restart()
