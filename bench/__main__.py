"""All figures in one run: `make bench`, or `python -m bench`.

First what each part of ours needs by itself, then the comparisons with peers that ran beside it, as one table with
ratios. The comparisons are also written to docs/benchmarks.md, with a plot. About five minutes; BENCH_FULL=1 for the
sizes that the goals are stated in.
"""

import asyncio
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import arrival, controlplane, groups, plot, servers, startup
from tests.kubernetes.controlplane import ControlPlane
from tools.kubernetes import build as kubernetes
from tools.lws import build as lws

ROOT = Path(__file__).resolve().parents[1]
FULL = bool(os.environ.get("BENCH_FULL"))
EMBEDDED_GROUPS = os.environ.get("BENCH_EMBEDDED_GROUPS") or ("1000" if FULL else "40")
SIZE = controlplane.Size() if FULL else controlplane.Size(pods=500, events=2000)
ALONE = {
    "storage": ("--seconds", "5" if FULL else "2"),
    "schema": (),
    "commands": (),
    "single_requests": (),
    "resize": ("--rounds", "200" if FULL else "40"),
    "embedded_groups": ("--groups", EMBEDDED_GROUPS),
    "kube_informer": ("--pods", "10000" if FULL else "3000", "--events", "50000" if FULL else "10000"),
}
CROWD = 10_000 if FULL else 1_000
"""Pods that are there when an operator starts."""
GROUPS = int(os.environ.get("BENCH_GROUPS") or (250 if FULL else 20))
ROUNDS = 2 if FULL else 1


def run_alone(module: str, words: tuple[str, ...]) -> str:
    command = [sys.executable, str(ROOT / "bench" / f"{module}.py"), *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, env=environment)
    return done.stdout if done.returncode == 0 else f"failed:\n{done.stderr[-2000:]}"


def start_ours() -> tuple[float, float]:
    """Seconds to ready and megabytes, of a second start."""
    with tempfile.TemporaryDirectory() as directory:
        environment = dict(os.environ)
        startup.start_once(directory, "", environment)
        seconds, _, megabytes = startup.start_once(directory, "", environment)
    return seconds, megabytes


def start_real(binaries: Path) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as directory:
        plane = ControlPlane(binaries, Path(directory) / "plane")
        begun = time.perf_counter()
        try:
            plane.start("kube-controller-manager", "kube-scheduler")
            seconds = time.perf_counter() - begun
            return seconds, sum(servers.resident_megabytes(pid) for pid in plane.pids)
        finally:
            plane.stop()


def comparisons(mine: controlplane.Measured) -> list[groups.Row]:
    binaries = kubernetes.build()
    table = groups.rows(asyncio.run(groups.compare(GROUPS, ROUNDS)))
    arrived = asyncio.run(arrival.compare(CROWD))
    theirs, ours = arrived["lws"], arrived["kohort"]
    start = f"operator: start with {CROWD} pods present"
    table.append(groups.Row(f"{start}: time", theirs.seconds, ours.seconds, "s"))
    table.append(groups.Row(f"{start}: peak memory", theirs.megabytes, ours.megabytes, "MB"))
    other = controlplane.theirs(SIZE)
    if other is not None:
        table += [groups.Row(*pair, peer=controlplane.PEER) for pair in controlplane.pairs(mine, other)]
    try:
        (real_seconds, real_memory), (our_seconds, our_memory) = start_real(binaries), start_ours()
    except RuntimeError as problem:
        print(f"start of the control plane not compared: {problem}")
        return table
    table.append(groups.Row("control plane: start", real_seconds, our_seconds, "s", peer="Kubernetes"))
    table.append(groups.Row("control plane: memory", real_memory, our_memory, "MB", peer="Kubernetes"))
    return table


def machine() -> str:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    name = model[1] if model else platform.machine()
    return f"{name}, {cores} cores, CPython {platform.python_version()}, load before the run {load:.1f}"


def page(table: list[groups.Row], goals: str, where: str) -> str:
    return f"""# Side by side

Written by `make bench`; the plot shows the ratios. {where}.

## The embedded control plane and its goals

{goals}

Pods are created on {controlplane.WRITERS} connections and are durable when they are answered; pods to Ready are on
{controlplane.NODES} simulated nodes, with all parts of `kohort up` running. Events are small config maps.

## Beside others

{GROUPS} groups of {groups.SIZE} pods in sets of {groups.GROUPS_PER_SET}, median of {ROUNDS} round(s), on the API server
of Kubernetes {kubernetes.VERSION} with its StatefulSet controller, garbage collector and scheduler, on simulated nodes
where a pod takes a second to end. LeaderWorkerSet {lws.VERSION} and kohort ran one after the other on the same API
server, taking turns at who is first. Below 1 is less than the peer. Taking groups away and deleting everything is the
work of Kubernetes' own controllers; an operator hardly takes part in it.

![ratios](benchmarks.svg)

{groups.markdown(table)}

Writes are all that the API server counted, by anybody, events and leases apart. Processor time and memory are those of
the operator's process. The start of an operator is measured from its command until it has made the first StatefulSet.
Rates are given as the time that one pod or event takes while the server is kept busy, on the
wall and of its processors; the client program is the same for both servers. The last two rows compare `kohort up` with
etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
"""


def main() -> None:
    where = machine()
    print(where)
    for module, words in ALONE.items():
        print(f"\n{module}\n{run_alone(module, words).rstrip()}", flush=True)
    mine = controlplane.ours(SIZE)
    goals = controlplane.goal_table(controlplane.goals(mine, controlplane.ready(SIZE), controlplane.started()))
    print(f"\nembedded control plane\n{goals}\n", flush=True)
    if kubernetes.find() is None and shutil.which("go") is None:
        print("NOT RUN: comparisons need the real control plane: install Go, or set KUBEBUILDER_ASSETS")
        return
    table = comparisons(mine)
    print(f"\n{groups.markdown(table)}")
    (ROOT / "docs" / "benchmarks.md").write_text(page(table, goals, where))
    (ROOT / "docs" / "benchmarks.svg").write_text(plot.ratios([(one.what, one.ratio) for one in table]))


if __name__ == "__main__":
    main()
