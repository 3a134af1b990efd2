"""All figures in one run: `make bench`, or some of them: `python -m bench PART ...`.

First the parts that measure kohort alone, then the comparisons with peers as one table with ratios, which is also
written to docs/benchmarks.md, with a plot. BENCH_FULL=1 takes the sizes of the goals. If a part fails, the others still
run; it is named at the end, and docs/benchmarks.md stays unchanged.
"""

import argparse
import asyncio
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench import control_plane, groups, operator_start, ratio_plot, servers
from tests.kubernetes.controlplane import ControlPlane
from tools.kubernetes import build as kubernetes
from tools.lws import build as lws

ROOT = Path(__file__).resolve().parents[1]
FULL = bool(os.environ.get("BENCH_FULL"))
EMBEDDED_GROUPS = os.environ.get("BENCH_EMBEDDED_GROUPS") or ("1000" if FULL else "40")
SIZE = control_plane.Size()
ALONE = {
    "durable_writes": ("--seconds", "5" if FULL else "2"),
    "schema_engine": (),
    "cli_start": (),
    "single_requests": (),
    "beside_kubelet": ("--rounds", "4" if FULL else "2"),
    "resize": ("--rounds", "200" if FULL else "40"),
    "group_resize": ("--groups", "100" if FULL else "20", "--sets", "10" if FULL else "4"),
    "informer_cache": ("--pods", "10000" if FULL else "3000", "--events", "50000" if FULL else "10000"),
    "steady_writes": ("--seconds", "30" if FULL else "5"),
    "embedded_groups": ("--groups", EMBEDDED_GROUPS),
    "dashboard": ("--sets", "1000" if FULL else "200"),
    "gateway": ("--seconds", "10" if FULL else "3", "--rollbacks", "50" if FULL else "3"),
    "endurance": ("--pods", "100000" if FULL else "4000"),
}
"""Modules of this package that print their figures."""
PODS_PRESENT = 10_000 if FULL else 1_000
"""Pods that are there when an operator starts."""
GROUPS = int(os.environ.get("BENCH_GROUPS") or (250 if FULL else 20))
ROUNDS = 2 if FULL else 1


class Run:
    """The figures measured so far, and the parts that failed."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = wanted
        self._begun = time.monotonic()
        self.table: list[groups.Row] = []
        self.goals = ""
        self.remark = ""
        self.failed: list[str] = []

    def part(self, name: str, measure: Callable[[], None]) -> None:
        if self._wanted and name not in self._wanted:
            return
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        print(f"\n== {name} (after {minutes}:{seconds:02})", flush=True)
        try:
            measure()
        except Exception:
            # Any failure: it must not lose an hour of other figures.
            traceback.print_exc()
            self.failed.append(name)

    @property
    def complete(self) -> bool:
        return not self._wanted and not self.failed

    def control_plane_figures(self) -> None:
        rounds = control_plane.ours(SIZE)
        mine = rounds[0]
        found = control_plane.goals(rounds, control_plane.ready(SIZE), control_plane.started())
        self.goals = control_plane.goal_table(found)
        print(self.goals, flush=True)
        if (other := control_plane.theirs(SIZE)) is not None:
            self._add([groups.Row(*pair, peer=control_plane.PEER) for pair in control_plane.pairs(mine, other)])
            self.remark = control_plane.lost(mine, other)
            print(self.remark, flush=True)

    def start_figures(self) -> None:
        (real_seconds, real_memory), (our_seconds, our_memory) = start_real(kubernetes.build()), control_plane.started()
        self._add(
            [
                groups.Row("control plane: start", real_seconds, our_seconds, "s", peer="Kubernetes"),
                groups.Row("control plane: memory", real_memory, our_memory, "MB", peer="Kubernetes"),
            ]
        )

    def operator_start_figures(self) -> None:
        starts = asyncio.run(operator_start.compare(PODS_PRESENT))
        theirs, ours = starts["lws"], starts["kohort"]
        what = f"operator: start with {PODS_PRESENT} pods present"
        self._add(
            [
                groups.Row(f"{what}: time", theirs.seconds, ours.seconds, "s"),
                groups.Row(f"{what}: peak memory", theirs.megabytes, ours.megabytes, "MB"),
            ]
        )

    def group_figures(self) -> None:
        self._add(groups.rows(asyncio.run(groups.compare(GROUPS, ROUNDS))))

    def _add(self, rows: list[groups.Row]) -> None:
        print(f"\n{groups.markdown(rows)}", flush=True)
        self.table += rows


def run_alone(module: str, words: tuple[str, ...]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    subprocess.run([sys.executable, "-m", f"bench.{module}", *words], check=True, cwd=ROOT, env=environment)


def start_real(binaries: Path) -> tuple[float, float]:
    """Seconds to ready and megabytes of a control plane of four processes."""
    with tempfile.TemporaryDirectory() as directory:
        plane = ControlPlane(binaries, Path(directory) / "plane")
        begun = time.perf_counter()
        try:
            plane.start("kube-controller-manager", "kube-scheduler")
            seconds = time.perf_counter() - begun
            return seconds, sum(servers.resident_megabytes(pid) for pid in plane.pids)
        finally:
            plane.stop()


def machine() -> str:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    name = model[1] if model else platform.machine()
    return f"{name}, {cores} cores, CPython {platform.python_version()}, load before the run {load:.1f}"


def page(run: Run, where: str) -> str:
    return f"""# Side by side

