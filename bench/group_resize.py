"""Other resources for running groups: in place, and the same edit with groups that are recreated.

    python -m bench.group_resize [--groups 100] [--size 8] [--sets 10] [--rounds 50]

All in the one process of `kohort up`, on simulated nodes without latency. The first figure is about one group alone:
from the edit of the template to the status which says that the group has the new revision. The others are about all
groups together, one group of each set at a time; writes are those that the API server counted, of all clients, nodes
included, without events and leases.
"""

import argparse
import asyncio
import contextlib
import time
from dataclasses import dataclass

from bench import servers
from bench.group_lifecycle import PATIENCE, is_settled, writes
from bench.servers import cpu_seconds

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.resources import LEADER_WORKER_SETS, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules.simulation_labels import PREFIX

NAMESPACE = "default"
ENDING = "1s"
"""How long a pod takes to end, as in the other benches of groups."""
GOAL_SECONDS, GOAL_WRITES = 1.0, 6.0
PODS_PER_NODE = 100


@dataclass(frozen=True, slots=True)
class Edit:
    """What one edit of all sets needed."""

    seconds: float
    cpu: float
    writes_per_pod: float
    recreated: int


def group_set(name: str, groups: int, size: int, policy: str) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": groups,
            "rolloutStrategy": {"type": "RollingUpdate", "resourceUpdatePolicy": policy},
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template("10m")},
        },
    }


def template(cpu: str) -> JsonObject:
    container = {"name": "server", "image": "model", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"annotations": {f"{PREFIX}termination-latency": ENDING}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
    }


class Watched:
    """Every set as its last event showed it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sets: dict[str, JsonObject] = {}
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        async for event in self._client.watch(LEADER_WORKER_SETS, NAMESPACE):
            self._sets[event.object["metadata"]["name"]] = event.object
            self._changed.set()

    async def until_settled(self, names: list[str], groups: int, generations: dict[str, int]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not all(self._is_settled(name, groups, generations.get(name, 0)) for name in names):
                self._changed.clear()
                await self._changed.wait()

    def _is_settled(self, name: str, groups: int, generation: int) -> bool:
        found = self._sets.get(name)
        return found is not None and found["metadata"]["generation"] >= generation and is_settled(found, groups)


async def created(client: Client, document: JsonObject) -> None:
    """As soon as the webhooks answer."""
    while True:
        try:
            await client.create(LEADER_WORKER_SETS, document)
        except InternalError:
            await asyncio.sleep(0.2)
        else:
            return


async def edited(client: Client, names: list[str], cpu: str) -> dict[str, int]:
    body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template(cpu)}}}
    answers = [await client.patch(LEADER_WORKER_SETS, name, NAMESPACE, body) for name in names]
    return {answer["metadata"]["name"]: answer["metadata"]["generation"] for answer in answers}


async def uids(client: Client) -> set[str]:
    return {one["metadata"]["uid"] for one in (await client.list(PODS, NAMESPACE)).items}


async def one_group(client: Client, watched: Watched, pid: int, size: int, rounds: int) -> str:
    """Edits of a set with one group, one after the other."""
    await created(client, group_set("single", 1, size, "InPlaceOnly"))
    await watched.until_settled(["single"], 1, {})
    before, taken, cpu = await uids(client), list[float](), cpu_seconds(pid)
    for number in range(rounds):
        begun = time.perf_counter()
        generations = await edited(client, ["single"], "20m" if number % 2 == 0 else "10m")
        await watched.until_settled(["single"], 1, generations)
        taken.append(time.perf_counter() - begun)
    cpu = (cpu_seconds(pid) - cpu) / rounds
    assert await uids(client) == before, "a pod was recreated"
    await client.delete(LEADER_WORKER_SETS, "single", NAMESPACE, propagation="Foreground")
    while (await client.list(PODS, NAMESPACE)).items:  # noqa: ASYNC110  nothing else is measured meanwhile
        await asyncio.sleep(0.2)
    taken.sort()
    half, most = taken[len(taken) // 2], taken[min(len(taken) - 1, len(taken) * 99 // 100)]
    missed = f" (goal {GOAL_SECONDS:g})" if most > GOAL_SECONDS else ""
    return (
        f"one group of {size} pods in place: p50 {half:.2f} s, p99 {most:.2f} s{missed}, {rounds} edits, "
        f"{cpu:.2f} s of processor time each"
    )


async def all_groups(client: Client, watched: Watched, pid: int, names: list[str], groups: int, cpu: str) -> Edit:
    before, counted, spent, begun = await uids(client), await writes(client), cpu_seconds(pid), time.perf_counter()
    await watched.until_settled(names, groups, await edited(client, names, cpu))
    seconds = time.perf_counter() - begun
    after = await uids(client)
    per_pod = (await writes(client) - counted) / len(after)
    return Edit(seconds, cpu_seconds(pid) - spent, per_pod, len(after - before))


async def measure(server: servers.Server, groups: int, size: int, sets: int, rounds: int) -> list[str]:
    client = Client(kubeconfig.load(server.kubeconfig))
    watched = Watched(client)
    following = asyncio.create_task(watched.follow())
    try:
        pid = server.pids[0]
        shown = [await one_group(client, watched, pid, size, rounds)]
        names = [f"set-{number}" for number in range(sets)]
        each = groups // sets
        for name in names:
            await created(client, group_set(name, each, size, "InPlaceOnly"))
        await watched.until_settled(names, each, {})
        shown.append(
            line("in place", groups, size, await all_groups(client, watched, server.pids[0], names, each, "20m"))
        )
        for name in names:
            body = {"spec": {"rolloutStrategy": {"resourceUpdatePolicy": "Recreate"}}}
            await client.patch(LEADER_WORKER_SETS, name, NAMESPACE, body)
        shown.append(
            line("recreated", groups, size, await all_groups(client, watched, server.pids[0], names, each, "10m"))
        )
        return shown
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await client.close()


def line(how: str, groups: int, size: int, edit: Edit) -> str:
    missed = f" (goal {GOAL_WRITES:g})" if how == "in place" and edit.writes_per_pod > GOAL_WRITES else ""
    return (
        f"{groups} groups of {size} pods {how}: {edit.seconds:.1f} s, {edit.cpu:.1f} s of processor time, "
        f"{edit.writes_per_pod:.1f} writes per pod{missed}, {edit.recreated} pods recreated"
    )


def run(groups: int, size: int, sets: int, rounds: int) -> list[str]:
    nodes = max(10, groups * size // PODS_PER_NODE)
    with servers.kohort("--simulated-nodes", str(nodes)) as server:
        return asyncio.run(measure(server, groups, size, sets, rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    print("\n".join(run(options.groups, options.size, options.sets, options.rounds)))


if __name__ == "__main__":
    main()
