"""Resizes end the same way wherever the agent dies: before every write, between writing a record and renaming it, and
after the last one."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.node.fake_cgroups import ROOM, Died, Machine, decide
from tests.node.resizing import sized

from kohort.node.cgroups import Cgroups
from kohort.node.resize.actuation import ActuationFailed, actuated_from_cgroups
from kohort.node.resize.plan import in_progress
from kohort.node.resource_views import figures_of
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.rules.resize_decision import Accepted, NodeFacts

BEFORE = sized(pod="200m/200Mi:400m/400Mi", c1="50m/50Mi:100m/100Mi", c2="100m/100Mi:200m/200Mi")
AFTER = sized(
    pod="150m/150Mi:300m/300Mi", c1="80m/80Mi:150m/150Mi", c2="50m/50Mi:100m/100Mi", generation=2
)  # fmt: skip
RESTARTS = {"memory": "RestartContainer"}


async def test_an_undisturbed_resize_writes_in_order(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(BEFORE)
    machine.writes.clear()
    await machine.resize(AFTER)
    mi = 1 << 20
    assert [each for each in machine.writes if "memory.high" not in each and not each.startswith("rename")] == [
        "checkpoint allocated.json",
        f"c2/memory.max {100 * mi}",
        "checkpoint actuated.json",
        f"podu1/memory.max {300 * mi}",
        f"c1/memory.max {150 * mi}",
        "checkpoint actuated.json",
        "c2/cpu.weight 11",
        "c2/cpu.max 10000 100000",
        "checkpoint actuated.json",
        "podu1/cpu.weight 24",
        "podu1/cpu.max 30000 100000",
        "c1/cpu.max 15000 100000",
        "c1/cpu.weight 15",
        "checkpoint actuated.json",
    ]
    assert [each for each in machine.writes if "memory.high" in each] == [
        f"c2/memory.high {100 * mi}",
        "c2/memory.high max",
        f"podu1/memory.high {300 * mi}",
        "podu1/memory.high max",
    ]


OWN = "100m/100Mi:200m/200Mi"
CHANGES = {
    "pod-down": ({"pod": "200m/200Mi:400m/400Mi", "c1": "", "c2": OWN}, {"pod": "150m/150Mi:300m/300Mi"}),
    "pod-up": ({"pod": "150m/150Mi:300m/300Mi", "c1": "", "c2": OWN}, {"pod": "200m/200Mi:400m/400Mi"}),
    "first-block": ({"c1": "50m/50Mi", "c2": OWN}, {"pod": "200m/200Mi:400m/400Mi"}),
    "containers-up": ({"c1": "50m/50Mi:100m/100Mi", "c2": OWN}, {"c1": "80m/80Mi:150m/150Mi"}),
    "containers-down": ({"c1": "80m/80Mi:150m/150Mi", "c2": OWN}, {"c1": "50m/50Mi:100m/100Mi"}),
    "requests-only": ({"c1": "50m/50Mi:100m/100Mi", "c2": OWN}, {"c1": "60m/40Mi:100m/100Mi"}),
    "every-way": (
        {"pod": "200m/200Mi:400m/400Mi", "c1": "50m/50Mi:100m/100Mi", "c2": OWN, "side": "10m/10Mi:20m/20Mi"},
        {
            "pod": "250m/150Mi:500m/300Mi",
            "c1": "40m/80Mi:80m/150Mi",
            "c2": "150m/50Mi:300m/100Mi",
            "side": "20m/5Mi:30m/10Mi",
        },
    ),
}
"""What a pod is, and what changes: the pod's figures, those of containers, each up and down, and all at once."""


@dataclass
class Change:
    before: Pod
    after: Pod

    async def undisturbed(self, root: Path) -> Machine:
        machine = Machine(root)
        machine.run(self.before)
        machine.writes.clear()
        await machine.resize(self.after)
        return machine

    async def finished_by_another(self, first: Machine, expected: Machine, when: str) -> None:
        """An agent that finds what `first` has left comes to the same end."""
        second = Machine(first.root)
        second.stopped = list(first.stopped)
        await second.resize(self.after)
        actuated = second.allocations.actuated("u1")
        assert actuated is not None
        assert second.files(self.after) == expected.files(self.after), when
        assert sorted(second.stopped) == sorted(expected.stopped), when
        running = [each.name for each in self.after.spec.all_containers if each.name not in second.stopped]
        assert not in_progress(figures_of(self.after), actuated, running), when


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest, policy: dict[str, str] | None) -> Change:
    before, changes = CHANGES[request.param]
    return Change(sized(policy=policy, **before), sized(policy=policy, **{**before, **changes}, generation=2))  # type: ignore[arg-type]


restarting_or_not = pytest.mark.parametrize("policy", [None, RESTARTS], ids=["live", "restart"])


@restarting_or_not
async def test_whenever_the_agent_dies_its_successor_ends_at_the_same_place(tmp_path: Path, change: Change) -> None:
    whole = await change.undisturbed(tmp_path / "undisturbed")
    kinds = {each.partition(" ")[0] for each in whole.writes}
    assert {"checkpoint", "rename"} <= kinds
    for point in range(len(whole.writes) + 1):
        first = Machine(tmp_path / str(point))
        first.run(change.before)
        first.writes.clear()
        first.dies_before = point
        with contextlib.suppress(Died):
            await first.resize(change.after)
        assert first.writes == whole.writes[:point]
        await change.finished_by_another(first, whole, f"died at {point} of {whole.writes}")


