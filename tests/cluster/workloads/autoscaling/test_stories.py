"""Every story with our controller, on virtual time."""

import asyncio

import pytest
from tests.cluster.workloads.autoscaling.stories import STORIES, Outcome, Story, begin, go_on, outcome, prepare

from kohort.cluster.workloads.autoscaling.controller import register
from kohort.testing import Cluster

NAMESPACE = "story"
LONG_ENOUGH = 120.0
"""Eight periods, and less than the window of five minutes."""


async def outcomes(told: Story) -> list[Outcome]:
    """After the beginning, and after what happens next, if there is something."""
    async with Cluster(extra={"autoscaling": register}) as cluster:
        await prepare(cluster.client)
        await begin(cluster.client, told, NAMESPACE)
        await asyncio.sleep(LONG_ENOUGH)
        found = [await outcome(cluster.client, NAMESPACE)]
        if told.next is not None:
            await go_on(cluster.client, told, NAMESPACE)
            await asyncio.sleep(LONG_ENOUGH)
            found.append(await outcome(cluster.client, NAMESPACE))
        return found


@pytest.mark.parametrize("told", STORIES, ids=str)
async def test_what_the_autoscaler_makes_of(told: Story) -> None:
    assert [one.row for one in await outcomes(told)] == told.rows
