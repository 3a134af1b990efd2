"""Whatever happens to the controller, every pod of a Job counts exactly once."""

import asyncio

import pytest
from tests.cluster.workloads.puppet import NS, template

from kohort.kube.errors import NotFound
from kohort.kube.resources import JOBS, PODS
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster
from kohort.testing.crashes import crash_at_every_write

PARTS = ("workloads",)
SPEC: JsonObject = {
    "completions": 3,
    "parallelism": 2,
    "backoffLimit": 6,
    "template": template({"j": "x"}, restartPolicy="Never"),
}


async def play_node(cluster: Cluster) -> int:
    """Ends pods as they come, the first of them badly, until the Job is over. How many there were."""
    ended: set[str] = set()
    while True:
        job = cluster.find(JOBS, "job", NS) or {}
        if any(one["type"] == "Complete" for one in (job.get("status") or {}).get("conditions") or []):
            return len(ended)
        for pod in cluster.objects(PODS, NS):
            uid = pod["metadata"]["uid"]
            if uid in ended:
                continue
            phase = "Failed" if not ended else "Succeeded"
            try:
                name = pod["metadata"]["name"]
                await cluster.client.patch(PODS, name, NS, {"status": {"phase": phase}}, subresource="status")
            except NotFound:
                continue
            ended.add(uid)
        await asyncio.sleep(1)


async def story(cluster: Cluster) -> None:
    await cluster.client.create(JOBS, {"metadata": {"name": "job", "namespace": NS}, "spec": SPEC})
    async with asyncio.timeout(3600):
        played = await play_node(cluster)
    await cluster.settle()
    status = (cluster.find(JOBS, "job", NS) or {})["status"]
    assert (status["succeeded"], status["failed"]) == (3, 1)
    assert played == 4, "no pod too many, none that was not counted"
    assert not any(pod["metadata"].get("finalizers") for pod in cluster.objects(PODS, NS))


def test_a_controller_that_dies_at_any_write_counts_every_pod_once() -> None:
    assert crash_at_every_write(lambda: Cluster(parts=PARTS), "workloads", story, stride=3) >= 10


@pytest.mark.parametrize("seed", (0, 2, 6))
async def test_a_cache_that_is_behind_counts_every_pod_once(seed: int) -> None:
    async with Cluster(parts=PARTS) as cluster:
        cluster.faults("workloads").chaos(0.1, seed=seed)
        await story(cluster)
