"""The rule RestartAllContainers: the end of one container restarts a pod in place."""

from pathlib import Path

import pytest
from tests.node.agent.node_bench import Bench, container, node

from kohort.objects.json_types import JsonObject

RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]


async def create(bench: Bench) -> str:
    uid = await bench.create(
        initContainers=[container("init"), container("sidecar", restartPolicy="Always")],
        containers=[
            container("source", restartPolicy="Never", restartPolicyRules=RULES),
            container("other", lifecycle={"preStop": {"exec": {"command": ["slow"]}}}),
        ],
        restartPolicy="Never",
    )
    await bench.until(lambda: bench.running() == ["init_0"])
    bench.runtime.end(f"{uid}_init_0", 0)
    await bench.until(lambda: bench.running() == ["other_0", "sidecar_0", "source_0"])
    return uid


def counts(bench: Bench) -> dict[str, int]:
    return {name: bench.status(name)["restartCount"] for name in ("init", "sidecar", "source", "other")}


@pytest.mark.parametrize("name", ["source", "sidecar"])
async def test_all_containers_start_again_in_their_order(tmp_path: Path, name: str) -> None:
    rules: JsonObject = {"restartPolicyRules": RULES}
    async with node(tmp_path) as bench:
        uid = await bench.create(
            initContainers=[container("init"), container("sidecar", restartPolicy="Always", **rules)],
            containers=[container("source", restartPolicy="Never", **rules), container("other")],
            restartPolicy="Never",
        )
        await bench.until(lambda: bench.running() == ["init_0"])
        bench.runtime.end(f"{uid}_init_0", 0)
        await bench.until(lambda: bench.running() == ["other_0", "sidecar_0", "source_0"])
        await bench.until(lambda: bench.conditions()["Ready"]["status"] == "True")
        assert bench.conditions()["AllContainersRestarting"]["status"] == "False"
        bench.runtime.end(f"{uid}_{name}_0", 42)
        await bench.until(lambda: bench.running() == ["init_1"])
        await bench.until(lambda: bench.status("other")["state"].get("waiting", {}).get("reason") is not None)
        assert bench.status("other")["state"]["waiting"]["reason"] == "RestartingAllContainers"
        assert bench.status("other")["lastState"]["terminated"]["exitCode"] == 137
        assert bench.status(name)["lastState"]["terminated"]["exitCode"] == 42
        assert bench.phase() == "Running" and bench.conditions()["Initialized"]["status"] == "True"
        bench.runtime.end(f"{uid}_init_1", 0)
        await bench.until(lambda: bench.running() == ["other_1", "sidecar_1", "source_1"])
        await bench.until(lambda: bench.conditions()["Ready"]["status"] == "True")
        assert counts(bench) == {"init": 1, "sidecar": 1, "source": 1, "other": 1}
        expected = f"Normal Killing: Container {name} exited with code 42, all containers will be restarted"
        assert bench.said().count(expected) == 1


async def test_other_exit_codes_restart_nothing(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await create(bench)
        bench.runtime.end(f"{uid}_source_0", 1)
        bench.runtime.end(f"{uid}_other_0", 0)
        await bench.until(lambda: bench.phase() == "Failed")
        assert counts(bench) == {"init": 0, "sidecar": 0, "source": 0, "other": 0}
        assert bench.conditions()["AllContainersRestarting"]["reason"] == "PodFailed"


async def test_a_pod_whose_containers_restart_again_and_again_waits_longer(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(containers=[container("c", restartPolicyRules=RULES, restartPolicy="Never")])
        uid = bench.pod()["metadata"]["uid"]
        for attempt in range(2):
            await bench.until(lambda attempt=attempt: bench.running() == [f"c_{attempt}"])  # type: ignore[misc]
            bench.runtime.end(f"{uid}_c_{attempt}", 42)
        await bench.until(lambda: bench.status()["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
        await bench.until(lambda: bench.running() == ["c_2"])


async def test_the_next_agent_finishes_what_a_killed_one_has_begun(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await create(bench)
        await bench.crash()
        bench.runtime.end(f"{uid}_source_0", 42)
        await bench.restart()
        await bench.until(lambda: bench.running() == ["init_1"])
        await bench.crash()
        bench.runtime.end(f"{uid}_init_1", 0)
        await bench.restart()
        for attempt in range(2, 5):  # the end of `source` is still its last one: all begin once more
            if bench.running() != [f"init_{attempt}"]:
                await bench.until(lambda: bool(bench.running()))
            running = [each for each in bench.running() if each.startswith("init")]
            if not running:
                break
            bench.runtime.end(f"{uid}_{running[0]}", 0)
        await bench.until(lambda: bench.conditions()["Ready"]["status"] == "True")
        assert len(bench.running()) == 3 and counts(bench)["source"] == 1


async def test_a_pod_that_is_deleted_meanwhile_ends(tmp_path: Path) -> None:
    from kohort.kube.resources import PODS

    async with node(tmp_path) as bench:
        uid = await create(bench)
        bench.runtime.end(f"{uid}_source_0", 42)
        await bench.cluster.client.delete(PODS, "p", "default", grace_seconds=1)
        await bench.until(lambda: bench.cluster.find(PODS, "p", "default") is None)
        assert bench.running() == []
