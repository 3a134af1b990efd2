"""Where Kubernetes is known to be weak (docs/traceability.md): each test would fail with its behaviour."""

import asyncio
from pathlib import Path

from tests.node.agent.node_bench import Bench, container, node

from kohort.kube.resources import PODS
from kohort.objects.json_types import Json, JsonObject

RESTART = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]


def cpu(amount: str) -> JsonObject:
    return {"requests": {"cpu": amount}}


async def run(bench: Bench, name: str, resources: JsonObject, **spec: Json) -> str:
    more = {key: spec.pop(key) for key in ("resizePolicy", "livenessProbe") if key in spec}
    uid = await bench.create(
        name, containers=[container("c", resources=resources, **more)], terminationGracePeriodSeconds=1, **spec
    )
    await bench.until(lambda: bench.phase(name) == "Running")
    return uid


async def ask(bench: Bench, name: str, resources: JsonObject) -> None:
    await bench.resize({"containers": [{"name": "c", "resources": resources}]}, name)


def pending(bench: Bench, name: str = "p") -> JsonObject:
    return bench.conditions(name).get("PodResizePending", {})


async def test_w9_the_age_of_a_wait_survives_the_agent(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await run(bench, "big", cpu("600m"))
        await run(bench, "p", cpu("100m"))
        await ask(bench, "p", cpu("500m"))
        await bench.until(lambda: pending(bench).get("reason") == "Deferred")
        since = pending(bench)["lastTransitionTime"]
        await asyncio.sleep(100)
        await bench.cluster.parts["node"].crash()
        await bench.cluster.parts["node"].restart()
        await bench.until(lambda: bench.agent.pods.find("default", "p") is not None)
        await asyncio.sleep(200)
        assert pending(bench)["lastTransitionTime"] == since


async def test_w12_a_resize_is_called_complete_after_its_last_write(tmp_path: Path) -> None:
    happened: list[str] = []
    async with node(tmp_path, tree=True, observer=lambda kind, path, content: happened.append(path.name)) as bench:
        await run(bench, "p", {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}})
        noted = bench.agent.recorder.normal

        def note(resource: object, about: object, reason: str, message: str) -> None:
            happened.append(reason)
            noted(resource, about, reason, message)  # type: ignore[arg-type]

        bench.agent.recorder.normal = note  # type: ignore[assignment,method-assign]
        happened.clear()
        await bench.resize({"resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "2"}}})
        await bench.until(lambda: "ResizeCompleted" in happened)
        assert happened.index("ResizeStarted") < happened.index("cpu.max") < happened.index("ResizeCompleted")
        assert "cpu.max" not in happened[happened.index("ResizeCompleted") :]


async def test_w13_nothing_starts_while_the_pods_cgroup_could_not_be_written(tmp_path: Path) -> None:
    broken: set[str] = set()

    def observer(kind: str, path: Path, content: str) -> None:
        if path.name in broken and path.parent.name.startswith("pod"):
            raise OSError("refused by the kernel")

    async with node(tmp_path, tree=True, observer=observer) as bench:
        sizes = {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}
        uid = await run(bench, "p", sizes, resizePolicy=RESTART)
        broken.add("memory.max")
        await ask(bench, "p", {"requests": {"memory": "128Mi"}, "limits": {"memory": "128Mi"}})
        await bench.until(lambda: bench.conditions().get("PodResizeInProgress", {}).get("reason") == "Error")
        await asyncio.sleep(60)
        assert bench.running() == [], "it was stopped for the resize, and the pod has no room for it yet"
        broken.clear()
        await bench.until(lambda: bench.running() == ["c_1"])
        assert (bench.cgroup(uid) / "memory.max").read_text() == str(128 << 20)
        await bench.until(lambda: "PodResizeInProgress" not in bench.conditions())


async def test_w14_the_tier_weighs_what_was_allocated_at_once(tmp_path: Path) -> None:
    async with node(tmp_path, tree=True, cpu="1") as bench:
        weight = tmp_path / "cgroups" / "burstable" / "cpu.weight"
        await run(bench, "big", cpu("600m"))
        await run(bench, "p", cpu("100m"))
        before = weight.read_text()
        await ask(bench, "p", cpu("500m"))
        await bench.until(lambda: pending(bench).get("reason") == "Deferred")
        assert weight.read_text() == before, "what was only asked for does not count"
        now = asyncio.get_running_loop().time()
        await ask(bench, "p", cpu("400m"))
        await bench.until(lambda: weight.read_text() != before)
        assert asyncio.get_running_loop().time() - now < 1 and weight.read_text() == "100"


async def test_w25_infeasible_is_counted_once_and_judged_again_when_the_node_changes(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="4") as bench:
        await run(bench, "p", cpu("100m"))
        bench.agent.state.machine.allocatable["cpu"] = type(bench.agent.state.machine.allocatable["cpu"]).parse("1")
        await ask(bench, "p", cpu("2"))
        await bench.until(lambda: pending(bench).get("reason") == "Infeasible")
        counted = bench.agent.metrics.infeasible.labels("insufficient_node_allocatable")._value.get
        for trigger in ("periodic_retry", "node_changed", "pod_terminated", "node_changed"):
            bench.agent.resizes.decide(trigger)
        assert counted() == 1
        bench.agent.state.machine.allocatable["cpu"] = type(bench.agent.state.machine.allocatable["cpu"]).parse("4")
        bench.agent.resizes.decide("node_changed")
        await bench.until(lambda: bench.status()["allocatedResources"] == {"cpu": "2"})
        assert not pending(bench)


async def test_w26_no_pod_is_ended_for_a_resize_of_higher_priority(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await run(bench, "humble", cpu("600m"))
        await run(bench, "p", cpu("100m"), priorityClassName="system-node-critical")
        assert bench.pod()["spec"]["priority"] >= 2_000_000_000
        await ask(bench, "p", cpu("900m"))
        await bench.until(lambda: pending(bench).get("reason") == "Deferred")
        await asyncio.sleep(600)
        assert bench.phase("humble") == "Running" and bench.status(name="humble")["restartCount"] == 0


async def test_w27_a_status_never_shows_a_generation_that_was_not_judged(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await run(bench, "big", cpu("600m"))
        await run(bench, "p", cpu("100m"))
        seen: list[tuple[int, str]] = []

        async def follow() -> None:
            async for event in bench.cluster.client.watch(PODS, "default"):
                if event.object["metadata"]["name"] == "p":
                    status = event.object["status"]
                    held = {each["type"]: each.get("reason", "") for each in status.get("conditions", [])}
                    seen.append((status.get("observedGeneration", 0), held.get("PodResizePending", "")))

        following = asyncio.create_task(follow())
        for amount in ("500m", "550m", "100m", "700m"):
            await ask(bench, "p", cpu(amount))
        await bench.until(lambda: bench.pod()["status"]["observedGeneration"] == 5)
        following.cancel()
        judged = {2: "Deferred", 3: "Deferred", 4: "", 5: "Deferred"}
        assert {each for each in seen if each[0] in judged} <= {*judged.items()}
        assert (5, "Deferred") in seen


async def test_w28_a_slow_resize_does_not_delay_other_pods(tmp_path: Path) -> None:
    async with node(tmp_path, tree=True) as bench:
        sizes = {"requests": {"memory": "64Mi"}}
        bench.runtime.ignoring.add("_slow_")
        await bench.create(
            "slow",
            containers=[container("slow", resources=sizes, resizePolicy=RESTART)],
            terminationGracePeriodSeconds=3000,
        )
        await run(bench, "p", cpu("100m"))
        await bench.until(lambda: bench.phase("slow") == "Running")
        await bench.resize({"containers": [{"name": "slow", "resources": {"requests": {"memory": "128Mi"}}}]}, "slow")
        await bench.until(lambda: "PodResizeInProgress" in bench.conditions("slow"))
        now = asyncio.get_running_loop().time()
        await ask(bench, "p", cpu("200m"))
        await bench.until(lambda: bench.status().get("resources") == cpu("200m"))
        assert asyncio.get_running_loop().time() - now < 5
        assert "PodResizeInProgress" in bench.conditions("slow")


async def test_p36_the_start_of_a_pod_is_not_a_resize(tmp_path: Path) -> None:
    async with node(tmp_path, tree=True) as bench:
        await bench.create(resources={"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "64Mi"}})
        await bench.until(lambda: bench.phase() == "Running")
        await asyncio.sleep(120)
        assert not {each for each in bench.events() if each.startswith("Resize")}
