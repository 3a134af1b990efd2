"""Every row of the checklist that is a resize: the cgroup files hold what the formulas say, exactly those restart whose
policy asks for it, and the way back leads to where it began."""

from pathlib import Path

import pytest
from tests.node.fake_cgroups import Machine
from tests.node.resizing import sized
from tests.node.scenarios.kernelvalues import expected_files
from tests.node.scenarios.rows import (
    NEVER,
    OTHERS,
    SEVERAL,
    THREE,
    Row,
    burstable_rows,
    guaranteed_rows,
    pod_level_rows,
    three,
)

from kohort.node.pod_status import pod_resources
from kohort.node.resize.actuation import ActuationFailed, actuated_from_cgroups
from kohort.node.resize.plan import changes
from kohort.node.resource_views import figures_of
from kohort.objects.pods import Pod

ROWS = [*guaranteed_rows(), *SEVERAL, *burstable_rows(), *OTHERS, *pod_level_rows()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
async def test_row(tmp_path: Path, row: Row) -> None:
    machine = Machine(tmp_path)
    start = row.pod(row.before, 1)
    machine.run(start)
    assert machine.files(start) == expected_files(start)
    for generation, sizes in enumerate((row.after, row.before) if row.back else (row.after,), 2):
        pod = row.pod(sizes, generation)
        await machine.resize(pod)
        assert sorted(machine.start_again(pod)) == sorted(row.restarts)
        assert machine.settled(pod)
        assert machine.files(pod) == expected_files(pod)
        reported = pod_resources(pod, figures_of(pod), actuated_from_cgroups(machine.cgroups, pod))
        assert reported == pod_resources(pod, figures_of(pod), None), "what the kernel holds is what was asked for"


async def writes(tmp_path: Path, before: Pod, after: Pod, file: str) -> list[str]:
    machine = Machine(tmp_path)
    machine.run(before)
    machine.writes.clear()
    await machine.resize(after)
    return [each.partition("/")[0] for each in machine.writes if f"/{file} " in each]


@pytest.mark.parametrize(
    ("after", "order"),
    [
        pytest.param(three((25, 40), (25, 40), (15, 30)), ["podu1", "c3", "c1", "c2"], id="T25-order"),
        pytest.param(three((25, 40), (15, 30), (15, 30)), ["c2", "c3", "podu1", "c1"], id="T26-order"),
    ],
)
async def test_the_order_follows_the_direction(tmp_path: Path, after: dict[str, str], order: list[str]) -> None:
    start, end = sized(qos="Guaranteed", **THREE), sized(qos="Guaranteed", **after)  # type: ignore[arg-type]
    assert await writes(tmp_path, start, end, "memory.max") == order


def test_t57_what_the_kernel_cannot_tell_apart_is_reported_as_asked_for() -> None:
    before, after = sized(c1="2m:10m"), sized(c1="1m:5m")
    assert expected_files(before) == expected_files(after)
    assert pod_resources(after, figures_of(after), figures_of(after))["resources"] == {
        "requests": {"cpu": "1m"},
        "limits": {"cpu": "5m"},
    }


@pytest.mark.parametrize(
    ("first", "fits", "below"),
    [
        pytest.param(
            {"c1": "20m/35Mi:30m/35Mi"}, {"c1": "20m/30Mi:30m/30Mi"}, {"c1": "20m/10Ki:30m/10Ki"}, id="T69-71"
        ),
        pytest.param(
            {"c1": "", "pod": "-:-/35Mi"}, {"c1": "", "pod": "-:-/30Mi"}, {"c1": "", "pod": "-:-/10Ki"}, id="P33-35"
        ),
    ],
)
async def test_memory_in_use_is_not_taken_away_and_the_way_back_is_open(
    tmp_path: Path, first: dict[str, str], fits: dict[str, str], below: dict[str, str]
) -> None:
    machine = Machine(tmp_path)
    start, smaller, tiny = (sized(policy=NEVER, **each) for each in (first, fits, below))  # type: ignore[arg-type]
    machine.run(start, usage=1 << 20)
    await machine.resize(smaller)
    assert machine.settled(smaller)
    held = machine.files(smaller)
    with pytest.raises(ActuationFailed, match="below current usage"):
        await machine.resize(tiny)
    assert machine.files(smaller) == held and not machine.settled(tiny)
    await machine.resize(start)
    assert machine.settled(start) and machine.files(start) == expected_files(start)


async def test_t72_a_running_init_container_is_resized_and_others_wait_for_their_start(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    before, after = (sized(init=each, c1="10m:20m") for each in ("20m:30m", "40m:60m"))
    machine.run(before)
    await machine.resize(after, ["init"])
    assert machine.settled(after, ["init"])
    assert machine.files(after)["init/cpu.max"] == "6000 100000"
    await machine.resize(before, ["init"])
    assert machine.files(before) == expected_files(before) and machine.stopped == []


def test_p1_the_sum_of_containers_is_reported_for_pods_without_a_block_of_their_own() -> None:
    pod = sized(c1="20m/35Mi:20m/35Mi", side="5m/5Mi:5m/5Mi")
    assert pod_resources(pod, figures_of(pod), None)["allocatedResources"] == {"cpu": "25m", "memory": "40Mi"}


def test_p37_a_pod_that_does_not_run_reports_what_it_will_get() -> None:
    pod = sized(pod="100m/100Mi:200m/200Mi", c1="50m/50Mi")
    found = pod_resources(pod, figures_of(pod), None)
    assert found["resources"] == {
        "requests": {"cpu": "100m", "memory": "100Mi"},
        "limits": {"cpu": "200m", "memory": "200Mi"},
    }
    assert found["allocatedResources"] == {"cpu": "100m", "memory": "100Mi"}


def test_t19_one_restart_is_enough_when_both_change() -> None:
    row = next(each for each in ROWS if each.id == "T19")
    start, end = row.pod(row.before, 1), row.pod(row.after, 2)
    figures = figures_of(start)
    from kohort.node.resource_views import Actuated

    found = changes(end, figures_of(end), Actuated(figures.pod, figures.containers), ["c1", "side"])
    assert [(each.container.name, each.restart) for each in found] == [("c1", True)]
