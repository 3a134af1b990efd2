"""How long an operator takes to start on a cluster with many pods.

    python -m bench.operator_start [--pods 10000]

A real API server holds thousands of pods of groups, and one new set. Time is measured from the start of the process
until the StatefulSet of that set exists: the operator has read everything by then. The pods are workers of sets that no
longer exist, so the operator has nothing else to do.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.group_lifecycle import peak_megabytes
from bench.groups import compiled_operator, our_operator
from bench.servers import cpu_seconds
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tests.kubernetes.operators import administrator
from tests.kubernetes.upstream import Upstream, released_definitions
from tools.kubernetes import build as kubernetes
from tools.lws import build as lws

from kohort.groups.crd import NAME
from kohort.kube.client import Client
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.operator import definitions, wait_established
from kohort.rules import group_labels

FLAGS = {"kube-apiserver": ("--disable-admission-plugins=ServiceAccount",)}
"""There is no controller that would make service accounts."""
WRITERS = 32
PATIENCE = 120.0
SPACE = "default"


@dataclass(frozen=True)
class OperatorStart:
    seconds: float
    processor: float
    """Seconds, of all its cores."""
    megabytes: float


def worker(number: int) -> JsonObject:
    group, index = divmod(number, 7)
    labels = {
        group_labels.NAME: f"gone-{group // 10}",
        group_labels.GROUP_INDEX: str(group % 10),
        group_labels.WORKER_INDEX: str(index + 1),
    }
    return {
        "metadata": {"name": f"gone-{group // 10}-{group % 10}-{index + 1}", "labels": labels},
        "spec": {"nodeName": f"node-{number % 100}", "containers": [{"name": "server", "image": "one:1"}]},
    }


async def create_pods(client: Client, pods: int) -> None:
    numbers = iter(range(pods))

    async def write() -> None:
        for number in numbers:
            await client.create(PODS, worker(number), SPACE)

    await asyncio.gather(*(write() for _ in range(WRITERS)))


async def measure_start(client: Client, start: Callable[[], AbstractContextManager[int]]) -> OperatorStart:
    template = {"spec": {"containers": [{"name": "server", "image": "one:1"}]}}
    rolling = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
    spec = {
        "replicas": 1,
        "leaderWorkerTemplate": {"size": 2, "workerTemplate": template, "restartPolicy": "RecreateGroupOnPodRestart"},
        # Defaults that webhooks would set; none run yet.
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": rolling},
        "networkConfig": {"subdomainPolicy": "Shared"},
        "startupPolicy": "LeaderCreated",
    }
    await client.create(LEADER_WORKER_SETS, {"metadata": {"name": "waiting"}, "spec": spec}, SPACE)
    begun = time.perf_counter()
    with start() as pid:
        async with asyncio.timeout(PATIENCE):
            while await client.find(STATEFUL_SETS, "waiting", SPACE) is None:
                await asyncio.sleep(0.02)
        found = OperatorStart(time.perf_counter() - begun, cpu_seconds(pid), peak_megabytes(pid))
    await client.delete(STATEFUL_SETS, "waiting", SPACE)
    return found


async def _define(client: Client, definitions: list[JsonObject]) -> None:
    for one in definitions:
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, one, field_manager="bench")
        await wait_established(client, one["metadata"]["name"])


async def compare(pods: int) -> dict[str, OperatorStart]:
    """By operator. Each has its own definition, just as its installation leaves it (an operator that finds another one
    brings it up to date first, and the API server then serves the kind anew), so the set of the first is deleted before
    the second starts."""
    lws.build()
    compiled_operator()  # both are compiled before the clock runs
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as name:
        directory = Path(name)
        with control_plane(kubernetes.build(), directory / "plane", flags=FLAGS) as plane:
            async with administrator(plane) as client:
                await create_pods(client, pods)
                await _define(client, released_definitions())
                theirs = await measure_start(client, lambda: _their_operator(plane, directory))
                await client.delete(CUSTOM_RESOURCE_DEFINITIONS, NAME)
                async with asyncio.timeout(PATIENCE):
                    while await client.find(CUSTOM_RESOURCE_DEFINITIONS, NAME) is not None:
                        await asyncio.sleep(0.1)
                await _define(client, definitions(rollouts=False))
                ours = await measure_start(client, lambda: our_operator(plane, directory))
    return {"lws": theirs, "kohort": ours}


@contextmanager
def _their_operator(plane: ControlPlane, directory: Path) -> Iterator[int]:
    """Without a webhook configuration, the API server does not call its webhooks."""
    manager = Upstream(plane.kubeconfig, directory / "upstream")
    manager.certify()
    manager.start()
    assert manager.process is not None
    try:
        yield manager.process.pid
    finally:
        manager.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    options = parser.parse_args()
    for name, found in asyncio.run(compare(options.pods)).items():
        spent = f"{found.processor:.1f} s of processor time, {found.megabytes:.0f} MB"
        print(f"{name}: {found.seconds:.1f} s until the first reconcile, {spent}")


if __name__ == "__main__":
    main()
