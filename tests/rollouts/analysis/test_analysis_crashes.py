"""The operator may die at any write of a release that is judged: a bad version never serves alone, a good one does."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.rollouts.analysis.served_metrics import (
    TTFT,
    JudgedStory,
    ModelServers,
    cluster_with,
    judged_rollout,
)
from tests.rollouts.releases import V1, V2
from tests.rollouts.test_crashes import retried

from kohort.kube.errors import ApiError
from kohort.testing import Cluster
from kohort.testing.crashes import crash_repeatedly

QUICK = {"warmup": "6s", "interval": "2s", "deadline": "5m"}


async def good(story: JudgedStory) -> None:
    await begin(story)
    await story.healthy(V2, timeout=3600)
    assert {run["status"]["phase"] for run in story.runs} == {"Passed"}


async def slow(story: JudgedStory) -> None:
    story.servers.slower[V2] = 4.0
    await begin(story)
    await story.until(lambda: "failed its analysis" in story.message, timeout=3600)
    await story.until(lambda: story.weight() in (None, "0"), timeout=60)
    await story.until(lambda: not any(story.pods(one["metadata"]["name"]) for one in story.canaries), timeout=300)
    assert story.images() == {V1}
    assert story.step == 1


async def begin(story: JudgedStory) -> None:
    story.servers.rate = 10.0
    while True:
        try:
            await story.analysis(TTFT, **QUICK)
            break
        except ApiError:
            await asyncio.sleep(1.0)
    await story.begin(plan=judged_rollout())
    await retried(story, V2)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", [good, slow])
def test_the_operator_can_die_anywhere(scenario: Callable[[JudgedStory], Awaitable[None]]) -> None:
    servers = ModelServers("crashes")

    async def told(cluster: Cluster) -> None:
        await scenario(JudgedStory(cluster, servers))
        # A crash at the very end: the operator comes back before the cluster goes.
        await asyncio.sleep(30.0)

    deaths = crash_repeatedly(lambda: cluster_with(servers), "operator", told, every=5)
    assert len(deaths) >= 10
    assert any("/analysisruns" in death for death in deaths)
