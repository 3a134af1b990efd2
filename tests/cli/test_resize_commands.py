"""`kohort resize` of the number of pods in groups, and of running pods with `--pods-only`."""

import json
from collections.abc import Callable

import pytest
from tests.builders import lws
from tests.cli.terminal import NAMESPACE, ORDER

from kohort.cli.actions import resize, show
from kohort.cli.connection import NOT_YET, REFUSED
from kohort.kube.client import PatchType
from kohort.kube.resources import NODES, PODS
from kohort.objects.json_types import Json


async def test_resize_of_groups_must_be_allowed(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(2))
        _, code = await user.run(resize.resize_groups, "llm", 3, False, False)
        assert code == REFUSED
        assert "add --recreate to allow it" in user.complaint
        _, code = await user.run(resize.resize_groups, "llm", 3, True, False)
        assert code == 0
        await user.run(show.status, "llm", "text", True, 600.0)
        assert sorted(user.uids()) == ["llm-0", "llm-0-1", "llm-0-2"]


async def test_resize_of_pods_leaves_them_alive(story: Callable[..., Json]) -> None:
    async with story() as user:
        path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
        await user.create(lws("llm").replicas(1).size(3).but(path, {"requests": {"cpu": "1"}}))
        before = user.uids()
        _, code = await user.run(resize.resize_pods, "llm", {"cpu": "2"}, "", "worker", False)
        assert code == 0
        await user.cluster.settle()
        assert user.uids() == before
        cpus = {
            one["metadata"]["name"]: one["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            for one in user.cluster.objects(PODS, NAMESPACE)
        }
        assert cpus == {"llm-0": "1", "llm-0-1": "2", "llm-0-2": "2"}
        text, _ = await user.run(show.explain, "llm", "text")
        assert "Everything is as wanted." in text


async def test_a_node_that_enforces_nothing_is_named(story: Callable[..., Json]) -> None:
    async with story(nodes=1) as user:
        path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
        await user.create(lws("llm").replicas(1).size(2).but(path, {"requests": {"cpu": "1"}}))
        text, _ = await user.run(resize.resize_pods, "llm", {"cpu": "2"}, "", "all", False)
        assert "enforced" not in text
        condition = {"type": "ResourcesEnforced", "status": "False", "reason": "NoCgroups", "message": "no cgroup v2"}
        body = {"status": {"conditions": [condition]}}
        await user.cluster.client.patch(NODES, "sim-0", "", body, PatchType.STRATEGIC, "status")
        text, code = await user.run(resize.resize_pods, "llm", {"cpu": "3"}, "", "all", False)
        assert (code, text.splitlines()[-1]) == (0, "Limits are not enforced on node sim-0: no cgroup v2")


async def test_a_resize_that_the_node_can_never_hold_is_refused(story: Callable[..., Json]) -> None:
    async with story() as user:
        path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
        await user.create(lws("llm").replicas(1).size(1).but(path, {"requests": {"cpu": "1"}}))
        _, code = await user.run(resize.resize_pods, "llm", {"cpu": "1000"}, "", "leader", False)
        assert code == REFUSED
        assert "cpu, requested: 1000000, allocatable: 32000; ask for less" in user.complaint


@pytest.mark.parametrize(
    ("limit", "wanted", "becomes"),
    [("1", "2", "2"), ("4", "2", "4"), ("4", "6", "6"), ("4", "4", "4")],
    ids=["equal limits stay equal", "higher limits stay", "outgrown limits follow", "up to the limit"],
)
async def test_limits_in_a_resize(story: Callable[..., Json], limit: str, wanted: str, becomes: str) -> None:
    async with story() as user:
        path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": limit}}
        await user.create(lws("llm").replicas(1).size(1).but(path, resources))
        _, code = await user.run(resize.resize_pods, "llm", {"cpu": wanted}, "", "leader", False)
        assert code == 0, user.complaint
        pod = user.cluster.find(PODS, "llm-0", NAMESPACE)
        assert pod is not None
        found = pod["spec"]["containers"][0]["resources"]
        assert (found["requests"]["cpu"], found["limits"]["cpu"]) == (wanted, becomes)


async def test_a_dry_run_promises_nothing_to_follow(story: Callable[..., Json]) -> None:
    async with story() as user:
        path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
        await user.create(lws("llm").replicas(1).size(2).but(path, {"requests": {"cpu": "1"}}))
        text, code = await user.run(resize.resize_pods, "llm", {"cpu": "2"}, "", "all", True)
        assert (text, code) == ("2 pods of llm could get cpu 2 in place\n", 0)
        assert len(user.uids()) == 2


async def test_a_dry_run_of_another_size_shows_the_plan(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(2))
        text, code = await user.run(resize.resize_groups, "llm", 3, True, True)
        assert code == 0
        assert "  spec.leaderWorkerTemplate.size: 2 → 3\n" in text
        assert "Groups change from 2 to 3 pods each." in text
        assert "2 groups recreated (4 pods replaced by 6); never fewer than 1 group ready." in text
        text, _ = await user.run(resize.resize_groups, "llm", 3, True, True, "json")
        assert (json.loads(text)["recreated"], json.loads(text)["podsMade"]) == ([1, 0], 6)
        assert len(user.uids()) == 4


async def test_a_dry_run_of_a_size_without_room_says_so(story: Callable[..., Json]) -> None:
    async with story(nodes=1) as user:
        path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
        await user.create(lws("llm").replicas(1).size(2).but(path, {"requests": {"cpu": "10"}}))
        text, code = await user.run(resize.resize_groups, "llm", 4, True, True)
        assert code == NOT_YET
        assert "no node" in text
        assert len(user.uids()) == 2


async def test_a_dry_run_of_the_size_that_groups_have_plans_nothing(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(2))
        text, code = await user.run(resize.resize_groups, "llm", 2, False, True)
        assert (text, code) == ("groups of llm have 2 pods already\n", 0)
        text, code = await user.run(resize.resize_groups, "llm", 2, False, True, "json")
        assert (json.loads(text)["action"], code) == ("nothing", 0)


async def test_a_resize_that_waits_is_explained(story: Callable[..., Json]) -> None:
    async with story() as user:
        template = lws("llm").replicas(1).size(2)
        path = "spec.leaderWorkerTemplate.workerTemplate"
        resources = {"requests": {"cpu": "1"}}
        orders = {f"{ORDER}resize": "deferred"}
        built = template.but(f"{path}.spec.containers.0.resources", resources).but(
            f"{path}.metadata.annotations", orders
        )
        await user.create(built)
        await user.run(resize.resize_pods, "llm", {"cpu": "2"}, "", "leader", False)
        await user.cluster.settle()
        text, code = await user.run(show.explain, "llm", "json")
        assert code == NOT_YET
        assert [(one["kind"], one["objects"]) for one in json.loads(text)] == [("resize", ["llm-0"])]


POD = "spec.leaderWorkerTemplate.workerTemplate.spec"


async def test_resize_of_pods_as_a_whole(story: Callable[..., Json]) -> None:
    async with story() as user:
        block = {"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}}
        await user.create(lws("llm").replicas(1).size(2).but(f"{POD}.resources", block))
        before = user.uids()
        _, code = await user.run(resize.resize_pods, "llm", {"memory": "3Gi"}, "", "all", False)
        assert code == REFUSED
        assert "kohort resize llm -n default --memory 3Gi --pod --pods-only" in user.complaint
        _, code = await user.run(resize.resize_pods, "llm", {"memory": "3Gi"}, "", "all", True, True)
        assert (code, user.complaint) == (0, "")
        _, code = await user.run(resize.resize_pods, "llm", {"memory": "3Gi"}, "", "all", False, True)
        assert (code, user.complaint) == (0, "")
        await user.cluster.settle()
        assert user.uids() == before
        blocks = [one["spec"]["resources"] for one in user.cluster.objects(PODS, NAMESPACE)]
        assert [(one["requests"]["memory"], one["limits"]["memory"]) for one in blocks] == [("3Gi", "3Gi")] * 2


@pytest.mark.parametrize("whole_pod", [False, True])
async def test_a_resize_that_restarts_containers_must_be_allowed(whole_pod: bool, story: Callable[..., Json]) -> None:
    """It does not recreate their groups: the other pods run on, and the new size stays."""
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    built = lws("llm").replicas(1).size(2).but(f"{POD}.containers.0.resizePolicy", policy)
    if whole_pod:
        built = built.but(f"{POD}.resources", {"requests": {"memory": "1Gi"}})
    else:
        built = built.but(f"{POD}.containers.0.resources", {"requests": {"memory": "1Gi"}})
    async with story() as user:
        await user.create(built)
        _, code = await user.run(resize.resize_pods, "llm", {"memory": "2Gi"}, "", "all", False, whole_pod)
        assert code == REFUSED
        assert "while the other pods of their groups run on" in user.complaint
        before = user.uids()
        _, code = await user.run(resize.resize_pods, "llm", {"cpu": "1"}, "", "all", True, whole_pod)
        assert "restart" not in user.complaint
        text, code = await user.run(resize.resize_pods, "llm", {"memory": "2Gi"}, "", "all", False, whole_pod, True)
        assert (code, "their groups are not recreated for that" in text) == (0, True)
        await user.cluster.settle()
        assert user.uids() == before


async def test_a_set_that_leaves_its_groups_alone_may_be_resized(story: Callable[..., Json]) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    built = lws("llm").replicas(1).size(2).restart("None").but(f"{POD}.containers.0.resizePolicy", policy)
    async with story() as user:
        await user.create(built.but(f"{POD}.containers.0.resources", {"requests": {"memory": "1Gi"}}))
        _, code = await user.run(resize.resize_pods, "llm", {"memory": "2Gi"}, "", "all", False)
        assert (code, user.complaint) == (0, "")
