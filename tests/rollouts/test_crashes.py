"""The operator may die at any write of a release: it ends the same, with one canary at any time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.rollouts.monitor import Monitor
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, Story, new_cluster, release_cluster, rollout

from kohort.kube.errors import ApiError
from kohort.kube.resources import BATCH_RELEASES
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster
from kohort.testing.crashes import crash_repeatedly

STEPS: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%", "pause": {"duration": 5}},
    {"replicas": "100%", "traffic": "100%", "pause": {"duration": 5}},
]


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
    await story.until(lambda: story.weight() == "20")
    await retried(story, V1)
    await story.healthy(V1)


def at_the_second_step(story: Story) -> bool:
    """A Rollout at rest names its last step as well."""
    return story.phase == "Progressing" and story.step == 2


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
def test_l11_the_operator_can_die_anywhere(scenario: Callable[[Story], Awaitable[None]]) -> None:
    """At every fifth of its writes, before and after their effect by turns: a look at each part of a release. A life of
    one or two writes makes no progress: it begins with applying what should be there already."""
    deaths = crash_repeatedly(new_cluster, "operator", told(scenario), every=5)
    assert len(deaths) >= 15
    assert {death.partition(" ")[0] for death in deaths} == {"before", "after"}
    assert any("/rollouts/" in death for death in deaths)


async def restarted_everywhere(story: Story, ended: Callable[[], bool]) -> set[tuple[str, ...]]:
    """Kill the operator whenever the release has come to a place where it has not been before; the places."""
    operator = story.cluster.parts["operator"]
    seen: set[tuple[str, ...]] = set()
    while not ended():
        status = story.rollout.get("status") or {}
        batch = (story.cluster.find(BATCH_RELEASES, NAME, NAMESPACE) or {}).get("status") or {}
        place = (
            str(status.get("phase", "")),
            str(story.step),
            story.state,
            str(story.progress.get("finalisingStep", "")),
            str(batch.get("phase", "")),
            str((batch.get("canaryStatus") or {}).get("batchState", "")),
        )
        if place not in seen:
            seen.add(place)
            await operator.crash()
            await operator.restart()
        await asyncio.sleep(0.02)
    return seen


@pytest.mark.parametrize("blue_green", [False, True], ids=["canary", "blue-green"])
async def test_the_operator_restarted_in_the_middle_of_every_step_comes_to_the_same_end(blue_green: bool) -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=STEPS, blue_green=blue_green))
        await retried(story, V2)
        seen = await restarted_everywhere(story, lambda: story.phase == "Healthy" and story.nothing_left())
        states = {(place[1], place[2]) for place in seen}
        # The last step of a canary release, at 100%, does not pause.
        paused = [("1", "StepPaused"), *([("2", "StepPaused")] if blue_green else [])]
        assert {
            *paused,
            *((step, state) for step in "12" for state in ("StepUpgrade", "StepTrafficRouting")),
        } <= states
        await story.healthy(V2)


async def test_an_operator_that_starts_has_nothing_to_write_about_a_release_at_rest() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=[{"replicas": "100%"}]))

        async def written_by_another_life() -> list[str]:
            await cluster.settle(30)
            await cluster.parts["operator"].crash()
            await cluster.parts["operator"].restart()
            await cluster.settle(30)
            return [one.path for one in cluster.faults("operator").writes if "/rollouts.kruise.io/" in one.path]

        assert await written_by_another_life() == [], "before the first release"
        await story.change(V2)
        await story.healthy(V2)
        assert await written_by_another_life() == [], "after it"


async def test_the_operator_restarted_in_the_middle_of_every_step_of_a_rollback() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=STEPS))
        await retried(story, V2)
        await restarted_everywhere(story, lambda: at_the_second_step(story))
        await retried(story, V1)
        seen = await restarted_everywhere(story, lambda: story.phase == "Healthy" and story.nothing_left())
        ends = {place[3] for place in seen}
        # The steps between these wait for nothing and are over at once.
        assert {"FinalisingStepRouteTrafficToStable", "RestoreStableService", "RemoveCanaryService"} <= ends
        await story.healthy(V1)
