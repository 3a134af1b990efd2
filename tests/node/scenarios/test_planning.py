"""Rows J of the checklist: which writes a difference leads to."""

from pathlib import Path

import msgspec
import pytest
from tests.node.fake_cgroups import Machine
from tests.node.resizing import sized

from kohort.node.resize.actuation import ActuationFailed
from kohort.node.resize.plan import StopContainer, WriteContainer, WritePod, in_progress, plan_resize
from kohort.node.resource_views import Actuated, figures_of
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.resources import container_cgroup, pod_cgroup
from kohort.rules.allocated_resources import same_requirements

CPU = {"cpu": "RestartContainer"}
MEMORY = {"memory": "RestartContainer"}
OWN = "100m/100Mi:100m/100Mi"


def pushed(pod: Pod) -> Actuated:
    figures = figures_of(pod)
    return Actuated(figures.pod, figures.containers)


def steps(
    before: dict[str, str],
    after: dict[str, str],
    policy: dict[str, str] | None = None,
    running: tuple[str, ...] = ("c1", "c2"),
) -> list[str]:
    old, new = sized(policy=policy, **before), sized(policy=policy, **after)  # type: ignore[arg-type]
    found = []
    for step in plan_resize(new, figures_of(new), pushed(old), pod_cgroup(old), running):
        match step:
            case StopContainer(name):
                found.append(f"{name} restart")
            case WritePod(file, _):
                found.append(f"pod {file}")
            case WriteContainer(name, file, _):
                found.append(f"{name} {file}")
    return found


CONTAINER = {"c1 memory.max", "c1 cpu.max", "c1 cpu.weight"}
POD = {"pod memory.max", "pod cpu.max", "pod cpu.weight"}


@pytest.mark.parametrize(
    ("before", "after", "policy", "expected"),
    [
        pytest.param({"pod": "1/1Gi:1/1Gi", "c1": OWN}, {"pod": "2/2Gi:2/2Gi", "c1": OWN}, None, POD, id="J2t"),
        pytest.param({"c1": OWN}, {"c1": "200m/200Mi:200m/200Mi"}, None, CONTAINER | POD, id="J3t"),
        pytest.param(
            {"pod": "1/1Gi:1/1Gi", "c1": OWN, "c2": OWN},
            {"pod": "2/2Gi:2/2Gi", "c1": "200m/200Mi:200m/200Mi", "c2": OWN},
            None,
            CONTAINER | POD,
            id="J4t",
        ),
        pytest.param(
            {"pod": "-:300m/300Mi", "c1": ""},
            {"pod": "-:600m/600Mi", "c1": ""},
            None,
            CONTAINER | {"pod memory.max", "pod cpu.max"},
            id="J5t",
        ),
        pytest.param(
            {"pod": "-:300m/300Mi", "c1": ""},
            {"pod": "-:600m/600Mi", "c1": ""},
            CPU,
            {"c1 restart", "pod memory.max", "pod cpu.max"},
            id="J6t",
        ),
        pytest.param(
            {"c1": OWN}, {"c1": "100m/200Mi:100m/200Mi"}, None, {"c1 memory.max", "pod memory.max"}, id="J7t-memory"
        ),
        pytest.param(
            {"c1": OWN},
            {"c1": "200m/100Mi:200m/100Mi"},
            None,
            {"c1 cpu.max", "c1 cpu.weight", "pod cpu.max", "pod cpu.weight"},
            id="J7t-cpu",
        ),
        pytest.param({"c1": OWN}, {"c1": OWN}, None, set(), id="J9t-equal"),
        pytest.param({"c1": ""}, {"c1": ""}, None, set(), id="J9t-best-effort"),
        pytest.param({"c1": OWN}, {"c1": "200m/200Mi:200m/200Mi"}, CPU, {"c1 restart", *POD}, id="J10t-cpu"),
        pytest.param({"c1": OWN}, {"c1": "200m/200Mi:200m/200Mi"}, MEMORY, {"c1 restart", *POD}, id="J10t-memory"),
        pytest.param(
            {"c1": OWN}, {"c1": "100m/200Mi:100m/200Mi"}, CPU, {"c1 memory.max", "pod memory.max"}, id="J11t-memory"
        ),
        pytest.param(
            {"c1": "100m:200m"},
            {"c1": "100m:300m"},
            MEMORY,
            {"c1 cpu.max", "c1 cpu.weight", "pod cpu.max"},
            id="J11t-cpu",
        ),
        pytest.param({"c1": "-/100Mi:-/200Mi"}, {"c1": "-/90Mi:-/200Mi"}, MEMORY, {"c1 restart"}, id="J12t-restart"),
        pytest.param({"c1": "-/100Mi:-/200Mi"}, {"c1": "-/90Mi:-/200Mi"}, None, set(), id="J12t-live"),
        pytest.param(
            {"c1": OWN, "c2": OWN}, {"c1": "200m/200Mi:200m/200Mi", "c2": OWN}, None, CONTAINER | POD, id="J15t"
        ),
        pytest.param(
            {"c1": OWN, "c2": ""},
            {"c1": "200m/200Mi:200m/200Mi", "c2": ""},
            None,
            CONTAINER | {"pod cpu.weight"},
            id="J17t",
        ),
        pytest.param(
            {"c1": "100m/100Mi:1/1Gi"},
            {"c1": "200m/200Mi:1/1Gi"},
            None,
            {"c1 cpu.max", "c1 cpu.weight", "pod cpu.weight"},
            id="J18t",
        ),
        pytest.param({"c1": "-/100Mi"}, {"c1": "-/200Mi"}, None, set(), id="J19t"),
        pytest.param(
            {"c1": "100m"}, {"c1": "200m"}, None, {"c1 cpu.max", "c1 cpu.weight", "pod cpu.weight"}, id="J20t"
        ),
        pytest.param(
            {"c1": "10m/10Mi", "c2": "10m/10Mi"},
            {"c1": "10m/10Mi:100m/100Mi", "c2": "10m/10Mi"},
            None,
            CONTAINER,
            id="J21t-one-of-two",
        ),
        pytest.param(
            {"c1": "10m/10Mi", "c2": "10m/10Mi:100m/100Mi"},
            {"c1": "10m/10Mi:100m/100Mi", "c2": "10m/10Mi:100m/100Mi"},
            None,
            CONTAINER | {"pod memory.max", "pod cpu.max"},
            id="J21t-the-last",
        ),
        pytest.param({"pod": "-/100Mi", "c1": ""}, {"pod": "-/200Mi", "c1": ""}, None, set(), id="J23t"),
        pytest.param(
            {"pod": "-:-/100Mi", "c1": OWN}, {"pod": "-:-/200Mi", "c1": OWN}, None, {"pod memory.max"}, id="J24t-memory"
        ),
        pytest.param({"pod": "100m", "c1": ""}, {"pod": "200m", "c1": ""}, None, {"pod cpu.weight"}, id="J24t-request"),
        pytest.param(
            {"pod": "-:200m", "c1": OWN}, {"pod": "-:300m", "c1": OWN}, None, {"pod cpu.max"}, id="J24t-cpu-limit"
        ),
        pytest.param(
            {"pod": "1:1", "c1": "100m:200m"},
            {"pod": "1:2", "c1": "100m:300m"},
            None,
            {"pod cpu.max", "c1 cpu.max", "c1 cpu.weight"},
            id="J25t-cpu-limit",
        ),
        pytest.param(
            {"pod": "-/1Gi", "c1": "-/100Mi"}, {"pod": "-/2Gi", "c1": "-/200Mi"}, None, set(), id="J25t-memory-request"
        ),
    ],
)
def test_what_is_written(
    before: dict[str, str], after: dict[str, str], policy: dict[str, str] | None, expected: set[str]
) -> None:
    assert set(steps(before, after, policy)) == expected


