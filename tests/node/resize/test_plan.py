"""The order of steps and who restarts: the tables of the specification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.resizing import sized

from kohort.node.resize.plan import (
    RecordContainer,
    RecordPod,
    Step,
    StopContainer,
    WriteContainer,
    WritePod,
    after_step,
    changes,
    direction,
    in_progress,
    joined_updates,
    plan_resize,
)
from kohort.node.resource_views import Actuated, Figures, figures_of
from kohort.objects.pods import Pod
from kohort.resources import pod_cgroup

MI = 1 << 20


def pushed(pod: Pod) -> Actuated:
    figures = figures_of(pod)
    return Actuated(figures.pod, figures.containers)


def steps(before: Pod, after: Pod, running: tuple[str, ...] | None = None) -> list[str]:
    """The plan in words: `pod memory.max 250Mi`, `c1 restart`."""
    names = running if running is not None else tuple(each.name for each in after.spec.all_containers)
    plan = plan_resize(after, figures_of(after), pushed(before), pod_cgroup(before), names)
    found = []
    for step in plan:
        match step:
            case StopContainer(name):
                found.append(f"{name} restart")
            case WritePod(file, content):
                found.append(f"pod {file} {_short(file, content)}")
            case WriteContainer(name, file, content):
                found.append(f"{name} {file} {_short(file, content)}")
    return found


def _short(file: str, content: str) -> str:
    return f"{int(content) // MI}Mi" if file == "memory.max" and content != "max" else content


SEED = {"cpu": "NotRequired", "memory": "RestartContainer"}
C2 = "50m/50Mi:100m/100Mi"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"pod": "100m/100Mi:300m/200Mi"}, ["pod cpu.max 30000 100000", "c1 cpu.max 30000 100000", "c1 cpu.weight 40"]),
        ({"pod": "100m/100Mi:200m/300Mi"}, ["c1 restart", "pod memory.max 300Mi"]),
        ({"pod": "100m/100Mi:200m/150Mi"}, ["c1 restart", "pod memory.max 150Mi"]),
        ({"pod": "150m/100Mi:200m/200Mi"}, ["pod cpu.weight 24"]),
        ({"pod": "100m/150Mi:200m/200Mi"}, []),
        ({"c2": "50m/50Mi:100m/120Mi"}, ["c2 restart"]),
        ({"c2": "50m/50Mi:150m/100Mi"}, ["c2 cpu.max 15000 100000", "c2 cpu.weight 11"]),
        (
            {"pod": "100m/100Mi:200m/300Mi", "c2": "50m/50Mi:150m/100Mi"},
            ["c1 restart", "pod memory.max 300Mi", "c2 cpu.max 15000 100000", "c2 cpu.weight 11"],
        ),
        ({"c1": "-/-:200m/200Mi"}, []),
    ],
)
def test_the_example_of_the_proposal(change: dict[str, str], expected: list[str]) -> None:
    start = {"pod": "100m/100Mi:200m/200Mi", "c1": "", "c2": C2}
    assert steps(sized(policy=SEED, **start), sized(policy=SEED, **{**start, **change})) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            {"pod": "-:-/300Mi", "c1": "-:-/100Mi", "c2": "-:-/200Mi"},
            {"pod": "-:-/250Mi", "c1": "-:-/150Mi", "c2": "-:-/100Mi"},
            ["c2 memory.max 100Mi", "pod memory.max 250Mi", "c1 memory.max 150Mi"],
        ),
        (
            {"pod": "-:-/300Mi", "c1": "-:-/100Mi", "c2": "-:-/200Mi"},
            {"pod": "-:-/400Mi", "c1": "-:-/300Mi", "c2": "-:-/100Mi"},
            ["pod memory.max 400Mi", "c2 memory.max 100Mi", "c1 memory.max 300Mi"],
        ),
        (
            {"c1": "-:-/100Mi", "c2": ""},
            {"pod": "-:-/400Mi", "c1": "-:-/300Mi", "c2": "-:-/100Mi"},
            ["c2 memory.max 100Mi", "pod memory.max 400Mi", "c1 memory.max 300Mi"],
        ),
        (
            {"pod": "100m:300m", "c1": "50m:100m"},
            {"pod": "200m:200m", "c1": "60m:100m"},
            ["pod cpu.weight 29", "pod cpu.max 20000 100000", "c1 cpu.max 10000 100000", "c1 cpu.weight 12"],
        ),
    ],
)
def test_containers_shrink_before_the_pod_and_grow_after_it(
    before: dict[str, str], after: dict[str, str], expected: list[str]
) -> None:
    assert steps(sized(**before), sized(**after)) == expected  # type: ignore[arg-type]


def test_memory_comes_before_cpu() -> None:
    before, after = sized(c1="100m/100Mi:100m/100Mi"), sized(c1="200m/50Mi:200m/50Mi")
    assert steps(before, after) == [
        "c1 memory.max 50Mi",
        "pod memory.max 50Mi",
        "pod cpu.max 20000 100000",
        "pod cpu.weight 29",
        "c1 cpu.max 20000 100000",
        "c1 cpu.weight 29",
    ]


def test_a_pod_level_block_equal_to_the_sum_writes_nothing_to_the_pod() -> None:
    before = sized(c1="100m/100Mi:200m/200Mi")
    after = sized(pod="100m/100Mi:200m/200Mi", c1="100m/100Mi:200m/200Mi")
    assert steps(before, after) == []


@pytest.mark.parametrize("policy", [None, {"cpu": "NotRequired", "memory": "NotRequired"}])
def test_a_request_alone_is_recorded_and_restarts_only_by_policy(policy: dict[str, str] | None) -> None:
    before, after = sized(c1="100m/100Mi:200m/200Mi", policy=policy), sized(c1="100m/90Mi:200m/200Mi", policy=policy)
    plan = plan_resize(after, figures_of(after), pushed(before), pod_cgroup(before), ["c1"])
    assert [type(step) for step in plan] == [RecordContainer, RecordPod]
    both = {"cpu": "RestartContainer", "memory": "RestartContainer"}
    assert steps(sized(c1="100m/100Mi:200m/200Mi", policy=both), sized(c1="100m/90Mi:200m/200Mi", policy=both)) == [
        "c1 restart"
    ]


def test_containers_that_do_not_run_are_left_to_their_start() -> None:
    before, after = sized(c1="-:-/100Mi", c2="-:-/100Mi"), sized(c1="-:-/150Mi", c2="-:-/150Mi")
    assert steps(before, after, ("c2",)) == ["pod memory.max 300Mi", "c2 memory.max 150Mi"]


def test_w4_a_first_limit_is_a_decrease() -> None:
    assert direction("memory", Figures(), Figures(memory_limit=1)) == -1
    assert direction("cpu", Figures(cpu_limit=1), Figures()) == 1


amount = st.sampled_from(["-", "10m", "50m", "100m", "300m"])
size = st.sampled_from(["-", "32Mi", "64Mi", "128Mi"])
text = st.builds("{}/{}:{}/{}".format, amount, size, amount, size)
pods = st.builds(lambda pod, c1, c2: sized(pod=pod, c1=c1, c2=c2), st.none() | text, text, text)


@given(pods, pods, st.integers(0, 30))
def test_a_plan_that_was_cut_short_is_finished_by_the_next_one(before: Pod, after: Pod, cut: int) -> None:
    """Whatever was done is not undone, and the record ends at the target."""
    target, actuated, names = figures_of(after), pushed(before), ["c1", "c2"]
    for step in plan_resize(after, target, actuated, pod_cgroup(before), names)[:cut]:
        actuated = after_step(actuated, step)
    for step in plan_resize(after, target, actuated, pod_cgroup(before), names):
        actuated = after_step(actuated, step)
    assert not in_progress(target, actuated, names)


def plans(before: Pod, after: Pod) -> list[list[Step]]:
    """For cgroups that the agent writes, and for a runtime that takes cpu and memory together."""
    target, actuated, names = figures_of(after), pushed(before), ["c1", "c2"]
    plan = plan_resize(after, target, actuated, pod_cgroup(before), names)
    return [plan, joined_updates(plan, changes(after, target, actuated, names))]


@given(pods, pods)
def test_a_pod_is_never_below_what_a_container_was_just_given(before: Pod, after: Pod) -> None:
    """When a container grows, the pod's own limit has already its final value; when the pod shrinks, its containers
    that shrink have."""
    old, new = pushed(before).containers, figures_of(after).containers
    for plan in plans(before, after):
        for file in ("memory.max", "cpu.max"):
            resource = file.partition(".")[0]
            pod = [index for index, step in enumerate(plan) if isinstance(step, WritePod) and step.file == file]
            for index, step in enumerate(plan):
                if isinstance(step, WriteContainer) and step.file == file and pod:
                    way = direction(resource, old[step.container], new[step.container])
                    lowered = direction(resource, pushed(before).pod, figures_of(after).pod) < 0
                    assert way <= 0 or index > pod[0]
                    assert not (way < 0 and lowered) or index < pod[0]


@given(pods, pods)
def test_a_runtime_is_asked_once_for_each_container_whose_figures_go_the_same_way(before: Pod, after: Pod) -> None:
    plan, joined = plans(before, after)
    assert sorted(map(repr, plan)) == sorted(map(repr, joined)), "nothing is lost and nothing is added"
    for change in changes(after, figures_of(after), pushed(before), ["c1", "c2"]):
        name = change.container.name
        own = [index for index, step in enumerate(joined) if getattr(step, "container", "") == name]
        ways = {direction(resource, change.before, change.after) < 0 for resource in ("memory", "cpu")}
        if len(ways) == 1 and own:
            assert own == list(range(own[0], own[-1] + 1))
            kinds = [isinstance(joined[index], RecordContainer) for index in own]
            assert kinds == sorted(kinds), "what is recorded has been written"


@given(pods)
def test_nothing_to_do_is_nothing_done(pod: Pod) -> None:
    assert plan_resize(pod, figures_of(pod), pushed(pod), pod_cgroup(pod), ["c1", "c2"]) == []
