"""Every command counts the groups of a set as its status does, at every moment of a roll."""

import asyncio
import json
from collections.abc import Callable

import pytest
from tests.builders import lws
from tests.cli.terminal import Story

from kohort.cli.actions import show
from kohort.cli.actions.list_workloads import list_workloads
from kohort.objects.json_types import Json


async def ready_groups(user: Story) -> list[tuple[int, int]]:
    """How many of how many, as each command prints them."""
    (tree,) = json.loads((await user.run(show.get, None, "json", False))[0])
    (line,) = json.loads((await user.run(list_workloads, "json", ""))[0])
    advance = json.loads((await user.run(show.status, "llm", "json", False))[0])
    return [(found["ready"], found["wanted"]) for found in (tree, line, advance)]


@pytest.mark.parametrize(("surge", "unavailable"), [(2, 0), (1, 1), (0, 1)])
async def test_ready_groups_are_those_of_the_status(story: Callable[..., Json], surge: int, unavailable: int) -> None:
    async with story(nodes=12, start_latency=2.0) as user:
        await user.create(lws("llm").replicas(3).size(2).max_surge(surge).max_unavailable(unavailable))
        label = {"metadata": {"labels": {"version": "2"}}}
        await user.change({"spec": {"leaderWorkerTemplate": {"workerTemplate": label}}})
        seen: list[int] = []
        for _ in range(60):
            await asyncio.sleep(0.5)
            before = user.live()["status"]
            found = await ready_groups(user)
            if user.live()["status"] == before:  # else it changed between two commands
                assert found == [(before.get("readyReplicas", 0), 3)] * 3
                seen.append(found[0][0])
        assert len(set(seen)) > 1, "the roll was seen under way"
