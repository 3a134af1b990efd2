"""Nodes that are older than their API server, or have features turned off: the rows of the version-skew table (pod
resize specification 6) that concern a node. Gates turn when an agent starts, so every turn is another agent."""

import asyncio
from pathlib import Path

import pytest
from tests.node.agent.node_bench import NODE, Bench, container, node

from kohort.kube.errors import ApiError, generic
from kohort.kube.resources import NODES, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules.node_feature_gates import NodeGates

PLR_OFF = "PodLevelResources=false"
IPPR_OFF = "InPlacePodVerticalScaling=false"
PLIPPR_OFF = "InPlacePodLevelResourcesVerticalScaling=false"
DECLARED = "InPlacePodLevelResourcesVerticalScaling"
LEVEL = {"requests": {"cpu": "200m", "memory": "64Mi"}, "limits": {"cpu": "400m", "memory": "256Mi"}}
MORE = {"requests": {"cpu": "300m", "memory": "64Mi"}, "limits": {"cpu": "600m", "memory": "512Mi"}}


def pending(bench: Bench) -> JsonObject:
    return bench.conditions().get("PodResizePending", {})


def infeasible(bench: Bench, detail: str) -> bool:
    counted = bench.agent.metrics.infeasible.labels(detail)._value.get()
    return pending(bench).get("reason") == "Infeasible" and counted == 1


def declared(bench: Bench) -> list[str]:
    found = bench.cluster.find(NODES, NODE)
    assert found is not None
    return list(found["status"]["declaredFeatures"])


async def running(bench: Bench, **spec: JsonObject) -> str:
    uid = await bench.create("p", containers=[container("c", resources={"requests": {"cpu": "100m"}})], **spec)
    await bench.until(lambda: bench.phase() == "Running")
    return uid


def files(bench: Bench, uid: str) -> dict[str, str]:
    names = ("cpu.max", "cpu.weight", "memory.max")
    place = bench.cgroup(uid)
    return {f"{below}/{name}": (place / below / name).read_text() for below in (".", "c") for name in names}


@pytest.mark.parametrize(
    ("tree", "gates"), [pytest.param(True, PLR_OFF, id="K-8-gate"), pytest.param(False, "", id="K-9-no-cgroup-v2")]
)
async def test_pods_with_resources_of_their_own_are_not_taken_in(tmp_path: Path, tree: bool, gates: str) -> None:
    async with node(tmp_path, tree=tree, gates=lambda: gates) as bench:
        assert DECLARED not in declared(bench)
        await bench.create("p", resources=LEVEL)
        await bench.until(lambda: bench.phase() == "Failed")
        status = bench.pod()["status"]
        assert status["reason"] == "PodLevelResourcesNotSupported"
        assert bench.running() == [] and "PodLevelResourcesNotSupported" in bench.events()
        await bench.create("plain")
        await bench.until(lambda: bench.phase("plain") == "Running")


async def test_k10_where_resizing_is_off_a_stored_resize_is_infeasible(tmp_path: Path) -> None:
    gates = ""
    async with node(tmp_path, tree=True, gates=lambda: gates) as bench:
        uid = await running(bench)
        before = files(bench, uid)
        await bench.crash()
        await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "300m"}}}]})
        gates = IPPR_OFF
        await bench.restart()
        await bench.until(lambda: infeasible(bench, "feature_gate_off"))
        assert files(bench, uid) == before and bench.running() == ["c_0"]
        held = bench.agent.allocations.allocated(uid)
        assert held is not None and held.containers["c"].requests == {"cpu": "100m"}


async def test_k10_k11_such_a_node_does_not_report_resources_and_is_not_asked(tmp_path: Path) -> None:
    async with node(tmp_path, tree=True, gates=lambda: IPPR_OFF) as bench:
        await running(bench)
        assert not {"resources", "allocatedResources"} & bench.status().keys()
        with pytest.raises(ApiError, match="node without support for resize"):
            await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "300m"}}}]})


async def test_k12_a_resize_not_accepted_yet_is_infeasible_after_the_gate_is_off(tmp_path: Path) -> None:
    gates = ""
    async with node(tmp_path, tree=True, gates=lambda: gates) as bench:
        uid = await running(bench, resources=LEVEL)
        before = files(bench, uid)
        await bench.crash()
        await bench.resize({"resources": MORE})
        gates = PLIPPR_OFF
        await bench.restart()
        await bench.until(lambda: infeasible(bench, "plr_feature_gate_off"))
        assert files(bench, uid) == before and bench.running() == ["c_0"]
        assert DECLARED not in declared(bench)
        gates = ""
        await bench.crash()
        await bench.restart()
        await bench.until(lambda: not pending(bench) and bench.pod()["status"].get("resources") == MORE)
        assert bench.running() == ["c_0"], "on again, it is done without a restart"


