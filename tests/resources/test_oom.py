"""Who is killed first when memory runs out."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.resources import oom_score_adj

GI = 2**30


def burstable(*memory: int | str, of_pod: int | None = None) -> Pod:
    """Containers by memory request in bytes; text marks a sidecar; 0 asks for nothing."""
    spec: JsonObject = {"containers": [], "initContainers": []}
    for index, amount in enumerate(memory):
        requests = {"memory": str(amount)} if int(amount) else {}
        entry: JsonObject = {"name": f"c{index}", "resources": {"requests": requests}}
        if isinstance(amount, str):
            spec["initContainers"].append(entry | {"restartPolicy": "Always"})
        else:
            spec["containers"].append(entry)
    if of_pod is not None:
        spec["resources"] = {"requests": {"memory": str(of_pod)}}
    return msgspec.convert({"spec": spec, "status": {"qosClass": "Burstable"}}, Pod)


def scores(pod: Pod, capacity: int) -> list[int]:
    ordered = sorted(pod.spec.all_containers, key=lambda container: container.name)
    return [oom_score_adj(pod, container, capacity) for container in ordered]


@pytest.mark.parametrize(
    ("capacity", "pod", "expected"),
    [
        (4_000_000_000, burstable(5), [999]),
        (4_000_000_000, burstable(0, 0, of_pod=2_000_000_000), [750, 750]),
        (4_000_000_000, burstable(10**9, 10**9, of_pod=2 * 10**9), [750, 750]),
        (4_000_000_000, burstable(10**9, 0, of_pod=2 * 10**9), [625, 875]),
        (4_000_000_000, burstable(0, "0", of_pod=2 * 10**9), [750, 750]),
        (4_000_000_000, burstable(10**9, 5 * 10**8, "200000000", of_pod=2 * 10**9), [725, 850, 850]),
        (8_000_000_000, burstable("4000000000", 10**9), [500, 875]),
        (8_000_000_000, burstable(8_000_000_000 - 1), [3]),
        (16 * GI, burstable(GI), [938]),
        (16 * GI, burstable(GI, GI, of_pod=4 * GI), [875, 875]),
    ],
)
def test_the_more_memory_requested_the_later_killed(capacity: int, pod: Pod, expected: list[int]) -> None:
    assert scores(pod, capacity) == expected


@pytest.mark.parametrize(("quality", "expected"), [("Guaranteed", -997), ("BestEffort", 1000)])
def test_the_outer_classes_have_fixed_scores(quality: str, expected: int) -> None:
    pod = msgspec.convert({"spec": {"containers": [{"name": "c"}]}, "status": {"qosClass": quality}}, Pod)
    assert scores(pod, GI) == [expected]


def test_node_critical_pods_are_protected() -> None:
    spec: JsonObject = {
        "containers": [{"name": "c"}],
        "priority": 2_000_001_000,
        "priorityClassName": "system-node-critical",
    }
    assert scores(msgspec.convert({"spec": spec}, Pod), GI) == [-997]
    spec["priorityClassName"] = "system-cluster-critical"
    assert scores(msgspec.convert({"spec": spec}, Pod), GI) == [1000]


@given(st.lists(st.integers(0, 2**34), min_size=1, max_size=4), st.none() | st.integers(0, 2**36))
def test_a_burstable_container_stays_between_the_other_classes(memory: list[int], of_pod: int | None) -> None:
    assert all(3 <= score <= 999 for score in scores(burstable(*memory, of_pod=of_pod), 2**35))
