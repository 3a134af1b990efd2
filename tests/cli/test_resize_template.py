"""`kohort resize` of templates: groups get other resources in place, and the command follows them to the end."""

import asyncio
import json
from collections.abc import Callable, Mapping

import pytest
import yaml
from tests.builders import LeaderWorkerSet, lws, pod
from tests.cli.following import Follower
from tests.cli.terminal import NAMESPACE, ORDER, Story
from tests.rollouts.test_in_place_releases import begun

from kohort.cli.actions import edit, plan, show, snapshot_reader
from kohort.cli.actions.resize import TemplateEditOptions, resize_pods, resize_template
from kohort.cli.connection import NOT_YET, PAUSED, REFUSED, TOO_LATE
from kohort.inspection.template_resize import AmountRequest
from kohort.kube.client import PatchType
from kohort.kube.errors import Forbidden, MethodNotAllowed, NotFound, Status
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels, rollout_labels

OR_RECREATE, ONLY = "InPlaceOrRecreate", "InPlaceOnly"
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
Begin = Callable[..., Json]


def subject(policy: str = OR_RECREATE, replicas: int = 3, cpu: str = "1", deadline: int = 60) -> LeaderWorkerSet:
    worker = pod().containers({"name": "main", "image": "model", "resources": {"requests": {"cpu": cpu}}})
    strategy = {"type": "RollingUpdate", "resourceUpdatePolicy": policy, "resourceUpdateDeadlineSeconds": deadline}
    return lws("llm").replicas(replicas).size(2).workers(worker).but("spec.rolloutStrategy", strategy)


async def resize(user: Story, cpu: str = "2", request: AmountRequest | None = None, **options: Json) -> tuple[str, int]:
    asked = request or AmountRequest({"cpu": cpu})
    return await user.run(resize_template, "llm", asked, TemplateEditOptions(**options))


async def order(user: Story, name: str, **orders: str) -> None:
    annotations = {f"{ORDER}{key.replace('_', '-')}": value for key, value in orders.items()}
    await user.cluster.client.patch(PODS, name, NAMESPACE, {"metadata": {"annotations": annotations}})