async def test_k12_a_resize_that_was_cut_short_stays_where_it_is_while_the_gate_is_off(tmp_path: Path) -> None:
    gates, broken = "", {"cpu.max"}

    def observer(kind: str, path: Path, content: str) -> None:
        if path.name in broken and path.parent.name.startswith("pod") and content == "60000 100000":
            raise OSError("refused by the kernel")

    async with node(tmp_path, tree=True, observer=observer, gates=lambda: gates) as bench:
        uid = await running(bench, resources=LEVEL)
        await bench.resize({"resources": MORE})
        await bench.until(lambda: bench.conditions().get("PodResizeInProgress", {}).get("reason") == "Error")
        half = files(bench, uid)
        assert half["./memory.max"] == str(512 << 20) and half["./cpu.max"] == "40000 100000"
        await bench.crash()
        broken.clear()
        gates = PLIPPR_OFF
        await bench.restart()
        await bench.until(lambda: pending(bench).get("reason") == "Infeasible")
        await asyncio.sleep(600)
        assert files(bench, uid) == half and bench.running() == ["c_0"]
        assert "PodResizeInProgress" not in bench.conditions()
        gates = ""
        await bench.crash()
        await bench.restart()
        await bench.until(lambda: not pending(bench) and bench.pod()["status"].get("resources") == MORE)
        assert files(bench, uid)["./cpu.max"] == "60000 100000"


async def test_j1t_j3t_containers_are_resized_where_pods_cannot_be(tmp_path: Path) -> None:
    async with node(tmp_path, tree=True, gates=lambda: PLIPPR_OFF) as bench:
        uid = await running(bench, resources=LEVEL)
        whole = bench.cgroup(uid)
        before = [(whole / name).read_text() for name in ("cpu.max", "cpu.weight", "memory.max")]
        await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "150m"}}}]})
        await bench.until(lambda: bench.status()["resources"] == {"requests": {"cpu": "150m"}})
        assert [(whole / name).read_text() for name in ("cpu.max", "cpu.weight", "memory.max")] == before
        assert not pending(bench) and bench.running() == ["c_0"]


async def test_k25_without_its_api_server_a_node_keeps_its_word_and_goes_on(tmp_path: Path) -> None:
    async with node(tmp_path, tree=True, cpu="1") as bench:
        big = await bench.create(
            "big", containers=[container("c", resources={"requests": {"cpu": "600m"}})], restartPolicy="Never"
        )
        uid = await running(bench)
        await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]})
        await bench.until(lambda: pending(bench).get("reason") == "Deferred")
        faults = bench.cluster.faults("node")
        faults.refuse(generic(503, "ServiceUnavailable", "the API server is away"), times=None)
        faults.hold()
        weight = bench.cgroup(uid) / "c" / "cpu.weight"
        assert weight.read_text() == "17"
        bench.runtime.end(f"{big}_c_0")
        await bench.until(lambda: weight.read_text() == "59")
        await asyncio.sleep(60)
        assert pending(bench).get("reason") == "Deferred", "nobody could be told"
        assert bench.running() == ["c_0"]
        faults.clear()
        faults.release()
        await bench.until(lambda: not pending(bench) and bench.status()["allocatedResources"] == {"cpu": "500m"})
        await bench.until(lambda: bench.phase("big") == "Succeeded")


async def test_k26_what_cannot_be_updated_is_told_and_tried_again(tmp_path: Path) -> None:
    broken: set[str] = {"c"}

    def observer(kind: str, path: Path, content: str) -> None:
        if path.parent.name in broken and path.name == "cpu.weight" and content == "40":
            raise OSError("update of a running container is not supported")

    async with node(tmp_path, tree=True, observer=observer) as bench:
        uid = await running(bench)
        await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "300m"}}}]})
        await bench.until(lambda: bench.conditions().get("PodResizeInProgress", {}).get("reason") == "Error")
        assert "not supported" in bench.conditions()["PodResizeInProgress"]["message"]
        assert bench.events().count("ResizeError") == 1 and bench.running() == ["c_0"]
        await asyncio.sleep(60)
        assert bench.events().count("ResizeError") == 1, "the same failure is no news"
        broken.clear()
        await bench.until(lambda: "PodResizeInProgress" not in bench.conditions(), 20)
        assert (bench.cgroup(uid) / "c" / "cpu.weight").read_text() == "40"
        assert bench.status()["restartCount"] == 0


async def test_what_a_node_declares_follows_its_gates(tmp_path: Path) -> None:
    async with node(tmp_path, gates=lambda: "InPlacePodVerticalScalingInitContainers=false") as bench:
        assert declared(bench) == ["ExtendWebSocketsToKubelet"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nothing=true", "unknown feature gate 'Nothing'"),
        ("PodLevelResources", "feature gate 'PodLevelResources' is not of the form"),
        (f"{PLR_OFF},{DECLARED}=true", f"{DECLARED} needs PodLevelResources"),
    ],
)
def test_gates_that_make_no_sense(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        NodeGates.parse(text)


async def test_deleting_needs_no_gate(tmp_path: Path) -> None:
    async with node(tmp_path, tree=True, gates=lambda: f"{IPPR_OFF},{PLR_OFF}") as bench:
        await running(bench)
        await bench.cluster.client.delete(PODS, "p", "default")
        await bench.until(lambda: bench.cluster.find(PODS, "p", "default") is None)
