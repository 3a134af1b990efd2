"""Every example is accepted by schema and webhooks, and its groups become ready."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest
import yaml

from kohort.cli import option_types, up
from kohort.cluster.gateway import crd as gateway_crd
from kohort.cluster.gateway.views import GATEWAYS
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.forecast import forecast
from kohort.kube.client import PatchType
from kohort.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    HORIZONTAL_POD_AUTOSCALERS,
    HTTP_ROUTES,
    INGRESSES,
    LEADER_WORKER_SETS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLLOUTS,
    SERVICES,
)
from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

FOLDER = Path(__file__).parents[2] / "examples"
SETS = sorted(path.name for path in FOLDER.glob("*.yaml") if "\nkind: LeaderWorkerSet" in path.read_text())
AUTOSCALER = "autoscaler.yaml"
RESOURCES = {
    one.kind: one for one in (LEADER_WORKER_SETS, SERVICES, CONFIG_MAPS, ROLLOUTS, INGRESSES, HTTP_ROUTES, GATEWAYS)
}
COMMAND = re.compile(r"^#   kohort (up --detach .*)$", re.MULTILINE)


def documents(name: str) -> list[JsonObject]:
    return [one for one in yaml.safe_load_all((FOLDER / name).read_text()) if one]


async def apply(cluster: Cluster, name: str) -> str:
    """Apply an example as kubectl would; the name of its set."""
    found = ""
    for one in documents(name):
        one["metadata"].setdefault("namespace", "default")
        await cluster.client.apply(RESOURCES[one["kind"]], one, field_manager="kubectl")
        found = one["metadata"]["name"] if one["kind"] == "LeaderWorkerSet" else found
    return found


def ready(cluster: Cluster, name: str) -> bool:
    found = cluster.find(LEADER_WORKER_SETS, name, "default") or {}
    status = found.get("status") or {}
    return [status.get("readyReplicas"), status.get("updatedReplicas")] == [found["spec"]["replicas"]] * 2


def cluster_for(name: str) -> Cluster:
    """As the head of the example says; where it says nothing, eight simulated nodes must do."""
    command = COMMAND.search((FOLDER / name).read_text())
    words = command.group(1).split()[1:] if command else ["--simulated-nodes", "8"]
    given = up.command.make_context("up", words).params
    option, settings = "--simulated-topology", {}
    if topology := option_types.pairs(option, option_types.listed(given["simulated_topology"])):
        settings = {"topology": option_types.blocks(option, topology)}
    return Cluster(parts=("workloads", "scheduler", "operator"), nodes=given["simulated_nodes"], node_settings=settings)


async def planned_room(cluster: Cluster, name: str) -> JsonObject:
    """What `kohort plan` says of the nodes, as in its output."""
    (document,) = [one for one in documents(name) if one["kind"] == "LeaderWorkerSet"]
    stored = await cluster.client.create(LEADER_WORKER_SETS, document, "default", dry_run=True)
    nodes = [msgspec.convert(one, Node) for one in cluster.objects(NODES)]
    room = forecast(None, msgspec.convert(stored, LeaderWorkerSet), nodes).room
    found: JsonObject = msgspec.to_builtins(room)
    return found


async def own_nodes(cluster: Cluster, name: str) -> None:
    """What the head of unique-placement.yaml says to do, two nodes for each of two groups."""
    for number in range(4):
        value = f"pinned-{number // 2}"
        taint = {"key": "example.com/replica", "value": value, "effect": "NoSchedule"}
        body = {"metadata": {"labels": {"example.com/replica": value}}, "spec": {"taints": [taint]}}
        await cluster.client.patch(NODES, f"sim-{number}", "", body)


async def gateway_definitions(cluster: Cluster) -> None:
    """What a cluster has on which the Gateway API is installed."""
    for definition in gateway_crd.definitions():
        await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await cluster.settle(quiet=5.0)


def nodes_of(cluster: Cluster, label: str) -> dict[str, set[str]]:
    """Values of a pod label to the nodes that pods with it are on."""
    found: dict[str, set[str]] = defaultdict(set)
    for pod in cluster.objects(PODS, "default"):
        found[pod["metadata"]["labels"][label]].add(pod["spec"]["nodeName"])
    return found


def racks_of(cluster: Cluster, label: str) -> dict[str, set[str]]:
    racks = {one["metadata"]["name"]: one["metadata"]["labels"]["example.com/rack"] for one in cluster.objects(NODES)}
    return {value: {racks[node] for node in nodes} for value, nodes in nodes_of(cluster, label).items()}


@pytest.mark.parametrize("name", SETS)
async def test_an_example_comes_up_as_planned(name: str) -> None:
    async with cluster_for(name) as cluster:
        if name == "unique-placement.yaml":
            await own_nodes(cluster, name)
        if name in ("canary-gateway.yaml", "language-model.yaml"):
            await gateway_definitions(cluster)
        assert (await planned_room(cluster, name))["fits"]
        group_set = await apply(cluster, name)
        await cluster.until(lambda: ready(cluster, group_set))
        spec = (cluster.find(LEADER_WORKER_SETS, group_set, "default") or {})["spec"]
        assert len(cluster.objects(PODS, "default")) == spec["replicas"] * spec["leaderWorkerTemplate"]["size"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("exclusive-placement.yaml", "no node has the label example.com/rack"),
        ("subgroups.yaml", "no node has the label example.com/rack"),
        (
            "unique-placement.yaml",
            "no node is labelled example.com/replica=pinned-0, no node is labelled example.com/replica=pinned-1",
        ),
    ],
)
async def test_an_example_on_nodes_without_its_labels(name: str, reason: str) -> None:
    """The plan says so, and it is so."""
    async with cluster_for("llm.yaml") as cluster:
        room = await planned_room(cluster, name)
        assert (room["fits"], room["reason"]) == (False, reason)
        await apply(cluster, name)
        await cluster.settle()
        pods = cluster.objects(PODS, "default")
        assert [one["spec"].get("nodeName") for one in pods] == [None] * len(pods)
        assert pods


async def test_volumes_belong_to_pods_and_outlive_them() -> None:
    async with cluster_for("volumes.yaml") as cluster:
        await apply(cluster, "volumes.yaml")
        await cluster.until(lambda: ready(cluster, "cached"))
        claims = {one["metadata"]["name"]: one["metadata"]["uid"] for one in _claims(cluster)}
        assert sorted(claims) == [f"weights-cached-{name}" for name in ("0", "0-1", "1", "1-1")]
        await cluster.client.delete(PODS, "cached-0", "default")
        await cluster.settle()
        await cluster.until(lambda: ready(cluster, "cached"))
        assert {one["metadata"]["name"]: one["metadata"]["uid"] for one in _claims(cluster)} == claims


def _claims(cluster: Cluster) -> list[JsonObject]:
    return cluster.objects(PERSISTENT_VOLUME_CLAIMS, "default")


async def test_groups_are_on_their_own_nodes() -> None:
    async with cluster_for("unique-placement.yaml") as cluster:
        await own_nodes(cluster, "unique-placement.yaml")
        await apply(cluster, "unique-placement.yaml")
        await cluster.until(lambda: ready(cluster, "pinned"))
        found = nodes_of(cluster, group_labels.GROUP_INDEX)
        assert found["0"] <= {"sim-0", "sim-1"}
        assert found["1"] <= {"sim-2", "sim-3"}


async def test_one_group_per_rack() -> None:
    async with cluster_for("exclusive-placement.yaml") as cluster:
        await apply(cluster, "exclusive-placement.yaml")
        await cluster.until(lambda: ready(cluster, "racks"))
        first, second = racks_of(cluster, group_labels.GROUP_INDEX).values()
        assert (len(first), len(second), first & second) == (1, 1, set())


async def test_one_subgroup_per_rack() -> None:
    async with cluster_for("subgroups.yaml") as cluster:
        await apply(cluster, "subgroups.yaml")
        await cluster.until(lambda: ready(cluster, "halves"))
        first, second = racks_of(cluster, group_labels.SUBGROUP_INDEX).values()
        assert (len(first), len(second), first & second) == (1, 1, set())


@pytest.mark.parametrize(
    ("name", "group_set", "groups"),
    [
        ("canary-nginx.yaml", "canary", 1),
        ("canary-gateway.yaml", "routed", 1),
        ("blue-green.yaml", "colours", 2),
    ],
)
async def test_a_release_reaches_its_first_step(name: str, group_set: str, groups: int) -> None:
    async with cluster_for(name) as cluster:
        await gateway_definitions(cluster)
        await apply(cluster, name)
        await cluster.until(lambda: ready(cluster, group_set) and _phase(cluster, group_set) == "Healthy")
        path = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image"
        change = [{"op": "replace", "path": path, "value": "host:2"}]
        await cluster.client.patch(LEADER_WORKER_SETS, group_set, "default", change, PatchType.JSON)
        await cluster.until(lambda: _step(cluster, group_set) == "StepPaused")
        images = [one["spec"]["containers"][0]["image"] for one in cluster.objects(PODS, "default")]
        assert (images.count("host"), images.count("host:2")) == (4, groups * 2)


def _phase(cluster: Cluster, name: str) -> str:
    phase: str = ((cluster.find(ROLLOUTS, name, "default") or {}).get("status") or {}).get("phase", "")
    return phase


def _step(cluster: Cluster, name: str) -> str:
    state: str = ((cluster.find(ROLLOUTS, name, "default") or {}).get("status") or {}).get("currentStepState", "")
    return state


def test_no_example_is_forgotten() -> None:
    models = {"llm", "vllm", "sglang", "tensor-parallel", "language-model", "model-image"}
    features = {"volumes", "unique-placement", "exclusive-placement", "subgroups", "resize"}
    releases = {"canary-nginx", "canary-gateway", "blue-green"}
    assert {f"{name}.yaml" for name in models | features | releases} == set(SETS)
    every = {path.name for path in FOLDER.glob("*.yaml")}
    assert every == {*SETS, AUTOSCALER}, "every example is applied by a test"


async def test_the_autoscaler_names_a_set_of_another_example_that_can_be_scaled() -> None:
    (autoscaler,) = documents(AUTOSCALER)
    autoscaler["metadata"]["namespace"] = "default"
    async with cluster_for("llm.yaml") as cluster:
        name = await apply(cluster, "llm.yaml")
        stored = await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler, "default")
        assert stored["spec"]["metrics"] == autoscaler["spec"]["metrics"]
        assert stored["spec"]["behavior"]["scaleDown"].items() >= autoscaler["spec"]["behavior"]["scaleDown"].items()
        target = stored["spec"]["scaleTargetRef"]
        assert (target["apiVersion"], target["kind"]) == (LEADER_WORKER_SETS.api_version, LEADER_WORKER_SETS.kind)
        assert target["name"] == name
        scale: JsonObject = await cluster.client.get(LEADER_WORKER_SETS, name, "default", subresource="scale")
        assert (
            scale["spec"]["replicas"] == (cluster.find(LEADER_WORKER_SETS, name, "default") or {})["spec"]["replicas"]
        )


def test_the_server_of_the_tensor_parallel_example_computes(tmp_path: Path) -> None:
    """A group of one, as a process: the numbers are those of the whole matrix."""
    (script,) = [one["data"]["server.py"] for one in documents("tensor-parallel.yaml") if one["kind"] == "ConfigMap"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = tmp_path / "server.py"
    file.write_text(script.replace('("", 8080)', f'("127.0.0.1", {port})'))
    variables = {"LWS_WORKER_INDEX": "0", "LWS_GROUP_SIZE": "1", "LWS_LEADER_ADDRESS": "127.0.0.1"}
    with subprocess.Popen([sys.executable, str(file)], env=variables, stderr=subprocess.DEVNULL) as child:
        try:
            answer = _ask(f"http://127.0.0.1:{port}/multiply", [1, 0, 0, 1])
        finally:
            child.kill()
    # Row r, column c of the matrix is (r + 1)(c + 1): rows 1 and 4 add up to 5(c + 1).
    assert answer == {str(column): 5 * (column + 1) for column in range(8)}


def _ask(url: str, body: list[int]) -> JsonObject:
    """The process needs a moment until it listens; there is nothing to wait on but the port itself."""
    end = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=5) as answer:
                found: JsonObject = json.load(answer)
                return found
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
