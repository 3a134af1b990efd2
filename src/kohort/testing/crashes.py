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

A crash may also leave something behind that the scenario does not look at: `end_state` says what must be the same.
`crash_sweep` counts the points that end differently instead of raising at the first; it can leave out points, so that a
long sweep is divided or continued.

That is many runs. `crash_repeatedly` needs one: the part crashes at every n-th of its writes, alternately before and
after the write took effect, and continues after each restart with what is stored.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from kohort.kube.http import Request
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import Json
from kohort.testing import virtual_time
from kohort.testing.cluster import Cluster
from kohort.testing.faults import Faults
from kohort.testing.request_matching import Match, anything

Scenario = Callable[[Cluster], Awaitable[None]]
EndState = Callable[[Cluster], Json]
"""What must be the same after every run of a scenario, with or without a crash."""
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


class SweepResult(msgspec.Struct):
    """What `crash_sweep` found."""

    points: int = 0
    """Crash points that were tried."""
    divergent: list[CrashUnsafe] = []
    """Those after which the scenario failed, or ended in another state than without a crash."""


def crash_at_every_write(
    new_cluster: Callable[[], Cluster],
    part: str,
    scenario: Scenario,
    *,
    stride: int = 1,
    end_state: EndState | None = None,
) -> int:
    """Run `scenario` with a crash of `part` at each of its writes; returns how many crash points were tried. `stride`
    takes only every n-th, for a quicker test. With `end_state`, every run must end in the same state."""
    result = crash_sweep(new_cluster, part, scenario, stride=stride, end_state=end_state, most_divergent=1)
    if result.divergent:
        raise result.divergent[0]
    return result.points


def crash_sweep(
    new_cluster: Callable[[], Cluster],
    part: str,
    scenario: Scenario,
    *,
    stride: int = 1,
    end_state: EndState | None = None,
    most_divergent: int = 10,
    of: Match = anything,
    chosen: Callable[[CrashPoint], bool] = lambda _: True,
    on_result: Callable[[CrashPoint, CrashUnsafe | None], None] = lambda _, __: None,
) -> SweepResult:
    """As `crash_at_every_write`, but goes on after a failure, until there are `most_divergent`. Only writes that match
    `of` are crash points, and only `chosen` points are tried; `on_result` is called after each of them."""
    look: EndState = end_state if end_state is not None else lambda _: None
    every, wanted = virtual_time.run(_undisturbed(new_cluster(), part, scenario, look))
    writes = [request for request in every if of(request)]
    result = SweepResult()
    for point in [CrashPoint(write, after) for write in range(1, len(writes) + 1, stride) for after in (False, True)]:
        if not chosen(point):
            continue
        result.points += 1
        request = writes[point.write - 1]
        where = f"{part} crashed {point} ({request.method} {request.path})"
        failure: CrashUnsafe | None = None
        try:
            found = virtual_time.run(_with_crash(new_cluster(), part, scenario, point, look, of))
        except Exception as problem:
            failure = CrashUnsafe(f"{where}: {problem}")
            failure.__cause__ = problem
        else:
            if found != wanted:
                failure = CrashUnsafe(f"{where}: the end differs: {_difference(wanted, found)}")
        on_result(point, failure)
        if failure is not None:
            result.divergent.append(failure)
        if len(result.divergent) >= most_divergent:
            break
    return result


def _difference(wanted: Json, found: Json, path: str = "") -> str:
    """The first place in which two documents differ."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted({*wanted, *found}, key=str):
            if key not in wanted or key not in found:
                return f"{path}.{key} is only there {'with' if key in found else 'without'} the crash"
            if wanted[key] != found[key]:
                return _difference(wanted[key], found[key], f"{path}.{key}")
    return f"{path or 'the state'} is {found!r} instead of {wanted!r}"


async def _undisturbed(
    cluster: Cluster, part: str, scenario: Scenario, end_state: EndState
) -> tuple[list[Request], Json]:
    async with cluster:
        await cluster.settle(quiet=_QUIET_SECONDS)
        faults = cluster.faults(part)
        before = faults.write_count
        await scenario(cluster)
        return faults.writes_since(before), end_state(cluster)


async def _with_crash(
    cluster: Cluster, part: str, scenario: Scenario, point: CrashPoint, end_state: EndState, of: Match
) -> Json:
    async with cluster:
        await cluster.settle(quiet=_QUIET_SECONDS)
        faults = cluster.faults(part)
        faults.crash_at_write(point.write, after_effect=point.after_effect, of=of)
        restart = asyncio.create_task(_restart_after_crash(cluster, part, faults.crashed), name=f"restart of {part}")
        try:
            await scenario(cluster)
        finally:
            await cancel_all(restart)
        if restart.done() and not restart.cancelled():
            restart.result()
        return end_state(cluster)


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
