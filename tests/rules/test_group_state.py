"""When a group is ready, and when it is updated."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_state import (
    ABSENT,
    GroupsInOrder,
    GroupState,
    group_size,
    group_state,
    has_revision,
    leader_is_updated,
    placement_of,
    pod_is_ready,
    pods_are_ready,
)

REVISION = "r2"


def pod(
    name: str = "llm-1",
    *,
    worker: str = "0",
    phase: str = "Running",
    ready: bool = True,
    deleting: bool = False,
    revision: str = REVISION,
    annotations: JsonObject | None = None,
) -> Pod:
    metadata: JsonObject = {
        "name": name,
        "uid": f"uid of {name}",
        "labels": {
            group_labels.GROUP_INDEX: "1",
            group_labels.WORKER_INDEX: worker,
            group_labels.REVISION: revision,
        },
        "annotations": annotations or {},
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase, "conditions": [condition]}}, Pod)


def workers(
    *, available: int = 3, revision: str = REVISION, owner: str = "uid of llm-1", rolled: bool = True
) -> GroupStatefulSet:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "llm-1", "uid": owner, "controller": True}
    document = {
        "metadata": {
            "name": "llm-1",
            "labels": {group_labels.REVISION: revision},
            "ownerReferences": [reference] if owner else [],
        },
        "spec": {"replicas": 3},
        "status": {
            "availableReplicas": available,
            "currentRevision": "b" if rolled else "a",
            "updateRevision": "b",
        },
    }
    return msgspec.convert(document, GroupStatefulSet)


def state(leader: Pod, of_workers: GroupStatefulSet | None, size: int = 4) -> GroupState | None:
    return group_state(leader, of_workers, REVISION, size, {})


@pytest.mark.parametrize(
    ("changes", "ready"),
    [
        ({}, True),
        ({"phase": "Pending"}, False),
        ({"phase": "Succeeded"}, False),
        ({"ready": False}, False),
        ({"deleting": True}, False),
    ],
)
def test_a_pod_is_ready_when_it_runs_is_ready_and_stays(changes: JsonObject, ready: bool) -> None:
    assert pod_is_ready(pod(**changes)) == ready
    assert state(pod(**changes), workers()) == GroupState(ready=ready, updated=True)
    assert state(pod(**changes), None, size=1) == GroupState(ready=ready, updated=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, GroupState(True, True), id="all there"),
        pytest.param({"available": 2}, GroupState(False, True), id="a worker is not available"),
        pytest.param({"rolled": False}, GroupState(False, True), id="workers of two revisions"),
        pytest.param({"owner": "uid of the leader before"}, GroupState(False, True), id="of the previous leader"),
        pytest.param({"owner": ""}, GroupState(False, True), id="orphaned"),
        pytest.param({"revision": "r1"}, GroupState(True, False), id="old revision"),
    ],
)
def test_workers_count_by_their_statefulset(changes: JsonObject, expected: GroupState) -> None:
    assert state(pod(), workers(**changes)) == expected


def test_a_group_without_the_statefulset_of_its_workers_does_not_exist() -> None:
    assert state(pod(), None) is None


def test_a_group_of_an_old_revision_is_not_updated() -> None:
    assert state(pod(revision="r1"), workers()) == GroupState(ready=True, updated=False)
    assert state(pod(revision="r1"), None, size=1) == GroupState(ready=True, updated=False)


def test_a_group_that_was_placed_by_other_rules_is_not_updated() -> None:
    placed = pod(annotations={group_labels.EXCLUSIVE: "rack"})
    assert leader_is_updated(placed, REVISION, {group_labels.EXCLUSIVE: "rack"})
    assert not leader_is_updated(placed, REVISION, {group_labels.EXCLUSIVE: "zone"})
    assert not leader_is_updated(placed, REVISION, {})
    assert not leader_is_updated(pod(), REVISION, {group_labels.EXCLUSIVE: "rack"})


@pytest.mark.parametrize(
    ("labels", "wanted", "expected"),
    [
        ({group_labels.REVISION: "r2"}, "r2", True),
        ({group_labels.REVISION: "r1"}, "r2", False),
        ({}, "r2", False),
        ({}, "", False),
    ],
)
def test_pods_and_stateful_sets_have_the_revision_of_their_label(
    labels: JsonObject, wanted: str, expected: bool
) -> None:
    metadata = {"labels": labels, "annotations": {group_labels.EXCLUSIVE: "rack"}}
    assert has_revision(msgspec.convert({"metadata": metadata}, Pod), wanted) is expected
    assert has_revision(msgspec.convert({"metadata": metadata}, GroupStatefulSet), wanted) is expected


def test_only_annotations_about_placement_count_as_placement() -> None:
    annotations = {group_labels.EXCLUSIVE: "rack", group_labels.SUBGROUP_EXCLUSIVE: "", "team": "a"}
    assert placement_of(annotations) == {group_labels.EXCLUSIVE: "rack"}


@pytest.mark.parametrize(("noted", "size"), [("3", 3), ("", 4), ("many", 4), (None, 4)])
def test_a_group_has_the_size_that_its_leader_notes(noted: str | None, size: int) -> None:
    annotations = {} if noted is None else {group_labels.SIZE: noted}
    assert group_size(pod(annotations=annotations), 4) == size


@pytest.mark.parametrize(
    ("members", "ready"),
    [
        pytest.param([pod(), pod("llm-1-1", worker="1")], True, id="leader and worker"),
        pytest.param([pod(), pod("llm-1-1", worker="1", ready=False)], False, id="worker not ready"),
        pytest.param([pod(), pod("llm-1-1", worker="1", deleting=True)], False, id="worker terminating"),
        pytest.param([pod("llm-1-1", worker="1"), pod("llm-1-2", worker="2")], False, id="no leader"),
        pytest.param([pod()], False, id="too few"),
        pytest.param([], False, id="none"),
    ],
)
def test_a_group_is_ready_by_its_pods_when_all_of_them_are(members: list[Pod], ready: bool) -> None:
    assert pods_are_ready(members, 2) == ready


@given(st.dictionaries(st.integers(0, 9), st.builds(GroupState, st.booleans(), st.booleans())), st.integers(0, 12))
def test_groups_are_listed_by_index_with_gaps_filled(states: dict[int, GroupState], count: int) -> None:
    listed = GroupsInOrder(states, count)
    assert len(listed) == count
    assert all(found == states.get(index, ABSENT) for index, found in enumerate(listed))
    assert all(found.done == (found.ready and found.updated) for found in listed)


def test_a_group_that_does_not_exist_is_neither_ready_nor_updated() -> None:
    assert (ABSENT.exists, ABSENT.ready, ABSENT.updated) == (False, False, False)
    assert GroupState(ready=False, updated=False).exists, "unless said otherwise"
    assert [*GroupsInOrder({}, 2)] == [ABSENT, ABSENT]