@restarting_or_not
async def test_whatever_write_fails_the_same_agent_or_another_ends_at_the_same_place(
    tmp_path: Path, change: Change
) -> None:
    whole = await change.undisturbed(tmp_path / "undisturbed")
    for point, write in enumerate(whole.writes):
        for dies in (False, True):
            first = Machine(tmp_path / f"{point}-{dies}", fails_at=point)
            first.run(change.before)
            first.begin_counting()
            with contextlib.suppress(ActuationFailed, OSError):
                await first.resize(change.after)
            assert first.fails_at is None, f"{write} did not fail"
            if not dies:
                await first.resize(change.after)
            await change.finished_by_another(first, whole, f"{write} failed, died: {dies}")


async def test_memory_below_usage_writes_nothing_and_a_way_back_opens(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(BEFORE, usage=120 << 20)
    before = machine.files(BEFORE)
    with pytest.raises(ActuationFailed, match="below current usage"):
        await machine.resize(AFTER)
    assert machine.files(BEFORE) == before
    await machine.resize(sized(pod="200m/200Mi:500m/400Mi", c1="50m/50Mi:100m/100Mi", c2="100m/100Mi:200m/200Mi"))
    assert machine.files(BEFORE)["podu1/cpu.max"] == "50000 100000"


async def test_w3_a_pure_pod_level_decrease_is_checked_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(BEFORE, usage=250 << 20)
    shrunk = sized(pod="200m/200Mi:400m/210Mi", c1="50m/50Mi:100m/100Mi", c2="100m/100Mi:200m/200Mi")
    with pytest.raises(ActuationFailed, match="set pod memory limit"):
        await machine.resize(shrunk)


LATE = {
    "more in use": (str(150 << 20), f"below current usage ({150 << 20})"),
    "usage unknown": ("", "while its usage is unknown"),
}


@pytest.mark.parametrize("who", ["c2", "podu1"])
@pytest.mark.parametrize("late", LATE)
async def test_memory_is_checked_again_right_before_each_limit_goes_down(tmp_path: Path, who: str, late: str) -> None:
    """The usage changes once `memory.high` is written, after the first check."""
    machine = Machine(tmp_path)
    machine.run(BEFORE)
    content, problem = LATE[late]

    def observer(kind: str, path: Path, written: str) -> None:
        if path.name == "memory.high" and path.parent.name == who:
            (path.parent / "memory.current").write_text(content)

    machine.cgroups = Cgroups(tmp_path / "cgroup", observer)
    shrunk = sized(pod="200m/120Mi:400m/120Mi", c1="50m/50Mi:100m/100Mi", c2="100m/70Mi:200m/70Mi", generation=2)
    what, limit = {"c2": ('container "c2"', 70 << 20), "podu1": ("pod", 120 << 20)}[who]
    with pytest.raises(ActuationFailed) as failed:
        await machine.resize(shrunk)
    assert str(failed.value) == f"attempting to set {what} memory limit ({limit}) {problem}"
    files = machine.files(BEFORE)
    assert files[f"{who}/memory.high"] == "max" and int(files[f"{who}/memory.max"]) > limit


async def test_w10_what_cannot_be_remembered_is_not_accepted(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(BEFORE)

    def full(kind: str, path: Path, content: str) -> None:
        raise OSError("no space left")

    machine.allocations._allocated._observer = full
    with pytest.raises(OSError, match="no space"):
        decide(machine.allocations, AFTER, [], ROOM)
    held = machine.allocations.allocated("u1")
    assert held is not None and held.applied_to(AFTER).spec == BEFORE.spec


def test_a_lost_record_is_read_back_from_the_cgroups(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(BEFORE)
    found = actuated_from_cgroups(machine.cgroups, AFTER)
    assert found.pod.memory_limit == 400 << 20 and found.containers["c1"].cpu_limit == 100
    assert in_progress(figures_of(AFTER), found, ["c1", "c2"])
    assert not in_progress(figures_of(BEFORE), actuated_from_cgroups(machine.cgroups, BEFORE), ["c1", "c2"])


def test_pods_are_taken_in_by_what_they_have(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    small = NodeFacts({"cpu": Quantity.parse("300m"), "memory": Quantity.parse("8Gi"), "pods": Quantity.of(2)})
    pod = sized(c1="200m")
    assert machine.allocations.admit(pod, [], small) is None
    refused = machine.allocations.admit(sized("u2", c1="200m"), [pod], small)
    assert refused is not None and refused.reason == "OutOfcpu"
    assert machine.allocations.admit(sized(c1="900m"), [], small) is None
    assert isinstance(decide(machine.allocations, sized(c1="300m"), [], small), Accepted)
    second = sized("u3", c1="")
    assert machine.allocations.admit(second, [pod], small) is None
    third = machine.allocations.admit(sized("u4", c1=""), [pod, second], small)
    assert third is not None and third.reason == "OutOfpods"


def test_w15_without_cgroup_v2_pods_with_resources_of_their_own_are_refused(tmp_path: Path) -> None:
    refused = Machine(tmp_path).allocations.admit(sized(pod="100m", c1=""), [], NodeFacts({}, cgroup_v2=False))
    assert refused is not None and refused.reason == "PodLevelResourcesNotSupported"
