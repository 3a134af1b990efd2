"""The whole agent dies at every point of a resize: of a pod, of a container in it and of one that inherits, up in cpu
and down in memory. Its successor, with the API server and what runs, ends it alike."""

import asyncio
from pathlib import Path

import pytest
from tests.node.agent.node_bench import Bench, container, node

from kohort.objects.json_types import JsonObject

BEFORE = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}
AFTER = {"requests": {"cpu": "150m", "memory": "32Mi"}, "limits": {"cpu": "300m", "memory": "96Mi"}}
LEVEL_BEFORE = {"requests": {"cpu": "300m", "memory": "256Mi"}, "limits": {"cpu": "600m", "memory": "512Mi"}}
LEVEL_AFTER = {"requests": {"cpu": "400m", "memory": "128Mi"}, "limits": {"cpu": "800m", "memory": "256Mi"}}
RESTART = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
FILES = ("cpu.max", "cpu.weight", "memory.max", "memory.high")


class Dying:
    """Watches writes; from the chosen one on, nothing that the agent does reaches the disk."""

    def __init__(self, point: int) -> None:
        self.point = point
        self.count = 0
        self.armed = False
        self.dead = asyncio.Event()

    def __call__(self, kind: str, path: Path, content: str) -> None:
        if not self.armed:
            return
        if self.count >= self.point:
            self.dead.set()
            raise OSError("dead")
        self.count += 1


async def resized(bench: Bench, dying: Dying, policy: list[JsonObject]) -> JsonObject:
    uid = await bench.create(
        "p",
        containers=[container("c", resources=BEFORE, resizePolicy=policy), container("heir")],
        resources=LEVEL_BEFORE,
        terminationGracePeriodSeconds=1,
    )
    await bench.until(lambda: bench.phase() == "Running")
    bench.agent.allocations._allocated._observer = dying
    bench.agent.allocations._actuated._observer = dying
    dying.armed = True
    await bench.resize({"containers": [{"name": "c", "resources": AFTER}], "resources": LEVEL_AFTER})
    await bench.until(lambda: dying.dead.is_set() or finished(bench))
    if dying.dead.is_set():
        await bench.cluster.parts["node"].crash()
        dying.armed = False
        await bench.cluster.parts["node"].restart()
        await bench.until(lambda: finished(bench))
    place = bench.cgroup(uid)
    every = (place / "c", place / "heir", place)
    return {
        "files": {f"{each.name}/{file}": (each / file).read_text() for each in every for file in FILES},
        "running": bench.running(),
        "restarts": bench.status()["restartCount"],
        "resources": bench.status()["resources"],
        "generation": bench.pod()["status"]["observedGeneration"],
    }


def finished(bench: Bench) -> bool:
    return (
        bench.pod()["status"].get("observedGeneration") == 2
        and not any(each.startswith("PodResize") for each in bench.conditions())
        and bench.status()["state"].get("running") is not None
        and bench.status()["resources"] == AFTER
        and bench.pod()["status"]["resources"] == LEVEL_AFTER
    )


async def attempt(directory: Path, policy: list[JsonObject], point: int) -> tuple[JsonObject, Dying]:
    dying = Dying(point)
    async with node(directory, tree=True, observer=dying) as bench:
        return await resized(bench, dying, policy), dying


@pytest.mark.parametrize(("policy", "restarts"), [([], 0), (RESTART, 1)], ids=["live", "restart"])
async def test_wherever_it_dies_the_pod_ends_in_the_same_state(
    tmp_path: Path, policy: list[JsonObject], restarts: int
) -> None:
    expected, undisturbed = await attempt(tmp_path / "undisturbed", policy, 10_000)
    assert expected["restarts"] == restarts and undisturbed.count > 8
    for point in range(undisturbed.count):
        found, dying = await attempt(tmp_path / str(point), policy, point)
        assert dying.dead.is_set()
        found["files"] = {key.replace(_uid(found), _uid(expected)): value for key, value in found["files"].items()}
        assert found == expected, f"died at point {point}"


def _uid(state: JsonObject) -> str:
    return str(next(key.partition("/")[0] for key in state["files"] if key.startswith("pod")))