def cpus(user: Story) -> dict[str, str]:
    return {
        one["metadata"]["name"]: one["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        for one in user.cluster.objects(PODS, NAMESPACE)
    }


def template_cpu(user: Story) -> str:
    spec = user.live()["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    cpu: str = spec["containers"][0]["resources"]["requests"]["cpu"]
    return cpu


async def test_groups_get_other_resources_in_place(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        before = user.uids()
        text, code = await resize(user)
        assert code == 0, user.complaint
        assert text.splitlines()[0] == "groups of llm get cpu 2 in place"
        assert text.splitlines()[-1] == "llm: resized in place: groups 0, 1, 2"
        assert user.uids() == before
        assert set(cpus(user).values()) == {"2"}
        assert template_cpu(user) == "2"


async def test_the_same_amounts_again_change_nothing(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        await resize(user)
        generation = user.live()["metadata"]["generation"]
        text, code = await resize(user, "2000m")
        assert (text, code) == ("the template of llm has cpu 2000m already\n", 0)
        assert user.live()["metadata"]["generation"] == generation


async def test_a_set_that_recreates_its_groups_names_the_choices(story: Begin) -> None:
    async with story() as user:
        await user.create(subject("Recreate"))
        before = user.uids()
        _, code = await resize(user)
        assert (code, template_cpu(user)) == (REFUSED, "1")
        assert "its resourceUpdatePolicy is Recreate. Choose:" in user.complaint
        choices = await Follower(user).read(user.complaint)
        assert [one.partition("--cpu 2 ")[2] for one in choices] == [
            "--policy InPlaceOrRecreate",
            "--policy InPlaceOnly",
            "--pods-only",
            "--recreate",
        ]
        text, code = await resize(user, policy=OR_RECREATE)
        assert code == 0, user.complaint
        assert "resourceUpdatePolicy is InPlaceOrRecreate from now on" in text
        assert user.uids() == before
        assert user.live()["spec"]["rolloutStrategy"]["resourceUpdatePolicy"] == OR_RECREATE


async def test_a_set_is_rolled_if_that_is_what_is_chosen(story: Begin) -> None:
    async with story() as user:
        await user.create(subject("Recreate", replicas=1))
        before = user.uids()
        text, code = await resize(user, recreate=True)
        assert code == 0, user.complaint
        assert text.splitlines()[-1] == "llm: recreated: group 0"
        assert not set(before.values()) & set(user.uids().values())


async def test_a_group_that_cannot_follow_is_recreated_and_named(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        before = user.uids()
        await order(user, "llm-1-1", resize="infeasible")
        text, code = await resize(user)
        assert code == 0, user.complaint
        assert text.splitlines()[-1] == "llm: resized in place: groups 0, 2; recreated: group 1"
        assert {name for name in before if before[name] != user.uids()[name]} == {"llm-1", "llm-1-1"}


async def test_groups_are_not_recreated_where_they_find_no_node(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        before = user.uids()
        _, code = await resize(user, "100")
        assert (code, template_cpu(user), user.uids()) == (REFUSED, "1", before)
        assert "nothing was changed: groups 2, 1, 0 would be recreated" in user.complaint
        assert "find no node (not enough cpu on any)" in user.complaint


async def test_a_stop_says_why_and_what_to_do(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        await order(user, "llm-1-1", resize="deferred", resize_message="no room")
        _, code = await resize(user)
        assert code == NOT_YET
        assert "llm: stopped (DeadlineExceeded): group 1: llm-1-1 on node " in user.complaint
        assert "resized in place: group 2; with former resources: groups 0, 1" in user.complaint
        assert cpus(user)["llm-1"] == "1"
        advised = {" ".join(one.split()[:2]) for one in await Follower(user).read(user.complaint)}
        assert advised == {"kohort retry", "kohort resize", "kohort undo"}


async def test_a_stop_as_a_document(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        await order(user, "llm-1-1", resize="infeasible")
        text, code = await resize(user, form="json")
        found = json.loads(text)
        assert (code, found["outcome"], found["reason"]) == (NOT_YET, "stopped", "Infeasible")
        assert (found["resizedInPlace"], found["recreated"], found["unchanged"]) == ([2], [], [0, 1])
        assert "kohort retry llm -n default" in found["commands"]


async def test_a_stopped_resize_is_tried_again(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        before = user.uids()
        await order(user, "llm-1-1", resize="infeasible")
        await resize(user)
        await order(user, "llm-1-1", resize="accept")
        text, code = await user.run(edit.retry, "llm")
        assert (code, text.split(";")[0]) == (0, "the resize of group 1 of llm is tried again")
        _, code = await user.run(show.status, "llm", "text", True, 60.0)
        assert code == 0
        assert (set(cpus(user).values()), user.uids()) == ({"2"}, before)


async def test_a_retry_of_a_resize_that_waits_for_a_change_by_hand_says_what_to_do(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        await by_hand(user, "llm-1-1")
        _, code = await resize(user)
        assert code == NOT_YET
        _, code = await user.run(edit.retry, "llm")
        assert code == REFUSED
        assert "the resize of group 1 of llm goes on by itself when the pods have the resources" in user.complaint
        assert "llm-1-1: containers[main].resources.requests.cpu differs from the template" in user.complaint
        assert "kohort restart llm -n default --group 1" in user.complaint


async def test_another_policy_lets_a_stopped_resize_go_on(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        await order(user, "llm-1-1", resize="infeasible")
        await resize(user)
        text, code = await resize(user, request=AmountRequest({}), policy=OR_RECREATE)
        assert code == 0, user.complaint
        expected = "llm: resized in place: group 0; recreated: group 1; had these resources before: group 2"
        assert text.splitlines()[-1] == expected


async def test_a_stopped_resize_is_undone(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        before = user.uids()
        await order(user, "llm-1-1", resize="infeasible")
        await resize(user)
        await order(user, "llm-1-1", resize="accept")
        _, code = await user.run(edit.undo, "llm", None, False)
        assert code == 0, user.complaint
        _, code = await user.run(show.status, "llm", "text", True, 120.0)
        assert (code, set(cpus(user).values()), user.uids()) == (0, {"1"}, before)


async def test_another_edit_meanwhile_ends_the_command(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        await order(user, "llm-2-1", resize="deferred")
        asked = AmountRequest({"cpu": "2"})
        running = asyncio.create_task(user.run(resize_template, "llm", asked, TemplateEditOptions()))
        await asyncio.sleep(10)
        spec = subject(cpu="3")["spec"]["leaderWorkerTemplate"]
        await user.cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, {"spec": {"leaderWorkerTemplate": spec}})
        _, code = await running
        assert code == NOT_YET
        assert "llm: another edit of the template came meanwhile, and the groups follow that one" in user.complaint


async def test_a_timeout_leaves_it_to_the_operator(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(deadline=600))
        await order(user, "llm-2-1", resize="deferred", resize_message="no room")
        text, code = await resize(user, timeout=20.0)
        assert code == TOO_LATE
        assert "\nresize, Resizing: group 2: llm-2-1 is deferred on node " in text
        assert "llm-2-1 is deferred on node " in user.complaint
        assert "the operator goes on with it" in user.complaint
        await order(user, "llm-2-1", resize="accept")
        _, code = await user.run(show.status, "llm", "text", True, 60.0)
        assert (code, set(cpus(user).values())) == (0, {"2"})


async def test_an_interrupt_leaves_it_to_the_operator(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(deadline=600))
        await order(user, "llm-2-1", resize="deferred")
        begun = asyncio.ensure_future(
            resize_template(user.cluster.client, NAMESPACE, "llm", AmountRequest({"cpu": "2"}), TemplateEditOptions())
        )
        await asyncio.sleep(20)
        user.printed()
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        complaint = user.printed().err
        assert "interrupted; the operator goes on with it" in complaint
        assert "kohort status -w llm -n default" in complaint
        await order(user, "llm-2-1", resize="accept")
        _, code = await user.run(show.status, "llm", "text", True, 60.0)
        assert code == 0


async def test_without_waiting_it_says_how_to_follow(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        text, code = await resize(user, wait=False)
        assert code == 0
        assert text == "groups of llm get cpu 2 in place; follow it with: kohort status -w llm -n default\n"
        _, code = await user.run(show.status, "llm", "text", True, 60.0)
        assert code == 0


@pytest.mark.parametrize(
    ("template", "request_", "words"),
    [
        ({}, AmountRequest({"cpu": "2"}, role="leader"), "leaders and workers are made of one template"),
        ({}, AmountRequest({"cpu": "2"}, container="proxy"), "no template has a container proxy; there are: main"),
        (
            {"leaderTemplate": {"spec": {"containers": [{"name": "api", "image": "model"}]}}},
            AmountRequest({"cpu": "2"}, container="main", role="leader"),
            "the leader template does not have a container main; there are: api",
        ),
        (
            {"workerTemplate.spec.resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
            AmountRequest({"cpu": "2"}),
            "kohort resize llm -n default --cpu 2 --pod changes that",
        ),
    ],
)
async def test_requests_that_cannot_be_written(
    template: Mapping[str, Json], request_: AmountRequest, words: str, story: Begin
) -> None:
    built: JsonObject = subject()
    for key, value in template.items():
        built = subject().but(f"spec.leaderWorkerTemplate.{key}", value)
    async with story() as user:
        await user.create(built)
        _, code = await resize(user, request=request_)
        assert (code, words in user.complaint) == (REFUSED, True), user.complaint


async def test_the_advice_for_running_pods_keeps_the_role(story: Begin) -> None:
    block = {"requests": {"cpu": "2", "memory": "1Gi"}}
    async with story() as user:
        await user.create(subject().but("spec.leaderWorkerTemplate.workerTemplate.spec.resources", block))
        _, code = await user.run(resize_pods, "llm", {"cpu": "3"}, "", "worker", False)
        advised = "kohort resize llm -n default --cpu 3 --pod --role worker --pods-only changes that"
        assert (code, advised in user.complaint) == (REFUSED, True), user.complaint


async def test_pods_as_a_whole(story: Begin) -> None:
    built = subject().but("spec.leaderWorkerTemplate.workerTemplate.spec.resources", {"requests": {"memory": "1Gi"}})
    async with story() as user:
        await user.create(built)
        before = user.uids()
        _, code = await resize(user, request=AmountRequest({"memory": "3Gi"}, whole_pod=True))
        assert code == 0, user.complaint
        blocks = [one["spec"]["resources"]["requests"]["memory"] for one in user.cluster.objects(PODS, NAMESPACE)]
        assert (set(blocks), user.uids()) == ({"3Gi"}, before)


# plan and --dry-run


async def planned(user: Story, cpu: str, **settings: Json) -> tuple[list[JsonObject], int, str]:
    """The ways of groups, the exit code and the text of `kohort plan`."""
    built = {**subject(**settings, cpu=cpu)}
    files = {"f": yaml.safe_dump(built)}
    text, _ = await user.run(plan.plan, files, "text", False, False)
    found, code = await user.run(plan.plan, files, "json", False, False)
    (document,) = json.loads(found)
    return document["resources"]["groups"], code, text


def ways(groups: list[JsonObject]) -> list[tuple[int, str, str | None]]:
    return [(one["group"], one["way"], one["reason"]) for one in groups]


async def test_plan_of_a_resize_in_place(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        groups, code, text = await planned(user, "2")
        assert (code, ways(groups)) == (0, [(2, "InPlace", None), (1, "InPlace", None), (0, "InPlace", None)])
        assert "1. resize group 2 in place (3 groups ready meanwhile)" in text
        assert "In place: groups 2, 1, 0; 1 at a time (maxUnavailable), without a restart." in text
        assert cpus(user) == dict.fromkeys(cpus(user), "1")
        same, code = await resize(user, dry_run=True)
        assert (same, code) == (text, 0)


@pytest.mark.parametrize(("policy", "way"), [(OR_RECREATE, "Recreate"), (ONLY, "Refused")])
async def test_plan_of_a_pod_that_can_never_fit(policy: str, way: str, story: Begin) -> None:
    async with story() as user:
        await user.create(subject(policy))
        groups, code, text = await planned(user, "100", policy=policy)
        assert (code, ways(groups)[0]) == (NOT_YET, (2, way, "Infeasible"))
        assert "can never fit its node: 100 cpu requested, node" in text


async def test_plan_of_a_limit_range(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        body = {"metadata": {"name": "most"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "3"}}]}}
        await user.cluster.client.create(LIMIT_RANGES, body, NAMESPACE)
        groups, code, text = await planned(user, "4", policy=ONLY)
        assert (code, ways(groups)[0]) == (NOT_YET, (2, "Refused", "NotAdmitted"))
        assert "maximum cpu usage per Pod is 3" in text


async def test_plan_of_a_quota_that_has_room_for_some_groups(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        body = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "9"}}}
        await user.cluster.client.create(QUOTAS, body, NAMESPACE)
        await asyncio.sleep(10)
        groups, code, text = await planned(user, "2")
        assert (code, ways(groups)[:2]) == (NOT_YET, [(2, "InPlace", None), (1, "Refused", "QuotaExceeded")])
        assert "quota team: 2 more requests.cpu, 8 of 9 used; it begins when the quota has room" in text


async def test_plan_of_a_node_without_room_at_the_moment(story: Begin) -> None:
    async with story(nodes=1) as user:
        await user.create(subject(replicas=2))
        groups, code, text = await planned(user, "12", replicas=2)
        assert code == NOT_YET
        assert [bool(one["waitsFor"]) for one in groups] == [False, True]
        assert "Group 0 waits for room: llm-0 asks for cpu 11 more, node sim-0 has cpu" in text


async def test_plan_of_amounts_that_someone_else_set(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        await by_hand(user, "llm-1-1")
        groups, code, _ = await planned(user, "2")
        assert (code, ways(groups)[1]) == (NOT_YET, (1, "Refused", "Conflict"))


async def test_plan_of_the_edit_at_which_the_set_stopped(story: Begin) -> None:
    """To apply it again is no edit: nothing goes on."""
    async with story() as user:
        await user.create(subject(ONLY))
        await order(user, "llm-1-1", resize="infeasible")
        await resize(user)
        groups, code, _ = await planned(user, "2", policy=ONLY)
        assert code == NOT_YET
        assert ways(groups) == [(1, "Refused", "Stopped"), (0, "Refused", "NotReached")]
        await user.cluster.settle()
        assert cpus(user)["llm-1-1"] == "1"
        groups, code, _ = await planned(user, "3", policy=ONLY)
        assert (code, {way for _, way, _ in ways(groups)}) == (0, {"InPlace"})


# get, explain, history, undo


async def by_hand(user: Story, name: str, cpu: str = "3") -> None:
    body = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    await user.cluster.client.patch(PODS, name, NAMESPACE, body, PatchType.STRATEGIC, "resize")
    await user.cluster.settle()


async def test_plan_of_a_group_that_is_restarted_at_the_moment(story: Begin) -> None:
    """It is waited for, and what the plan says is what happens."""
    async with story() as user:
        await user.create(subject())
        await order(user, "llm-1-1", termination_latency="20s")
        await user.cluster.client.delete(PODS, "llm-1-1", NAMESPACE)
        text, code = await resize(user, dry_run=True)
        assert (code, "Refused" in text) == (0, False), text
        assert "resize group 2 in place (2 groups ready meanwhile)" in text
        assert "when group 1 is ready: resize group 1 in place (3 groups ready meanwhile)" in text
        assert "Waits for group 1: " in text
        text, code = await resize(user)
        assert (code, set(cpus(user).values())) == (0, {"2"}), text


@pytest.mark.parametrize("policy", [OR_RECREATE, ONLY])
async def test_plan_of_a_group_that_is_held(policy: str, story: Begin) -> None:
    """It is recreated whatever the policy, and what the plan says is what happens."""
    async with story() as user:
        budget = {"maxRestarts": 0}
        await user.create(subject(policy).but("spec.leaderWorkerTemplate.restartBudget", budget))
        await order(user, "llm-1-1", exit_code="3", crashes="1", exit_after="0s")
        await user.cluster.settle(30)
        before = user.uids()
        text, code = await resize(user, dry_run=True)
        assert (code, "resize group 2 in place (2 groups ready meanwhile)" in text) == (0, True), text
        assert "Recreated: group 1 (it is not ready, so recreating it costs nothing)." in text
        text, code = await resize(user)
        assert code == 0, user.complaint
        assert text.splitlines()[-1] == "llm: resized in place: groups 0, 2; recreated: group 1"
        assert user.uids() != before


async def test_plan_of_a_group_on_a_lost_node(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        node = next(one for one in user.cluster.objects(PODS, NAMESPACE) if one["metadata"]["name"] == "llm-2")
        name = node["spec"]["nodeName"]
        condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        unready = {"type": "Ready", "status": "False"}
        await user.cluster.client.patch(NODES, name, "", {"status": {"conditions": [condition]}}, subresource="status")
        await user.cluster.client.patch(
            PODS, "llm-2", NAMESPACE, {"status": {"conditions": [unready]}}, PatchType.STRATEGIC, "status"
        )
        text, code = await resize(user, dry_run=True)
        assert code == NOT_YET, text
        assert f"Waits for group 2: node {name} of llm-2 has not been ready since 2026-01-01T00:00:00Z." in text


async def test_wide_output_shows_three_versions_of_resources_and_drift(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(deadline=600))
        await by_hand(user, "llm-0-1")
        await order(user, "llm-2-1", resize="deferred")
        await resize(user, timeout=20.0)
        text, _ = await user.run(show.get, "llm", "wide", False)
        rows = {name: line for line in text.splitlines() for name in line.split() if name.endswith("-1")}
        assert "desired 2/- allocated 1/- actual 1/-" in " ".join(rows["llm-2-1"].split())
        assert "drift: containers[main].resources.requests.cpu" in rows["llm-0-1"]
        assert "drift" not in rows["llm-2-1"] + rows["llm-1-1"]
        found = json.loads((await user.run(show.get, "llm", "json", False))[0])
        workers = {one["name"]: one["resources"] for group in found["groups"] for one in group["pods"]}
        assert workers["llm-2-1"]["desired"]["cpu"] == "2"
        assert workers["llm-2-1"]["allocated"]["cpu"] == workers["llm-2-1"]["actual"]["cpu"] == "1"
        assert workers["llm-0-1"]["drift"] == ["containers[main].resources.requests.cpu"]


async def test_sidecars_are_resized_by_name(story: Begin) -> None:
    sidecar = {"name": "side", "image": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}
    built = subject(replicas=1).but("spec.leaderWorkerTemplate.workerTemplate.spec.initContainers", [sidecar])
    async with story() as user:
        await user.create(built)
        before = user.uids()
        _, code = await resize(user, request=AmountRequest({"cpu": "90m"}, container="side"))
        assert code == 0, user.complaint
        _, code = await user.run(resize_pods, "llm", {"memory": "80Mi"}, "side", "all", False)
        assert code == 0, user.complaint
        for one in user.cluster.objects(PODS, NAMESPACE):
            (found,) = one["spec"]["initContainers"]
            assert found["resources"]["requests"] == {"cpu": "90m", "memory": "80Mi"}
        assert user.uids() == before


async def test_a_pod_with_one_unlimited_container_has_no_limit(story: Begin) -> None:
    containers = [
        {"name": "main", "image": "model", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}},
        {"name": "log", "image": "log", "resources": {"requests": {"cpu": "1"}}},
    ]
    built = subject(replicas=1).but("spec.leaderWorkerTemplate.workerTemplate.spec.containers", containers)
    async with story() as user:
        await user.create(built)
        text, _ = await user.run(show.get, "llm", "wide", False)
        assert "desired 2/-" in text


async def test_groups_that_an_edit_recreates_are_named_before(story: Begin) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    async with story() as user:
        path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resizePolicy"
        await user.create(subject(replicas=2).but(path, policy))
        text, code = await resize(user)
        assert code == 0, user.complaint
        assert text.splitlines()[0] == (
            "groups of llm get cpu 2 by being recreated (groups 1, 0: llm-1: its resizePolicy restarts main, and "
            "restarts recreate the group)"
        )


async def test_groups_are_not_recreated_against_the_policy(story: Begin) -> None:
    """The limit follows the request that outgrows it, and that makes the pods Guaranteed."""
    resources = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1500m", "memory": "64Mi"}}
    path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
    async with story() as user:
        await user.create(subject(ONLY, replicas=1).but(path, resources))
        before = user.uids()
        _, code = await resize(user)
        assert (code, template_cpu(user)) == (REFUSED, "1")
        assert user.complaint == (
            "kohort: nothing was changed: group 0 would be recreated (the quality of service class of leaders would "
            "change from Burstable to Guaranteed), and resourceUpdatePolicy is InPlaceOnly; ask for other amounts, or "
            "add --recreate to allow it\n"
        )
        _, code = await resize(user, policy=ONLY)
        assert code == REFUSED and "or give --recreate instead of --policy to allow it" in user.complaint
        _, code = await resize(user, recreate=True)
        assert code == 0, user.complaint
        assert set(user.uids().values()).isdisjoint(before.values())


async def test_groups_that_had_the_resources_before_are_not_called_resized(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(replicas=2))
        text, code = await resize(user, request=AmountRequest({}), policy=ONLY)
        assert (code, text.splitlines()[-1]) == (0, "llm: had these resources before: groups 0, 1")
        text, _ = await resize(user, "1", form="json")
        found = json.loads(text)
        assert (found["resizedInPlace"], found["unchanged"], found["upToDate"]) == ([], [], [0, 1])
        text, _ = await resize(user, "2", form="json", wait=False)
        found = json.loads(text)
        assert (found["outcome"], found["resizedInPlace"], found["unchanged"]) == ("started", [], [0, 1])
        await order(user, "llm-0", resize="infeasible")
        await resize(user, "3")
        _, code = await resize(user, "3", policy=ONLY)
        assert "had these resources before: group 1" in user.complaint


async def test_a_roll_that_takes_too_long_names_what_it_waits_for(story: Begin) -> None:
    """The quality of service changes, so that groups are recreated, and a LimitRange refuses the new pods."""
    resources = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1500m", "memory": "64Mi"}}
    path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
    ranges = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1500m"}}]}}
    async with story() as user:
        await user.create(subject(replicas=1).but(path, resources))
        await user.cluster.client.create(LIMIT_RANGES, ranges, NAMESPACE)
        _, code = await resize(user, timeout=60)
        assert code == TOO_LATE
        assert "not done in time: StatefulSet llm: Create Pod llm-0 in StatefulSet llm failed" in user.complaint


async def test_a_held_group_does_not_keep_the_others_from_their_resize(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY).but("spec.leaderWorkerTemplate.restartBudget", {"maxRestarts": 0}))
        before = user.uids()
        await order(user, "llm-1-1", crash="1")
        await user.cluster.until(lambda: user.live()["status"]["readyReplicas"] == 2)
        _, code = await resize(user)
        assert (code, set(cpus(user).values())) == (0, {"2"}), user.complaint
        after = user.uids()
        assert {name for name in after if after[name] != before[name]} == {"llm-1", "llm-1-1"}


async def test_amounts_of_the_pod_that_would_change_its_class_are_refused_before_the_edit(story: Begin) -> None:
    amounts = {"cpu": "1", "memory": "64Mi"}
    path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
    async with story() as user:
        await user.create(subject(ONLY, replicas=1).but(path, {"requests": amounts, "limits": amounts}))
        before = user.live()["metadata"]["generation"]
        _, code = await resize(user, request=AmountRequest({"memory": "1Gi"}, whole_pod=True))
        assert (code, user.live()["metadata"]["generation"]) == (REFUSED, before), user.complaint
        assert "the quality of service class of leaders would change from Guaranteed to Burstable" in user.complaint


async def test_plan_of_a_leader_that_makes_room_for_its_worker(story: Begin) -> None:
    def of(cpu: str) -> JsonObject:
        return pod().containers({"name": "main", "image": "model", "resources": {"requests": {"cpu": cpu}}})

    built = subject(replicas=1).leader(of("1500m")).workers(of("400m"))
    async with story(nodes=1, capacity={"cpu": "2", "memory": "8Gi", "pods": "10"}) as user:
        await user.create(built)
        files = {"f": yaml.safe_dump({**built.leader(of("400m")).workers(of("1500m"))})}
        text, code = await user.run(plan.plan, files, "text", False, False)
        assert (code, "waits for room" in text) == (0, False), text


async def test_a_resize_is_a_revision_like_any_other(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        before = user.uids()
        await resize(user)
        entries = json.loads((await user.run(show.show_history, "llm", "json"))[0])
        assert [(one["revision"], one["current"], one["served"], one["groups"]) for one in entries] == [
            (1, False, "yes", []),
            (2, True, "yes", [0, 1, 2]),
        ]
        text, _ = await user.run(show.diff, "llm", None, None, False)
        changed = [line.strip() for line in text.splitlines() if line[:1] in "+-" and "cpu" in line]
        assert [" ".join(one.split()) for one in changed] == ["- cpu: '1'", "+ cpu: '2'"]
        _, code = await user.run(edit.undo, "llm", None, False)
        assert code == 0
        _, code = await user.run(show.status, "llm", "text", True, 60.0)
        assert (code, set(cpus(user).values()), user.uids()) == (0, {"1"}, before)


async def explained(user: Story) -> tuple[list[JsonObject], set[str]]:
    """Causes, and the verbs of the commands that were followed."""
    text, _ = await user.run(show.explain, "llm", "json")
    followed = await Follower(user).explain("llm")
    return json.loads(text), {one.removeprefix("kohort ") for one in followed}


async def test_explain_of_a_deferred_pod(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(deadline=600))
        await order(user, "llm-2-1", resize="deferred", resize_message="no room")
        await resize(user, timeout=20.0)
        (found,), followed = await explained(user)
        assert (found["kind"], found["objects"], found["found"]) == ("resize", ["llm-2-1"], "resize deferred: no room")
        assert "600 s after its begin the group gets its former resources back, and is recreated" in found["action"]
        assert followed == {"undo"}


@pytest.mark.parametrize(
    ("orders", "words", "commands"),
    [
        ({"resize": "infeasible"}, "a pod can never fit its node", {"retry", "resize", "undo"}),
        ({"resize": "deferred"}, "it was not resized within 60 s", {"retry", "resize", "undo"}),
        ({"resize": "error"}, "it was not resized within 60 s", {"retry", "resize", "undo"}),
    ],
    ids=["infeasible", "deferred", "error"],
)
async def test_explain_of_a_stop(orders: dict[str, str], words: str, commands: set[str], story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        await order(user, "llm-1-1", **orders)
        options = TemplateEditOptions(wait=False)
        await user.run(resize_template, "llm", AmountRequest({"cpu": "2"}), options)
        await asyncio.sleep(90)
        await order(user, "llm-1-1", resize="accept")
        await asyncio.sleep(60)
        (found,), followed = await explained(user)
        assert (found["kind"], found["objects"]) == ("resize", ["group 1"])
        assert words in found["found"]
        assert followed == commands


@pytest.mark.parametrize("message", ["could not find the requested resource", ""], ids=["older cluster", "method"])
async def test_explain_of_a_cluster_that_cannot_resize_pods(message: str, story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        before = user.uids()
        missing = NotFound(Status(message=f"the server {message}", code=404))
        refusal = missing if message else MethodNotAllowed(Status(message="method not allowed", code=405))
        faults = user.cluster.faults("operator")
        faults.refuse(refusal, on=lambda request: request.path.endswith("/resize"), times=None)
        await resize(user, wait=False)
        await asyncio.sleep(30)
        (found,), followed = await explained(user)
        assert (found["kind"], found["objects"]) == ("resize", ["group 2"])
        assert "the set stops there: the cluster or a node cannot resize pods in place" in found["found"]
        assert "needs Kubernetes 1.33 or newer" in found["action"]
        assert found["commands"][0] == "kohort resize llm -n default --policy InPlaceOrRecreate"
        assert followed == {"resize", "undo"}
        assert user.uids() == before
        text, code = await resize(user, request=AmountRequest({}), policy=OR_RECREATE)
        assert (code, text.splitlines()[-1]) == (0, "llm: recreated: groups 0, 1, 2")


async def test_explain_of_nodes_whose_runtime_cannot_resize(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        text = 'pods "llm-2" is forbidden: container runtime of node sim-1 does not support it'
        faults = user.cluster.faults("operator")
        refusal = Forbidden(Status(message=text, code=403))
        faults.refuse(refusal, on=lambda request: request.path.endswith("/resize"), times=None)
        await resize(user, wait=False)
        await asyncio.sleep(30)
        (found,), followed = await explained(user)
        assert text in found["found"]
        assert followed == {"retry", "resize", "undo"}


async def test_more_time_lets_a_stopped_resize_go_on(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        before = user.uids()
        await order(user, "llm-1-1", resize="deferred")
        await resize(user, wait=False)
        await asyncio.sleep(90)
        (found,), _ = await explained(user)
        (longer,) = (one for one in found["commands"] if "--deadline" in one)
        assert longer == "kohort resize llm -n default --deadline 120"
        await order(user, "llm-1-1", resize="accept")
        text, code = await user.run(resize_template, "llm", AmountRequest({}), TemplateEditOptions(deadline=120))
        assert code == 0, user.complaint
        assert text.startswith("llm: groups have 120 s each from now on")
        assert (set(cpus(user).values()), user.uids()) == ({"2"}, before)


async def test_a_retry_leaves_alone_what_the_operator_decided_since(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        await order(user, "llm-1-1", resize="infeasible")
        await resize(user)
        found = await snapshot_reader.snapshot(user.cluster.client, NAMESPACE, "llm")
        note = {"metadata": {"annotations": {group_labels.GROUP_RESIZE: "decided since"}}}
        await user.cluster.parts["operator"].crash()
        await user.cluster.client.patch(PODS, "llm-1", NAMESPACE, note)
        await edit.forget_stop(user.cluster.client, found)
        leader = user.cluster.find(PODS, "llm-1", NAMESPACE)
        await user.cluster.parts["operator"].restart()
        assert leader is not None
        assert leader["metadata"]["annotations"][group_labels.GROUP_RESIZE] == "decided since"


async def test_explain_of_a_quota(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        body = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "9"}}}
        await user.cluster.client.create(QUOTAS, body, NAMESPACE)
        await asyncio.sleep(10)
        await resize(user, timeout=30.0)
        causes, followed = await explained(user)
        assert causes[0]["kind"] == "refused"
        assert "quota team: 2 more requests.cpu, 8 of 9 used" in causes[0]["found"]
        assert followed == {"undo"}


async def test_explain_of_a_conflict(story: Begin) -> None:
    async with story() as user:
        await user.create(subject())
        await by_hand(user, "llm-1-1")
        _, code = await resize(user)
        assert (code, "stopped (Conflict)" in user.complaint) == (NOT_YET, True)
        causes, followed = await explained(user)
        assert (causes[0]["kind"], causes[0]["objects"]) == ("resize", ["llm-1-1"])
        assert "it was changed on the pod itself, and is not overwritten" in causes[0]["found"]
        assert "restart" in followed


async def test_a_set_without_edits_is_as_wanted_after_a_change_by_hand(story: Begin) -> None:
    """With a policy for changes in place, the operator reports it; without one, only get shows it."""
    async with story() as user:
        await user.create(subject("Recreate"))
        await by_hand(user, "llm-1-1")
        text, code = await user.run(show.explain, "llm", "text")
        assert (code, "Everything is as wanted." in text) == (0, True)
        await user.cluster.client.patch(
            LEADER_WORKER_SETS, "llm", NAMESPACE, {"spec": {"rolloutStrategy": {"resourceUpdatePolicy": ONLY}}}
        )
        await user.cluster.settle()
        causes, followed = await explained(user)
        assert ([one["objects"] for one in causes], followed) == ([["llm-1-1"]], {"restart"})


async def test_status_ends_at_a_stop(story: Begin) -> None:
    async with story() as user:
        await user.create(subject(ONLY))
        await order(user, "llm-1-1", resize="infeasible")
        await resize(user, wait=False)
        text, code = await user.run(show.status, "llm", "text", True, 300.0)
        assert code == NOT_YET
        assert "resize, Stopped: " in text
        assert "has stopped; find out what to do with: kohort explain llm -n default" in user.complaint


# Under a Rollout


async def test_a_release_in_place_is_followed_to_its_pause(capsys: pytest.CaptureFixture[str]) -> None:
    async with begun() as told:
        user = Story(told.cluster, capsys)
        before = user.uids()
        text, code = await resize(user, "200m", dry_run=True)
        assert (code, "in place: no canary set is made" in text) == (0, True)
        _, code = await resize(user, "200m", timeout=600.0)
        assert (code, "its release is paused and waits" in user.complaint) == (PAUSED, True)
        assert "resized in place: group 3; with former resources: groups 0, 1, 2" in user.complaint
        advised = await Follower(user).read(user.complaint)
        assert advised == ["kohort approve llm -n default", "kohort abort llm -n default"]
        await user.run(edit.abort, "llm")
        await told.ended("100m")
        assert user.uids() == before


@pytest.mark.parametrize("verb", ["abort", "undo"])
async def test_a_withdrawn_release_in_place_is_taken_back(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Groups have the stable resources again, but the template still asks for others: that is what is under way."""
    quick: list[JsonObject] = [{"replicas": one, "pause": {"duration": 1}} for one in (2, "100%")]
    async with begun(steps=quick) as told:
        user = Story(told.cluster, capsys)
        before = user.uids()
        await told.resize("150m")  # so that there is an older version than the stable one
        await told.ended("150m")
        timeout = {rollout_labels.STEP_TIMEOUT: "100", rollout_labels.STEP_TIMEOUT_ACTION: "rollback"}
        await told.edit({"metadata": {"annotations": timeout}})
        await told.order("llm-3-1", "deferred")
        await told.resize("200m")
        await told.until(lambda: bool(told.events("Withdrawn")))
        await told.cluster.settle()
        text, code = await user.run(show.status, "llm", "text", False)
        assert code != 0, text
        if verb == "abort":
            await user.run(edit.abort, "llm")
        else:
            await user.run(edit.undo, "llm", None, False)
        await told.ended("150m")
        assert (template_cpu(user), user.uids()) == ("150m", before)
