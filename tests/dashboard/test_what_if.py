"""What if, and nodes."""

import re
from collections.abc import AsyncIterator
from html import unescape

import msgspec
import pytest
from tests.builders import lws, pod
from tests.dashboard.scene import GPU, Scene, Visit, dashboard, model_set, scene, visit

from kohort.cli.actions.drain import plan_drain
from kohort.cli.actions.output_formats import captured
from kohort.cli.connection import NOT_YET
from kohort.dashboard.nodes_page import NodesPage, PodRequests, nodes_page
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.roll_cost import accelerators_of, ready_groups, roll_cost
from kohort.inspection.roll_simulation import ForecastStep
from kohort.inspection.snapshot import Snapshot
from kohort.kube.resources import (
    LEADER_WORKER_SETS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import Json
from kohort.rules import group_labels


@pytest.fixture
async def place() -> AsyncIterator[tuple[Scene, Visit]]:
    async with scene(nodes=4) as found, dashboard(found) as made, visit(made) as user:
        await found.create(model_set("llm", image="model:1", gpus=1))
        await found.ready("llm")
        yield found, user


async def planned(user: Visit, manifest: str, status: int = 200) -> Json:
    csrf = re.search(r'name="csrf" value="([^"]+)"', await user.text("/dashboard/what-if"))
    assert csrf is not None
    body = {"csrf": csrf[1], "namespace": "default", "manifest": manifest}
    headers = {"Accept": "application/json"}
    async with user.session.post(f"{user.base}/dashboard/what-if", data=body, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def test_a_set_is_edited_and_planned(place: tuple[Scene, Visit]) -> None:
    found, user = place
    begun = await user.json("/dashboard/what-if?set=default/llm")
    assert "image: model:1" in begun["manifest"]
    page = await planned(user, begun["manifest"].replace("model:1", "model:2"))
    (one,) = page["sets"]
    assert (one["forecast"]["action"], one["forecast"]["recreated"]) == ("roll", [1, 0])
    assert one["cost"]["acceleratorsPerGroup"] == 2
    assert any("would be rolled" in line for line in one["lines"])
    assert (found.cluster.find(LEADER_WORKER_SETS, "llm", "default") or {})["metadata"]["generation"] == 1


async def test_a_change_of_cpu_is_planned_in_place(place: tuple[Scene, Visit]) -> None:
    _, user = place
    begun = (await user.json("/dashboard/what-if?set=default/llm"))["manifest"]
    policy = "spec:\n  rolloutStrategy:\n    resourceUpdatePolicy: InPlaceOnly\n    type: RollingUpdate\n"
    changed = re.sub(r"  rolloutStrategy:\n(    .*\n)+", "", begun).replace("spec:\n", policy, 1)
    changed = changed.replace("cpu: '2'", "cpu: '3'")
    (one,) = (await planned(user, changed))["sets"]
    assert (one["forecast"]["action"], one["forecast"]["recreated"]) == ("resize", [])
    csrf = re.search(r'name="csrf" value="([^"]+)"', await user.text("/dashboard/what-if"))
    assert csrf is not None
    body = {"csrf": csrf[1], "namespace": "default", "manifest": changed}
    async with user.session.post(f"{user.base}/dashboard/what-if", data=body) as answer:
        tiles = re.findall(r'class="number">([^<]*)</span><span class="label">([^<]*)<', await answer.text())
    assert ("2", "groups in place") in tiles and ("0", "groups recreated") in tiles


HEAD = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: x}\n"


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        ("a: [", "the manifest is not YAML"),
        ("kind: Pod", "the manifest holds no LeaderWorkerSet or Rollout, but: Pod"),
        (f"{HEAD}spec: {{}}", "is refused"),
        ("kind: [LeaderWorkerSet]\nmetadata: 3", "the manifest holds no LeaderWorkerSet or Rollout"),
        ("kind: List\nitems: 3", "the manifest holds no LeaderWorkerSet or Rollout"),
        ("kind: LeaderWorkerSet\nmetadata: 3", "a LeaderWorkerSet has no metadata.name"),
        ("kind: LeaderWorkerSet\nmetadata: {name: [x]}", "a LeaderWorkerSet has no metadata.name"),
        ("kind: LeaderWorkerSet\nmetadata: {name: x, namespace: 3}", "metadata.namespace of LeaderWorkerSet x"),
        (f"{HEAD}spec: 3", "LeaderWorkerSet x is refused"),
        (f"{HEAD}spec: {{x: !!binary aGk=, 3: {10**30}}}", "unknown field"),
        (f"{HEAD}spec: {{on: 1}}", "a key is not text"),
        (f"{HEAD}spec: &a {{x: *a}}", "contains itself"),
        (f"{HEAD}spec: !!set {{a}}", "is refused"),
        ("a: 2001-99-99", "the manifest is not YAML"),
    ],
)
async def test_a_wrong_manifest_is_explained(place: tuple[Scene, Visit], manifest: str, text: str) -> None:
    _, user = place
    assert text in (await planned(user, manifest))["refused"]


