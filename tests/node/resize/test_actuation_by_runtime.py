"""Resizes of containers whose cgroups a container runtime has made: what is asked of it, in which order, and what
happens when it refuses, fails, or the agent dies."""

import contextlib
from pathlib import Path

import pytest
from tests.node.fake_cgroups import Died, Machine
from tests.node.resizing import sized

from kohort.node.resize.actuation import ActuationFailed
from kohort.node.runtimes.simulated import SimulatedRuntime
from kohort.resources import CgroupValues

BEFORE = sized(pod="200m/200Mi:400m/400Mi", c1="50m/50Mi:100m/100Mi", c2="100m/100Mi:200m/200Mi")
AFTER = sized(pod="150m/150Mi:300m/300Mi", c1="80m/80Mi:150m/150Mi", c2="50m/50Mi:100m/100Mi", generation=2)
MI = 1 << 20


class RuntimeWithCgroups(SimulatedRuntime):
    """Writes the cgroups of containers as an OCI runtime does: all that it is told, merged into what it was told
    before."""

    makes_cgroups = True

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self.refuses = ""

    def cgroup_name(self, pod_uid: str, container: str) -> str:
        return container

    async def resize(self, pod_uid: str, container: str, values: CgroupValues) -> None:
        path = self._machine.cgroups.pods()[pod_uid] / container
        limits = f"cpu {values.cpu_quota} weight {values.cpu_weight} memory {(values.memory_max or 0) // MI}"
        self._machine.observer("cgroup", path / "runtime", limits)
        for file, content in values.files().items():
            if (path / file).exists():
                (path / file).write_text(content)

    async def resize_pod(self, uid: str, values: CgroupValues) -> None:
        self._machine.observer("cgroup", Path("sandbox/told"), f"memory {(values.memory_max or 0) // MI}")
        if self.refuses:
            raise OSError(self.refuses)


def machine_with_runtime(tmp_path: Path, **faults: int) -> tuple[Machine, RuntimeWithCgroups]:
    machine = Machine(tmp_path, **faults)
    runtime = RuntimeWithCgroups(machine)
    machine.runtime = runtime
    return machine, runtime


def acts(machine: Machine) -> list[str]:
    skipped = ("checkpoint", "rename")
    return [each for each in machine.writes if not each.startswith(skipped) and "memory.high" not in each]


async def test_one_call_for_each_container_whose_memory_and_cpu_go_the_same_way(tmp_path: Path) -> None:
    machine, _ = machine_with_runtime(tmp_path)
    machine.run(BEFORE)
    machine.writes.clear()
    await machine.resize(AFTER)
    assert acts(machine) == [
        "sandbox/told memory 300",
        "c2/runtime cpu 10000 weight 11 memory 100",
        f"podu1/memory.max {300 * MI}",
        "podu1/cpu.weight 24",
        "podu1/cpu.max 30000 100000",
        "c1/runtime cpu 15000 weight 15 memory 150",
    ]
    assert machine.settled(AFTER)


async def test_the_agent_writes_nothing_of_a_container_but_memory_high(tmp_path: Path) -> None:
    machine, _ = machine_with_runtime(tmp_path)
    machine.run(BEFORE)
    machine.writes.clear()
    await machine.resize(AFTER)
    own = {each.split()[0] for each in machine.writes if each.startswith(("c1/", "c2/"))}
    assert own <= {"c1/runtime", "c2/runtime", "c2/memory.high"}
    assert machine.files(AFTER)["c2/memory.high"] == "max"


async def test_both_ways_end_with_the_same_files(tmp_path: Path) -> None:
    direct = Machine(tmp_path / "direct")
    by_runtime, _ = machine_with_runtime(tmp_path / "runtime")
    for machine in (direct, by_runtime):
        machine.run(BEFORE)
        await machine.resize(AFTER)
    assert direct.files(AFTER) == by_runtime.files(AFTER)


async def test_a_runtime_that_refuses_the_size_of_the_pod_stops_everything(tmp_path: Path) -> None:
    machine, runtime = machine_with_runtime(tmp_path)
    machine.run(BEFORE)
    before = machine.files(BEFORE)
    runtime.refuses = "too small for this sandbox"
    with pytest.raises(ActuationFailed, match="too small for this sandbox"):
        await machine.resize(AFTER)
    assert machine.files(BEFORE) == before and not machine.settled(AFTER)


async def test_a_runtime_is_told_the_old_size_if_the_kernel_refuses_the_new_one(tmp_path: Path) -> None:
    machine, _ = machine_with_runtime(tmp_path)
    machine.run(BEFORE)
    machine.begin_counting()
    grown = sized(pod="300m/300Mi:600m/600Mi", c1="50m/50Mi:100m/100Mi", c2="100m/100Mi:200m/200Mi", generation=2)
    await machine.resize(grown)
    first = machine.writes.index(f"podu1/memory.max {600 * MI}")
    again, _ = machine_with_runtime(tmp_path / "again", fails_at=first)
    again.run(BEFORE)
    again.begin_counting()
    with pytest.raises(ActuationFailed, match="refused by the kernel"):
        await again.resize(grown)
    assert [each for each in again.writes if each.startswith("sandbox")] == [
        "sandbox/told memory 600",
        "sandbox/told memory 400",
    ]


async def test_memory_in_use_is_refused_before_the_runtime_is_asked(tmp_path: Path) -> None:
    machine, _ = machine_with_runtime(tmp_path)
    machine.run(BEFORE, usage=120 * MI)
    machine.writes.clear()
    with pytest.raises(ActuationFailed, match=r'container "c2" memory limit .* below current usage'):
        await machine.resize(AFTER)
    assert acts(machine) == []


async def test_the_agent_may_die_before_any_write_or_call(tmp_path: Path) -> None:
    undisturbed, _ = machine_with_runtime(tmp_path / "whole")
    undisturbed.run(BEFORE)
    undisturbed.writes.clear()
    await undisturbed.resize(AFTER)
    for number in range(len(undisturbed.writes)):
        place = tmp_path / str(number)
        machine, _ = machine_with_runtime(place)
        machine.run(BEFORE)
        machine.writes.clear()
        machine.dies_before = number
        with contextlib.suppress(Died):
            await machine.resize(AFTER)
        successor, _ = machine_with_runtime(place)
        await successor.resize(AFTER)
        assert successor.files(AFTER) == undisturbed.files(AFTER), f"it died before write {number}"
        assert successor.settled(AFTER)
