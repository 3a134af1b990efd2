"""Groups side by side: a released LeaderWorkerSet manager and our operator, on the same real API server.

    python -m bench.groups [--groups 20] [--rounds 1]

Both get the same sets of five groups of four pods, one after the other, on simulated nodes: until all are ready, a new
image through all of them, half of the groups taken away, everything deleted. Wall time is what a user waits, with the
real StatefulSet controller, garbage collector and scheduler in between. Writes are those that the API server counted,
by everybody, events and leases apart. Processor time and memory are the operator's.
"""

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.kubernetes.controlplane import ControlPlane, control_plane
from tests.kubernetes.operators import administrator, simulated_nodes
from tests.kubernetes.upstream import Upstream
from tools.kubernetes import build as kubernetes
from tools.lws import build as lws

from kohort.groups.crd import NAME
from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEADER_WORKER_SETS, NAMESPACES, PODS, STATEFUL_SETS
from kohort.objects.jsontypes import JsonObject
from kohort.operator import wait_established

SIZE = 4
GROUPS_PER_SET = 5
PATIENCE = 600.0
PHASES = ("create", "roll", "scale down", "delete")
_UNLIMITED = ("--kube-api-qps=1000", "--kube-api-burst=2000")
FLAGS = {
    "kube-controller-manager": (*_UNLIMITED, "--concurrent-statefulset-syncs=20", "--concurrent-gc-syncs=50"),
    "kube-scheduler": _UNLIMITED,
}
"""The defaults hold the StatefulSet controller to 20 requests a second, and that is all one would measure."""
_COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")


@dataclass
class Figures:
    """What one operator needed."""

    seconds: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)
    """Per group."""
    cpu: dict[str, float] = field(default_factory=dict)
    memory: float = 0.0
    """Peak, megabytes."""


def group_set(number: int, namespace: str, replicas: int, image: str) -> JsonObject:
    container = {"name": "server", "image": image, "resources": {"requests": {"cpu": "10m"}}}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    return {
        "metadata": {"name": f"set-{number}", "namespace": namespace},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": SIZE, "workerTemplate": template}},
    }


