"""The commands against a cluster in this process, on virtual time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
import yaml
from tests.builders import container, lws, pod
from tests.cli.terminal import NAMESPACE, ORDER, Story

from kohort.cli.actions import drain, edit, logs, plan, show, snapshot_reader
from kohort.cli.connection import DIFFERENT, NOT_YET, REFUSED, TOO_LATE
from kohort.inspection import history
from kohort.kube.errors import ApiError, Invalid
from kohort.kube.pod_logs import TIMESTAMPS, Query
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, POD_DISRUPTION_BUDGETS, PODS, STATEFUL_SETS, Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
MOUNT: JsonObject = {"name": "data", "mountPath": "/data"}
CLAIM: JsonObject = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
IMAGE = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.image"


def image_change(image: str) -> JsonObject:
    return {
        "spec": {
            "leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "main", "image": image}]}}}
        }
    }


async def test_get_shows_every_pod_with_its_node(story: Callable[..., Json]) -> None:
    async with story() as user:
        text, _ = await user.run(show.get, None, "text", False)
        assert text.startswith("No LeaderWorkerSets in namespace default.")
        await user.create(lws("llm").replicas(2).size(2))
        text, code = await user.run(show.get, None, "text", False)
        assert code == 0
        assert text.splitlines()[0].startswith("default/llm  Available  2/2 groups ready, 2 up to date, revision 1 (")
        for pod in user.cluster.objects(PODS, NAMESPACE):
            (line,) = [line for line in text.splitlines() if f" {pod['metadata']['name']} " in line]
            assert f"  {pod['spec']['nodeName']}  Running" in line


async def test_get_as_json_and_yaml_say_the_same(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(2))
        text, _ = await user.run(show.get, "llm", "json", False)
        document = json.loads(text)
        assert (document["wanted"], document["ready"], len(document["groups"])) == (2, 2, 2)
        assert document["groups"][1]["pods"][1]["name"] == "llm-1-1"
        text, _ = await user.run(show.get, "llm", "yaml", False)
        assert yaml.safe_load(text) == document


async def test_status_follows_a_roll_to_its_end(story: Callable[..., Json]) -> None:
    async with story(start_latency=10.0) as user:
        await user.create(lws("llm").replicas(3).size(2))
        await user.change(image_change("new:2"))
        text, code = await user.run(show.status, "llm", "text", False)
        assert code == NOT_YET
        text, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0
        seen = [line.split("]  ")[1].split(" ")[0] for line in text.splitlines() if "]  " in line]
        assert [count for place, count in enumerate(seen) if count not in seen[:place]][-3:] == ["1/3", "2/3", "3/3"]
        assert "  waiting for " in text


async def test_status_gives_up_in_time(story: Callable[..., Json]) -> None:
    async with story() as user:
        template = lws("llm").replicas(1).size(1)
        path = "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations"
        await user.create(template.but(path, {f"{ORDER}never-ready": "true"}), ready=False)
        _, code = await user.run(show.status, "llm", "text", True, 30.0)
        assert code == TOO_LATE
        assert (
            user.complaint == "kohort: llm is not done after 30 s; find out why with: kohort explain llm -n default\n"
        )


@pytest.mark.parametrize("seconds", [0.0, 0.01])
async def test_status_looks_once_however_little_time_there_is(story: Callable[..., Json], seconds: float) -> None:
    async with story(start_latency=10.0) as user:
        await user.create(lws("llm").replicas(2).size(1))
        text, code = await user.run(show.status, "llm", "text", True, seconds)
        assert (code, "2/2" in text, user.complaint) == (0, True, "")
        await user.change(image_change("new:2"))
        text, code = await user.run(show.status, "llm", "text", True, seconds)
        assert (code, text.count("]  ")) == (TOO_LATE, 1)
        assert (
            user.complaint
            == f"kohort: llm is not done after {seconds:g} s; find out why with: kohort explain llm -n default\n"
        )


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        ({f"{ORDER}never-ready": "true"}, "probe"),
        ({f"{ORDER}waiting": "ImagePullBackOff"}, "image"),
        ({f"{ORDER}waiting": "CreateContainerConfigError"}, "configuration"),
    ],
)
async def test_explain_names_what_is_wrong(order: dict[str, str], kind: str, story: Callable[..., Json]) -> None:
    async with story() as user:
        path = "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations"
        await user.create(lws("llm").replicas(1).size(2).but(path, order), ready=False)
        await user.cluster.settle()
        text, code = await user.run(show.explain, "llm", "json")
        assert code == NOT_YET
        assert json.loads(text)[0]["kind"] == kind


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
async def test_explain_says_why_nodes_refuse_the_pods_of_a_group(policy: str, story: Callable[..., Json]) -> None:
    """At any moment: while the refused pod is there, while it ends, and while its group waits to be made again."""
    words = "pod-level resources need cgroup v2"
    order = {f"{ORDER}fail": f"PodLevelResourcesNotSupported: {words}"}
    path = "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations"
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(2).restart(policy).but(path, order), ready=False)
        await asyncio.sleep(5.0)
        for _ in range(12):
            await asyncio.sleep(7.0)
            text, code = await user.run(show.explain, "llm", "text")
            assert code == NOT_YET
            assert words in text, text


async def test_explain_finds_the_missing_room(story: Callable[..., Json]) -> None:
    async with story(nodes=2) as user:
        requests = {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
        path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"
        await user.create(lws("llm").replicas(1).size(4).but(path, requests), ready=False)
        await user.cluster.settle()
        text, code = await user.run(show.explain, "llm", "text")
        assert code == NOT_YET
        assert "1. [scheduling] llm-0-" in text
        assert "2 Insufficient nvidia.com/gpu" in text
        assert "→ add nodes" in text


async def test_explain_when_all_is_well(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(2))
        text, code = await user.run(show.explain, "llm", "text")
        assert (text.splitlines()[-1], code) == ("Everything is as wanted.", 0)


async def test_plan_foretells_what_then_happens(story: Callable[..., Json]) -> None:
    async with story(start_latency=10.0) as user:
        before = lws("llm").replicas(3).size(2).max_surge(1)
        await user.create(before)
        file = yaml.safe_dump(dict(before.but(IMAGE, "new:2")))
        text, code = await user.run(plan.plan, {"llm.yaml": file}, "json", False, True)
        assert code == DIFFERENT
        (foretold,) = json.loads(text)
        most = [0]
        uids = user.uids()

        def rolled() -> bool:
            (leaders,) = [
                one for one in user.cluster.objects(STATEFUL_SETS, NAMESPACE) if one["metadata"]["name"] == "llm"
            ]
            most.append(leaders["spec"]["replicas"])
            status, generation = user.live()["status"], user.live()["metadata"]["generation"]
            if status["observedGeneration"] < generation:
                return False
            return [status.get(name) for name in ("updatedReplicas", "readyReplicas", "replicas")] == [3, 3, 3]

        await user.change(image_change("new:2"))
        await user.cluster.until(rolled)
        recreated = {name for name, uid in user.uids().items() if uids.get(name) != uid}
        assert len(recreated) == foretold["podsRecreated"] == 6
        assert max(most) == max(step["replicas"] for step in foretold["steps"]) == 4


async def test_plan_counts_what_pods_would_be_stored_with(story: Callable[..., Json]) -> None:
    """Limits alone, and what a LimitRange adds; exit code 3 where that does not fit."""
    gpus: JsonObject = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    async with story(nodes=1, capacity={"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}) as user:
        await user.cluster.until(lambda: any(map(_is_ready, user.cluster.objects(NODES))))
        file = yaml.safe_dump(dict(lws("llm").replicas(1).size(2).containers(container(**gpus))))
        text, code = await user.run(plan.plan, {"f": file}, "text", False, True)
        assert code == NOT_YET
        assert "Room needed on top of today's: 1 group, 2 pods (nvidia.com/gpu 16)." in text
        assert "does not fit, 1 of its pods find no node (not enough nvidia.com/gpu on any)" in text
        small = (
            lws("llm")
            .replicas(1)
            .size(1)
            .but("spec.leaderWorkerTemplate.volumeClaimTemplates", [CLAIM])
            .containers(container(volumeMounts=[MOUNT], **gpus))
        )
        text, code = await user.run(plan.plan, {"f": yaml.safe_dump(dict(small))}, "text", False, True)
        assert (code, "Room: it fits." in text) == (DIFFERENT, True)
        plain = yaml.safe_dump(dict(lws("llm").replicas(1).size(2)))
        _, code = await user.run(plan.plan, {"f": plain}, "text", False, False)
        assert code == 0
        limits = [{"type": "Container", "defaultRequest": {"cpu": "5"}, "default": {"cpu": "5"}}]
        body = {"metadata": {"name": "defaults"}, "spec": {"limits": limits}}
        await user.cluster.client.create(LIMIT_RANGES, body, NAMESPACE)
        text, code = await user.run(plan.plan, {"f": plain}, "text", False, False)
        assert code == NOT_YET
        assert "(cpu 10)" in text
        assert user.cluster.objects(PODS, NAMESPACE) == []


def _is_ready(node: JsonObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def test_plan_changes_nothing_and_asks_the_server(story: Callable[..., Json]) -> None:
    async with story() as user:
        before = lws("llm").replicas(1).size(2)
        await user.create(before)
        version = user.live()["metadata"]["resourceVersion"]
        text, code = await user.run(plan.plan, {"f": yaml.safe_dump(dict(before))}, "text", False, True)
        assert (text, code) == ("LeaderWorkerSet llm would not change.\n", 0)
        _, code = await user.run(plan.plan, {"f": yaml.safe_dump(dict(before.size(3)))}, "text", False, False)
        assert code == REFUSED
        assert "spec.leaderWorkerTemplate.size" in user.complaint
        assert "set resizePolicy to Recreate" in user.complaint
        assert user.live()["metadata"]["resourceVersion"] == version


async def test_plan_names_an_unknown_field(story: Callable[..., Json]) -> None:
    """Of a set that exists already, for which the server answers with the whole patch."""
    async with story() as user:
        before = lws("llm").replicas(1).size(2)
        await user.create(before)
        file = yaml.safe_dump(dict(before.but("spec.replicsa", 2)))
        _, code = await user.run(plan.plan, {"f": file}, "text", False, False)
        assert (code, user.complaint) == (
            REFUSED,
            'kohort: LeaderWorkerSet llm is refused:\n  unknown field "spec.replicsa"\n',
        )


async def test_plan_server_side(story: Callable[..., Json]) -> None:
    async with story() as user:
        text, _ = await user.run(plan.plan, {"f": yaml.safe_dump(dict(lws("llm")))}, "text", True, False)
        assert text.startswith("LeaderWorkerSet llm would be created.")
        assert user.cluster.objects(LEADER_WORKER_SETS, NAMESPACE) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: LeaderWorkerset", "kohort: f holds no LeaderWorkerSet or Rollout, but: LeaderWorkerset\n"),
        ("", "kohort: f holds nothing; name a file with a LeaderWorkerSet or a Rollout\n"),
        ("a: [", "kohort: f is not YAML: "),
        ("kind: LeaderWorkerSet", "kohort: f: a LeaderWorkerSet has no metadata.name\n"),
    ],
)
async def test_plan_of_something_else(text: str, complaint: str, story: Callable[..., Json]) -> None:
    async with story() as user:
        _, code = await user.run(plan.plan, {"f": text}, "text", False, False)
        assert code == REFUSED
        assert user.complaint.startswith(complaint)


async def test_undo_returns_and_history_tells(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(2))
        old = user.image()
        await user.change(image_change("new:2"))
        await user.run(show.status, "llm", "text", True, 600.0)
        text, _ = await user.run(show.show_history, "llm", "json")
        assert [(one["revision"], one["current"], one["images"]) for one in json.loads(text)] == [
            (1, False, [old]),
            (2, True, ["new:2"]),
        ]
        text, _ = await user.run(show.show_history, "llm", "text", 1)
        assert old in text
        assert "new:2" not in text
        text, code = await user.run(show.diff, "llm", None, None, True)
        assert code == DIFFERENT
        assert f"-      - image: {old}" in text
        _, code = await user.run(edit.undo, "llm", None, True)
        assert (code, user.image()) == (0, "new:2")
        _, code = await user.run(edit.undo, "llm", 1, False)
        assert (code, user.image()) == (0, old)
        await user.run(show.status, "llm", "text", True, 600.0)
        text, _ = await user.run(show.show_history, "llm", "json")
        assert [(one["revision"], one["current"]) for one in json.loads(text)] == [(2, False), (3, True)]


async def test_undo_is_refused_by_another_edit_and_not_by_a_new_status(story: Callable[..., Json]) -> None:
    """The status changes all the time while a set rolls, which is when a user wants to go back."""
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(1))
        old, client = user.image(), user.cluster.client
        await user.change(image_change("new:2"))
        await user.cluster.settle()
        found = await snapshot_reader.subject(client, NAMESPACE, "llm")
        wanted = history.previous(found)
        await client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, {"status": {"readyReplicas": 0}}, subresource="status")
        await edit.return_to(client, found, wanted)
        assert user.image() == old
        with pytest.raises(Invalid):
            await edit.return_to(client, found, wanted)


async def test_undo_after_undo_skips_what_never_became_ready(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(1))
        old = user.image()
        await user.cluster.settle()
        template = {"metadata": {"annotations": {f"{ORDER}never-ready": "true"}}}
        await user.change({"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}})
        await user.change(image_change("broken:2"))
        await user.cluster.settle()
        _, code = await user.run(edit.undo, "llm", None, False)
        assert (code, user.image()) == (0, old)
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0
        _, code = await user.run(edit.undo, "llm", None, False)
        assert (code, user.image()) == (REFUSED, old)
        assert "has no earlier revision that ever became ready everywhere; never ready: " in user.complaint
        text, _ = await user.run(show.show_history, "llm", "json")
        assert {one["served"] for one in json.loads(text) if not one["current"]} == {"never"}
        number = json.loads(text)[-2]["revision"]
        _, code = await user.run(edit.undo, "llm", number, False)
        assert (code, user.image()) == (0, "broken:2"), "it can be named"


async def test_undo_of_what_was_never_changed(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(1))
        _, code = await user.run(edit.undo, "llm", None, False)
        assert code == REFUSED
        assert user.complaint == (
            "kohort: LeaderWorkerSet llm has no earlier revision; kept are: 1 (kohort history llm)\n"
        )


async def test_pause_holds_the_groups_that_have_not_begun(story: Callable[..., Json]) -> None:
    async with story(start_latency=30.0) as user:
        await user.create(lws("llm").replicas(3).size(2))
        await user.change(image_change("new:2"))
        await user.cluster.until(lambda: user.live()["status"].get("updatedReplicas") == 1)
        text, _ = await user.run(edit.pause, "llm")
        assert "is paused" in text
        await user.cluster.settle()
        held = user.live()["status"]["updatedReplicas"]
        assert held < 3
        text, code = await user.run(show.explain, "llm", "text")
        assert "kohort resume llm" in text
        await user.run(edit.resume, "llm")
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0
        assert user.live()["status"]["updatedReplicas"] == 3
        assert "annotations" not in user.live()["metadata"] or not user.live()["metadata"]["annotations"]


async def test_restart_of_all_groups_and_of_one(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(2))
        before = user.uids()
        await user.run(edit.restart, "llm", 1)
        await user.cluster.until(lambda: user.uids().get("llm-1", before["llm-1"]) != before["llm-1"])
        await user.run(show.status, "llm", "text", True, 600.0)
        between = user.uids()
        assert {name for name in before if before[name] != between[name]} == {"llm-1", "llm-1-1"}
        await user.run(edit.restart, "llm", None)
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        after = user.uids()
        assert code == 0
        assert {name for name in between if between[name] != after[name]} == set(between)
        _, code = await user.run(edit.restart, "llm", 7)
        assert user.complaint == "kohort: LeaderWorkerSet llm has no group 7; there are: 0, 1\n"


async def test_a_name_that_does_not_exist(story: Callable[..., Json]) -> None:
    async with story() as user:
        _, code = await user.run(show.get, "lmm", "text", False)
        assert (code, user.complaint) == (
            REFUSED,
            "kohort: there is no LeaderWorkerSet lmm in namespace default, nor any other; "
            "kubectl apply -f examples/llm.yaml makes one\n",
        )
        await user.create(lws("llm").replicas(1).size(1))
        await user.run(show.get, "lmm", "text", False)
        assert user.complaint == "kohort: there is no LeaderWorkerSet lmm in namespace default; there are: llm\n"


async def test_a_cluster_that_does_not_know_the_kind(capsys: pytest.CaptureFixture[str]) -> None:
    async with Cluster() as cluster:
        user = Story(cluster, capsys)
        _, code = await user.run(show.get, "llm", "text", False)
        assert (code, user.complaint) == (
            REFUSED,
            "kohort: this cluster does not know LeaderWorkerSets; `kohort install` brings them\n",
        )


async def test_logs_of_pods_on_simulated_nodes(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(2))
        _, code = await user.run(logs.logs, "llm", None, "", "", ())
        assert code == REFUSED
        *pods, reason = user.complaint.splitlines()
        assert [line.split("  ")[0] for line in pods] == ["llm-0", "llm-0-1"]
        assert reason.startswith("kohort: pods on simulated nodes only pretend to run")
        _, code = await user.run(logs.logs, "llm", 4, "", "", ())
        assert user.complaint == "kohort: LeaderWorkerSet llm has no pods in group 4; there are: llm-0, llm-0-1\n"


class Written:
    """A pod that has said something."""

    def __init__(self, prefix: str, *lines: str) -> None:
        self.prefix = prefix
        self._lines = lines

    async def lines(self, query: Query) -> AsyncIterator[str]:
        assert TIMESTAMPS in query
        for line in self._lines:
            yield line


async def test_logs_are_in_the_order_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    day = "2026-01-01T00:00:"
    leader = Written("llm-0", f"{day}01.5Z loads", f"{day}03Z  50%|\r100%|", "no time")
    worker = Written("llm-0-1", f"{day}01.25Z starts", f"{day}02.000000001Z has joined")
    await logs.by_time([leader, worker], ())
    assert capsys.readouterr().out.removesuffix("\n").split("\n") == [
        "llm-0-1  starts",
        "llm-0  loads",
        "llm-0-1  has joined",
        "llm-0   50%|\r100%|",
        "llm-0  no time",
    ]
    await logs.by_time([worker], (TIMESTAMPS,))
    assert capsys.readouterr().out.startswith(f"llm-0-1  {day}01.25Z starts\n")


async def test_logs_of_a_container_that_is_not_there_name_those_that_are(story: Callable[..., Json]) -> None:
    async with story() as user:
        leader = pod("leader").containers(container("main"), container("router")).init_container("load")
        await user.create(lws("llm").replicas(1).size(2).leader(leader))
        _, code = await user.run(logs.logs, "llm", None, "", "nope", ())
        assert (code, user.complaint) == (
            REFUSED,
            "kohort: no container nope in llm-0, llm-0-1; there are: main, router, load\n",
        )
        await user.run(logs.logs, "llm", None, "llm-0-1", "router", ())
        assert user.complaint == "kohort: no container router in llm-0-1; there are: main\n"
        await user.run(logs.logs, "llm", None, "", "router", ())
        asked = [line.split("  ")[0] for line in user.complaint.splitlines() if "(no logs: " in line]
        assert asked == ["llm-0"], "workers have no router, which nobody needs to be told"


async def test_approve_without_a_rollout(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(1))
        _, code = await user.run(edit.approve, "llm")
        assert code == REFUSED
        assert user.complaint.startswith("kohort: no Rollout releases LeaderWorkerSet llm")


async def test_a_drain_of_a_node_that_does_not_exist(story: Callable[..., Json]) -> None:
    async with story() as user:
        _, code = await user.run(lambda client, _: drain.plan_drain(client, "nope", "text"))
        assert (code, user.complaint) == (REFUSED, "kohort: there is no node nope; list them with: kubectl get nodes\n")


async def test_a_second_disruption_budget_is_named_before_a_drain(story: Callable[..., Json]) -> None:
    """Kubernetes evicts no pod that two PodDisruptionBudgets select."""
    async with story() as user:
        await user.create(lws("llm").replicas(2).size(2).but("spec.disruptionBudget", {"maxUnavailable": "50%"}))
        selector = {"matchLabels": {group_labels.NAME: "llm"}}
        every = {"metadata": {"name": "every-pod"}, "spec": {"maxUnavailable": 1, "selector": selector}}
        client = user.cluster.client
        await client.create(POD_DISRUPTION_BUDGETS, every, NAMESPACE)
        await user.cluster.settle()
        node = next(
            one["spec"]["nodeName"]
            for one in user.cluster.objects(PODS, NAMESPACE)
            if one["metadata"]["name"] == "llm-0"
        )
        text, code = await user.run(lambda client, _: drain.plan_drain(client, node, "text"))
        assert code == NOT_YET, text
        assert f"the drain does not end before PodDisruptionBudget {NAMESPACE}/every-pod is changed or deleted" in text
        text, code = await user.run(show.explain, "llm", "text")
        assert (code, "[refused] llm-0 and 1 more: PodDisruptionBudgets llm and every-pod select it" in text) == (
            0,
            True,
        )
        with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
            await client.create(PODS, {"metadata": {"name": "llm-0"}}, NAMESPACE, name="llm-0", subresource="eviction")
