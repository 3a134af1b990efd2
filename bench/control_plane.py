"""The embedded control plane: its figures beside their goals, and beside etcd and kube-apiserver in the same run.

    python -m bench.control_plane [--pods 1000] [--events 8000] [--watchers 200]

Everything is driven by the same client program (`raw_client`). Rates are given as the time that one pod or event takes
while the server is kept busy, so that less is better everywhere.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from bench import cluster_start, pods, raw_client, servers, watchers
from tools.kubernetes import build as kubernetes

PEER = "etcd + kube-apiserver"
NODES = 50
WRITERS = 32
ROUNDS = 3
"""How often a rate is measured that has a goal. Others on the machine can only make a round slower: the fastest counts,
and all are shown."""


@dataclass(frozen=True, slots=True)
class Size:
    pods: int = 1000
    events: int = 8000
    watchers: int = 200


@dataclass(frozen=True, slots=True)
class Goal:
    what: str
    goal: str
    measured: str
    met: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """What one server needed."""

    start: float
    memory: float
    created: pods.Created
    delivered: watchers.Delivered


def measure(serve: Callable[[], AbstractContextManager[servers.Server]], size: Size) -> Measured:
    begun = time.perf_counter()
    with serve() as server:
        start = time.perf_counter() - begun
        memory = server.resident_megabytes()
        delivered = watchers.measure(server, size.watchers, size.events, WRITERS)
        return Measured(start, memory, pods.measure_creates(server, size.pods), delivered)


def ours(size: Size) -> list[Measured]:
    """All rounds, the one with the most events per second first."""
    with servers.api_server(real=False):
        pass  # so that modules are compiled, as they are in an installation
    rounds = [measure(lambda: servers.api_server(real=False), size) for _ in range(ROUNDS)]
    return sorted(rounds, key=lambda one: -one.delivered.rate)


def theirs(size: Size) -> Measured | None:
    """None when the programs are not there."""
    return measure(lambda: servers.api_server(real=True), size) if kubernetes.find() is not None else None


def ready(size: Size) -> list[float]:
    """Pods per second, of all rounds, the highest first."""
    rates = []
    for _ in range(ROUNDS):
        with servers.kohort("--simulated-nodes", str(NODES)) as server:
            target = raw_client.Target.of(server.kubeconfig)
            rates.append(asyncio.run(pods.measure_ready(server, target, size.pods)).rate)
    return sorted(rates, reverse=True)


def started() -> tuple[float, float]:
    """Seconds to ready and megabytes of all parts, on a directory that was used before."""
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as cache:
        environment = servers.compiled(cache)
        cluster_start.start_once(directory, "", environment)
        seconds, _, megabytes = cluster_start.start_once(directory, "", environment)
    return seconds, megabytes


def goals(mine: list[Measured], readied: list[float], start: tuple[float, float]) -> list[Goal]:
    seconds, megabytes = start
    created = sorted((one.created.rate for one in mine), reverse=True)
    rates, missing = [one.delivered.rate for one in mine], sum(one.delivered.missing for one in mine)
    complete = not missing and all(one.delivered.same for one in mine)
    fan_out = f"{_fastest(rates)} events/s to {mine[0].delivered.watchers} watchers, {missing} lost"
    return [
        Goal("start to ready, all parts", "< 1 s", f"{seconds:.2f} s", seconds < 1),
        Goal("resident memory, idle", "< 120 MB", f"{megabytes:.0f} MB", megabytes < 120),
        Goal("pod creates, durable", "≥ 500/s", f"{_fastest(created)}/s", created[0] >= 500),
        Goal("pods from create to Ready", "≥ 300/s", f"{_fastest(readied)}/s", readied[0] >= 300),
        Goal("watch fan-out", "2,000 events/s, none lost", fan_out, complete and rates[0] >= 2000),
    ]


def _fastest(rates: list[float]) -> str:
    first, *others = [f"{rate:,.0f}" for rate in rates]
    return f"{first} ({', '.join(others)})"


def goal_table(found: list[Goal]) -> str:
    lines = ["| what | goal | measured | |", "|---|---|---|---|"]
    lines += [f"| {one.what} | {one.goal} | {one.measured} | {'met' if one.met else 'not met'} |" for one in found]
    return "\n".join(lines)


def pairs(mine: Measured, other: Measured) -> list[tuple[str, float, float, str]]:
    """What, the peer's figure, ours, unit; events only if both delivered all of them."""
    per_pod = [1000 / one.created.rate for one in (other, mine)]
    found = [
        ("API server: start", other.start, mine.start, "s"),
        ("API server: memory", other.memory, mine.memory, "MB"),
        ("pod create, 32 at once: time", per_pod[0], per_pod[1], "ms"),
        ("pod create: processor time", other.created.milliseconds, mine.created.milliseconds, "ms"),
    ]
    if not lost(mine, other):
        what = f"event to {mine.delivered.watchers} watchers"
        per_event = [1000 / one.delivered.rate for one in (other, mine)]
        cpu = [one.delivered.cpu / one.delivered.events * 1000 for one in (other, mine)]
        found += [
            (f"{what}: time", per_event[0], per_event[1], "ms"),
            (f"{what}: processor time", cpu[0], cpu[1], "ms"),
        ]
    return found


def lost(mine: Measured, other: Measured) -> str:
    """Why events are not compared: who delivers a part of them has done a part of the work."""
    missing = [
        (name, one.delivered.missing) for name, one in ((PEER, other), ("kohort", mine)) if one.delivered.missing
    ]
    if not missing:
        return ""
    all_ = mine.delivered.watchers * mine.delivered.events
    told = " and ".join(f"{name} did not deliver {count:,}" for name, count in missing)
    return f"Events to watchers are not compared: of {all_:,} deliveries {told}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--events", type=int, default=8000)
    parser.add_argument("--watchers", type=int, default=200)
    options = parser.parse_args()
    size = Size(options.pods, options.events, options.watchers)
    rounds = ours(size)
    mine = rounds[0]
    print(goal_table(goals(rounds, ready(size), started())), flush=True)
    other = theirs(size)
    if other is None:
        print(f"NOT RUN: {PEER} is not there")
        return
    print(f"\n| | {PEER} | kohort | ratio |\n|---|---:|---:|---:|")
    for what, theirs_, ours_, unit in pairs(mine, other):
        print(f"| {what} | {theirs_:.2f} {unit} | {ours_:.2f} {unit} | {ours_ / theirs_:.2f} |")
    print(lost(mine, other))


if __name__ == "__main__":
    main()
