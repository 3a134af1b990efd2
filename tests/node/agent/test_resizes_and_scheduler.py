"""A scheduler, a node, and resizes between them (rows B1 and B2 of the checklist)."""

from pathlib import Path

from tests.node.agent.node_bench import Bench, container, node

from kohort.kube.resources import PODS
from kohort.objects.json_types import JsonObject


async def ask(bench: Bench, name: str, cpu: str) -> None:
    tolerates = [{"operator": "Exists"}]
    one = container("c", resources={"requests": {"cpu": cpu}})
    spec: JsonObject = {"automountServiceAccountToken": False, "containers": [one], "tolerations": tolerates}
    await bench.cluster.client.create(
        PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}, "default"
    )


def waits(bench: Bench, name: str) -> bool:
    return bench.conditions(name).get("PodScheduled", {}).get("status") == "False"


async def shrink(bench: Bench, name: str, cpu: str) -> None:
    await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}, name)


async def test_b1_a_pod_that_fits_nowhere_runs_when_it_asks_for_less(tmp_path: Path) -> None:
    async with node(tmp_path, parts=("scheduler",), cpu="1") as bench:
        await ask(bench, "p", "2")
        await bench.until(lambda: waits(bench, "p"))
        await shrink(bench, "p", "500m")
        await bench.until(lambda: bench.phase() == "Running")


async def test_b2_a_pod_that_waits_gets_the_room_that_another_gives_back(tmp_path: Path) -> None:
    async with node(tmp_path, parts=("scheduler",), cpu="1") as bench:
        await ask(bench, "large", "800m")
        await bench.until(lambda: bench.phase("large") == "Running")
        await ask(bench, "p", "500m")
        await bench.until(lambda: waits(bench, "p"))
        await shrink(bench, "large", "400m")
        await bench.until(lambda: bench.phase() == "Running")
        assert bench.status(name="large")["restartCount"] == 0
