"""`kohort pause` and what other commands say of it."""

from collections.abc import Callable

import msgspec
from tests.builders import lws

from kohort.cli.actions import edit, show
from kohort.cli.connection import NOT_YET, TOO_LATE
from kohort.objects.json_types import Json

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
