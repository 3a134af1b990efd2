"""Crashing a part at every single write of a scenario.

    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create(LEADER_WORKER_SETS, {...})
        await cluster.settle()
        assert ...

    def test_the_operator_survives_a_crash_at_any_write() -> None:
        crash_at_every_write(lambda: Cluster(parts=("workloads", "operator")), "operator", scenario)

The scenario first runs undisturbed, which counts the part's writes from the moment the cluster is up and quiet. Then it
runs twice per write: the part crashes before the server has seen the write, and after the server has done it. Each time
the part is restarted a second later with empty caches, and the scenario must end as it does without a
crash. Every run has its own virtual time.

That is many runs. `crash_repeatedly` needs one: the part crashes at every n-th of its writes, alternately before and
after the write took effect, and continues after each restart with what is stored.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from kohort.kube.http import Request
from kohort.kube.tasks import cancel_all
from kohort.testing import virtual_time
from kohort.testing.cluster import Cluster
from kohort.testing.faults import Faults

Scenario = Callable[[Cluster], Awaitable[None]]
DOWN_SECONDS = 1.0
MAX_CRASHES = 1000
_QUIET_SECONDS = 10.0
_WRITES_OF_EVERY_START = ("/admissionregistration.k8s.io/", "/apiextensions.k8s.io/", "/leases", "/events")


class CrashPoint(msgspec.Struct, frozen=True):
    write: int
    after_effect: bool

    def __str__(self) -> str:
        return f"{'after' if self.after_effect else 'before'} write {self.write}"


class CrashUnsafe(AssertionError):
    """A scenario fails when a part crashes at one of its writes."""


def crash_at_every_write(new_cluster: Callable[[], Cluster], part: str, scenario: Scenario, *, stride: int = 1) -> int:
    """Run `scenario` with a crash of `part` at each of its writes; returns how many crash points were tried. `stride`
    takes only every n-th, for a quicker test."""
    writes = virtual_time.run(_undisturbed(new_cluster(), part, scenario))
    points = [CrashPoint(write, after) for write in range(1, len(writes) + 1, stride) for after in (False, True)]
    for point in points:
        try:
            virtual_time.run(_with_crash(new_cluster(), part, scenario, point))
        except Exception as problem:
            request = writes[point.write - 1]
            raise CrashUnsafe(f"{part} crashed {point} ({request.method} {request.path}): {problem}") from problem
    return len(points)


async def _undisturbed(cluster: Cluster, part: str, scenario: Scenario) -> list[Request]:
    async with cluster:
        await cluster.settle(quiet=_QUIET_SECONDS)
        faults = cluster.faults(part)
        before = faults.write_count
        await scenario(cluster)
        return faults.writes_since(before)


async def _with_crash(cluster: Cluster, part: str, scenario: Scenario, point: CrashPoint) -> None:
    async with cluster:
        await cluster.settle(quiet=_QUIET_SECONDS)
        faults = cluster.faults(part)
        faults.crash_at_write(point.write, after_effect=point.after_effect)
        restart = asyncio.create_task(_restart_after_crash(cluster, part, faults.crashed), name=f"restart of {part}")
        try:
            await scenario(cluster)
        finally:
            await cancel_all(restart)
        if restart.done() and not restart.cancelled():
            restart.result()


def crash_repeatedly(
    new_cluster: Callable[[], Cluster], part: str, scenario: Scenario, *, every: int = 1, max_crashes: int = MAX_CRASHES
) -> list[str]:
    """Run `scenario` once with a part that crashes at every `every`-th write; returns the writes. A part that does not
    finish within `max_crashes` fails: it may start with the same write after every restart."""
    return virtual_time.run(_with_crashes(new_cluster(), part, scenario, every, max_crashes))


async def _with_crashes(cluster: Cluster, part: str, scenario: Scenario, every: int, max_crashes: int) -> list[str]:
    crashes: list[str] = []
    async with cluster:
        await cluster.settle(quiet=_QUIET_SECONDS)
        crashing = asyncio.create_task(
            _crash_often(cluster, part, every, max_crashes, crashes), name=f"crashes of {part}"
        )
        running = asyncio.create_task(_run(scenario, cluster), name="scenario")
        try:
            await asyncio.wait((crashing, running), return_when=asyncio.FIRST_COMPLETED)
            (crashing if crashing.done() else running).result()
        except Exception as problem:
            raise CrashUnsafe(f"{part} crashed {len(crashes)} times, last {crashes[-1:]}: {problem}") from problem
        finally:
            await cancel_all(crashing, running)
    return crashes


async def _run(scenario: Scenario, cluster: Cluster) -> None:
    await scenario(cluster)


async def _crash_often(cluster: Cluster, part: str, every: int, max_crashes: int, crashes: list[str]) -> None:
    """A write that was lost is repeated after the restart, and the crash then comes after its effect: the scenario
    advances."""
    after_effect = False
    faults = cluster.faults(part)
    while len(crashes) < max_crashes:
        faults.crash_at_write(every, after_effect=after_effect, of=_of_the_scenario)
        if faults is not cluster.faults(part):
            await cluster.parts[part].restart(faults)
        await faults.crashed.wait()
        request = faults.writes[-1]
        crashes.append(f"{'after' if after_effect else 'before'} {request.method} {request.path}")
        await cluster.parts[part].crash()
        await asyncio.sleep(DOWN_SECONDS)
        after_effect = not after_effect
        faults = Faults()
    raise RuntimeError(f"still not finished after {max_crashes} crashes")


def _of_the_scenario(request: Request) -> bool:
    """Not the writes that every start begins with (webhooks, definitions, leases), and not events."""
    return not any(word in request.path for word in _WRITES_OF_EVERY_START)


async def _restart_after_crash(cluster: Cluster, part: str, crashed: asyncio.Event) -> None:
    await crashed.wait()
    await cluster.parts[part].crash()
    await asyncio.sleep(DOWN_SECONDS)
    await cluster.parts[part].restart()
