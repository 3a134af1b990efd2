"""The operator may die at any of its writes: groups end as they do without a crash."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest
from tests.builders import lws
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import NAMESPACE, create, images, patch, pods, settled
from tests.installed import installed

from kohort.kube.errors import InternalError
from kohort.kube.resources import LEADER_WORKER_SETS, PODS
from kohort.rules import group_labels
from kohort.testing import Cluster
from kohort.testing.crashes import crash_at_every_write

pytestmark = pytest.mark.timeout(600)

STRIDE = int(os.environ.get("KOHORT_CRASH_STRIDE", "12"))
"""Every twelfth write in an ordinary run; `KOHORT_CRASH_STRIDE=1` tries them all."""


def new_cluster() -> Cluster:
    return Cluster(parts=("workloads", "scheduler", "operator"), nodes=4, contents=installed("workloads"))


async def patiently(attempt: Callable[[], Awaitable[None]]) -> None:
    """While the operator is down, its webhooks are; a user tries again."""
    while True:
        try:
            await attempt()
        except InternalError:
            await asyncio.sleep(0.5)
        else:
            return


async def creation_and_roll(cluster: Cluster) -> None:
    await patiently(lambda: create(cluster, lws("llm").replicas(2).size(2).max_surge(1)))
    await cluster.until(lambda: settled(cluster, 2))
    await patiently(lambda: patch(cluster, "llm", new_image("new:2")))
    await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})
    await cluster.settle(quiet=10)
    assert sorted(pods(cluster)) == ["llm-0", "llm-0-1", "llm-1", "llm-1-1"]
    revisions = {one["metadata"]["labels"][group_labels.REVISION] for one in pods(cluster).values()}
    assert len(revisions) == 1


async def loss_and_end(cluster: Cluster) -> None:
    await patiently(lambda: create(cluster, lws("llm").replicas(1).size(2)))
    await cluster.until(lambda: settled(cluster, 1))
    await cluster.client.delete(PODS, "llm-0-1", NAMESPACE)
    await cluster.settle(quiet=10)
    await cluster.until(lambda: settled(cluster, 1))
    await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE, propagation="Foreground")
    await cluster.until(lambda: not pods(cluster))


def test_creation_and_roll() -> None:
    assert crash_at_every_write(new_cluster, "operator", creation_and_roll, stride=STRIDE) >= 2


def test_loss_and_end() -> None:
    assert crash_at_every_write(new_cluster, "operator", loss_and_end, stride=STRIDE) >= 2
