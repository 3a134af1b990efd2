"""Streams that are longer than any grace period survive everything that ends a version: promotion, rollback, the switch
of blue and green, and a jump back. Servers end with their pods, and every stream that such an end cuts is seen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientError
from tests.cluster.gateway.test_groups_under_load import HOST, User, hasty, leader, scene
from tests.machine_load import within
from tests.rollouts.releases import V1, V2, Story, rollout
from tests.rollouts.test_crashes import restarted_everywhere

from kohort.kube.resources import EVENTS, LEADER_WORKER_SETS, ROLLOUTS, SERVICES
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels, rollout_labels
from kohort.rules.scale_down import DRAIN_ON_SCALE_DOWN, DRAINED_FOR

STREAMS = 8
MANY = 24
"""So many that every leader has some, whichever one each of them meets."""


def draining(plan: JsonObject, seconds: int = 120) -> JsonObject:
    (strategy,) = plan["spec"]["strategy"].values()
    strategy["trafficRoutings"][0]["drainTimeoutSeconds"] = seconds
    return hasty(plan)


class Streams:
    def __init__(self, user: User, count: int) -> None:
        self.user = user
        self.count = count
        self.texts: list[str] = []
        self._begun = 0
        self.all_begun, self.all_ended = asyncio.Event(), asyncio.Event()

    async def one(self) -> None:
        url = f"{self.user.plane.address}/stream"
        try:
            async with self.user.http.get(url, headers={"host": HOST}) as answer:
                text = (await answer.content.readany()).decode()
                self._begun += 1
                if self._begun == self.count:
                    self.all_begun.set()
                text += (await answer.content.read()).decode()
        except (ClientError, ConnectionError) as problem:
            text = f"cut: {problem}"
        self.texts.append(text)
        if len(self.texts) == self.count:
            self.all_ended.set()


@asynccontextmanager
async def streaming(user: User, count: int = STREAMS) -> AsyncIterator[Streams]:
    """Streams that began before the body, and end when the test lets them."""
    streams = Streams(user, count)
    closing = asyncio.ensure_future(user.pods.end_with_their_pods())
    tasks = [asyncio.ensure_future(streams.one()) for _ in range(count)]
    try:
        async with asyncio.timeout(120):
            await streams.all_begun.wait()
        yield streams
        await asyncio.gather(*tasks)
    finally:
        closing.cancel()
        for task in tasks:
            task.cancel()


def message(story: Story) -> str:
    found = story.cluster.objects(ROLLOUTS, "default")
    return str((found[0].get("status") or {}).get("message", ""))


async def finish(story: Story, user: User, streams: Streams) -> None:
    """The release waits for the streams, and they end normally."""
    await story.until(lambda: "in flight" in message(story), 90)
    assert not streams.texts
    user.pods.finish_streams.set()
    async with asyncio.timeout(120):
        await streams.all_ended.wait()


@pytest.mark.timeout(400)
async def test_streams_of_the_old_version_survive_promotion() -> None:
    steps: list[JsonObject] = [{"replicas": "100%", "traffic": "100%", "pause": {}}]
    async with scene(draining(rollout(steps=steps))) as (story, user), streaming(user) as streams:
        await story.change(V2)
        await finish(story, user, streams)
        assert streams.texts == [f"{leader(V1)} end"] * STREAMS
        await story.healthy(V2, timeout=120)
        user.look()


@pytest.mark.timeout(400)
async def test_streams_of_the_old_version_survive_a_promotion_from_a_last_step_below_100_percent() -> None:
    steps: list[JsonObject] = [{"replicas": 1, "traffic": "20%", "pause": {}}]
    async with scene(draining(rollout(steps=steps))) as (story, user), streaming(user) as streams:
        await story.change(V2)
        await story.at(1, timeout=90)
        await story.approve()
        await finish(story, user, streams)
        assert streams.texts == [f"{leader(V1)} end"] * STREAMS
        await story.healthy(V2, timeout=120)
        user.look()


@pytest.mark.timeout(400)
async def test_streams_of_the_old_version_survive_the_switch_of_blue_and_green() -> None:
    steps: list[JsonObject] = [{"replicas": "100%", "traffic": "100%", "pause": {}}]
    plan = draining(rollout(blue_green=True, steps=steps))
    async with scene(plan) as (story, user), streaming(user) as streams:
        await story.change(V2)
        await story.at(1, timeout=90)
        await story.approve()
        await finish(story, user, streams)
        assert streams.texts == [f"{leader(V1)} end"] * STREAMS
        await story.healthy(V2, timeout=120)
        user.look()


@pytest.mark.timeout(400)
async def test_streams_of_the_new_version_survive_a_rollback_and_no_new_request_reaches_it() -> None:
    steps: list[JsonObject] = [
        {"replicas": "100%", "traffic": "50%", "pause": {}},
        {"replicas": "100%", "traffic": "100%"},
    ]
    async with scene(draining(rollout(steps=steps))) as (story, user):
        await story.change(V2)
        await story.at(1, timeout=90)
        async with streaming(user) as streams:
            clock = asyncio.get_running_loop().time
            start = clock()
            await story.change(V1)
            await story.until(lambda: "in flight" in message(story), 90)
            took = user.last[leader(V2)] - start
            assert took < within(1.0), f"the version that is taken back answered for {took:.2f} s more"
            await finish(story, user, streams)
            assert sorted(set(streams.texts)) == [f"{leader(V1)} end", f"{leader(V2)} end"]
            await story.healthy(V1, timeout=120)
            user.look()


@pytest.mark.timeout(400)
async def test_streams_survive_a_jump_back_that_removes_groups() -> None:
    steps: list[JsonObject] = [
        {"replicas": 1, "traffic": "20%", "pause": {}},
        {"replicas": 2, "traffic": "50%", "pause": {}},
        {"replicas": "100%", "traffic": "100%"},
    ]
    plan = draining(rollout(steps=steps))
    plan["metadata"].setdefault("annotations", {})["rollouts.kruise.io/scale-down-on-jump"] = "true"
    async with scene(plan) as (story, user):
        await story.change(V2)
        await story.at(1, timeout=90)
        await story.approve()
        await story.at(2, timeout=90)
        async with streaming(user) as streams:
            await story.jump(1)
            await finish(story, user, streams)
            assert sorted(set(streams.texts)) == [f"{leader(V1)} end", f"{leader(V2)} end"]
            await story.at(1, timeout=90)
            user.look()


async def scale(story: Story, replicas: int) -> None:
    await story.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": replicas}})


def selector(story: Story) -> JsonObject:
    found: JsonObject = (story.cluster.find(SERVICES, "llm-leader", "default") or {})["spec"]["selector"]
    return found


def is_draining(story: Story) -> bool:
    return any("in flight" in one for one in story.events("GroupsDraining"))


def scaled(story: Story, groups: int) -> bool:
    """So many groups exist, and nothing is left of the draining."""
    annotations = story.stable["metadata"].get("annotations") or {}
    service = story.cluster.find(SERVICES, "llm-leader", "default") or {"metadata": {}}
    labels = [one["metadata"]["labels"] for one in story.pods()]
    return (
        sum(one[group_labels.WORKER_INDEX] == "0" for one in labels) == groups
        and not any(rollout_labels.SERVES in one for one in labels)
        and DRAINED_FOR not in annotations
        and rollout_labels.WITHDRAWN_PODS not in (service["metadata"].get("annotations") or {})
        and rollout_labels.SERVES not in selector(story)
    )


async def drain_scale_down(story: Story, user: User, streams: Streams) -> None:
    """Groups that go wait for their streams, and get no new request meanwhile."""
    await story.until(lambda: is_draining(story), 90)
    assert not streams.texts
    assert len(story.pods()) == 4, "two groups of two pods"
    assert selector(story)[rollout_labels.SERVES] == "true"
    user.pods.finish_streams.set()
    async with asyncio.timeout(120):
        await streams.all_ended.wait()


@pytest.mark.timeout(400)
async def test_streams_survive_a_scale_down() -> None:
    async with scene(draining(rollout())) as (story, user), streaming(user, MANY) as streams:
        await scale(story, 1)
        await drain_scale_down(story, user, streams)
        assert streams.texts == [f"{leader(V1)} end"] * MANY
        await story.until(lambda: scaled(story, 1), 120)
        user.look()


@pytest.mark.timeout(400)
async def test_streams_survive_a_scale_down_while_a_canary_is_released_and_its_abort() -> None:
    steps: list[JsonObject] = [
        {"replicas": 1, "traffic": "50%", "pause": {}},
        {"replicas": "100%", "traffic": "100%"},
    ]
    async with scene(draining(rollout(steps=steps))) as (story, user):
        await story.change(V2)
        await story.at(1, timeout=90)
        async with streaming(user, MANY) as streams:
            await scale(story, 1)
            await story.until(lambda: is_draining(story), 90)
            await story.change(V1)
            await story.until(lambda: "in flight" in message(story), 90)
            assert not streams.texts
            user.pods.finish_streams.set()
            async with asyncio.timeout(120):
                await streams.all_ended.wait()
            assert set(streams.texts) <= {f"{leader(V1)} end", f"{leader(V2)} end"}
            await story.healthy(V1, timeout=120)
            await story.until(lambda: scaled(story, 1), 120)
            user.look()


@pytest.mark.timeout(400)
async def test_a_scale_down_that_is_taken_back_or_whose_rollout_goes_leaves_no_trace() -> None:
    async with scene(draining(rollout())) as (story, user), streaming(user) as streams:
        for _ in range(2):
            await scale(story, 1)
            await story.until(lambda: rollout_labels.SERVES in selector(story), 90)
            await scale(story, 2)
            await story.until(lambda: scaled(story, 2), 90)
        await scale(story, 1)
        await story.until(lambda: rollout_labels.SERVES in selector(story), 90)
        await story.client.delete(ROLLOUTS, "llm", "default")
        await story.until(lambda: not story.rollout and scaled(story, 1), 120)
        assert DRAIN_ON_SCALE_DOWN not in (story.stable["metadata"].get("annotations") or {})
        user.pods.finish_streams.set()
        async with asyncio.timeout(120):
            await streams.all_ended.wait()


@pytest.mark.timeout(400)
async def test_an_operator_that_is_killed_during_a_scale_down_cuts_no_stream() -> None:
    async with scene(draining(rollout())) as (story, user), streaming(user, MANY) as streams:
        await scale(story, 1)
        await restarted_everywhere(story, lambda: is_draining(story))
        for _ in range(2):
            await story.cluster.parts["operator"].crash()
            await story.cluster.parts["operator"].restart()
            await story.cluster.settle(quiet=1.5)
        await drain_scale_down(story, user, streams)
        assert streams.texts == [f"{leader(V1)} end"] * MANY
        await story.until(lambda: scaled(story, 1), 120)
        user.look()


@pytest.mark.timeout(400)
async def test_a_stream_that_does_not_end_in_time_does_not_stop_a_release() -> None:
    steps: list[JsonObject] = [{"replicas": "100%", "traffic": "100%", "pause": {}}]
    async with scene(draining(rollout(steps=steps), seconds=2)) as (story, user), streaming(user) as streams:
        await story.change(V2)
        await story.healthy(V2, timeout=120)
        async with asyncio.timeout(120):
            await streams.all_ended.wait()
        assert any(text.startswith("cut") for text in streams.texts)
        assert any(one["reason"] == "DrainTimedOut" for one in story.cluster.objects(EVENTS, "default"))


@pytest.mark.timeout(400)
async def test_an_operator_that_is_killed_again_and_again_cuts_no_stream() -> None:
    steps: list[JsonObject] = [{"replicas": "100%", "traffic": "100%", "pause": {}}]
    async with scene(draining(rollout(steps=steps))) as (story, user), streaming(user) as streams:
        await story.change(V2)
        await restarted_everywhere(story, lambda: "in flight" in message(story))
        begun = story.progress["graceTimes"]["drainStable"]
        for _ in range(3):
            await story.cluster.parts["operator"].crash()
            await story.cluster.parts["operator"].restart()
            await story.cluster.settle(quiet=1.5)
            assert story.progress["graceTimes"]["drainStable"] == begun, "the wait begins once"
        await finish(story, user, streams)
        assert streams.texts == [f"{leader(V1)} end"] * STREAMS
        await story.healthy(V2, timeout=120)
        user.look()
