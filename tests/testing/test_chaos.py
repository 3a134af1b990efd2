"""Whatever goes wrong on the way, in the end there is what was asked for."""

import asyncio

import pytest
from tests.builders import deployment, job, service, stateful_set

from kohort.kube.resources import DEPLOYMENTS, ENDPOINT_SLICES, JOBS, PODS, SERVICES, STATEFUL_SETS
from kohort.testing import Cluster, virtual_time


@pytest.mark.parametrize("seed", range(4))
def test_workloads_converge_after_chaos(seed: int) -> None:
    virtual_time.run(_story(seed), seed=seed)


async def _story(seed: int) -> None:
    async with Cluster(parts=("workloads",)) as cluster:
        faults = cluster.faults("workloads")
        faults.chaos(0.2, seed=seed)
        await cluster.client.create(DEPLOYMENTS, deployment("web").replicas(4))
        await cluster.client.create(STATEFUL_SETS, stateful_set("db").replicas(3).parallel())
        await cluster.client.create(JOBS, job("once").completions(2, parallelism=2))
        await cluster.client.create(SERVICES, service("web").selecting(app="web").port(80))
        await asyncio.sleep(30)
        await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 2}})
        await asyncio.sleep(200)
        faults.clear()
        await cluster.settle()
        owners = sorted(pod["metadata"]["ownerReferences"][0]["kind"] for pod in cluster.objects(PODS))
        assert owners == ["Job", "Job", "ReplicaSet", "ReplicaSet", "StatefulSet", "StatefulSet", "StatefulSet"]
        assert len(cluster.objects(ENDPOINT_SLICES, "default")) >= 1
