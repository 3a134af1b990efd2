"""The dashboard on a large fleet: how soon the first view is there, how soon a change, and what the server takes.

    python -m bench.dashboard [--sets 1000] [--changes 30] [--failing 0]

Every set has two groups of four pods, one StatefulSet for leaders, two for workers, and a revision. The API server is
in this process, the dashboard in one of its own, as `kohort dashboard` starts it. `--failing` sets have a pod that has
not been ready for long: each of them is explained before the first view, because those that fail are counted.

| figure | goal | from | to |
|---|---|---|---|
| first view | < 1 s | the first request of a browser | the page, completely read |
| update | < 200 ms | a pod's status is written | its event has arrived at the browser |
| memory | < 150 MB | | resident, after both |

The time that the first view takes on a processor is printed as well: other work on the machine does not change it.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from aiohttp import ClientResponse, ClientSession, CookieJar
from tests.children import environment

from kohort.groups.crd import definition
from kohort.kube.client import Client
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEADER_WORKER_SETS,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.operator import wait_established
from kohort.rules import group_labels
from kohort.testing import Cluster

GROUPS, SIZE = 2, 4
NAMESPACE = "default"
REVISION = "5d9955746f"
WRITERS = 32
GOALS = {"first view": 1000.0, "update": 200.0, "memory": 150.0}
"""In milliseconds and megabytes."""
CREATED = "2026-01-01T00:00:00Z"


def template(name: str) -> JsonObject:
    amounts = {"cpu": "2", "memory": "16Gi", "nvidia.com/gpu": "4"}
    main = {"name": "server", "image": f"registry.example.com/{name}:1", "resources": {"limits": amounts}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [main]}}


def group_set(name: str, *, fails: bool = False) -> tuple[JsonObject, JsonObject]:
    spec = {"replicas": GROUPS, "leaderWorkerTemplate": {"size": SIZE, "workerTemplate": template(name)}}
    status = {
        "observedGeneration": 1,
        "replicas": GROUPS,
        "readyReplicas": GROUPS - fails,
        "updatedReplicas": GROUPS,
        "stableRevision": REVISION,
        "updateRevision": REVISION,
        "conditions": [condition("Progressing" if fails else "Available", "GroupsReady")],
    }
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}, status


def condition(type: str, reason: str = "") -> JsonObject:
    return {"type": type, "status": "True", "reason": reason, "message": "", "lastTransitionTime": CREATED}


def labels_of(name: str, **more: str) -> JsonObject:
    return {group_labels.NAME: name, group_labels.REVISION: REVISION, **more}


def pods_of(name: str, *, fails: bool = False) -> Iterable[tuple[JsonObject, JsonObject]]:
    for group in range(GROUPS):
        for index in range(SIZE):
            labels = labels_of(name) | {group_labels.GROUP_INDEX: str(group), group_labels.WORKER_INDEX: str(index)}
            pod = f"{name}-{group}" if index == 0 else f"{name}-{group}-{index}"
            metadata = {"name": pod, "labels": labels, "annotations": {group_labels.SIZE: str(SIZE)}}
            spec = {**template(name)["spec"], "nodeName": f"node-{group}"}
            yield {"metadata": metadata, "spec": spec}, pod_status(ready=not (fails and group == index == 0))


def pod_status(*, ready: bool, restarts: int = 0) -> JsonObject:
    state = {"running": {"startedAt": CREATED}}
    main = {"name": "server", "ready": ready, "restartCount": restarts, "state": state, "image": "x", "imageID": "x"}
    conditions = [condition(one) for one in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
    conditions[-1]["status"] = "True" if ready else "False"
    return {"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions, "containerStatuses": [main]}


def stateful_sets_of(name: str) -> Iterable[tuple[JsonObject, JsonObject]]:
    counts = [(name, GROUPS), *((f"{name}-{group}", SIZE - 1) for group in range(GROUPS))]
    for called, replicas in counts:
        labels = labels_of(name)
        selector = {"matchLabels": {group_labels.NAME: name}}
        pod = template(name) | {"metadata": {"labels": labels}}
        spec = {"replicas": replicas, "serviceName": name, "selector": selector, "template": pod}
        status = {"replicas": replicas, "readyReplicas": replicas, "observedGeneration": 1}
        yield {"metadata": {"name": called, "labels": labels}, "spec": spec}, status


def revision_of(name: str, uid: str) -> JsonObject:
    owner = {"apiVersion": LEADER_WORKER_SETS.api_version, "kind": "LeaderWorkerSet", "name": name, "uid": uid}
    content = {"spec": {"leaderWorkerTemplate": {"size": SIZE, "workerTemplate": template(name)}}}
    metadata: JsonObject = {"name": f"{name}-{REVISION}", "labels": labels_of(name)}
    metadata["ownerReferences"] = [owner | {"controller": True}]
    return {"metadata": metadata, "revision": 1, "data": content}


async def write(client: Client, resource: Resource, document: JsonObject, status: JsonObject) -> JsonObject:
    made: JsonObject = await client.create(resource, document, NAMESPACE)
    await client.patch(resource, made["metadata"]["name"], NAMESPACE, {"status": status}, subresource="status")
    return made


async def fill(client: Client, sets: int, failing: int = 0) -> None:
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    await wait_established(client, definition()["metadata"]["name"])
    turns = asyncio.Semaphore(WRITERS)

    async def one_set(number: int) -> None:
        name = f"model-{number:04}"
        async with turns:
            made = await write(client, LEADER_WORKER_SETS, *group_set(name, fails=number < failing))
            await client.create(CONTROLLER_REVISIONS, revision_of(name, made["metadata"]["uid"]), NAMESPACE)
            for document, status in stateful_sets_of(name):
                await write(client, STATEFUL_SETS, document, status)
            for document, status in pods_of(name, fails=number < failing):
                await write(client, PODS, document, status)

    await asyncio.gather(*(one_set(number) for number in range(sets)))


@asynccontextmanager
async def dashboard(kubeconfig: Path) -> AsyncIterator[tuple[str, int, float]]:
    """The link, the process, and how long it took to start."""
    start = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kohort", "dashboard", "--kubeconfig", str(kubeconfig), "--port", "0"),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        yield line.split()[1], process.pid, time.monotonic() - start
    finally:
        process.terminate()
        await process.wait()


def resident_megabytes(pid: int) -> float:
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def processor_milliseconds(pid: int) -> float:
    """That all threads of a process have had so far."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads) / 1e6


