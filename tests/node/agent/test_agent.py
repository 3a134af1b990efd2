"""Pods from their start to their end, on virtual time."""

import asyncio
from pathlib import Path

import pytest
from tests.node.agent.node_bench import NODE, Bench, container, node

from kohort.kube.client import PatchType
from kohort.kube.resources import CONFIG_MAPS, NODES, PODS
from kohort.node.devices.interface import NoDevicePlugins
from kohort.node.mount_table import unmount_below
from kohort.node.pressure import Pressure
from kohort.node.runtimes.interface import CannotStart, Launch
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.pods import Pod
from kohort.objects.quantity import canonical
from kohort.rules.pod_admission import Rejection


async def test_a_node_says_what_it_has_and_what_it_cannot(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="4") as bench:
        found = bench.cluster.find(NODES, NODE)
        assert found is not None
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert conditions["Ready"] == "True" and conditions["ResourcesEnforced"] == "False"
        assert found["status"]["capacity"]["cpu"] == "4"
        await bench.until(lambda: "NodeReady" in bench.events())
        assert "Normal NodeReady: Node n1 status is now: NodeReady" in bench.said()
        assert "InPlacePodLevelResourcesVerticalScaling" not in found["status"]["declaredFeatures"]


async def test_a_pod_runs_gets_ready_and_succeeds(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create(restartPolicy="Never")
        await bench.until(lambda: bench.conditions().get("Ready", {}).get("status") == "True")
        assert bench.phase() == "Running" and bench.status()["containerID"] == f"simulated://{uid}_c_0"
        assert bench.pod()["status"]["observedGeneration"] == 1
        bench.runtime.end(f"{uid}_c_0")
        await bench.until(lambda: bench.phase() == "Succeeded")
        assert bench.status()["state"]["terminated"]["reason"] == "Completed"
        assert bench.conditions()["Ready"]["reason"] == "PodCompleted"


async def test_init_containers_run_in_order_and_sidecars_stay(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        inits = [container("first"), container("side", restartPolicy="Always"), container("second")]
        uid = await bench.create(initContainers=inits)
        await bench.until(lambda: bench.running() == ["first_0"])
        assert bench.conditions()["Initialized"]["message"].endswith("[first side second]")
        bench.runtime.end(f"{uid}_first_0")
        await bench.until(lambda: bench.running() == ["second_0", "side_0"])
        bench.runtime.end(f"{uid}_second_0")
        await bench.until(lambda: bench.conditions().get("Ready", {}).get("status") == "True")
        assert bench.running() == ["c_0", "side_0"]


async def test_sidecars_end_after_the_others_and_stay_ended(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create(initContainers=[container("side", restartPolicy="Always")], restartPolicy="Never")
        await bench.until(lambda: bench.running() == ["c_0", "side_0"])
        bench.runtime.end(f"{uid}_c_0")
        await bench.until(lambda: bench.phase() == "Succeeded")
        assert bench.running() == [] and bench.status("side")["restartCount"] == 0
        assert bench.status("side")["state"]["terminated"]["exitCode"] == 143


async def test_an_ephemeral_container_does_not_change_the_others(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create()
        await bench.until(lambda: bench.phase() == "Running")
        visitor = {"spec": {"ephemeralContainers": [container("visitor", targetContainerName="c")]}}
        await bench.cluster.client.patch(PODS, "p", "default", visitor, PatchType.STRATEGIC, "ephemeralcontainers")
        await bench.until(lambda: bench.running() == ["c_0", "visitor_0"])
        assert bench.conditions()["Ready"]["status"] == "True"
        bench.runtime.end(f"{uid}_visitor_0", 1)
        await bench.until(lambda: "terminated" in bench.pod()["status"]["ephemeralContainerStatuses"][0]["state"])
        assert bench.running() == ["c_0"] and bench.phase() == "Running"


async def test_a_failed_init_container_ends_a_pod_that_never_restarts(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create(initContainers=[container("first")], restartPolicy="Never")
        await bench.until(lambda: bench.running() == ["first_0"])
        bench.runtime.end(f"{uid}_first_0", 3)
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.running() == []


async def test_restarts_wait_longer_each_time(tmp_path: Path) -> None:
    import asyncio

    async with node(tmp_path) as bench:
        uid = await bench.create()
        clock = asyncio.get_running_loop().time
        waits = []
        for attempt in range(4):
            await bench.until(lambda attempt=attempt: f"c_{attempt}" in bench.running())  # type: ignore[misc]
            ended = clock()
            bench.runtime.end(f"{uid}_c_{attempt}", 1)
            await bench.until(lambda attempt=attempt: f"c_{attempt + 1}" in bench.running())  # type: ignore[misc]
            waits.append(round(clock() - ended))
        assert waits == [0, 10, 20, 40]
        await bench.until(lambda: bench.status()["restartCount"] == 4)
        bench.runtime.end(f"{uid}_c_4", 1)
        await bench.until(lambda: bench.status()["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
        assert bench.status()["lastState"]["terminated"]["exitCode"] == 1


async def test_what_runs_out_of_memory_is_called_so(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create(restartPolicy="Never")
        await bench.until(lambda: bench.running() == ["c_0"])
        bench.runtime.end(f"{uid}_c_0", 137, oom_killed=True)
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.status()["state"]["terminated"]["reason"] == "OOMKilled"


async def test_probes_gate_readiness_and_end_what_is_stuck(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        answers = {"ready": 1, "alive": 0}
        bench.runtime.answers = lambda launch: answers[launch.command[0]]
        ready = {"exec": {"command": ["ready"]}, "periodSeconds": 5, "failureThreshold": 1}
        alive = {"exec": {"command": ["alive"]}, "periodSeconds": 5, "failureThreshold": 2}
        await bench.create(
            containers=[container("c", readinessProbe=ready, livenessProbe=alive)], terminationGracePeriodSeconds=1
        )
        await bench.until(lambda: bench.phase() == "Running")
        assert bench.conditions()["Ready"]["status"] == "False"
        answers["ready"] = 0
        await bench.until(lambda: bench.conditions()["Ready"]["status"] == "True")
        answers["ready"] = 1
        await bench.until(lambda: bench.conditions()["Ready"]["status"] == "False")
        answers["alive"] = 1
        await bench.until(lambda: bench.status()["restartCount"] == 1)
        assert "Unhealthy" in bench.events()


@pytest.mark.parametrize("problem", [CannotStart("cannot connect to runtime.sock"), ConnectionResetError("lost")])
async def test_a_runtime_that_does_not_answer_fails_no_probe(tmp_path: Path, problem: Exception) -> None:
    async with node(tmp_path) as bench:
        away: list[str] = []

        def answer(launch: Launch) -> int:
            if launch.command[0] in away:
                raise problem
            return 0 if "dead" not in away else 1

        bench.runtime.answers = answer
        probes = {
            kind: {"exec": {"command": [kind]}, "periodSeconds": 1, "failureThreshold": 1}
            for kind in ("readinessProbe", "livenessProbe", "startupProbe")
        }
        away.append("startupProbe")
        await bench.create(containers=[container("c", **probes)], terminationGracePeriodSeconds=1)
        await bench.until(lambda: "Startup probe errored" in str(bench.said()))
        away.clear()
        await bench.until(lambda: bench.conditions().get("Ready", {}).get("status") == "True")
        away.extend(probes)
        for errored in ("Liveness probe errored and resulted in unknown state", "Readiness probe errored"):
            await bench.until(lambda text=errored: text in str(bench.said()))  # type: ignore[misc]
        assert bench.status()["restartCount"] == 0 and bench.conditions()["Ready"]["status"] == "True"
        assert not any("probe failed" in each for each in bench.said())
        away[:] = ["dead"]
        await bench.until(lambda: bench.status()["restartCount"] == 1)


async def test_a_sandbox_that_keeps_ending_is_made_again_with_pauses(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        bench.runtime.sandbox_image = "broken/pause:1"
        uid = await bench.create(terminationGracePeriodSeconds=1)
        await bench.until(lambda: bench.running() == ["c_0"])
        starts = []
        for attempt in range(1, 5):
            before = asyncio.get_running_loop().time()
            bench.runtime.lose_sandbox(uid)
            await bench.until(lambda attempt=attempt: bench.running() == [f"c_{attempt}"])  # type: ignore[misc]
            starts.append(asyncio.get_running_loop().time() - before)
        for found, pause in zip(starts, (0, 10, 20, 40), strict=True):
            assert pause - 1 <= found < pause + 5, "containers do not wait once more, for themselves"
        waits = [each for each in bench.said() if "Back-off restarting the sandbox" in each]
        assert "ended 2 times by itself; see the sandbox image broken/pause:1" in waits[0] and len(waits) == 3


class OneHangs(NoDevicePlugins):
    """The plugin of the pod "hangs" never answers."""

    def __init__(self) -> None:
        self.cancelled = False

    async def admit(self, pod: Pod) -> Rejection | None:
        if pod.metadata.name != "hangs":
            return None
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True
        return None


async def test_a_pod_whose_device_plugin_does_not_answer_can_be_deleted(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        bench.agent.state.devices = devices = OneHangs()
        await bench.create("hangs")
        await bench.create("p")
        await bench.until(lambda: bench.running() == ["c_0"])
        assert bench.phase("hangs") == "Pending" and not devices.cancelled
        await bench.cluster.client.delete(PODS, "hangs", "default")
        await bench.until(lambda: bench.cluster.find(PODS, "hangs", "default") is None, timeout=5.0)
        assert devices.cancelled


async def test_what_a_container_refers_to_must_exist(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(containers=[container("c", envFrom=[{"configMapRef": {"name": "later"}}])])
        await bench.until(
            lambda: bench.status().get("state", {}).get("waiting", {}).get("reason") == "CreateContainerConfigError"
        )
        assert bench.status()["state"]["waiting"]["message"] == 'configmap "later" not found'
        await bench.cluster.client.create(
            CONFIG_MAPS, {"metadata": {"name": "later", "namespace": "default"}, "data": {"A": "1"}}, "default"
        )
        await bench.until(lambda: bench.running() == ["c_0"])
        launch = next(iter(bench.runtime.launches.values()))
        assert launch.env["A"] == "1"


async def test_a_pod_that_writes_more_than_it_wanted_to_is_ended(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "free", "emptyDir": {}}]
        uid = await bench.create("p", volumes=volumes)
        await bench.until(lambda: bench.phase() == "Running")
        for name, size in (("v", 1 << 19), ("free", 3 << 20)):
            (tmp_path / "pods" / uid / "volumes" / name / "file").write_bytes(b"x" * size)
        await bench.agent.evictions.evict_over_size_limit()
        assert bench.agent.pods.find("default", "p").evicted == ""  # type: ignore[union-attr]
        (tmp_path / "pods" / uid / "volumes" / "v" / "more").write_bytes(b"x" * (1 << 20))
        await bench.until(lambda: bench.phase() == "Failed")
        status = bench.pod()["status"]
        assert status["reason"] == "Evicted"
        assert status["message"] == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '
        target = next(each for each in status["conditions"] if each["type"] == "DisruptionTarget")
        assert (target["reason"], target["message"]) == ("TerminationByKubelet", status["message"])
        await bench.until(lambda: f"Warning Evicted: {status['message']}" in bench.said())


async def test_a_pod_that_writes_more_than_its_limits_of_storage_is_ended(tmp_path: Path) -> None:
    limited: JsonObject = {"resources": {"limits": {"ephemeral-storage": "1Mi"}}}
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]
    async with node(tmp_path) as bench:
        places = {}
        for name in ("own", "all", "message", "hosts", "memory", "free", "critical"):
            priority = "system-node-critical" if name == "critical" else ""
            containers = [container("c", **({} if name == "free" else limited)), container("other")]
            uid = await bench.create(name, containers=containers, volumes=volumes, priorityClassName=priority)
            places[name] = tmp_path / "pods" / uid
        await bench.until(lambda: all(bench.phase(name) == "Running" for name in places))
        await bench.agent.evictions.evict_over_storage_limit()
        assert not any(each.evicted for each in bench.agent.pods.records())
        for name, path in (
            ("own", "layers/c/0/upper/file"),
            ("all", "volumes/v/file"),
            ("all", "logs/other/file"),
            ("message", "messages/c/0"),
            ("hosts", "hosts"),
            ("memory", "volumes/m/file"),
            ("free", "volumes/v/file"),
            ("critical", "layers/c/0/upper/file"),
        ):
            file = places[name] / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x" * (600 << 10 if name == "all" else 2 << 20))
        evicted = ("own", "all", "message", "hosts")
        await bench.until(lambda: all(bench.phase(name) == "Failed" for name in evicted))
        status = bench.pod("all")["status"]
        assert status["reason"] == "Evicted"
        assert status["message"] == "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
        assert [bench.phase(name) for name in ("memory", "free", "critical")] == ["Running"] * 3
    unmount_below(tmp_path)


async def test_a_pod_that_is_active_too_long_fails(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(activeDeadlineSeconds=30)
        await bench.until(lambda: bench.phase() == "Running")
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.pod()["status"]["reason"] == "DeadlineExceeded" and bench.running() == []
        await bench.until(lambda: "DeadlineExceeded" in bench.events())


async def test_a_name_of_the_whole_domain(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(hostname="h", subdomain="s", setHostnameAsFQDN=True)
        await bench.until(lambda: bench.phase() == "Running")
        launch = next(iter(bench.runtime.launches.values()))
        assert launch.hostname == launch.env["HOSTNAME"] == "h.s.default.svc.cluster.local"


async def test_an_agent_that_died_is_followed_by_one_that_knows_everything(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create()
        await bench.until(lambda: bench.phase() == "Running")
        await bench.cluster.parts["node"].crash()
        await bench.cluster.parts["node"].restart()
        await bench.agent.heartbeat.registered.wait()
        await bench.until(lambda: bench.agent.pods.find("default", "p") is not None)
        assert bench.running() == ["c_0"] and bench.status()["restartCount"] == 0
        bench.runtime.end(f"{uid}_c_0", 1)
        await bench.until(lambda: bench.status()["restartCount"] == 1)


async def test_pods_deleted_while_the_agent_was_down_are_ended(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create()
        await bench.until(lambda: bench.phase() == "Running")
        await bench.cluster.parts["node"].crash()
        await bench.cluster.client.delete(PODS, "p", "default", grace_seconds=0)
        await bench.cluster.parts["node"].restart()
        await bench.until(lambda: bench.runtime.running() == [])


async def test_a_pod_that_has_ended_stays_as_it_ended(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create(restartPolicy="Never")
        await bench.until(lambda: bench.running() == ["c_0"])
        bench.runtime.end(f"{uid}_c_0")
        await bench.until(lambda: bench.phase() == "Succeeded")
        await bench.cluster.parts["node"].restart()
        await bench.until(lambda: bench.agent.pods.find("default", "p") is not None)
        worker = bench.agent.pods.find("default", "p")
        assert worker is not None and worker.runs["c"].ended and bench.running() == []
        await bench.runtime.remove(f"{uid}_c_0")
        phases = set()

        def gone() -> bool:
            found = bench.cluster.find(PODS, "p", "default")
            phases.add(found["status"]["phase"] if found else "")
            return found is None

        await bench.cluster.client.delete(PODS, "p", "default")
        await bench.until(gone)
        assert phases <= {"Succeeded", ""}


POLICY = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]


@pytest.mark.parametrize(("policy", "restarts"), [([], 0), (POLICY, 1)])
async def test_a_resize_is_judged_carried_out_and_reported(
    tmp_path: Path, policy: list[JsonObject], restarts: int
) -> None:
    async with node(tmp_path, cpu="4") as bench:
        sizes = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        await bench.create(
            containers=[container("c", resources=sizes, resizePolicy=policy)], terminationGracePeriodSeconds=1
        )
        await bench.until(lambda: bench.phase() == "Running")
        bigger = {"requests": {"cpu": "200m", "memory": "128Mi"}}
        await bench.resize({"containers": [{"name": "c", "resources": bigger}]})
        await bench.until(lambda: bench.status().get("resources") == bigger)
        await bench.until(lambda: bench.status()["restartCount"] == restarts)
        await bench.until(lambda: "PodResizeInProgress" not in bench.conditions())
        assert bench.status()["allocatedResources"] == bigger["requests"]
        assert bench.pod()["status"]["observedGeneration"] == 2
        await bench.until(lambda: {"ResizeStarted", "ResizeCompleted"} <= set(bench.events()))


def memory(amount: str) -> JsonObject:
    return {"requests": {"memory": amount}, "limits": {"memory": amount}}


async def test_a_container_that_resizes_restart_starts_at_once_every_time(tmp_path: Path) -> None:
    async with node(tmp_path, memory="4Gi") as bench:
        await bench.create(
            containers=[container("c", resources=memory("64Mi"), resizePolicy=POLICY)], terminationGracePeriodSeconds=3
        )
        await bench.until(lambda: bench.running() == ["c_0"])
        for attempt, amount in enumerate(("128Mi", "96Mi", "64Mi", "160Mi"), 1):
            before = asyncio.get_running_loop().time()
            await bench.resize({"containers": [{"name": "c", "resources": memory(amount)}]})
            await bench.until(lambda attempt=attempt: bench.running() == [f"c_{attempt}"])  # type: ignore[misc]
            assert asyncio.get_running_loop().time() - before < 5
        assert "BackOff" not in bench.events()


async def test_a_container_that_keeps_ending_starts_at_once_when_it_gets_more_memory(tmp_path: Path) -> None:
    async with node(tmp_path, memory="4Gi") as bench:
        uid = await bench.create(containers=[container("c", resources=memory("64Mi"))])
        for attempt in range(4):
            await bench.until(lambda attempt=attempt: bench.running() == [f"c_{attempt}"])  # type: ignore[misc]
            bench.runtime.end(f"{uid}_c_{attempt}", 137)
        await bench.until(lambda: bench.status()["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
        before = asyncio.get_running_loop().time()
        await bench.resize({"containers": [{"name": "c", "resources": memory("128Mi")}]})
        await bench.until(lambda: bench.running() == ["c_4"])
        assert asyncio.get_running_loop().time() - before < 5


async def test_limits_beyond_any_machine_are_what_a_kernel_takes(tmp_path: Path) -> None:
    """It takes less than 2**44 microseconds and counts pages in 63 bits; Kubernetes accepts anything."""
    absurd = {"cpu": "1e30", "memory": "99999999999999999999999Ei"}
    asked = {"cpu": "10m", "memory": "8Mi"}
    async with node(tmp_path, tree=True, cpu="2") as bench:
        whole = {"requests": asked, "limits": {"cpu": "1e40", "memory": "1e40"}}
        own = {"requests": asked, "limits": {"cpu": "100m", "memory": "64Mi"}}
        uid = await bench.create(containers=[container("c", resources=own), container("d")], resources=whole)
        await bench.until(lambda: bench.phase() == "Running")
        held = bench.cgroup(uid)
        for place in (held, held / "d"):
            quota, period = (place / "cpu.max").read_text().split()
            assert 10**6 * int(period) <= int(quota) < 2**44
            assert 2**62 < int((place / "memory.max").read_text()) < 2**63 - 4096
        assert bench.pod()["status"]["resources"]["limits"] == {"cpu": "10e39", "memory": "10e39"}
        for limits in (absurd, own["limits"]):
            await bench.resize({"containers": [{"name": "c", "resources": {"limits": limits}}]})
            await bench.until(lambda limits=limits: status_limit(bench) == canonical(limits["cpu"]))  # type: ignore[misc]
            await bench.until(lambda: not any(name.startswith("PodResize") for name in bench.conditions()))
        assert (held / "c" / "cpu.max").read_text() == "10000 100000"


def status_limit(bench: Bench) -> Json:
    return bench.status()["resources"]["limits"]["cpu"]


async def test_resizes_that_do_not_fit_wait_and_are_tried_again(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        for name, cpu in (("big", "600m"), ("p", "100m")):
            await bench.create(
                name,
                containers=[container("c", resources={"requests": {"cpu": cpu}})],
                terminationGracePeriodSeconds=1,
            )
            await bench.until(lambda name=name: bench.phase(name) == "Running")  # type: ignore[misc]
        await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]})
        await bench.until(lambda: bench.conditions().get("PodResizePending", {}).get("reason") == "Deferred")
        assert bench.status()["allocatedResources"] == {"cpu": "100m"}
        await bench.cluster.client.delete(PODS, "big", "default")
        await bench.until(lambda: "PodResizePending" not in bench.conditions())
        await bench.until(lambda: bench.status()["allocatedResources"] == {"cpu": "500m"})


async def test_a_resize_that_was_taken_back_is_forgotten(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        for name in ("big", "p"):
            await bench.create(name, containers=[container("c", resources={"requests": {"cpu": "400m"}})])
            await bench.until(lambda name=name: bench.phase(name) == "Running")  # type: ignore[misc]
        await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "800m"}}}]})
        await bench.until(lambda: "PodResizePending" in bench.conditions())
        await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "400m"}}}]})
        await bench.until(lambda: "PodResizePending" not in bench.conditions())
        assert bench.pod()["status"]["observedGeneration"] == 3


async def test_under_pressure_the_node_says_so_ends_one_pod_politely_and_waits_with_growth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [Pressure()]
    monkeypatch.setattr("kohort.node.pressure.measure", lambda memory, directory: left[0])
    async with node(tmp_path, tree=True, cpu="4") as bench:
        hook = {"preStop": {"exec": {"command": ["goodbye"]}}}
        asked: list[str] = []

        def answer(launch: Launch) -> int:
            asked.append(launch.command[0])
            return 0

        def condition(type: str) -> str:
            found = bench.cluster.find(NODES, NODE)
            assert found is not None
            return next(str(each["status"]) for each in found["status"]["conditions"] if each["type"] == type)

        bench.runtime.answers = answer
        sizes = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        await bench.create("greedy", containers=[container("c", lifecycle=hook, resources=sizes)])
        await bench.create("p", containers=[container("c", resources=sizes)])
        for name in ("greedy", "p"):
            await bench.until(lambda name=name: bench.phase(name) == "Running")  # type: ignore[misc]
        uid = bench.pod("greedy")["metadata"]["uid"]
        (bench.cgroup(uid) / "memory.current").write_text(str(500 << 20))
        left[0] = Pressure(memory=True)
        await bench.until(lambda: condition("MemoryPressure") == "True")
        left[0] = Pressure(disk=True, pids=True)
        await bench.until(lambda: bench.phase("greedy") == "Failed")
        assert bench.pod("greedy")["status"]["reason"] == "Evicted" and asked == ["goodbye"]
        await bench.until(lambda: condition("DiskPressure") == condition("PIDPressure") == "True")
        assert condition("MemoryPressure") == "False" and bench.phase("p") == "Running"
        await bench.resize({"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]})
        await bench.until(lambda: bench.conditions().get("PodResizePending", {}).get("reason") == "Deferred")
        left[0] = Pressure()
        await bench.until(lambda: bench.status()["allocatedResources"]["cpu"] == "200m")


async def test_a_pod_that_was_marked_unready_while_the_node_was_silent_is_reported_ready_again(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create()
        await bench.until(lambda: bench.conditions().get("Ready", {}).get("status") == "True")
        entry = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        body = {"status": {"conditions": [entry]}}
        await bench.cluster.client.patch(PODS, "p", "default", body, PatchType.STRATEGIC, "status")
        assert bench.conditions()["Ready"]["status"] == "False"
        await bench.until(lambda: bench.conditions()["Ready"]["status"] == "True")
