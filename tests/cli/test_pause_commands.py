"""`kohort pause` and what other commands say of it."""

from collections.abc import Callable

import msgspec
import pytest
from tests.builders import lws
from tests.cli.terminal import Story as Terminal
from tests.rollouts.releases import V2, Story, new_cluster

from kohort.cli.actions import edit, show
from kohort.cli.connection import NOT_YET, TOO_LATE
from kohort.inspection.snapshot import PAUSE_NOTE
from kohort.objects.json_types import Json, JsonObject

IMAGE = [{"name": "main", "image": "new:2"}]


async def test_a_pause_is_mentioned_and_a_change_waits_for_its_end(story: Callable[..., Json]) -> None:
    """`status` and `explain` agree about it."""
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(2))
        await user.run(edit.pause, "llm")
        await user.cluster.settle()
        text, code = await user.run(show.status, "llm", "text", False)
        assert (code, ", paused  Available" in text) == (0, True)
        text, code = await user.run(show.explain, "llm", "text")
        last = "It is paused: a new revision waits until kohort resume llm -n default"
        assert (code, text.splitlines()[-1]) == (0, last)
        await user.change({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": IMAGE}}}}})
        await user.cluster.settle()
        text, code = await user.run(show.status, "llm", "text", False)
        assert code == NOT_YET
        assert "0/2 groups at revision 2 and ready, 2 ready in all, 2 held by the pause" in text
        text, code = await user.run(show.explain, "llm", "text")
        assert code == NOT_YET
        assert (
            "1. [rollout] group 0 and 1 more: held at the old revision by the pause\n   → go on: kohort resume llm"
            in text
        )
        text, code = await user.run(show.status, "llm", "text", True, 30.0)
        assert (code, "  waiting for group 0: held at the old revision by the pause" in text) == (TOO_LATE, True)
        await user.run(edit.resume, "llm")
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0


async def test_a_partition_of_the_user_is_what_is_wanted(story: Callable[..., Json]) -> None:
    """`status` and `explain` agree about it, too."""
    async with story() as user:
        await user.create(lws("llm").replicas(3).size(1).partition(2))
        await user.change({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": IMAGE}}}}})
        await user.cluster.settle()
        text, code = await user.run(show.status, "llm", "text", False)
        assert (code, "2 held by the partition" in text) == (0, True)
        text, code = await user.run(show.explain, "llm", "text")
        assert (code, "Everything is as wanted." in text) == (0, True)
        assert "1. [rollout] group 0 and 1 more: partition 2 holds groups below it at their old revision" in text
        text, code = await user.run(show.explain, "llm", "json")
        assert (code, [one["note"] for one in msgspec.json.decode(text)]) == (0, [True])


async def test_a_set_that_was_paused_before_it_had_a_rollout_is_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        await user.change(paused_at(2, before="0"))
        await story.until(lambda: story.phase == "Healthy")
        text, code = await user.run(edit.resume, "llm")
        assert (code, text) == (0, "llm goes on\n")
        assert (partition(user), paused(user)) == (0, False)


async def test_both_pauses_are_lifted_while_a_release_holds_the_set(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        await user.change(paused_at(2, before="0"))
        await story.change(V2)
        await story.at(1)
        await user.run(edit.pause, "llm")
        text, code = await user.run(edit.resume, "llm")
        assert (code, text) == (0, "llm goes on\nRollout llm goes on\n")
        assert not paused(user)
        await story.at(1)
        await story.approve()
        await story.healthy(V2)
        assert partition(user) == 0


async def test_a_note_that_a_pause_of_a_held_set_has_left_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        await user.change({"metadata": {"annotations": {PAUSE_NOTE: "1000000"}}})
        text, code = await user.run(edit.resume, "llm")
        assert (code, text) == (0, "llm is not paused any more\n")
        assert (partition(user), paused(user)) == (0, False)


def paused_at(partition: int, before: str) -> JsonObject:
    """What `kohort pause` writes to a set that has no Rollout."""
    return {
        "metadata": {"annotations": {PAUSE_NOTE: before}},
        "spec": {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": partition}}},
    }


def partition(user: Terminal) -> int:
    found: int = user.live()["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"].get("partition", 0)
    return found


def paused(user: Terminal) -> bool:
    return PAUSE_NOTE in (user.live()["metadata"].get("annotations") or {})
