"""A resize from the request to the status that says it is done, and a full node.

python -m bench.resize [--rounds 100] [--full 110]

An API server and a node agent, each a process of its own, talking HTTPS; pods are processes of this machine. Where
cgroup v2 can be written to, every resize is written to the kernel and read back; elsewhere the agent judges, records
and reports, the first line says so, and all of it runs once more in user-mode-linux on a pure cgroup v2 kernel: slower
in everything, but complete.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tests.kernel.machine import in_user_mode_linux, missing

from kohort.kube import kubeconfig
from kohort.kube.client import Client, PatchType
from kohort.kube.resources import NODES, PODS
from kohort.node.cgroups import find_parent
from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod

NODE = "bench"
SMALL = {"cpu": "10m", "memory": "16Mi"}
LARGE = {"cpu": "20m", "memory": "24Mi"}
GOAL_MILLISECONDS = 200
SHOWN = ("cgroup v2", "no writable", "resize of", "agent with", *map(str, range(1, 10)))
"""How lines of the report begin; the console of another kernel has more to say."""


def pod(name: str) -> JsonObject:
    container = {"name": "main", "image": "host", "command": ["sleep", "100000"], "resources": {"requests": SMALL}}
    spec = {
        "nodeName": NODE,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


class Watched:
    """Every pod as its last event showed it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pods: dict[str, Pod] = {}
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        async for event in self._client.watch(PODS, "default", type=Pod):
            self._pods[event.object.metadata.name] = event.object
            self._changed.set()

    async def until_resized(self, name: str, generation: int) -> None:
        while not ((found := self._pods.get(name)) is not None and resized(found, generation)):
            self._changed.clear()
            await self._changed.wait()

    async def until_ready(self, count: int) -> None:
        while sum(each.ready for each in self._pods.values()) < count:
            self._changed.clear()
            await self._changed.wait()


def resized(pod: Pod, generation: int) -> bool:
    """The node has seen the generation and has nothing left to do for it."""
    status = pod.status
    return (status.observed_generation or 0) >= generation and not any(
        each.type.startswith("PodResize") for each in status.conditions
    )


async def resize(client: Client, watched: Watched, name: str, requests: JsonObject) -> float:
    """Milliseconds from the request to the complete status."""
    begun = time.perf_counter()
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
    answer = await client.patch(PODS, name, "default", patch, PatchType.STRATEGIC, "resize", type=Pod)
    await asyncio.wait_for(watched.until_resized(name, answer.metadata.generation), 60)
    return (time.perf_counter() - begun) * 1000


async def measure_resizes(client: Client, watched: Watched, node: int, names: list[str], rounds: int) -> str:
    taken: list[float] = []
    cpu = cpu_seconds(node)
    for number in range(rounds):
        requests = LARGE if number % 2 == 0 else SMALL
        taken += await asyncio.gather(*(resize(client, watched, name, requests) for name in names))
    cpu = (cpu_seconds(node) - cpu) / len(taken) * 1000
    taken.sort()
    half, most = taken[len(taken) // 2], taken[min(len(taken) - 1, len(taken) * 99 // 100)]
    goal = f" (goal {GOAL_MILLISECONDS})" if most > GOAL_MILLISECONDS else ""
    return (
        f"resize of {len(names)} pod(s) at once: p50 {half:.0f} ms, p99 {most:.0f} ms{goal}, {len(taken)} resizes, "
        f"{cpu:.1f} ms of processor time of the agent each"
    )


async def measure(directory: Path, node: "subprocess.Popen[str]", rounds: int, full: int) -> AsyncIterator[str]:
    client = Client(kubeconfig.load(directory / "kubeconfig"))
    watched = Watched(client)
    following = asyncio.create_task(watched.follow())
    names = [f"pod-{number}" for number in range(full)]
    try:
        found = await client.get(NODES, NODE, type=Node)
        assert found.metadata.name == NODE
        for count in (1, 8):
            for name in names[count - 1 if count == 1 else 1 : count]:
                await client.create(PODS, pod(name), "default")
            await asyncio.wait_for(watched.until_ready(count), 120)
            yield await measure_resizes(
                client, watched, node.pid, names[:count], rounds if count == 1 else max(rounds // 4, 4)
            )
        cpu, begun = cpu_seconds(node.pid), time.perf_counter()
        await asyncio.gather(*(client.create(PODS, pod(name), "default") for name in names[8:]))
        await asyncio.wait_for(watched.until_ready(full), 600)
        seconds, cpu = time.perf_counter() - begun, cpu_seconds(node.pid) - cpu
        yield (
            f"{full} pods on one node: the last {full - 8} Ready in {seconds:.1f} s, "
            f"{cpu / (full - 8) * 1000:.1f} ms of processor time of the agent per pod"
        )
        cpu, begun = cpu_seconds(node.pid), time.perf_counter()
        await asyncio.sleep(10)
        idle = (cpu_seconds(node.pid) - cpu) / (time.perf_counter() - begun)
        yield f"agent with {full} pods: {resident_megabytes(node.pid):.0f} MB, {idle * 100:.1f}% of a processor at rest"
        yield await measure_resizes(client, watched, node.pid, names[:1], max(rounds // 4, 4)) + f", among {full} pods"
    finally:
        following.cancel()
        await client.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def running(ready: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-m", "kohort", *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and not line.startswith(ready):
            pass
        if not line:
            raise RuntimeError(f"kohort {words[0]} did not become ready")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


async def report(rounds: int, full: int) -> None:
    if find_parent() is not None:
        print("cgroup v2 is written to: every resize reaches the kernel and is read back", flush=True)
    else:
        print("no writable cgroup v2 here: resizes are judged, recorded and reported, not enforced", flush=True)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        server = ("up", "--data-dir", str(directory), "--port", "0", "--parts", "apiserver")
        joined = ("node", "--kubeconfig", str(directory / "kubeconfig"), "--name", NODE, "--stop-pods")
        sizes = ("--data-dir", str(directory / "agent"), "--capacity", "cpu=64", "--capacity", "pods=1000")
        with running("ready", *server), running("node ready", *joined, *sizes) as node:
            async for line in measure(directory, node, rounds, full):
                print(line, flush=True)


def inside_another_kernel(rounds: int, full: int) -> str:
    output = in_user_mode_linux([__file__, "--rounds", str(rounds), "--full", str(full), "--here"], seconds=600)
    lines = output.replace("\r", "").splitlines()
    return "\n".join(line for line in lines if line.startswith(SHOWN)) or f"failed:\n{output[-2000:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--full", type=int, default=110)
    parser.add_argument("--here", action="store_true", help="only on this kernel, whatever it is")
    options = parser.parse_args()
    asyncio.run(report(options.rounds, options.full))
    if options.here or find_parent() is not None:
        return
    if reason := missing():
        print(f"NOT RUN: the same with cgroup v2: {reason}")
        return
    print("\nin user-mode-linux, where every system call costs many times as much:")
    print(inside_another_kernel(max(options.rounds // 8, 4), options.full // 5))


if __name__ == "__main__":
    main()
