"""The operator may die at any write of a resize: it ends as it does without a crash, and no pod is recreated."""

import os
from collections.abc import Awaitable, Callable

import pytest
from tests.groups.resize.test_group_resizes import (
    available,
    condition,
    cpus,
    edit,
    order,
    resizable,
    resized,
    restarts,
    status,
    uids,
)
from tests.groups.test_crashes import patiently
from tests.groups.test_lifecycle import create
from tests.installed import installed

from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster
from kohort.testing.crashes import crash_at_every_write

pytestmark = pytest.mark.timeout(600)

STRIDE = int(os.environ.get("KOHORT_CRASH_STRIDE", "12"))
"""Every twelfth write in an ordinary run; `KOHORT_CRASH_STRIDE=1` tries them all."""


def new_cluster() -> Cluster:
    return Cluster(parts=("workloads", "scheduler", "operator"), nodes=4, contents=installed("workloads"))


async def ready(cluster: Cluster, subject: JsonObject) -> dict[str, str]:
    await patiently(lambda: create(cluster, subject))
    await cluster.until(lambda: available(cluster, 2))
    return uids(cluster)


async def transaction(cluster: Cluster) -> None:
    before = await ready(cluster, resizable().replicas(2).size(2))
    await patiently(lambda: edit(cluster))
    await cluster.until(lambda: resized(cluster, 2) and cpus(cluster) == {"200m"})
    await cluster.settle(quiet=10)
    assert uids(cluster) == before
    assert restarts(cluster) == 0


async def reverted(cluster: Cluster) -> None:
    before = await ready(cluster, resizable("InPlaceOnly", deadline=30).replicas(2).size(2))
    await order(cluster, "llm-1-1", resize="deferred")
    await patiently(lambda: edit(cluster))
    await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "DeadlineExceeded")
    await cluster.settle(quiet=10)
    assert status(cluster)["resize"]["state"] == "Stopped"
    assert uids(cluster) == before
    assert cpus(cluster) == {"100m"}


async def superseded(cluster: Cluster) -> None:
    before = await ready(cluster, resizable("InPlaceOnly").replicas(2).size(2))
    await order(cluster, "llm-1-1", resize="deferred")
    await patiently(lambda: edit(cluster))
    await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
    await order(cluster, "llm-1-1", resize="accept")
    await patiently(lambda: edit(cluster, cpu="300m"))
    await cluster.until(lambda: resized(cluster, 2) and cpus(cluster) == {"300m"})
    await cluster.settle(quiet=10)
    assert uids(cluster) == before


@pytest.mark.parametrize("scenario", [transaction, reverted, superseded])
def test_the_operator_can_die_at_any_write(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    assert crash_at_every_write(new_cluster, "operator", scenario, stride=STRIDE) >= 8