async def test_a_huge_manifest_is_refused(place: tuple[Scene, Visit]) -> None:
    _, user = place
    answer = await planned(user, "x" * 300_000, status=400)
    assert answer["message"] == "manifest: has 300000 characters; at most 200000 are allowed"


async def test_nodes_show_groups_and_free_accelerators(place: tuple[Scene, Visit]) -> None:
    _, user = place
    page = await user.json("/dashboard/nodes")
    assert page["topology"] == ["topology.kubernetes.io/zone", "example.com/rack"]
    assert [one["free"] for one in page["accelerators"]] == ["28"]
    placed = [one for domain in page["domains"] for row in domain["nodes"] for one in row["groups"]]
    assert sum(one["pods"] for one in placed) == 4
    assert not page["partial"]
    assert "28" in await user.text("/dashboard/nodes")


async def test_a_drain_is_foreseen(place: tuple[Scene, Visit]) -> None:
    found, user = place
    on = (found.cluster.find(PODS, "llm-0", "default") or {})["spec"]["nodeName"]
    page = await user.json(f"/dashboard/nodes/{on}/drain")
    assert page["node"] == on
    assert 0 in {one["group"] for one in page["groups"]}
    text = await user.text(f"/dashboard/nodes/{on}/drain")
    assert f"Drain of {on}" in text and "at once" in text and "#group-0" in text
    await user.json("/dashboard/nodes/none/drain", status=404)


async def test_a_drain_knows_volumes_that_only_the_node_reaches() -> None:
    """What `kohort plan --drain` says about groups and about the drain as a whole, word by word."""
    async with scene(nodes=2) as found, dashboard(found) as made, visit(made) as user:
        claim = {"claimName": "weights"}
        amounts = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["sim-0"]}]}
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "claimRef": {"namespace": "default", "name": "weights"},
        }
        await found.client.create(PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": volume})
        body = {**amounts, "storageClassName": "local", "volumeName": "disk"}
        await found.client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "weights"}, "spec": body}, "default")
        llm = model_set("llm", replicas=1, size=1, gpus=1)
        pod_spec = "spec.leaderWorkerTemplate.workerTemplate.spec"
        await found.create(llm.but(f"{pod_spec}.volumes", [{"name": "data", "persistentVolumeClaim": claim}]))
        await found.ready("llm")
        page = await user.until(
            "/dashboard/nodes/sim-0/drain", lambda page: any(one.get("nodeBoundClaims") for one in page["groups"])
        )
        assert page["groups"][0]["nodeBoundClaims"] == {"llm-0": ["weights"]}
        with captured() as lines:
            await plan_drain(found.client, "sim-0", "text")
        text = unescape(await user.text("/dashboard/nodes/sim-0/drain"))
        _, group, *notes = lines
        assert all(one.lower() in text.lower() for one in (*group.split("; ")[1:], *notes)), lines


