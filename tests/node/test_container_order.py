"""Which container starts next, and what a pod is when they have ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import pod as build

from kohort.node.container_order import (
    ContainerRun,
    next_starts,
    pause_after_end,
    phase,
    restarts_all,
    uninitialized,
    will_restart,
)
from kohort.node.runtimes.interface import Instance
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodePod, NodePodSpec


def spec(policy: str = "Always", inits: list[JsonObject] | None = None, **container: object) -> NodePodSpec:
    document = build("p").containers({"name": "c", **container}).but("spec.restartPolicy", policy)
    return document.but("spec.initContainers", inits or []).as_view(NodePod).spec


def ended(name: str, code: int) -> ContainerRun:
    return ContainerRun(name, 0, Instance(name, 1, 1, "t", "t", code), begun_at=0.0)


def running(name: str, *, started: bool = True) -> ContainerRun:
    return ContainerRun(name, 0, Instance(name, 1, 1, "t"), started=started)


@pytest.mark.parametrize(
    ("policy", "code", "again", "then"),
    [
        ("Always", 0, True, "Running"),
        ("Always", 1, True, "Running"),
        ("OnFailure", 0, False, "Succeeded"),
        ("OnFailure", 1, True, "Running"),
        ("Never", 0, False, "Succeeded"),
        ("Never", 1, False, "Failed"),
    ],
)
def test_who_starts_again(policy: str, code: int, again: bool, then: str) -> None:
    runs = {"c": ended("c", code)}
    assert bool(next_starts(spec(policy), runs, 0.0).starts) == again
    assert phase(spec(policy), runs) == then


def test_rules_of_a_container_come_before_the_pods_policy() -> None:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    found = spec("Never", restartPolicy="Never", restartPolicyRules=rules)
    assert found.containers is not None
    assert will_restart(found, found.containers[0], ended("c", 42))
    assert not will_restart(found, found.containers[0], ended("c", 1))


ALL = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]


def test_the_first_rule_that_applies_decides() -> None:
    restart = {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0]}}
    for rules, source in ((ALL, True), ([restart, *ALL], False), ([*ALL, restart], True)):
        found = spec("Never", restartPolicy="Never", restartPolicyRules=rules)
        assert (restarts_all(found, {"c": ended("c", 42)}) is not None) == source
    assert restarts_all(spec(restartPolicyRules=ALL), {"c": ended("c", 1)}) is None
    assert restarts_all(spec(restartPolicyRules=ALL), {"c": running("c")}) is None


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_pod_that_is_restarted_as_a_whole_begins_with_its_init_containers(policy: str) -> None:
    found = spec(policy, [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], restartPolicyRules=ALL)
    runs = {"i": ended("i", 0), "s": ended("s", 137), "c": ended("c", 42)}
    assert restarts_all(found, runs) is runs["c"]
    for run in runs.values():
        run.restarts_with_all = True
    assert restarts_all(found, runs) is None, "once is enough"
    assert phase(found, runs) == "Running" and uninitialized(found, runs) == [], "it was initialized before"
    for name in ("i", "s", "c"):
        assert [each.name for each in next_starts(found, runs, 0.0).starts] == [name]
        runs[name].begin(Instance(name, 1, 1, "t"), 1, 0.0)
        runs[name].started = True
        if name == "i":
            assert next_starts(found, runs, 0.0).starts == [], "an init container must end first"
            runs[name].instance = Instance(name, 1, 1, "t", "t", 0)
    assert next_starts(found, runs, 0.0).starts == []


def test_an_init_container_follows_its_own_rules() -> None:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [7]}}]
    found = spec("Never", [{"name": "i", "restartPolicy": "Never", "restartPolicyRules": rules}])
    for code, again, then in ((7, ["i"], "Pending"), (8, [], "Failed")):
        runs = {"i": ended("i", code), "c": ContainerRun("c")}
        assert [each.name for each in next_starts(found, runs, 0.0).starts] == again
        assert phase(found, runs) == then


def test_a_container_stopped_for_a_resize_starts_whatever_the_policy() -> None:
    runs = {"c": ended("c", 0)}
    assert next_starts(spec("OnFailure"), runs, 0.0, {"c"}).starts
    assert phase(spec("OnFailure"), runs, {"c"}) == "Running"


def test_a_sidecar_holds_up_the_others_until_it_has_started() -> None:
    one = spec(inits=[{"name": "s", "restartPolicy": "Always"}])
    assert next_starts(one, {"s": running("s", started=False), "c": ContainerRun("c")}, 0.0).starts == []
    assert [each.name for each in next_starts(one, {"s": running("s"), "c": ContainerRun("c")}, 0.0).starts] == ["c"]


def test_a_sidecar_does_not_keep_a_pod_alive() -> None:
    one = spec("Never", [{"name": "s", "restartPolicy": "Always"}])
    assert phase(one, {"s": running("s"), "c": ended("c", 0)}) == "Succeeded"


@given(st.lists(st.integers(0, 2000), max_size=30))
def test_waits_grow_to_five_minutes_and_are_forgiven(lengths: list[int]) -> None:
    run, now = ContainerRun("c"), 0.0
    before = 0.0
    for length in lengths:
        run.begun_at = now
        now += length
        delay = pause_after_end(run, now)
        assert 0 <= delay <= 300
        assert delay == 0.0 if length > 600 else delay >= min(before, 300)
        before = delay
        now += delay


def restart(run: ContainerRun, now: float, *, memory: str = "1Mi", resized: bool = False) -> float:
    """How long a container that has ended waits, from now on."""
    one = spec(image="host", resources={"limits": {"memory": memory}})
    found = next_starts(one, {"c": run}, now, ["c"] if resized else [])
    assert bool(found.starts) == (found.wait is None)
    return found.wait or 0.0


def end(run: ContainerRun, begun_at: float, ended_at: float) -> ContainerRun:
    run.begin(Instance("c", 1, 1, "t", "t", 1), run.attempt + 1, begun_at)
    run.ended_at = ended_at
    return run


def test_a_pause_counts_from_the_end_of_a_container() -> None:
    run = end(ContainerRun("c"), 0, 5)
    assert restart(run, 8) == 0
    assert restart(end(run, 8, 9), 12) == 7, "10 s from 9 on"
    assert restart(end(run, 19, 20), 50) == 0, "20 s have passed, while the pod waited for something else"


def test_other_resources_or_another_image_begin_afresh() -> None:
    run = end(ContainerRun("c"), 0, 1)
    for begun_at in range(1, 4):
        restart(run, begun_at)
        end(run, begun_at, begun_at + 1)
    assert restart(run, 5) > 30
    assert restart(run, 5, memory="2Mi") == 0, "also while it waits"
    assert restart(end(run, 5, 6), 6, memory="2Mi") == 10
    assert [each.name for each in next_starts(spec(image="other"), {"c": run}, 6).starts] == ["c"]


def test_a_container_that_is_stopped_for_a_resize_waits_only_if_it_has_just_been_started() -> None:
    """By a resize of its pod as a whole: its own resources stay, and so do the ends that were counted."""
    run = end(ContainerRun("c"), 0, 1)
    assert restart(run, 1, resized=True) == 0
    assert restart(end(run, 1, 2), 2) == 0, "the stop for the first resize does not count"
    assert restart(end(run, 2, 60), 60, resized=True) == 0
    assert restart(end(run, 60, 61), 61, resized=True) == 19
