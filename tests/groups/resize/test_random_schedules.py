"""Random schedules of edits, nodes that defer or refuse, lost pods and operators that die, on virtual time.

Whatever happens: in the end all groups have the resources of the last edit; no pod was recreated but those that were
lost; no container restarted; and a set was never reported Available with a group of two sizes.

KOHORT_RESIZE_SCHEDULES=1000 runs as many of them. A failure names its seed, which reproduces it.
"""

import asyncio
import contextlib
import os
import random

import pytest
from tests.groups.resize.test_group_resizes import (
    NAMESPACE,
    available,
    cluster_with_groups,
    create,
    edit,
    group_set,
    order,
    pods,
    resizable,
    restarts,
    uids,
)

from kohort.kube.errors import NotFound
from kohort.kube.resources import PODS
from kohort.rules import group_labels
from kohort.testing import Cluster

SCHEDULES = int(os.environ.get("KOHORT_RESIZE_SCHEDULES", "8"))
OUTCOMES = ("accept", "accept", "deferred", "infeasible", "error")


def sizes_by_group(cluster: Cluster) -> dict[str, set[str]]:
    sizes: dict[str, set[str]] = {}
    for one in pods(cluster).values():
        index = one["metadata"]["labels"].get(group_labels.GROUP_INDEX, "")
        sizes.setdefault(index, set()).add(one["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    return sizes


async def watch_sizes(cluster: Cluster, groups: int) -> None:
    """Fail when the set is Available while a group has two sizes."""
    while True:
        await asyncio.sleep(0.2)
        if available(cluster, groups):
            mixed = {index: sizes for index, sizes in sizes_by_group(cluster).items() if len(sizes) > 1}
            assert not mixed, f"Available with groups of two sizes: {mixed}"


async def one_step(cluster: Cluster, chance: random.Random, lost: set[str]) -> None:
    name = chance.choice(sorted(pods(cluster)) or ["llm-0"])
    match chance.randrange(6):
        case 0 | 1:
            await edit(cluster, cpu=chance.choice(["100m", "150m", "200m", "300m"]))
        case 2 | 3:
            try:
                await order(cluster, name, resize=chance.choice(OUTCOMES))
            except NotFound:
                return
        case 4:
            await cluster.parts["operator"].crash()
            await asyncio.sleep(chance.uniform(0, 5))
            await cluster.parts["operator"].restart()
        case 5 if name.count("-") == 2:
            await cluster.client.delete(PODS, name, NAMESPACE)
            lost.add(name)


async def accept_everywhere(cluster: Cluster) -> None:
    for name in sorted(pods(cluster)):
        with contextlib.suppress(NotFound):
            await order(cluster, name, resize="accept")


@pytest.mark.parametrize("seed", range(SCHEDULES))
async def test_every_schedule_ends_with_the_last_edit(seed: int) -> None:
    chance = random.Random(seed)
    groups, size = chance.randint(1, 3), chance.randint(2, 3)
    async with cluster_with_groups(nodes=4) as cluster:
        subject = resizable("InPlaceOnly", deadline=chance.choice([20, 120])).replicas(groups).size(size)
        await create(cluster, subject.restart("None"), groups)
        before, lost = uids(cluster), set[str]()
        watching = asyncio.create_task(watch_sizes(cluster, groups))
        for _ in range(chance.randint(3, 10)):
            await one_step(cluster, chance, lost)
            await asyncio.sleep(chance.choice([0, 0.1, 1, 30]))
        await accept_everywhere(cluster)
        await asyncio.sleep(150)
        await accept_everywhere(cluster)
        await edit(cluster, cpu="400m")
        wanted = {str(index): {"400m"} for index in range(groups)}
        await cluster.until(lambda: available(cluster, groups) and sizes_by_group(cluster) == wanted, timeout=3600)
        assert not watching.done() or watching.exception() is None
        watching.cancel()
        after = uids(cluster)
        assert {name for name in after if after[name] != before.get(name)} <= lost, group_set(cluster)["status"]
        assert restarts(cluster) == 0