class Course:
    """What both have to do."""

    def __init__(self, client: Client, namespace: str, groups: int) -> None:
        self._client = client
        self._namespace = namespace
        self._sets = max(1, groups // GROUPS_PER_SET)

    def phases(self) -> dict[str, Callable[[], Awaitable[None]]]:
        steps = (self._create, self._roll, self._scale_down, self._delete)
        return dict(zip(PHASES, steps, strict=True))

    async def ready_to_start(self) -> None:
        """Webhooks answer."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    probe = group_set(0, self._namespace, 1, "one:1")
                    await self._client.create(LEADER_WORKER_SETS, probe, dry_run=True)
                except InternalError:
                    await asyncio.sleep(0.2)
                else:
                    return

    async def _create(self) -> None:
        for number in range(self._sets):
            await self._client.create(LEADER_WORKER_SETS, group_set(number, self._namespace, GROUPS_PER_SET, "one:1"))
        await self._settled(GROUPS_PER_SET)

    async def _roll(self) -> None:
        spec = group_set(0, self._namespace, GROUPS_PER_SET, "one:2")["spec"]
        await self._patch({"spec": {"leaderWorkerTemplate": spec["leaderWorkerTemplate"]}})
        await self._settled(GROUPS_PER_SET)

    async def _scale_down(self) -> None:
        await self._patch({"spec": {"replicas": GROUPS_PER_SET // 2}})
        await self._settled(GROUPS_PER_SET // 2)
        await self._until_pods(self._sets * (GROUPS_PER_SET // 2) * SIZE)

    async def _delete(self) -> None:
        for number in range(self._sets):
            await self._client.delete(LEADER_WORKER_SETS, f"set-{number}", self._namespace, propagation="Foreground")
        await self._until_pods(0)
        async with asyncio.timeout(PATIENCE):
            while (await self._client.list(STATEFUL_SETS, self._namespace, metadata_only=True)).items:
                await asyncio.sleep(0.1)

    async def _patch(self, body: JsonObject) -> None:
        for number in range(self._sets):
            await self._client.patch(LEADER_WORKER_SETS, f"set-{number}", self._namespace, body)

    async def _settled(self, replicas: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = (await self._client.list(LEADER_WORKER_SETS, self._namespace)).items
                if len(found) == self._sets and all(_is_settled(one, replicas) for one in found):
                    return
                await asyncio.sleep(0.1)

    async def _until_pods(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len((await self._client.list(PODS, self._namespace, metadata_only=True)).items) != count:
                await asyncio.sleep(0.1)


def _is_settled(group_set: JsonObject, replicas: int) -> bool:
    status = group_set.get("status") or {}
    counters = [status.get(name) for name in ("replicas", "readyReplicas", "updatedReplicas")]
    return counters == [replicas] * 3 and status.get("observedGeneration") == group_set["metadata"]["generation"]


async def writes(client: Client) -> float:
    """What the API server has written for anybody."""
    text = (await client.raw("GET", "/metrics", accept="text/plain")).decode()
    total = 0.0
    for labels, value in _COUNTED.findall(text):
        found = dict(_LABEL.findall(labels))
        if found["verb"] in _WRITES and found["resource"] not in ("events", "leases") and not found.get("dry_run"):
            total += float(value)
    return total


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no memory figure for process {pid}")


async def run_course(client: Client, namespace: str, groups: int, pid: int) -> Figures:
    figures = Figures()
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    course = Course(client, namespace, groups)
    await course.ready_to_start()
    for name, phase in course.phases().items():
        before, cpu, begun = await writes(client), cpu_seconds(pid), time.perf_counter()
        await phase()
        figures.seconds[name] = time.perf_counter() - begun
        figures.cpu[name] = cpu_seconds(pid) - cpu
        figures.writes[name] = (await writes(client) - before) / groups
    figures.memory = peak_megabytes(pid)
    return figures


@contextmanager
def our_operator(plane: ControlPlane, directory: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "kohort", "operator", "--kubeconfig", str(plane.kubeconfig)]
    with (directory / "kohort.log").open("ab") as log:
        process = subprocess.Popen([*command, "--no-leader-elect", "--no-rollouts"], stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


async def compare(groups: int, rounds: int) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = {"lws": [], "kohort": []}
    programs = kubernetes.build()
    lws.build()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as name:
        directory = Path(name)
        components = ("kube-controller-manager", "kube-scheduler")
        with control_plane(programs, directory / "plane", *components, flags=FLAGS) as plane:
            async with administrator(plane) as client, simulated_nodes(plane, max(8, groups // 10)):
                for number in range(rounds):
                    theirs = Upstream(plane.kubeconfig, directory / f"upstream-{number}")
                    await theirs.prepare(client)
                    theirs.start()
                    assert theirs.process is not None
                    try:
                        found["lws"].append(await run_course(client, f"lws-{number}", groups, theirs.process.pid))
                    finally:
                        theirs.stop()
                    await _forget_definitions(client)
                    with our_operator(plane, directory) as pid:
                        await _definitions_served(client)
                        found["kohort"].append(await run_course(client, f"kohort-{number}", groups, pid))
                    await _forget_definitions(client)
    return found


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

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.theirs else float("inf")


def rows(found: dict[str, list[Figures]]) -> list[Row]:
    """Medians over the rounds."""

    def row(what: str, unit: str, value: Callable[[Figures], float]) -> Row:
        theirs, ours = ([value(one) for one in found[name]] for name in ("lws", "kohort"))
        return Row(what, statistics.median(theirs), statistics.median(ours), unit)

    table = [row(f"{phase}: time", "s", lambda one, phase=phase: one.seconds[phase]) for phase in PHASES]
    table += [row(f"{phase}: writes per group", "", lambda one, phase=phase: one.writes[phase]) for phase in PHASES]
    table.append(row("writes per group, all phases", "", lambda one: sum(one.writes.values())))
    table.append(row("operator: processor time", "s", lambda one: sum(one.cpu.values())))
    table.append(row("operator: peak memory", "MB", lambda one: one.memory))
    return table


def markdown(table: list[Row]) -> str:
    lines = ["| | peer | peer's figure | kohort | ratio |", "|---|---|---:|---:|---:|"]
    for one in table:
        unit = f" {one.unit}" if one.unit else ""
        lines.append(f"| {one.what} | {one.peer} | {one.theirs:.1f}{unit} | {one.ours:.1f}{unit} | {one.ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    full = bool(os.environ.get("BENCH_FULL"))
    parser.add_argument("--groups", type=int, default=250 if full else 20)
    parser.add_argument("--rounds", type=int, default=3 if full else 1)
    options = parser.parse_args()
    print(markdown(rows(asyncio.run(compare(options.groups, options.rounds)))))


if __name__ == "__main__":
    main()