async def test_a_drain_knows_budgets_of_users() -> None:
    """As `kohort plan --drain` does, and from when they are made."""
    page_of_drain = "/dashboard/nodes/sim-0/drain"
    async with scene(nodes=1) as found, dashboard(found) as made, visit(made) as user:
        await found.create(model_set("llm", replicas=1, size=1, gpus=1))
        await found.ready("llm")
        await found.client.create(PODS, pod("web").labels({"app": "web"}), "default")
        await found.cluster.until(lambda: bool((found.cluster.find(PODS, "web", "default") or {}).get("spec")))
        page = await user.until(page_of_drain, lambda page: page["groups"] and page["others"])
        assert (page["blockedPods"], page["budgetsUnknownIn"]) == ([], [])
        for name in ("one", "two"):
            body = {"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": {}}}
            await found.client.create(POD_DISRUPTION_BUDGETS, body, "default")
        page = await user.until(page_of_drain, lambda page: len(page["blockedPods"]) == 2)
        assert page["groups"][0]["turn"] is None
        with captured() as lines:
            assert await plan_drain(found.client, "sim-0", "text") == NOT_YET
        text = unescape(await user.text(page_of_drain))
        _, group, _, blocked, *notes = lines
        words = (*group.split("; ")[1:], *blocked.split("; ")[1:], *notes)
        assert all(one.lower() in text.lower() for one in words), lines
        assert "the drain does not end" in text and "default/web never goes: " in text


def machine(name: str, **labels: str) -> Node:
    amounts = {"cpu": "8", "memory": "64Gi", GPU: "8"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": status}, Node)


def member(name: str, on: str, gpus: int, group: int = 0) -> Pod:
    labels = {group_labels.NAME: "llm", group_labels.GROUP_INDEX: str(group)}
    resources = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    made = pod(name).uid(name).labels(labels).on(on)
    return made.but("spec.containers", [{"name": "a", "image": "x", "resources": resources}]).as_view(Pod)


def shown(nodes: list[Node], pods: list[Pod], page: int = 1) -> NodesPage:
    return nodes_page(nodes, pods, ["example.com/block"], page, PodRequests(), partial=False)


def test_nodes_are_in_domains_in_the_order_of_numbers() -> None:
    nodes = [machine("n-10"), machine("n-2"), machine("n-1")]
    (domain,) = shown(nodes, []).domains
    assert [one.name for one in domain.nodes] == ["n-1", "n-2", "n-10"]
    labelled = [machine(f"n-{number}", **{"example.com/block": f"b{number % 2}"}) for number in range(4)]
    page = shown(labelled, [member("a", "n-0", 3), member("b", "n-1", 5, group=1)])
    assert page.topology == ["example.com/block"]
    assert [(one.values, one.accelerators[0].free) for one in page.domains] == [(("b0",), "13"), (("b1",), "11")]
    assert [one.group for one in page.domains[1].nodes[0].groups] == [1]


def test_pods_that_have_finished_take_nothing() -> None:
    done = member("a", "n-0", 3)
    finished = pod("a").on("n-0").but("status.phase", "Succeeded").as_view(Pod)
    assert shown([machine("n-0")], [done]).accelerators[0].free == "5"
    assert shown([machine("n-0")], [finished]).accelerators[0].free == "8"


def test_nodes_come_in_pages() -> None:
    page = shown([machine(f"n-{number}") for number in range(250)], [], page=3)
    assert (page.total, page.pages, len(page.domains[0].nodes)) == (250, 3, 50)


def test_costs_follow_the_groups_that_run() -> None:
    template = {"spec": {"containers": [{"name": "a", "resources": {"limits": {GPU: "4"}}}]}}
    group_set = lws("llm").size(2).but("spec.leaderWorkerTemplate.workerTemplate", template).as_view(LeaderWorkerSet)
    assert accelerators_of(group_set) == 8
    steps = [ForecastStep(1, 2, recreated=(1,)), ForecastStep(0, 2, recreated=(0,)), ForecastStep(0, 2)]
    assert roll_cost(steps, Snapshot(group_set), group_set) is None
    assert ready_groups(Snapshot(group_set)) == []
