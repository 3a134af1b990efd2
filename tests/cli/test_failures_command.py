"""`kohort failures`, what `explain` says about failures, and `restart --group` of a group that is held."""

import json
from collections.abc import Callable

from tests.builders import lws
from tests.cli.terminal import NAMESPACE, ORDER, Story

from kohort.cli.actions import edit, failures, show
from kohort.cli.connection import NOT_YET
from kohort.kube.resources import PODS
from kohort.objects.json_types import Json, JsonObject

BUDGET = {"maxRestarts": 1, "backoffSeconds": 0}


def condition(user: Story) -> JsonObject:
    found: list[JsonObject] = user.live()["status"].get("conditions") or []
    return next((one for one in found if one["type"] == "GroupsExhausted"), {})


async def fail(user: Story) -> None:
    orders = {f"{ORDER}exit-code": "3", f"{ORDER}crashes": "1", f"{ORDER}exit-after": "0s"}
    await user.cluster.client.patch(PODS, "llm-1-1", NAMESPACE, {"metadata": {"annotations": orders}})


async def hold(user: Story) -> None:
    await user.create(lws("llm").replicas(2).size(2).but("spec.leaderWorkerTemplate.restartBudget", BUDGET))
    before = user.uids()["llm-1"]
    await fail(user)
    await user.cluster.until(
        lambda: user.uids().get("llm-1", before) != before and user.live()["status"].get("readyReplicas") == 2
    )
    await fail(user)
    await user.cluster.until(lambda: condition(user).get("status") == "True")


async def test_failures_are_shown_and_quoted(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(2))
        text, code = await user.run(failures.show_failures, "llm", None, "text")
        assert (text, code) == (
            "No failures of llm are kept; failures are kept for sets with a restartBudget\n",
            0,
        )
    async with story() as user:
        await hold(user)
        text, code = await user.run(failures.show_failures, "llm", None, "text")
        assert code == 0
        assert "group 1  restarted, held: its budget of restarts is used up" in text
        assert "container main ended with code 3" in text
        assert "No failures of group 0 of llm are kept" in (await user.run(failures.show_failures, "llm", 0, "text"))[0]
        document = json.loads((await user.run(failures.show_failures, "llm", 1, "json"))[0])
        assert [one["group"] for one in document] == [1, 1]
        text, code = await user.run(show.explain, "llm", "text")
        assert code == NOT_YET
        assert (
            "1. [crash] group 1: is held: it used up its budget of 1 restarts when pod llm-1-1, container main" in text
        )
        assert "kohort failures llm -n default --group 1" in text
        assert "begin afresh: kohort restart llm -n default --group 1" in text


async def test_a_user_restarts_a_group_that_is_held(story: Callable[..., Json]) -> None:
    async with story() as user:
        await hold(user)
        held = user.uids()["llm-1"]
        text, code = await user.run(edit.restart, "llm", 1)
        assert (text, code) == ("group 1 of llm is recreated\n", 0)
        await user.cluster.until(
            lambda: condition(user)["status"] == "False" and user.live()["status"].get("readyReplicas") == 2
        )
        again = user.uids()["llm-1"]
        assert again != held
        await fail(user)
        await user.cluster.until(lambda: user.uids().get("llm-1", again) != again)
