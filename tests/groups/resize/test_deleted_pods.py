"""Pods that are deleted after a pass has planned to write to them, and before it does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.builders import LeaderWorkerSet
from tests.groups.resize.test_group_resizes import (
    NAMESPACE,
    cluster_with_groups,
    condition,
    cpus,
    create,
    edit,
    order,
    pods,
    resizable,
    resized,
)

from kohort.groups.resize.record import Phase, read_record
from kohort.kube.http import Request
from kohort.kube.resources import PODS
from kohort.testing import Cluster


def two_at_a_time(policy: str) -> LeaderWorkerSet:
    """A deleted worker recreates no group, and the same pass writes to group 1 and then to group 0."""
    subject = resizable(policy, deadline=30).replicas(2).size(3).but("spec.leaderWorkerTemplate.restartPolicy", "None")
    return subject.but("spec.rolloutStrategy.rollingUpdateConfiguration", {"maxUnavailable": 2})


def is_recorded(cluster: Cluster, phase: Phase) -> bool:
    """Of both groups."""
    records = [read_record(pods(cluster)[name]["metadata"].get("annotations") or {}) for name in ("llm-0", "llm-1")]
    return all(record is not None and record.phase is phase for record in records)


@asynccontextmanager
async def deleted_during_the_write_before(cluster: Cluster, name: str, phase: Phase) -> AsyncIterator[None]:
    """The operator sees that both groups are in a phase at the same moment, so that one pass writes to both. While its
    write to group 1 is on its way, a pod of group 0 is deleted, and not replaced yet."""
    begun, faults = asyncio.Event(), cluster.faults("operator")

    def of_group_1(request: Request) -> bool:
        found = request.path.endswith("/pods/llm-1-1/resize") and not request.param("dryRun")
        if found:
            begun.set()
        return found

    held = faults.hold(PODS)
    faults.slow_down(5, on=of_group_1, times=1)
    yield
    await cluster.until(lambda: is_recorded(cluster, phase))
    faults.release(held)
    await begun.wait()
    await cluster.parts["workloads"].crash()
    await cluster.client.delete(PODS, name, NAMESPACE, grace_seconds=0)
    await asyncio.sleep(20)
    assert name not in pods(cluster)
    await cluster.parts["workloads"].restart()


@pytest.mark.parametrize("name", ["llm-0-1", "llm-0"])
async def test_a_pod_that_is_deleted_between_plan_and_write_of_a_resize(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, two_at_a_time("InPlaceOrRecreate"), 2)
        async with deleted_during_the_write_before(cluster, name, Phase.RESIZING):
            await edit(cluster)
        await cluster.until(lambda: resized(cluster, 2) and cpus(cluster) == {"200m"})
        assert "reconcile failed" not in capsys.readouterr().err


async def test_a_pod_that_is_deleted_between_plan_and_write_of_a_revert(capsys: pytest.CaptureFixture[str]) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, two_at_a_time("InPlaceOnly"), 2)
        for name in ("llm-0-2", "llm-1-2"):
            await order(cluster, name, resize="deferred")
        await edit(cluster)
        await asyncio.sleep(10)
        async with deleted_during_the_write_before(cluster, "llm-0-1", Phase.REVERTING):
            pass
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "DeadlineExceeded")
        await cluster.settle(quiet=10)
        assert cpus(cluster) == {"100m"}
        assert "reconcile failed" not in capsys.readouterr().err
