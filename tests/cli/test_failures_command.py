"""`kohort failures`, what `explain` says about failures, and `restart --group` of a group that is held."""

import json
from collections.abc import Callable

from tests.builders import lws
from tests.cli.terminal import NAMESPACE, ORDER, Story

from kohort.cli.actions import drain, edit, failures, list_workloads, show
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
        assert "group 1: a container ended; the group is held: its budget of restarts is used up" in text
        assert "container main ended with code 3" in text
        assert "No failures of group 0 of llm are kept" in (await user.run(failures.show_failures, "llm", 0, "text"))[0]
        document = json.loads((await user.run(failures.show_failures, "llm", 1, "json"))[0])
        assert [one["group"] for one in document] == [1, 1]
        text, code = await user.run(show.explain, "llm", "text")
        assert code == NOT_YET
        assert (
            "1. [crash] group 1: it is held: its budget of 1 restart was used up when container main of pod llm-1-1"
            in text
        )
        assert "kohort failures llm -n default --group 1" in text
        assert "begin afresh: kohort restart llm -n default --group 1" in text


async def test_every_command_says_that_a_group_waits_to_be_restarted(story: Callable[..., Json]) -> None:
    async with story() as user:
        budget = {"backoffSeconds": 60}
        await user.create(lws("llm").replicas(2).size(2).but("spec.leaderWorkerTemplate.restartBudget", budget))
        before = user.uids()["llm-1"]
        await fail(user)
        await user.cluster.until(
            lambda: user.uids().get("llm-1", before) != before and user.live()["status"].get("readyReplicas") == 2
        )
        await fail(user)
        await user.cluster.until(lambda: "due" in user.live()["status"]["restarts"]["1"])
        await user.cluster.settle(quiet=5)
        at = user.live()["status"]["restarts"]["1"]["due"]["at"]
        text, code = await user.run(show.explain, "llm", "text")
        assert code == NOT_YET
        assert f"1. [crash] group 1: it is restarted at {at}, because container main of pod llm-1-1 ended with" in text
        assert "restart it now: kohort restart llm -n default --group 1" in text
        text, code = await user.run(show.get, "llm", "text", False)
        assert f"group 1  not ready  revision 1  failed, is restarted at {at}" in text
        assert "Progressing  1/2 groups ready" in text


async def test_every_command_says_that_a_group_is_held(story: Callable[..., Json]) -> None:
    async with story() as user:
        await hold(user)
        await user.change({"spec": {"disruptionBudget": {"maxUnavailable": 1}}})
        await user.cluster.until(lambda: user.live()["status"].get("disruptionsAllowed") == 0)
        text, _ = await user.run(show.get, "llm", "text", False)
        assert "group 1  not ready  revision 1  held: its budget of restarts is used up" in text
        text, code = await user.run(show.status, "llm", "text", False)
        assert (code, "waiting for group 1: it is held" in text) == (NOT_YET, True)
        text, _ = await user.run(list_workloads.list_workloads, "text", "")
        assert "1/2" in text
        node = next(
            one["spec"]["nodeName"]
            for one in user.cluster.objects(PODS, NAMESPACE)
            if one["metadata"]["name"] == "llm-0"
        )
        text, code = await user.run(lambda client, _: drain.plan_drain(client, node, "text"))
        assert code == NOT_YET
        assert "never: default/llm group 0" in text
        assert "before held groups are restarted: kohort restart llm -n default --group 1" in text


async def test_a_set_whose_policy_recreates_no_group_keeps_no_failures(story: Callable[..., Json]) -> None:
    async with story() as user:
        built = lws("llm").but("spec.leaderWorkerTemplate.restartBudget", BUDGET)
        await user.create(built.but("spec.leaderWorkerTemplate.restartPolicy", "None"), ready=False)
        text, _ = await user.run(failures.show_failures, "llm", None, "text")
        assert text.endswith("kept when groups are recreated, which restartPolicy None does not do\n")


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
