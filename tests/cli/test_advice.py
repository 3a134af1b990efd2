"""Advice is followed: whatever `explain` and `plan` recommend is accepted, in every state that a release passes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import yaml
from tests.builders import container, lws
from tests.cli.following import Follower
from tests.cli.terminal import ORDER, Story
from tests.rollouts import deployments, releases
from tests.rollouts.releases import V1, V2, V3, new_cluster

from kohort.cli.actions import plan, show
from kohort.cli.actions.edit import pause, resume
from kohort.kube.resources import INGRESSES, ROLLOUTS
from kohort.objects.json_types import Json, JsonObject

STEP = 0.5

Scene = Callable[[releases.Story, Story], Awaitable[None]]


async def while_watched(user: Story, name: str, story: Awaitable[None]) -> list[str]:
    """Tell a story, and follow all advice about it in every half second of it."""
    follower = Follower(user)
    told = asyncio.ensure_future(story)
    while not told.done():
        await follower.explain(name)
        await asyncio.sleep(STEP)
    await told
    return await follower.explain(name)


async def promoted(story: releases.Story, user: Story) -> None:
    await story.change(V2)
    await story.at(1)
    await story.approve()
    await story.at(2)
    await story.healthy(V2)


async def given_up(story: releases.Story, user: Story) -> None:
    await story.change(V2)
    await story.at(1)
    await story.change(V1)
    await story.healthy(V1)


async def paused_and_resumed(story: releases.Story, user: Story) -> None:
    await story.change(V2)
    await story.at(1)
    await story.edit({"spec": {"strategy": {"paused": True}}})
    await story.until(lambda: "Paused" in str(story.rollout["status"]["conditions"]))
    await asyncio.sleep(5)
    await story.change(V3)
    await asyncio.sleep(5)
    await story.edit({"spec": {"strategy": {"paused": False}}})
    await story.at(1)


async def without_its_route(story: releases.Story, user: Story) -> None:
    await story.change(V2)
    await story.at(1, "StepUpgrade")
    await story.client.delete(INGRESSES, "llm", "default")
    await asyncio.sleep(20)


async def disabled_and_enabled(story: releases.Story, user: Story) -> None:
    await story.change(V2)
    await story.at(1)
    await story.edit({"spec": {"disabled": True}})
    await story.until(lambda: story.phase == "Disabled")
    await asyncio.sleep(20)
    await story.edit({"spec": {"disabled": False}})
    await asyncio.sleep(20)


async def deleted(story: releases.Story, user: Story) -> None:
    await story.change(V2)
    await story.at(1)
    await story.client.delete(ROLLOUTS, "llm", "default")
    await asyncio.sleep(30)


async def without_room(story: releases.Story, user: Story) -> None:
    await story.cordon()
    await story.change(V2)
    await asyncio.sleep(20)


@pytest.mark.parametrize(
    ("scene", "followed"),
    [
        (promoted, {"kohort approve", "kohort abort"}),
        (given_up, {"kohort approve", "kohort abort"}),
        (paused_and_resumed, {"kohort resume", "kohort abort"}),
        (without_its_route, {"kohort abort"}),
        (disabled_and_enabled, {"kohort approve"}),
        (deleted, {"kohort approve"}),
        (without_room, {"kohort abort"}),
    ],
)
@pytest.mark.parametrize("blue_green", [False, True], ids=["canary", "blue-green"])
async def test_advice_about_a_release_of_groups(
    scene: Scene, followed: set[str], blue_green: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if blue_green and scene is promoted:
        pytest.skip("its steps all wait for approval; the other scenes pass the same states")
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin(plan=releases.rollout(blue_green=blue_green))
        found = await while_watched(user, "llm", scene(story, user))
        assert followed <= set(found)


async def test_advice_about_a_release_of_a_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster), Story(cluster, capsys)
        await story.begin(releases.rollout(steps=deployments.STEPS))

        async def told() -> None:
            await story.change(V2)
            await story.at(1)
            await story.approve()
            await story.at(2)
            await story.change(V1)
            await story.healthy(V1)

        found = await while_watched(user, "deployment/llm", told())
        assert {"kohort approve", "kohort abort"} <= set(found)


@pytest.mark.parametrize(
    "orders",
    [
        {"waiting": "CrashLoopBackOff"},
        {"waiting": "ImagePullBackOff"},
        {"waiting": "CreateContainerConfigError"},
        {"never-ready": "true"},
    ],
    ids=str,
)
async def test_advice_about_groups_that_do_not_come_up(orders: dict[str, str], story: Callable[..., Json]) -> None:
    async with story() as user:
        wrong = {f"{ORDER}{key}": value for key, value in orders.items()}
        subject = (
            lws("llm").replicas(2).size(2).but("spec.leaderWorkerTemplate.workerTemplate.metadata.annotations", wrong)
        )
        await user.create(subject, ready=False)
        await while_watched(user, "llm", asyncio.sleep(30))


async def test_advice_about_a_pause(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(2))

        async def told() -> None:
            await user.run(pause, "llm")
            await user.change(_image("new:2"))
            await asyncio.sleep(5)
            await user.run(resume, "llm")
            await asyncio.sleep(10)

        assert "kohort resume" in await while_watched(user, "llm", told())


def _image(image: str) -> JsonObject:
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}}


@pytest.mark.parametrize("resources", [{"requests": {"cpu": "2"}}, {"limits": {"cpu": "2"}}], ids=str)
async def test_what_a_plan_recommends(resources: JsonObject, story: Callable[..., Json]) -> None:
    async with story() as user:
        before = lws("llm").replicas(2).size(2).containers(container(resources=_less(resources)))
        await user.create(before)
        after = yaml.safe_dump(dict(before.containers(container(resources=resources))))
        text, _ = await user.run(plan.plan, {"f": after}, "text", False, False)
        assert await Follower(user).read(text) == ["kohort resize llm -n default --cpu 2 --policy InPlaceOrRecreate"]


def _less(resources: JsonObject) -> JsonObject:
    return {kind: dict.fromkeys(amounts, "1") for kind, amounts in resources.items()}


async def test_advice_while_all_is_well(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(1))
        text, code = await user.run(show.explain, "llm", "text")
        assert (code, await Follower(user).read(text)) == (0, [])
