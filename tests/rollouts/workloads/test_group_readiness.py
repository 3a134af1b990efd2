"""Groups counted by their pods, and what a batch waits for."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rollouts.workloads.group_readiness import (
    count_without_node,
    first_obstacle,
    groups_of,
    readiness_text,
    ready_groups,
)
from kohort.rules import group_labels


def pod(group: int, worker: int, *, ready: bool = True, placed: bool = True, deleting: bool = False) -> Pod:
    name = f"llm-{group}" if worker == 0 else f"llm-{group}-{worker}"
    place = {group_labels.GROUP_INDEX: str(group), group_labels.WORKER_INDEX: str(worker)}
    labels = {group_labels.NAME: "llm", **place}
    metadata: JsonObject = {"name": name, "labels": labels}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": "Ready", "status": "True" if ready else "False"},
        {"type": "PodScheduled", "status": "True" if placed else "False", "message": "" if placed else "no room"},
    ]
    status = {"phase": "Running" if placed else "Pending", "conditions": conditions}
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


STRANGER = msgspec.convert({"metadata": {"name": "other", "labels": {}}}, Pod)
IMITATION = msgspec.convert({"metadata": {"name": "other-1", "labels": pod(0, 1).metadata.labels}}, Pod)


def test_pods_belong_to_the_group_of_their_label() -> None:
    pods = [pod(1, 0), pod(0, 0), pod(0, 1), STRANGER, pod(2, 0, deleting=True)]
    assert {index: len(members) for index, members in groups_of(pods).items()} == {0: 2, 1: 1}


@pytest.mark.parametrize(
    ("pods", "ready"),
    [
        ([], 0),
        ([pod(0, 0), pod(0, 1)], 1),
        ([pod(0, 0)], 0),
        ([pod(0, 0), pod(0, 1, ready=False)], 0),
        ([pod(0, 0), pod(0, 1, deleting=True)], 0),
        ([pod(0, 0), pod(0, 1), pod(1, 0), pod(1, 1)], 2),
        ([pod(0, 0), pod(1, 1)], 0),
        ([pod(0, 0), pod(0, 1), STRANGER], 1),
        ([pod(0, 0), pod(0, 1), IMITATION], 1),
        ([pod(0, 0), IMITATION], 0),
    ],
)
def test_a_group_is_ready_when_all_of_its_pods_are_there_and_ready(pods: list[Pod], ready: int) -> None:
    assert ready_groups(pods, size=2) == ready


@pytest.mark.parametrize(
    ("pods", "obstacle"),
    [
        ([], ""),
        ([pod(0, 0)], ""),
        ([pod(0, 0), pod(0, 1, ready=False)], "llm-0-1 is Running, not ready"),
        ([pod(1, 0, ready=False), pod(0, 1, ready=False)], "llm-0-1 is Running, not ready"),
        ([pod(0, 2, ready=False), pod(0, 1, placed=False, ready=False)], "llm-0-1 is Pending: no room"),
        ([pod(10, 0, ready=False), pod(9, 0, ready=False)], "llm-9 is Running, not ready"),
    ],
)
def test_the_first_pod_in_the_order_of_groups_is_named(pods: list[Pod], obstacle: str) -> None:
    assert first_obstacle(pods) == obstacle


@pytest.mark.parametrize(
    ("ready", "wanted", "pods", "unit", "text"),
    [
        (1, 1, [pod(0, 0), pod(0, 1)], "groups", "1/1 groups ready (2 pods)"),
        (0, 1, [pod(0, 0)], "groups", "0/1 groups ready (1 pod)"),
        (0, 1, [pod(0, 0, ready=False)], "groups", "0/1 groups ready (1 pod), llm-0 is Running, not ready"),
        (1, 1, [pod(0, 0, ready=False)], "groups", "1/1 groups ready (1 pod)"),
        (0, 2, [pod(0, 0, ready=False)], "pods", "0/2 pods ready, llm-0 is Running, not ready"),
        (0, 1, [pod(0, 0, deleting=True)], "groups", "0/1 groups ready (0 pods)"),
    ],
)
def test_how_far_a_batch_is(ready: int, wanted: int, pods: list[Pod], unit: str, text: str) -> None:
    assert readiness_text(ready, wanted, pods, unit) == text


def test_a_group_finds_no_place_when_one_of_its_pods_does_not() -> None:
    assert count_without_node([]) == 0
    assert count_without_node([pod(0, 0), pod(0, 1)]) == 0
    waiting = [pod(0, 1, placed=False), pod(0, 2, placed=False), pod(2, 0, placed=False), pod(1, 0)]
    assert count_without_node(waiting) == 2
    assert count_without_node([pod(0, 0, placed=False, deleting=True)]) == 0


@given(st.lists(st.builds(pod, st.integers(0, 3), st.integers(0, 2), ready=st.booleans(), placed=st.booleans())))
def test_more_ready_pods_never_make_fewer_groups_ready(pods: list[Pod]) -> None:
    """Pods of one name are one pod: the last of them."""
    named = list({one.metadata.name: one for one in pods}.values())
    found = ready_groups(named, size=3)
    assert found <= len(groups_of(named))
    assert (first_obstacle(named) == "") <= (found == sum(len(each) == 3 for each in groups_of(named).values()))
    for index, one in enumerate(named):
        labels = one.metadata.labels
        better = pod(int(labels[group_labels.GROUP_INDEX]), int(labels[group_labels.WORKER_INDEX]))
        assert ready_groups([*named[:index], better, *named[index + 1 :]], size=3) >= found


def test_a_group_that_a_quota_holds_back_has_no_node() -> None:
    """Kueue holds pods by scheduling gates."""
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    held = msgspec.convert({**msgspec.to_builtins(pod(0, 0)), "status": {"conditions": [gated]}}, Pod)
    assert count_without_node([held, pod(1, 0)]) == 1