Written by `make bench`; the plot shows the ratios. {where}.

## The embedded control plane and its goals

{run.goals}

Pods are created on {control_plane.WRITERS} connections and are durable when they are answered; pods to Ready are on
{control_plane.NODES} simulated nodes, with all parts of `kohort up` running. Events are small config maps. Rates are
measured {control_plane.ROUNDS} times; others on the machine can only make them lower, so the highest counts.

## Beside others

{GROUPS} groups of {groups.SIZE} pods in sets of {groups.GROUPS_PER_SET}, median of {ROUNDS} round(s), on the API server
of Kubernetes {kubernetes.VERSION} with its StatefulSet controller, garbage collector and scheduler, on simulated nodes.
LeaderWorkerSet {lws.VERSION} and kohort ran one after the other on the same API server, taking turns at who is first.
Below 1 is less than the peer.

![ratios](benchmarks.svg)

{groups.markdown(run.table)}

{run.remark}

Writes are all that the API server counted, from all clients, without events and leases. Processor time and memory
are those of the operator's process. The start of an operator is measured from its command until it has made the first
StatefulSet.
Rates are given as the time that one pod or event takes while the server is kept busy, on the wall and of its
processors; the client program is the same for both servers. `control plane` compares `kohort up` with etcd,
kube-apiserver, kube-controller-manager and kube-scheduler.
"""


def main() -> None:
    compared = ("control_plane", "control_plane_start", "operator_start", "groups")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join((*ALONE, *compared))}")
    wanted: list[str] = parser.parse_args().parts
    if unknown := set(wanted) - {*ALONE, *compared}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    where = machine()
    print(where)
    run = Run(wanted)
    for module, words in ALONE.items():
        run.part(module, partial(run_alone, module, words))
    run.part("control_plane", run.control_plane_figures)
    if kubernetes.find() is None and shutil.which("go") is None:
        print("NOT RUN: comparisons need the real control plane: install Go, or set KUBEBUILDER_ASSETS")
        return
    run.part("control_plane_start", run.start_figures)
    run.part("operator_start", run.operator_start_figures)
    run.part("groups", run.group_figures)
    if run.complete:
        (ROOT / "docs" / "benchmarks.md").write_text(page(run, where))
        (ROOT / "docs" / "benchmarks.svg").write_text(ratio_plot.ratios([(one.what, one.ratio) for one in run.table]))
    if run.failed:
        sys.exit(f"failed: {', '.join(run.failed)}")


if __name__ == "__main__":
    main()
