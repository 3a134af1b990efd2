"""Groups side by side: a released LeaderWorkerSet manager and our operator, on the same real API server.

    python -m bench.groups [--groups 20] [--rounds 1]

Both get the same sets of five groups of four pods, one after the other, on simulated nodes where a pod takes a second
to end: until all are ready, a new image through all of them, half of the groups taken away, everything deleted. Wall
time is what a user waits, with the real StatefulSet controller, garbage collector and scheduler in between. Writes are
those that the API server counted, by everybody, events and leases apart. Processor time and memory are the operator's.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.group_lifecycle import PHASES, Figures, Shape, run_lifecycle
from bench.servers import compiled_once
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tests.kubernetes.operators import administrator, simulated_nodes
from tests.kubernetes.upstream import Upstream
from tools.kubernetes import build as kubernetes
from tools.lws import build as lws

from kohort.groups.crd import NAME
from kohort.kube.client import Client
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kohort.operator import wait_established

SIZE = 4
GROUPS_PER_SET = 5
_UNLIMITED = ("--kube-api-qps=1000", "--kube-api-burst=2000")
FLAGS = {
    "kube-controller-manager": (*_UNLIMITED, "--concurrent-statefulset-syncs=20", "--concurrent-gc-syncs=50"),
    "kube-scheduler": _UNLIMITED,
}
"""The defaults hold the StatefulSet controller to 20 requests a second, and that is all one would measure."""


@cache
def compiled_operator() -> dict[str, str]:
    """Compiling modules needs memory, which an installed operator does not need."""
    environment = compiled_once()
    command = [sys.executable, "-c", "import aiohttp.web, kohort.cli.main, kohort.manager.operator_process"]
    subprocess.run(command, env=environment, check=True)
    return environment


@contextmanager
def our_operator(plane: ControlPlane, directory: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "kohort", "operator", "--kubeconfig", str(plane.kubeconfig)]
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "kohort.log").open("ab") as log:
        words = (*command, "--no-leader-elect", "--no-rollouts")
        process = subprocess.Popen(words, stdout=log, stderr=log, env=compiled_operator())
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


async def compare(groups: int, rounds: int) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = {"lws": [], "kohort": []}
    shape = Shape(max(1, groups // GROUPS_PER_SET), GROUPS_PER_SET, SIZE, GROUPS_PER_SET // 2)
    programs = kubernetes.build()
    lws.build()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as name:
        directory = Path(name)
        components = ("kube-controller-manager", "kube-scheduler")
        with control_plane(programs, directory / "plane", *components, flags=FLAGS) as plane:
            async with administrator(plane) as client, simulated_nodes(plane, max(8, groups // 10)):
                for number in range(rounds):
                    # The second operator finds a server with more objects, so the two take turns.
                    for who in ("lws", "kohort") if number % 2 == 0 else ("kohort", "lws"):
                        run = _with_theirs if who == "lws" else _with_ours
                        found[who].append(await run(plane, client, directory / f"{who}-{number}", shape))
                        await _forget_definitions(client)
    return found


async def _with_theirs(plane: ControlPlane, client: Client, directory: Path, shape: Shape) -> Figures:
    theirs = Upstream(plane.kubeconfig, directory)
    await theirs.prepare(client)
    theirs.start()
    assert theirs.process is not None
    try:
        return await run_lifecycle(client, directory.name, shape, theirs.process.pid, plane.pids)
    finally:
        theirs.stop()


async def _with_ours(plane: ControlPlane, client: Client, directory: Path, shape: Shape) -> Figures:
    with our_operator(plane, directory) as pid:
        await _definitions_served(client)
        return await run_lifecycle(client, directory.name, shape, pid, plane.pids)


async def _forget_definitions(client: Client) -> None:
    """Both have definitions of the same name; each gets its own."""
    for one in (await client.list(CUSTOM_RESOURCE_DEFINITIONS, metadata_only=True)).items:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, one["metadata"]["name"])
    async with asyncio.timeout(60):
        while (await client.list(CUSTOM_RESOURCE_DEFINITIONS, metadata_only=True)).items:
            await asyncio.sleep(0.1)


async def _definitions_served(client: Client) -> None:
    async with asyncio.timeout(60):
        while await client.find(CUSTOM_RESOURCE_DEFINITIONS, NAME) is None:
            await asyncio.sleep(0.1)
    await wait_established(client, NAME)


@dataclass(frozen=True)
class Row:
    what: str
    theirs: float
    ours: float
    unit: str
    peer: str = f"LeaderWorkerSet {lws.VERSION}"
    goal: float | None = None
    """What the ratio should be at most."""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.theirs else float("inf")


def _seconds(phase: str) -> Callable[[Figures], float]:
    return lambda one: one.seconds[phase]


def _writes(phase: str) -> Callable[[Figures], float]:
    return lambda one: one.writes[phase]


def rows(found: dict[str, list[Figures]]) -> list[Row]:
    """Medians over the rounds."""

    def row(what: str, unit: str, value: Callable[[Figures], float], goal: float | None = None) -> Row:
        theirs, ours = ([value(one) for one in found[name]] for name in ("lws", "kohort"))
        return Row(what, statistics.median(theirs), statistics.median(ours), unit, goal=goal)

    table = [row(f"{phase}: time", "s", _seconds(phase), 0.8) for phase in PHASES]
    table += [row(f"{phase}: writes per group", "", _writes(phase)) for phase in PHASES]
    table.append(row("writes per group, all phases", "", lambda one: sum(one.writes.values()), 1.0))
    table.append(row("processor time of the control plane, all phases", "s", lambda one: sum(one.plane.values())))
    table.append(row("operator: processor time", "s", lambda one: sum(one.cpu.values()), 1.0))
    table.append(row("operator: peak memory", "MB", lambda one: one.memory, 1.0))
    return table


def markdown(table: list[Row]) -> str:
    lines = ["| | peer | peer's figure | kohort | ratio | goal |", "|---|---|---:|---:|---:|---|"]
    for one in table:
        theirs, ours = shown(one.theirs, one.unit), shown(one.ours, one.unit)
        lines.append(f"| {one.what} | {one.peer} | {theirs} | {ours} | {one.ratio:.2f} | {_verdict(one)} |")
    return "\n".join(lines)


def _verdict(row: Row) -> str:
    if row.goal is None:
        return ""
    return f"≤ {row.goal:.1f}, {'met' if round(row.ratio, 2) <= row.goal else 'not met'}"


def shown(value: float, unit: str) -> str:
    """Small figures with a digit more."""
    return f"{value:.{2 if value < 10 else 1}f} {unit}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    full = bool(os.environ.get("BENCH_FULL"))
    parser.add_argument("--groups", type=int, default=250 if full else 20)
    parser.add_argument("--rounds", type=int, default=2 if full else 1)
    options = parser.parse_args()
    print(markdown(rows(asyncio.run(compare(options.groups, options.rounds)))))


if __name__ == "__main__":
    main()
