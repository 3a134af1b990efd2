"""The operator may die at any write of a release: it ends the same, with one canary at any time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.rollouts.monitor import Monitor
from tests.rollouts.releases import V1, V2, Story, new_cluster, rollout

from kohort.kube.errors import ApiError
from kohort.objects.jsontypes import JsonObject
from kohort.testing import Cluster
from kohort.testing.crashes import sweep

STEPS: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%", "pause": {"duration": 5}},
    {"replicas": "100%", "traffic": "100%", "pause": {"duration": 5}},
]
STRIDE = 61
"""Every 61st write, before and after its effect: a look at each part of a release. With 1 it is an hour."""


def told(scenario: Callable[[Story], Awaitable[None]]) -> Callable[[Cluster], Awaitable[None]]:
    async def watched(cluster: Cluster) -> None:
        monitor = Monitor()
        async with monitor.watching(cluster):
            await scenario(Story(cluster))
            # A crash at the very end: the operator comes back before the cluster goes.
            await cluster.settle(quiet=10.0)
        monitor.check()

    return watched


async def promoted(story: Story) -> None:
    await story.begin(plan=rollout(steps=STEPS))
    await retried(story, V2)
    await story.healthy(V2)


async def rolled_back(story: Story) -> None:
    await story.begin(plan=rollout(steps=STEPS))
    await retried(story, V2)
    await story.until(lambda: story.step == 2 or story.weight() == "20")
    await retried(story, V1)
    await story.healthy(V1)


async def blue_green(story: Story) -> None:
    await story.begin(plan=rollout(steps=STEPS, blue_green=True))
    await retried(story, V2)
    await story.healthy(V2)


async def retried(story: Story, image: str) -> None:
    """A user whose change is refused because the webhook is away tries again."""
    while True:
        try:
            return await story.change(image)
        except ApiError:
            await asyncio.sleep(1.0)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", [promoted, rolled_back, blue_green])
def test_the_operator_can_die_anywhere(scenario: Callable[[Story], Awaitable[None]]) -> None:
    assert sweep(new_cluster, "operator", told(scenario), stride=STRIDE) >= 8