async def first_view(session: ClientSession, link: str) -> float:
    start = time.monotonic()
    async with session.get(link) as answer:
        text = await answer.text()
    assert answer.status == 200 and "model-0000" in text
    return 1000 * (time.monotonic() - start)


async def updates(session: ClientSession, base: str, client: Client, changes: int, *, ready: bool) -> list[float]:
    """Milliseconds for each of some changes of a pod, while the fleet is open; `ready` is what pods were not before."""
    found = []
    async with session.get(f"{base}/dashboard/live?view=/dashboard/") as answer:
        events = _events(answer)
        await anext(events)
        for number in range(changes):
            name = f"model-{number % 40:04}"
            status = pod_status(ready=ready is (number // 40 % 2 == 0))
            start = time.monotonic()
            await client.patch(PODS, f"{name}-0", NAMESPACE, {"status": status}, subresource="status")
            while f'"set-{NAMESPACE}.{name}"' not in await anext(events):
                pass
            found.append(1000 * (time.monotonic() - start))
    return found


async def _events(answer: ClientResponse) -> AsyncIterator[str]:
    async for line in answer.content:
        if line.startswith(b"data: "):
            yield line.decode()


async def measure(sets: int, changes: int, failing: int = 0) -> bool:
    """Prints the figures; whether all goals are met."""
    async with Cluster() as cluster, cluster.listening() as address:
        start = time.monotonic()
        await fill(cluster.client, sets, failing)
        print(f"{sets} sets, {sets * GROUPS * SIZE} pods, written in {time.monotonic() - start:.0f} s", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            async with dashboard(address.kubeconfig(Path(directory))) as (link, pid, took):
                base = link.partition("/dashboard")[0]
                jar = CookieJar(unsafe=True, treat_as_secure_origin=[base])
                async with ClientSession(cookie_jar=jar, read_bufsize=1 << 22) as session:
                    before = processor_milliseconds(pid)
                    first = await first_view(session, link)
                    spent = processor_milliseconds(pid) - before
                    found = await updates(session, base, cluster.client, changes, ready=failing > 0)
                memory = resident_megabytes(pid)
    print(f"started in {took:.1f} s, with all objects read")
    figures = {"first view": first, "update": max(found), "memory": memory}
    print(f"first view: {spent:.0f} ms on a processor, {failing} of {sets} sets fail")
    print(f"update: median {median(found):.0f} ms, slowest of {changes} {max(found):.0f} ms")
    met = True
    for name, value in figures.items():
        unit = "MB" if name == "memory" else "ms"
        good = value < GOALS[name]
        met = met and good
        print(f"{name}: {value:.0f} {unit}, goal < {GOALS[name]:g} {unit}, {'met' if good else 'not met'}")
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=30)
    parser.add_argument("--failing", type=int, default=0)
    given = parser.parse_args()
    raise SystemExit(0 if asyncio.run(measure(given.sets, given.changes, given.failing)) else 1)


if __name__ == "__main__":
    main()