def test_j8t_a_limit_of_the_pod_leaves_a_containers_own_figures_alone() -> None:
    assert figures_of(sized(pod="-:1/1Gi", c1=OWN)).containers == figures_of(sized(c1=OWN)).containers


@pytest.mark.parametrize("kind", ["c1", "side", "init"])
def test_j13t_what_has_ended_is_not_updated_but_its_pod_is(kind: str) -> None:
    before = {kind: OWN, "c2": OWN}
    after = {kind: "200m/200Mi:200m/200Mi", "c2": OWN}
    assert set(steps(before, after, None, ("c2",))) == POD


async def test_j14t_each_resource_is_recorded_when_it_is_done(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(sized(c1=OWN))
    machine.cgroups._observer = _refusing("c1/cpu.max")
    with pytest.raises(ActuationFailed):
        await machine.resize(sized(c1="200m/200Mi:200m/200Mi"))
    actuated = machine.allocations.actuated("u1")
    assert actuated is not None
    figures = actuated.containers["c1"]
    assert (figures.memory_limit, figures.cpu_limit) == (200 << 20, 100)


async def test_j16t_a_failure_with_memory_leaves_cpu_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(sized(c1=OWN))
    machine.cgroups._observer = _refusing("c1/memory.max")
    with pytest.raises(ActuationFailed, match="refused by the kernel"):
        await machine.resize(sized(c1="200m/200Mi:200m/200Mi"))
    files = machine.files(sized(c1=OWN))
    assert (
        files["podu1/memory.max"] == str(200 << 20) and files["podu1/cpu.max"] == files["c1/cpu.max"] == "10000 100000"
    )


def _refusing(place: str):  # type: ignore[no-untyped-def]
    def observer(kind: str, path: Path, content: str) -> None:
        if str(path).endswith(place):
            raise OSError("refused by the kernel")

    return observer


@pytest.mark.parametrize(
    ("before", "after", "running", "expected"),
    [
        pytest.param({"c1": OWN}, {"c1": OWN}, ["c1"], False, id="J27t-equal"),
        pytest.param({"c1": "10m"}, {"c1": "20m"}, ["c1"], True, id="J27t-cpu-request"),
        pytest.param({"c1": "-:10m"}, {"c1": "-:20m"}, ["c1"], True, id="J27t-cpu-limit"),
        pytest.param({"c1": "-/10Mi"}, {"c1": "-/20Mi"}, ["c1"], True, id="J27t-memory-request"),
        pytest.param({"c1": "-:-/10Mi"}, {"c1": "-:-/20Mi"}, ["c1"], True, id="J27t-memory-limit"),
        pytest.param({"c1": "", "side": "10m"}, {"c1": "", "side": "20m"}, ["c1", "side"], True, id="J27t-sidecar"),
        pytest.param({"c1": "1", "init": "10m"}, {"c1": "1", "init": "20m"}, ["init"], True, id="J27t-W12-init"),
        pytest.param({"c1": "1", "init": "10m"}, {"c1": "1", "init": "20m"}, ["c1"], False, id="J27t-init-ended"),
        pytest.param({"c1": ""}, {"c1": ""}, ["c1"], False, id="J27t-best-effort"),
        pytest.param({"pod": "1", "c1": ""}, {"pod": "2", "c1": ""}, ["c1"], True, id="J27t-pod"),
        pytest.param({"c1": ""}, {"pod": "2", "c1": ""}, ["c1"], True, id="J27t-W12-first-block"),
    ],
)
def test_what_counts_as_under_way(
    before: dict[str, str], after: dict[str, str], running: list[str], expected: bool
) -> None:
    old, new = sized(**before), sized(**after)  # type: ignore[arg-type]
    assert in_progress(figures_of(new), pushed(old), running) is expected


def test_j28t_blocks_are_compared_by_meaning() -> None:
    assert same_requirements(None, ResourceRequirements())
    assert same_requirements(ResourceRequirements({"cpu": "1"}, {}), ResourceRequirements({"cpu": "1000m"}, {}))
    assert not same_requirements(None, ResourceRequirements({"cpu": "1"}, {}))


def test_a10_a_missing_record_is_no_reason_to_restart() -> None:
    pod = sized(c1=OWN, policy=CPU)
    empty = msgspec.structs.replace(pushed(pod), containers={})
    assert plan_resize(pod, figures_of(pod), empty, pod_cgroup(pod), ["c1"]) == []


def test_w5_pods_and_containers_weigh_by_one_formula() -> None:
    pod = sized(c1="100m")
    inner = container_cgroup(pod, pod.spec.main_containers[0])
    assert pod_cgroup(pod).cpu_weight == inner.cpu_weight == 17, "the line would give the pod 4"
    assert pod_cgroup(sized(c1="50m")).cpu_weight == 11


def test_w5b_a_live_update_writes_the_weight_that_a_start_would() -> None:
    old, new = sized(pod="-:200m", c1=""), sized(pod="-:1", c1="")
    plan = plan_resize(new, figures_of(new), pushed(old), pod_cgroup(old), ["c1"])
    (weight,) = [step.content for step in plan if isinstance(step, WriteContainer) and step.file == "cpu.weight"]
    assert weight == str(container_cgroup(new, new.spec.main_containers[0]).cpu_weight) == "100"


def test_w22_the_plan_understands_a_limit_that_is_taken_away() -> None:
    old, new = sized(c1="10m:100m/100Mi", c2="10m"), sized(c1="10m", c2="10m")
    plan = plan_resize(new, figures_of(new), pushed(old), pod_cgroup(old), ["c1", "c2"])
    written = {step.file: step.content for step in plan if isinstance(step, WriteContainer)}
    assert written["memory.max"] == "max" and written["cpu.max"] == "max 100000"


async def test_w23_usage_is_read_when_it_is_needed_and_again_before_the_last_step(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(sized(c1="-:-/100Mi"), usage=1 << 20)
    path = next(iter(machine.cgroups.pods().values())) / "c1"

    def grows_meanwhile(kind: str, place: Path, content: str) -> None:
        if place == path / "memory.high" and content != "max":
            (path / "memory.current").write_text(str(60 << 20))

    machine.cgroups._observer = grows_meanwhile
    with pytest.raises(ActuationFailed, match="below current usage"):
        await machine.resize(sized(c1="-:-/50Mi"))
    assert (path / "memory.max").read_text() == str(100 << 20), "it would have been killed"
    assert (path / "memory.high").read_text() == "max"


def test_w23_clean_file_cache_can_be_left_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(sized(c1=""), usage=100)
    path = next(iter(machine.cgroups.pods().values()))
    (path / "memory.stat").write_text("anon 30\ninactive_file 70\n")
    assert machine.cgroups.usage(path, {}).pod == 100
    assert machine.cgroups.usage(path, {}, count_cache=False).pod == 30


@pytest.mark.parametrize(("limit", "quota"), [("25m", "2500 100000"), ("417m", "41700 100000")])
def test_w24_quotas_are_exact(limit: str, quota: str) -> None:
    assert pod_cgroup(sized(c1=f"-:{limit}")).files()["cpu.max"] == quota, "systemd would round up to 10m"
